//! Validates requests for artifacts: ids, kinds and byte ranges. Pure.

use recount_event::{Code, ForeignId};

use super::{Accepted, one_of, shortened};
use crate::error::Refusal;

pub(crate) fn artifact_id(text: &str) -> Accepted<ForeignId> {
    ForeignId::parse(text).map_err(|_| no_artifact(shortened(text)))
}

/// The refusal for an unknown artifact.
pub(crate) fn no_artifact(id: &str) -> Refusal {
    Refusal::new(Code::ArtifactNotFound, format!("artifact {id:?} not found"))
}

/// Validates a parameter that takes one of a few values.
pub(crate) fn word<'a>(name: &str, text: Option<&'a str>, known: &[&str]) -> Accepted<Option<&'a str>> {
    text.map(|text| one_of(name, text, known)).transpose()
}

/// Validates a free text that filters a list.
pub(crate) fn short(name: &str, text: Option<&str>) -> Accepted<Option<String>> {
    at_most(recount_api::query::TEXT_MAX, name, text)
}

/// Validates a text of at most `most` characters.
pub(crate) fn at_most(most: usize, name: &str, text: Option<&str>) -> Accepted<Option<String>> {
    match text {
        Some(text) if text.chars().count() > most => Err(Refusal::new(
            Code::ParameterInvalid,
            format!(
                "{name} begins with {:?} and is too long; send at most {most} characters",
                shortened(text)
            ),
        )),
        text => Ok(text.map(str::to_owned)),
    }
}

/// The requested bytes of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    All,
    /// Both ends included.
    Part {
        first: u64,
        last: u64,
    },
    /// Past the end of the artifact.
    Beyond,
}

/// Parses a `Range` header. An invalid header, or one with several ranges, selects all bytes.
pub(crate) fn range(header: Option<&str>, size: u64) -> Range {
    let Some(spec) = header.and_then(|text| text.trim().strip_prefix("bytes=")) else { return Range::All };
    let Some((from, to)) = spec.trim().split_once('-') else { return Range::All };
    let (from, to) = (from.trim(), to.trim());
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that does not fit is larger than every artifact.
        true => Some(text.parse::<u64>().unwrap_or(u64::MAX)),
        false => None,
    };
    match (from.is_empty(), to.is_empty(), number(from), number(to)) {
        (true, false, _, Some(wanted)) => match wanted.min(size) {
            0 => Range::Beyond,
            count => Range::Part { first: size - count, last: size - 1 },
        },
        (false, open, Some(first), Some(last)) => {
            if !open && last < first {
                return Range::All;
            }
            let last = if open { u64::MAX } else { last };
            if first < size { Range::Part { first, last: last.min(size - 1) } } else { Range::Beyond }
        }
        _ => Range::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let part = |first, last| Range::Part { first, last };
        for (header, expected) in [
            ("bytes=0-9", part(0, 9)),
            ("bytes=0-0", part(0, 0)),
            ("bytes=90-", part(90, 99)),
            ("bytes=90-1000", part(90, 99)),
            ("bytes=-10", part(90, 99)),
            ("bytes=-1000", part(0, 99)),
            ("bytes=0-99999999999999999999999", part(0, 99)),
            (" bytes= 3 - 4 ", part(3, 4)),
            ("bytes=100-", Range::Beyond),
            ("bytes=100-200", Range::Beyond),
            ("bytes=-0", Range::Beyond),
            ("bytes=9-8", Range::All),
            ("bytes=0-1,3-4", Range::All),
            ("bytes=-", Range::All),
            ("bytes=a-b", Range::All),
            ("bytes=+1-2", Range::All),
            ("lines=0-1", Range::All),
            ("", Range::All),
        ] {
            assert_eq!(range(Some(header), 100), expected, "{header}");
        }
        assert_eq!(range(None, 100), Range::All);
        assert_eq!(range(Some("bytes=0-"), 0), Range::Beyond);
        assert_eq!(range(Some("bytes=-5"), 0), Range::Beyond);
    }
}
