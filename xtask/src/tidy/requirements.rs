//! Checks `docs/requirements/`: each requirement and each guarantee has a row, and each row names a test that exists. A
//! row of a requirement may instead name what it waits for, or why no test can show it; a guarantee always has a test.
//!
//! A test is named `path/to/file.rs::function`, `crate::path::function` (the crate's folder, then anything, then the
//! function), or `web-tests/file.test.mjs::title`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::Report;
use super::source::is_test_file;
use super::tree::{Tree, crate_of};

const RULE: &str = "requirements";
/// A page, the letter of its requirements, and the assigned numbers.
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

/// The gaps are as old as the list.
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

/// What is promised to users: id, promise, limits.
pub(super) const GUARANTEES: &str = "docs/guarantees.md";

/// The tests of each guarantee: id, tests.
pub(super) const GUARANTEE_TESTS: &str = "docs/requirements/guarantees.md";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for page in &PAGES {
        check_page(tree, report, page);
    }
    check_guarantees(tree, report);
}

/// Checks that both pages have the same ids, and that each promise has limits and a test.
fn check_guarantees(tree: &Tree, report: &mut Report) {
    let promises = read_guarantees::<3>(tree, report, GUARANTEES);
    let tests = read_guarantees::<2>(tree, report, GUARANTEE_TESTS);
    for (id, (at, [_, promise, limits])) in &promises {
        if promise.is_empty() || limits.is_empty() {
            report.refuse(GUARANTEES, *at, RULE, format!("{id} lacks the promise or its limits"));
        }
        if !tests.contains_key(id) {
            report.refuse(GUARANTEES, *at, RULE, format!("{id} has no row in {GUARANTEE_TESTS}"));
        }
    }
    for (id, (at, [_, names])) in &tests {
        if !promises.contains_key(id) {
            report.refuse(GUARANTEE_TESTS, *at, RULE, format!("{id} is no guarantee of {GUARANTEES}"));
        }
        let waits = names.starts_with("later:") || names.starts_with("none:");
        let named = if waits { Err("names no test".into()) } else { judge_tests(tree, names) };
        if let Err(why) = named {
            report.refuse(GUARANTEE_TESTS, *at, RULE, format!("{id}: {why}"));
        }
    }
}

/// Reads the rows of a page of guarantees by id, with the line of each and its cells.
fn read_guarantees<'a, const CELLS: usize>(
    tree: &'a Tree,
    report: &mut Report,
    path: &str,
) -> BTreeMap<&'a str, (usize, [&'a str; CELLS])> {
    let mut rows = BTreeMap::new();
    let Some(page) = tree.texts.get(path) else {
        report.refuse(path, 1, RULE, "is missing");
        return rows;
    };
    for (at, line) in page.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        let Some(row) = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|')) else { continue };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let id = cells[0];
        if id == "id" || id.starts_with("--") {
            continue;
        }
        if !is_guarantee_id(id) {
            report.refuse(path, at, RULE, format!("`{id}` is no guarantee's id, such as G-001"));
            continue;
        }
        let Ok(cells) = <[&str; CELLS]>::try_from(cells.as_slice()) else {
            report.refuse(path, at, RULE, format!("{id} has {} cells, not {CELLS}", cells.len()));
            continue;
        };
        if rows.insert(id, (at, cells)).is_some() {
            report.refuse(path, at, RULE, format!("{id} is here a second time"));
        }
    }
    rows
}

