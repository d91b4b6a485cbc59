//! Asks a person at the terminal for a yes before something is done. See [`confirm`].

use std::io::{BufRead as _, IsTerminal as _};

use crate::failure::Failure;
use crate::output::aside;
use crate::render::clean;

/// Whether there is a person to ask.
pub(super) fn can_ask() -> bool {
    std::io::stdin().is_terminal()
}

/// Whether the person types a yes. Only `y` and `yes` are one.
pub(super) fn confirm(question: &str) -> Result<bool, Failure> {
    aside(&format!("{} Type y to continue; anything else stops: ", clean::line(question)));
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|why| Failure::Own(format!("cannot read the answer: {why}")))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes" | "Yes"))
}
