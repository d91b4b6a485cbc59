//! `docs/requirements/` and `docs/guarantees.md`: every promise names a test that exists. On each page of requirements every requirement has a row, and every row a test that exists, what it waits for,
//! or why no test can show it.
//!
//! A test is named `path/to/file.rs::function`, `crate::path::function` (the crate's folder, then
//! anything, then the function), or `web-tests/file.test.mjs::title`.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::Report;
use super::source::is_test_file;
use super::tree::{Tree, crate_of};

const RULE: &str = "requirements";
/// A page, the letter of its requirements, and the numbers that were given out.
pub(super) struct Page {
    pub(super) path: &'static str,
    letter: char,
    numbers: &'static [RangeInclusive<u32>],
}

pub(super) const PAGES: [Page; 3] = [
    Page { path: "docs/requirements/aep.md", letter: 'H', numbers: NATIVE },
    Page { path: "docs/requirements/aap.md", letter: 'P', numbers: &[1..=80] },
    Page { path: "docs/requirements/aaep.md", letter: 'R', numbers: ACCESSIBILITY },
];

/// The holes are as old as the list.
const NATIVE: &[RangeInclusive<u32>] = &[
    1..=28,
    30..=36,
    42..=42,
    50..=58,
    60..=64,
    70..=83,
    90..=94,
    100..=103,
    110..=112,
    120..=120,
    130..=137,
    140..=142,
];

/// A block for each part of the protocol.
const ACCESSIBILITY: &[RangeInclusive<u32>] =
    &[1..=25, 30..=42, 50..=62, 70..=97, 110..=131, 140..=152, 160..=170, 180..=189, 200..=210];

impl Page {
    pub(super) fn ids(&self) -> impl Iterator<Item = String> {
        let letter = self.letter;
        self.numbers.iter().cloned().flatten().map(move |number| format!("{letter}-{number:03}"))
    }
}

/// What is promised to users, each promise with its limits and its test.
pub(super) const GUARANTEES: &str = "docs/guarantees.md";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for page in &PAGES {
        check_page(tree, report, page);
    }
    check_guarantees(tree, report);
}

/// Rows of three cells, the last of which names tests. A promise without a test is none.
fn check_guarantees(tree: &Tree, report: &mut Report) {
    let Some(page) = tree.texts.get(GUARANTEES) else {
        report.refuse(GUARANTEES, 1, RULE, "is missing");
        return;
    };
    for (at, line) in page.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        let Some(row) = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")) else { continue };
        let cells: Vec<&str> = row.split(" | ").collect();
        let [promise, limits, tests] = cells.as_slice() else {
            report.refuse(GUARANTEES, at, RULE, format!("the row has {} cells, not 3", cells.len()));
            continue;
        };
        if *promise == "promise" || promise.starts_with("--") {
            continue;
        }
        if promise.is_empty() || limits.is_empty() {
            report.refuse(GUARANTEES, at, RULE, "the row lacks the promise or its limits");
        }
        let waits = tests.starts_with("later:") || tests.starts_with("none:");
        if let Err(why) =
            judge_tests(tree, tests).and(if waits { Err("names no test".into()) } else { Ok(()) })
        {
            report.refuse(GUARANTEES, at, RULE, why);
        }
    }
}

fn check_page(tree: &Tree, report: &mut Report, page: &Page) {
    let path = page.path;
    let known: BTreeSet<String> = page.ids().collect();
    let Some(page) = tree.texts.get(path) else {
        report.refuse(path, 1, RULE, "is missing");
        return;
    };
    let mut seen = BTreeSet::new();
    for (at, line) in page.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        if let Some(said) = line.strip_prefix("- ") {
            let tests = said.split('`').skip(1).step_by(2).filter(|name| name.contains("::"));
            for missing in tests.filter(|name| !exists(tree, name)) {
                report.refuse(path, at, RULE, format!("the test `{missing}` does not exist"));
            }
            continue;
        }
        let Some(cells) = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|')) else {
            continue;
        };
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        let id = cells[0];
        if id == "id" || id.starts_with("--") {
            continue;
        }
        if !known.contains(id) {
            report.refuse(path, at, RULE, format!("`{id}` is no requirement's number"));
            continue;
        }
        if !seen.insert(id.to_owned()) {
            report.refuse(path, at, RULE, format!("{id} stands here a second time"));
        }
        let [_, said, place, test] = cells.as_slice() else {
            report.refuse(path, at, RULE, format!("{id} has {} cells, not 4", cells.len()));
            continue;
        };
        if said.is_empty() || place.is_empty() {
            report.refuse(path, at, RULE, format!("{id} does not say what is asked and where it is built"));
        }
        if let Err(why) = judge_tests(tree, test) {
            report.refuse(path, at, RULE, format!("{id}: {why}"));
        }
    }
    for id in known.difference(&seen) {
        report.refuse(path, 1, RULE, format!("{id} is missing"));
    }
}

fn judge_tests(tree: &Tree, cell: &str) -> Result<(), String> {
    if let Some(what) = cell.strip_prefix("later:") {
        return if what.trim().is_empty() { Err("later, but not with what".into()) } else { Ok(()) };
    }
    if let Some(why) = cell.strip_prefix("none:") {
        return if why.trim().is_empty() { Err("none, but not why".into()) } else { Ok(()) };
    }
    let parts: Vec<&str> = cell.split('`').collect();
    let names: Vec<&str> = parts.iter().skip(1).step_by(2).copied().collect();
    if names.is_empty() {
        return Err(
            "names no test; write it in backticks, or `later: ` and what brings it, or `none: ` and why"
                .into(),
        );
    }
    match names.iter().find(|name| !exists(tree, name)) {
        Some(name) => Err(format!("the test `{name}` does not exist")),
        None => Ok(()),
    }
}

