//! Settings that cannot work, found before any data is read.

use super::config::{CorpusKind, Precision, Run, Schedule, TaskKind};
use super::message::clip;
use crate::attention::cost;
use crate::attention::registry::{self, Entry};

/// Special tokens and the 256 bytes, the smallest vocabulary.
pub const SMALLEST_VOCABULARY: usize = 260;

/// The tasks of GLUE, by the names of their official folders.
pub const GLUE: &[&str] = &["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI"];

/// The tasks of SuperGLUE, by the names of their official folders.
pub const SUPERGLUE: &[&str] = &["BoolQ", "CB", "COPA", "MultiRC", "ReCoRD", "RTE", "WiC", "WSC"];

/// Larger numbers than this would overflow products of two.
const LARGEST: i64 = i32::MAX as i64;

/// The largest width, length and number of heads, the same as `synthesizer cost` takes.
pub const LARGEST_SIZE: i64 = cost::LARGEST;

/// The largest number of layers of a stack.
pub const MOST_LAYERS: i64 = 1000;

/// The largest vocabulary; learning it takes memory in proportion before any text is read.
pub const LARGEST_VOCABULARY: i64 = 1_000_000;

/// The largest number of hypotheses that are decoded together.
const LARGEST_DECODE_BATCH: i64 = 65_536;

/// Characters of a language's name.
const LONGEST_LANGUAGE: usize = 35;

/// Bytes of a path that Linux takes.
const LONGEST_PATH: usize = 4095;

/// Something that can't work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The keys at odds, such as `model.heads`, the one to point at first.
    pub keys: Vec<&'static str>,
    /// What is wrong, with the values.
    pub text: String,
    /// What to do.
    pub help: String,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding unless `holds`; later checks see whether one of these keys is known to be bad.
    fn need(&mut self, holds: bool, keys: &[&'static str], text: String, help: impl Into<String>) {
        if !holds {
            self.0.push(Finding { keys: keys.to_vec(), text, help: help.into() });
        }
    }

    fn at_least(&mut self, key: &'static str, value: i64, least: i64) {
        self.between(key, value, least, LARGEST);
    }

    fn between(&mut self, key: &'static str, value: i64, least: i64, most: i64) {
        let name = key.rsplit('.').next().unwrap_or(key);
        let help = format!("give {least} or more");
        self.need(value >= least, &[key], format!("`{name} = {value}` is below {least}"), help);
        self.at_most(key, value, most);
    }

    fn at_most(&mut self, key: &'static str, value: i64, most: i64) {
        let name = key.rsplit('.').next().unwrap_or(key);
        self.need(value <= most, &[key], format!("`{name} = {value}` is above {most}"), format!("give {most} or less"));
    }

    fn within(&mut self, key: &'static str, value: f64, range: &str, holds: bool) {
        let name = key.rsplit('.').next().unwrap_or(key);
        let help = format!("give a number in {range}");
        self.need(holds, &[key], format!("`{name} = {value}` is outside {range}"), help);
    }

    fn is_good(&self, keys: &[&str]) -> bool {
        !self.0.iter().any(|finding| finding.keys.iter().any(|key| keys.contains(key)))
    }
}

