//! Damaged files of every kind: whatever lies under results and cache is truncated, emptied, changed or replaced.

use crate::place::{files, End, Ended, Place, Reference, RUNS};
use crate::Verdict;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::Rng;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Truncated,
    Emptied,
    BitFlipped,
    OtherBytes,
    Longer,
    Folder,
    Missing,
    Unreadable,
    OtherRuns,
}

const DAMAGES: [Damage; 9] = [
    Damage::Truncated,
    Damage::Emptied,
    Damage::BitFlipped,
    Damage::OtherBytes,
    Damage::Longer,
    Damage::Folder,
    Damage::Missing,
    Damage::Unreadable,
    Damage::OtherRuns,
];

impl Damage {
    /// Damages a file; false where this damage is none here.
    fn apply(self, path: &Path, rng: &mut StdRng) -> bool {
        let before = std::fs::read(path).unwrap();
        let mut bytes = before.clone();
        match self {
            Damage::Truncated => bytes.truncate(rng.random_range(0..bytes.len().max(1))),
            Damage::Emptied => bytes.clear(),
            Damage::BitFlipped if !bytes.is_empty() => {
                let at = rng.random_range(0..bytes.len());
                bytes[at] ^= 1 << rng.random_range(0..8);
            }
            Damage::OtherBytes if !bytes.is_empty() => {
                let at = rng.random_range(0..bytes.len());
                let end = (at + rng.random_range(1..64)).min(bytes.len());
                bytes[at..end].iter_mut().for_each(|byte| *byte = rng.random());
            }
            Damage::Longer => bytes.extend((0..rng.random_range(1..64)).map(|_| rng.random::<u8>())),
            Damage::Folder => {
                std::fs::remove_file(path).unwrap();
                std::fs::create_dir(path).unwrap();
                return true;
            }
            Damage::Missing => {
                std::fs::remove_file(path).unwrap();
                return true;
            }
            Damage::Unreadable => {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
                let is_damaged = std::fs::read(path).is_err();
                if !is_damaged {
                    // root reads it all the same
                    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
                }
                return is_damaged;
            }
            Damage::OtherRuns => {
                let text = path.to_string_lossy();
                let other = match text.contains(RUNS[0]) {
                    true => text.replace(RUNS[0], RUNS[1]),
                    false => text.replace(RUNS[1], RUNS[0]),
                };
                match std::fs::read(other) {
                    Ok(other) => bytes = other,
                    Err(_) => return false,
                }
            }
            _ => return false,
        }
        std::fs::write(path, &bytes).unwrap();
        bytes != before
    }
}

/// Files that no run reads again.
fn is_idle(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.contains("tfevents")
}

/// Damages a file of some, and says which.
fn damage(place: &Place, found: &[PathBuf], rng: &mut StdRng) -> Option<(PathBuf, Damage, String)> {
    let mut found: Vec<&PathBuf> = found.iter().filter(|path| !is_idle(path)).collect();
    found.shuffle(rng);
    for path in found {
        let damage = *DAMAGES.choose(rng).unwrap();
        if damage.apply(path, rng) {
            let root = place.path("");
            let what = format!("{}: {} {damage:?}", place.toy.name, path.strip_prefix(&root).unwrap_or(path).display());
            return Some((path.clone(), damage, what));
        }
    }
    None
}

/// After a run that was stopped: rebuilt with the same results, or refused with the file's name, after which its removal or
/// `--fresh` gives the same results.
pub fn unfinished(rng: &mut StdRng) -> Result<Verdict, String> {
    let place = Place::any(rng);
    // stopped in the first run, in its scoring or in the second run
    let steps = rng.random_range(1..40).to_string();
    place.ended(place.run(&["--stop-after", &steps]))?.expect("a stop", &[0, 130], None)?;
    if rng.random_bool(0.3) {
        place.ended(place.run(&["--stop-after", &steps]))?.expect("a second stop", &[0, 130], None)?;
    }
    let Some((path, _, what)) = damage(&place, &files(&place.path("results")), rng) else {
        return Ok(Verdict::Skipped("nothing to damage".into()));
    };
    let ended = place.ended(place.run(&[])).map_err(|why| format!("{what}: {why}"))?;
    let ended = ended.expect(&format!("{what} after {steps} steps"), &[0, 1, 2], None)?;
    recovered(&place, &path, &what, ended)
}

/// The rule of every damage. A file that is not used any more may stay as it is, if `verify` finds it.
fn recovered(place: &Place, path: &Path, what: &str, ended: Ended) -> Result<Verdict, String> {
    if ended.end != End::Code(0) {
        let name = path.file_name().unwrap().to_string_lossy();
        // a folder may be named in its stead, or the run by its name
        let run = RUNS.iter().find(|run| path.to_string_lossy().contains(*run));
        if !ended.said.contains(&*name) && !run.is_some_and(|run| ended.said.contains(run)) {
            return Err(format!("{what}: the message does not name the file:\n{}", ended.said));
        }
        let again = place.ended(place.run(&["--fresh"]))?;
        if again.end != End::Code(0) {
            // what --fresh refuses to delete is the user's to remove
            if !again.said.contains(&*name) {
                return Err(format!("{what}: --fresh does not name the file:\n{}", again.said));
            }
            let _ = std::fs::remove_dir_all(path);
            let _ = std::fs::remove_file(path);
        }
        place.finish(&format!("{what}; refused, and begun again"))?;
        return Ok(Verdict::Ok);
    }
    if place.compare(&[]).is_ok() {
        return place.no_temporaries().map(|()| Verdict::Ok).map_err(|why| format!("{what}: {why}"));
    }
    // the damaged file alone may differ, and then whoever uses it must notice
    place.compare(&[path]).map_err(|why| format!("{what}: {why}; said:\n{}", ended.said))?;
    noticed(place, path, what)
}

