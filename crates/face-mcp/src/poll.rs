//! `events/poll` of MCP Events: the events of a subscription after a cursor. Start at [`poll`].
//!
//! A cursor is a position of the log, so nothing is stored for a subscription. What an event shows comes from the row of
//! its run or prompt, which the native face reads as the client.

use recount_api::prompt::Approval;
use recount_api::query::LATEST;
use recount_api::reply::{One, Page, Run};
use recount_engine::name_begins;
use recount_event::Code;
use recount_event::codec::Envelope;
use recount_event::time::format_ms;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::event_types::{PAYLOAD_NOTICE, Subject, Subscription};
use crate::limits;
use crate::native::{Failure, Native};
use crate::project::cut;
use crate::wire::{ErrorCode, RpcError};

/// The result of `events/poll`.
pub(crate) async fn poll(native: &Native, subscription: &Subscription) -> Result<Value, RpcError> {
    let found = match subscription.cursor {
        Some(cursor) => found(native, subscription, cursor).await,
        None => latest(native, subscription).await.map(|cursor| Found { cursor, ..Found::default() }),
    };
    let found = found.map_err(|why| error(&why))?;
    Ok(json!({
        "events": found.events,
        "cursor": found.cursor.to_string(),
        "truncated": found.truncated,
        "hasMore": found.has_more,
        "nextPollMs": limits::NEXT_POLL.as_millis() as u64,
    }))
}

/// What a poll returns.
#[derive(Default)]
struct Found {
    events: Vec<Value>,
    cursor: u64,
    truncated: bool,
    has_more: bool,
}

/// A page of the feed. It may be empty although more follow, because one read looks at a limited number of events.
type FeedPage = Page<Box<RawValue>>;

/// Reads small pages after the cursor, or after the last pruned event, because an event may be large.
async fn found(native: &Native, subscription: &Subscription, cursor: u64) -> Result<Found, Failure> {
    let (cursor, truncated) = native.retained(cursor).await?;
    let mut found = Found { cursor, truncated, ..Found::default() };
    let (mut remaining, mut bytes) = (subscription.max_events, 0);
    loop {
        let limit = remaining.min(limits::OCCURRENCES_READ);
        let query = subscription.query(&found.cursor.to_string(), Some(limit));
        let page: FeedPage = native.get(&["events"], &query).await?;
        for stored in &page.data {
            bytes += stored.get().len();
            match occurrence(native, subscription, stored.get()).await? {
                Look::Occurred(event) => found.events.push(event),
                Look::Skipped => found.truncated = true,
                Look::Other => {}
            }
        }
        found.truncated |= page.gap.is_some();
        found.cursor = page.next.as_ref().and_then(Value::as_u64).unwrap_or(found.cursor);
        found.has_more = page.has_more;
        // A page that is not full has read as much as one read may.
        let is_full = page.data.len() as u64 == limit;
        remaining -= limit;
        if !found.has_more || !is_full || remaining == 0 || bytes >= limits::OCCURRENCES_BYTES_MAX {
            return Ok(found);
        }
    }
}

/// The position of the last event.
pub(crate) async fn latest(native: &Native, subscription: &Subscription) -> Result<u64, Failure> {
    let page: FeedPage = native.get(&["events"], &subscription.query(LATEST, Some(1))).await?;
    Ok(page.next.as_ref().and_then(Value::as_u64).unwrap_or_default())
}

/// What an event of the feed is for a subscription.
pub(crate) enum Look {
    Occurred(Value),
    /// It is too old, or what it is about was erased.
    Skipped,
    /// It is about something else.
    Other,
}

/// An event as clients get it, without a cursor.
pub(crate) async fn occurrence(
    native: &Native,
    subscription: &Subscription,
    stored: &str,
) -> Result<Look, Failure> {
    let envelope = Envelope::read(stored.as_bytes())
        .map_err(|why| Failure::new(Code::Internal, format!("an event cannot be read: {why}")))?;
    if subscription.oldest_ms.is_some_and(|oldest| envelope.occurred_ms < oldest) {
        return Ok(Look::Skipped);
    }
    let data = match payload(native, subscription, &envelope).await {
        Ok(Some(data)) => data,
        Ok(None) => return Ok(Look::Other),
        Err(why) if matches!(why.status, 404 | 410) => return Ok(Look::Skipped),
        // A later try succeeds.
        Err(why) if why.retryable => return Err(why),
        // A damaged row must not hold up the events after it.
        Err(why) => {
            let mut data = ids(subscription, &envelope);
            data.insert("unreadable".to_owned(), why.code.into());
            data
        }
    };
    Ok(Look::Occurred(json!({
        "eventId": envelope.event_id,
        "name": subscription.event.name,
        "timestamp": format_ms(envelope.occurred_ms),
        "data": data,
    })))
}

