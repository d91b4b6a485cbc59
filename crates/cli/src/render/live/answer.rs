//! Prints the output of a tool when the run is one call of that tool.

use super::super::{clean, count};

/// Lines that are printed; the number of omitted ones is printed.
const LINES_MAX: usize = 200;

pub(super) fn lines(output: &str) -> Vec<String> {
    let mut shown: Vec<String> = clean::lines(output)
        .take(LINES_MAX)
        .map(|line| format!("    {line}").trim_end().to_owned())
        .collect();
    let total = output.lines().count();
    if total > LINES_MAX {
        let more = count((total - LINES_MAX) as u64, "more line");
        shown.push(format!("    ({more}; to show all: recount show --all)"));
    }
    shown
}
