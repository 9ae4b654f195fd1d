//! How far a run is. The plan, the runs at a time and the column's CSV all ask [`look`], so that no two of them disagree.

use super::checkpoint;
use super::outcome::{metrics_file, Row};
use crate::experiment::row::row_key;
use crate::experiment::{PlannedRun, Run};
use crate::regular;
use crate::task::evaluation::DIGESTS;
use anyhow::{bail, Context, Result};
use serde_json::Value;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How far a run is.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// Its folder holds neither a result nor a checkpoint of it.
    New,
    /// It has a checkpoint, and no result.
    Started {
        /// Steps of the checkpoint.
        step: u64,
    },
    /// `metrics.json` is whole, and its config hash is the planned one.
    Done(Row),
    /// The folder holds a run of the same name with other settings.
    OtherSettings {
        /// Config hash of the settings that were found.
        found: String,
        /// The lines that differ, where `config.toml` tells them.
        differences: String,
    },
}

/// What was found in a run's folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// How far the run is.
    pub standing: Standing,
    /// Why `metrics.json`, which is there, is not the result of this run, or that `config.toml` is damaged, and what follows.
    pub remark: Option<String>,
}

/// The resolved settings in a run's folder.
pub fn config_file(folder: &Path) -> PathBuf {
    folder.join("config.toml")
}

/// Looks at the folder of a run; nothing is changed.
///
/// A `metrics.json` that is damaged, lacks keys, or belongs to another run or to other settings does not count: the remark
/// says so, and the run is scored again from its checkpoint, or trained again without one.
///
/// # Errors
/// A file that cannot be read or that is a folder, a checkpoint that is damaged, a `config.toml` that is damaged where no
/// checkpoint says what it was. The message says what to remove.
pub fn look(planned: &PlannedRun) -> Result<Found> {
    let folder = &planned.folder;
    let config = config_file(folder);
    let mut remarks = Vec::new();
    if let Some(bytes) = read(&config)? {
        let remedy = || {
            format!(
                "{}: not a resolved run. Remove this file, and the run resumes if its checkpoint is of these settings; \
                 or start it again with --fresh --only {}",
                config.display(),
                planned.name
            )
        };
        let found = String::from_utf8(bytes)
            .map_err(anyhow::Error::from)
            .and_then(|text| Ok((Run::from_toml(&text)?.hash(), text)))
            .with_context(remedy);
        match found {
            Ok((hash, _)) if hash == planned.hash => {}
            // the checkpoint has a checksum, and config.toml has none
            _ if is_saved_as_planned(planned) => remarks.push(format!(
                "{}: damaged or changed, because the run's checkpoint is of the planned settings; training writes it again",
                config.display()
            )),
            // A clean clone has the committed config.toml of a run, and neither its result nor its checkpoint.
            Ok((found, _)) if holds_nothing(folder)? => remarks.push(format!(
                "{}: of other settings (config {found}), with neither result nor checkpoint; training writes it again",
                config.display()
            )),
            Ok((found, text)) => {
                let differences = differences(&text, &planned.run.to_toml());
                return Ok(Found { standing: Standing::OtherSettings { found, differences }, remark: None });
            }
            Err(error) => return Err(error),
        }
    }
    let said = |remarks: Vec<String>| (!remarks.is_empty()).then(|| remarks.join("; "));
    let metrics = metrics_file(folder);
    let fault = match read(&metrics)?.map(|bytes| result_of(&bytes, planned)) {
        Some(Ok(row)) => return Ok(Found { standing: Standing::Done(row), remark: said(remarks) }),
        Some(Err(fault)) => Some(fault),
        None => None,
    };
    let standing = started(planned)?;
    remarks.extend(fault.map(|fault| {
        let next = match &standing {
            Standing::Started { step } if *step >= planned.run.train.steps => {
                "the run is scored again from its checkpoint".to_string()
            }
            Standing::Started { step } => format!("the run resumes from its checkpoint of step {step}"),
            _ => "the run has no checkpoint and is trained again".to_string(),
        };
        format!("{}: {fault}; {next}", metrics.display())
    }));
    Ok(Found { standing, remark: said(remarks) })
}

/// Whether a folder has neither a result nor a checkpoint, so that training a run there loses nothing.
fn holds_nothing(folder: &Path) -> Result<bool> {
    Ok(!metrics_file(folder).exists() && checkpoint::standing(folder)?.is_none())
}

