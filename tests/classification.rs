//! Classification end to end: made-up tasks that must be learnt, runs that are stopped and go on, labels for lines.

mod common;

use common::{alone, assert_same, first_run, go, scratch};
use rand::{Rng, SeedableRng};
use std::path::Path;
use std::sync::Arc;
use synthesizer::data::labelled::{self, Label, LabelledRow, LabelledRows, RecordAnswers};
use synthesizer::error::Outcome;
use synthesizer::experiment::PlannedRun;
use synthesizer::metric::classification::MetricKind;
use synthesizer::task::judging::{judge, Predictions};
use synthesizer::task::{self, Cut};
use synthesizer::train::checkpoint;
use synthesizer::train::interrupt::Interrupt;
use synthesizer::train::trainer::Trained;
use tch::Device;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

const MARKERS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
const FILLERS: [&str; 6] = ["one", "two", "three", "four", "five", "six"];

/// Two different markers among fillers; the class is the marker that comes first, which no bag of words tells.
fn which_comes_first(rng: &mut impl Rng) -> (usize, String) {
    let first = rng.random_range(0..4);
    let second = (first + rng.random_range(1..4)) % 4;
    let filler = |rng: &mut _| FILLERS[Rng::random_range(rng, 0..6)];
    let mut words: Vec<&str> = (0..rng.random_range(0..5)).map(|_| filler(rng)).collect();
    words.push(MARKERS[first]);
    words.extend((0..rng.random_range(0..4)).map(|_| filler(rng)));
    words.push(MARKERS[second]);
    words.extend((0..rng.random_range(0..3)).map(|_| filler(rng)));
    (first, words.join(" "))
}

/// AG News' files with such rows.
fn made_up_news(folder: &Path) {
    let mut rng = rand::rngs::StdRng::seed_from_u64(7);
    for (file, rows) in [("train.csv", 1500), ("test.csv", 200)] {
        let mut text = String::new();
        for _ in 0..rows {
            let (class, words) = which_comes_first(&mut rng);
            let (title, description) = words.split_once(' ').unwrap();
            text.push_str(&format!("\"{}\",\"{title}\",\"{description}\"\n", class + 1));
        }
        write(&folder.join(file), &text);
    }
}

fn planned(mix: &str, data: &str, train: &str, results: &Path) -> PlannedRun {
    let text = format!(
        r#"
task = "classification"
mix = "{mix}"
[data]
{data}
vocabulary = 300
max_tokens = 40
[model]
d_model = 32
heads = 4
encoder_layers = 1
d_ff = 64
max_length = 48
dropout = 0.1
attention_dropout = 0.1
relu_dropout = 0.0
[train]
batch_tokens = 1024
schedule = "linear"
{train}"#
    );
    first_run(&text, results)
}

fn news(mix: &str, folder: &Path, train: &str) -> PlannedRun {
    made_up_news(&folder.join("news"));
    let data = format!("corpus = \"ag-news\"\nfolder = {:?}", folder.join("news"));
    planned(mix, &data, train, &folder.join("results"))
}

fn metric(trained: &Trained, name: &str) -> f64 {
    let found = trained.metrics.iter().find(|(metric, _)| metric == name);
    found.and_then(|(_, value)| value.as_f64()).unwrap_or_else(|| panic!("no {name} in {:?}", trained.metrics))
}

fn generator(planned: &PlannedRun) -> Box<dyn task::Generator> {
    let mut generator = task::build_generator(&planned.run, &planned.folder, Device::Cpu).unwrap();
    checkpoint::load_weights(&checkpoint::final_file(&planned.folder), generator.variables_mut()).unwrap();
    generator
}

