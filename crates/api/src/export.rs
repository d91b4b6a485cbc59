//! `recount.export.v1`: whole runs as lines, for files and for `POST /v1/imports`.
//!
//! Each run is a [`Header`] on a line of its own, then its envelopes as they are stored, one a line.
//! `docs/export.md` describes it for users.

use serde::{Deserialize, Serialize};

/// The media type of an export.
pub const MEDIA_TYPE: &str = "application/x-ndjson";

/// How heads of chains are computed.
pub const ALGORITHM: &str = "recount.run.v1";

/// Bytes of one run's lines, header included; more is refused, because a run comes in whole.
pub const RUN_BYTES_MAX: usize = 64 << 20;

/// What stands before the events of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    object: String,
    pub run_id: String,
    pub events: u64,
    pub algorithm: String,
    /// The chain over these events.
    pub head: String,
    /// The first event that follows, when those before it were pruned, and the chain before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sequence: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
}

const OBJECT: &str = "run";
/// What every header begins with, and no envelope does.
const BEGINNING: &[u8] = b"{\"object\":";

impl Header {
    pub fn new(run_id: &str, events: u64, head: &str) -> Self {
        Header {
            object: OBJECT.to_owned(),
            run_id: run_id.to_owned(),
            events,
            algorithm: ALGORITHM.to_owned(),
            head: head.to_owned(),
            first_sequence: None,
            start: None,
        }
    }

    /// The same of a run whose events before `first` were pruned, and added up to `start`.
    #[must_use]
    pub fn beginning_at(self, first: u64, start: &str) -> Self {
        Header { first_sequence: Some(first), start: Some(start.to_owned()), ..self }
    }

    /// The header as its line, without the line's end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a header holds nothing that JSON cannot say")
    }

    /// Reads a line that is written exactly as [`Header::line`] writes it. An error is a sentence.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let header: Header =
            serde_json::from_slice(line).map_err(|why| format!("no header of a run: {why}"))?;
        if header.object != OBJECT {
            return Err(format!("the header is of {:?}, not of a run", header.object));
        }
        if header.algorithm != ALGORITHM {
            return Err(format!("the algorithm is {:?}, not {ALGORITHM}", header.algorithm));
        }
        if header.line().as_bytes() != line {
            return Err("the header is not written as exports write it".to_owned());
        }
        Ok(header)
    }

    /// Whether a line is meant as a header. Envelopes begin otherwise.
    pub fn is_meant_by(line: &[u8]) -> bool {
        line.starts_with(BEGINNING)
    }
}

/// The lines of an export, without their ends. The last one may lack its end.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    whole.split(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        r#"{"object":"run","run_id":"run_1","events":2,"algorithm":"recount.run.v1","head":"ab"}"#;

    #[test]
    fn a_header_is_one_line() {
        let header = Header::new("run_1", 2, "ab");
        assert_eq!(header.line(), LINE);
        let pruned = header.clone().beginning_at(1, "cd");
        assert_eq!(pruned.line(), LINE.replace('}', ",\"first_sequence\":1,\"start\":\"cd\"}"));
        assert_eq!(Header::parse(pruned.line().as_bytes()), Ok(pruned));
        assert_eq!(Header::parse(LINE.as_bytes()), Ok(header));
        assert!(Header::is_meant_by(LINE.as_bytes()));
    }

    #[test]
    fn any_other_header_is_refused() {
        for (from, to) in [
            (":2", ":02"),
            (":2", ": 2"),
            (":2", ":2.0"),
            (":2", ":-1"),
            (":2", ":null"),
            ("\"run\"", "\"task\""),
            ("run.v1", "run.v2"),
            ("run_1", "run_\\u0031"),
            ("\"ab\"", "\"ab\",\"more\":1"),
            (",\"head\":\"ab\"", ""),
            ("}", "} "),
            ("}", ",\"events\":2}"),
        ] {
            let line = LINE.replacen(from, to, 1);
            assert_ne!(line, LINE);
            assert!(Header::parse(line.as_bytes()).is_err(), "{line}");
        }
        assert!(Header::parse(b"").is_err());
        assert!(Header::parse(br#"["run","run_1",2,"recount.run.v1","ab"]"#).is_err(), "a list");
    }

    #[test]
    fn lines_end_where_they_end() {
        let split = |text: &'static str| lines(text.as_bytes()).map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!(split("a\nbc\n"), [1, 2]);
        assert_eq!(split("a\nbc"), [1, 2]);
        assert_eq!(split("a\n\n"), [1, 0]);
        assert_eq!(split(""), [0]);
    }
}
