//! Delays events that must not be delayed, before they are shaped. Used only with a fault.

use std::collections::VecDeque;

use recount_aaep::wire::{Event, Urgency};

use super::Fault;
use crate::limits;

/// Events that wait for their time, in order.
#[derive(Default)]
pub(super) struct EventDelayer {
    line: VecDeque<(u64, Event)>,
    /// When the first window began, and how many events were assigned since.
    windows: Option<(u64, u64)>,
}

impl EventDelayer {
    /// Queues an event.
    pub(super) fn push(&mut self, fault: Fault, event: Event, now_ms: u64, rate: Option<u32>) {
        let critical = event.envelope.urgency() == &Urgency::Critical;
        let last = self.line.back().map_or(now_ms, |(at, _)| *at);
        let at = match fault {
            Fault::CriticalDelayed if critical => now_ms + limits::SCRIPTED_CRITICAL_DELAY_MS,
            Fault::RateInWindows if critical => {
                self.line.iter_mut().for_each(|(at, _)| *at = now_ms);
                now_ms
            }
            Fault::RateInWindows => rate.map_or(now_ms, |rate| self.window(now_ms, u64::from(rate.max(1)))),
            _ => now_ms,
        };
        if self.line.len() >= limits::SCRIPTED_LOG_MAX {
            self.line.iter_mut().for_each(|(at, _)| *at = now_ms);
        }
        self.line.push_back((at.max(last).max(now_ms), event));
    }

    /// The end of every other window and the beginning of the next: each gets as many events as a window may hold.
    fn window(&mut self, now_ms: u64, rate: u64) -> u64 {
        if self.line.is_empty() {
            self.windows = None;
        }
        let (from, count) = self.windows.get_or_insert((now_ms, 0));
        let batch = *count / rate;
        *count += 1;
        let edge = *from + (batch / 2 * 2 + 1) * 1_000;
        if batch.is_multiple_of(2) { edge - limits::SCRIPTED_WINDOW_EDGE_MS } else { edge }
    }

    /// The events that are due.
    pub(super) fn due(&mut self, now_ms: u64) -> Vec<Event> {
        let due = self.line.iter().take_while(|(at, _)| *at <= now_ms).count();
        self.line.drain(..due).map(|(_, event)| event).collect()
    }

    pub(super) fn next_due_ms(&self) -> Option<u64> {
        self.line.front().map(|(at, _)| *at)
    }
}
