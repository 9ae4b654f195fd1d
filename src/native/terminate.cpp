// How the process ends when C++ throws what nobody catches: one message and exit code 1, no abort.

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <unistd.h>

namespace {

void say(const char* text, size_t length) {
  // nothing can be done about a closed standard error
  [[maybe_unused]] auto written = write(2, text, length);
}

void say(const char* text) {
  say(text, std::strlen(text));
}

void out_of_memory() {
  say("error: out of memory\n  try a smaller train.batch_tokens with a larger train.accumulate, or a smaller model\n");
}

[[noreturn]] void end() {
  if (std::exception_ptr error = std::current_exception()) {
    try {
      std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {
      out_of_memory();
    } catch (const std::exception& error) {
      const char* text = error.what();
      if (std::strstr(text, "allocate memory") != nullptr || std::strstr(text, "out of memory") != nullptr) {
        out_of_memory();
      } else {
        say("error: this should not happen: ");
        say(text, std::strcspn(text, "\n"));
        say("\n");
      }
    } catch (...) {
      say("error: this should not happen: C++ threw something that is no exception\n");
    }
  } else {
    say("error: this should not happen: C++ ended the program\n");
  }
  say("  results and checkpoints written so far are kept\n");
  _exit(1);
}

} // namespace

extern "C" void synthesizer_end_on_uncaught_errors() {
  std::set_terminate(end);
}