#[test]
fn the_order_of_words_is_learnt_and_lines_are_labelled() {
    let _alone = alone();
    for mix in ["V", "R+V"] {
        let folder = scratch();
        let settings = "steps = 300\nlearning_rate = 4e-3\nwarmup = 30\nevaluate_every = 100\n";
        let planned = news(mix, folder.path(), settings);
        let (trained, task) = go(&planned, &Interrupt::default()).unwrap();
        let (dev, test) = (metric(&trained, "dev.accuracy"), metric(&trained, "test.accuracy"));
        assert!(dev > 95.0 && test > 95.0, "{mix}: {dev} and {test} of 100 right");
        assert_eq!(metric(&trained, "test.score"), test);
        assert!(trained.metrics.iter().all(|(name, _)| !name.contains("perplexity")), "{:?}", trained.metrics);
        let notes = task.training().notes.join("\n");
        assert!(notes.contains("test: 200 of 200 rows"), "{notes}");

        // what was written is what was scored
        let mut reader = csv::Reader::from_path(planned.folder.join("test.predictions.csv")).unwrap();
        let labels: String = reader.records().map(|record| record.unwrap()[2].to_string() + "\n").collect();
        let names = ["World", "Sports", "Business", "Sci/Tech"];
        let text = std::fs::read_to_string(folder.path().join("news/test.csv")).unwrap();
        let right = labels
            .lines()
            .zip(text.lines())
            .filter(|(label, row)| *label == names[row[1..2].parse::<usize>().unwrap() - 1]);
        assert_eq!(labels.lines().count(), 200);
        assert!((right.count() as f64 / 2.0 - test).abs() < 1e-9);

        // a fresh model with the saved weights says the same of the same lines, in any company
        let generator = generator(&planned);
        let lines: Vec<String> =
            text.lines().map(|row| row[4..].replace("\",\"", " ").trim_matches(['"', ',']).to_string()).collect();
        let answers = generator.generate(&lines).unwrap();
        assert_eq!(answers.iter().map(|answer| &*answer.text).collect::<Vec<_>>(), labels.lines().collect::<Vec<_>>());
        for (line, label) in lines.iter().zip(labels.lines()).take(5) {
            assert_eq!(generator.generate(std::slice::from_ref(line)).unwrap()[0].text, label, "{line}");
        }
        // a word is a token: of 61 the first 40 are taken
        let long = |words: usize| [vec!["delta"], vec!["alpha"; words - 1]].concat().join(" ");
        let cut = generator.generate(&[long(61), " \u{a0}\u{200b}".into(), long(40)]).unwrap();
        assert_eq!(cut[0].cut, Some(Cut { tokens: 61, taken: 40, from_end: false }));
        assert_eq!((&cut[0].text, cut[2].cut), (&cut[2].text, None));
        assert_eq!((&cut[1].text[..], cut[1].cut), ("", None), "a blank line has no label");
        // nor has a line of which the model sees blanks alone
        let blanks = format!("{}alpha", "\t".repeat(200));
        assert_eq!(generator.generate(&[blanks]).unwrap()[0].text, "");
    }
}

#[test]
fn a_stopped_run_goes_on_to_the_same_bits() {
    let _alone = alone();
    for (select, mix) in [("best", "R+V"), ("last", "FR")] {
        let folder = scratch();
        let settings = format!(
            "steps = 21\nlearning_rate = 3e-3\nwarmup = 4\naccumulate = 2\nlog_every = 3\nevaluate_every = 5\nselect = \"{select}\"\n"
        );
        let whole = news(mix, folder.path(), &settings);
        let parts = PlannedRun { folder: folder.path().join("parts"), ..whole.clone() };
        go(&whole, &Interrupt::default()).unwrap();
        for steps in [1, 6, 5] {
            let error = go(&parts, &Interrupt::after(steps)).map(drop).unwrap_err();
            assert!(matches!(error.downcast_ref(), Some(Outcome::Interrupted(_))), "{error}");
        }
        assert_eq!(go(&parts, &Interrupt::default()).unwrap().0.steps, 21);
        let files = ["dev.predictions.csv", "test.predictions.csv", "attention.csv", "labels.json"];
        assert_same(&whole, &parts, &files, select);
    }
}