/// Whether a checkpoint that can be checked was saved by a run of the planned settings.
fn is_saved_as_planned(planned: &PlannedRun) -> bool {
    let state = checkpoint::standing(&planned.folder).ok().flatten();
    state.is_some_and(|state| state.numerics.is_some() && state.config_hash == planned.hash)
}

fn started(planned: &PlannedRun) -> Result<Standing> {
    let Some(state) = checkpoint::standing(&planned.folder)? else { return Ok(Standing::New) };
    // config.toml may have been deleted
    if !state.config_hash.is_empty() && state.config_hash != planned.hash {
        let differences = "its checkpoint does not tell which".to_string();
        return Ok(Standing::OtherSettings { found: state.config_hash, differences });
    }
    Ok(Standing::Started { step: state.step })
}

/// A file's bytes; `None` if it is not there.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match regular::read(path, regular::RECORD) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(_) if path.is_dir() => bail!("{}: is a folder and must be a file; remove it", path.display()),
        Err(error) => {
            Err(error).with_context(|| format!("{}: cannot read; make it readable, or remove it", path.display()))
        }
    }
}

/// Columns that every finished run has.
const REQUIRED: [&str; 12] = [
    "title",
    "task",
    "mix",
    "variant",
    "seed",
    "trainable_parameters",
    "total_parameters",
    "dev.loss",
    "steps",
    "config_hash",
    "data_hash",
    "version",
];

/// The row in the bytes of a `metrics.json`, or why they are not the result of this run.
fn result_of(bytes: &[u8], planned: &PlannedRun) -> std::result::Result<Row, String> {
    let mut row: Row = serde_json::from_slice(bytes).map_err(|error| format!("damaged ({error})"))?;
    // `verify` checks them; they are no column.
    row.shift_remove(DIGESTS);
    let missing: Vec<&str> = REQUIRED.into_iter().filter(|key| !row.contains_key(*key)).collect();
    if !missing.is_empty() {
        return Err(format!("incomplete (without {})", missing.join(", ")));
    }
    if let Some((key, _)) = row.iter().find(|(_, value)| value.is_array() || value.is_object()) {
        return Err(format!("damaged ({key} is not one value)"));
    }
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    let run = &planned.run;
    let (mix, variant) = (run.mix.to_string(), run.variant.as_deref().unwrap_or_default());
    let is_of_run = row_key(text("mix"), text("variant")) == row_key(&mix, variant) && row["seed"] == run.seed;
    if !is_of_run {
        let seed = &row["seed"];
        return Err(format!(
            "the result of another run (mix {:?}, variant {:?}, seed {seed})",
            text("mix"),
            text("variant")
        ));
    }
    if text("config_hash") != planned.hash {
        return Err(format!("the result of other settings (config {}, wanted {})", row["config_hash"], planned.hash));
    }
    if text("data_hash").is_empty() || !matches!(&row["steps"], Value::Number(steps) if steps.is_u64()) {
        return Err("damaged (data_hash or steps is blank)".into());
    }
    Ok(row)
}

