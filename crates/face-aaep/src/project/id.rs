//! Ids of the protocol, derived from ids of the log. Pure; the same on every node and after every restart.
//!
//! The id of an event is its run, its sequence and the part of that event. So the last received id is a position in the
//! run.

use recount_aaep::wire::{EventId, SessionId};
use recount_event::{ForeignId, RunId};
use ulid::Ulid;

/// The digits of a ULID, which sort as the numbers do.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Digits of a sequence: below 2^55, and the log counts below 2^53.
const SEQUENCE_DIGITS: usize = 11;
/// Digits of a part: below 2^25, of which those below [`Place::JOIN_PART`] are of events of the log.
const PART_DIGITS: usize = 5;
const EVENT: &str = "evt_";
const SESSION: &str = "sess_";

/// A position in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub run: RunId,
    pub sequence: u64,
    /// The first projected event of an event of the log has part 0.
    pub part: u64,
}

impl Place {
    /// Parts from here on belong to no event of the log: summaries for joining listeners, and repeated prompts. A
    /// stream is never resumed after them.
    pub const JOIN_PART: u64 = 1 << 24;

    /// Parts from here on belong to countdowns, which are not in the log either.
    pub const COUNTDOWN_PART: u64 = Place::JOIN_PART + (1 << 23);

    /// The place of an event that is not of the log, at an offset that is different for each such event.
    pub(crate) fn aside(self, offset: u64) -> Place {
        let count = Place::COUNTDOWN_PART - Place::JOIN_PART;
        Place { part: Place::JOIN_PART + offset % count, ..self }
    }

    /// Whether the place is of an event of the log, so that a stream can be resumed after it.
    pub fn is_of_the_log(self) -> bool {
        self.part < Place::JOIN_PART
    }

    pub fn event_id(self) -> EventId {
        let mut text = String::with_capacity(EVENT.len() + ulid::ULID_LEN + SEQUENCE_DIGITS + PART_DIGITS);
        text.push_str(EVENT);
        let mut buffer = [0; ulid::ULID_LEN];
        text.push_str(self.run.ulid().array_to_str(&mut buffer));
        digits(&mut text, self.sequence, SEQUENCE_DIGITS);
        digits(&mut text, self.part, PART_DIGITS);
        EventId::new(text).unwrap_or_else(|why| unreachable!("letters and digits: {why}"))
    }

    /// The place that an id names; `None` for a foreign id.
    pub fn parse(text: &str) -> Option<Place> {
        let rest = text.strip_prefix(EVENT)?;
        if rest.len() != ulid::ULID_LEN + SEQUENCE_DIGITS + PART_DIGITS || !rest.is_ascii() {
            return None;
        }
        let (run, rest) = rest.split_at(ulid::ULID_LEN);
        let (sequence, part) = rest.split_at(SEQUENCE_DIGITS);
        let run = format!("{}{run}", RunId::PREFIX).parse().ok()?;
        Some(Place { run, sequence: number(sequence)?, part: number(part)? })
    }
}

/// Appends a number with a fixed count of digits.
pub(crate) fn digits(text: &mut String, number: u64, count: usize) {
    for place in (0..count).rev() {
        let digit = (number >> (5 * place)) & 31;
        text.push(char::from(DIGITS[usize::try_from(digit).unwrap_or(0)]));
    }
}

/// The number of a text of digits.
pub(crate) fn number(text: &str) -> Option<u64> {
    text.bytes().try_fold(0_u64, |number, byte| {
        let digit = DIGITS.iter().position(|known| *known == byte)?;
        Some(number << 5 | u64::try_from(digit).ok()?)
    })
}

/// The session of a run.
pub fn session_id(run: RunId) -> SessionId {
    let mut buffer = [0; ulid::ULID_LEN];
    let text = format!("{SESSION}{}", run.ulid().array_to_str(&mut buffer));
    SessionId::new(text).unwrap_or_else(|why| unreachable!("letters and digits: {why}"))
}

/// The run of a session.
pub fn run_of(session: &str) -> Option<RunId> {
    let run = session.strip_prefix(SESSION)?;
    format!("{}{run}", RunId::PREFIX).parse().ok()
}

/// The id of a call. Our own ids fit the protocol; a foreign id is replaced by its digest.
pub(super) fn call_id(id: &ForeignId) -> String {
    let text = id.as_str();
    let own = text.strip_prefix("call_").is_some_and(|rest| Ulid::from_string(rest).is_ok());
    if own { text.to_owned() } else { format!("call_{}", &blake3::hash(text.as_bytes()).to_hex()[..32]) }
}

/// The id of a text block.
pub(super) fn output_id(turn: u64, block: u64) -> String {
    format!("out_t{turn}b{block}")
}

/// The name of a tool, without characters that the protocol does not allow.
pub(super) fn tool(name: &str) -> String {
    let fits = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-');
    let mut text: String =
        name.chars().take(255).map(|character| if fits(character) { character } else { '_' }).collect();
    if !text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        text.insert(0, '_');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunId {
        "run_01HZX3Q0M0000000000000000A".parse().unwrap()
    }

    #[test]
    fn a_place_is_parsed_from_its_id_and_ids_sort_in_order() {
        let mut last = None;
        for (sequence, part) in [(0, 0), (0, 1), (1, 0), (31, 7), (32, 0), (1 << 53, (1 << 25) - 1)] {
            let place = Place { run: run(), sequence, part };
            let id = place.event_id().as_str().to_owned();
            assert_eq!(Place::parse(&id), Some(place));
            assert!(last < Some(id.clone()), "{id}");
            last = Some(id);
        }
    }

    #[test]
    fn foreign_ids_name_no_place() {
        let id = Place { run: run(), sequence: 3, part: 0 }.event_id();
        for text in
            ["", "evt_", "evt_1", &id.as_str()[1..], &format!("{id}0"), &id.as_str().replace('Z', "é")]
        {
            assert_eq!(Place::parse(text), None, "{text}");
        }
        assert_eq!(run_of(session_id(run()).as_str()), Some(run()));
        assert_eq!(run_of("sess_nothing"), None);
    }

    #[test]
    fn foreign_names_are_converted_to_the_form_of_the_protocol() {
        let own = ForeignId::parse("call_01HZX3Q0M0000000000000000B").unwrap();
        assert_eq!(call_id(&own), own.as_str());
        let theirs = ForeignId::parse("toolu:1.2-3").unwrap();
        assert!(call_id(&theirs).strip_prefix("call_").is_some_and(|rest| rest.len() == 32));
        assert_eq!(
            (tool("9 ways/é"), tool(""), tool("mcp__a__b")),
            ("_9_ways__".into(), "_".into(), "mcp__a__b".into())
        );
    }
}
