//! Validates query parameters and headers. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue};
use recount_event::{Code, SessionId};

use super::{Accepted, plain_number, shortened};
use crate::error::Refusal;
use crate::limits;
use crate::project::FrameId;
use crate::wire::{SessionStatus, StreamMode};

/// The value of a query parameter. A repeated parameter is refused.
fn get(raw: Option<&str>, name: &str) -> Accepted<Option<String>> {
    let mut found = form_urlencoded::parse(raw.unwrap_or_default().as_bytes()).filter(|(key, _)| key == name);
    let first = found.next().map(|(_, value)| value.into_owned());
    match found.next() {
        None => Ok(first),
        Some(_) => Err(invalid(format!("{name} is repeated; send it once"))),
    }
}

fn invalid(detail: impl Into<String>) -> Refusal {
    Refusal::new(Code::ParameterInvalid, detail)
}

/// The filter of a list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Only sessions older than this one.
    pub(crate) after: Option<SessionId>,
    pub(crate) limit: usize,
    pub(crate) agent: Option<String>,
    pub(crate) status: Option<SessionStatus>,
}

pub(crate) fn listing(raw: Option<&str>) -> Accepted<Listing> {
    let limit = match get(raw, "limit")? {
        None => limits::LIST_LIMIT_DEFAULT,
        Some(text) => {
            let most = limits::LIST_LIMIT_MAX;
            let number = plain_number(&text).and_then(|number| usize::try_from(number).ok());
            number.filter(|number| (1..=most).contains(number)).ok_or_else(|| {
                invalid(format!("limit is {:?}; send a whole number from 1 to {most}", shortened(&text)))
            })?
        }
    };
    let status = match get(raw, "status")? {
        None => None,
        Some(text) => {
            let known = SessionStatus::ALL.iter().copied().find(|status| status.as_str() == text);
            Some(known.ok_or_else(|| {
                let shown = shortened(&text);
                invalid(format!("status is {shown:?}; send idle, running or waiting"))
            })?)
        }
    };
    let after = get(raw, "after")?.filter(|text| !text.is_empty()).map(|text| after(&text)).transpose()?;
    Ok(Listing { after, limit, agent: get(raw, "agent")?, status })
}

/// The prefix of cursors of a list, so that no session id is accepted as a cursor.
const CURSOR: &str = "s1:";

/// The cursor after a session in the list.
pub(crate) fn cursor(session: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{CURSOR}{session}"))
}

fn after(text: &str) -> Accepted<SessionId> {
    let decoded = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let id = decoded.as_deref().and_then(|text| text.strip_prefix(CURSOR)).and_then(|id| id.parse().ok());
    id.ok_or_else(|| {
        let detail = format!("after is {:?}; send the `next` value of the previous page", shortened(text));
        Refusal::new(Code::CursorMalformed, detail)
    })
}

/// The requested history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Full,
    Compacted,
}

pub(crate) fn history_kind(raw: Option<&str>) -> Accepted<Kind> {
    match get(raw, "type")?.as_deref() {
        Some("full") => Ok(Kind::Full),
        Some("compacted") => Ok(Kind::Compacted),
        Some(other) => Err(invalid(format!("type is {:?}; send full or compacted", shortened(other)))),
        None => Err(invalid("type is missing; send full or compacted")),
    }
}

/// The delivery mode for an existing turn.
pub(crate) fn watching(raw: Option<&str>) -> Accepted<StreamMode> {
    match get(raw, "stream")?.as_deref() {
        None | Some("delta") => Ok(StreamMode::Delta),
        Some("message") => Ok(StreamMode::Message),
        Some(other) => Err(invalid(format!("stream is {:?}; send delta or message", shortened(other)))),
    }
}

/// The last frame that the client has.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Accepted<Option<FrameId>> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let text = value.to_str().unwrap_or("?");
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let detail =
            format!("Last-Event-ID is {:?}; send the id of the last received frame", shortened(text));
        Refusal::new(Code::CursorMalformed, detail)
    })
}

/// The idempotency key of a request.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Accepted<Option<&str>> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let plain = |text: &&str| {
        (1..=limits::IDEMPOTENCY_KEY_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    value.to_str().ok().filter(plain).map(Some).ok_or_else(|| {
        let most = limits::IDEMPOTENCY_KEY_MAX;
        Refusal::new(
            Code::HeaderInvalid,
            format!("Idempotency-Key must have 1 to {most} printable ASCII characters without spaces"),
        )
    })
}

/// The trace context of a request. An invalid header is ignored, as the standard demands.
pub(crate) fn traceparent(value: Option<&HeaderValue>) -> Option<String> {
    recount_transport::traceparent(value?.to_str().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "chat_01JZZZZZZZZZZZZZZZZZZZZZZZ";

    // P-019
    #[test]
    fn only_cursors_of_the_list_are_accepted() {
        let given = cursor(SESSION);
        let listing_query =
            listing(Some(&format!("after={given}&limit=3&status=waiting&agent=a%20b&x=y"))).unwrap();
        assert_eq!(listing_query.after.unwrap().to_string(), SESSION);
        assert_eq!((listing_query.limit, listing_query.status), (3, Some(SessionStatus::Waiting)));
        assert_eq!(listing_query.agent.as_deref(), Some("a b"));
        for bad in [SESSION, "x", "!!!", "czE6eA", &given[1..], "%00"] {
            let refusal = listing(Some(&format!("after={bad}"))).unwrap_err();
            assert_eq!(refusal.code, Code::CursorMalformed, "{bad}");
        }
        for bad in ["limit=0", "limit=201", "limit=x", "limit=-1", "status=done", "limit=1&limit=2"] {
            assert_eq!(listing(Some(bad)).unwrap_err().code, Code::ParameterInvalid, "{bad}");
        }
        assert_eq!(listing(Some("after=")).unwrap().after, None);
    }

    // P-068
    #[test]
    fn history_kinds_are_full_and_compacted() {
        assert_eq!(history_kind(Some("type=full")).unwrap(), Kind::Full);
        assert_eq!(history_kind(Some("type=compacted")).unwrap(), Kind::Compacted);
        for bad in [None, Some(""), Some("type="), Some("type=Full"), Some("type=full&type=full")] {
            assert_eq!(history_kind(bad).unwrap_err().code, Code::ParameterInvalid, "{bad:?}");
        }
    }

    #[test]
    fn the_last_frame_is_an_event_and_a_part() {
        let headers = |text: &'static str| {
            HeaderMap::from_iter([(
                http::HeaderName::from_static("last-event-id"),
                HeaderValue::from_static(text),
            )])
        };
        assert_eq!(last_event_id(&headers("17.2")).unwrap(), Some(FrameId { sequence: 17, part: 2 }));
        assert_eq!(last_event_id(&headers("")).unwrap(), None);
        assert_eq!(last_event_id(&HeaderMap::new()).unwrap(), None);
        for bad in ["17", "17.", "-1.0", "01.0", "a.b"] {
            assert_eq!(last_event_id(&headers(bad)).unwrap_err().code, Code::CursorMalformed, "{bad}");
        }
    }
}
