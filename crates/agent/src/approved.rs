//! What a person allowed, and whether a call still does exactly that when it writes.
//!
//! Look at [`Approved::allows`]. A change of files is bound to the bytes that it was worked out from. Where other changes
//! of the same run came between, it has to make the same difference with the same lines around it. It
//! must not know how people are asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::digest::call_digest;

use crate::limits;

/// A change of one file, as a yes is bound to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: String,
    /// The revision that it was worked out from, or `absent`.
    pub base: String,
    /// The lines that come and go and those around them, without their numbers.
    pub lines: String,
}

/// The kind of a preview that shows a difference.
pub(crate) const DIFF: &str = "diff";

/// What a yes to changes of files is bound to.
pub(crate) fn binding(changes: &[FileChange]) -> String {
    changes.iter().map(|change| part(&change.path, &change.base, &lines_digest(change))).collect()
}

/// The part of one file. It is short, so that many bases can be tried: of the lines it holds a digest, which is computed once.
fn part(path: &str, base: &str, lines_digest: &str) -> String {
    // The length keeps the texts apart.
    format!("{} {path}\n{base}\n{lines_digest}\n", path.len())
}

fn lines_digest(change: &FileChange) -> String {
    call_digest("lines", &change.lines)
}

/// Files that calls of this run changed, whether a person or a rule allowed them: what each revision of a file was before.
/// Forgotten when another worker takes the run over, and then changes that build on them are not made.
#[derive(Debug, Clone, Default)]
pub struct Rewritten(Arc<Mutex<HashMap<(String, String), String>>>);

impl Rewritten {
    /// A change was made: a file of this path and base has this revision now.
    pub(crate) fn made(&self, path: &str, base: &str, revision: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < limits::REWRITTEN_MAX {
            known.insert((path.to_owned(), revision.to_owned()), base.to_owned());
        }
    }
}

/// A yes to one call.
#[derive(Debug, Clone)]
pub struct Approved {
    kind: String,
    digest: String,
    rewritten: Rewritten,
}

impl Approved {
    pub(crate) fn new(kind: String, digest: String, rewritten: Rewritten) -> Self {
        Approved { kind, digest, rewritten }
    }

    /// Whether a call whose preview is of this kind and bound to this still does what was allowed.
    pub(crate) fn is(&self, kind: &str, binding: &str) -> bool {
        self.kind == kind && self.digest == call_digest(kind, binding)
    }

    /// Whether these are the changes that were allowed.
    pub(crate) fn allows(&self, changes: &[FileChange]) -> bool {
        if self.kind != DIFF || changes.is_empty() {
            return false;
        }
        let bases: Vec<Vec<String>> = changes.iter().map(|change| self.bases(change)).collect();
        let several = bases.iter().map(Vec::len).try_fold(1_usize, usize::checked_mul);
        if several.is_none_or(|several| several > limits::APPROVED_BASES_MAX) {
            // What is compared first is what was there all along; of the others there are too many.
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

    /// The revision that a change builds on, and those that changes of this run made it from.
    fn bases(&self, change: &FileChange) -> Vec<String> {
        let known = self.rewritten.0.lock().unwrap_or_else(PoisonError::into_inner);
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

/// A call that an allowance lets through: what it was compared by, and what its write is held to.
pub(crate) struct AllowedCall {
    pub(crate) digest: String,
    pub(crate) approved: Approved,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, base: &str, lines: &str) -> FileChange {
        FileChange { path: path.into(), base: base.into(), lines: lines.into() }
    }

    fn yes(changes: &[FileChange], rewritten: &Rewritten) -> Approved {
        Approved::new(DIFF.into(), call_digest(DIFF, &binding(changes)), rewritten.clone())
    }

    #[test]
    fn a_yes_holds_for_the_same_change_of_the_same_bytes() {
        let rewritten = Rewritten::default();
        let shown = [change("a", "r0", "-x\n+y\n"), change("b", "absent", "+z\n")];
        let approved = yes(&shown, &rewritten);
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
        let input = Approved::new("input".into(), call_digest(DIFF, ""), rewritten);
        assert!(!input.allows(&shown), "what could not be shown as a difference is not made as one");
    }

    #[test]
    fn allowed_changes_of_the_same_run_may_come_between() {
        let rewritten = Rewritten::default();
        let (one, two) =
            ([change("a", "r0", "+1\n")], [change("a", "r0", "+2\n"), change("b", "q0", "+3\n")]);
        let second = yes(&two, &rewritten);
        rewritten.made("a", &one[0].base, "r1");
        let on = |base: &str, lines: &str| [change("a", base, lines), two[1].clone()];
        assert!(second.allows(&on("r1", "+2\n")));
        assert!(!second.allows(&on("r1", "+4\n")) && !second.allows(&on("r9", "+2\n")));
        // And back again: the search ends.
        rewritten.made("a", "r1", "r0");
        assert!(second.allows(&on("r1", "+2\n")) && !second.allows(&on("r1", "+4\n")));
    }

    /// What is tried for up to 64 combinations must not hold the lines.
    #[test]
    fn a_binding_is_as_short_for_long_changes() {
        let long = [change("a", "r0", &"+x\n".repeat(100_000)), change("b", "r0", "+x\n")];
        assert!(binding(&long).len() < 300, "{}", binding(&long));
        let other = [change("a", "r0", &"+x\n".repeat(100_001)), long[1].clone()];
        assert_ne!(binding(&long), binding(&other));
    }

    /// Beyond the bounds only what was there all along is allowed.
    #[test]
    fn the_bounds_close() {
        let rewritten = Rewritten::default();
        let many: Vec<FileChange> = (0..8).map(|file| change(&file.to_string(), "r0", "+x\n")).collect();
        let approved = yes(&many, &rewritten);
        for file in &many {
            rewritten.made(&file.path, &file.base, "r1");
        }
        let moved: Vec<FileChange> =
            many.iter().map(|file| FileChange { base: "r1".into(), ..file.clone() }).collect();
        assert!(approved.allows(&many) && !approved.allows(&moved), "256 ways are too many");
        for at in 0..=limits::REWRITTEN_MAX {
            rewritten.made("z", &format!("s{at}"), &format!("s{}", at + 1));
        }
        let long = [change("z", "s0", "+x\n")];
        let last = [change("z", &format!("s{}", limits::APPROVED_BASES_MAX + 1), "+x\n")];
        assert!(!yes(&long, &rewritten).allows(&last));
        assert_eq!(rewritten.0.lock().unwrap().len(), limits::REWRITTEN_MAX);
    }
}
