//! The ids of frames and turns. Both contain their position, so any server with the store can resolve them.

use std::fmt;
use std::str::FromStr;

use recount_event::RunId;
use ulid::Ulid;

/// The position of a frame: its event, and its number among the frames of that event. Ascending in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId {
    pub sequence: u64,
    pub part: u32,
}

/// The error of an invalid [`FrameId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a frame id (two whole numbers separated by a dot, such as 12.0)")]
pub struct FrameIdError {
    pub text: String,
}

impl fmt::Display for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.sequence, self.part)
    }
}

impl FromStr for FrameId {
    type Err = FrameIdError;

    /// Only the canonical form is accepted, so that each frame has one id.
    fn from_str(text: &str) -> Result<Self, FrameIdError> {
        let parts =
            text.split_once('.').and_then(|(sequence, part)| Some((number(sequence)?, number(part)?)));
        let id = parts.map(|(sequence, part)| FrameId { sequence, part });
        id.ok_or_else(|| FrameIdError { text: shown(text) })
    }
}

/// A turn: the run, and the sequence of the event at which its segment opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId {
    pub run: RunId,
    pub opening: u64,
}

/// The error of an invalid [`TurnId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a turn id (26 characters, a hyphen and a whole number)")]
pub struct TurnIdError {
    pub text: String,
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.run.ulid(), self.opening)
    }
}

impl FromStr for TurnId {
    type Err = TurnIdError;

    fn from_str(text: &str) -> Result<Self, TurnIdError> {
        let read = |text: &str| {
            let (run, opening) = text.split_once('-')?;
            let id = TurnId { run: RunId::new(Ulid::from_string(run).ok()?), opening: number(opening)? };
            (id.to_string() == text).then_some(id)
        };
        read(text).ok_or_else(|| TurnIdError { text: shown(text) })
    }
}

/// A whole number in canonical form: no sign, no leading zero.
fn number<N: FromStr>(text: &str) -> Option<N> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_ids_are_accepted() {
        let id = FrameId { sequence: 12, part: 3 };
        assert_eq!(id.to_string(), "12.3");
        assert_eq!("12.3".parse(), Ok(id));
        let last = FrameId { sequence: u64::MAX, part: u32::MAX };
        assert_eq!(last.to_string().parse(), Ok(last));
        for bad in
            ["", ".", "1", "1.", ".1", "01.0", "1.00", "+1.0", "1.-0", "1.0.0", " 1.0", "1.4294967296", "x.y"]
        {
            let why = bad.parse::<FrameId>().unwrap_err();
            assert_eq!(why.text, bad);
        }
        assert!(FrameId { sequence: 2, part: 9 } < FrameId { sequence: 10, part: 0 });
    }

    #[test]
    fn turns_are_named_by_run_and_opening() {
        let text = "01HZX3Q0M0000000000000000A-17";
        let id: TurnId = text.parse().unwrap();
        assert_eq!((id.opening, id.run.to_string().as_str()), (17, "run_01HZX3Q0M0000000000000000A"));
        assert_eq!(id.to_string(), text);
        for bad in [
            "",
            "-",
            "01HZX3Q0M0000000000000000A",
            "01HZX3Q0M0000000000000000A-",
            "01HZX3Q0M0000000000000000A-017",
            "01hzx3q0m0000000000000000a-17",
            "run_01HZX3Q0M0000000000000000A-17",
            "01HZX3Q0M0000000000000000A-17-1",
        ] {
            assert!(bad.parse::<TurnId>().is_err(), "{bad}");
        }
    }
}
