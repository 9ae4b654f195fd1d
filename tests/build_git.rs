//! What build.rs finds out about the git commit.

#[path = "../build/git.rs"]
mod git;

use git::look;
use std::path::Path;
use std::process::Command;

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]);
    let output = command.args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

fn checkout() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("src/main.rs", "fn main() {}"), ("results/toy.csv", "mix\n"), ("Cargo.toml", "")] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    git(folder.path(), &["init", "--quiet"]);
    git(folder.path(), &["add", "."]);
    git(folder.path(), &["commit", "--quiet", "-m", "first"]);
    folder
}

#[test]
fn only_sources_make_the_tree_modified() {
    let folder = checkout();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let found = look(folder.path());
    assert_eq!((found.commit, found.state), (git(folder.path(), &["rev-parse", "HEAD"]), "clean"));
    write("results/toy.csv", "mix\nV\n");
    write("notes.txt", "");
    assert_eq!(look(folder.path()).state, "clean");
    write("src/new.rs", "");
    assert_eq!(look(folder.path()).state, "modified", "a source that is not tracked");
    std::fs::remove_file(folder.path().join("src/new.rs")).unwrap();
    write("src/main.rs", "fn main() { }");
    assert_eq!(look(folder.path()).state, "modified");
    git(folder.path(), &["add", "src"]);
    assert_eq!(look(folder.path()).state, "modified", "staged");
    git(folder.path(), &["commit", "--quiet", "-m", "second"]);
    assert_eq!(look(folder.path()).state, "clean");
    std::fs::remove_file(folder.path().join("src/main.rs")).unwrap();
    assert_eq!(look(folder.path()).state, "modified", "deleted");
}

#[test]
fn every_commit_changes_a_watched_file() {
    for reflog in ["true", "false"] {
        let folder = checkout();
        git(folder.path(), &["config", "core.logAllRefUpdates", reflog]);
        if reflog == "false" {
            std::fs::remove_dir_all(folder.path().join(".git/logs")).unwrap();
        }
        let contents =
            |found: &git::Checkout| found.watched.iter().map(|path| std::fs::read(path).ok()).collect::<Vec<_>>();
        let first = look(folder.path());
        let before = contents(&first);
        assert!(!before.is_empty() && before.iter().all(Option::is_some), "{first:?}");
        git(folder.path(), &["commit", "--quiet", "--allow-empty", "-m", "second"]);
        assert_ne!(contents(&first), before, "reflog {reflog}");
        assert_ne!(look(folder.path()).commit, first.commit);
        let before = contents(&first);
        git(folder.path(), &["checkout", "--quiet", "--detach", "HEAD~1"]);
        assert_ne!(contents(&first), before, "reflog {reflog}: checkout");
    }
}

#[test]
fn a_worktree_has_its_own_commit() {
    let folder = checkout();
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("worktree");
    git(folder.path(), &["worktree", "add", "--quiet", "-b", "side", path.to_str().unwrap()]);
    git(&path, &["commit", "--quiet", "--allow-empty", "-m", "second"]);
    let found = look(&path);
    assert_eq!(found.commit, git(&path, &["rev-parse", "HEAD"]));
    assert_ne!(found.commit, look(folder.path()).commit);
    assert!(found.watched.len() >= 2, "{found:?}");
}

#[test]
fn an_unpacked_archive_is_unknown_even_inside_a_repository() {
    let unknown = |folder: &Path| {
        let found = look(folder);
        assert_eq!((found.commit.as_str(), found.state, found.watched.len()), ("unknown", "unknown", 0));
    };
    unknown(tempfile::tempdir().unwrap().path());
    let folder = checkout();
    unknown(&folder.path().join("src"));
    // a repository without a commit
    let empty = tempfile::tempdir().unwrap();
    git(empty.path(), &["init", "--quiet"]);
    unknown(empty.path());
}