/// The lines in which two config files differ, in words.
fn differences(found: &str, wanted: &str) -> String {
    let (found, wanted): (Vec<&str>, Vec<&str>) = (found.lines().collect(), wanted.lines().collect());
    let only = |these: &[&str], those: &[&str]| {
        let lines: Vec<String> =
            these.iter().filter(|line| !those.contains(line)).map(|line| line.to_string()).collect();
        if lines.is_empty() {
            "nothing".to_string()
        } else {
            lines.join(", ")
        }
    };
    format!("there: {}; here: {}", only(&found, &wanted), only(&wanted, &found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use std::fs;

    fn planned(folder: &Path) -> PlannedRun {
        let text = "task = \"language-modelling\"\nmix = \"R+V\"\nseeds = [3]\n";
        let mut plan = Experiment::parse(Path::new("toy.toml"), text).unwrap().plan(folder).unwrap();
        plan.runs.remove(0)
    }

    /// As every finished run of this plan has it.
    fn whole(planned: &PlannedRun) -> Row {
        let text = format!(
            r#"{{"title": "Toy", "task": "language-modelling", "mix": "R+V", "variant": "", "seed": 3, "trainable_parameters": 1,
            "total_parameters": 1, "dev.loss": 2.5, "steps": 4, "config_hash": "{}", "data_hash": "d", "version": "0.1.0"}}"#,
            planned.hash
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn only_a_whole_result_of_this_run_and_these_settings_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let planned = planned(folder.path());
        fs::create_dir_all(&planned.folder).unwrap();
        let metrics = metrics_file(&planned.folder);
        assert_eq!(look(&planned).unwrap(), Found { standing: Standing::New, remark: None });
        let good = whole(&planned);
        fs::write(&metrics, serde_json::to_string(&good).unwrap()).unwrap();
        assert_eq!(look(&planned).unwrap(), Found { standing: Standing::Done(good.clone()), remark: None });

        let with = |key: &str, value: Value| {
            let mut row = good.clone();
            row.insert(key.into(), value);
            serde_json::to_vec(&row).unwrap()
        };
        let without = |key: &str| {
            let row: Row = good.clone().into_iter().filter(|(name, _)| name != key).collect();
            serde_json::to_vec(&row).unwrap()
        };
        let text = serde_json::to_vec(&good).unwrap();
        let mut faulty = vec![
            (b"{}".to_vec(), "incomplete (without title, task, mix"),
            (Vec::new(), "damaged"),
            (b"[]".to_vec(), "damaged"),
            (b"null".to_vec(), "damaged"),
            (b"\xff\xfe{}".to_vec(), "damaged"),
            (text[..text.len() / 2].to_vec(), "damaged"),
            (vec![0; text.len()], "damaged"),
            (with("config_hash", "0123456789abcdef".into()), "other settings"),
            (with("config_hash", Value::Null), "other settings"),
            (with("mix", "R+D".into()), "another run"),
            (with("variant", "deep".into()), "another run"),
            (with("seed", 4.into()), "another run"),
            (with("seed", "3".into()), "another run"),
            (with("data_hash", "".into()), "damaged"),
            (with("steps", Value::Null), "damaged"),
            (with("dev.loss", serde_json::json!([1])), "damaged"),
        ];
        faulty.extend(REQUIRED.map(|key| (without(key), "incomplete")));
        for (bytes, why) in faulty {
            fs::write(&metrics, &bytes).unwrap();
            let found = look(&planned).unwrap();
            assert_eq!(found.standing, Standing::New, "{why}");
            let remark = found.remark.unwrap();
            assert!(
                remark.contains("metrics.json") && remark.contains(why) && remark.contains("trained again"),
                "{remark}"
            );
        }
        // the terms of a mix have no order
        fs::write(&metrics, with("mix", "V+R".into())).unwrap();
        assert!(matches!(look(&planned).unwrap().standing, Standing::Done(_)));
    }

    #[test]
    fn what_is_no_file_is_named_and_to_be_removed() {
        for name in ["metrics.json", "config.toml"] {
            let folder = tempfile::tempdir().unwrap();
            let planned = planned(folder.path());
            fs::create_dir_all(planned.folder.join(name)).unwrap();
            let error = look(&planned).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("remove it"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let planned = planned(folder.path());
        fs::create_dir_all(planned.folder.parent().unwrap()).unwrap();
        fs::write(&planned.folder, "").unwrap();
        let error = format!("{:#}", look(&planned).unwrap_err());
        assert!(error.contains("config.toml") && error.contains("cannot read"), "{error}");
    }

    #[test]
    fn other_settings_are_told_with_the_lines_that_differ() {
        let folder = tempfile::tempdir().unwrap();
        let planned = planned(folder.path());
        fs::create_dir_all(&planned.folder).unwrap();
        let other = Run { seed: 4, ..planned.run.clone() };
        fs::write(config_file(&planned.folder), other.to_toml()).unwrap();
        // though the result is of the planned settings
        fs::write(metrics_file(&planned.folder), serde_json::to_vec(&whole(&planned)).unwrap()).unwrap();
        let Standing::OtherSettings { found, differences } = look(&planned).unwrap().standing else { panic!() };
        assert_eq!((found, differences.as_str()), (other.hash(), "there: seed = 4; here: seed = 3"));
    }

    #[test]
    fn settings_alone_do_not_hold_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let planned = planned(folder.path());
        fs::create_dir_all(&planned.folder).unwrap();
        // as in a clean clone, after the experiment file was changed
        let other = Run { seed: 4, ..planned.run.clone() };
        fs::write(config_file(&planned.folder), other.to_toml()).unwrap();
        let found = look(&planned).unwrap();
        assert_eq!(found.standing, Standing::New);
        assert!(found.remark.unwrap().contains("with neither result nor checkpoint"));
    }
}
