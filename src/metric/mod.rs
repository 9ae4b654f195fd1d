//! What is measured: BLEU of translations, perplexity of language models.

pub mod bleu;
pub mod perplexity;
pub mod tokenize;
