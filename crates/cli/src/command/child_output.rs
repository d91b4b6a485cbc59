//! What a child process writes. On a terminal its control characters are escaped, because they would steer the
//! terminal; elsewhere nothing is changed. It must not know what the child is. Look at [`stderr`] and [`EscapedStdout`].

#[cfg(unix)]
mod stdout;

#[cfg(not(unix))]
#[path = "child_output/stdout_unescaped.rs"]
mod stdout;

use std::io::{self, IsTerminal as _, Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};

use recount_client::thread;

pub(super) use self::stdout::EscapedStdout;
use crate::limits::{CHILD_OUTPUT_BYTES, CHILD_OUTPUT_WAIT};
use crate::render::clean;

/// What a child gets as its standard error.
pub(super) fn stderr() -> Stdio {
    if io::stderr().is_terminal() { Stdio::piped() } else { Stdio::inherit() }
}

/// Text of a child that is being shown.
pub(super) struct Showing(Receiver<()>);

/// Shows what the child writes to it, if it is ours to show.
pub(super) fn show(child: &mut Child) -> Option<Showing> {
    Some(Showing::start(child.stderr.take()?, io::stderr()))
}

impl Showing {
    fn start(from: impl Read + Send + 'static, to: impl Write + Send + 'static) -> Self {
        let (ended, showing) = sync_channel::<()>(0); // tidy: only its end is sent
        thread("child-output", move || {
            // A terminal that is closed shows nothing.
            copy(from, to).ok();
            drop(ended);
        });
        Showing(showing)
    }

    /// Waits until everything is shown that a child wrote that has ended.
    pub(super) fn wait(self) {
        self.0.recv_timeout(CHILD_OUTPUT_WAIT).ok();
    }
}

/// Copies text as it comes. A character that is cut between two reads waits for its end.
fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = [0; CHILD_OUTPUT_BYTES];
    let mut held = 0;
    loop {
        let read = from.read(&mut buffer[held..])?;
        let filled = held + read;
        let whole = match std::str::from_utf8(&buffer[..filled]) {
            Err(cut) if cut.error_len().is_none() && read > 0 => cut.valid_up_to(),
            _ => filled,
        };
        to.write_all(shown(&String::from_utf8_lossy(&buffer[..whole])).as_bytes())?;
        to.flush()?;
        if read == 0 {
            return Ok(());
        }
        buffer.copy_within(whole..filled, 0);
        held = filled - whole;
    }
}

fn shown(text: &str) -> String {
    let line = |line: &str| match line.strip_suffix('\n') {
        Some(line) => clean::line(line.strip_suffix('\r').unwrap_or(line)) + "\n",
        None => clean::line(line),
    };
    text.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_lines_stay() {
        let mut out = Vec::new();
        let text = "\x1b]0;title\x07started\r\n\x1b[2Jgrößer\u{9b}31m\nPassword: ";
        copy(text.as_bytes(), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out, "\\u{1b}]0;title\\u{7}started\n\\u{1b}[2Jgrößer\\u{9b}31m\nPassword: ");
    }

    #[test]
    fn a_character_that_comes_in_two_reads_is_whole() {
        let (first, second) = "grö".as_bytes().split_at(3);
        let mut out = Vec::new();
        copy(first.chain(second), &mut out).unwrap();
        assert_eq!(out, "grö".as_bytes());
        out.clear();
        copy(first, &mut out).unwrap();
        assert_eq!(out, "gr\u{fffd}".as_bytes(), "what ends within one is shown as well");
    }
}
