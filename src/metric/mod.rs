//! What is measured: BLEU of translations, perplexity of language models, ROUGE of summaries; of replies BLEU-1 and BLEU-4,
//! ROUGE-L, METEOR, CIDEr and the embedding average; of labelled rows accuracies, F1s and correlations.

pub mod answers;
pub mod bleu;
pub mod caption_bleu;
pub mod caption_rouge;
pub mod cider;
pub mod classification;
pub mod correlation;
pub mod embedding_average;
mod lcs;
mod mean;
pub mod meteor;
mod ngrams;
pub mod perplexity;
pub mod porter;
pub mod rouge;
pub mod script;
pub mod tokenize;
