//! A ratchet for counts that may only fall: known violations by place and name, with their number.
//!
//! A row with a number above the current count is refused, so that the list follows improvements. The module must not
//! depend on what is counted. Start at [`Ratchet::hold`].

use std::collections::BTreeMap;

use super::Report;
use super::tree::Tree;

/// A place (a file, or the folder of a crate), a name in it, and the allowed count.
pub(super) type Known = (&'static str, &'static str, usize);

/// The count of a name in a place, and a line to report.
#[derive(Debug, Default)]
pub(super) struct Count {
    pub(super) count: usize,
    pub(super) path: String,
    pub(super) line: usize,
}

/// By place and name.
pub(super) type Counts = BTreeMap<(String, String), Count>;

pub(super) struct Ratchet<'a> {
    pub(super) rule: &'static str,
    /// The count that is always allowed.
    pub(super) most: usize,
    pub(super) known: &'a [Known],
    /// The file with the list. A tree without it has no outdated rows.
    pub(super) list: &'static str,
}

impl Ratchet<'_> {
    /// Refuses counts above the known ones. `reason` builds the message for a name in a place.
    pub(super) fn hold(
        &self,
        tree: &Tree,
        counts: &Counts,
        reason: impl Fn(&str, &str, usize) -> String,
        report: &mut Report,
    ) {
        let listed = |place: &str, name: &str| {
            self.known.iter().find(|row| (row.0, row.1) == (place, name)).map_or(self.most, |row| row.2)
        };
        for ((place, name), found) in counts {
            if found.count > listed(place, name) {
                report.refuse(&found.path, found.line, self.rule, reason(place, name, found.count));
            }
        }
        for (place, name, allowed) in self.known.iter().filter(|_| tree.exists(self.list)) {
            let count = counts.get(&((*place).to_owned(), (*name).to_owned())).map_or(0, |found| found.count);
            if count <= self.most {
                let message = format!("`{name}` of {place} is within the limit now: remove the row");
                report.refuse(self.list, 1, self.rule, message);
            } else if count < *allowed {
                let message =
                    format!("`{name}` of {place} has fewer now: write {count} instead of {allowed}");
                report.refuse(self.list, 1, self.rule, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::with;

    const LIST: &str = "docs/list.md";

    fn held(count: usize, known: &[Known]) -> Vec<String> {
        let ratchet = Ratchet { rule: "some", most: 1, known, list: LIST };
        let found = Count { count, path: "docs/a.md".into(), line: 7 };
        let counts = [(("docs".to_owned(), "it".to_owned()), found)].into();
        let mut report = Report::default();
        ratchet.hold(&with(LIST, "\n"), &counts, |_, name, count| format!("{name} {count}"), &mut report);
        report.findings.iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_lower_count_requires_a_lower_row() {
        const LISTED: &[Known] = &[("docs", "it", 4)];
        assert_eq!(held(1, &[]), [""; 0]);
        assert_eq!(held(2, &[]), ["docs/a.md:7: some: it 2"]);
        assert_eq!(held(5, LISTED), ["docs/a.md:7: some: it 5"]);
        assert_eq!(held(4, LISTED), [""; 0]);
        assert_eq!(
            held(3, LISTED),
            ["docs/list.md:1: some: `it` of docs has fewer now: write 3 instead of 4"]
        );
        assert_eq!(
            held(1, LISTED),
            ["docs/list.md:1: some: `it` of docs is within the limit now: remove the row"]
        );
    }
}
