//! The prompts that a subscription was shown: their tokens, and when to report their remaining time. Pure; times are in
//! milliseconds since 1970.
//!
//! Must not track whether a prompt is still open: the log of its run decides that. Start with [`ShownPrompts::show`].

use std::collections::{HashMap, VecDeque};

use recount_aaep::wire::{Envelope, ReplyToken};
use recount_aaep::{Body, Event};
use recount_event::RunId;

use crate::limits;
use crate::project::{Place, run_of, token};

/// A kind of prompt that can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptShape {
    Confirmation,
    Clarification,
}

/// A prompt that was shown.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) run: RunId,
    pub(crate) shape: PromptShape,
    /// The first token of the prompt, the same for all subscriptions, which none of them has seen.
    pub(crate) first: String,
    /// When to report its remaining time; `None` if it is too short for that.
    countdown: Option<Box<Marks>>,
}

#[derive(Debug, Clone)]
struct Marks {
    envelope: Envelope,
    place: Place,
    opened_ms: u64,
    total_ms: u64,
    /// How many of [`COUNTED_DOWN`] were reported.
    reported: usize,
}

/// A mark that is due.
#[derive(Debug, Clone)]
pub(crate) struct DueMark {
    pub(crate) token: ReplyToken,
    pub(crate) shown: Shown,
    pub(crate) envelope: Envelope,
    pub(crate) place: Place,
    pub(crate) left_ms: u64,
    pub(crate) percent: u64,
    mark: usize,
}

/// The percentages of its time after which the remaining time of a prompt is reported.
const COUNTED_DOWN: [u64; 2] = [50, 90];

/// The prompts of one subscription, by token. At most [`limits::PROMPTS_SHOWN_MAX`].
#[derive(Default)]
pub(crate) struct ShownPrompts {
    by_token: HashMap<ReplyToken, Shown>,
    order: VecDeque<ReplyToken>,
}

