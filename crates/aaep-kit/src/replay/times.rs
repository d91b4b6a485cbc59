//! The times file of a recording: when each line arrived, and from which side. It does not know the lines.

use crate::recording::Time;

/// The times of all lines, by line number.
#[derive(Default)]
pub(super) struct RecordedTimes {
    lines: Vec<Option<Time>>,
    /// Why part of it is ignored.
    pub(super) fault: Option<String>,
}

impl RecordedTimes {
    /// Reads until the first invalid row: the last row may be incomplete.
    pub(super) fn read(text: &str) -> RecordedTimes {
        let mut times = RecordedTimes::default();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let time = Time::parse(line);
            // Each line has one row, so a number far ahead is invalid.
            let position =
                time.as_ref().and_then(|time| time.line.checked_sub(1)).filter(|position| *position <= at);
            let Some(position) = position else {
                times.fault = Some(format!(
                    "the times are invalid from line {} on; lines without a time are sent at once",
                    at + 1
                ));
                break;
            };
            times.lines.resize(times.lines.len().max(position + 1), None);
            times.lines[position] = time;
        }
        times
    }

    pub(super) fn of(&self, line: usize) -> Option<&Time> {
        self.lines.get(line.checked_sub(1)?)?.as_ref()
    }
}