/// Whether the command that uses a file of a finished run names it.
fn noticed(place: &Place, path: &Path, what: &str) -> Result<Verdict, String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let verified = place.ended(place.command(&["verify"]))?.expect(what, &[0, 1], None)?;
    if verified.end == End::Code(1) && verified.said.contains(&name) {
        return Ok(Verdict::Ok);
    }
    let run = RUNS.iter().find(|run| path.to_string_lossy().contains(*run));
    if let Some(run) = run {
        let folder = place.column().join(run);
        let generated = place.ended(place.command(&["generate", &folder.to_string_lossy()]))?;
        let generated = generated.expect(what, &[0, 1, 2], None)?;
        if generated.end != End::Code(0) && (generated.said.contains(&name) || name == "config.toml") {
            return Ok(Verdict::Ok);
        }
    }
    Err(format!("{what}: neither run, verify nor generate notices it"))
}

/// After a finished run.
pub fn finished(rng: &mut StdRng) -> Result<Verdict, String> {
    let place = Place::any(rng);
    let place = Reference::of(place.toy.name).copy();
    let Some((path, _, what)) = damage(&place, &files(&place.path("results")), rng) else {
        return Ok(Verdict::Skipped("nothing to damage".into()));
    };
    let what = format!("finished, {what}");
    for arguments in [&["report"][..], &["verify"], &["validate", &format!("{}.toml", place.toy.name)]] {
        let ended = place.ended(place.command(arguments)).map_err(|why| format!("{what}: {why}"))?;
        ended.expect(&format!("{what}: {arguments:?}"), &[0, 1, 2], None)?;
    }
    let ended = place.ended(place.run(&[]))?.expect(&what, &[0, 1, 2], None)?;
    recovered(&place, &path, &what, ended)
}

/// Damage in the cache of tokens and tokenizers: it is rebuilt, or refused with the file's name.
pub fn cache(rng: &mut StdRng) -> Result<Verdict, String> {
    let place = Place::any(rng);
    let steps = rng.random_range(1..8).to_string();
    place.ended(place.run(&["--stop-after", &steps]))?.expect("a stop", &[0, 130], None)?;
    let mut all = String::new();
    for _ in 0..rng.random_range(1..4) {
        let Some((path, damage, what)) = damage(&place, &files(&place.path("cache")), rng) else { break };
        all += &format!("{what}; ");
        let ended = place.ended(place.run(&["--stop-after", "1"])).map_err(|why| format!("{all}: {why}"))?;
        let ended = ended.expect(&all, &[0, 1, 2, 130], None)?;
        if let End::Code(1 | 2) = ended.end {
            if !ended.said.contains(&*path.file_name().unwrap().to_string_lossy()) {
                return Err(format!("{all}the message does not name the file:\n{}", ended.said));
            }
            if !matches!(damage, Damage::Folder | Damage::Unreadable) {
                return Err(format!("{all}the cache is not rebuilt:\n{}", ended.said));
            }
            let _ = std::fs::remove_dir_all(&path);
            let _ = std::fs::remove_file(&path);
        }
    }
    place.finish(&all)?;
    Ok(Verdict::Ok)
}

/// Random bytes on the standard input of a trained model: one answer per line, or the line that is refused.
pub fn input(rng: &mut StdRng) -> Result<Verdict, String> {
    let place = Reference::of(Place::any(rng).toy.name).copy();
    let pieces: [&[u8]; 14] = [
        b"lamp door\n",
        b"\n",
        b" \n",
        b"\r\n",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\0",
        b"<mask>",
        b"\t",
        b"\\n",
        b"1 2 3",
        b"\xe2\x80\xa8",
        b"\xf0\x9f\x92\xa9",
        b"a",
    ];
    let mut input: Vec<u8> = Vec::new();
    for _ in 0..rng.random_range(0..12) {
        let times = if rng.random_bool(0.05) { rng.random_range(1..20_000) } else { 1 };
        input.extend(pieces.choose(rng).unwrap().repeat(times));
    }
    let file = place.path("input");
    std::fs::write(&file, &input).unwrap();
    let what =
        format!("{}: {:?}", place.toy.name, String::from_utf8_lossy(&input).chars().take(300).collect::<String>());
    let mut command = place.command(&["generate", &place.column().join(RUNS[0]).to_string_lossy(), "--json"]);
    command.stdin(std::fs::File::open(&file).unwrap());
    let ended = place.ended(command).map_err(|why| format!("{what}: {why}"))?.expect(&what, &[0, 2], None)?;
    let answers = ended.said.lines().filter(|line| line.starts_with("{\"")).count();
    let lines = input.split(|byte| *byte == b'\n').count() - usize::from(input.is_empty() || input.ends_with(b"\n"));
    match ended.end {
        End::Code(0) if answers != lines => {
            Err(format!("{what}: {answers} answers to {lines} lines:\n{:.2000}", ended.said))
        }
        End::Code(_) if ended.said.len() > 100_000 + 20 * input.len() => Err(format!("{what}: a very long message")),
        _ => Ok(Verdict::Ok),
    }
}
