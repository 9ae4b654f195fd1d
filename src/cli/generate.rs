//! `synthesizer generate`.

use super::stdin_lines::StdinLines;
use crate::task::{self, Cut};
use crate::terminal::tell;
use crate::train::device::{self, DeviceChoice};
use anyhow::{Context, Result};
use std::io::Write;
use std::path::PathBuf;

/// What a line of input is, by task: the long help.
const FORMS: &str = "\
One line in, one line out, in order. What a line holds depends on the run's task:
  translation               a sentence
  summarization             an article in one line
  language-modelling        the beginning of a text, which is completed
  masked-language-modelling a text with <mask> where words are missing
  dialogue                  persona lines, then turns, separated by \\n (a backslash and an n):
                              your persona: i ski.\\nhello\\nhi there\\nhow are you ?
                            the last turn is answered; data.personas and data.history of the
                            run apply. A run on a `text` corpus takes the line as it is.
  classification            a text; for pairs of texts two, with a tab between them

A blank line (nothing but white space, control and zero-width characters) gives an empty line,
as do two blank texts: training drops blank rows, so a model never learns them.
Lines are read as those of files: UTF-8, ended by a line feed or CR LF; a byte-order mark at
the start of a line is not read.";

/// Options of `generate`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = FORMS)]
pub struct Args {
    /// Folder of a finished run, such as results/mini/table2/ende/R+V-s1
    run_dir: PathBuf,
    /// Where to compute
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Lines taken together; 1 answers each line at once
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=65536))]
    batch: u64,
    /// Print JSON lines with `input` and `output`
    #[arg(long)]
    json: bool,
}

/// Reads lines from stdin, writes one line for each.
pub fn run(args: Args) -> Result<()> {
    let (run, weights) = super::run_folder::read(&args.run_dir)?;
    let device = device::resolve(args.device)?;
    let mut generator = task::build_generator(&run, &args.run_dir, device)?;
    super::run_folder::load_weights(&weights, generator.variables_mut())?;
    let mut session = Session { generator, json: args.json, first: 1, batch: Vec::new() };
    for line in StdinLines::new(std::io::stdin().lock()) {
        match line {
            Ok(line) => session.batch.push(line),
            Err(error) => {
                session.answer()?;
                return Err(error);
            }
        }
        if session.batch.len() as u64 == args.batch && !session.answer()? {
            return Ok(());
        }
    }
    session.answer().map(drop)
}

struct Session {
    generator: Box<dyn task::Generator>,
    json: bool,
    /// Number of the batch's first line.
    first: usize,
    batch: Vec<String>,
}

impl Session {
    /// Answers the lines at hand; false once nobody reads the answers any more.
    fn answer(&mut self) -> Result<bool> {
        if self.batch.is_empty() {
            return Ok(true);
        }
        let mut stdout = std::io::stdout().lock();
        let lines = std::mem::take(&mut self.batch);
        let (answers, failure) = match self.generator.generate(&lines) {
            Ok(answers) => (answers, None),
            Err(_) => self.one_by_one(&lines),
        };
        for (index, (input, output)) in lines.iter().zip(answers).enumerate() {
            if let Some(Cut { tokens, taken, from_end }) = output.cut {
                let which = if from_end { "last" } else { "first" };
                let line = self.first + index;
                tell(&format!("line {line}: {tokens} tokens, of which the model takes the {which} {taken}"));
            }
            let written = if self.json {
                writeln!(stdout, "{}", serde_json::json!({ "input": input, "output": output.text }))
            } else {
                writeln!(stdout, "{}", output.text.replace(['\n', '\r'], " "))
            };
            match written.and_then(|()| stdout.flush()) {
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(false),
                written => written.context("cannot write to stdout")?,
            }
        }
        self.first += lines.len();
        failure.map_or(Ok(true), Err)
    }

    /// The answers up to the first line that has none, and why it has none.
    fn one_by_one(&self, lines: &[String]) -> (Vec<task::Answer>, Option<anyhow::Error>) {
        let mut answers = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            match self.generator.generate(std::slice::from_ref(line)) {
                Ok(answer) => answers.extend(answer),
                Err(error) => return (answers, Some(error.context(format!("stdin, line {}", self.first + index)))),
            }
        }
        (answers, None)
    }
}
