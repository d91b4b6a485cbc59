//! Accepts requests for artifacts: names, kinds, byte ranges.

use recount_event::{Code, ForeignId};

use super::{Accepted, shortened};
use crate::error::Refusal;

pub(crate) fn artifact_id(text: &str) -> Accepted<ForeignId> {
    ForeignId::parse(text).map_err(|_| no_artifact(shortened(text)))
}

/// Nothing is called so.
pub(crate) fn no_artifact(id: &str) -> Refusal {
    Refusal::new(Code::ArtifactNotFound, format!("there is no artifact {id:?}"))
}

/// One of a few words.
pub(crate) fn word<'a>(name: &str, said: Option<&'a str>, known: &[&str]) -> Accepted<Option<&'a str>> {
    match said {
        Some(text) if !known.contains(&text) => Err(Refusal::new(
            Code::ParameterInvalid,
            format!("{name} is {:?}; send one of {}", shortened(text), known.join(", ")),
        )),
        said => Ok(said),
    }
}

/// A word that a list is filtered by, whatever it is.
pub(crate) fn short(name: &str, said: Option<&str>) -> Accepted<Option<String>> {
    at_most(recount_api::query::TEXT_MAX, name, said)
}

/// A text of so many characters.
pub(crate) fn at_most(most: usize, name: &str, said: Option<&str>) -> Accepted<Option<String>> {
    match said {
        Some(text) if text.chars().count() > most => Err(Refusal::new(
            Code::ParameterInvalid,
            format!("{name} is {:?} and more; send at most {most} characters", shortened(text)),
        )),
        said => Ok(said.map(str::to_owned)),
    }
}

/// Which bytes are wanted of something that has so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    All,
    /// Both ends included.
    Part {
        first: u64,
        last: u64,
    },
    /// None that there are.
    Beyond,
}

/// What cannot be read, and several ranges at once, count for nothing: then all bytes come.
pub(crate) fn range(header: Option<&str>, size: u64) -> Range {
    let Some(spec) = header.and_then(|text| text.trim().strip_prefix("bytes=")) else { return Range::All };
    let Some((from, to)) = spec.trim().split_once('-') else { return Range::All };
    let (from, to) = (from.trim(), to.trim());
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        // So many that none are left out.
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
        for (said, wanted) in [
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
            assert_eq!(range(Some(said), 100), wanted, "{said}");
        }
        assert_eq!(range(None, 100), Range::All);
        assert_eq!(range(Some("bytes=0-"), 0), Range::Beyond);
        assert_eq!(range(Some("bytes=-5"), 0), Range::Beyond);
    }
}
