//! Texts without a blank, of hundreds of thousands of characters, and texts of megabytes. They have a process of their own, since
//! another test measures the memory of its process.

use synthesizer::data::pre_tokens::{for_each, LONGEST};
use synthesizer::data::rows::Rows;
use synthesizer::data::tokenizer::Tokenizer;

fn train(texts: Vec<String>, vocabulary: usize) -> Tokenizer {
    Tokenizer::train(&Rows::single(texts), vocabulary).unwrap()
}

#[test]
fn texts_without_a_blank_are_learned_from_and_encoded_in_pieces() {
    // Letters that hardly repeat, so that many merges are made; a quadratic trainer would take many minutes here.
    let mut state = 1u64;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 33) as u8 % 26)
    };
    let letters: String = (0..600_000).map(|_| letter()).collect();
    let texts = [
        letters,
        " ".repeat(600_000),
        "7".repeat(600_000),
        "語".repeat(200_000),
        "👩\u{200d}🔬".repeat(50_000),
        "e\u{301}".repeat(200_000),
    ];
    let tokenizer = train(texts.to_vec(), 1000);
    assert_eq!(tokenizer.size(), 1000);
    for text in texts {
        let ids = tokenizer.encode(&text).unwrap();
        assert!(ids.len() < text.len());
        assert!(tokenizer.decode(&ids).unwrap() == text, "{:?} …", text.chars().next());
    }
}

#[test]
fn pre_tokens_are_never_longer_and_together_are_the_text() {
    // The last is beyond the million steps back after which fancy-regex gives up.
    for text in ["x".repeat(600_000), "語。".repeat(300_000), "'s".repeat(300_000), " ".repeat(3_000_000)] {
        let (mut length, mut count) = (0, 0);
        for_each(&text, |piece| {
            assert!(text[length..].starts_with(piece) && piece.chars().count() <= LONGEST);
            (length, count) = (length + piece.len(), count + 1);
            Ok(())
        })
        .unwrap();
        assert_eq!(length, text.len());
        assert!(count >= text.chars().count().div_ceil(LONGEST));
    }
}

#[test]
fn a_text_of_many_parts_is_learned_from_whole() {
    let line: String = (0..60_000).map(|n| format!("word{} of, the line's end ", n % 977)).collect();
    assert!(line.len() > 1 << 20, "more than the trainer gets at once");
    let words: Vec<String> = line.split_inclusive("end ").map(|part| part.trim_end().to_string()).collect();
    assert_eq!(train(vec![line.trim_end().to_string()], 700).hash(), train(words, 700).hash());
}
