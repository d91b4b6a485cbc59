//! The export format `recount.export.v1`: whole runs as lines, for files and for `POST /v1/imports`.
//!
//! Each run is a [`Header`] on a line of its own, then its envelopes as they are stored, one per line. The last line is an
//! [`End`], without which a reader cannot know whether runs are missing. `docs/export.md` describes it for users.

use serde::{Deserialize, Serialize};

use crate::admin::SigningKeys;
use crate::reply::SignedHead;

/// The media type of an export.
pub const MEDIA_TYPE: &str = "application/x-ndjson";

/// How heads of chains are computed.
pub const ALGORITHM: &str = "recount.run.v1";

/// Bytes of one run's lines, header included; more is refused, because a run is imported whole.
pub const RUN_BYTES_MAX: usize = 64 << 20;

/// The line before the events of a run.
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

    /// The same for a run whose events before `first` were pruned, with the chain value `start`.
    #[must_use]
    pub fn beginning_at(self, first: u64, start: &str) -> Self {
        Header { first_sequence: Some(first), start: Some(start.to_owned()), ..self }
    }

    /// The header as its line, without the line's end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a header holds only values that JSON can represent")
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

/// The last line of an export, with the totals. Exports of older releases have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub runs: u64,
    /// Lines of events, of all these runs.
    pub events: u64,
    /// Runs that were left out because they are damaged.
    pub left_out: u64,
}

#[derive(Serialize, Deserialize)]
struct EndLine {
    object: String,
    runs: u64,
    events: u64,
    #[serde(default, skip_serializing_if = "is_none")]
    left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

const END_OBJECT: &str = "end";
/// What the last line begins with, and no header of a run does.
const END_BEGINNING: &[u8] = b"{\"object\":\"end\"";

impl End {
    /// The last line, without its line feed.
    pub fn line(&self) -> String {
        let End { runs, events, left_out } = *self;
        let line = EndLine { object: END_OBJECT.to_owned(), runs, events, left_out };
        serde_json::to_string(&line).expect("numbers can always be written as JSON")
    }

    /// The last line with signed heads.
    pub fn signed_line(&self, signatures: &ExportSignatures) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            #[serde(flatten)]
            end: EndLine,
            #[serde(flatten)]
            signatures: &'a ExportSignatures,
        }
        let End { runs, events, left_out } = *self;
        let end = EndLine { object: END_OBJECT.to_owned(), runs, events, left_out };
        serde_json::to_string(&Line { end, signatures }).expect("numbers and texts can be written as JSON")
    }

    /// Reads a last line. Members that a later release may add are ignored. An error is a sentence.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let line: EndLine =
            serde_json::from_slice(line).map_err(|why| format!("no last line of an export: {why}"))?;
        let EndLine { runs, events, left_out, .. } = line;
        Ok(End { runs, events, left_out })
    }

    /// Whether a line is meant as the last one of an export.
    pub fn is_meant_by(line: &[u8]) -> bool {
        line.starts_with(END_BEGINNING)
    }
}

/// What the last line has besides the totals if signatures were requested. Readers of older releases ignore it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportSignatures {
    /// The signed heads of the runs since the last line before; of some runs there may be none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signed: Vec<SignedHead>,
    /// The public keys of the exporting server. They prove nothing: a person who changes the events can replace them, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untrusted_keys: Option<SigningKeys>,
}

impl ExportSignatures {
    /// Reads them from a last line. An error is a sentence.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|why| format!("no signed heads: {why}"))
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
    fn a_last_line_is_read_as_it_was_written() {
        for (left_out, line) in [
            (0, r#"{"object":"end","runs":2,"events":31}"#),
            (3, r#"{"object":"end","runs":2,"events":31,"left_out":3}"#),
        ] {
            let end = End { runs: 2, events: 31, left_out };
            assert_eq!(end.line(), line);
            assert_eq!(End::parse(line.as_bytes()), Ok(end));
            assert!(End::is_meant_by(line.as_bytes()) && Header::parse(line.as_bytes()).is_err());
        }
        assert!(!End::is_meant_by(LINE.as_bytes()));
        assert_eq!(End::parse(br#"{"object":"end","runs":0,"events":0,"more":1}"#).unwrap().runs, 0);
        assert!(End::parse(br#"{"object":"end","runs":2}"#).is_err());
        assert!(End::parse(br#"{"object":"end","runs":2,"eve"#).is_err());
    }

    #[test]
    fn signed_heads_are_members_of_the_last_line_that_older_readers_ignore() {
        let end = End { runs: 1, events: 2, left_out: 0 };
        let head = SignedHead { statement: "{}".to_owned(), signature: "AA".to_owned(), cose: String::new() };
        let signatures = ExportSignatures { signed: vec![head], untrusted_keys: None };
        let line = end.signed_line(&signatures);
        assert_eq!(
            line,
            r#"{"object":"end","runs":1,"events":2,"signed":[{"statement":"{}","signature":"AA"}]}"#
        );
        assert_eq!(End::parse(line.as_bytes()), Ok(end));
        assert_eq!(ExportSignatures::parse(line.as_bytes()), Ok(signatures));
        assert_eq!(end.signed_line(&ExportSignatures::default()), end.line());
        assert_eq!(ExportSignatures::parse(end.line().as_bytes()), Ok(ExportSignatures::default()));
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
