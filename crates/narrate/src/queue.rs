//! The queue of utterances, spoken one at a time: [`SpeechQueue`]. Pure.
//!
//! Important utterances cut the current one short and discard waiting text, because a prompt must not be late. Must not
//! depend on the speech engine: the caller reports when an utterance has ended.

use std::collections::VecDeque;

use super::utterance::{SpeechPriority, Utterance};
use crate::limits;

/// Waiting utterances, in the order of speech.
#[derive(Debug, Default)]
pub struct SpeechQueue {
    waiting: VecDeque<Utterance>,
    speaking: Option<SpeechPriority>,
    skipped: u64,
    /// Whether nothing is discarded, because the caller waits for [`SpeechQueue::has_room`].
    keeps_all: bool,
}

impl SpeechQueue {
    /// Adds an utterance. Returns whether the current utterance must be cancelled.
    #[must_use]
    pub fn push(&mut self, utterance: Utterance) -> bool {
        let priority = utterance.priority;
        match priority {
            SpeechPriority::Important => self.discard_below(SpeechPriority::Message),
            // Only the newest state of a session is kept.
            SpeechPriority::Progress => self.waiting.retain(|waiting| {
                waiting.priority != SpeechPriority::Progress || waiting.session != utterance.session
            }),
            _ => {}
        }
        // Text and progress keep their order.
        let class = |priority: SpeechPriority| priority.max(SpeechPriority::Text);
        let at = self.waiting.iter().position(|waiting| class(waiting.priority) < class(priority));
        self.waiting.insert(at.unwrap_or(self.waiting.len()), utterance);
        if self.waiting.len() > limits::SPEECH_WAITING_MAX && !self.keeps_all {
            self.drop_oldest();
        }
        let cuts = priority == SpeechPriority::Important && self.speaking.is_some_and(|now| now < priority);
        self.skipped += u64::from(cuts);
        cuts
    }

    /// The next utterance, if nothing is being spoken. It is current until [`SpeechQueue::ended`].
    pub fn take_next(&mut self) -> Option<Utterance> {
        if self.speaking.is_some() {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.speaking = Some(next.priority);
        Some(next)
    }

    /// Records that the current utterance has ended or was cancelled.
    pub fn ended(&mut self) {
        self.speaking = None;
    }

    /// Discards waiting text; prompts and messages stay. Returns whether something is being spoken.
    pub fn silence(&mut self) -> bool {
        self.discard_below(SpeechPriority::Message);
        self.speaking.is_some()
    }

    pub fn is_speaking(&self) -> bool {
        self.speaking.is_some()
    }

    /// From here on nothing is discarded. The caller takes an event only if there is room, so the queue is bounded by the
    /// utterances of one event.
    pub fn keep_all(&mut self) {
        self.keeps_all = true;
    }

    /// Whether there is room for the utterances of another event of a session that has ended.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < limits::SPEECH_HISTORY_WAITING_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.speaking.is_none()
    }

    /// How many utterances were cut short or discarded.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn discard_below(&mut self, priority: SpeechPriority) {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.priority >= priority);
        self.skipped += (before - self.waiting.len()) as u64;
    }

    /// Discards the oldest utterance of the lowest priority.
    fn drop_oldest(&mut self) {
        let lowest = self.waiting.iter().map(|waiting| waiting.priority).min();
        if let Some(at) = self.waiting.iter().position(|waiting| Some(waiting.priority) == lowest) {
            self.waiting.remove(at);
            self.skipped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SpeechPriority::{Important, Message, Progress, Text};
    use super::*;

    fn utterance(priority: SpeechPriority, text: &str, session: u32) -> Utterance {
        Utterance { session, ..Utterance::own(priority, text, "en") }
    }

    fn spoken(queue: &mut SpeechQueue) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(next) = queue.take_next() {
            texts.push(next.text);
            queue.ended();
        }
        texts
    }

    #[test]
    fn utterances_are_spoken_by_priority_and_then_in_order() {
        for (pushed, expected) in [
            (vec![(Text, "a", 1), (Text, "b", 1)], vec!["a", "b"]),
            (vec![(Progress, "s", 1), (Text, "a", 1)], vec!["s", "a"]),
            (vec![(Text, "a", 1), (Message, "m", 1), (Message, "n", 1)], vec!["m", "n", "a"]),
            (vec![(Message, "m", 1), (Important, "i", 1), (Important, "j", 1)], vec!["i", "j", "m"]),
            (vec![(Progress, "s", 1), (Progress, "t", 2), (Progress, "u", 1)], vec!["t", "u"]),
            // A prompt discards waiting text; later text stays.
            (vec![(Text, "a", 1), (Progress, "s", 1), (Important, "i", 1), (Text, "b", 1)], vec!["i", "b"]),
        ] {
            let mut queue = SpeechQueue::default();
            for (priority, text, session) in pushed.clone() {
                assert!(!queue.push(utterance(priority, text, session)), "nothing is spoken yet");
            }
            assert_eq!(spoken(&mut queue), expected, "{pushed:?}");
            assert!(queue.is_empty());
        }
    }

    #[test]
    fn only_something_important_cuts_speech_short() {
        for (now, then, cuts) in [
            (Text, Important, true),
            (Message, Important, true),
            (Important, Important, false),
            (Progress, Text, false),
            (Text, Message, false),
        ] {
            let mut queue = SpeechQueue::default();
            assert!(!queue.push(utterance(now, "a", 1)));
            assert_eq!(queue.take_next().unwrap().text, "a");
            assert_eq!(queue.push(utterance(then, "b", 1)), cuts, "{now:?} {then:?}");
            assert_eq!(queue.take_next(), None, "one at a time");
            queue.ended();
            assert_eq!(queue.take_next().unwrap().text, "b");
            assert_eq!(queue.skipped(), u64::from(cuts));
        }
    }

    #[test]
    fn silence_keeps_prompts() {
        let mut queue = SpeechQueue::default();
        for (priority, text) in [(Text, "a"), (Text, "b"), (Message, "m")] {
            assert!(!queue.push(utterance(priority, text, 1)));
        }
        assert_eq!(queue.take_next().unwrap().text, "m");
        assert!(!queue.push(utterance(Message, "keys", 1)));
        assert!(queue.silence());
        queue.ended();
        assert_eq!(spoken(&mut queue), ["keys"]);
        assert_eq!(queue.skipped(), 2);
        assert!(!queue.silence(), "nothing is spoken");
    }

    #[test]
    fn a_queue_that_keeps_all_discards_nothing_and_reports_when_it_has_room() {
        let mut queue = SpeechQueue::default();
        queue.keep_all();
        assert!(queue.has_room());
        for number in 0..2 * limits::SPEECH_WAITING_MAX {
            assert!(!queue.push(utterance(Text, &number.to_string(), 1)));
        }
        assert!(!queue.has_room());
        assert_eq!((spoken(&mut queue).len(), queue.skipped()), (2 * limits::SPEECH_WAITING_MAX, 0));
        assert!(queue.has_room());
    }

    #[test]
    fn a_full_queue_drops_the_least_important_first() {
        let mut queue = SpeechQueue::default();
        assert!(!queue.push(utterance(Message, "m", 1)));
        assert!(!queue.push(utterance(Progress, "s", 9)));
        for number in 0..limits::SPEECH_WAITING_MAX {
            assert!(!queue.push(utterance(Text, &number.to_string(), 1)));
        }
        assert_eq!(queue.skipped(), 2);
        let texts = spoken(&mut queue);
        assert_eq!(texts.len(), limits::SPEECH_WAITING_MAX);
        assert_eq!(texts[..2], ["m", "1"]);
    }
}
