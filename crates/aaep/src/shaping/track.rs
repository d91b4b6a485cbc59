//! The state of a session on one subscription: its numbers, times and output lengths.

use crate::limits;
use crate::wire::{Body, Event, OutputStreaming, Timestamp};

/// A session as one subscriber sees it.
#[derive(Debug, Default)]
pub(super) struct SessionTrack {
    next: u64,
    newest: Option<(i64, Timestamp)>,
    /// Lengths of open outputs.
    outputs: Vec<(Option<String>, u64)>,
    /// The number of its last event.
    pub(super) last_event: u64,
    pub(super) progress_at: Option<u64>,
    /// Estimated time when the sent output has been spoken.
    pub(super) spoken_until: u64,
    /// Sent prompts whose end was not sent yet.
    pub(super) open_prompts: u32,
}

impl SessionTrack {
    /// Numbers an event (G-27), and raises its time to that of the previous sent event, because it may have been
    /// delayed. Prompts keep their time, because their timeout counts from it.
    pub(super) fn stamp(&mut self, event: &mut Event) {
        let critical = event.kind().is_some_and(crate::Kind::is_critical);
        let envelope = &mut event.envelope;
        envelope.sequence_number = Some(self.next);
        self.next += 1;
        let millis = envelope.timestamp.millis();
        match &self.newest {
            Some((newest, timestamp)) if *newest > millis => {
                if !critical {
                    envelope.timestamp = timestamp.clone();
                }
            }
            _ => self.newest = Some((millis, envelope.timestamp.clone())),
        }
    }

    /// The position of a chunk: after all earlier chunks of its output. For an unknown output, the producer's position
    /// is used.
    pub(super) fn position(&mut self, piece: &OutputStreaming, characters: u64) -> u64 {
        let known = self.outputs.iter().position(|(id, _)| *id == piece.output_id);
        let begins = known.map_or(piece.position, |at| self.outputs[at].1);
        if let Some(at) = known {
            self.outputs.remove(at);
        } else if self.outputs.len() >= limits::SHAPED_OUTPUTS_MAX {
            self.outputs.remove(0);
        }
        if !piece.complete {
            self.outputs.push((piece.output_id.clone(), begins.saturating_add(characters)));
        }
        begins
    }

    /// Updates the speaking time after an event, for this speech rate.
    pub(super) fn speaks(&mut self, event: &Event, words_per_minute: u32, now: u64) {
        let Body::OutputStreaming(output) = &event.body else { return };
        // In scripts without spaces, about six characters count as a word.
        let words = output.chunk.split_whitespace().count().max(output.chunk.chars().count() / 6) as u64;
        let takes = words.saturating_mul(60_000) / u64::from(words_per_minute.max(1));
        self.spoken_until = self
            .spoken_until
            .max(now)
            .saturating_add(takes)
            .min(now.saturating_add(limits::SHAPED_SPEECH_MS_MAX));
    }
}
