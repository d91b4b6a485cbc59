//! Checks for words that have a better form in plain technical English. Known ones are listed and can only become
//! fewer.
//!
//! All text counts: prose, help, names. Decisions, dated notes and test data are not checked. Start at [`check`].

mod known;

use super::Report;
use super::ratchet::{Counts, Known, Ratchet};
use super::tree::{Tree, crate_folder_of};
use known::KNOWN;

const RULE: &str = "voice";
const LIST: &str = "xtask/src/tidy/voice/known.rs";

/// The words in halves, so that this file does not contain them, with their replacements.
const WORDS: &[(&str, &str)] = &[
    (concat!("some", "body"), "the client, the caller, a person"),
    (concat!("who", "ever"), "the client, the caller"),
    (concat!("men", "d"), "repair, fix"),
    (concat!("men", "ded"), "repaired, fixed"),
    (concat!("be", "gun"), "started, open"),
    (concat!("stands", " in"), "is in"),
    (concat!("is not", " there"), "is missing, was not found"),
    (concat!("to", "ld"), "reported, shown, sent"),
    (concat!("te", "ll"), "report, show, send"),
    (concat!("te", "lls"), "reports, shows, sends"),
    (concat!("sa", "id"), "the text, the value, reported"),
    (concat!("sa", "y"), "report, name, contain"),
    (concat!("sa", "ys"), "reports, names, contains"),
    (concat!("as", "ked"), "requested, prompted"),
    (concat!("hea", "rd"), "received"),
    (concat!("no", "body"), "no client, no caller, no one"),
    (concat!("sta", "nds"), "is"),
    (concat!("go", "ne"), "missing, deleted, ended"),
];

const READ: &[&str] = &[".rs", ".md", ".mjs", ".js", ".html"];
const NOT_READ: &[&str] = &["testdata/", "docs/decisions/", "docs/performance/log/", "CHANGELOG.md"];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    check_against(tree, KNOWN, report);
}

fn check_against(tree: &Tree, known: &[Known], report: &mut Report) {
    let mut counts = Counts::new();
    for (path, text) in &tree.texts {
        let is_read = READ.iter().any(|end| path.ends_with(end)) && !path.contains("/testdata/");
        if !is_read || path == LIST || NOT_READ.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        for (at, line) in text.to_lowercase().lines().enumerate() {
            for (word, _) in WORDS {
                let times = words(line, word);
                if times > 0 {
                    let found = counts.entry((place(path), (*word).to_owned())).or_default();
                    (found.path, found.line) = (path.clone(), at + 1);
                    found.count += times;
                }
            }
        }
    }
    let reason = |place: &str, name: &str, count: usize| {
        let instead = WORDS.iter().find(|(word, _)| *word == name).map_or("", |(_, instead)| *instead);
        format!("`{name}`, {count} times in {place}; write instead: {instead}")
    };
    Ratchet { rule: RULE, most: 0, known, list: LIST }.hold(tree, &counts, reason, report);
}

/// The crate or the folder at the top.
fn place(path: &str) -> String {
    let top = || path.split('/').next().unwrap_or(path);
    crate_folder_of(path).unwrap_or_else(top).to_owned()
}

fn words(line: &str, word: &str) -> usize {
    let is_apart = |at: &usize| {
        !line[..*at].ends_with(char::is_alphanumeric)
            && !line[at + word.len()..].starts_with(char::is_alphanumeric)
    };
    line.match_indices(word).filter(|(at, _)| is_apart(at)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{clean, refused_at, with};

    #[test]
    fn each_word_is_refused_in_prose_names_and_text() {
        for (word, _) in WORDS {
            refused_at("notes/a.md", &format!("\nAnd {word}.\n"), RULE, 2);
            refused_at("notes/a.rs", &format!("//! Head.\n//! {}\n", word.to_uppercase()), RULE, 2);
            let name = word.replace(' ', "-");
            clean("docs/a.md", &format!("\nx{name}x\n"));
            clean("docs/decisions/0001-a.md", &format!("\n{word}\n"));
            clean("testdata/a.md", &format!("\n{word}\n"));
        }
        let (word, _) = WORDS[0];
        refused_at("notes/a.rs", &format!("//! Head.\nfn tell_{word}() {{}}\n"), RULE, 2);
    }

    #[test]
    fn a_known_one_passes_and_one_more_does_not() {
        let (word, _) = WORDS[0];
        let found = |text: &str| {
            let mut report = Report::default();
            check_against(&with("docs/a.md", text), &[("docs", word, 2)], &mut report);
            report.findings.len()
        };
        assert_eq!(found(&format!("{word} and {word}\n")), 0);
        assert_eq!(found(&format!("{word} and {word}\n{word}\n")), 1);
    }
}
