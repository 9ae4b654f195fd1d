//! Signals and limits of the system: every end is an exit code and a message, whenever it comes.

#[path = "common/workplace.rs"]
mod workplace;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use workplace::{text, toy, Workplace};

fn send(child: &Child, signal: i32) {
    // SAFETY: a signal to a child of ours that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

fn piped(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Starts with this answer to SIGHUP, whatever this process has: under `nohup` the signal is ignored.
fn with_hangup(mut command: Command, answer: libc::sighandler_t) -> Command {
    // SAFETY: signal is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGHUP, answer);
            // A shell starts background jobs with SIGINT ignored, which would lose a signal before the program handles it.
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        })
    };
    command
}

/// Waits until the run has taken steps.
fn under_way(place: &Workplace, run: &str) {
    let log = place.path(&format!("results/custom/toy/{run}/log.csv"));
    let started = Instant::now();
    while std::fs::read_to_string(&log).map_or(0, |text| text.lines().count()) < 3 {
        assert!(started.elapsed() < Duration::from_secs(120), "{run}: no step was taken");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sets a limit of the child.
fn limited(mut command: Command, resource: libc::__rlimit_resource_t, bytes: u64) -> Command {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: setrlimit is async-signal-safe and reads the structure alone.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(resource, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    command
}

#[test]
fn a_signal_at_any_moment_of_the_start_ends_with_130() {
    let place = Workplace::new(r#"["V", "R"]"#, 100_000);
    // From before the program's first instruction to the first steps of its children.
    for round in 0..24 {
        let signal = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP][round % 3];
        let child = piped(with_hangup(place.command(&["run", "toy.toml", "--jobs", "2"]), libc::SIG_DFL));
        std::thread::sleep(Duration::from_millis([2, 20, 60, 120, 200, 300, 450, 700][round / 3]));
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        // While the system still loads the libraries, nothing of the program runs: a shell says 130 then too, of SIGINT.
        let before_the_program = output.status.signal() == Some(signal) && text(&output).is_empty();
        assert!(
            before_the_program || output.status.code() == Some(130),
            "{round}: {}, {}",
            output.status,
            text(&output)
        );
        assert!(!text(&output).contains("ended with signal"), "{}", text(&output));
    }
}

#[test]
fn a_second_signal_leaves_at_once_and_nothing_crashes() {
    let place = Workplace::new(r#"["V"]"#, 100_000);
    for round in 0..16u64 {
        let log = place.path("results/custom/toy/V-s1/log.csv");
        let before = std::fs::metadata(&log).map_or(0, |file| file.len());
        let child = piped(place.command(&["run", "toy.toml", "--threads", "2"]));
        let started = Instant::now();
        while std::fs::metadata(&log).map_or(0, |file| file.len()) == before {
            assert!(started.elapsed() < Duration::from_secs(120), "no step was taken");
            std::thread::sleep(Duration::from_millis(1));
        }
        send(&child, libc::SIGINT);
        std::thread::sleep(Duration::from_micros(300 * round));
        send(&child, if round % 2 == 0 { libc::SIGINT } else { libc::SIGTERM });
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{round}: {}, {}", output.status, text(&output));
    }
}

#[test]
fn every_signal_that_asks_to_stop_saves_and_a_closed_terminal_may_say_it_twice() {
    let place = Workplace::new(r#"["V"]"#, 100_000);
    for signals in
        [&[libc::SIGTERM][..], &[libc::SIGHUP], &[libc::SIGHUP, libc::SIGHUP], &[libc::SIGTERM, libc::SIGHUP]]
    {
        // Else the log of the round before looks like progress.
        let _ = std::fs::remove_dir_all(place.path("results"));
        let child = piped(with_hangup(place.command(&["run", "toy.toml"]), libc::SIG_DFL));
        under_way(&place, "V-s1");
        signals.iter().for_each(|&signal| send(&child, signal));
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{signals:?}: {}", text(&output));
        assert!(text(&output).contains("V-s1 is saved after step"), "{signals:?}: {}", text(&output));
    }
}

#[test]
fn a_closed_terminal_means_nothing_to_a_run_under_nohup() {
    let place = Workplace::new(r#"["V"]"#, 100_000);
    let mut child = piped(with_hangup(place.command(&["run", "toy.toml"]), libc::SIG_IGN));
    under_way(&place, "V-s1");
    send(&child, libc::SIGHUP);
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "SIGHUP was ignored when it started");
    send(&child, libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn commands_without_anything_to_save_end_at_once() {
    let place = Workplace::new(r#"["V"]"#, 4);
    place.said(&["run", "toy.toml"], 0);
    let generate = ["generate", "results/custom/toy/V-s1"];
    let bench = [
        "bench",
        "attention",
        "--mix",
        "V",
        "--mix",
        "R",
        "--lengths",
        "256",
        "--repeats",
        "100000",
        "--seconds",
        "100",
    ];
    for arguments in [&generate[..], &bench] {
        let mut command = place.command(arguments);
        command.stdin(Stdio::piped());
        let mut child = piped(command);
        std::thread::sleep(Duration::from_millis(1500));
        assert!(child.try_wait().unwrap().is_none(), "{arguments:?}: {}", text(&child.wait_with_output().unwrap()));
        send(&child, libc::SIGINT);
        let asked = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{arguments:?}: {}", text(&output));
        assert!(asked.elapsed() < Duration::from_secs(5), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Workplace::new(r#"["V"]"#, 4);
    let golden = format!("{}/tests/golden/fd-b2l6d16h2n8.safetensors", env!("CARGO_MANIFEST_DIR"));
    for arguments in [
        &["cost"][..],
        &["cost", "--json"],
        &["--help"],
        &["run", "--help"],
        &["data", "list"],
        &["data", "list", "--json"],
        &["data", "inspect", "toy.toml"],
        &["validate", "toy.toml"],
        &["parity", &golden],
        &["doctor"],
        &["run", "toy.toml", "--dry-run"],
    ] {
        let mut child = piped(place.command(arguments));
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        assert!(!said.contains("error") && !said.contains("panicked"), "{arguments:?}: {said}");
    }
    // A full disk behind standard output is one.
    let mut command = place.command(&["cost"]);
    command.stdout(std::fs::File::create("/dev/full").unwrap());
    let output = command.stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).starts_with("error: cannot write to standard output"), "{}", text(&output));
}

#[test]
fn the_file_size_limit_is_told_from_a_full_disk() {
    let place = Workplace::new(r#"["V"]"#, 4);
    let output = limited(place.command(&["run", "toy.toml"]), libc::RLIMIT_FSIZE, 20_000).output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.signal(), None, "{said}");
    assert!(matches!(output.status.code(), Some(1 | 2)), "{}: {said}", output.status);
    assert!(said.contains("ulimit -f") && !said.contains("the disk is full"), "{said}");
    // Whatever could not be written is not left half-written.
    for folder in ["cache/tokens", "results/custom", "results/custom/toy/V-s1", "results/custom/toy/V-s1/checkpoint"] {
        for entry in std::fs::read_dir(place.path(folder)).into_iter().flatten().flatten() {
            assert!(!entry.file_name().to_string_lossy().ends_with(".tmp"), "{:?}", entry.path());
        }
    }
}

/// Whether an end for want of memory is one message: no signal, no abort's text.
#[track_caller]
fn is_clean(output: &Output, what: &str) {
    let said = text(output);
    assert_eq!(output.status.signal(), None, "{what}: {}, {said}", output.status);
    for unclean in ["terminate called", "memory allocation of", "backtrace", "this should not happen", "panicked"] {
        assert!(!said.contains(unclean), "{what}: {said}");
    }
}

/// Address space that the program takes before it does anything, in MB.
fn at_start(place: &Workplace) -> u64 {
    let fits = |megabytes: u64| {
        let output =
            limited(place.command(&["cost", "--mix", "V"]), libc::RLIMIT_AS, megabytes << 20).output().unwrap();
        output.status.success()
    };
    let (mut low, mut high) = (0, 16_384);
    assert!(fits(high));
    while high - low > 8 {
        let middle = (low + high) / 2;
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[test]
fn without_memory_there_is_one_message() {
    let place = Workplace::new(r#"["V"]"#, 4);
    // Much for Rust: the file's text; for LibTorch: tables and products.
    let line = |number: u32| format!("{} and {}\n", number.wrapping_mul(2_654_435_761), number.wrapping_mul(40_503));
    std::fs::write(place.path("text.txt"), (0..4_000).map(line).collect::<String>()).unwrap();
    std::fs::write(place.path("test.txt"), "1 and 2\n").unwrap();
    let data = "corpus = \"text\"\ntrain = [\"text.txt\"]\ndev = [\"text.txt\"]\ntest = [\"test.txt\"]";
    let text_of =
        toy(r#"["V"]"#, 4).replace("\"translation\"", "\"language-modelling\"").replace("encoder_layers = 1\n", "");
    let text_of = text_of.replace("corpus = \"reverse\"", data).replace("d_model = 16", "d_model = 1024");
    std::fs::write(place.path("large.toml"), text_of.replace("d_ff = 32", "d_ff = 4096")).unwrap();
    let start = at_start(&place);
    let mut failed = 0;
    for more in [0, 16, 48, 96, 160, 256] {
        for arguments in [&["run", "large.toml", "--fresh"][..], &["data", "inspect", "large.toml"]] {
            let command = limited(place.command(arguments), libc::RLIMIT_AS, (start + more) << 20);
            let output = { command }.output().unwrap();
            is_clean(&output, &format!("{arguments:?}, {more} MB more than {start}"));
            if output.status.code() != Some(0) {
                assert_eq!(output.status.code(), Some(1), "{}", text(&output));
                failed += 1;
            }
        }
    }
    assert!(failed > 3, "{failed}: the limits were too high to show anything");
}

#[test]
fn a_run_without_memory_fails_and_the_next_one_is_trained() {
    let place = Workplace::new(r#"["V"]"#, 4);
    let start = at_start(&place);
    // 700 MB are left to the program. The first model is small enough for the check before training, which knows the limit and
    // not how much of it the program itself takes, and too large for what is left: 16 bytes for each of 4 · 1024 · d_ff weights.
    let d_ff = (((start + 700) << 20) - (300 << 20)) * 9 / 10 / (16 * 4 * 1024);
    let small = "\n[[variant]]\nname = \"small\"\nmix = \"V\"\n[variant.model]\nd_model = 16\nd_ff = 32\n";
    let large = toy(r#"["V"]"#, 4).replace("d_model = 16", "d_model = 1024");
    place.write(&(large.replace("d_ff = 32", &format!("d_ff = {d_ff}")) + small));
    let output = limited(place.command(&["run", "toy.toml"]), libc::RLIMIT_AS, (start + 700) << 20).output().unwrap();
    let said = text(&output);
    is_clean(&output, "run");
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "V-s1: out of memory",
        "train.batch_tokens = 256",
        "train.accumulate = 1",
        "parameters",
        "Halve train.batch_tokens",
    ] {
        assert!(said.contains(part), "{part:?}: {said}");
    }
    assert!(said.contains("small: done") || said.contains("small-s1: done"), "{said}");
    let csv = std::fs::read_to_string(place.path("results/custom/toy.csv")).unwrap();
    assert_eq!(csv.lines().count(), 2, "{csv}");
}
