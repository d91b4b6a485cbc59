//! The size of a console on Windows.

pub(super) use std::os::windows::io::AsHandle as AsTerminal;

use terminal_size::{Height, Width, terminal_size_of};

/// 0 where it is unknown.
pub(super) fn columns_and_rows(console: &impl AsTerminal) -> (usize, usize) {
    terminal_size_of(console)
        .map_or((0, 0), |(Width(columns), Height(rows))| (usize::from(columns), usize::from(rows)))
}
