//! Test helper with a producer, a subscriber and a clock.

use recount_aaep::build::{self, Draft, Frame};
use recount_aaep::negotiate::{Extension, Offer, Terms, evaluate_text};
use recount_aaep::shaping::Shaper;
use recount_aaep::wire::{
    Body, Boundary, HandoffTarget, OutputStreaming, Producer, Progress, ReplyToken, SubscriptionId,
    ToolStatus,
};
use recount_aaep::{Event, Kind};
use serde_json::{Value, json};

pub(crate) fn offer() -> Offer {
    let mut offer = Offer::new(Producer::named("planner"), "en-US");
    offer.languages = vec!["en-US".into(), "yo".into()];
    offer.extensions = vec![Extension::new("https://example.org/medai/v1", "medai")];
    offer
}

pub(crate) fn terms(capabilities: &Value) -> Terms {
    let request = json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "reader",
        "capabilities": capabilities});
    evaluate_text(&offer(), &request.to_string()).accepted().unwrap()
}

/// A shaper, its input events, and its output events with their times.
pub(crate) struct Stage {
    pub shaper: Shaper,
    pub(crate) now: u64,
    pub(crate) out: Vec<(u64, Event)>,
    made: u64,
    positions: std::collections::BTreeMap<(String, String), u64>,
}

pub(crate) fn stage(capabilities: &Value) -> Stage {
    let shaper = Shaper::new(terms(capabilities), &SubscriptionId::new("sub_1").unwrap());
    Stage { shaper, now: 0, out: Vec::new(), made: 0, positions: std::collections::BTreeMap::new() }
}

impl Stage {
    fn frame(session: &str) -> Frame {
        Frame::new(session, "planner", "en-US").unwrap()
    }

    /// Pushes an event of a session; returns its id.
    pub(crate) fn emit_in<B: Into<Body>>(&mut self, session: &str, draft: Draft<B>) -> String {
        let id = format!("evt_{}", self.made);
        self.made += 1;
        let millis = i64::try_from(self.now).unwrap();
        let event = Self::frame(session).event(&id, millis, draft).unwrap();
        self.push(event);
        id
    }

    pub(crate) fn emit<B: Into<Body>>(&mut self, draft: Draft<B>) -> String {
        self.emit_in("sess_1", draft)
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.shaper.push(event, self.now);
        self.collect();
    }

    pub(crate) fn collect(&mut self) {
        let due = self.shaper.due(self.now);
        self.out.extend(due.into_iter().map(|event| (self.now, event)));
    }

    /// Writes a chunk of the output `out_1`.
    pub(crate) fn write(&mut self, chunk: &str, hint: Option<&str>) {
        self.write_in("sess_1", "out_1", chunk, hint, false);
    }

    pub(crate) fn write_last(&mut self, chunk: &str) {
        self.write_in("sess_1", "out_1", chunk, Some("completion"), true);
    }

    /// Writes a chunk of `out_1` in another language.
    pub(crate) fn write_spoken(&mut self, chunk: &str, language: &str, last: bool) {
        let key = ("sess_1".to_owned(), "out_1".to_owned());
        let position = self.positions.entry(key).or_default();
        let begins = *position;
        *position += chunk.chars().count() as u64;
        let draft = if last {
            build::last_output(chunk, begins)
        } else {
            build::output(chunk, begins, Boundary::None)
        };
        let id = format!("evt_{}", self.made);
        self.made += 1;
        let millis = i64::try_from(self.now).unwrap();
        let mut event = Self::frame("sess_1").event(&id, millis, draft.output_id("out_1")).unwrap();
        if let Body::OutputStreaming(output) = &mut event.body {
            output.language = Some(language.into());
        }
        self.push(event);
    }

