//! A toy experiment of every task kind, with its data, for tests that run the program.
#![allow(dead_code)] // each test file uses its part

use super::workplace::Workplace;

/// An experiment file and the files that it reads.
pub struct Toy {
    /// Stem of the experiment file.
    pub name: &'static str,
    pub toml: String,
    /// Names and contents.
    pub files: Vec<(String, String)>,
}

impl Toy {
    /// Writes the files and `NAME.toml`.
    pub fn put(&self, place: &Workplace) {
        for (name, text) in &self.files {
            let path = place.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::write(place.path(&format!("{}.toml", self.name)), &self.toml).unwrap();
    }
}

const WORDS: [&str; 12] =
    ["lamp", "door", "window", "kitchen", "open", "closed", "is", "the", "not", "very", "old", "red"];

/// Lines of words, other ones for another seed.
fn lines(seed: u64, count: usize) -> Vec<String> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (0..count).map(|_| (0..4 + next(6)).map(|_| WORDS[next(12) as usize]).collect::<Vec<_>>().join(" ")).collect()
}

fn joined(lines: Vec<String>) -> String {
    lines.join("\n") + "\n"
}

fn toml(task: &str, data: &str, layers: &str, steps: u64) -> String {
    format!(
        r#"title = "Toy"
task = "{task}"
mix = ["V", "FR"]
[data]
{data}
vocabulary = 300
[model]
d_model = 16
heads = 2
{layers}
d_ff = 32
max_length = 32
[train]
steps = {steps}
batch_tokens = 256
schedule = "linear"
learning_rate = 3e-3
warmup = 2
log_every = 2
evaluate_every = 4
"#
    )
}

const BOTH: &str = "encoder_layers = 1\ndecoder_layers = 1";

/// One toy for each task kind.
pub fn toys(steps: u64) -> Vec<Toy> {
    let splits = ["train", "dev", "test"];
    let sizes = [60, 12, 16];
    let each = |make: &dyn Fn(&str, usize, u64) -> (String, String)| -> Vec<(String, String)> {
        splits.iter().zip(sizes).enumerate().map(|(at, (split, size))| make(split, size, 11 * at as u64 + 3)).collect()
    };
    let text = each(&|split, size, seed| (format!("{split}.txt"), joined(lines(seed, size))));
    let pairs = |split: &str, size: usize, seed: u64| {
        let object = |(a, b): (String, String)| format!("{{\"article\": \"{a}\", \"highlights\": \"{b}.\\n{a}.\"}}");
        let rows = lines(seed, size).into_iter().zip(lines(seed + 100, size)).map(object).collect();
        (format!("{split}.jsonl"), joined(rows))
    };
    let talk = |split: &str, size: usize, seed: u64| {
        let row = |(a, b): (String, String)| format!("1 {a}\t{b}");
        let rows = lines(seed, size).into_iter().zip(lines(seed + 100, size)).map(row).collect();
        (format!("{split}.talk"), joined(rows))
    };
    let mut talks = each(&talk);
    let vector = |(at, word): (usize, &&str)| format!("{word} 0.{at} -0.25 {}", 1.0 - at as f64 / 7.0);
    talks.push(("vectors.txt".into(), joined(WORDS.iter().enumerate().map(vector).collect())));
    let news = |(file, size, seed): (&str, usize, u64)| {
        let row = |(at, line): (usize, String)| format!("\"{}\",\"{}\",\"{line}\"", at % 4 + 1, WORDS[at % 4]);
        (format!("news/{file}.csv"), joined(lines(seed, size).into_iter().enumerate().map(row).collect()))
    };
    let of_splits = |ending: &str| splits.map(|split| format!("{split} = \"{split}.{ending}\"")).join("\n");
    vec![
        Toy {
            name: "translation",
            toml: toml("translation", "corpus = \"reverse\"\nmax_tokens = 24", BOTH, steps),
            files: Vec::new(),
        },
        Toy {
            name: "language-modelling",
            toml: toml(
                "language-modelling",
                &format!("corpus = \"text\"\n{}\nmax_tokens = 31", of_splits("txt")),
                "decoder_layers = 1",
                steps,
            ),
            files: text.clone(),
        },
        Toy {
            name: "masked-language-modelling",
            toml: toml(
                "masked-language-modelling",
                &format!("corpus = \"text\"\n{}\nwindow = 20\nnoise_density = 0.3\nmean_span = 2.0", of_splits("txt")),
                BOTH,
                steps,
            ),
            files: text,
        },
        Toy {
            name: "summarization",
            toml: toml(
                "summarization",
                &format!("corpus = \"json-lines\"\n{}\nmax_tokens = 31\ntoo_long = \"cut\"", of_splits("jsonl")),
                BOTH,
                steps,
            ),
            files: each(&pairs),
        },
        Toy {
            name: "dialogue",
            toml: toml(
                "dialogue",
                &format!("corpus = \"parlai\"\n{}\nvectors = \"vectors.txt\"\nmax_tokens = 31", of_splits("talk")),
                BOTH,
                steps,
            ),
            files: talks,
        },
        Toy {
            name: "classification",
            toml: toml(
                "classification",
                "corpus = \"ag-news\"\nfolder = \"news\"\nmax_tokens = 24",
                "encoder_layers = 1",
                steps,
            ),
            files: [("train", 200, 5), ("test", 24, 6)].map(news).to_vec(),
        },
    ]
}
