//! The memory that this process may use.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes; `None` where the system does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// The smallest of the machine's memory, the control group's limit and `ulimit -v`.
    pub total: Option<u64>,
    /// What of it is free, or can be freed by dropping caches.
    pub available: Option<u64>,
}

/// Memory of this machine, as far as this process may use it.
pub fn memory() -> Memory {
    let about = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = control_groups(&groups, Path::new("/sys/fs/cgroup"));
    let smallest = |values: &[Option<u64>]| values.iter().flatten().min().copied();
    let (limit, left) = (
        limits.iter().map(|(limit, _)| *limit).min(),
        limits.iter().map(|(limit, used)| limit.saturating_sub(*used)).min(),
    );
    Memory {
        total: smallest(&[kibibytes(&about, "MemTotal:"), limit, address_space()]),
        available: smallest(&[kibibytes(&about, "MemAvailable:"), left, address_space()]),
    }
}

/// An entry of /proc/meminfo, which is given in kB of 1024.
fn kibibytes(about: &str, name: &str) -> Option<u64> {
    let value = about.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Limit and use of each control group that this process is in (version 2, then version 1), those without a limit left out.
fn control_groups(groups: &str, root: &Path) -> Vec<(u64, u64)> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, limit, used) = match controllers {
            "" => (root.to_owned(), "memory.max", "memory.current"),
            "memory" => (root.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
            _ => continue,
        };
        // in a container the path may be that of the host, and only the root is there
        let folder = root.join(path.trim_start_matches('/'));
        for folder in folder.ancestors().take_while(|folder| folder.starts_with(&root)) {
            if let Some(limit) = number(folder.join(limit)) {
                found.push((limit, number(folder.join(used)).unwrap_or(0)));
            }
        }
    }
    found
}

fn address_space() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call gets a valid place to write to.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_control_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/memory.max", "5000\n");
        write("a/memory.current", "1000\n");
        write("a/b/memory.max", "max\n");
        write("memory/c/memory.limit_in_bytes", "7000\n");
        let found = control_groups("0::/a/b\n5:cpu,cpuacct:/x\n4:memory:/c\n", root.path());
        assert_eq!(found, [(5000, 1000), (7000, 0)]);
        assert_eq!(control_groups("0::/elsewhere\nnonsense\n", root.path()), []);
        let about = "MemTotal:       24637120 kB\nMemAvailable:   23637120 kB\n";
        assert_eq!(kibibytes(about, "MemAvailable:"), Some(23_637_120 * 1024));
        assert_eq!(kibibytes(about, "SwapTotal:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_memory() {
        let Memory { total: Some(total), available: Some(available) } = memory() else { panic!("unknown") };
        assert!(available <= total && total > 1 << 28, "{available} of {total}");
    }
}
