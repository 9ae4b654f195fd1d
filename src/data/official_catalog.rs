//! The paper's corpora: where they come from, and which files the experiments under `experiments/paper` read.
//!
//! Sizes are those of the full sets as distributed. A range stands where a reader drops odd rows before it counts.

use super::official::{Group, Holds, Official};

const fn group(files: &'static [&'static str], holds: Holds) -> Group {
    Group { files, holds, sha256: None }
}

const fn known(files: &'static [&'static str], holds: Holds, sha256: &'static str) -> Group {
    Group { files, holds, sha256: Some(sha256) }
}

/// So many rows, one a line.
const fn rows(count: u64) -> Holds {
    Holds::Rows(count, count, 0)
}

/// So many rows under one line of headings.
const fn table(count: u64) -> Holds {
    Holds::Rows(count, count, 1)
}

const WMT14_LICENCE: &str = "not stated; for research";

/// Every corpus of the paper's tables, and the word vectors of Table 3.
pub const OFFICIAL: &[Official] = &[
    Official {
        name: "wmt14-en-de",
        summary: "WMT'14 English-German, about 4.5 million pairs (translation)",
        version: "training data of 2014; newstest2013; newstest2014 in full (test-full.tgz)",
        folder: "data/wmt14",
        source: "https://www.statmt.org/wmt14/translation-task.html: unpack training-parallel-europarl-v7, -commoncrawl, -nc-v9, dev and \
                 test-full",
        licence: WMT14_LICENCE,
        split_rule: "the official one: newstest2013 is dev, newstest2014 test",
        groups: &[
            group(
                &["training/europarl-v7.de-en.en", "commoncrawl.de-en.en", "training/news-commentary-v9.de-en.en"],
                Holds::Rows(4_500_000, 4_600_000, 0),
            ),
            group(
                &["training/europarl-v7.de-en.de", "commoncrawl.de-en.de", "training/news-commentary-v9.de-en.de"],
                Holds::Rows(4_500_000, 4_600_000, 0),
            ),
            group(&["dev/newstest2013.en"], rows(3000)),
            group(&["dev/newstest2013.de"], rows(3000)),
            known(
                &["test-full/newstest2014-deen-src.en.sgm"],
                Holds::Segments(3003),
                "504d07744c489d23aefbd120bebf9720fadcb32891d4370f4fe05732de274099",
            ),
            known(
                &["test-full/newstest2014-deen-ref.de.sgm"],
                Holds::Segments(3003),
                "f10c95d057be397c0718b3c349840709810f4e39deed6906f7beace67af6ea3b",
            ),
        ],
    },
    Official {
        name: "wmt14-en-fr",
        summary: "WMT'14 English-French, about 40 million pairs (translation)",
        version: "training data of 2014; newstest2013; newstest2014 in full (test-full.tgz)",
        folder: "data/wmt14",
        source: "https://www.statmt.org/wmt14/translation-task.html: unpack training-parallel-europarl-v7, -commoncrawl, -un, -nc-v9, \
                 training-giga-fren (also the .gz within), dev and test-full",
        licence: WMT14_LICENCE,
        split_rule: "the official one: newstest2013 is dev, newstest2014 test",
        groups: &[
            group(
                &[
                    "training/europarl-v7.fr-en.en",
                    "commoncrawl.fr-en.en",
                    "un/undoc.2000.fr-en.en",
                    "training/news-commentary-v9.fr-en.en",
                    "giga-fren.release2.fixed.en",
                ],
                Holds::Rows(40_500_000, 41_200_000, 0),
            ),
            group(
                &[
                    "training/europarl-v7.fr-en.fr",
                    "commoncrawl.fr-en.fr",
                    "un/undoc.2000.fr-en.fr",
                    "training/news-commentary-v9.fr-en.fr",
                    "giga-fren.release2.fixed.fr",
                ],
                Holds::Rows(40_500_000, 41_200_000, 0),
            ),
            group(&["dev/newstest2013.en"], rows(3000)),
            group(&["dev/newstest2013.fr"], rows(3000)),
            known(
                &["test-full/newstest2014-fren-src.en.sgm"],
                Holds::Segments(3003),
                "5521ed9b1d07763c7e8d7ddfc0fda269cd114612a6283bd3836979ea4dd10a26",
            ),
            known(
                &["test-full/newstest2014-fren-ref.fr.sgm"],
                Holds::Segments(3003),
                "c57025c8a338c642fe3ad0206ddc75d258a5584e1d470b75f37af2fb666d7e93",
            ),
        ],
    },
    Official {
        name: "lm1b",
        summary: "One Billion Word benchmark, 30.3 million sentences (language modelling)",
        version: "r13output",
        folder: "data/lm1b/1-billion-word-language-modeling-benchmark-r13output",
        source: "https://www.statmt.org/lm-benchmark: unpack 1-billion-word-language-modeling-benchmark-r13output.tar.gz into data/lm1b",
        licence: "not stated; for research",
        split_rule: "the official one: shards 1 to 99 train; held-out shard 1 dev, 0 test",
        groups: &[
            group(&["training-monolingual.tokenized.shuffled/news.en-*-of-00100"], rows(30_301_028)),
            group(&["heldout-monolingual.tokenized.shuffled/news.en.heldout-*-of-00050"], rows(306_688)),
        ],
    },
    Official {
        name: "cnn-dailymail",
        summary: "CNN and Daily Mail articles with highlights, about 312,000 (summarization)",
        version: "stories of DMQA, URL lists of See et al.",
        folder: "data/cnn_dailymail",
        source: "https://cs.nyu.edu/~kcho/DMQA: unpack cnn_stories.tgz and dailymail_stories.tgz, which hold cnn/stories and \
                 dailymail/stories; https://github.com/abisee/cnn-dailymail for url_lists",
        licence: "texts: their publishers'",
        split_rule: "the official one, by the lists of URLs",
        groups: &[
            group(&["url_lists/all_train.txt"], Holds::Rows(287_113, 287_300, 0)),
            group(&["url_lists/all_val.txt"], rows(13_368)),
            group(&["url_lists/all_test.txt"], rows(11_490)),
            group(&["cnn/stories/*.story", "dailymail/stories/*.story"], Holds::Anything),
        ],
    },
    Official {
        name: "personachat",
        summary: "PersonaChat: dialogues of two personas (dialogue)",
        version: "personachat.tgz of ParlAI",
        folder: "data/personachat",
        source: "https://parl.ai (task personachat): unpack personachat.tgz into data",
        licence: "not stated in the files",
        split_rule: "the official one: train, valid, test",
        groups: &[
            group(&["train_self_original.txt"], Holds::Anything),
            group(&["valid_self_original.txt"], Holds::Anything),
            group(&["test_self_original.txt"], Holds::Anything),
        ],
    },
    Official {
        name: "convai2",
        summary: "ConvAI2: PersonaChat as its challenge had it, without candidates (dialogue); no experiment here reads it yet",
        version: "convai2_fix_723.tgz of ParlAI",
        folder: "data/convai2",
        source: "https://parl.ai (task convai2): unpack convai2_fix_723.tgz into data/convai2",
        licence: "not stated in the files",
        split_rule: "the official train and valid; the test set was never published",
        groups: &[
            group(&["train_self_original_no_cands.txt"], Holds::Bytes(16_993_652)),
            known(
                &["valid_self_original_no_cands.txt"],
                Holds::Bytes(1_042_927),
                "7e26e8a266583dfe21fd2df4c651a2831dceeb7c87be9c7bb517974d9979c363",
            ),
        ],
    },
    Official {
        name: "glue",
        summary: "nine tasks of language understanding (classification)",
        version: "the tab-separated files of gluebenchmark.com; MRPC from either of its two sources (the bytes known here are the \
                  MSI's; SentEval's splits tokens)",
        folder: "data/glue",
        source: "https://gluebenchmark.com/tasks: a folder a task, named as there. MRPC comes as msr_paraphrase_train.txt: its heading \
                 and those of its rows whose two IDs are in dev_ids.tsv make MRPC/dev.tsv, the heading and the other rows \
                 MRPC/train.tsv, in their order, without the carriage returns",
        licence: "each task its own; see https://gluebenchmark.com",
        split_rule: "dev files are reported; dev sets that choose among checkpoints are held out of train by a hash of the texts",
        groups: &[
            known(&["CoLA/train.tsv"], rows(8551), "cb368ebeb9f27d7ad03720d27ddc95687a311bdb100781a2fe59a5f5b1bc0624"),
            known(&["CoLA/dev.tsv"], rows(1043), "8c013e21dc39957cac37378d87bebe225b694a0d5fe13eded66c2856628833fd"),
            group(&["SST-2/train.tsv"], table(67_349)),
            known(&["SST-2/dev.tsv"], table(872), "54a9c12c77e402fc14d6a66a506f24d999f596b0176eb777c972cccc2f9cc4b0"),
            known(&["MRPC/train.tsv"], table(3668), "122becc469405bc16f9defcb8715d2a4b7ce600e9d9381e6dc42bfdd1494c51d"),
            known(&["MRPC/dev.tsv"], table(408), "81c8a1a9e1dfe461dd2c1a4f98f43fe18bece44d2bf9e3d0b245b88e5aa5eaf7"),
            group(&["STS-B/train.tsv"], table(5749)),
            known(&["STS-B/dev.tsv"], table(1500), "fe7dc0632a5033562f3cadff991f6e8d9b9b6311861660e78c3c82eb7db67f59"),
            // Some rows lack a column; the counts that are published leave them out.
            group(&["QQP/train.tsv"], Holds::Rows(363_846, 363_900, 1)),
            group(&["QQP/dev.tsv"], Holds::Rows(40_430, 40_440, 1)),
            group(&["MNLI/train.tsv"], table(392_702)),
            group(&["MNLI/dev_matched.tsv"], table(9815)),
            group(&["MNLI/dev_mismatched.tsv"], table(9832)),
            // Of QNLI's second version, as the data set card nyu-mll/glue at huggingface.co counts it.
            group(&["QNLI/train.tsv"], table(104_743)),
            known(&["QNLI/dev.tsv"], table(5463), "ac19409dcb04631eaaa094bdebdcf621086bc352503dfb6a1a648b614986f4fd"),
            group(&["RTE/train.tsv"], table(2490)),
            known(&["RTE/dev.tsv"], table(277), "80230dfa1347282e7b532b06a1004a76a710087541189bf874223ddf0e3819fb"),
            group(&["WNLI/train.tsv"], table(635)),
            known(&["WNLI/dev.tsv"], table(71), "cba00490596dd14be8cf53b4f53bb744abe3a7b89f81ab210528d80225338ed5"),
        ],
    },
    Official {
        name: "superglue",
        summary: "eight harder tasks of language understanding (classification)",
        version: "the JSON Lines of super.gluebenchmark.com (v2)",
        folder: "data/superglue",
        source: "https://super.gluebenchmark.com/tasks: a folder a task, named as there",
        licence: "each task its own; see https://super.gluebenchmark.com",
        split_rule: "val files are reported; dev sets that choose among checkpoints are held out of train by a hash of the texts",
        groups: &[
            group(&["BoolQ/train.jsonl"], rows(9427)),
            group(&["BoolQ/val.jsonl"], rows(3270)),
            group(&["CB/train.jsonl"], rows(250)),
            known(&["CB/val.jsonl"], rows(56), "c6125587e9601560cb16ea223c33964c5a915568d2af68a81f651b6ef25395ec"),
            group(&["COPA/train.jsonl"], rows(400)),
            known(&["COPA/val.jsonl"], rows(100), "fa61467cc251010178ed72f8ca82a0fceefc4ca9a85f87ec3b6102955e1a1f1a"),
            // A line is a passage with its questions.
            group(&["MultiRC/train.jsonl"], Holds::Anything),
            known(&["MultiRC/val.jsonl"], rows(83), "d2b480195b15574ac00d52c4479f630bc161a7ab2de77e970fd00652846953ee"),
            group(&["ReCoRD/train.jsonl"], Holds::Anything),
            group(&["ReCoRD/val.jsonl"], Holds::Anything),
            known(&["RTE/train.jsonl"], rows(2490), "fdfb03443abe3ec0424b7fc5d1a8863361719bc061338b7a63e56b94d615f201"),
            known(&["RTE/val.jsonl"], rows(277), "ab990507bf5f35dc176cba7770a72bfa2c50a88ed72b8cc95cfbf9db95ab1af1"),
            group(&["WiC/train.jsonl"], rows(5428)),
            known(&["WiC/val.jsonl"], rows(638), "9f7207c88beba42cbc139de4c62ce05b23bffc189b3d561594b160e0c3920c0b"),
            known(&["WSC/train.jsonl"], rows(554), "0ffaa3fd8d21e58a0805962565d1619aa4819bc3d034255777f606f801ae5a42"),
            known(&["WSC/val.jsonl"], rows(104), "e5c685ea4bdc347354036a28176459f6feeb0b6870375ecfb3d6ddb1f0e28bef"),
        ],
    },
    Official {
        name: "ag-news",
        summary: "AG News: 127,600 news items in four topics (classification)",
        version: "ag_news_csv of Zhang et al.",
        folder: "data/ag_news_csv",
        source: "https://github.com/mhjabreel/CharCnn_Keras or the archive ag_news_csv.tar.gz of Zhang, Zhao, LeCun",
        licence: "research and any other non-commercial activity (readme)",
        split_rule: "the official test; dev is held out of train by a hash of the texts",
        groups: &[
            group(&["train.csv"], rows(120_000)),
            known(&["test.csv"], rows(7600), "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699"),
        ],
    },
    Official {
        name: "imdb",
        summary: "50,000 film reviews, good and bad (classification)",
        version: "aclImdb v1",
        folder: "data/aclImdb",
        source: "https://ai.stanford.edu/~amaas/data/sentiment: unpack aclImdb_v1.tar.gz into data",
        licence: "asks to be cited (README)",
        split_rule: "the official test; dev is held out of train by a hash of the texts",
        groups: &[
            group(&["train/pos/*.txt"], Holds::Files(12_500)),
            group(&["train/neg/*.txt"], Holds::Files(12_500)),
            group(&["test/pos/*.txt"], Holds::Files(12_500)),
            group(&["test/neg/*.txt"], Holds::Files(12_500)),
        ],
    },
    Official {
        name: "c4",
        summary: "C4, English: 365 million web pages, on which the paper pre-trains; corpus json-lines reads it, no experiment here yet",
        version: "c4/en in 1024 gzipped JSON Lines files",
        folder: "data/c4/en",
        source: "https://huggingface.co/datasets/allenai/c4 (the folder en)",
        licence: "ODC-BY",
        split_rule: "the official train and validation files",
        groups: &[
            group(&["c4-train.*-of-01024.json.gz"], Holds::Files(1024)),
            group(&["c4-validation.*-of-00008.json.gz"], Holds::Files(8)),
        ],
    },
    Official {
        name: "glove",
        summary: "GloVe word vectors, for the embedding average of dialogue",
        version: "glove.6B, 300 numbers a word",
        folder: "data/glove",
        source: "https://nlp.stanford.edu/projects/glove: unpack glove.6B.zip into data/glove",
        licence: "Public Domain Dedication and License (home page)",
        split_rule: "none: not a data set",
        groups: &[group(&["glove.6B.300d.txt"], Holds::Rows(400_000, 400_001, 0))],
    },
];

/// The corpus of that name.
pub fn find(name: &str) -> Option<&'static Official> {
    OFFICIAL.iter().find(|official| official.name == name)
}
