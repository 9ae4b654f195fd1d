//! `run --jobs N`: several runs at a time, each a process of its own.

use super::plan::{standing, threads_of, Wanted};
use super::train::Ended;
use super::{close, folder, Args};
use crate::error::Outcome;
use crate::experiment::PlannedRun;
use crate::interrupt;
use crate::terminal::tell;
use crate::train::interrupt::Interrupt;
use crate::train::standing::Standing;
use anyhow::{bail, Context, Result};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Duration;
use tch::Device;

/// Trains every waiting run, `args.jobs` at a time. A run that fails does not stop the others; the first failure is the
/// result. Runs that other processes hold are left to them.
pub(super) fn run(args: &Args, all: &[Wanted], device: Device) -> Result<()> {
    let mut queue: Vec<(&Wanted, &PlannedRun)> = Vec::new();
    for wanted in all {
        for planned in wanted.runs() {
            if !is_done(planned)? {
                queue.push((wanted, planned));
            }
        }
    }
    let jobs = usize::from(args.jobs).min(queue.len()).max(1);
    let threads = (args.threads.unwrap_or_else(tch::get_num_threads) / jobs as i32).max(1);
    tell(&format!(
        "{} to train, {jobs} at a time with {threads} threads each, resumed runs with as many as before",
        queue.len()
    ));
    let interrupt = Interrupt::default();
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let mut failures = Vec::new();
    // A run that another process holds is tried again as long as others were trained in the meantime.
    loop {
        let ends = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some((wanted, planned)) = queue.get(next.fetch_add(1, Ordering::SeqCst)) {
                        if interrupt.asked() {
                            return;
                        }
                        let start = || {
                            let threads = threads_of(planned, device, args, threads)?;
                            child(&program, args, threads, &wanted.file, planned, &interrupt)
                        };
                        let ended = one(planned, start).and_then(|ended| {
                            if ended == Ended::Now {
                                wanted.write_csv(Some(planned))?;
                            }
                            Ok(ended)
                        });
                        ends.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((*wanted, *planned, ended));
                    }
                });
            }
        });
        let mut trained = false;
        queue.clear();
        for (wanted, planned, ended) in ends.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            match ended {
                Ok(Ended::Before) => {}
                Ok(Ended::Now) => trained = true,
                Ok(Ended::Held) => queue.push((wanted, planned)),
                Err(error) => failures.push(error),
            }
        }
        if queue.is_empty() || !trained || interrupt.asked() {
            break;
        }
    }
    close(all, &queue.iter().map(|(_, planned)| planned.name.as_str()).collect::<Vec<_>>())?;
    let interrupted = |error: &anyhow::Error| matches!(error.downcast_ref(), Some(Outcome::Interrupted(_)));
    // what failed by itself matters more than what was stopped
    failures.sort_by_key(interrupted);
    match failures.into_iter().next() {
        Some(error) => Err(error),
        None if interrupt.asked() => {
            Err(Outcome::Interrupted("what was running is done; the same command goes on with the rest".into()).into())
        }
        None => Ok(()),
    }
}

fn is_done(planned: &PlannedRun) -> Result<bool> {
    Ok(matches!(standing(planned)?.standing, Standing::Done(_)))
}

/// One run, unless it is done or another process holds it. `start` trains it in a process of its own.
fn one(planned: &PlannedRun, start: impl FnOnce() -> Result<()>) -> Result<Ended> {
    if is_done(planned)? {
        return Ok(Ended::Before);
    }
    if folder::is_held(planned)? {
        return Ok(Ended::Held);
    }
    start()?;
    // A process that finds the run held ends well too.
    Ok(if is_done(planned)? { Ended::Now } else { Ended::Held })
}

/// One run in a process of its own; its lines come out on our standard error.
fn child(
    program: &Path,
    args: &Args,
    threads: i32,
    file: &Path,
    planned: &PlannedRun,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut command = Command::new(program);
    command.arg("run").arg(file).args(["--name", &planned.name, "--lines", "--threads", &threads.to_string()]);
    command.args(["--device", &args.device.to_string()]).arg("--results").arg(&args.results);
    if args.resume_anyway {
        command.arg("--resume-anyway");
    }
    if let Some(steps) = args.stop_after {
        command.args(["--stop-after", &steps.to_string()]);
    }
    // LibTorch's pool is made by then with as many threads as OpenMP says
    command.env("OMP_NUM_THREADS", threads.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    bind(&mut command);
    let mut process = command
        .spawn()
        .map_err(|error| Outcome::Failed(format!("{}: cannot start another process: {error}", planned.name)))?;
    let mut told = false;
    let status = loop {
        if let Some(status) = process.try_wait().with_context(|| format!("{}: lost", planned.name))? {
            break status;
        }
        if interrupt.asked() && !told {
            stop(&process);
            told = true;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let name = &planned.name;
    let saved = || Err(Outcome::Interrupted(format!("{name} is saved; the same command goes on")).into());
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(130), _) => saved(),
        (Some(2), _) => bail!("{name}: see its message above"),
        // Before the child could handle signals: nothing was under way.
        (_, Some(libc::SIGINT | libc::SIGTERM | libc::SIGHUP)) => saved(),
        (_, Some(libc::SIGKILL)) => Err(Outcome::Failed(format!(
            "{name}: was killed; the kernel does that when memory runs out. Run fewer --jobs, or halve train.batch_tokens and \
             double train.accumulate"
        ))
        .into()),
        _ => Err(Outcome::Failed(format!("{name}: ended with {status}; see its message above")).into()),
    }
}

/// A group of its own, so that Ctrl-C on the terminal reaches the child once, through us; on Linux it also stops if we are
/// killed.
#[cfg(unix)]
fn bind(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
    #[cfg(target_os = "linux")]
    // SAFETY: prctl and sigprocmask are async-signal-safe, and nothing else is done between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            interrupt::block_in_child();
            Ok(())
        });
    }
}

#[cfg(not(unix))]
fn bind(_command: &mut Command) {}

#[cfg(unix)]
fn stop(process: &Child) {
    // SAFETY: a signal to a child that has not been waited for, so its number is still its own.
    unsafe { libc::kill(process.id() as i32, libc::SIGINT) };
}

#[cfg(not(unix))]
fn stop(_process: &Child) {}
