//! Checks the shape of files: a head, no `mod.rs`, not too long, nothing unfinished.

use super::Report;
use super::tree::Tree;

const RULE: &str = "shape";

/// Lines of a file. More are refused.
const LINES_MAX: usize = 900;
/// Lines of a file. More are noted, because the file may have two subjects.
const LINES_NOTED: usize = 600;

const UNFINISHED_MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Words that mark unfinished code, in halves, so that this file does not contain them.
const UNFINISHED_WORDS: &[&str] = &[concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X")];

/// Files that are checked for trailing white space.
const TEXT: &[&str] = &[".rs", ".toml", ".md", ".mjs", ".js", ".html", ".css", ".json", ".yml", "/run"];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for (path, source) in &tree.sources {
        if path.ends_with("/mod.rs") {
            report.refuse(path, 1, RULE, "no `mod.rs`; the file is beside its folder, with its name");
        }
        let text = &tree.texts[path];
        if !text.starts_with("//! ") {
            report.refuse(
                path,
                1,
                RULE,
                "has no head; start with `//!`: what it does, what it must not depend on",
            );
        }
        let lines = text.lines().count();
        if lines > LINES_MAX {
            report.refuse(path, LINES_MAX + 1, RULE, format!("{lines} lines; the limit is {LINES_MAX}"));
        } else if lines > LINES_NOTED {
            report.note(format!("{path}: {lines} lines; has it two subjects?"));
        }
        for used in source.paths() {
            if UNFINISHED_MACROS.contains(&used.last()) && source.is_sign(used.tokens.end, '!') {
                report.refuse(path, used.line, RULE, format!("`{}!` is unfinished", used.last()));
            }
        }
    }
    for (path, text) in tree.texts.iter().filter(|(path, _)| TEXT.iter().any(|end| path.ends_with(end))) {
        if path.starts_with("testdata/") || path.ends_with("package-lock.json") {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                report.refuse(path, at + 1, RULE, "white space at the end of the line");
            }
            if let Some(word) = UNFINISHED_WORDS.iter().find(|word| has_word(line, word)) {
                report.refuse(path, at + 1, RULE, format!("`{word}`: finish it, or open an issue"));
            }
        }
    }
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let joined = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].ends_with(joined) && !line[at + word.len()..].starts_with(joined)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::judge;
    use crate::tidy::tests::{clean, refused_at, with};

    const PATH: &str = "crates/engine/src/writer.rs";

    #[test]
    fn a_file_without_head_or_called_mod_is_refused() {
        refused_at(PATH, "fn f() {}\n", RULE, 1);
        refused_at("xtask/src/new.rs", "// Head.\n", RULE, 1);
        refused_at("crates/engine/tests/a.rs", "fn f() {}\n", RULE, 1);
        refused_at("crates/engine/src/part/mod.rs", "//! Head.\n", RULE, 1);
    }

    #[test]
    fn length_is_noted_then_refused() {
        let of = |lines: usize| "//! Head.\n".repeat(lines);
        assert_eq!(judge(&with(PATH, &of(LINES_NOTED))).notes.len(), 0);
        assert_eq!(judge(&with(PATH, &of(LINES_NOTED + 1))).notes.len(), 1);
        clean(PATH, &of(LINES_MAX));
        refused_at(PATH, &of(LINES_MAX + 1), RULE, LINES_MAX + 1);
    }

    #[test]
    fn unfinished_work_is_refused() {
        for name in UNFINISHED_MACROS {
            refused_at(PATH, &format!("//! Head.\nfn f() {{ {name}!() }}\n"), RULE, 2);
        }
        for word in UNFINISHED_WORDS {
            refused_at(PATH, &format!("//! Head.\n// {word}: later\n"), RULE, 2);
            refused_at("docs/a.md", &format!("\n{word}\n"), RULE, 2);
            clean("docs/a.md", &format!("{word}ES\n"));
        }
        refused_at("docs/a.md", "one\ntwo \n", RULE, 2);
    }
}
