//! What a tool answers, when the run is one call of that tool.

use super::super::clean;

/// Lines that are told; how many more there are is said.
const LINES_MAX: usize = 200;

pub(super) fn lines(output: &str) -> Vec<String> {
    let mut told: Vec<String> = clean::lines(output)
        .take(LINES_MAX)
        .map(|line| format!("    {line}").trim_end().to_owned())
        .collect();
    let total = output.lines().count();
    if total > LINES_MAX {
        told.push(format!("    ({} more lines; recount show --all shows them)", total - LINES_MAX));
    }
    told
}
