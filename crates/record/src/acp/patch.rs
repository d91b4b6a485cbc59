//! Creates patches from the changes that tool calls show as old and new text. See [`Patch`].

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices, group_diff_ops};

use crate::limits;

/// A change of one file, as a unified diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The agent's id of the call that shows it.
    pub call: String,
    pub path: String,
    pub text: String,
    pub additions: u64,
    pub deletions: u64,
    pub hunks: u64,
}

impl Patch {
    /// The change from `old`, or from no file, to `new`. Texts with too many lines become removed and added whole,
    /// which is longer and just as right.
    pub(super) fn of(call: &str, path: &str, old: Option<&str>, new: &str) -> Self {
        let before: Vec<&str> = old.unwrap_or("").split_inclusive('\n').collect();
        let after: Vec<&str> = new.split_inclusive('\n').collect();
        let ops = if before.len() + after.len() <= limits::PATCH_LINES_COMPARED_MAX {
            capture_diff_slices(Algorithm::Myers, &before, &after)
        } else {
            let (old_len, new_len) = (before.len(), after.len());
            vec![DiffOp::Replace { old_index: 0, old_len, new_index: 0, new_len }]
        };
        let from = if old.is_none() { "/dev/null".to_owned() } else { format!("a/{path}") };
        let mut patch = Patch {
            call: call.to_owned(),
            path: path.to_owned(),
            text: format!("--- {from}\n+++ b/{path}\n"),
            additions: 0,
            deletions: 0,
            hunks: 0,
        };
        for group in group_diff_ops(ops, limits::PATCH_CONTEXT_LINES) {
            patch.hunk(&group, &before, &after);
        }
        patch
    }

    fn hunk(&mut self, ops: &[DiffOp], before: &[&str], after: &[&str]) {
        let (Some(first), Some(last)) = (ops.first(), ops.last()) else { return };
        self.hunks += 1;
        let from = span(first.old_range().start, last.old_range().end);
        let to = span(first.new_range().start, last.new_range().end);
        self.text.push_str(&format!("@@ -{from} +{to} @@\n"));
        for op in ops {
            if op.tag() == DiffTag::Equal {
                self.rows(' ', &before[op.old_range()]);
                continue;
            }
            self.deletions += op.old_range().len() as u64;
            self.additions += op.new_range().len() as u64;
            self.rows('-', &before[op.old_range()]);
            self.rows('+', &after[op.new_range()]);
        }
    }

    fn rows(&mut self, mark: char, lines: &[&str]) {
        for line in lines {
            self.text.push(mark);
            self.text.push_str(line);
            if !line.ends_with('\n') {
                self.text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
}

fn span(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        lines => format!("{},{lines}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_what_git_would_apply() {
        let patch = Patch::of("c", "a.txt", Some("one\ntwo\nthree"), "one\n2\nthree");
        let text = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n\\ No newline at end of file\n";
        assert_eq!((&*patch.text, patch.additions, patch.deletions, patch.hunks), (text, 1, 1, 1));
        let made = Patch::of("c", "a.txt", None, "one\n");
        assert_eq!(made.text, "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+one\n");
        assert_eq!(Patch::of("c", "a.txt", Some("one\n"), "one\n").hunks, 0);
    }

    #[test]
    fn a_long_text_is_replaced_whole() {
        let lines = "x\n".repeat(limits::PATCH_LINES_COMPARED_MAX);
        let patch = Patch::of("c", "a", Some(&lines), "y\n");
        assert_eq!(
            (patch.additions, patch.deletions, patch.hunks),
            (1, limits::PATCH_LINES_COMPARED_MAX as u64, 1)
        );
    }
}