/// What can't work in a run, whatever the data holds.
pub fn check(run: &Run) -> Vec<Finding> {
    let mut found = Findings::default();
    check_data(run, &mut found);
    check_model(run, &mut found);
    check_lengths(run, &mut found);
    check_train(run, &mut found);
    if let Some(decode) = &run.decode {
        found.at_least("decode.beam", decode.beam as i64, 1);
        found.at_most("decode.beam", decode.beam as i64, 1024);
        found.between("decode.batch", decode.batch as i64, 1, LARGEST_DECODE_BATCH);
        found.at_least("decode.max_extra", decode.max_extra as i64, 0);
        let penalty = decode.length_penalty;
        found.at_least("decode.no_repeat_ngram", decode.no_repeat_ngram as i64, 0);
        found.at_least("decode.min_length", decode.min_length as i64, 0);
        // A translation's length follows its source.
        let most = match run.task {
            TaskKind::Translation => run.model.max_length,
            _ => run.data.max_tokens as i64,
        };
        let key = if run.task == TaskKind::Translation { "model.max_length" } else { "data.max_tokens" };
        let text = format!("`min_length = {}` is above `{} = {most}`", decode.min_length, &key[key.len() - 10..]);
        found.need(decode.min_length as i64 <= most, &["decode.min_length", key], text, "give a smaller min_length");
        found.within("decode.length_penalty", penalty, "[0, 10]", (0.0..=10.0).contains(&penalty));
    }
    if found.is_good(&["model.d_model", "model.heads", "model.max_length"]) {
        check_mix(run, &mut found);
    }
    found.0
}

fn check_data(run: &Run, found: &mut Findings) {
    let data = &run.data;
    let (corpus, task) = (kebab(&data.corpus), kebab(&run.task));
    let fitting: Vec<String> = CorpusKind::ALL.iter().filter(|corpus| corpus.serves(run.task)).map(kebab).collect();
    let text = format!("corpus `{corpus}` has nothing for task `{task}`");
    let help = format!("for {}: {}", task.replace('-', " "), one_of(&fitting));
    found.need(data.corpus.serves(run.task), &["data.corpus", "task"], text, help);
    if run.task == TaskKind::Translation && data.corpus != CorpusKind::Reverse {
        for (key, name, value) in [("data.source", "source", &data.source), ("data.target", "target", &data.target)] {
            let text = format!("`{name}` isn't given, the language of one side of the text");
            found.need(
                !value.is_empty(),
                &[key, "data.corpus"],
                text,
                format!("add `{name} = \"en\"` or so to [data]"),
            );
        }
        let text = format!("`source` and `target` are both `{}`", clip(&data.source));
        let differ = data.source.is_empty() || data.source != data.target;
        found.need(differ, &["data.target", "data.source"], text, "give two languages");
    }
    for (key, name, value) in [("data.source", "source", &data.source), ("data.target", "target", &data.target)] {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let text = format!("`{name}` is no name of a language: `{}`", clip(value));
        let help = format!("use up to {LONGEST_LANGUAGE} letters, digits, `-` and `_`, such as `de` or `pt-BR`");
        found.need(value.len() <= LONGEST_LANGUAGE && value.chars().all(plain), &[key], text, help);
    }
    check_paths(run, found);
    if data.corpus.serves(run.task) {
        check_files(run, &corpus, &task, found);
    }
    let (least, most) = (SMALLEST_VOCABULARY as i64, LARGEST_VOCABULARY);
    found.between("data.vocabulary", data.vocabulary as i64, least, most);
    found.at_least("data.max_tokens", data.max_tokens as i64, 1);
    found.at_least("data.max_source_tokens", data.max_source_tokens as i64, 0);
    let masked = run.task == TaskKind::MaskedLanguageModelling;
    found.at_least("data.window", data.window as i64, if masked { 2 } else { 0 });
    if masked {
        let (density, mean) = (data.noise_density, data.mean_span);
        found.within("data.noise_density", density, "(0, 1)", density > 0.0 && density < 1.0);
        found.within("data.mean_span", mean, "[1, ∞)", mean >= 1.0 && mean.is_finite());
    }
    found.at_least("data.history", data.history as i64, 0);
}

/// Paths that no file can have.
fn check_paths(run: &Run, found: &mut Findings) {
    let data = &run.data;
    let lists = [("data.train", &data.train), ("data.dev", &data.dev), ("data.test", &data.test)];
    let of_lists = lists.into_iter().flat_map(|(key, entries)| entries.iter().flatten().map(move |path| (key, path)));
    let others = [("data.folder", &data.folder), ("data.vectors", &data.vectors)];
    let stories = data.stories.iter().map(|path| ("data.stories", path));
    for (key, path) in of_lists.chain(others).chain(stories) {
        let bytes = path.as_os_str().as_encoded_bytes();
        if bytes.len() > LONGEST_PATH || bytes.contains(&0) {
            let what = if bytes.contains(&0) { "holds a NUL byte" } else { "is longer than 4,095 bytes" };
            let text = format!("the path `{}` {what}", clip(&path.to_string_lossy()));
            found.need(false, &[key], text, "name a file");
        }
    }
}

