//! Shows one open prompt at a time, because old subscribers keep only the last prompt. Pure.
//!
//! Must not depend on streams. Start with [`PromptQueue::push`] and [`PromptQueue::next`].

use std::collections::VecDeque;

use recount_aaep::wire::{ReplyToken, Timestamp};
use recount_aaep::{Body, Event};
use recount_event::RunId;

use super::room::ShownPrompt;
use crate::limits;
use crate::project::{informational, run_of};

/// The shown prompt and the waiting ones.
#[derive(Default)]
pub(crate) struct PromptQueue {
    shown: Option<HeldPrompt>,
    held: VecDeque<HeldPrompt>,
}

struct HeldPrompt {
    run: RunId,
    token: ReplyToken,
    event: Event,
}

/// The outcome of pushing an event that may be a prompt.
pub(crate) enum Pushed {
    /// The event is sent now.
    Sent(Box<Event>),
    /// The event waits until no other prompt is open.
    Held,
}

impl PromptQueue {
    pub(crate) fn push(&mut self, event: Event) -> Pushed {
        let prompt = token_of(&event).cloned().zip(run_of(event.envelope.session_id.as_str()));
        let Some((token, run)) = prompt else { return Pushed::Sent(Box::new(event)) };
        if self.shown.as_ref().is_none_or(|shown| shown.token == token) {
            self.shown = Some(HeldPrompt { run, token, event: event.clone() });
            return Pushed::Sent(Box::new(event));
        }
        if self.held.iter().any(|held| held.token == token) {
            return Pushed::Held;
        }
        if self.held.len() >= limits::ROOM_PROMPTS_HELD_MAX {
            // Sent without a token: others can answer it.
            return Pushed::Sent(Box::new(informational(&event).unwrap_or(event)));
        }
        self.held.push_back(HeldPrompt { run, token, event });
        Pushed::Held
    }

    /// Whether events of this run may settle one of the prompts.
    pub(crate) fn concerns(&self, run: RunId) -> bool {
        self.shown.iter().chain(&self.held).any(|prompt| prompt.run == run)
    }

    /// Removes the prompts of a run that are no longer open.
    pub(crate) fn settle(&mut self, run: RunId, open: &[ReplyToken]) {
        let is_open = |prompt: &HeldPrompt| prompt.run != run || open.contains(&prompt.token);
        self.shown.take_if(|shown| !is_open(shown));
        self.held.retain(is_open);
    }

    /// The prompt to show now, with its remaining time, if none is shown and one waits.
    pub(crate) fn next(&mut self, now_ms: u64) -> Option<Event> {
        if self.shown.is_some() {
            return None;
        }
        let mut prompt = self.held.pop_front()?;
        let now = i64::try_from(now_ms).unwrap_or(i64::MAX).max(prompt.event.envelope.timestamp.millis());
        let waited = now - prompt.event.envelope.timestamp.millis();
        let left = |seconds: u32| {
            u32::try_from((i64::from(seconds) * 1_000 - waited) / 1_000).unwrap_or_default().max(1)
        };
        if let Some((_, seconds)) = prompt.event.body.prompt_mut() {
            *seconds = left(*seconds);
        }
        prompt.event.envelope.timestamp = Timestamp::of_millis(now);
        let event = prompt.event.clone();
        self.shown = Some(prompt);
        Some(event)
    }

    /// The shown prompt.
    pub(crate) fn shown(&self) -> Option<ShownPrompt> {
        let shown = self.shown.as_ref()?;
        let choices = match &shown.event.body {
            Body::AwaitingClarification(prompt) => prompt.choices.clone().unwrap_or_default(),
            _ => Vec::new(),
        };
        Some(ShownPrompt { token: shown.token.clone(), choices })
    }
}

fn token_of(event: &Event) -> Option<&ReplyToken> {
    event.body.prompt().map(|(token, _)| token)
}

#[cfg(test)]
mod tests {
    use recount_aaep::build::{self, Frame};

    use super::*;
    use crate::project::session_id;

    fn run(last: char) -> RunId {
        format!("run_01HZX3Q0M0000000000000000{last}").parse().unwrap()
    }

    fn token(number: usize) -> ReplyToken {
        ReplyToken::new(format!("rpl_{number:032x}")).unwrap()
    }

    fn prompt(run: RunId, number: usize) -> Event {
        let frame = Frame::new(session_id(run).as_str(), "agent", "en-US").unwrap();
        let prompt = build::clarification("Which city?", token(number), 60).choice("a", "A").choice("b", "B");
        frame.event(&format!("evt_{number}"), 1_000, prompt).unwrap()
    }

    fn is_sent(pushed: &Pushed) -> bool {
        matches!(pushed, Pushed::Sent(event) if token_of(event).is_some())
    }

    #[test]
    fn a_second_prompt_waits_for_the_first_and_states_its_remaining_time() {
        let (mut queue, one, two) = (PromptQueue::default(), run('A'), run('B'));
        assert!(is_sent(&queue.push(prompt(one, 1))));
        assert!(is_sent(&queue.push(prompt(one, 1))), "the same one again");
        for (of, number) in [(two, 2), (one, 3), (two, 2)] {
            assert!(!is_sent(&queue.push(prompt(of, number))));
        }
        queue.settle(two, &[token(2)]);
        assert!(queue.next(2_000).is_none(), "the first is open");
        queue.settle(one, &[token(3)]);
        let second = queue.next(31_500).unwrap();
        assert_eq!(token_of(&second), Some(&token(2)));
        let Body::AwaitingClarification(prompt) = &second.body else { panic!("{second}") };
        assert_eq!((prompt.timeout_seconds, second.envelope.timestamp.millis()), (29, 31_500));
        let shown = queue.shown().unwrap();
        assert_eq!((shown.token, shown.choices.len()), (token(2), 2));
        assert!(queue.concerns(one) && queue.concerns(two) && !queue.concerns(run('C')));
        queue.settle(one, &[]);
        queue.settle(two, &[]);
        assert!(queue.next(40_000).is_none() && !queue.concerns(one));
    }

    #[test]
    fn prompts_beyond_the_limit_are_informational() {
        let (mut queue, one) = (PromptQueue::default(), run('A'));
        for number in 0..=limits::ROOM_PROMPTS_HELD_MAX {
            queue.push(prompt(one, number));
        }
        let beyond = queue.push(prompt(one, 1_000));
        assert!(matches!(&beyond, Pushed::Sent(event) if !event.to_json().contains("rpl_")));
    }
}
