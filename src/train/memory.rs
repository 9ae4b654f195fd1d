//! Memory of the process and of the machine: peaks by Linux's high-water mark, and how much there is.

use crate::native;
use std::io::Write;
use tch::Device;

/// Runs `work` and returns its value, and how many bytes the resident memory rose above what it was before; `None` where the system does not
/// tell (not Linux, or /proc closed), or where the memory in question is not the process's (CUDA: the caller does not ask).
///
/// Free memory that the allocator keeps is given back first, so that an earlier, larger run hides nothing; what `work`
/// leaves allocated counts too. Pages are 4 KiB, and Linux counts them per core in bundles: the last few hundred KiB are noise.
///
/// # Errors
/// Those of `work`.
pub fn peak_above<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(T, Option<u64>), E> {
    give_back();
    let reset = reset();
    let before = status("VmRSS:");
    let value = work()?;
    let peak = status("VmHWM:");
    let peak = match (reset, before, peak) {
        (true, Some(before), Some(peak)) => Some(peak.saturating_sub(before)),
        _ => None,
    };
    Ok((value, peak))
}

/// Bytes that a process may take on a device: of CUDA the device's memory, of the CPU the machine's, or the process's own
/// limit (`ulimit -v`) where that is less. `None` where the system does not tell.
pub fn available(device: Device) -> Option<u64> {
    if device != Device::Cpu {
        return native::device::memory(device).map(|memory| memory.total);
    }
    let text = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = text.as_deref().and_then(|text| kilobytes(text, "MemTotal:"));
    machine.into_iter().chain(limit()).min()
}

/// The limit of the process's address space, where there is one.
fn limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes to the structure that it is given.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Lets the allocator keep large blocks that were freed: a training step takes the same ones again and again, and getting
/// them from the system each time costs a page fault for every 4 KiB.
pub fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt only sets thresholds of the allocator.
    unsafe {
        // 0 means refused: glibc before 2.35 takes at most 32 MiB
        if libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30) == 0 {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        }
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}

fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim only returns free pages to the system, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Writing 5 sets the high-water mark to what is resident now (proc_pid_clear_refs(5)).
fn reset() -> bool {
    let file = std::fs::OpenOptions::new().write(true).open("/proc/self/clear_refs");
    file.and_then(|mut file| file.write_all(b"5")).is_ok()
}

/// Bytes of an entry of /proc/self/status, which is given in kB of 1024.
fn status(name: &str) -> Option<u64> {
    kilobytes(&std::fs::read_to_string("/proc/self/status").ok()?, name)
}

/// Bytes of an entry of such a text.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    fn touch(mebibytes: u64) -> Result<(), ()> {
        // Zeros would be pages that nobody has touched.
        std::hint::black_box(vec![1u8; (mebibytes * MEBIBYTE) as usize]);
        Ok(())
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_peak_is_seen_and_an_earlier_larger_one_is_not() {
        let large = peak_above(|| touch(200)).unwrap().1.unwrap();
        let ((), small) = peak_above(|| touch(20)).unwrap();
        let small = small.unwrap();
        // Other tests run in the same process, so only bounds that they can't cross.
        assert!((190 * MEBIBYTE..260 * MEBIBYTE).contains(&large), "{large}");
        assert!((18 * MEBIBYTE..90 * MEBIBYTE).contains(&small), "{small}");
        assert_eq!(peak_above(|| Err::<(), _>("stop")), Err("stop"));
        assert_eq!(peak_above(|| Ok::<_, ()>(7)).unwrap().0, 7);
    }
}
