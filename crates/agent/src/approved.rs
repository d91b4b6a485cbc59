//! Approved effects: checks that a call still makes exactly the approved changes when it writes.
//!
//! It must not know how people are asked.
//!
//! Start at [`ApprovedCall::allows`]. An approval of file changes is bound to the revisions that they were computed
//! from. If other calls of the same run changed the files since, the difference and its context lines must still be the
//! same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::digest::call_digest;

use crate::limits;

/// A change of one file, in the form that an approval is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: String,
    /// The revision that the change was computed from, or `absent`.
    pub base: String,
    /// The removed, added and context lines, without line numbers.
    pub lines: String,
}

/// The kind of a preview that shows a diff.
pub(crate) const DIFF: &str = "diff";

/// The text that an approval of file changes is bound to.
pub(crate) fn binding(changes: &[FileChange]) -> String {
    changes.iter().map(|change| part(&change.path, &change.base, &lines_digest(change))).collect()
}

/// The part of one file. It holds a digest of the lines, so it stays short while many bases are tried.
fn part(path: &str, base: &str, lines_digest: &str) -> String {
    // The length separates the texts unambiguously.
    format!("{} {path}\n{base}\n{lines_digest}\n", path.len())
}

fn lines_digest(change: &FileChange) -> String {
    call_digest("lines", &change.lines)
}

/// The files that calls of this run changed, with or without an approval: maps each revision to the one before. Lost
/// when another worker takes the run over; then changes that build on them are not made.
#[derive(Debug, Clone, Default)]
pub struct FileRevisions(Arc<Mutex<HashMap<(String, String), String>>>);

impl FileRevisions {
    /// Records that a change turned revision `base` of the file into `revision`.
    pub(crate) fn record(&self, path: &str, base: &str, revision: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < limits::FILE_REVISIONS_MAX {
            known.insert((path.to_owned(), revision.to_owned()), base.to_owned());
        }
    }
}

/// An approval of one call.
#[derive(Debug, Clone)]
pub struct ApprovedCall {
    kind: String,
    digest: String,
    revisions: FileRevisions,
}

impl ApprovedCall {
    pub(crate) fn new(kind: String, digest: String, revisions: FileRevisions) -> Self {
        ApprovedCall { kind, digest, revisions }
    }

    /// Whether a call with this kind of preview and this binding still does what was approved.
    pub(crate) fn is(&self, kind: &str, binding: &str) -> bool {
        self.kind == kind && self.digest == call_digest(kind, binding)
    }

    /// Whether these are the approved changes.
    pub(crate) fn allows(&self, changes: &[FileChange]) -> bool {
        if self.kind != DIFF || changes.is_empty() {
            return false;
        }
        let bases: Vec<Vec<String>> = changes.iter().map(|change| self.bases(change)).collect();
        let several = bases.iter().map(Vec::len).try_fold(1_usize, usize::checked_mul);
        if several.is_none_or(|several| several > limits::APPROVED_BASES_MAX) {
            // There are too many combinations, so only the current revisions are compared.
            return self.is(DIFF, &binding(changes));
        }
        let parts: Vec<Vec<String>> = changes
            .iter()
            .zip(&bases)
            .map(|(change, bases)| {
                let lines = lines_digest(change);
                bases.iter().map(|base| part(&change.path, base, &lines)).collect()
            })
            .collect();
        let mut chosen = vec![0; bases.len()];
        loop {
            let with: String = parts.iter().zip(&chosen).map(|(parts, at)| parts[*at].as_str()).collect();
            if self.is(DIFF, &with) {
                return true;
            }
            let Some(file) = (0..chosen.len()).find(|file| chosen[*file] + 1 < bases[*file].len()) else {
                return false;
            };
            chosen[file] += 1;
            chosen[..file].fill(0);
        }
    }

    /// The revision that a change builds on, and the earlier ones that calls of this run derived it from.
    fn bases(&self, change: &FileChange) -> Vec<String> {
        let known = self.revisions.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bases = vec![change.base.clone()];
        let mut at = (change.path.clone(), change.base.clone());
        while let Some(before) = known.get(&at)
            && !bases.contains(before)
            && bases.len() < limits::APPROVED_BASES_MAX
        {
            bases.push(before.clone());
            at.1.clone_from(before);
        }
        bases
    }
}

