//! `synthesizer`: parse, dispatch, print `error: …` with its causes, exit code.

use clap::Parser;
use synthesizer::{cli, error, interrupt, native, out_of_memory};

#[global_allocator]
static ALLOCATOR: out_of_memory::Allocator = out_of_memory::Allocator;

/// The system calls this once the libraries are loaded and before they are initialized, which takes LibTorch a while: a
/// signal or a lack of memory in that time ends the process as a later one does.
#[cfg(target_os = "linux")]
#[used]
#[link_section = ".preinit_array"]
static BEFORE_LIBRARIES: extern "C" fn() = prepare;

/// Neither allocates nor uses what a library initializes.
extern "C" fn prepare() {
    interrupt::install();
    out_of_memory::end_on_uncaught_errors();
}

fn main() {
    prepare();
    error::catch_panics();
    native::device::choose_workspace();
    let code = match cli::Cli::parse().run() {
        Ok(()) => 0,
        Err(error) if error::is_unread(&error) => 0,
        Err(error) => {
            error::print(&error);
            error::exit_code(&error)
        }
    };
    error::finish(code)
}
