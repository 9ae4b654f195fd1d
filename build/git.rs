//! The git commit of the sources, for build.rs. Its tests are in tests/build_git.rs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The files and folders that the program is made of.
pub const SOURCES: [&str; 6] = ["src", "build.rs", "build", "Cargo.toml", "Cargo.lock", ".cargo"];

/// What is known of a checkout.
#[derive(Debug, PartialEq, Eq)]
pub struct Checkout {
    /// 40 hexadecimal digits, or `unknown`.
    pub commit: String,
    /// Whether [`SOURCES`] are those of the commit: `clean`, `modified` or `unknown`. Results and documents don't count.
    pub state: &'static str,
    /// Files that change whenever another commit is checked out or made.
    pub watched: Vec<PathBuf>,
}

/// Looks at the checkout whose top folder is `folder`. Without git, or in a folder that is only a part of another
/// repository (an unpacked archive), everything is `unknown`.
pub fn look(folder: &Path) -> Checkout {
    known(folder).unwrap_or(Checkout { commit: "unknown".into(), state: "unknown", watched: Vec::new() })
}

fn known(folder: &Path) -> Option<Checkout> {
    let top = git(folder, &["rev-parse", "--show-toplevel"])?;
    if Path::new(top.trim()).canonicalize().ok()? != folder.canonicalize().ok()? {
        return None;
    }
    let commit = git(folder, &["rev-parse", "--verify", "HEAD"])?.trim().to_string();
    let mut status = vec!["status", "--porcelain", "--untracked-files=all", "--"];
    status.extend(SOURCES);
    let state = match git(folder, &status) {
        Some(changes) if changes.trim().is_empty() => "clean",
        Some(_) => "modified",
        None => "unknown",
    };
    // The log of HEAD grows with every commit, checkout and reset. Where it is switched off, the branch's file does.
    let branch = git(folder, &["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default();
    let files = ["HEAD", "logs/HEAD", "packed-refs", branch.trim()];
    let watched = files.iter().filter(|file| !file.is_empty()).filter_map(|file| {
        let path = folder.join(git(folder, &["rev-parse", "--git-path", file])?.trim());
        // cargo would build again and again for a file that is not there
        path.exists().then_some(path)
    });
    Some(Checkout { commit, state, watched: watched.collect() })
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // A build in a container is often another user's than the checkout. No lock is taken, so that nobody else's git fails.
    command.args(["--no-optional-locks", "-c", "safe.directory=*"]).args(arguments).current_dir(folder);
    // A build that a git hook starts must not look at the hook's repository or index.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"] {
        command.env_remove(name);
    }
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}