/// STS-B's files: the score is the number of "yes" in both texts.
#[test]
fn a_score_of_pairs_is_learnt() {
    let _alone = alone();
    let folder = scratch();
    let mut rng = rand::rngs::StdRng::seed_from_u64(8);
    let header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
    for (file, rows) in [("train.tsv", 1000), ("dev.tsv", 150)] {
        let mut text = header.to_string();
        for row in 0..rows {
            let mut counted = 0;
            let mut sentence = |rng: &mut rand::rngs::StdRng| {
                let yes = rng.random_range(0..3);
                counted += yes;
                let mut words: Vec<&str> =
                    (0..rng.random_range(1..6)).map(|_| FILLERS[rng.random_range(0..6)]).collect();
                (0..yes).for_each(|_| words.insert(rng.random_range(0..words.len()), "yes"));
                words.join(" ")
            };
            let (first, second) = (sentence(&mut rng), sentence(&mut rng));
            text.push_str(&format!("{row}\tg\tf\t2012\t{row}\ts\ts\t{first}\t{second}\t{counted}.000\n"));
        }
        write(&folder.path().join("glue/STS-B").join(file), &text);
    }
    let data = format!("corpus = \"glue\"\nset = \"STS-B\"\nfolder = {:?}", folder.path().join("glue"));
    let settings = "steps = 250\nlearning_rate = 4e-3\nwarmup = 30\nevaluate_every = 125\n";
    let planned = planned("FR+V", &data, settings, &folder.path().join("results"));
    let (trained, _) = go(&planned, &Interrupt::default()).unwrap();
    let (pearson, spearman) = (metric(&trained, "test.pearson"), metric(&trained, "test.spearman"));
    assert!(pearson > 90.0 && spearman > 85.0, "{pearson} {spearman}");
    assert!((metric(&trained, "test.score") - (pearson + spearman) / 2.0).abs() < 1e-9);
    assert!(metric(&trained, "dev.loss") < 0.5, "squared error {}", metric(&trained, "dev.loss"));

    let generator = generator(&planned);
    let lines = ["yes one yes two\tthree yes yes".to_string(), "one two\tthree".to_string()];
    let scores: Vec<f64> =
        generator.generate(&lines).unwrap().iter().map(|answer| answer.text.parse().unwrap()).collect();
    assert!((scores[0] - 4.0).abs() < 1.0 && scores[1].abs() < 1.0, "{scores:?}");
    // Two blank texts have no score; one has.
    let lines = ["\t", " \t\u{3000}", "yes\t", "\tyes"].map(String::from);
    let answers = generator.generate(&lines).unwrap();
    assert_eq!(answers.iter().map(|answer| answer.text.is_empty()).collect::<Vec<_>>(), [true, true, false, false]);
    let error = generator.generate(&["no tab".to_string()]).unwrap_err().to_string();
    assert!(error.contains("tab between them") && error.contains("\"no tab\""), "{error}");
}

#[test]
fn parameters_are_counted_before_the_data_are_read() {
    let _alone = alone();
    let folder = scratch();
    let planned = news("R+V", folder.path(), "steps = 1\nwarmup = 0\nlearning_rate = 1e-3\n");
    let task = task::build(&planned.run, Device::Cpu).unwrap();
    let mut run = planned.run.clone();
    run.data.vocabulary = task.training().tokenizer.size();
    let counted = synthesizer::model::count_parameters(task.variables());
    assert_eq!(task::size::parameters(&run, run.data.vocabulary).unwrap(), counted);
}

#[test]
fn every_set_has_its_number_of_outputs() {
    let folder = Path::new("unread");
    for (corpus, sets) in [
        ("glue", "CoLA 2, SST-2 2, MRPC 2, STS-B 1, QQP 2, MNLI 3, QNLI 2, RTE 2, WNLI 2"),
        ("superglue", "BoolQ 2, CB 3, COPA 2, MultiRC 2, ReCoRD 2, RTE 2, WiC 2, WSC 2"),
    ] {
        for (set, expected) in sets.split(", ").map(|set| set.split_once(' ').unwrap()) {
            let data = format!("corpus = {corpus:?}\nset = {set:?}\nfolder = {folder:?}");
            let run = planned("V", &data, "steps = 1\nwarmup = 0\n", folder).run;
            assert_eq!(labelled::outputs(&run.data).unwrap().to_string(), expected, "{corpus} {set}");
        }
    }
    for (corpus, expected) in [("bbc-topics", 5), ("movie-sentences", 2)] {
        let run = planned("V", &format!("corpus = {corpus:?}"), "steps = 1\nwarmup = 0\n", folder).run;
        assert_eq!(labelled::outputs(&run.data).unwrap(), expected, "{corpus}");
    }
}

