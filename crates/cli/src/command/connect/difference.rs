//! The difference of two texts, as `diff -u` writes it. Look at [`unified`].

use std::fmt::Write as _;

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

/// Lines around a change that are shown with it.
const CONTEXT: usize = 3;

pub(super) fn unified(name: &str, before: &str, after: &str) -> String {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let mut out = String::new();
    for group in group_diff_ops(capture_diff_slices(Algorithm::Myers, &old, &new), CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        if out.is_empty() {
            out.push_str(&format!("--- {name}\n+++ {name}\n"));
        }
        let (from, to) = (first.old_range().start, last.old_range().end);
        let (new_from, new_to) = (first.new_range().start, last.new_range().end);
        let place =
            |from: usize, to: usize| format!("{},{}", if to > from { from + 1 } else { from }, to - from);
        writeln!(out, "@@ -{} +{} @@", place(from, to), place(new_from, new_to)).ok();
        for op in &group {
            let is_same = matches!(op, DiffOp::Equal { .. });
            for line in &old[op.old_range()] {
                writeln!(out, "{}{line}", if is_same { ' ' } else { '-' }).ok();
            }
            for line in new[op.new_range()].iter().filter(|_| !is_same) {
                writeln!(out, "+{line}").ok();
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_diff_writes_it() {
        assert_eq!(unified("f", "a\n", "a\n"), "");
        assert_eq!(unified("f", "", "a\n"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(
            unified("f", "1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nfive\n6\n"),
            "--- f\n+++ f\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n"
        );
    }
}
