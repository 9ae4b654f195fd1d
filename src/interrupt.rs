//! Signals that ask the process to end: Ctrl-C (SIGINT), SIGTERM, and a closed terminal (SIGHUP).
//!
//! [`install`] is the first thing that the program does. From then on such a signal ends the process at once with exit code
//! 130, and without destructors: they would free what other threads still use. A command whose work is worth saving calls
//! [`listen`]; after that the first signal only raises a flag, for which long work asks with [`check`], and whose error it
//! returns as it returns any other. What is finished by then is saved, half-written files are removed, and the command line
//! turns the error into exit code 130. A second Ctrl-C or SIGTERM ends the process at once.
//!
//! SIGHUP stays ignored where the process was started with it ignored (`nohup`). A closed terminal may send it several times,
//! so that it never counts as the second signal.

use std::mem::{zeroed, MaybeUninit};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

static ASKED: AtomicBool = AtomicBool::new(false);
static DEFERRED: AtomicBool = AtomicBool::new(false);
/// Whether the first signal only raises the flag.
static LISTENING: AtomicBool = AtomicBool::new(false);
/// Ctrl-C and SIGTERM so far.
static REQUESTS: AtomicUsize = AtomicUsize::new(0);
/// Guards of [`hold`] that are alive.
static HELD: AtomicUsize = AtomicUsize::new(0);

const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Exit code after an interrupt.
pub const EXIT_CODE: i32 = 130;

/// The user asked to stop, and the work at hand did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped by Ctrl-C")]
pub struct Interrupted;

/// Ends the process without destructors and `atexit` functions. Those of LibTorch and OpenMP are unsafe while other threads
/// run. Callers flush standard output first if it may hold half a line.
pub fn leave(code: i32) -> ! {
    // SAFETY: _exit is async-signal-safe and does not return.
    unsafe { libc::_exit(code) }
}

extern "C" fn on_signal(signal: libc::c_int) {
    let first = !ASKED.swap(true, SeqCst);
    let is_second = signal != libc::SIGHUP && REQUESTS.fetch_add(1, SeqCst) > 0;
    let listening = LISTENING.load(SeqCst);
    if is_second || (!listening && HELD.load(SeqCst) == 0) {
        leave(EXIT_CODE);
    }
    if first && listening {
        let text = "\nstopping, and saving what there is; once more to leave at once\n";
        // SAFETY: write is async-signal-safe, and its errno is restored for the code that was interrupted. A closed terminal
        // takes no line, which is no reason to stop saving.
        unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            libc::write(2, text.as_ptr().cast(), text.len());
            *errno = before;
        }
    }
}

/// Handles the signals for the rest of the process, and lets through those that came while they were blocked
/// ([`block_in_child`]). A write beyond the file-size limit (`ulimit -f`) becomes an error of the write instead of SIGXFSZ.
///
/// It calls nothing but the C library's signal functions, so that it may run before `main`.
pub fn install() {
    // SAFETY: the structures are plain memory that is valid when zero; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        action.sa_mask = set();
        for signal in SIGNALS {
            let mut before: libc::sigaction = zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut before);
            if signal == libc::SIGHUP && before.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set(), std::ptr::null_mut());
    }
}

/// Blocks the signals between `fork` and `exec` of this program: one that comes before the child has called [`install`]
/// waits until then, where it would otherwise kill the child.
pub fn block_in_child() {
    // SAFETY: sigprocmask is async-signal-safe, and the set is valid.
    unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, &set(), std::ptr::null_mut());
    }
}

fn set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset makes the set valid, and the signals are.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in SIGNALS {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// From now on the first signal only raises the flag for [`check`].
pub fn listen() {
    LISTENING.store(true, SeqCst);
}

/// While the guard lives, the first signal does not end the process, so that no half-written file is left behind; the guard's
/// end does. After [`listen`] it has no effect.
#[must_use]
pub fn hold() -> Hold {
    HELD.fetch_add(1, SeqCst);
    Hold(())
}

/// The guard of [`hold`].
#[derive(Debug)]
pub struct Hold(());

impl Drop for Hold {
    fn drop(&mut self) {
        if HELD.fetch_sub(1, SeqCst) == 1 && ASKED.load(SeqCst) && !LISTENING.load(SeqCst) {
            leave(EXIT_CODE);
        }
    }
}

/// Whether the user asked to stop.
pub fn asked() -> bool {
    ASKED.load(std::sync::atomic::Ordering::Relaxed)
}

/// An error once the user asked to stop: `interrupt::check()?` in every loop that may take long. It costs about a nanosecond.
///
/// # Errors
/// [`Interrupted`].
pub fn check() -> Result<(), Interrupted> {
    if asked() && !DEFERRED.load(std::sync::atomic::Ordering::Relaxed) {
        Err(Interrupted)
    } else {
        Ok(())
    }
}

/// Does `work` as if nobody had asked: it is short, or stopping half-way would lose too much. The caller checks again
/// afterwards. Calls must not be nested.
pub fn deferred<T>(work: impl FnOnce() -> T) -> T {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            DEFERRED.store(false, SeqCst);
        }
    }
    DEFERRED.store(true, SeqCst);
    let _end = End;
    work()
}
