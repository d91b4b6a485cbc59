//! Checks for homonyms: one name for two types in one crate. A reader who sees only the name must guess right.
//!
//! Structs, enums, unions and traits count, anywhere in the crate. Aliases, associated types, test code and
//! declarations by macros are not seen. Known ones are listed and can only become fewer. Start at [`check`].

mod known;

use super::Report;
use super::ratchet::{Counts, Known, Ratchet};
use super::tree::{Tree, crate_folder_of};
use known::KNOWN;

const RULE: &str = "homonyms";
const LIST: &str = "xtask/src/tidy/homonyms/known.rs";

const DECLARES: &[&str] = &["struct", "enum", "union", "trait"];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    check_against(tree, KNOWN, report);
}

fn check_against(tree: &Tree, known: &[Known], report: &mut Report) {
    let mut counts = Counts::new();
    for (path, source) in tree.sources.iter().filter(|(path, _)| path.contains("/src/")) {
        let place = crate_folder_of(path).unwrap_or("xtask").to_owned();
        for at in 1..source.tokens.len() {
            let (Some(before), Some(name)) = (source.name(at - 1), source.name(at)) else { continue };
            let is_type = DECLARES.contains(&before) && name.starts_with(char::is_uppercase);
            if is_type && !source.is_test(at) {
                let found = counts.entry((place.clone(), name.to_owned())).or_default();
                (found.path, found.line) = (path.clone(), source.tokens[at].line);
                found.count += 1;
            }
        }
    }
    let reason = |place: &str, name: &str, count: usize| {
        format!("`{name}` names {count} types of {place}; give each its own name")
    };
    Ratchet { rule: RULE, most: 1, known, list: LIST }.hold(tree, &counts, reason, report);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{clean, refused_at, with};

    const PATH: &str = "crates/engine/src/writer.rs";

    #[test]
    fn a_name_for_two_types_of_a_crate_is_refused() {
        refused_at(PATH, "//! Head.\nstruct Twofold;\nmod part { enum Twofold {} }\n", RULE, 3);
        refused_at(PATH, "//! Head.\npub trait Twofold {}\nfn f() { struct Twofold; }\n", RULE, 3);
        refused_at("lab/sim/src/new.rs", "//! Head.\nstruct Twofold;\nenum Twofold {}\n", RULE, 3);
        refused_at("xtask/src/new.rs", "//! Head.\nstruct Twofold;\nenum Twofold {}\n", RULE, 3);
    }

    #[test]
    fn other_crates_tests_and_uses_do_not_count() {
        let mut tree = with(PATH, "//! Head.\nstruct Twofold;\n");
        let other = "//! Head.\nstruct Twofold;\n";
        let source = crate::tidy::source::Source::read("crates/run/src/a.rs", other);
        tree.texts.insert("crates/run/src/a.rs".into(), other.into());
        tree.sources.insert("crates/run/src/a.rs".into(), source);
        assert_eq!(crate::tidy::judge(&tree).findings, []);
        clean(PATH, "//! Head.\nstruct Twofold;\n#[cfg(test)]\nmod tests { struct Twofold; }\n");
        clean(PATH, "//! Head.\nstruct Twofold;\nimpl Twofold { fn f(_: Twofold) {} }\n// struct Twofold\n");
        clean("crates/engine/tests/a.rs", "//! Head.\nstruct Twofold;\nmod part { struct Twofold; }\n");
    }

    #[test]
    fn a_known_one_passes_and_one_more_does_not() {
        let found = |text: &str| {
            let mut report = Report::default();
            check_against(&with(PATH, text), &[("crates/engine", "Twofold", 2)], &mut report);
            report.findings.len()
        };
        assert_eq!(found("//! Head.\nstruct Twofold;\nmod part { struct Twofold; }\n"), 0);
        assert_eq!(
            found("//! Head.\nstruct Twofold;\nmod one { enum Twofold {} }\nmod two { trait Twofold {} }\n"),
            1
        );
    }
}
