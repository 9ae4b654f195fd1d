//! The benchmarks' tables, figures and page.

use super::{copy, figures::overlaps, files, fixtures, Work};
use synthesizer::report::benchmarks::Benchmarks;

/// A copy of the made-up benchmarks, reported.
fn reported() -> Work {
    let work = Work::of(&[]);
    copy(&fixtures().join("results/bench"), &work.path("results/bench"));
    work.text(&["results/bench"]);
    work
}

/// Cells of the line of a Markdown table that begins with these cells.
fn line(text: &str, names: &[&str]) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with('|'));
    let mut cells = lines.map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_string()));
    let found = cells.find_map(|cells| {
        let cells: Vec<String> = cells.collect();
        (cells.iter().zip(names).all(|(cell, name)| cell == name)).then_some(cells)
    });
    found.unwrap_or_else(|| panic!("no line {names:?} in\n{text}"))[names.len()..].to_vec()
}

#[test]
fn attention_has_ratios_shares_and_memory() {
    let work = reported();
    let core = work.read("results/bench/attention-core.md");
    // 0.0001 s a position, three times that with gradients; 10 of 25 MB.
    let v = ["76.8", "5.01", "1.75", "1.02", "1.31", "46", "70", "0.40"];
    assert_eq!(line(&core, &["256", "V"])[..8], v);
    let mixture = ["307", "3.96", "0.94", "", "", "46", "70", "0.40"];
    assert_eq!(line(&core, &["1024", "D+V"])[..8], mixture);
    let forward = core.split("\n\n").find(|block| block.contains("| forward: our ms")).unwrap();
    assert_eq!(line(forward, &["64", "R"])[..4], ["6.40", "3.36", "1.86", "1.15"]);
    // each part by its own command
    let command = |part: &str| format!("Measured by `synthesizer bench compare attention --part {part}`.");
    assert!(core.contains(&command("core")) && !core.contains(&command("layer")), "{core}");
    let page = work.read("plots/bench/index.html");
    assert!(page.contains("by <code>synthesizer bench compare attention --part layer</code>."), "{page}");
    assert!(
        core.contains("h 8, Made-up CPU, 2 threads, PyTorch 2.11.0") && core.contains("4 at length 1024"),
        "{core}"
    );
    // what torch.compile was measured for, it is explained for
    assert!(core.contains("compile: torch.compile") && !work.read("results/bench/train.md").contains("torch.compile"));
    let layer = work.read("results/bench/attention-layer.md");
    assert_eq!(line(&layer, &["256", "V"])[1..3], ["4.51", "1.57"]);
}

#[test]
fn training_and_decoding_have_rates_and_ratios() {
    let work = reported();
    // 8000, 8100 and 8200 tokens/s; 0.60, 0.66 and 0.72 of the product rate; 60 of 80 MB
    let train = work.read("results/bench/train.md");
    assert_eq!(line(&train, &["English-German", "V"]), ["8100", "1.80", "1.15", "1.00", "66", "0.75"]);
    assert_eq!(line(&train, &["News", "D+V"]), ["20050", "1.52", "0.97", "", "63", "0.75"]);
    let decode = work.read("results/bench/decode.md");
    assert_eq!(line(&decode, &["V.control-s1, untrained", "V", "4"]), ["125.0", "2500", "5.50", "3"]);
    assert_eq!(line(&decode, &["R-s1", "R", "1"]), ["500.0", "10000", "", ""]);
}

#[test]
fn exponents_are_fitted_over_the_long_lengths() {
    let work = reported();
    let growth = work.read("results/bench/growth.md");
    // Below length 256 a constant is added: over all lengths V's exponent would be 0.8 or so.
    assert_eq!(line(&growth, &["V"])[..4], ["1.20", "1.50", "1.00", "1.25"]);
    assert_eq!(line(&growth, &["LC"])[..4], ["1.65", "1.95", "1.45", "1.70"]);
    // 2e-6·256^1.5 s, and at 64 the constant 2 ms beside 1.024
    let v = line(&growth, &["V"]);
    assert_eq!([&v[4], &v[6]], ["3.02", "8.19"]);
    assert!(growth.contains("over lengths 256, 512, 1024, 2048."), "{growth}");
    assert!(growth.contains("batch 4, d 512, h 8, Made-up CPU, 2 threads, causal but for Lin and FFT."), "{growth}");
    assert!(growth.contains("Measured by `synthesizer bench attention --made-up`."), "{growth}");
    let svg = work.read("plots/bench/growth-time.svg");
    for label in ["V: L^1.20", "V: L^1.50", "Mixer: L^2.15"] {
        assert!(svg.contains(&format!(">\n{label}\n<")), "{label}");
    }
    let batch = work.read("results/bench/batch.md");
    // 4·256 tokens in 3 ms and in 9 ms
    let v = line(&batch, &["V"]);
    assert_eq!([&v[2], &v[8]], ["341k", "114k"]);
    assert!(batch.contains("length 256, d 512"), "{batch}");
}

