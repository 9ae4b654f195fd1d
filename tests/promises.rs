//! Every test that docs/promises.md names exists.

use std::path::Path;

#[test]
fn every_promise_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("docs/promises.md")).unwrap();
    let named: Vec<(&str, &str)> = text.split('`').filter_map(|piece| piece.split_once(".rs::")).collect();
    assert!(named.len() > 20, "{named:?}");
    for (file, test) in named {
        let path = root.join(format!("{file}.rs"));
        let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let is_test = |part: &str| part.trim_start().starts_with(&format!("fn {test}("));
        assert!(source.split("#[test]").skip(1).any(is_test), "{file}.rs has no test {test}");
    }
    // a promise is a bullet, and no bullet goes without a test
    for promise in text.split("\n- ").skip(1) {
        let promise = promise.split("\n## ").next().unwrap();
        assert!(promise.contains(".rs::"), "a promise without a test: {promise}");
    }
}