fn rows(labels: &[Label], groups: &[u32]) -> LabelledRows {
    let text: Arc<str> = "text".into();
    let row = |(&label, &group): (&Label, &u32)| LabelledRow { texts: vec![text.clone()], label, group };
    LabelledRows::new(1, labels.iter().zip(groups).map(row).collect())
}

#[test]
fn each_metric_reads_what_it_is_of() {
    let mut rows_of_classes = rows(&[1, 0, 1, 1].map(Label::Class), &[0, 0, 1, 1]);
    let mut predicted = Predictions::default();
    // likeliest classes 0 0 1 1; class 1 against class 0 by -1, -2, 3, 0.5
    [[1.0, 0.0], [1.0, -1.0], [0.0, 3.0], [0.5, 1.0]].iter().for_each(|logits| predicted.push(logits));
    assert_eq!(predicted, Predictions { classes: vec![0, 0, 1, 1], numbers: vec![-1.0, -2.0, 3.0, 0.5] });
    let value =
        |kind, rows: &LabelledRows, predicted: &Predictions| judge(&[kind], rows, predicted).unwrap()[0].1.unwrap();
    let (precision_and_recall_1, of_0) = (2.0 * 2.0 / (2.0 + 3.0), 2.0 / (2.0 + 1.0));
    for (kind, expected) in [
        (MetricKind::Accuracy, 0.75),
        (MetricKind::F1, precision_and_recall_1),
        (MetricKind::GroupF1, precision_and_recall_1),
        (MetricKind::MacroF1, (precision_and_recall_1 + of_0) / 2.0),
        // tp 2, tn 1, fp 0, fn 1
        (MetricKind::Matthews, 2.0 / (2f64 * 3.0 * 1.0 * 2.0).sqrt()),
        (MetricKind::GroupAccuracy, 1.0),
        (MetricKind::GroupExact, 0.5),
    ] {
        let got = value(kind, &rows_of_classes, &predicted);
        assert!((got - expected).abs() < 1e-12, "{kind:?}: {got} is not {expected}");
    }
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.into()).collect::<Vec<Arc<str>>>();
    let (candidates, gold) =
        (texts(&["The Nile", "Rhine", "Rio Grande", "Rio"]), vec![texts(&["nile"]), texts(&["Rio"])]);
    rows_of_classes.answers = Some(RecordAnswers { candidates, gold });
    assert!((value(MetricKind::RecordF1, &rows_of_classes, &predicted) - (1.0 + 2.0 / 3.0) / 2.0).abs() < 1e-12);
    assert_eq!(value(MetricKind::RecordExact, &rows_of_classes, &predicted), 0.5);

    let rows_of_scores = rows(&[0.0, 1.0, 5.0].map(Label::Score), &[0, 1, 2]);
    let mut predicted = Predictions::default();
    [1.0, 2.0, 3.0].iter().for_each(|score| predicted.push(&[*score]));
    assert!((value(MetricKind::Pearson, &rows_of_scores, &predicted) - 5.0 / 28f64.sqrt()).abs() < 1e-12);
    assert!((value(MetricKind::Spearman, &rows_of_scores, &predicted) - 1.0).abs() < 1e-12);
    let message = judge(&[MetricKind::Accuracy], &rows_of_scores, &predicted).unwrap_err().to_string();
    assert!(message.contains("row 1 has the score 0 where a class is wanted"), "{message}");
}

#[test]
fn predictions_come_back_to_their_rows() {
    let mut predicted = Predictions::default();
    [[0.0, 1.0, 2.0], [5.0, 5.0, 0.0], [0.0, 2.0, 2.0]].iter().for_each(|logits| predicted.push(logits));
    // of equal logits the first counts
    assert_eq!(predicted.classes, [2, 0, 1]);
    let ordered = predicted.in_order_of(&[2, 0, 1]);
    assert_eq!(ordered, Predictions { classes: vec![0, 1, 2], numbers: vec![0.0, 2.0, 1.0] });
}
