//! The `zh` tokenization of sacreBLEU 2.x: every Chinese character stands alone, the rest is split as by `13a`.

use super::{apply_all, is_space, thirteen_a};

/// The ranges of sacreBLEU's `tokenizer_zh.py` as Python compares them. Its two entries for planes above the first,
/// `'\u20000'` and `'\u2f800'`, are two-character strings there: they stand for U+2001 to U+2A6D and U+2F81 to U+2FA1.
const RANGES: [(char, char); 22] = [
    ('\u{3400}', '\u{4db5}'),
    ('\u{4e00}', '\u{9fa5}'),
    ('\u{9fa6}', '\u{9fbb}'),
    ('\u{f900}', '\u{fa2d}'),
    ('\u{fa30}', '\u{fa6a}'),
    ('\u{fa70}', '\u{fad9}'),
    ('\u{2001}', '\u{2a6d}'),
    ('\u{2f81}', '\u{2fa1}'),
    ('\u{ff00}', '\u{ffef}'),
    ('\u{2e80}', '\u{2eff}'),
    ('\u{3000}', '\u{303f}'),
    ('\u{31c0}', '\u{31ef}'),
    ('\u{2f00}', '\u{2fdf}'),
    ('\u{2ff0}', '\u{2fff}'),
    ('\u{3100}', '\u{312f}'),
    ('\u{31a0}', '\u{31bf}'),
    ('\u{fe10}', '\u{fe1f}'),
    ('\u{fe30}', '\u{fe4f}'),
    ('\u{2600}', '\u{26ff}'),
    ('\u{2700}', '\u{27bf}'),
    ('\u{3200}', '\u{32ff}'),
    ('\u{3300}', '\u{33ff}'),
];

/// `text` with a space between tokens; more than one space, and spaces at the ends, may be there.
pub fn tokenize(text: &str) -> String {
    let mut apart = String::with_capacity(2 * text.len());
    for letter in text.trim_matches(is_space).chars() {
        if RANGES.iter().any(|(first, last)| (*first..=*last).contains(&letter)) {
            apart.extend([' ', letter, ' ']);
        } else {
            apart.push(letter);
        }
    }
    apply_all(thirteen_a::rules(), apart)
}