/// A call that is covered by an allowance: the digest that matched, and the effect that it is bound to.
pub(crate) struct AllowedCall {
    pub(crate) digest: String,
    pub(crate) approved: ApprovedCall,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, base: &str, lines: &str) -> FileChange {
        FileChange { path: path.into(), base: base.into(), lines: lines.into() }
    }

    fn approve(changes: &[FileChange], revisions: &FileRevisions) -> ApprovedCall {
        ApprovedCall::new(DIFF.into(), call_digest(DIFF, &binding(changes)), revisions.clone())
    }

    #[test]
    fn an_approval_holds_only_for_the_same_change_of_the_same_bytes() {
        let revisions = FileRevisions::default();
        let shown = [change("a", "r0", "-x\n+y\n"), change("b", "absent", "+z\n")];
        let approved = approve(&shown, &revisions);
        assert!(approved.allows(&shown));
        for (at, other) in [
            (0, change("a", "r1", "-x\n+y\n")),
            (0, change("c", "r0", "-x\n+y\n")),
            (0, change("a", "r0", "-x\n+z\n")),
            (1, change("b", "r0", "+z\n")),
        ] {
            let mut changes = shown.clone();
            changes[at] = other;
            assert!(!approved.allows(&changes), "{changes:?}");
        }
        assert!(!approved.allows(&shown[..1]) && !approved.allows(&[]));
        let input = ApprovedCall::new("input".into(), call_digest(DIFF, ""), revisions);
        assert!(!input.allows(&shown), "what could not be shown as a difference is not made as one");
    }

    #[test]
    fn other_changes_of_the_same_run_keep_an_approval_valid() {
        let revisions = FileRevisions::default();
        let (one, two) =
            ([change("a", "r0", "+1\n")], [change("a", "r0", "+2\n"), change("b", "q0", "+3\n")]);
        let second = approve(&two, &revisions);
        revisions.record("a", &one[0].base, "r1");
        let on = |base: &str, lines: &str| [change("a", base, lines), two[1].clone()];
        assert!(second.allows(&on("r1", "+2\n")));
        assert!(!second.allows(&on("r1", "+4\n")) && !second.allows(&on("r9", "+2\n")));
        // A cycle must not make the search endless.
        revisions.record("a", "r1", "r0");
        assert!(second.allows(&on("r1", "+2\n")) && !second.allows(&on("r1", "+4\n")));
    }

    /// Up to 64 combinations are tried, so a binding must not hold the lines.
    #[test]
    fn a_binding_is_short_for_long_changes() {
        let long = [change("a", "r0", &"+x\n".repeat(100_000)), change("b", "r0", "+x\n")];
        assert!(binding(&long).len() < 300, "{}", binding(&long));
        let other = [change("a", "r0", &"+x\n".repeat(100_001)), long[1].clone()];
        assert_ne!(binding(&long), binding(&other));
    }

    /// Beyond the limits only the approved revisions themselves are accepted.
    #[test]
    fn beyond_the_limits_only_the_approved_revisions_are_accepted() {
        let revisions = FileRevisions::default();
        let many: Vec<FileChange> = (0..8).map(|file| change(&file.to_string(), "r0", "+x\n")).collect();
        let approved = approve(&many, &revisions);
        for file in &many {
            revisions.record(&file.path, &file.base, "r1");
        }
        let moved: Vec<FileChange> =
            many.iter().map(|file| FileChange { base: "r1".into(), ..file.clone() }).collect();
        assert!(approved.allows(&many) && !approved.allows(&moved), "256 ways are too many");
        for at in 0..=limits::FILE_REVISIONS_MAX {
            revisions.record("z", &format!("s{at}"), &format!("s{}", at + 1));
        }
        let long = [change("z", "s0", "+x\n")];
        let last = [change("z", &format!("s{}", limits::APPROVED_BASES_MAX + 1), "+x\n")];
        assert!(!approve(&long, &revisions).allows(&last));
        assert_eq!(revisions.0.lock().unwrap().len(), limits::FILE_REVISIONS_MAX);
    }
}
