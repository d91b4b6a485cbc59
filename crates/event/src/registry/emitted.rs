//! Which types a real run of this server was seen to emit, and by which test: `testdata/emitted.txt`, one type and one
//! test in a line, in the order of the types.
//!
//! The column "seen by" of the reference page is made from it. A test that lets a real server run collects what each test
//! saw, names a test for each type with [`witnesses`] and, with `RECOUNT_BLESS=1`, writes the file with [`print`];
//! otherwise it compares. [`unseen`] lists the types without a test. Only tests read and write the file.

use std::collections::{BTreeMap, BTreeSet};

use super::{Status, TABLE, row};

/// The test that saw each type.
pub type Witnesses = BTreeMap<String, String>;

/// Reads the file. `Err` names the invalid line.
pub fn parse(text: &str) -> Result<Witnesses, String> {
    let mut seen = Witnesses::new();
    for (index, line) in text.lines().enumerate() {
        let at = index + 1;
        let Some((name, test)) = line.split_once(' ').filter(|(_, test)| !test.is_empty()) else {
            return Err(format!("line {at}: {line:?} is no type with the test that saw it"));
        };
        if row(name).is_none() {
            return Err(format!("line {at}: {name:?} is not a registered type"));
        }
        if seen.last_key_value().is_some_and(|(last, _)| last.as_str() >= name) {
            return Err(format!("line {at}: {name} is duplicated or not in order"));
        }
        seen.insert(name.to_owned(), test.to_owned());
    }
    Ok(seen)
}

/// Writes the file.
pub fn print(seen: &Witnesses) -> String {
    seen.iter().map(|(name, test)| format!("{name} {test}\n")).collect()
}

/// Names one test for each type: the listed one if it saw the type this time, too, otherwise the first by name. What is
/// not registered, such as extensions, is left out.
pub fn witnesses(listed: &Witnesses, seen: &BTreeMap<String, BTreeSet<String>>) -> Witnesses {
    let registered = seen.iter().filter(|(name, _)| row(name).is_some());
    registered
        .filter_map(|(name, tests)| {
            let kept = listed.get(name).filter(|test| tests.contains(*test));
            Some((name.clone(), kept.or_else(|| tests.first())?.clone()))
        })
        .collect()
}

/// The types that the server may write and that no test saw, in the order of the registry. Deprecated types are never
/// written.
pub fn unseen(seen: &Witnesses) -> Vec<&'static str> {
    let written = TABLE.iter().filter(|row| row.status != Status::Deprecated);
    written.map(|row| row.type_name).filter(|name| !seen.contains_key(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(lines: &[(&str, &str)]) -> Witnesses {
        lines.iter().map(|(name, test)| ((*name).to_owned(), (*test).to_owned())).collect()
    }

    #[test]
    fn a_printed_list_parses_to_the_same_list() {
        let seen = list(&[("turn.started", "plain::a"), ("run.queued", "plain::b")]);
        let printed = print(&seen);
        assert_eq!(printed, "run.queued plain::b\nturn.started plain::a\n");
        assert_eq!(parse(&printed), Ok(seen));
        assert_eq!(parse(""), Ok(Witnesses::new()));
        for wrong in [
            "turn.started a\nrun.queued a\n",
            "run.queued a\nrun.queued a\n",
            "ext.acme.note a\n",
            "run.queued\n",
            "\n",
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_test_is_named_as_long_as_it_sees_the_type() {
        let tests = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let seen = BTreeMap::from([
            ("run.queued".to_owned(), tests(&["a", "b"])),
            ("run.failed".to_owned(), tests(&["b", "c"])),
            ("ext.acme.note".to_owned(), tests(&["a"])),
        ]);
        let listed = list(&[("run.queued", "b"), ("run.failed", "gone"), ("run.finished", "a")]);
        assert_eq!(witnesses(&listed, &seen), list(&[("run.queued", "b"), ("run.failed", "b")]));
    }

    #[test]
    fn deprecated_types_need_no_test() {
        let all: Vec<(&str, &str)> = TABLE
            .iter()
            .filter(|row| row.status != Status::Deprecated && row.type_name != "run.queued")
            .map(|row| (row.type_name, "a"))
            .collect();
        assert_eq!(unseen(&list(&all)), ["run.queued"]);
    }
}
