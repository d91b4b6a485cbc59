//! Checks hard rule 6, as far as visible in the text: tests run, can fail, and do not sleep for luck.

use super::Report;
use super::source::{Source, TokenKind};
use super::tree::Tree;

const RULE: &str = "rule 6";

/// Forbidden text in browser tests.
const IN_SCRIPTS: &[(&str, &str)] = &[
    ("test.skip", "a test that does not run"),
    ("it.skip", "a test that does not run"),
    ("test.todo", "a test that does not run"),
    ("test.only", "silences the other tests"),
    ("it.only", "silences the other tests"),
    ("waitForTimeout", "sleeps for luck; wait on a condition"),
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for (path, source) in &tree.sources {
        for (at, token) in source.tokens.iter().enumerate() {
            let after_hash = at >= 2 && source.is_sign(at - 2, '#') && source.is_sign(at - 1, '[');
            if source.name(at) == Some("ignore") && after_hash && !is_of_full_tier(source, at) {
                let message = "`#[ignore]`: a test that does not run; tests of the full tier have \
                               `#[ignore = \"full: <reason>\"]`";
                report.refuse(path, token.line, RULE, message);
            }
            let always = source.name(at) == Some("assert")
                && source.is_sign(at + 1, '!')
                && source.is_sign(at + 2, '(')
                && source.name(at + 3) == Some("true")
                && (source.is_sign(at + 4, ')') || source.is_sign(at + 4, ','));
            if always {
                report.refuse(path, token.line, RULE, "`assert!(true)` cannot fail");
            }
        }
        let paused = all_tests_pause_time(source);
        for used in source.paths() {
            let sleeps = (used.has("thread::sleep") || (used.has("time::sleep") && !paused))
                && source.is_sign(used.tokens.end, '(');
            if sleeps && source.is_test(used.tokens.start) && !source.is_excused(used.line) {
                let message = "sleeps in a test; wait on a condition, or give the reason as `// tidy: …`";
                report.refuse(path, used.line, RULE, message);
            }
        }
    }
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".test.mjs")) {
        for (at, line) in text.lines().enumerate() {
            for (what, why) in IN_SCRIPTS {
                if line.contains(what) && !line.contains("// tidy: ") {
                    report.refuse(path, at + 1, RULE, format!("`{what}`: {why}"));
                }
            }
        }
    }
}

/// Whether the `ignore` at this token has the mark of the full tier, which runs the test.
fn is_of_full_tier(source: &Source, at: usize) -> bool {
    let reason = source.tokens.get(at + 2).filter(|_| source.is_sign(at + 1, '='));
    reason.is_some_and(|token| matches!(&token.kind, TokenKind::Text(text) if text.starts_with("full: ")))
}

/// Whether every test of the file runs on paused time, where a sleep advances the clock without waiting.
fn all_tests_pause_time(source: &Source) -> bool {
    let mut any = false;
    for at in 0..source.tokens.len() {
        let is_test = source.name(at) == Some("tokio")
            && source.tokens.get(at + 1).is_some_and(|token| token.kind == TokenKind::Sep)
            && source.name(at + 2) == Some("test");
        if is_test {
            if source.name(at + 4) != Some("start_paused") || source.name(at + 6) != Some("true") {
                return false;
            }
            any = true;
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{clean, refused_at};

    #[test]
    fn sleeping_in_paused_time_is_allowed() {
        let paused = "#[tokio::test(start_paused = true)] async fn a() { tokio::time::sleep(x).await; }";
        clean("crates/engine/tests/a.rs", &format!("//! Head.\n{paused}\n"));
        let mixed = format!("//! Head.\n{paused}\n#[tokio::test] async fn b() {{}}\n");
        refused_at("crates/engine/tests/a.rs", &mixed, "rule 6", 2);
        let thread = paused.replace("tokio::time::sleep(x).await", "std::thread::sleep(x)");
        refused_at("crates/engine/tests/a.rs", &format!("//! Head.\n{thread}\n"), "rule 6", 2);
    }

    #[test]
    fn tests_that_do_not_test_are_refused() {
        for line in [
            "#[test] #[ignore] fn a() {}",
            "#[test] #[ignore = \"slow\"] fn a() {}",
            "#[test] fn a() { assert!(true); }",
            "#[test] fn a() { std::thread::sleep(x); }",
            "#[tokio::test] async fn a() { tokio::time::sleep(x).await; }",
        ] {
            refused_at("crates/engine/tests/a.rs", &format!("//! Head.\n{line}\n"), "rule 6", 2);
            let inside = format!("//! Head.\n#[cfg(test)]\nmod tests {{\n{line}\n}}\n");
            refused_at("crates/engine/src/writer.rs", &inside, "rule 6", 4);
        }
        refused_at("web-tests/a.test.mjs", "test.skip('x', () => {});\n", "rule 6", 1);
        refused_at("web-tests/a.test.mjs", "\nawait page.waitForTimeout(5);\n", "rule 6", 2);
    }

    #[test]
    fn tests_of_the_full_tier_give_a_reason() {
        let marked = |reason: &str| format!("//! Head.\n#[test] #[ignore = \"{reason}\"] fn a() {{}}\n");
        clean("crates/engine/tests/a.rs", &marked("full: a random walk"));
        refused_at("crates/engine/tests/a.rs", &marked("flaky"), "rule 6", 2);
    }

    #[test]
    fn a_reason_or_code_that_is_no_test_passes() {
        clean(
            "crates/engine/tests/a.rs",
            "//! Head.\nfn a() { std::thread::sleep(x); } // tidy: the clock is the subject\n",
        );
        clean("crates/engine/src/writer.rs", "//! Head.\nfn a() { tokio::time::sleep(x); }\n");
    }
}
