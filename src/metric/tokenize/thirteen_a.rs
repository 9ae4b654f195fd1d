//! The `13a` tokenization of WMT's mteval-v13a script, in the form that sacreBLEU 2.x gives it.

use super::{apply_all, is_space, Rule};
use std::sync::LazyLock;

/// In this order: ASCII symbols but `'`, `,`, `-` and `.` stand alone; a period or comma too, unless both its neighbours
/// are digits; a dash after a digit.
static RULES: LazyLock<[Rule; 4]> = LazyLock::new(|| {
    [
        Rule::new(r"[{-~\[-` -&(-+:-@/]", " $0 "),
        Rule::new(r"([^0-9])([.,])", "$1 $2 "),
        Rule::new(r"([.,])([^0-9])", " $1 $2"),
        Rule::new(r"([0-9])(-)", "$1 $2 "),
    ]
});

/// The rules that `13a` and `zh` share.
pub(super) fn rules() -> &'static [Rule] {
    &*RULES
}

/// `text` with a space between tokens; more than one space, and spaces at the ends, may be there.
///
/// As in the original, `<skipped>` is removed, a word hyphenated across a line end is joined, other line ends become
/// spaces, and the four entities `&quot;`, `&amp;`, `&lt;`, `&gt;` become their characters, one after another (so that
/// `&amp;lt;` ends as `<`).
pub fn tokenize(text: &str) -> String {
    let mut text = text.trim_end_matches(is_space).replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    if text.contains('&') {
        text = text.replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
    }
    apply_all(rules(), format!(" {text} "))
}
