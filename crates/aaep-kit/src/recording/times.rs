//! One row of a times file: [`Time`].

use recount_aaep::lex::time::Moment;
use serde::{Deserialize, Serialize};

use super::Direction;

/// When and how a message arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Time {
    /// The line of the capture.
    pub line: usize,
    pub direction: Direction,
    /// Milliseconds since 1970 by the wall clock.
    pub at_ms: i64,
    /// Milliseconds since the capture began, by a monotonic clock.
    pub after_ms: u64,
    /// The connection of the capture, from 1.
    pub connection: u64,
    /// The event's id, to verify that the row belongs to the line.
    pub id: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Row<'t> {
    line: usize,
    #[serde(borrow)]
    direction: std::borrow::Cow<'t, str>,
    #[serde(borrow)]
    at: std::borrow::Cow<'t, str>,
    after_ms: u64,
    connection: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

impl Time {
    /// Returns `None` if the text is not a row of a times file.
    pub(crate) fn parse(text: &str) -> Option<Time> {
        let row: Row<'_> = serde_json::from_str(text).ok()?;
        let direction = match row.direction.as_ref() {
            "in" => Direction::In,
            "out" => Direction::Out,
            _ => return None,
        };
        let at_ms = Moment::parse(&row.at)?.millis();
        let (line, after_ms, connection, id) = (row.line, row.after_ms, row.connection, row.id);
        Some(Time { line, direction, at_ms, after_ms, connection, id })
    }

    pub(super) fn to_json(&self) -> String {
        let direction = match self.direction {
            Direction::In => "in",
            Direction::Out => "out",
        };
        let row = Row {
            line: self.line,
            direction: direction.into(),
            at: Moment::write(self.at_ms).into(),
            after_ms: self.after_ms,
            connection: self.connection,
            id: self.id.clone(),
        };
        serde_json::to_string(&row).expect("numbers and texts are valid JSON values")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_a_round_trip() {
        let line =
            r#"{"line":3,"direction":"out","at":"2026-05-24T14:22:11.342Z","after_ms":1200,"connection":1}"#;
        let time = Time::parse(line).unwrap();
        assert_eq!(
            (time.line, time.direction, time.after_ms, time.id.as_deref()),
            (3, Direction::Out, 1_200, None)
        );
        assert_eq!(time.to_json(), line);
        let named = Time { id: Some("evt_1".to_owned()), direction: Direction::In, ..time };
        assert_eq!(Time::parse(&named.to_json()), Some(named));
        for bad in [
            "",
            "{}",
            "{\"line\":1",
            r#"{"line":1,"direction":"up","at":"2026-05-24T14:22:11.342Z","after_ms":1,"connection":1}"#,
        ] {
            assert_eq!(Time::parse(bad), None, "{bad}");
        }
    }
}
