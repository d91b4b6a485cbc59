//! Checks hard rule 4: no reader sees an event before the store has confirmed it.
//!
//! Readers see what is on a run's live list. So only one function, which receives what the store confirmed, may push to
//! it.

use super::Report;
use super::tree::Tree;

const RULE: &str = "rule 4";
const ENGINE: &str = "crates/engine/src";
/// The one file that may push …
const PUBLISHER: &str = "crates/engine/src/read/publish.rs";
/// … the one function in it …
const FUNCTION: &str = "committed";
/// … and what it calls.
const PUSH: &str = "push_committed";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let mut declared = Vec::new();
    let mut used = 0;
    for (path, source) in &tree.sources {
        if path.starts_with("xtask/") {
            continue;
        }
        for (at, token) in source.tokens.iter().enumerate() {
            if source.name(at) != Some(PUSH) || source.is_test(at) {
                continue;
            }
            if at > 0 && source.name(at - 1) == Some("fn") {
                declared.push((path.as_str(), token.line));
            } else if path == PUBLISHER && source.function_around(at) == Some(FUNCTION) {
                used += 1;
            } else {
                let message = format!(
                    "`{PUSH}` outside `fn {FUNCTION}` of {PUBLISHER}; readers would see it too early"
                );
                report.refuse(path, token.line, RULE, message);
            }
        }
    }
    for (path, line) in declared.iter().skip(1) {
        report.refuse(path, *line, RULE, format!("`{PUSH}` is declared a second time"));
    }
    // A renamed function or file must not switch the rule off.
    let engine_has_parts = tree.under(ENGINE).any(|path| !path.ends_with("/lib.rs"));
    if engine_has_parts && (declared.is_empty() || used == 0) {
        let message = format!(
            "`fn {FUNCTION}` here must push with `{PUSH}`, declared once; the rule rests on these names"
        );
        report.refuse(PUBLISHER, 1, RULE, message);
    }
}

#[cfg(test)]
mod tests {
    use crate::tidy::judge;
    use crate::tidy::tests::{clean_tree, refused_at, rules_at, with};

    #[test]
    fn pushing_elsewhere_is_refused() {
        refused_at(
            "crates/engine/src/writer.rs",
            "//! Head.\nfn f(l: &List) {\n    l.push_committed(1);\n}\n",
            "rule 4",
            3,
        );
        refused_at(
            "crates/face-aep/src/serve.rs",
            "//! Head.\nfn f() { List::push_committed(1); }\n",
            "rule 4",
            2,
        );
        let publisher = "//! Head.\nfn committed(l: &List) { l.push_committed(1); }\nfn early(l: &List) { l.push_committed(1); }\n";
        refused_at("crates/engine/src/read/publish.rs", publisher, "rule 4", 3);
    }

    #[test]
    fn another_name_does_not_switch_the_rule_off() {
        let publisher = "//! Head.\nfn committed(l: &List) { l.push_anything(1); }\n";
        refused_at("crates/engine/src/read/publish.rs", publisher, "rule 4", 1);
        let mut tree = clean_tree();
        tree.texts.remove("crates/engine/src/read/publish.rs");
        tree.sources.remove("crates/engine/src/read/publish.rs");
        assert_eq!(rules_at(&judge(&tree), "crates/engine/src/read/publish.rs"), ["rule 4"]);
    }

    #[test]
    fn a_second_declaration_is_refused() {
        let tree = with("crates/engine/src/write/other.rs", "//! Head.\nfn push_committed() {}\n");
        assert_eq!(rules_at(&judge(&tree), "crates/engine/src/write/other.rs"), ["rule 4"]);
    }
}
