//! Prints a change of a file as the lines of a patch. The first character of each line marks its change;
//! colour only repeats that.

use super::super::flow::beginning;
use super::super::{clean, count};
use super::Paint;

/// Lines of a change that are printed; for a longer one its artifact is named.
const LINES_MAX: usize = 60;

/// Columns of a line that are printed.
const LINE_COLUMNS_MAX: usize = 400;

pub(super) fn lines(id: &str, bytes: &[u8], paint: Paint) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let total = text.lines().count();
    let mut shown: Vec<String> = text.lines().take(LINES_MAX).map(|line| one(line, paint)).collect();
    if total > LINES_MAX {
        let left = total - LINES_MAX;
        let left = count(left as u64, "more line");
        shown.push(format!("    ({left}; to show all: recount artifact get {})", clean::line(id)));
    }
    shown
}

fn one(line: &str, paint: Paint) -> String {
    let mut shown = clean::line(line);
    let end = beginning(&shown, LINE_COLUMNS_MAX).len();
    if end < shown.len() {
        shown.truncate(end);
        shown.push_str(" (line truncated)");
    }
    let shown = match line.as_bytes().first() {
        _ if line.starts_with("+++") || line.starts_with("---") => paint.bold(&shown),
        Some(b'+') => paint.good(&shown),
        Some(b'-') => paint.bad(&shown),
        Some(b'@') => paint.dim(&shown),
        _ => shown,
    };
    format!("    {shown}").trim_end().to_owned()
}
