//! docs/operations.md: every metric that the page names exists in the code.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

#[test]
fn every_metric_that_is_named_exists() {
    let page = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let source = root().join("crates/server/src");
    let mut code = std::fs::read_to_string(source.join("metrics.rs")).unwrap();
    for file in ["process.rs", "requests.rs", "export.rs"] {
        code.push_str(&std::fs::read_to_string(source.join("metrics").join(file)).unwrap());
    }
    let words = page.split('`').filter(|word| word.starts_with("recount_") || word.starts_with("process_"));
    let mut count = 0;
    for word in words {
        let name = word.split('{').next().unwrap().trim_end_matches("_total").trim_end_matches("_info");
        assert!(code.contains(&format!("\"{name}\"")), "there is no metric {name}");
        count += 1;
    }
    assert!(count > 10, "{count} metrics are named");
}
