//! Which types a real run of this server was seen to emit: `testdata/emitted.txt`, one name per line, in order.
//!
//! The column "seen" of the reference page is made from it. A test that lets a real server run collects the types
//! and, with `RECOUNT_BLESS=1`, writes the file with [`print`]; otherwise it compares with [`parse`]. Only tests read and
//! write the file.

use std::collections::BTreeSet;

use super::row;

/// Reads the file. `Err` names the invalid line.
pub fn parse(text: &str) -> Result<BTreeSet<&str>, String> {
    let mut seen = BTreeSet::new();
    for (index, name) in text.lines().enumerate() {
        let at = index + 1;
        if row(name).is_none() {
            return Err(format!("line {at}: {name:?} is not a registered type"));
        }
        if seen.last().is_some_and(|last| *last >= name) {
            return Err(format!("line {at}: {name} is duplicated or not in order"));
        }
        seen.insert(name);
    }
    Ok(seen)
}

/// Writes the file. What is not registered, such as extensions, is left out.
pub fn print<'a>(seen: impl IntoIterator<Item = &'a str>) -> String {
    let seen: BTreeSet<&str> = seen.into_iter().filter(|name| row(name).is_some()).collect();
    seen.into_iter().map(|name| format!("{name}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        let printed = print(["turn.started", "run.queued", "ext.acme.note", "turn.started"]);
        assert_eq!(printed, "run.queued\nturn.started\n");
        assert_eq!(parse(&printed), Ok(BTreeSet::from(["run.queued", "turn.started"])));
        assert_eq!(parse(""), Ok(BTreeSet::new()));
        for wrong in ["turn.started\nrun.queued\n", "run.queued\nrun.queued\n", "ext.acme.note\n", "\n"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
