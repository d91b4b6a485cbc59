//! What stands beside a recording: when each of its lines came, and from whom. Knows nothing of the lines themselves.

use serde::Deserialize;

use crate::aaep::lex::time::Moment;

/// Whose line it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Producer,
    Subscriber,
}

/// What is known of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) whose: Whose,
    pub(super) at_ms: i64,
}

/// All lines of a recording, by their number.
#[derive(Default)]
pub(super) struct Times {
    lines: Vec<Option<Told>>,
    /// Why not all of it counts.
    pub(super) fault: Option<String>,
}

#[derive(Deserialize)]
struct Row<'r> {
    line: usize,
    direction: &'r str,
    at: &'r str,
}

impl Row<'_> {
    fn told(&self) -> Option<Told> {
        let whose = match self.direction {
            "in" => Whose::Producer,
            "out" => Whose::Subscriber,
            _ => return None,
        };
        Some(Told { whose, at_ms: Moment::parse(self.at)?.millis() })
    }
}

impl Times {
    /// Reads as far as the text makes sense: a recording that was cut off has its last line cut off here, too.
    pub(super) fn read(text: &str) -> Times {
        let mut times = Times::default();
        let rows = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        for (at, line) in rows {
            let row: Option<Row<'_>> = serde_json::from_str(line).ok();
            // Each line of the recording has one row, so a number far ahead is none of them.
            let place = row.as_ref().and_then(|row| row.line.checked_sub(1)).filter(|place| *place <= at);
            match (place, row.as_ref().and_then(Row::told)) {
                (Some(place), Some(told)) => {
                    times.lines.resize(times.lines.len().max(place + 1), None);
                    times.lines[place] = Some(told);
                }
                _ => {
                    times.fault = Some(format!(
                        "the times beside it make no sense from their line {} on; lines without a time follow at once",
                        at + 1
                    ));
                    break;
                }
            }
        }
        times
    }

    pub(super) fn of(&self, line: usize) -> Option<Told> {
        self.lines.get(line.checked_sub(1)?).copied().flatten()
    }
}
