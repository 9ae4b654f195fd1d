//! Operations of a whole model, by sums that are written out.

#[path = "common/experiments.rs"]
mod experiments;

use experiments::plan;
use synthesizer::attention::cost::CostError;
use synthesizer::attention::{AttentionError, Mixing};
use synthesizer::experiment::Mix;
use synthesizer::model::TransformerConfig;
use synthesizer::task;

fn config(mix: &str, encoder_layers: i64, decoder_layers: i64) -> TransformerConfig {
    TransformerConfig {
        vocabulary: 11,
        d_model: 8,
        heads: 2,
        encoder_layers,
        decoder_layers,
        d_ff: 12,
        max_length: 9,
        dropout: 0.0,
        attention_dropout: 0.0,
        relu_dropout: 0.0,
        terms: mix.parse::<Mix>().unwrap().terms,
        mixing: Mixing::Softmax,
    }
}

/// B 3, S 7, T 5, d 8, h 2, ff 12, vocabulary 11; two encoder layers and one decoder layer.
#[test]
fn a_tiny_model_by_hand() {
    let count = |mix| config(mix, 2, 1).flops(3, Some(7), 5).unwrap().total;
    // V: query, key, value, output 4·2·B·L·8·8; logits 2·B·L·L·8, softmax 5·B·2·L·L, weighted values 2·B·L·L·8
    let encoder = 4 * 2 * 21 * 64 + 2 * 3 * 49 * 8 + 5 * 3 * 2 * 49 + 2 * 3 * 49 * 8;
    assert_eq!(encoder, 10_752 + 2_352 + 1_470 + 2_352);
    let decoder = 4 * 2 * 15 * 64 + 2 * 3 * 25 * 8 + 5 * 3 * 2 * 25 + 2 * 3 * 25 * 8;
    // to the memory: query and output of 15 tokens, key and value of 21; 5 x 7 logits a head
    let cross = 2 * 2 * 15 * 64 + 2 * 2 * 21 * 64 + 2 * 3 * 35 * 8 + 5 * 3 * 2 * 35 + 2 * 3 * 35 * 8;
    let feed_forward = |tokens: u64| 2 * tokens * 8 * 12 + 2 * tokens * 12 * 8;
    let logits = 2 * 15 * 8 * 11;
    let whole = 2 * (encoder + feed_forward(21)) + decoder + cross + feed_forward(15) + logits;
    assert_eq!(count("V"), whole);
    // R has no queries and keys, and its softmax is one for all sequences
    let saved =
        |tokens: u64, length: u64| 2 * 2 * tokens * 64 + 2 * 3 * length * length * 8 + 5 * 2 * 2 * length * length;
    assert_eq!(count("R"), whole - 2 * saved(21, 7) - saved(15, 5));
    // a language model has the decoder without the memory; its self-attention is counted apart
    let alone = config("V", 2, 1).flops(3, None, 5).unwrap();
    assert_eq!((alone.self_attention, alone.rest, alone.logits), (decoder, feed_forward(15), logits));
    assert_eq!(alone.total, decoder + feed_forward(15) + logits);
    // the stacks apart
    assert_eq!(config("V", 3, 1).flops(3, Some(7), 5).unwrap().total, whole + encoder + feed_forward(21));
    let two = config("V", 2, 2).flops(3, Some(7), 5).unwrap().total;
    assert_eq!(two, whole + decoder + cross + feed_forward(15));
}

#[test]
fn a_side_longer_than_the_model_is_told() {
    for (source, target) in [(10, 5), (7, 10)] {
        let error = config("R", 2, 1).flops(3, Some(source), target).unwrap_err();
        assert_eq!(error, CostError::Attention(AttentionError::TooLong { length: 10, max_length: 9 }));
    }
}

/// 2048 tokens hold 17 sources of 116 tokens, with targets of 27; two such batches make a step. The vocabulary has seven
/// sentinels more than the tokenizer.
#[test]
fn a_step_has_as_many_rows_as_fill_its_batches() {
    let text = "task = \"masked-language-modelling\"\nmix = \"R+V\"\n[data]\nvocabulary = 2000\nwindow = 128\n[model]\nd_model = 128\nheads = 4\n\
                encoder_layers = 2\ndecoder_layers = 2\nd_ff = 512\nmax_length = 128\n[train]\nbatch_tokens = 2048\naccumulate = 2\n";
    let run = &plan(text).runs[0].run;
    let model = TransformerConfig {
        vocabulary: 2007,
        d_model: 128,
        heads: 4,
        d_ff: 512,
        max_length: 128,
        ..config("R+V", 2, 2)
    };
    let expected = 2 * model.flops(17, Some(116), 27).unwrap().total;
    assert_eq!(task::forward_flops(run, run.data.vocabulary).unwrap(), Some(expected));
    let other = &plan("task = \"translation\"\nmix = \"V\"\n").runs[0].run;
    assert_eq!(task::forward_flops(other, other.data.vocabulary).unwrap(), None);
    assert_eq!(task::size::parameters(run, run.data.vocabulary).unwrap(), model.parameters(true).unwrap());
}

/// PAPER.md, Table 6: the Transformer of T5-base's sizes has 223M parameters.
#[test]
fn the_papers_profile_has_the_papers_parameters() {
    let file = "experiments/paper/table6/c4.toml";
    let plans = synthesizer::experiment::plan_all(&[file.into()], std::path::Path::new("results")).unwrap();
    let run = &plans[0].1.runs.iter().find(|planned| planned.name == "V-s1").expect("a Transformer").run;
    let (trainable, total) = task::size::parameters(run, run.data.vocabulary).unwrap();
    assert_eq!((trainable as f64 / 1e6).round(), 223.0);
    assert_eq!(trainable, total);
    // 65,536 tokens a batch: 128 sources of 512
    let counts = run.data.spans_in(run.data.window);
    assert_eq!((run.train.batch_tokens, counts.source(), run.model.max_length), (128 * 512, 512, 512));
}
