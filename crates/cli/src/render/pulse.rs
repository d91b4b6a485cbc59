//! Signs of life: what is shown while nothing happens. On a terminal one line that counts the seconds and is erased; else
//! plain lines at growing intervals.
//!
//! Pure: it gets the time as a parameter and returns text. It must never know events or a terminal. Start at [`Pulse`].

use std::time::Duration;

use tokio::time::Instant;

use super::flow::beginning;
use crate::limits;

/// How signs of life are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Not at all: what is written is data.
    None,
    /// One line that is drawn anew each second and erased.
    Line,
    /// Whole lines, ever more rarely.
    Notes,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Beat {
    /// The line, in place of the one that is shown.
    Draw(String),
    /// A line that stays.
    Note(String),
}

/// Erases the line that is shown.
pub(crate) const ERASE: &str = "\r\u{1b}[K";

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Pulse {
    style: Style,
    /// What is waited for, and since when nothing was received.
    waits: Option<(String, Instant)>,
    /// Signs given since then.
    given: usize,
    is_shown: bool,
}

impl Pulse {
    pub(crate) fn new(style: Style) -> Self {
        Pulse { style, waits: None, given: 0, is_shown: false }
    }

    /// Records that something was received, and what is waited for from now on, if anything.
    pub(crate) fn received(&mut self, waits_for: Option<&str>, now: Instant) {
        self.waits = waits_for.filter(|_| self.style != Style::None).map(|what| (what.to_owned(), now));
        self.given = 0;
    }

    /// When the next sign is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        let (_, since) = self.waits.as_ref()?;
        Some(*since + self.after(self.given))
    }

    /// The sign that is due. Where the cursor is not free, in the middle of a line, nothing is drawn.
    pub(crate) fn beat(&mut self, width: usize, is_free: bool, now: Instant) -> Option<Beat> {
        let (what, since) = self.waits.as_ref()?;
        let passed = now.saturating_duration_since(*since);
        self.given += 1;
        // A program that was stopped for a while does not catch up.
        while self.after(self.given) <= passed {
            self.given += 1;
        }
        let text = format!("still waiting for {what} ({})", length(passed));
        match self.style {
            // It must fit, so that it can be erased.
            Style::Line if is_free => {
                self.is_shown = true;
                Some(Beat::Draw(format!("{ERASE}{}", beginning(&text, width.saturating_sub(1)))))
            }
            Style::Line => None,
            Style::Notes | Style::None => Some(Beat::Note(text)),
        }
    }

    /// What erases the line that is shown, if one is.
    pub(crate) fn erase(&mut self) -> &'static str {
        if std::mem::take(&mut self.is_shown) { ERASE } else { "" }
    }

    fn after(&self, given: usize) -> Duration {
        let several = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        if self.style == Style::Line {
            return limits::PULSE_FIRST + limits::PULSE_EVERY * several(given);
        }
        let notes = limits::PULSE_NOTES_SECONDS;
        let last = Duration::from_secs(notes[notes.len() - 1]);
        match notes.get(given) {
            Some(seconds) => Duration::from_secs(*seconds),
            None => last * several(given + 2 - notes.len()),
        }
    }
}

/// A time as people read it, in whole seconds.
fn length(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use recount_world::moment;

    use super::*;

    /// Seconds after which signs are given, and the signs.
    fn signs(style: Style, until: u64) -> Vec<(u64, Beat)> {
        let start = moment();
        let mut pulse = Pulse::new(style);
        pulse.received(Some("the model"), start);
        let mut signs = Vec::new();
        while let Some(due) = pulse.due().filter(|due| *due <= start + Duration::from_secs(until)) {
            let beat = pulse.beat(80, true, due).unwrap();
            signs.push(((due - start).as_secs(), beat));
        }
        signs
    }

    #[test]
    fn a_line_counts_the_seconds_and_is_erased() {
        let seconds: Vec<u64> = signs(Style::Line, 5).into_iter().map(|(at, _)| at).collect();
        assert_eq!(seconds, [1, 2, 3, 4, 5]);
        let now = moment();
        let mut pulse = Pulse::new(Style::Line);
        pulse.received(Some("the model"), now);
        assert_eq!(pulse.erase(), "");
        let beat = pulse.beat(80, true, now + Duration::from_secs(3));
        assert_eq!(beat, Some(Beat::Draw(format!("{ERASE}still waiting for the model (3 s)"))));
        assert_eq!((pulse.erase(), pulse.erase()), (ERASE, ""));
        // It never fills the last column: the terminal would begin another line.
        let Some(Beat::Draw(short)) = pulse.beat(20, true, now + Duration::from_secs(5)) else {
            unreachable!()
        };
        assert_eq!(short, format!("{ERASE}still waiting for t"));
        // In the middle of a line nothing is drawn, and nothing is erased: that would be the line itself.
        pulse.erase();
        assert_eq!((pulse.beat(80, false, now + Duration::from_secs(9)), pulse.erase()), (None, ""));
        pulse.received(None, now);
        assert_eq!((pulse.due(), pulse.beat(80, true, now)), (None, None));
    }

    #[test]
    fn notes_come_ever_more_rarely() {
        let signs = signs(Style::Notes, 3_600);
        let seconds: Vec<u64> = signs.iter().map(|(at, _)| *at).collect();
        assert_eq!(seconds, [10, 30, 60, 120, 300, 600, 1_200, 1_800, 2_400, 3_000, 3_600]);
        assert_eq!(signs[1].1, Beat::Note("still waiting for the model (30 s)".to_owned()));
        assert_eq!(signs[5].1, Beat::Note("still waiting for the model (10 min)".to_owned()));
    }

    #[test]
    fn data_gets_no_signs() {
        assert_eq!(signs(Style::None, 3_600), []);
    }
}
