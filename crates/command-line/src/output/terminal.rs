//! The size of a terminal on Linux and macOS.

pub(super) use std::os::fd::AsFd as AsTerminal;

use rustix::termios::tcgetwinsize;

/// 0 where it is unknown.
pub(super) fn columns_and_rows(terminal: &impl AsTerminal) -> (usize, usize) {
    tcgetwinsize(terminal).map_or((0, 0), |size| (usize::from(size.ws_col), usize::from(size.ws_row)))
}