#[test]
fn bars_have_a_figure_for_each_form_of_the_peer() {
    let work = reported();
    let drawn = |figure: &str, labels: &[&str], absent: &[&str]| {
        let svg = work.read(&format!("plots/bench/{figure}.svg"));
        let is_there = |label: &&&str| svg.contains(&format!(">\n{label}\n<"));
        assert_eq!(labels.iter().find(|label| !is_there(label)), None, "{figure}");
        assert_eq!(absent.iter().find(is_there), None, "{figure}");
        assert!(work.path(&format!("plots/bench/{figure}.png")).is_file());
    };
    // 5.01 at length 256, 1.1 times that at 1024; length 64 is in the table alone
    let lengths = ["length 256, batch 16", "length 1024, batch 4", "V", "D+V", "5.01", "5.51", "0.85", "1.31"];
    drawn("attention-core-ratio", &lengths, &["length 64, batch 16"]);
    drawn("attention-layer-ratio", &["4.51", "torch.compile, freed blocks kept"], &["5.01"]);
    drawn("train-ratio", &["News", "English-German", "1.80"], &["torch.compile, freed blocks kept"]);
    drawn("decode-ratio", &["greedy search", "beam 4", "V-s1", "V.control-s1, untrained", "R+V", "7.25"], &["V", "R"]);
}

#[test]
fn words_keep_clear_of_each_other_in_benchmarks() {
    let benchmarks = Benchmarks::read(&fixtures().join("results/bench")).unwrap();
    let figures: Vec<_> = benchmarks.parts().into_iter().flat_map(|part| part.1).collect();
    assert_eq!(figures.len(), 7);
    for figure in figures {
        assert_eq!(overlaps(&figure.canvas), Vec::<String>::new(), "{}", figure.stem);
    }
}

#[test]
fn the_page_of_benchmarks_shows_all_and_what_was_measured_stays() {
    let work = reported();
    let page = work.read("plots/bench/index.html");
    for (path, _) in files(&work.path("plots/bench")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name == "index.html" || page.contains(&format!("\"{name}\"")), "{name} is not on the page");
    }
    assert!(page.contains("<h2>The core of attention against PyTorch</h2>") && !page.contains("http"));
    for file in ["attention.csv", "train.csv", "decode.csv", "growth.csv", "batch.csv"] {
        let measured = std::fs::read(fixtures().join("results/bench").join(file)).unwrap();
        assert!(std::fs::read(work.path(&format!("results/bench/{file}"))).unwrap() == measured, "{file}");
    }
    assert!(!work.path("results/bench/attention-core.csv").exists() && !work.path("plots/mini").exists());
}

#[test]
fn what_was_not_measured_is_left_out() {
    let work = Work::of(&["table1"]);
    std::fs::create_dir_all(work.path("results/bench")).unwrap();
    let error = work.error(&["results/bench"]);
    assert!(error.contains("no results under results/bench: `make bench` makes them"), "{error}");
    // Opened, and nothing measured yet; then the first line is cut off.
    std::fs::write(work.path("results/bench/attention.csv"), "").unwrap();
    let csv = std::fs::read_to_string(fixtures().join("results/bench/growth.csv")).unwrap();
    std::fs::write(work.path("results/bench/growth.csv"), csv.trim_end()).unwrap();
    work.text(&[]);
    let names: Vec<String> = files(&work.path("results/bench"))
        .iter()
        .map(|file| file.0.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["attention.csv", "growth.csv", "growth.md"]);
    // Everything was asked for: the tables too.
    assert!(work.path("plots/mini/index.html").is_file() && work.path("plots/bench/index.html").is_file());
    // Lines of the core, which operators don't have, are not those of the layer.
    std::fs::write(work.path("results/bench/growth.csv"), csv.replace("layer,V,", "core,V,")).unwrap();
    work.text(&["results/bench"]);
    let growth = work.read("results/bench/growth.md");
    assert!(growth.contains("| R+V ") && !growth.contains("| V "), "{growth}");
    std::fs::write(work.path("results/bench/growth.csv"), csv.replacen("forward,", "backwards,", 1)).unwrap();
    let error = work.error(&["results/bench"]);
    assert!(error.contains("growth.csv:2: column `pass` holds \"backwards\""), "{error}");
}
