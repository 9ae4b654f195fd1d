//! Keys that change nothing.

use super::config::{CorpusKind, Select, TaskKind};
use super::message::Problem;
use super::resolve::Scope;
use super::Experiment;

impl Experiment {
    /// A key that changes nothing is an error: its author expects something of it.
    pub(super) fn check_effects(&self, task: TaskKind, scopes: &[Scope], problems: &mut Vec<Problem>) {
        let many_terms = |scope: &Scope| scope.mixes.iter().any(|(mix, _)| mix.terms.len() > 1);
        for name in self.source.names() {
            let within = name.strip_prefix("variant.").and_then(|rest| rest.split_once('.'));
            let (index, key) = within.map_or((None, name), |(index, key)| (index.parse::<usize>().ok(), key));
            let touched = match index {
                Some(index) => scopes.get(index + 1..index + 2).unwrap_or_default(),
                None => scopes,
            };
            let all = |idle: &dyn Fn(&Scope) -> bool| touched.iter().all(idle);
            let corpus = |kind: fn(CorpusKind) -> bool| touched.iter().any(|scope| kind(scope.data.corpus));
            let why = match key {
                "decode" if task == TaskKind::MaskedLanguageModelling => "gaps are filled greedily",
                "decode" if !task.has_target() => "this task writes no target",
                "decode.max_extra" if task != TaskKind::Translation => "only a translation's length follows its source",
                "model.encoder_layers" if !task.has_encoder() => "language modelling has no encoder",
                "model.decoder_layers" if !task.has_decoder() => "classification has no decoder",
                "data.source" if task != TaskKind::Translation => "only translation has two languages",
                "data.target" if !task.has_target() => "this task writes no target",
                "data.target" if task != TaskKind::Translation && !corpus(CorpusKind::reads_files) => {
                    "this corpus is English"
                }
                "data.source" | "data.target" if all(&|scope| scope.data.corpus == CorpusKind::Reverse) => {
                    "corpus `reverse` has no languages"
                }
                "data.train" | "data.dev" | "data.test" if !corpus(CorpusKind::reads_files) => {
                    "this corpus reads no files that you name"
                }
                "data.dev" | "data.test" if all(&|scope| scope.data.corpus == CorpusKind::PersonaChat) => {
                    "the one file of `persona-chat` holds all splits"
                }
                "data.folder" if !corpus(CorpusKind::reads_folder) => "this corpus has no official folder",
                "data.set" if !corpus(CorpusKind::has_sets) => "only `glue` and `superglue` have sets",
                "data.stories" if !corpus(|corpus| corpus == CorpusKind::CnnStories) => {
                    "only `cnn-stories` has stories"
                }
                "data.fields" if !corpus(|corpus| corpus == CorpusKind::JsonLines) => "only `json-lines` has fields",
                "data.personas" if !corpus(CorpusKind::has_personas) => "this corpus has no persona lines",
                "data.history" if task == TaskKind::Dialogue && all(&|scope| scope.data.corpus == CorpusKind::Text) => {
                    "a line of corpus `text` is one text"
                }
                "data.history" | "data.vectors" if task != TaskKind::Dialogue => "it is for dialogue",
                "data.window" if !task.models_text() => "it is for language modelling",
                "data.noise_density" | "data.mean_span" if task != TaskKind::MaskedLanguageModelling => {
                    "it is for masked language modelling"
                }
                "data.max_source_tokens" if !matches!(task, TaskKind::Summarization | TaskKind::Dialogue) => {
                    "it is for summarization and dialogue; max_tokens holds here"
                }
                "data.max_tokens" | "data.too_long" if all(&|scope| scope.data.window > 0) => {
                    "windows cut no line; `window` says how long they are"
                }
                "data.too_long" if task == TaskKind::Classification => "long texts are always cut",
                "train.label_smoothing" if all(&|scope| scope.data.corpus.is_scored(&scope.data.set)) => {
                    "a score has no classes"
                }
                "train.average" if all(&|scope| scope.train.select != Select::Average) => {
                    "it counts with `select = \"average\"` only"
                }
                "model.mixing" if !touched.iter().any(many_terms) => "no mix has two terms",
                _ => continue,
            };
            let word = key.rsplit('.').next().unwrap_or(key);
            let text = format!("`{word}` has no effect: {why}");
            problems.push(self.source.of_key(name, text, "take it out"));
        }
    }
}