fn exists(tree: &Tree, reference: &str) -> bool {
    let Some((place, name)) = reference.rsplit_once("::") else { return false };
    let declares = |path: &str| {
        tree.sources.get(path).is_some_and(|source| {
            // A suite is called by its users' tests, so its functions need no attribute.
            let suite = is_test_file(path) && !path.contains("/tests/");
            source.functions(name).any(|(_, is_test)| is_test || suite)
        })
    };
    if place.ends_with(".rs") {
        return declares(place);
    }
    if place.contains('/') {
        let quoted = |mark: char| format!("{mark}{name}{mark}");
        return tree
            .texts
            .get(place)
            .is_some_and(|text| ['\'', '"', '`'].iter().any(|q| text.contains(&quoted(*q))));
    }
    let folder = place.split("::").next().unwrap_or(place);
    let folder = folder.strip_prefix("recount-").or(folder.strip_prefix("recount_")).unwrap_or(folder);
    tree.sources
        .keys()
        .filter(|path| crate_of(path) == Some(folder) || (folder == "xtask" && path.starts_with("xtask/")))
        .any(|path| declares(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = PAGES[0].path;

    use crate::tidy::judge;
    use crate::tidy::tests::{clean_tree, rules_at, with};

    fn page_with(old: &str, new: &str) -> Vec<(usize, &'static str)> {
        let page = clean_tree().texts[PAGE].clone();
        assert!(page.contains(old));
        let tree = with(PAGE, &page.replace(old, new));
        judge(&tree).findings.into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    const ROW: &str = "| H-001 | asked | `event` | later: ground |";

    #[test]
    fn blanks_and_gaps_are_refused() {
        assert_eq!(page_with(ROW, "| H-001 | asked | `event` |  |"), [(3, RULE)]);
        assert_eq!(page_with(ROW, "| H-001 | asked | `event` | later: |"), [(3, RULE)]);
        assert_eq!(page_with(ROW, "| H-001 | asked | `event` | none: |"), [(3, RULE)]);
        assert_eq!(page_with(ROW, "| H-001 | asked | `event` | none: only a person can tell |"), []);
        assert_eq!(page_with(ROW, "| H-001 | | `event` | later: ground |"), [(3, RULE)]);
        assert_eq!(page_with(ROW, "| H-001 | asked | later: ground |"), [(3, RULE)]);
        assert_eq!(page_with(ROW, ""), [(1, RULE)]);
        assert_eq!(page_with(ROW, &ROW.replace("001", "029")), [(1, RULE), (3, RULE)]);
        assert_eq!(page_with(ROW, &format!("{ROW}\n{ROW}")), [(4, RULE)]);
        for page in &PAGES {
            let mut tree = clean_tree();
            tree.texts.remove(page.path);
            assert_eq!(rules_at(&judge(&tree), page.path), [RULE]);
            let text = &clean_tree().texts[page.path];
            let last = text.lines().last().expect("it has rows");
            for less in
                ["", &last.replace("later: ground", ""), &last.replace("later: ground", "`event::nothing`")]
            {
                let tree = with(page.path, &text.replace(last, less));
                assert_eq!(rules_at(&judge(&tree), page.path), [RULE], "{less}");
            }
        }
    }

    #[test]
    fn a_guarantee_without_its_limits_or_its_test_is_refused() {
        const KEPT: &str = "| told | once | `engine::story::it_is_told` |";
        let text = &clean_tree().texts[GUARANTEES];
        assert!(text.contains(KEPT));
        for wrong in [
            "| told | once |",
            "| told |  | `engine::story::it_is_told` |",
            "| told | once | later: when there is time |",
            "| told | once | none: nobody knows how |",
            "| told | once | `engine::story::it_is_not_told` |",
            "| told | once | by hand |",
        ] {
            let tree = with(GUARANTEES, &text.replace(KEPT, wrong));
            assert_eq!(rules_at(&judge(&tree), GUARANTEES), [RULE], "{wrong}");
        }
        let mut tree = clean_tree();
        tree.texts.remove(GUARANTEES);
        assert_eq!(rules_at(&judge(&tree), GUARANTEES), [RULE]);
    }

    #[test]
    fn a_test_named_in_a_list_must_exist() {
        let said = |name: &str| page_with(ROW, &format!("{ROW}\n- falls short: `{name}`, `no test`"));
        assert_eq!(said("engine::story::it_is_told"), []);
        assert_eq!(said("engine::story::it_is_not_told"), [(4, RULE)]);
    }

    #[test]
    fn a_test_must_exist() {
        let cell = |cell: &str| page_with(ROW, &ROW.replace("later: ground", cell));
        for good in [
            "`crates/engine/tests/story.rs::it_is_told`",
            "`engine::story::it_is_told`",
            "`recount-engine::it_is_told`, `web-tests/read.test.mjs::reads a run`",
        ] {
            assert_eq!(cell(good), [], "{good}");
        }
        for bad in [
            "`crates/engine/tests/story.rs::it_is_not_told`",
            "`crates/engine/tests/story.rs::helper`",
            "`crates/engine/tests/other.rs::it_is_told`",
            "`event::it_is_told`",
            "`web-tests/read.test.mjs::reads`",
            "`engine::it_is_told`, `engine::nothing`",
            "it_is_told",
        ] {
            assert_eq!(cell(bad), [(3, RULE)], "{bad}");
        }
    }
}
