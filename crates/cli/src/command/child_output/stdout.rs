//! Escapes control characters in what this program forwards to a terminal. Look at [`EscapedStdout`].

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::stdio::dup2_stdout;

use super::Showing;

/// While it lives, standard output goes through a pipe to the terminal, where control characters are escaped.
pub(in crate::command) struct EscapedStdout {
    terminal: OwnedFd,
    showing: Option<Showing>,
}

impl EscapedStdout {
    /// Nothing if standard output is not a terminal.
    pub(in crate::command) fn start() -> io::Result<Option<Self>> {
        if !io::stdout().is_terminal() {
            return Ok(None);
        }
        let terminal = io::stdout().as_fd().try_clone_to_owned()?;
        let (from, to) = io::pipe()?;
        let showing = Some(Showing::start(from, std::fs::File::from(terminal.try_clone()?)));
        dup2_stdout(to)?;
        Ok(Some(EscapedStdout { terminal, showing }))
    }
}

impl Drop for EscapedStdout {
    fn drop(&mut self) {
        io::stdout().flush().ok();
        // The pipe ends with this, so what is in it is shown.
        if dup2_stdout(&self.terminal).is_ok()
            && let Some(showing) = self.showing.take()
        {
            showing.wait();
        }
    }
}