    pub(crate) fn write_in(
        &mut self,
        session: &str,
        output: &str,
        chunk: &str,
        hint: Option<&str>,
        last: bool,
    ) {
        let key = (session.to_owned(), output.to_owned());
        let position = self.positions.entry(key).or_default();
        let begins = *position;
        *position += chunk.chars().count() as u64;
        let draft = if last {
            build::last_output(chunk, begins)
        } else {
            build::output(chunk, begins, hint.map_or(Boundary::None, Boundary::from))
        };
        let id = format!("evt_{}", self.made);
        self.made += 1;
        let draft = draft.output_id(output);
        let millis = i64::try_from(self.now).unwrap();
        // A chunk that begins with a combining mark is a warning, not an error.
        let mut event = Self::frame(session).event(&id, millis, draft).unwrap();
        if hint.is_none()
            && !last
            && let Body::OutputStreaming(output) = &mut event.body
        {
            output.coalesce_hint = None;
        }
        self.push(event);
    }

    /// Advances the time and collects due events.
    pub(crate) fn wait(&mut self, millis: u64) {
        let until = self.now + millis;
        while let Some(next) = self.shaper.next_due() {
            assert!(next >= self.now, "the next event was due earlier");
            if next > until {
                break;
            }
            let before = self.out.len();
            self.now = next;
            self.collect();
            assert!(self.out.len() > before, "an event was announced for {next}: {:?}", self.shaper);
        }
        self.now = until;
    }

    /// Advances the time until no event is due.
    pub(crate) fn drain(&mut self) {
        for _ in 0..1_000_000 {
            match self.shaper.next_due() {
                Some(next) => {
                    self.now = self.now.max(next);
                    self.collect();
                }
                None => return,
            }
        }
        panic!("events never stop being due");
    }

    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.out
            .iter()
            .map(|(_, event)| event.kind().map_or("?", Kind::name).trim_start_matches("agent."))
            .collect()
    }

    pub(crate) fn outputs(&self) -> Vec<(&OutputStreaming, &Event)> {
        let output = |(_, event): &'_ (u64, Event)| matches!(event.body, Body::OutputStreaming(_));
        self.out
            .iter()
            .filter(|entry| output(entry))
            .map(|(_, event)| match &event.body {
                Body::OutputStreaming(output) => (output, event),
                _ => unreachable!(),
            })
            .collect()
    }

    pub(crate) fn chunks(&self) -> Vec<(&str, &str)> {
        let hint = |output: &'_ OutputStreaming| match &output.coalesce_hint {
            Some(Boundary::None) | None => "none",
            Some(Boundary::Word) => "word",
            Some(Boundary::Sentence) => "sentence",
            Some(Boundary::Paragraph) => "paragraph",
            Some(Boundary::Completion) => "completion",
            Some(Boundary::Other(_)) => "other",
        };
        self.outputs().into_iter().map(|(output, _)| (output.chunk.as_str(), hint(output))).collect()
    }
}

pub(crate) fn state(from: &str, to: &str) -> Draft<recount_aaep::wire::StateChanged> {
    build::state_changed(from, to, format!("From {from} to {to}."))
}

pub(crate) fn progress(step: u64) -> Draft<recount_aaep::wire::ProgressUpdated> {
    build::progress(Progress { step: Some(step), ..Progress::default() }).summary(format!("Step {step}."))
}

pub(crate) fn called(call: &str) -> Draft<recount_aaep::wire::ToolInvoked> {
    build::tool_invoked("fetch", "Fetching.").tool_call_id(call)
}

pub(crate) fn returned(call: &str) -> Draft<recount_aaep::wire::ToolCompleted> {
    build::tool_completed("fetch", ToolStatus::Success, "Fetched.").tool_call_id(call)
}

pub(crate) fn prompt(token: &str) -> Draft<recount_aaep::wire::AwaitingConfirmation> {
    build::confirmation("Pay 5 €.", "The money is gone.", ReplyToken::new(token).unwrap(), 300)
}

pub(crate) fn handoff() -> Draft<recount_aaep::wire::HandoffRequested> {
    build::handoff("A person should look.", HandoffTarget::Human, "A person will look.")
}
