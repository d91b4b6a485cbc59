//! The same where standard output cannot be replaced: control characters that are forwarded reach the terminal.

use std::io;

pub(in crate::command) use self::UnescapedStdout as EscapedStdout;

/// Nothing is escaped.
pub(in crate::command) enum UnescapedStdout {}

impl UnescapedStdout {
    pub(in crate::command) fn start() -> io::Result<Option<Self>> {
        Ok(None)
    }
}
