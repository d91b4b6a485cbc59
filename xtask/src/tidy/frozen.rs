//! Checks hard rule 3: released names are permanent, and stored events never change.
//!
//! The tests of `event` compare the contents of the files. This rule checks that the files are not removed, or changed
//! together with their expectation.

use super::Report;
use super::tree::{FROZEN_FOLDER, Git, Tree};

const RULE: &str = "rule 3";

/// The released names with their fields, and the fixtures, as the tests of `event` compare them.
const FREEZERS: &[(&str, &str)] = &[
    ("docs/registry.lock", "the file that freezes released names is missing"),
    ("testdata/events/.hashes", "the file that freezes fixtures is missing"),
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let fixtures: Vec<&str> = tree.under(FROZEN_FOLDER).filter(|path| path.ends_with(".json")).collect();
    if fixtures.is_empty() {
        report.refuse(FROZEN_FOLDER, 1, RULE, "there is no fixture; every event type has one");
    }
    for (path, missing) in FREEZERS.iter().filter(|(path, _)| !tree.exists(path)) {
        report.refuse(path, 1, RULE, *missing);
    }
    let (tracked, edited) = match &tree.git {
        Git::Absent => {
            report.note("git is not available, so history was not checked");
            return;
        }
        Git::Repository { tracked, edited } => (tracked, edited),
    };
    for path in fixtures.iter().chain(FREEZERS.iter().map(|(path, _)| path)) {
        if tree.exists(path) && !tracked.contains(*path) {
            report.refuse(path, 1, RULE, "is not tracked by git");
        }
    }
    match edited {
        None => report.note("history is cut short, so edits of old fixtures were not checked"),
        Some(edited) => {
            for path in edited.iter().filter(|path| path.ends_with(".json")) {
                report.refuse(
                    path,
                    1,
                    RULE,
                    "was edited or removed after it was added; add a new file instead",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tidy::judge;
    use crate::tidy::tests::{clean_tree, rules_at};
    use crate::tidy::tree::Git;

    const FIXTURE: &str = "testdata/events/run.queued.json";

    #[test]
    fn a_missing_lock_and_missing_fixtures_are_refused() {
        let mut tree = clean_tree();
        tree.texts.remove("docs/registry.lock");
        tree.texts.remove("testdata/events/.hashes");
        tree.texts.remove(FIXTURE);
        let report = judge(&tree);
        assert_eq!(rules_at(&report, "docs/registry.lock"), ["rule 3"]);
        assert_eq!(rules_at(&report, "testdata/events"), ["rule 3"]);
        assert_eq!(rules_at(&report, "testdata/events/.hashes"), ["rule 3"]);
    }

    #[test]
    fn an_edited_fixture_is_refused_and_an_untracked_one() {
        let mut tree = clean_tree();
        let Git::Repository { tracked, edited } = &mut tree.git else { panic!("the clean tree has git") };
        tracked.remove("docs/registry.lock");
        *edited = Some([FIXTURE.to_owned(), "testdata/events/README.md".to_owned()].into());
        let report = judge(&tree);
        assert_eq!(rules_at(&report, FIXTURE), ["rule 3"]);
        assert_eq!(rules_at(&report, "docs/registry.lock"), ["rule 3"]);
        assert_eq!(report.findings.len(), 2);
    }

    #[test]
    fn without_git_or_history_a_note_reports_it() {
        for git in
            [Git::Absent, Git::Repository { tracked: clean_tree().texts.into_keys().collect(), edited: None }]
        {
            let mut tree = clean_tree();
            tree.git = git;
            let report = judge(&tree);
            assert_eq!((report.findings.len(), report.notes.len()), (0, 1));
        }
    }
}
