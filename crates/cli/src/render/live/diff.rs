//! A change of a file in the form that patches have, as lines. Each says by its first character what becomes of it;
//! colour only repeats that.

use super::super::clean;
use super::super::flow::beginning;
use super::Paint;

/// Lines of a change that are told; a longer one is told by where it is kept.
const LINES_MAX: usize = 60;

/// Columns of a line that are told.
const LINE_COLUMNS_MAX: usize = 400;

pub(super) fn lines(id: &str, bytes: &[u8], paint: Paint) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let total = text.lines().count();
    let mut told: Vec<String> = text.lines().take(LINES_MAX).map(|line| one(line, paint)).collect();
    if total > LINES_MAX {
        let left = total - LINES_MAX;
        told.push(format!("    ({left} more lines; the whole change is kept as {})", clean::line(id)));
    }
    told
}

fn one(line: &str, paint: Paint) -> String {
    let mut shown = clean::line(line);
    let end = beginning(&shown, LINE_COLUMNS_MAX).len();
    if end < shown.len() {
        shown.truncate(end);
        shown.push_str(" (and more)");
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