impl ShownPrompts {
    /// Registers a prompt, and replaces its token by the one of this subscription. Other events stay as they are.
    pub(crate) fn show(&mut self, event: &mut Event, bound: impl Fn(&ReplyToken) -> ReplyToken) {
        let shape = match event.body {
            Body::AwaitingConfirmation(_) => PromptShape::Confirmation,
            _ => PromptShape::Clarification,
        };
        let Some((token, &mut seconds)) = event.body.prompt_mut() else { return };
        let Some(run) = run_of(event.envelope.session_id.as_str()) else { return };
        let first = token::parts(token).0.to_owned();
        *token = bound(token);
        let token = token.clone();
        let countdown = (seconds > limits::COUNTED_DOWN_SECONDS).then(|| {
            Place::parse(event.envelope.event_id.as_str()).map(|place| {
                Box::new(Marks {
                    envelope: event.envelope.clone(),
                    place,
                    opened_ms: u64::try_from(event.envelope.timestamp.millis()).unwrap_or(0),
                    total_ms: u64::from(seconds) * 1_000,
                    reported: 0,
                })
            })
        });
        let shown = Shown { run, shape, first, countdown: countdown.flatten() };
        self.forget_prompt(&shown);
        self.by_token.insert(token.clone(), shown);
        self.order.push_back(token);
        while self.order.len() > limits::PROMPTS_SHOWN_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.by_token.remove(&oldest);
            }
        }
        self.bound_countdowns();
    }

    fn bound_countdowns(&mut self) {
        let counted = |shown: &&Shown| shown.countdown.is_some();
        if self.by_token.values().filter(counted).count() <= limits::COUNTDOWNS_MAX {
            return;
        }
        let oldest = self.order.iter().find(|token| self.by_token.get(token).as_ref().is_some_and(counted));
        if let Some(shown) = oldest.cloned().and_then(|token| self.by_token.get_mut(&token)) {
            shown.countdown = None;
        }
    }

    /// Removes the former token of a repeated prompt: it takes no more replies.
    fn forget_prompt(&mut self, shown: &Shown) {
        let is_it = |known: &Shown| known.run == shown.run && known.first == shown.first;
        let by_token = &mut self.by_token;
        self.order.retain(|token| {
            let again = by_token.get(token).is_some_and(is_it);
            if again {
                by_token.remove(token);
            }
            !again
        });
    }

    /// Whether a prompt was shown with its present token.
    pub(crate) fn has_shown(&self, event: &Event, bound: impl Fn(&ReplyToken) -> ReplyToken) -> bool {
        event.body.prompt().is_some_and(|(token, _)| self.by_token.contains_key(&bound(token)))
    }

    pub(crate) fn find(&self, token: &ReplyToken) -> Option<&Shown> {
        self.by_token.get(token)
    }

    /// When the next mark is due.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.by_token.values().filter_map(|shown| shown.countdown.as_ref()?.next_due_ms()).min()
    }

    /// The marks that are due, of each prompt the last one.
    pub(crate) fn due(&self, now_ms: u64) -> Vec<DueMark> {
        let mut due: Vec<DueMark> = Vec::new();
        for token in &self.order {
            let Some(shown) = self.by_token.get(token) else { continue };
            let Some(marks) = &shown.countdown else { continue };
            let Some((mark, percent)) = marks.due(now_ms) else { continue };
            due.push(DueMark {
                token: token.clone(),
                shown: Shown { countdown: None, ..shown.clone() },
                envelope: marks.envelope.clone(),
                place: marks.place,
                left_ms: (marks.opened_ms + marks.total_ms).saturating_sub(now_ms),
                percent,
                mark,
            });
        }
        due
    }

    /// Records that a mark was reported. Returns false if it was reported before or the prompt is closed.
    pub(crate) fn mark_reported(&mut self, due: &DueMark, is_open: bool) -> bool {
        let Some(shown) = self.by_token.get_mut(&due.token) else { return false };
        let Some(marks) = &mut shown.countdown else { return false };
        if !is_open || due.mark + 1 >= COUNTED_DOWN.len() {
            let first_time = marks.reported <= due.mark;
            shown.countdown = None;
            return is_open && first_time;
        }
        let first_time = marks.reported <= due.mark;
        marks.reported = due.mark + 1;
        first_time
    }
}

impl DueMark {
    /// The place of the event that reports this mark. No event of the log has it.
    pub(crate) fn event_place(&self) -> Place {
        // The parts of a prompt that was emitted again to a joining listener start again.
        let from_join = u64::from(!self.place.is_of_the_log());
        let part = ((self.place.part % (1 << 20)) * 2 + from_join) * 2 + self.mark as u64;
        Place { part: Place::COUNTDOWN_PART + part, ..self.place }
    }
}

impl Marks {
    fn due_ms(&self, mark: usize) -> Option<u64> {
        COUNTED_DOWN.get(mark).map(|percent| self.opened_ms + self.total_ms / 100 * percent)
    }

    fn next_due_ms(&self) -> Option<u64> {
        self.due_ms(self.reported)
    }

    /// The last mark that is due and its percentage. After the deadline there is none.
    fn due(&self, now_ms: u64) -> Option<(usize, u64)> {
        let due = (self.reported..COUNTED_DOWN.len()).rev();
        let mark = due.into_iter().find(|mark| self.due_ms(*mark).is_some_and(|at_ms| at_ms <= now_ms))?;
        Some((mark, COUNTED_DOWN[mark]))
    }
}

#[cfg(test)]
mod tests {
    use recount_aaep::build::{self, Frame};

    use super::*;

    const OPENED_MS: u64 = 1_777_803_825_000;

    fn run() -> RunId {
        "run_01HZX3Q0M0000000000000000A".parse().unwrap()
    }

