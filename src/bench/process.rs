//! A process that answers a line on its standard input by a line on its standard output.

use anyhow::{bail, Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The process; the end of its input, when this goes, ends it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// None once it is to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    name: String,
}

impl Process {
    /// Starts it; `name` stands for it in messages.
    ///
    /// # Errors
    /// A program that does not start.
    pub fn start(command: &mut Command, name: String) -> Result<Process> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let input = child.stdin.take();
        let output = child.stdout.take().with_context(|| format!("{name} has no output"))?;
        Ok(Process { child, input, output: BufReader::new(output), name })
    }

    /// Says a line and waits for the answer.
    ///
    /// # Errors
    /// A process that ended.
    pub fn ask(&mut self, line: &str) -> Result<String> {
        let input = self.input.as_mut().with_context(|| format!("{} has no input", self.name))?;
        writeln!(input, "{line}").and_then(|()| input.flush()).with_context(|| format!("{} ended", self.name))?;
        self.answer()
    }

    /// Waits for a line.
    ///
    /// # Errors
    /// A process that ended.
    pub fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).with_context(|| format!("cannot read what {} says", self.name))?;
        if line.is_empty() {
            bail!("{} ended without an answer; what it said of it stands above", self.name);
        }
        Ok(line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The end of its input ends it; by then it has nothing to say that anybody reads.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
