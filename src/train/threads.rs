//! How many threads an operation gets on the CPU.

use std::collections::BTreeSet;
use std::path::Path;

/// The threads of one operation: what was asked for, else what OMP_NUM_THREADS says, else one a physical core. Products use the
/// arithmetic units of a core fully, so that a second thread on it has nothing to gain.
pub fn choose(asked: Option<i32>) {
    let by_environment = || std::env::var_os("OMP_NUM_THREADS").is_some();
    if let Some(threads) = asked.or_else(|| (!by_environment()).then(physical_cores).flatten()) {
        tch::set_num_threads(threads);
    }
}

/// Threads of one operation until it is dropped; then those of before.
#[derive(Debug)]
pub struct Scoped {
    before: i32,
}

impl Scoped {
    /// Sets them.
    pub fn set(threads: i32) -> Self {
        let before = tch::get_num_threads();
        if threads != before {
            tch::set_num_threads(threads);
        }
        Self { before }
    }
}

impl Drop for Scoped {
    fn drop(&mut self) {
        if tch::get_num_threads() != self.before {
            tch::set_num_threads(self.before);
        }
    }
}

/// Physical cores that this process may use; none where the system does not tell.
fn physical_cores() -> Option<i32> {
    let allowed = std::thread::available_parallelism().ok()?.get();
    let cores = distinct_cores(Path::new("/sys/devices/system/cpu"), &allowed_processors()?)?;
    i32::try_from(cores.min(allowed)).ok()
}

/// Numbers of the processors (hardware threads) that this process may run on.
#[cfg(target_os = "linux")]
fn allowed_processors() -> Option<Vec<usize>> {
    // SAFETY: the set is plain memory that the call fills, and CPU_ISSET reads within its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return None;
        }
        Some((0..libc::CPU_SETSIZE as usize).filter(|&processor| libc::CPU_ISSET(processor, &set)).collect())
    }
}

#[cfg(not(target_os = "linux"))]
fn allowed_processors() -> Option<Vec<usize>> {
    None
}

/// How many different cores these processors belong to, by Linux's list of each one's siblings.
fn distinct_cores(folder: &Path, processors: &[usize]) -> Option<usize> {
    let siblings = |processor: &usize| {
        std::fs::read_to_string(folder.join(format!("cpu{processor}/topology/thread_siblings_list"))).ok()
    };
    let cores: Option<BTreeSet<String>> = processors.iter().map(siblings).collect();
    cores.map(|cores| cores.len()).filter(|&count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_one_core() {
        let folder = tempfile::tempdir().unwrap();
        for (processor, siblings) in [(0, "0,4"), (1, "1,5"), (4, "0,4"), (5, "1,5"), (6, "6")] {
            let path = folder.path().join(format!("cpu{processor}/topology"));
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("thread_siblings_list"), format!("{siblings}\n")).unwrap();
        }
        let cores = |processors: &[usize]| distinct_cores(folder.path(), processors);
        assert_eq!(cores(&[0, 1, 4, 5, 6]), Some(3));
        assert_eq!(cores(&[4, 5]), Some(2), "a part of the machine");
        assert_eq!(cores(&[0, 4]), Some(1));
        assert_eq!(cores(&[0, 7]), None, "nothing is known of 7");
        assert_eq!(cores(&[]), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_no_more_cores_than_threads() {
        let processors = allowed_processors().unwrap();
        assert!(!processors.is_empty());
        if let Some(cores) = physical_cores() {
            assert!(cores >= 1 && cores as usize <= processors.len());
        }
    }
}
