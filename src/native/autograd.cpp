// Makes what a Rust function computed a node of LibTorch's graph, whose gradients another Rust function gives.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

using at::Tensor;
using torch::autograd::Node;
using torch::autograd::variable_list;

extern "C" {
// Rust: gradients of the outputs (null: none) to new tensors, one an input, null where `wanted` is 0 or there is none.
// Returns null, or a message made by malloc.
typedef char* (*Backward)(void* closure, Tensor* const* gradients, const uint8_t* wanted, Tensor** results);
typedef void (*Drop)(void* closure);
}

namespace {

struct RustNode : Node {
  void* closure;
  Backward backward;
  Drop drop;
  size_t inputs;

  RustNode(void* closure, Backward backward, Drop drop, size_t inputs)
      : closure(closure), backward(backward), drop(drop), inputs(inputs) {}

  ~RustNode() override {
    release();
  }

  void release() {
    if (closure != nullptr) {
      drop(closure);
      closure = nullptr;
    }
  }

  std::string name() const override {
    return "RustNode";
  }

  // A graph that is kept (retain_graph) calls apply again and never this.
  void release_variables() override {
    release();
  }

  variable_list apply(variable_list&& gradients) override {
    if (closure == nullptr) {
      throw std::runtime_error("the backward pass was run twice through a graph that was not kept");
    }
    if (c10::GradMode::is_enabled()) {
      throw std::runtime_error("this function has no second derivative");
    }
    std::vector<Tensor*> given;
    for (auto& gradient : gradients) {
      given.push_back(gradient.defined() ? &gradient : nullptr);
    }
    std::vector<uint8_t> wanted;
    for (size_t input = 0; input < inputs; ++input) {
      wanted.push_back(task_should_compute_output(input) ? 1 : 0);
    }
    std::vector<Tensor*> results(inputs, nullptr);
    char* message = backward(closure, given.data(), wanted.data(), results.data());
    variable_list made(inputs);
    for (size_t input = 0; input < inputs; ++input) {
      if (results[input] != nullptr) {
        made[input] = std::move(*results[input]);
        delete results[input];
      }
    }
    if (message != nullptr) {
      std::string text(message);
      std::free(message);
      throw std::runtime_error(text);
    }
    return made;
  }
};

char* copy(const char* text) {
  return strdup(text);
}

} // namespace

extern "C" {

// Whether gradients are recorded on this thread and one of the inputs wants some.
bool synthesizer_wants_gradient(Tensor* const* inputs, size_t count) {
  if (!c10::GradMode::is_enabled()) {
    return false;
  }
  for (size_t input = 0; input < count; ++input) {
    if (inputs[input]->requires_grad()) {
      return true;
    }
  }
  return false;
}

// The outputs become results of a node whose inputs are `inputs`. Takes the closure in any case. Null, or a message made by
// malloc.
char* synthesizer_record(
    Tensor* const* inputs,
    size_t input_count,
    Tensor* const* outputs,
    size_t output_count,
    void* closure,
    Backward backward,
    Drop drop) {
  try {
    auto node = std::shared_ptr<RustNode>(
        new RustNode(closure, backward, drop, input_count), torch::autograd::deleteNode);
    torch::autograd::edge_list edges;
    for (size_t input = 0; input < input_count; ++input) {
      edges.push_back(torch::autograd::impl::gradient_edge(*inputs[input]));
    }
    node->set_next_edges(std::move(edges));
    for (size_t output = 0; output < output_count; ++output) {
      torch::autograd::set_history(*outputs[output], node);
    }
    return nullptr;
  } catch (const std::exception& error) {
    return copy(error.what());
  }
}

// The next 64 bits of LibTorch's own generator for the CPU.
uint64_t synthesizer_random() {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}
}
