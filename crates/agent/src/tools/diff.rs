//! Computes the difference of two versions of a file as a unified diff that `git apply` and `patch` accept.
//!
//! Start at [`unified`]. It works on bytes, so line endings, byte-order marks, a missing last newline and any text
//! encoding are preserved. Pure except for a deadline: parts that are not compared in time are removed and added as a
//! whole, which is longer but correct.

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

use crate::tools::ending::counted;
use crate::tools::limits;

/// A diff and its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) text: Vec<u8>,
    pub(crate) additions: u64,
    pub(crate) deletions: u64,
    pub(crate) hunks: u64,
}

/// The diff from `before`, or from no file, to `after`.
pub(crate) fn unified(path: &str, before: Option<&[u8]>, after: &[u8]) -> Patch {
    let old: Vec<&[u8]> = lines(before.unwrap_or_default());
    let new: Vec<&[u8]> = lines(after);
    let deadline = recount_world::moment().into_std() + limits::DIFF_TIME_MAX;
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
    let from = before.map_or_else(|| "/dev/null".to_owned(), |_| named("a/", path));
    let mut patch = Patch {
        text: format!("--- {from}\n+++ {}\n", named("b/", path)).into_bytes(),
        additions: 0,
        deletions: 0,
        hunks: 0,
    };
    for group in group_diff_ops(ops, limits::DIFF_CONTEXT_LINES) {
        patch.hunk(&group, &old, &new);
    }
    patch
}

impl Patch {
    fn hunk(&mut self, ops: &[DiffOp], old: &[&[u8]], new: &[&[u8]]) {
        let (Some(first), Some(last)) = (ops.first(), ops.last()) else { return };
        self.hunks += 1;
        let from = span(first.old_range().start, last.old_range().end);
        let to = span(first.new_range().start, last.new_range().end);
        self.text.extend_from_slice(format!("@@ -{from} +{to} @@\n").as_bytes());
        for op in ops {
            if op.tag() == DiffTag::Equal {
                self.rows(b' ', &old[op.old_range()]);
                continue;
            }
            self.deletions += op.old_range().len() as u64;
            self.additions += op.new_range().len() as u64;
            self.rows(b'-', &old[op.old_range()]);
            self.rows(b'+', &new[op.new_range()]);
        }
    }

    fn rows(&mut self, mark: u8, lines: &[&[u8]]) {
        for line in lines {
            self.text.push(mark);
            self.text.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                self.text.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    }

    /// `1 hunk, +1/-1 line`.
    pub(crate) fn summary(&self) -> String {
        let hunks = counted(self.hunks, "hunk", "hunks");
        let lines = if self.additions.max(self.deletions) == 1 { "line" } else { "lines" };
        format!("{hunks}, +{}/-{} {lines}", self.additions, self.deletions)
    }
}

/// Lines with their ends. Only a newline ends a line, as in `git` and `patch`.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The range of a hunk: its first line from 1 and the count; an empty range names the line before it.
fn span(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        count => format!("{},{count}", start + 1),
    }
}

/// A path as git writes it: quoted if it contains characters that would end the line or the name.
pub(crate) fn named(prefix: &str, path: &str) -> String {
    if path.chars().any(|char| char.is_ascii_control() || matches!(char, '"' | '\\')) {
        return quoted(&format!("{prefix}{path}"));
    }
    // Readers expect a tab after a name that contains a space.
    let end = if path.contains(' ') { "\t" } else { "" };
    format!("{prefix}{path}{end}")
}

/// A quoted name with escaped control characters.
pub(crate) fn quoted(name: &str) -> String {
    let mut out = String::from("\"");
    for char in name.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            char if char.is_ascii_control() => out.push_str(&format!("\\{:03o}", u32::from(char))),
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
