//! Restricts a shared event to what one subscription may see: prompts only if its caller may answer them, texts only as
//! its redaction profile allows. Pure. Start with [`View::of`].

use recount_aaep::negotiate::Terms;
use recount_aaep::wire::{Summaries, TextDirection};
use recount_aaep::{Body, Event, Kind};

use crate::project::informational;
use crate::request::Redaction;

/// Replaces withheld text where the protocol requires a text.
const WITHHELD: &str = "(withheld)";

/// How a subscription sees events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) confirmations: bool,
    pub(crate) clarifications: bool,
    pub(crate) redaction: Redaction,
}

impl View {
    /// Prompts are live for a caller that may answer them and declared that it replies.
    pub(crate) fn new(terms: &Terms, may_answer: bool, redaction: Redaction) -> Self {
        let shows = may_answer && redaction != Redaction::Envelope;
        View {
            confirmations: shows && terms.replies(Kind::AwaitingConfirmation),
            clarifications: shows && terms.replies(Kind::AwaitingClarification),
            redaction,
        }
    }

    /// Whether a prompt of this kind is shown with its token.
    fn shows(self, kind: Kind) -> bool {
        match kind {
            Kind::AwaitingConfirmation => self.confirmations,
            Kind::AwaitingClarification => self.clarifications,
            _ => true,
        }
    }

    /// The event as this subscription sees it; `None` if it sees nothing of it.
    pub(crate) fn of(self, event: &Event) -> Option<Event> {
        let hidden = event.kind().is_some_and(|kind| !self.shows(kind));
        let mut event = hidden.then(|| informational(event)).flatten().unwrap_or_else(|| event.clone());
        match self.redaction {
            Redaction::Full => {}
            Redaction::Summaries => {
                if matches!(event.body, Body::OutputStreaming(_)) {
                    return None;
                }
                withhold_payload(&mut event);
            }
            Redaction::Envelope => {
                if matches!(event.body, Body::OutputStreaming(_)) {
                    return None;
                }
                withhold_payload(&mut event);
                withhold_texts(&mut event);
            }
        }
        Some(event)
    }
}

/// Removes arguments, results and requests.
fn withhold_payload(event: &mut Event) {
    match &mut event.body {
        Body::SessionStarted(started) => started.request_text = None,
        Body::SessionCompleted(completed) => {
            completed.output_summary = None;
            completed.result_uri = None;
        }
        Body::SessionCancelled(cancelled) => cancelled.partial_result = None,
        Body::ToolInvoked(invoked) => {
            invoked.args_summary = None;
            invoked.description = None;
        }
        Body::ToolCompleted(completed) => completed.error_message = None,
        Body::HandoffRequested(handoff) => handoff.packaged_context = None,
        _ => {}
    }
}

/// Removes every text that comes from a run.
fn withhold_texts(event: &mut Event) {
    let summaries = &mut event.summaries;
    *summaries =
        Summaries { normal: summaries.normal.is_some().then(|| WITHHELD.into()), ..Summaries::default() };
    if let Some(hints) = &mut event.envelope.localization_hints {
        hints.primary_language = Some("en-US".into());
        hints.text_direction = Some(TextDirection::Ltr);
    }
    match &mut event.body {
        Body::SessionStarted(started) => started.requested_by = None,
        Body::SessionErrored(errored) => errored.remediation_hint = None,
        Body::ProgressUpdated(updated) => {
            updated.progress.description = updated.progress.description.take().map(|_| WITHHELD.into());
        }
        Body::HandoffRequested(handoff) => handoff.reason = WITHHELD.into(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use recount_aaep::build::{self, Frame};
    use recount_aaep::wire::{Boundary, Level, ReplyToken};

    use super::*;

    fn view(replies: bool, redaction: Redaction) -> View {
        View { confirmations: replies, clarifications: replies, redaction }
    }

    fn prompt() -> Event {
        let token = ReplyToken::new("rpl_4f8a2e7d9c1b6a3f").unwrap();
        let prompt = build::confirmation("Send the letter.", "It is sent.", token, 60).risk_level(Level::Low);
        let mut event = Frame::new("sess_1", "agent", "en-US").unwrap().event("evt_1", 0, prompt).unwrap();
        event.summaries.normal = Some("May I send the letter?".into());
        event
    }

    #[test]
    fn a_prompt_is_live_only_where_it_can_be_answered() {
        let live = view(true, Redaction::Full).of(&prompt()).unwrap();
        assert_eq!(live, prompt());
        let shown = view(false, Redaction::Full).of(&prompt()).unwrap();
        assert_eq!(shown.kind(), Some(Kind::StateChanged));
        let text = shown.summaries.normal.clone().unwrap();
        assert!(text.contains("Send the letter."), "{text}");
        assert!(!shown.to_json().contains("rpl_"), "{shown}");
    }

    #[test]
    fn an_envelope_has_no_text_of_a_run() {
        let frame = Frame::new("sess_1", "agent", "en-US").unwrap();
        let started = build::session_started("Summarise the letter.");
        let mut started = frame.event("evt_1", 0, started).unwrap();
        let Body::SessionStarted(body) = &mut started.body else { panic!("{started}") };
        body.request_text = Some("the letter".into());
        let output = build::output("the letter", 0, Boundary::Word).output_id("out_1");
        let output = frame.event("evt_2", 0, output).unwrap();
        for (redaction, texts, outputs) in
            [(Redaction::Full, 2, true), (Redaction::Summaries, 1, false), (Redaction::Envelope, 0, false)]
        {
            let seen = view(false, redaction).of(&started).unwrap().to_json();
            assert_eq!(seen.matches("the letter").count(), texts, "{seen}");
            assert_eq!(view(false, redaction).of(&output).is_some(), outputs);
        }
        let seen = view(false, Redaction::Envelope).of(&prompt()).unwrap();
        assert!(!seen.to_json().contains("letter"), "{seen}");
    }
}
