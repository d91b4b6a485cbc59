//! Reads the history of the server where a part of a turn was not received.

use recount_client::aap::wire::HistoryMessage;
use recount_client::aap::{AapError, open_calls};

use super::{Talk, describe_error};
use crate::failure::Failure;
use crate::limits;
use crate::output::note;
use crate::render::chat as words;

impl Talk {
    pub(super) async fn history(&self) -> Result<Option<Vec<HistoryMessage>>, AapError> {
        match self.agent.capabilities.history() {
            Some(kind) => self.client.history(&self.session.session_id, kind).await.map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn opened(&mut self, past: &[HistoryMessage]) {
        self.open = open_calls(past);
        match self.open.len() {
            0 => {}
            1 => note("1 call waits:"),
            open => note(&format!("{open} calls wait:")),
        }
    }

    /// Prints what the server has, after a part was not received.
    pub(super) async fn reload(&mut self) -> Result<(), Failure> {
        match self.history().await {
            Ok(Some(past)) => {
                let begin = past.iter().rposition(|message| matches!(message, HistoryMessage::User { .. }));
                let since = &past[begin.unwrap_or(0)..];
                note("since the last message:");
                words::history(since, limits::HISTORY_SHOWN_MAX).iter().for_each(|line| note(line));
                self.opened(&past);
            }
            Ok(None) => {
                self.open.clear();
                note("the agent offers no history, so the outcome of the turn is unknown");
            }
            Err(why) if self.is_missing(&why) => return Err(self.failed(why)),
            Err(why) => {
                self.open.clear();
                note(&format!("cannot read the history: {}", describe_error(&why)));
            }
        }
        Ok(())
    }

    pub(super) async fn reload_open(&mut self) {
        if let Ok(Some(past)) = self.history().await {
            self.opened(&past);
        }
    }
}
