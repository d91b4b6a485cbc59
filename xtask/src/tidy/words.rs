//! Checks for text that must not be in the tree: paths of a developer's machine.

use super::Report;
use super::tree::Tree;

const RULE: &str = "words";

/// In halves, so that this file does not contain them.
const WORDS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for (path, text) in &tree.texts {
        for (at, line) in text.lines().enumerate() {
            if let Some(word) = WORDS.iter().find(|word| line.contains(**word)) {
                report.refuse(path, at + 1, RULE, format!("`{word}` is a path on one machine"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::refused_at;

    #[test]
    fn places_on_one_machine_are_refused_anywhere() {
        for word in WORDS {
            refused_at("docs/a.md", &format!("\nsee {word}x\n"), RULE, 2);
            refused_at("testdata/runs/a.jsonl", &format!("{{\"path\":\"{word}x\"}}\n"), RULE, 1);
        }
    }
}
