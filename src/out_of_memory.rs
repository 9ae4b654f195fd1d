//! Running out of memory, or of threads, ends in one message instead of an abort with a backtrace.
//!
//! - Memory of Rust: [`Allocator`] ends the process with exit code 1. (An allocator may not unwind.)
//! - Memory of LibTorch: an error or a panic whose text [`is_in`] recognizes. [`caught`] returns the panic as an error, so
//!   that one run fails and the next one starts; elsewhere the panic hook of [`crate::error`] ends the process.
//! - C++ exceptions that nobody catches: the handler in `terminate.cpp`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Whether an error's text says that memory ran out: LibTorch's on the CPU and on CUDA, C++'s, the system's.
pub fn is_in(text: &str) -> bool {
    let signs =
        ["out of memory", "not enough memory", "can't allocate memory", "Cannot allocate memory", "std::bad_alloc"];
    signs.iter().any(|sign| text.contains(sign))
}

/// Whether an error's text says that the system gives no more threads.
pub fn is_of_threads(text: &str) -> bool {
    let lacks = ["Resource temporarily unavailable", "WouldBlock"].iter().any(|sign| text.contains(sign));
    lacks && ["thread", "Thread"].iter().any(|sign| text.contains(sign))
}

/// Calls of [`caught`] under way.
static CATCHERS: AtomicUsize = AtomicUsize::new(0);

/// Whether a panic of this text goes on to a [`caught`], so that the panic hook leaves it alone.
pub fn is_caught(text: &str) -> bool {
    is_in(text) && CATCHERS.load(SeqCst) > 0
}

/// Does `work`. A panic because of memory, on this thread or on one that it joins, becomes the panic's text; other panics go
/// on.
///
/// # Errors
/// The first line of the panic's text.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            CATCHERS.fetch_sub(1, SeqCst);
        }
    }
    CATCHERS.fetch_add(1, SeqCst);
    let end = End;
    let done = catch_unwind(AssertUnwindSafe(work));
    drop(end);
    done.or_else(|panic| match first_line(panic.as_ref()) {
        text if is_in(&text) => Err(text),
        _ => resume_unwind(panic),
    })
}

/// The first line of a panic's text. LibTorch adds a C++ backtrace to its first line, and a Debug text has it escaped.
pub fn first_line(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    line(text.unwrap_or_default()).to_string()
}

/// The first line of a text in which LibTorch's line ends may be escaped.
pub fn line(text: &str) -> &str {
    text.split('\n').next().and_then(|line| line.split("\\n").next()).unwrap_or_default()
}

/// The system's allocator; without memory it prints one message and ends the process with exit code 1.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: every call goes to the system's allocator unchanged; a null pointer is never returned.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        there(System.alloc(layout), layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        there(System.alloc_zeroed(layout), layout.size())
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        there(System.realloc(place, layout, size), size)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        System.dealloc(place, layout)
    }
}

#[inline]
fn there(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        fail(bytes);
    }
    memory
}

/// What is printed below every message about memory.
pub const ADVICE: &str = "  try a smaller train.batch_tokens with a larger train.accumulate, or a smaller model";
/// What is printed below every message that ends the process.
pub const KEPT: &str = "  results and checkpoints written so far are kept";

#[cold]
fn fail(bytes: usize) -> ! {
    // Nothing here allocates.
    let mut digits = [0u8; 20];
    let (mut at, mut rest) = (digits.len(), bytes);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let parts: [&[u8]; 7] = [
        b"error: out of memory: ",
        &digits[at..],
        b" bytes could not be allocated\n",
        ADVICE.as_bytes(),
        b"\n",
        KEPT.as_bytes(),
        b"\n",
    ];
    for part in parts {
        // SAFETY: the pointer and the length are those of a slice.
        unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
    crate::interrupt::leave(1)
}

unsafe extern "C" {
    fn synthesizer_end_on_uncaught_errors();
}

/// C++ exceptions that nobody catches end the process with one message and exit code 1.
pub fn end_on_uncaught_errors() {
    // SAFETY: sets a function pointer.
    unsafe { synthesizer_end_on_uncaught_errors() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_libtorch_and_the_system_are_recognized() {
        for text in [
            "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate \
             4096000000000 bytes. Error code 12 (Cannot allocate memory)",
            "[enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes.",
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.02 GiB is free.",
            "CUDA error: out of memory",
            "std::bad_alloc",
            "Cannot allocate memory (os error 12)",
        ] {
            assert!(is_in(text), "{text}");
            assert!(!is_of_threads(text), "{text}");
        }
        assert!(!is_in("mat1 and mat2 shapes cannot be multiplied"));
        for text in [
            "failed to spawn thread: Os { code: 11, kind: WouldBlock, message: \"Resource temporarily unavailable\" }",
            "The global thread pool has not been initialized.: ThreadPoolBuildError { kind: IOError(Os { code: 11, kind: WouldBlock, \
             message: \"Resource temporarily unavailable\" }) }",
        ] {
            assert!(is_of_threads(text) && !is_in(text), "{text}");
        }
    }

    #[test]
    fn a_panic_about_memory_is_an_error_and_others_go_on() {
        assert_eq!(caught(|| 3), Ok(3));
        let panic =
            || std::panic::resume_unwind(Box::new("CUDA out of memory. Tried\nException raised from".to_string()));
        let found: Result<(), String> = caught(panic);
        assert_eq!(found, Err("CUDA out of memory. Tried".into()));
        let of_thread =
            || std::thread::scope(|scope| scope.spawn(panic).join().unwrap_or_else(|panic| resume_unwind(panic)));
        let found: Result<(), String> = caught(of_thread);
        assert!(found.is_err());
        let other = catch_unwind(|| caught(|| resume_unwind(Box::new("index out of range"))));
        assert_eq!(first_line(other.unwrap_err().as_ref()), "index out of range");
    }
}
