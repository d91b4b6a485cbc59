//! The times file of a recording: when each line came, and from which side. It does not know the lines.

use crate::recording::Time;

/// All lines of a recording, by their number.
#[derive(Default)]
pub(super) struct RecordedTimes {
    lines: Vec<Option<Time>>,
    /// Why not all of it counts.
    pub(super) fault: Option<String>,
}

impl RecordedTimes {
    /// Reads as far as the text makes sense: a recording that was cut off has its last line cut off here, too.
    pub(super) fn read(text: &str) -> RecordedTimes {
        let mut times = RecordedTimes::default();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let time = Time::parse(line);
            // Each line of the recording has one row, so a number far ahead is none of them.
            let place = time.as_ref().and_then(|time| time.line.checked_sub(1)).filter(|place| *place <= at);
            let Some(place) = place else {
                times.fault = Some(format!(
                    "the times are invalid from line {} on; lines without a time are sent at once",
                    at + 1
                ));
                break;
            };
            times.lines.resize(times.lines.len().max(place + 1), None);
            times.lines[place] = time;
        }
        times
    }

    pub(super) fn of(&self, line: usize) -> Option<&Time> {
        self.lines.get(line.checked_sub(1)?)?.as_ref()
    }
}