/// Files and folders that the corpus needs.
fn check_files(run: &Run, corpus: &str, task: &str, found: &mut Findings) {
    let data = &run.data;
    if data.corpus.reads_files() {
        let pairs = data.corpus == CorpusKind::Text && run.task.has_target();
        let parts: [(&'static str, _); 3] =
            [("data.train", &data.train), ("data.dev", &data.dev), ("data.test", &data.test)];
        // persona-chat's one file holds all
        let needed = if data.corpus == CorpusKind::PersonaChat { 1 } else { 3 };
        for (key, entries) in &parts[..needed] {
            let name = &key[5..];
            let example = if pairs { "[\"a.en\", \"a.de\"]" } else { "[\"a.txt\"]" };
            let help = format!("corpus `{corpus}` needs `{name} = {example}` in [data]");
            found.need(!entries.is_empty(), &[key, "data.corpus"], format!("`{name}` names no file"), help);
            for entry in entries.iter().filter(|entry| entry.len() != if pairs { 2 } else { 1 }) {
                let what = if pairs { "a source and a target file" } else { "one file" };
                let text = match entry.len() {
                    1 => format!("an entry of `{name}` is one file, but task `{task}` needs {what}"),
                    count => format!("an entry of `{name}` is {count} files, but task `{task}` needs {what}"),
                };
                let help = if pairs { "many pairs: [[\"a.en\", \"a.de\"], [\"b.en\", \"b.de\"]]" } else { "" };
                found.need(false, &[key], text, help);
            }
        }
    }
    if data.corpus.reads_folder() {
        let help = format!("corpus `{corpus}` needs `folder = \"…\"` in [data], the folder of the official files");
        let given = !data.folder.as_os_str().is_empty();
        found.need(given, &["data.folder", "data.corpus"], "`folder` isn't given".into(), help);
    }
    if data.corpus.has_sets() {
        let sets = if data.corpus == CorpusKind::Glue { GLUE } else { SUPERGLUE };
        let text = match data.set.as_str() {
            "" => format!("`set` isn't given, the task of `{corpus}`"),
            set => format!("`{corpus}` has no task `{}`", clip(set)),
        };
        let help = format!("one of {}", sets.join(", "));
        found.need(sets.contains(&data.set.as_str()), &["data.set", "data.corpus"], text, help);
    }
    if data.corpus == CorpusKind::CnnStories {
        let help = "name the folders of .story files: `stories = [\"data/cnn_dailymail/cnn/stories\"]`";
        found.need(!data.stories.is_empty(), &["data.stories", "data.corpus"], "`stories` isn't given".into(), help);
    }
    if data.corpus == CorpusKind::JsonLines {
        let (count, help) = match run.task.has_target() {
            true => (2, "give two, of the source and of the target: `fields = [\"article\", \"highlights\"]`"),
            false => (1, "give one, of the text: `fields = [\"text\"]`"),
        };
        let names = data.fields.len();
        let text = format!("`fields` has {names} {}", if names == 1 { "name" } else { "names" });
        found.need(names == count, &["data.fields", "data.corpus"], text, help);
        if let [source, target] = &data.fields[..] {
            let text = format!("source and target are both the field `{}`", clip(source));
            found.need(source != target, &["data.fields"], text, "name two fields");
        }
    }
}

/// `a`, `a or b`, `a, b or c`.
fn one_of(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

fn check_model(run: &Run, found: &mut Findings) {
    let model = &run.model;
    found.between("model.d_model", model.d_model, 2, LARGEST_SIZE);
    found.between("model.heads", model.heads, 1, LARGEST_SIZE);
    if found.is_good(&["model.d_model", "model.heads"]) {
        let (d, h) = (model.d_model, model.heads);
        let text = format!("`heads = {h}` does not divide `d_model = {d}`");
        let divisors: Vec<String> = (1..=d.min(64)).filter(|n| d % n == 0).map(|n| n.to_string()).collect();
        let help = format!("these do: {}", divisors.join(", "));
        found.need(d % h == 0, &["model.heads", "model.d_model"], text, help);
        let text = format!("`d_model = {d}` is odd, but sinusoid positions come in pairs of sine and cosine");
        found.need(d % 2 == 0, &["model.d_model"], text, format!("use {} or {}", d - 1, d + 1));
    }
    if run.task.has_encoder() {
        found.between("model.encoder_layers", model.encoder_layers, 1, MOST_LAYERS);
    }
    if run.task.has_decoder() {
        found.between("model.decoder_layers", model.decoder_layers, 1, MOST_LAYERS);
    }
    found.between("model.d_ff", model.d_ff, 1, LARGEST_SIZE);
    found.between("model.max_length", model.max_length, 1, LARGEST_SIZE);
    for (key, value) in [
        ("model.dropout", model.dropout),
        ("model.attention_dropout", model.attention_dropout),
        ("model.relu_dropout", model.relu_dropout),
    ] {
        found.within(key, value, "[0, 1)", (0.0..1.0).contains(&value));
    }
}

fn check_lengths(run: &Run, found: &mut Findings) {
    let (data, longest, batch) = (&run.data, run.model.max_length, run.train.batch_tokens as i64);
    found.at_least("train.batch_tokens", batch, 1);
    let keys = ["model.max_length", "data.max_tokens", "data.max_source_tokens", "data.window", "train.batch_tokens"];
    if run.task == TaskKind::MaskedLanguageModelling {
        check_masked_window(run, found);
        return;
    }
    // A window is as long as it says and has no mark; a classifier cuts its texts to fit.
    let limits: &[(&'static str, usize, i64)] = match run.task {
        TaskKind::Classification => &[],
        _ if data.window > 0 => &[("data.window", data.window, 0)],
        _ => &[("data.max_tokens", data.max_tokens, 1), ("data.max_source_tokens", data.max_source_tokens, 1)],
    };
    for &(key, tokens, mark) in limits {
        if !found.is_good(&keys) {
            return;
        }
        let (name, tokens) = (&key[5..], tokens as i64);
        let marks = if mark == 1 { " and a begin or end mark" } else { "" };
        let text = format!("`max_length = {longest}` has no room for `{name} = {tokens}`{marks}");
        let help = format!("raise max_length to {} or lower {name} to {}", tokens + mark, longest - mark);
        found.need(longest >= tokens + mark, &["model.max_length", key], text, help);
        let text = format!("`batch_tokens = {batch}` has no room for `{name} = {tokens}`{marks}");
        let help = format!("give {} or more", tokens + mark);
        found.need(batch >= tokens + mark, &["train.batch_tokens", key], text, help);
    }
    if run.task == TaskKind::Classification {
        let text = format!("`max_length = {longest}` has no room for two texts and their marks");
        found.need(longest >= 8, &["model.max_length"], text, "give 8 or more");
        let text = format!("`batch_tokens = {batch}` has no room for `max_length = {longest}`");
        let help = format!("give {longest} or more");
        found.need(batch >= longest, &["train.batch_tokens", "model.max_length"], text, help);
    }
}

/// A window's unmasked tokens must fit, with sentinels and end mark, and so must the masked ones.
fn check_masked_window(run: &Run, found: &mut Findings) {
    let (data, longest, batch) = (&run.data, run.model.max_length, run.train.batch_tokens as i64);
    let keys = ["model.max_length", "data.window", "data.noise_density", "data.mean_span", "train.batch_tokens"];
    if !found.is_good(&keys) {
        return;
    }
    let counts = data.spans_in(data.window);
    let (source, target) = (counts.source(), counts.target());
    let needed = source.max(target) as i64;
    let what = format!(
        "`window = {}`: with sentinels and end mark its source has {source} tokens and its target {target}",
        data.window
    );
    for (key, name, value) in
        [("model.max_length", "max_length", longest), ("train.batch_tokens", "batch_tokens", batch)]
    {
        let text = format!("`{name} = {value}` has no room for {what}");
        found.need(value >= needed, &[key, "data.window"], text, format!("give {needed} or more, or a smaller window"));
    }
}

fn check_train(run: &Run, found: &mut Findings) {
    let train = &run.train;
    found.at_least("train.steps", train.steps as i64, 1);
    found.at_least("train.accumulate", train.accumulate as i64, 1);
    found.at_most("train.accumulate", train.accumulate as i64, 65_536);
    found.at_least("train.log_every", train.log_every as i64, 1);
    found.at_least("train.evaluate_every", train.evaluate_every as i64, 1);
    found.at_least("train.average", train.average as i64, 1);
    match train.schedule {
        Schedule::Linear => {
            let (warmup, steps) = (train.warmup, train.steps);
            let text = format!("`warmup = {warmup}` leaves nothing of `steps = {steps}` for the linear decay");
            found.need(
                warmup < steps || steps == 0,
                &["train.warmup", "train.steps"],
                text,
                "give fewer warm-up steps",
            );
        }
        Schedule::InverseSquareRoot => found.at_least("train.warmup", train.warmup as i64, 1),
    }
    let positive = |value: f64| value > 0.0 && value.is_finite();
    let not_negative = |value: f64| value >= 0.0 && value.is_finite();
    let unit = |value: f64| (0.0..1.0).contains(&value);
    found.within("train.learning_rate", train.learning_rate, "(0, ∞)", positive(train.learning_rate));
    found.within("train.epsilon", train.epsilon, "(0, ∞)", positive(train.epsilon));
    found.within("train.weight_decay", train.weight_decay, "[0, ∞)", not_negative(train.weight_decay));
    found.within("train.clip_norm", train.clip_norm, "[0, ∞)", not_negative(train.clip_norm));
    found.need(
        !train.tf32 || train.precision == Precision::Float32,
        &["train.tf32", "train.precision"],
        "`tf32 = true` has no effect with `precision = \"bfloat16\"`, which makes all products coarser than that"
            .into(),
        "leave one of the two away",
    );
    found.within("train.beta1", train.beta1, "[0, 1)", unit(train.beta1));
    found.within("train.beta2", train.beta2, "[0, 1)", unit(train.beta2));
    found.within("train.label_smoothing", train.label_smoothing, "[0, 1)", unit(train.label_smoothing));
}

/// Parameters of the terms against the model's sizes, by each function's own rule.
fn check_mix(run: &Run, found: &mut Findings) {
    let shape = run.model.shape();
    for term in &run.mix.terms {
        let Some(entry) = registry::find(&term.name) else { continue };
        if let Err(error) = (entry.check)(term, &shape) {
            found.need(false, &["mix"], error.to_string(), "");
        }
        let text = format!(
            "{term} can't be causal: each position sees all others; but task `{}` has a decoder, which must not look ahead",
            kebab(&run.task)
        );
        let help = format!(
            "use {} for classification, which has an encoder only; here any mix of: {}",
            entry.name,
            registry::names(Entry::can_be_causal).join(", ")
        );
        found.need(entry.can_be_causal() || !run.task.has_decoder(), &["mix", "task"], text, help);
    }
}

/// An enum value as it is typed in TOML.
pub(crate) fn kebab<T: serde::Serialize>(value: &T) -> String {
    match toml::Value::try_from(value) {
        Ok(toml::Value::String(name)) => name,
        _ => String::new(), // our enums are plain strings
    }
}