/// What the event itself names.
fn ids(subscription: &Subscription, envelope: &Envelope<'_>) -> Map<String, Value> {
    let mut data = Map::new();
    data.insert("untrusted".to_owned(), PAYLOAD_NOTICE.into());
    data.insert("run".to_owned(), json!(envelope.run_id));
    insert(&mut data, "task", envelope.task_id.map(|id| id.to_string()));
    insert(&mut data, "session", envelope.session_id.map(|id| id.to_string()));
    match subscription.event.subject {
        Subject::Run => {
            let status = envelope.type_name.strip_prefix("run.").map(str::to_owned);
            insert(&mut data, "status", status);
        }
        Subject::Approval => {
            data.insert("kind".to_owned(), "approval".into());
            insert(&mut data, "id", approval_id(envelope));
        }
    }
    data
}

fn approval_id(envelope: &Envelope<'_>) -> Option<String> {
    let data: Value = serde_json::from_str(envelope.data).ok()?;
    data["approval_id"].as_str().map(str::to_owned)
}

/// The payload; `None` if the event is not of the agent that the subscription names.
async fn payload(
    native: &Native,
    subscription: &Subscription,
    envelope: &Envelope<'_>,
) -> Result<Option<Map<String, Value>>, Failure> {
    let mut data = ids(subscription, envelope);
    let One { data: run, .. }: One<Run> = native.get(&["runs", &envelope.run_id.to_string()], &[]).await?;
    if let Some(agent) = subscription.args.text("agent")
        && !name_begins(run.agent_name.as_deref(), Some(agent))
    {
        return Ok(None);
    }
    let short = |text: Option<String>| text.map(|text| cut(&text, limits::FIELD_CHARS_MAX));
    insert(&mut data, "title", short(run.title));
    insert(&mut data, "agent", short(run.agent_name));
    match subscription.event.subject {
        Subject::Run => {
            insert(&mut data, "ending", short(run.ending));
            data.insert("turns".to_owned(), run.turns.into());
            data.insert("cost_micros_usd".to_owned(), run.cost_micros_usd.into());
        }
        Subject::Approval => {
            let id = approval_id(envelope).unwrap_or_default();
            let One { data: approval, .. }: One<Approval> = native.get(&["approvals", &id], &[]).await?;
            // In older stores two runs may use one id.
            if approval.run_id != envelope.run_id.to_string() {
                return Ok(Some(data));
            }
            insert(&mut data, "status", Some(approval.status));
            insert(&mut data, "tool", short(Some(approval.kind)));
            insert(&mut data, "summary", short(Some(approval.summary)));
            insert(&mut data, "risk_level", approval.risk_level);
            insert(&mut data, "shown_digest", approval.shown_digest);
        }
    }
    Ok(Some(data))
}

fn insert(data: &mut Map<String, Value>, name: &str, value: Option<String>) {
    data.extend(value.map(|value| (name.to_owned(), value.into())));
}

/// A failure of the native face as the extension spells it.
pub(crate) fn error(failure: &Failure) -> RpcError {
    let code = match failure.status {
        _ if failure.is(&[Code::ScopeMissing]) => ErrorCode::Forbidden,
        _ if failure.is(&[Code::TooManyStreams]) => ErrorCode::ResourceExhausted,
        // Pruned since the cursor was checked: a later try continues after it.
        _ if failure.is(&[Code::CursorPruned]) => ErrorCode::Internal,
        500.. => ErrorCode::Internal,
        _ => ErrorCode::InvalidParams,
    };
    let mut data = json!(failure);
    if code == ErrorCode::ResourceExhausted {
        data["limit"] = "open streams".into();
    }
    let message = format!("{}: {}", failure.code, failure.detail);
    RpcError { data: Some(data), ..RpcError::new(code, 200, message) }
}