    fn prompt(token: &str, sequence: u64, seconds: u32) -> Event {
        let token = ReplyToken::new(token).unwrap();
        let session = crate::project::session_id(run());
        let place = Place { run: run(), sequence, part: 1 };
        let ask = build::confirmation("Send it.", "It is sent.", token, seconds);
        let frame = Frame::new(session.as_str(), "agent", "en-US").unwrap();
        let opened = i64::try_from(OPENED_MS).unwrap();
        frame.event(place.event_id().as_str(), opened, ask).unwrap()
    }

    fn bound(first: &ReplyToken) -> ReplyToken {
        ReplyToken::new(format!("rpl_own{}", &first.as_str()[4..])).unwrap()
    }

    fn token(text: &str) -> ReplyToken {
        ReplyToken::new(text).unwrap()
    }

    #[test]
    fn a_prompt_is_found_only_by_the_token_that_was_shown() {
        let mut shown = ShownPrompts::default();
        let mut event = prompt("rpl_a", 3, 60);
        shown.show(&mut event, bound);
        assert!(event.to_json().contains("\"rpl_owna\""), "{event}");
        assert!(shown.find(&token("rpl_a")).is_none());
        let found = shown.find(&token("rpl_owna")).unwrap();
        assert_eq!((found.run, found.first.as_str()), (run(), "rpl_a"));

        // A repeated prompt has a new token, and the former one is invalid.
        shown.show(&mut prompt("rpl_ax1", 5, 60), bound);
        assert!(shown.find(&token("rpl_owna")).is_none());
        assert_eq!(shown.find(&token("rpl_ownax1")).unwrap().first, "rpl_a");
    }

    #[test]
    fn the_oldest_prompts_are_forgotten_first() {
        let mut shown = ShownPrompts::default();
        for number in 0..=limits::PROMPTS_SHOWN_MAX {
            shown.show(&mut prompt(&format!("rpl_0n{number}n"), 3, 600), bound);
        }
        assert_eq!(shown.by_token.len(), limits::PROMPTS_SHOWN_MAX);
        assert!(shown.find(&token("rpl_own0n0n")).is_none() && shown.find(&token("rpl_own0n1n")).is_some());
        let counted = shown.by_token.values().filter(|shown| shown.countdown.is_some()).count();
        assert_eq!(counted, limits::COUNTDOWNS_MAX);
        assert!(shown.find(&token("rpl_own0n64n")).unwrap().countdown.is_some(), "the newest");
    }

    #[test]
    fn remaining_time_is_reported_at_a_half_and_a_tenth_of_long_prompts_only() {
        let mut shown = ShownPrompts::default();
        shown.show(&mut prompt("rpl_a", 3, 60), bound);
        assert_eq!(shown.next_due_ms(), None, "a minute is short");
        shown.show(&mut prompt("rpl_b", 4, 120), bound);
        assert_eq!(shown.next_due_ms(), Some(OPENED_MS + 60_000));
        assert!(shown.due(OPENED_MS + 59_999).is_empty());
        let half = shown.due(OPENED_MS + 60_000).remove(0);
        assert_eq!((half.left_ms, half.percent), (60_000, 50));
        assert!(shown.mark_reported(&half, true));
        assert!(!shown.mark_reported(&half, true), "once");
        assert_eq!(shown.next_due_ms(), Some(OPENED_MS + 108_000));
        let tenth = shown.due(OPENED_MS + 108_000).remove(0);
        assert_eq!((tenth.left_ms, tenth.percent), (12_000, 90));
        assert_ne!(half.event_place(), tenth.event_place());
        assert!(!tenth.event_place().is_of_the_log());
        assert!(shown.mark_reported(&tenth, true));
        assert_eq!(shown.next_due_ms(), None);

        // A late check returns only the last mark, and the mark of an answered prompt is not reported.
        shown.show(&mut prompt("rpl_c", 5, 1_000), bound);
        let late = shown.due(OPENED_MS + 950_000).remove(0);
        assert_eq!(late.percent, 90);
        assert!(!shown.mark_reported(&late, false));
        assert_eq!(shown.next_due_ms(), None);
    }
}
