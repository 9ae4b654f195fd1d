//! Windows of the running text, against one laid out by hand.

use std::borrow::Cow;
use synthesizer::data::running_text::RunningText;
use synthesizer::data::token_store::{Keep, StoreOptions, TokenStore};
use synthesizer::data::tokenizer::{train_or_load, END};
use synthesizer::data::{Corpus, Examples};

struct Lines(Vec<String>);

impl Examples for Lines {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn columns(&self) -> usize {
        1
    }
    fn text(&self, row: usize, _: usize) -> anyhow::Result<Cow<'_, str>> {
        Ok(Cow::Borrowed(&self.0[row]))
    }
}

fn lines() -> Vec<String> {
    // 53 lines of 0 to 6 words: more than three blocks of 16
    (0..53)
        .map(|line| (0..line % 7).map(|word| format!("w{}", (line * 5 + word) % 11)).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn windows_are_the_running_text_cut_into_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let rows = || Box::new(Lines(lines()));
    let corpus = Corpus::new("made up".into(), rows(), rows(), rows(), vec![]).unwrap();
    let tokenizer = train_or_load(&corpus, 280, folder.path()).unwrap();
    let store = || {
        let options =
            StoreOptions { max_tokens: usize::MAX, source: None, keep: Keep::All, data_hash: "made up".into() };
        TokenStore::build(&Lines(lines()), &tokenizer, &options, &folder.path().join("made-up.tokens")).unwrap()
    };
    let mut whole = Vec::new();
    for line in lines() {
        whole.extend(tokenizer.encode(&line).unwrap());
        whole.push(END);
    }
    let words = lines().iter().map(|line| line.split_whitespace().count() as u64 + 1).sum::<u64>();
    for window in [1, 5, 16, 64, whole.len(), whole.len() + 9] {
        let text = RunningText::new(store(), window);
        let pieces: Vec<Vec<u32>> = (0..text.len()).map(|row| text.tokens(row).unwrap()).collect();
        let expected: Vec<Vec<u32>> = whole.chunks(window).map(<[u32]>::to_vec).collect();
        assert_eq!(pieces, expected, "window {window}");
        assert_eq!(text.lengths(), expected.iter().map(|piece| piece.len() as u32).collect::<Vec<_>>());
        assert_eq!(text.words(), words);
    }
    let by_line = RunningText::new(store(), 0);
    assert_eq!((0..by_line.len()).flat_map(|row| by_line.tokens(row).unwrap()).collect::<Vec<_>>(), whole);
    assert_eq!(by_line.len(), 53);
    assert_eq!(by_line.words(), words);
    assert!(by_line
        .lengths()
        .iter()
        .map(|length| *length as usize)
        .eq((0..53).map(|row| by_line.tokens(row).unwrap().len())));
}