fn is_guarantee_id(text: &str) -> bool {
    text.strip_prefix("G-")
        .is_some_and(|number| number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit()))
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
        if let Some(text) = line.strip_prefix("- ") {
            let tests = text.split('`').skip(1).step_by(2).filter(|name| name.contains("::"));
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
            report.refuse(path, at, RULE, format!("{id} is here a second time"));
        }
        let [_, text, built_in, test] = cells.as_slice() else {
            report.refuse(path, at, RULE, format!("{id} has {} cells, not 4", cells.len()));
            continue;
        };
        if text.is_empty() || built_in.is_empty() {
            report.refuse(
                path,
                at,
                RULE,
                format!("{id} does not state the requirement and where it is built"),
            );
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
    let Some((built_in, name)) = reference.rsplit_once("::") else { return false };
    let declares = |path: &str| {
        tree.sources.get(path).is_some_and(|source| {
            // A suite is called by its users' tests, so its functions need no attribute.
            let suite = is_test_file(path) && !path.contains("/tests/");
            source.functions(name).any(|(_, is_test)| is_test || suite)
        })
    };
    if built_in.ends_with(".rs") {
        return declares(built_in);
    }
    if built_in.contains('/') {
        let quoted = |mark: char| format!("{mark}{name}{mark}");
        return tree
            .texts
            .get(built_in)
            .is_some_and(|text| ['\'', '"', '`'].iter().any(|q| text.contains(&quoted(*q))));
    }
    let folder = built_in.split("::").next().unwrap_or(built_in);
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

    const ROW: &str = "| H-001 | text | `event` | later: ground |";

    #[test]
    fn blanks_and_gaps_are_refused() {
        assert_eq!(page_with(ROW, "| H-001 | text | `event` |  |"), [(3, RULE)]);
        assert_eq!(page_with(ROW, "| H-001 | text | `event` | later: |"), [(3, RULE)]);
        assert_eq!(page_with(ROW, "| H-001 | text | `event` | none: |"), [(3, RULE)]);
        assert_eq!(page_with(ROW, "| H-001 | text | `event` | none: only a person can check |"), []);
        assert_eq!(page_with(ROW, "| H-001 | | `event` | later: ground |"), [(3, RULE)]);
        assert_eq!(page_with(ROW, "| H-001 | text | later: ground |"), [(3, RULE)]);
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

    const PROMISE: &str = "| G-001 | text | once |";
    const TESTS: &str = "| G-001 | `engine::story::it_is_reported` |";

    /// The findings after a row of a page of guarantees was replaced.
    fn guarantees_with(path: &str, old: &str, new: &str) -> Vec<(String, usize, &'static str)> {
        let text = &clean_tree().texts[path];
        assert!(text.contains(old));
        let findings = judge(&with(path, &text.replace(old, new))).findings;
        findings.into_iter().map(|finding| (finding.path, finding.line, finding.rule)).collect()
    }

    #[test]
    fn a_guarantee_without_its_promise_or_its_limits_is_refused() {
        for wrong in ["| G-001 | | once |", "| G-001 | text |  |"] {
            assert_eq!(
                guarantees_with(GUARANTEES, PROMISE, wrong),
                [(GUARANTEES.into(), 3, RULE)],
                "{wrong}"
            );
        }
        let twice = format!("{PROMISE}\n{PROMISE}");
        assert_eq!(guarantees_with(GUARANTEES, PROMISE, &twice), [(GUARANTEES.into(), 4, RULE)]);
        let also_here = format!("{PROMISE}\n\n| text | once |");
        assert_eq!(guarantees_with(GUARANTEES, PROMISE, &also_here), [(GUARANTEES.into(), 5, RULE)]);
    }

    #[test]
    fn a_guarantee_whose_tests_do_not_exist_is_refused() {
        for wrong in [
            "| G-001 |  |",
            "| G-001 | later: when there is time |",
            "| G-001 | none: no one knows how |",
            "| G-001 | `engine::story::it_is_not_reported` |",
            "| G-001 | `engine::story::it_is_reported`, `engine::story::it_is_not_reported` |",
            "| G-001 | by hand |",
        ] {
            let found = guarantees_with(GUARANTEE_TESTS, TESTS, wrong);
            assert_eq!(found, [(GUARANTEE_TESTS.into(), 3, RULE)], "{wrong}");
        }
        let twice = format!("{TESTS}\n{TESTS}");
        assert_eq!(guarantees_with(GUARANTEE_TESTS, TESTS, &twice), [(GUARANTEE_TESTS.into(), 4, RULE)]);
    }

    #[test]
    fn guarantees_and_their_tests_have_the_same_ids() {
        let promise_alone = (GUARANTEES.to_owned(), 3, RULE);
        let tests_alone = (GUARANTEE_TESTS.to_owned(), 3, RULE);
        let both = [promise_alone, tests_alone];
        assert_eq!(guarantees_with(GUARANTEE_TESTS, TESTS, ""), both[..1]);
        assert_eq!(guarantees_with(GUARANTEES, PROMISE, ""), both[1..]);
        let other = TESTS.replace("001", "002");
        assert_eq!(guarantees_with(GUARANTEE_TESTS, TESTS, &other), both);
        for wrong in ["G-1", "G-0001", "H-001", "G-00a"] {
            let row = TESTS.replace("G-001", wrong);
            assert_eq!(guarantees_with(GUARANTEE_TESTS, TESTS, &row), both, "{wrong}");
        }
        for wrong in [TESTS.replace("| `", "| more | `"), "| G-001 |".into()] {
            assert_eq!(guarantees_with(GUARANTEE_TESTS, TESTS, &wrong), both, "{wrong}");
        }
        for path in [GUARANTEES, GUARANTEE_TESTS] {
            let mut tree = clean_tree();
            tree.texts.remove(path);
            assert!(rules_at(&judge(&tree), path).contains(&RULE), "{path}");
        }
    }

    #[test]
    fn a_test_named_in_a_list_must_exist() {
        let text = |name: &str| page_with(ROW, &format!("{ROW}\n- falls short: `{name}`, `no test`"));
        assert_eq!(text("engine::story::it_is_reported"), []);
        assert_eq!(text("engine::story::it_is_not_reported"), [(4, RULE)]);
    }

    #[test]
    fn a_test_must_exist() {
        let cell = |cell: &str| page_with(ROW, &ROW.replace("later: ground", cell));
        for good in [
            "`crates/engine/tests/story.rs::it_is_reported`",
            "`engine::story::it_is_reported`",
            "`recount-engine::it_is_reported`, `web-tests/read.test.mjs::reads a run`",
        ] {
            assert_eq!(cell(good), [], "{good}");
        }
        for bad in [
            "`crates/engine/tests/story.rs::it_is_not_reported`",
            "`crates/engine/tests/story.rs::helper`",
            "`crates/engine/tests/other.rs::it_is_reported`",
            "`event::it_is_reported`",
            "`web-tests/read.test.mjs::reads`",
            "`engine::it_is_reported`, `engine::nothing`",
            "it_is_reported",
        ] {
            assert_eq!(cell(bad), [(3, RULE)], "{bad}");
        }
    }
}
