//! Rings the terminal bell in patterns: [`Bell`]. A terminal merges bells that follow each other at once, so there are
//! pauses between them. Must not depend on the reason for a pattern.

use std::future::pending;
use std::io::IsTerminal as _;

use recount_client::moment;
use tokio::time::Instant;

use crate::limits;
use crate::output::aside;

/// Bells that still have to ring.
#[derive(Debug, Default)]
pub(super) struct Bell {
    remaining: u8,
    next: Option<Instant>,
}

impl Bell {
    /// Begins a pattern. A pattern that is ringing is replaced.
    pub(super) fn start(&mut self, count: u8) {
        self.remaining = count;
        self.next = Some(self.next.unwrap_or_else(moment));
    }

    /// When the next bell is due.
    pub(super) async fn due(&self) {
        match self.next {
            Some(next) => tokio::time::sleep_until(next).await,
            None => pending().await,
        }
    }

    /// Rings the bell that is due.
    pub(super) fn ring(&mut self) {
        let rings = self.remaining > 0;
        self.next = rings.then(|| moment() + limits::BELL_PAUSE);
        if rings {
            self.remaining -= 1;
            if std::io::stderr().is_terminal() {
                aside("\u{7}");
            }
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        self.remaining == 0
    }
}
