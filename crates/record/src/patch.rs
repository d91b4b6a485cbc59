//! Changes of files that other agents report, as unified diffs: from old and new text, from hunks, or the agent's own diff.
//!
//! A change of a part of a file is a patch only if its place in the file is known; otherwise it is marked as a fragment. It
//! must not know where a change was reported. See [`Patch`].

use serde_json::Value;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices, group_diff_ops};

use crate::limits;

/// A change of one file, as a unified diff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// The agent's id of the call that shows it.
    pub call: String,
    pub path: String,
    pub text: String,
    pub additions: u64,
    pub deletions: u64,
    pub hunks: u64,
    /// It is a part of a file whose place is not known, so it cannot be applied.
    pub is_fragment: bool,
}

impl Patch {
    /// The change of a whole file from `old`, or from no file, to `new`. Texts with too many lines become removed and
    /// added whole, which is longer and just as right.
    pub(crate) fn of(call: &str, path: &str, old: Option<&str>, new: &str) -> Self {
        Patch::compared(call, path, old, new, Some(1))
    }

    /// The change of a part of a file whose first line has this number, or of which it is not known where it is.
    pub(crate) fn of_part(call: &str, path: &str, old: &str, new: &str, first_line: Option<usize>) -> Self {
        Patch::compared(call, path, Some(old), new, first_line)
    }

    fn compared(call: &str, path: &str, old: Option<&str>, new: &str, first_line: Option<usize>) -> Self {
        let before: Vec<&str> = old.unwrap_or("").split_inclusive('\n').collect();
        let after: Vec<&str> = new.split_inclusive('\n').collect();
        let ops = if before.len() + after.len() <= limits::PATCH_LINES_COMPARED_MAX {
            capture_diff_slices(Algorithm::Myers, &before, &after)
        } else {
            let (old_len, new_len) = (before.len(), after.len());
            vec![DiffOp::Replace { old_index: 0, old_len, new_index: 0, new_len }]
        };
        let mut patch = Patch::begin(call, path, old.is_none());
        patch.is_fragment = first_line.is_none();
        for group in group_diff_ops(ops, limits::PATCH_CONTEXT_LINES) {
            patch.hunk(&group, &before, &after, first_line);
        }
        patch
    }

    /// The hunks that Claude Code reports of a change: `{oldStart, oldLines, newStart, newLines, lines}` each.
    pub(crate) fn of_hunks(call: &str, path: &str, hunks: &[Value]) -> Option<Self> {
        let mut patch = Patch::begin(call, path, false);
        for hunk in hunks {
            let number = |name: &str| hunk.get(name)?.as_u64();
            let from = (number("oldStart")?, number("oldLines")?);
            let to = (number("newStart")?, number("newLines")?);
            patch.text.push_str(&format!("@@ -{},{} +{},{} @@\n", from.0, from.1, to.0, to.1));
            patch.hunks += 1;
            for line in hunk.get("lines")?.as_array()? {
                patch.count(line.as_str()?)?;
                patch.text.push_str(line.as_str()?);
                patch.text.push('\n');
            }
        }
        (patch.hunks > 0).then_some(patch)
    }

    /// The agent's own unified diff of one file, with or without its file names.
    pub(crate) fn of_unified(call: &str, path: &str, diff: &str) -> Option<Self> {
        let mut patch = Patch::begin(call, path, false);
        let hunks = &diff[diff.find("@@ ").filter(|at| *at == 0 || diff[..*at].ends_with('\n'))?..];
        for line in hunks.lines() {
            if line.starts_with("@@ ") {
                patch.hunks += 1;
            } else {
                patch.count(line)?;
            }
        }
        patch.text.push_str(hunks);
        if !hunks.ends_with('\n') {
            patch.text.push('\n');
        }
        Some(patch)
    }

    fn begin(call: &str, path: &str, is_new: bool) -> Self {
        let from = if is_new { "/dev/null".to_owned() } else { format!("a/{path}") };
        Patch {
            call: call.to_owned(),
            path: path.to_owned(),
            text: format!("--- {from}\n+++ b/{path}\n"),
            ..Patch::default()
        }
    }

    /// Counts a line of a hunk; `None` if it is none.
    fn count(&mut self, line: &str) -> Option<()> {
        match line.as_bytes().first() {
            Some(b'+') => self.additions += 1,
            Some(b'-') => self.deletions += 1,
            Some(b' ' | b'\\') | None => {}
            Some(_) => return None,
        }
        Some(())
    }

    /// Recognises the same change of the same call.
    pub fn key(&self) -> u64 {
        crate::ids::key(&format!("{}\n{}", self.call, self.text))
    }

    fn hunk(&mut self, ops: &[DiffOp], before: &[&str], after: &[&str], first_line: Option<usize>) {
        let (Some(first), Some(last)) = (ops.first(), ops.last()) else { return };
        self.hunks += 1;
        match first_line.map(|line| line.saturating_sub(1)) {
            Some(above) => {
                let from = span(above, first.old_range().start, last.old_range().end);
                let to = span(above, first.new_range().start, last.new_range().end);
                self.text.push_str(&format!("@@ -{from} +{to} @@\n"));
            }
            None => self.text.push_str("@@ place not known @@\n"),
        }
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

fn span(above: usize, start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{},0", above + start),
        1 => format!("{}", above + start + 1),
        lines => format!("{},{lines}", above + start + 1),
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

    #[test]
    fn a_part_of_a_file_is_a_patch_only_with_its_place() {
        let patch = Patch::of_part("c", "a.txt", "two\n", "2\n", Some(41));
        assert_eq!(
            (&*patch.text, patch.is_fragment),
            ("--- a/a.txt\n+++ b/a.txt\n@@ -41 +41 @@\n-two\n+2\n", false)
        );
        let fragment = Patch::of_part("c", "a.txt", "two\n", "2\n", None);
        let text = "--- a/a.txt\n+++ b/a.txt\n@@ place not known @@\n-two\n+2\n";
        assert_eq!((&*fragment.text, fragment.is_fragment, fragment.additions), (text, true, 1));
    }

    #[test]
    fn hunks_and_diffs_of_an_agent_keep_their_places() {
        let hunk = serde_json::json!({"oldStart": 2, "oldLines": 3, "newStart": 2, "newLines": 3,
            "lines": [" b", "-total = 0", "+total = 1", " c"]});
        let patch = Patch::of_hunks("c", "a.py", &[hunk]).unwrap();
        let text = "--- a/a.py\n+++ b/a.py\n@@ -2,3 +2,3 @@\n b\n-total = 0\n+total = 1\n c\n";
        assert_eq!((&*patch.text, patch.additions, patch.deletions, patch.hunks), (text, 1, 1, 1));
        assert_eq!(Patch::of_unified("c", "a.py", &text[..text.len() - 1]).unwrap(), patch);
        assert_eq!(
            Patch::of_unified("c", "a.py", text.split_once("+++ b/a.py\n").unwrap().1).unwrap(),
            patch
        );
        for none in [
            serde_json::json!({"oldStart": 1}),
            serde_json::json!({"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["x"]}),
        ] {
            assert_eq!(Patch::of_hunks("c", "a", &[none]), None);
        }
        assert_eq!(Patch::of_hunks("c", "a", &[]), None);
        for none in ["", "x", "@@ -1 +1 @@\nx\n", "a@@ -1 +1 @@\n"] {
            assert_eq!(Patch::of_unified("c", "a", none), None, "{none}");
        }
    }
}
