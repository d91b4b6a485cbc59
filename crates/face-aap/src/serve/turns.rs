//! Routes for turns: create, follow, show, cancel. Start with [`create_turn`].

use ::http::{HeaderMap, StatusCode};
use axum::body::Body;
use axum::extract::{OriginalUri, RawQuery};
use axum::response::Response;
use recount_engine::{RequestResult, Scope};
use recount_event::{Code, RunId, SessionId};
use recount_run::{CancelledBy, Command};
use serde::Serialize;

use super::answers::Answered;
use super::caller::Face;
use super::events::events;
use super::http::{HandlerResult, Ids, body_bytes, empty, json};
use super::idempotency::{IdempotentRequest, replayed};
use super::originals::Originals;
use super::stream::{TurnStreamRequest, over, streamed, whole};
use super::turn_setup::TurnSetup;
use super::{answers, latest, pictures, user_message};
use crate::accept::{self, CallResponse, TurnInput};
use crate::error::Refusal;
use crate::limits;
use crate::project::{FrameId, Gathered, Mode, Projector, TurnId, opens_segment};
use crate::turn_header;
use crate::wire::{
    Awaiting, HistoryMessage, PostSessionTurnRequest, StopReason, StreamMode, TurnError, Usage,
};

pub(super) async fn create_turn(
    face: Face,
    Ids(session): Ids<String>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Body,
) -> HandlerResult {
    face.may(Scope::Run)?;
    let session = face.session_id(&session)?;
    let row = face.setup(session).await?;
    let place = face.place()?;
    let bytes = body_bytes(&headers, body).await?;
    let turn_request: PostSessionTurnRequest = accept::body(&bytes)?;
    let mode = turn_request.stream;
    let idempotent = IdempotentRequest::of(&face, &uri, &headers, &bytes).await?;
    if let Some(turn) = idempotent.created.as_ref().and_then(earlier_turn) {
        let originals = Originals::new(&face, turn.run, &row.setup.client_tools);
        let request = TurnStreamRequest { session, turn, last: None, place, originals };
        return Ok(replayed(respond(&face, request, mode).await?));
    }
    let profile = face.profile(&row.setup.agent)?;
    let accept::Turn { change, input, .. } = accept::turn(turn_request, &row.setup, profile)?;
    face.may_trust(change.overrides.tools.as_deref())?;
    let client_tools = change.setup.client_tools.clone();
    let traceparent = accept::traceparent(headers.get("traceparent"));
    let turn_setup =
        TurnSetup { face: &face, session, row, profile, change, traceparent, idempotent: &idempotent };
    let turn = match input {
        TurnInput::Message(content) => user_message::message(turn_setup, content).await?,
        TurnInput::Answers(answers) => {
            if answers.iter().any(|answer| answer.response == CallResponse::Granted) {
                face.may(Scope::Approve)?;
            }
            match answers::answer(turn_setup, answers).await? {
                Answered::Turn(turn) => turn,
                Answered::Ended(why) => return Ok(over(why, mode)),
            }
        }
    };
    drop(idempotent);
    let originals = Originals::new(&face, turn.run, &client_tools);
    respond(&face, TurnStreamRequest { session, turn, last: None, place, originals }, mode).await
}

async fn respond(face: &Face, request: TurnStreamRequest, mode: StreamMode) -> Result<Response, Refusal> {
    match mode {
        StreamMode::None => whole(face, request).await,
        StreamMode::Message => streamed(face, request, Mode::Message).await,
        StreamMode::Delta => streamed(face, request, Mode::Delta).await,
    }
}

/// The turn that an earlier request started: its run, or the event at which its answer continued a run.
fn earlier_turn(created: &RequestResult) -> Option<TurnId> {
    match created {
        RequestResult::Run(run) => Some(TurnId { run: *run, opening: 0 }),
        RequestResult::ChangedAt(run, opening) => Some(TurnId { run: *run, opening: *opening }),
        RequestResult::Task(_)
        | RequestResult::Session(_)
        | RequestResult::Artifact(_)
        | RequestResult::PrunedRun { .. }
        | RequestResult::Pruned { .. }
        | RequestResult::Swept { .. } => None,
    }
}

// ---- existing turns -------------------------------------------------------------------------------

pub(super) async fn watch_turn(
    face: Face,
    Ids((session, turn)): Ids<(String, String)>,
    RawQuery(raw): RawQuery,
    headers: HeaderMap,
) -> HandlerResult {
    face.may(Scope::Read)?;
    let session = face.session_id(&session)?;
    let setup = face.setup(session).await?.setup;
    let mode = match accept::watching(raw.as_deref())? {
        StreamMode::Message => Mode::Message,
        StreamMode::Delta | StreamMode::None => Mode::Delta,
    };
    let last = accept::last_event_id(&headers)?;
    let turn = find(&face, session, &turn).await?;
    if let Some(last) = last
        && is_last(&face, turn, mode, last).await?
    {
        return Ok(empty());
    }
    let place = face.place()?;
    let originals = Originals::new(&face, turn.run, &setup.client_tools);
    streamed(&face, TurnStreamRequest { session, turn, last, place, originals }, mode).await
}

/// A turn and its state.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TurnState {
    turn_id: String,
    /// `running` or `stopped`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<StopReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<HistoryMessage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<TurnError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    awaiting: Option<Awaiting>,
}

const RUNNING: &str = "running";
const STOPPED: &str = "stopped";

/// The whole blocks that the turn has generated so far, and why it stopped if it did.
pub(super) async fn get_turn(face: Face, Ids((session, turn)): Ids<(String, String)>) -> HandlerResult {
    face.may(Scope::Read)?;
    let session = face.session_id(&session)?;
    let setup = face.setup(session).await?.setup;
    let turn = find(&face, session, &turn).await?;
    let gathered = gathered(&face, turn).await?;
    let wanted: Vec<_> = gathered.pictures().cloned().collect();
    let pictures = pictures::of(&face.engine, session, wanted).await?;
    let turn_id = turn.to_string();
    let mut shown = match gathered.response(&pictures) {
        Some(reply) => TurnState {
            turn_id,
            status: STOPPED,
            stop_reason: Some(reply.stop_reason),
            messages: Some(reply.messages),
            usage: reply.usage,
            error: reply.error,
            awaiting: reply.awaiting,
        },
        None => {
            let so_far = gathered.broken_off(running(), &pictures);
            TurnState { messages: Some(so_far.messages), ..TurnState::only(turn_id, RUNNING) }
        }
    };
    let mut originals = Originals::new(&face, turn.run, &setup.client_tools);
    for message in shown.messages.iter_mut().flatten() {
        originals.restore_message(message).await?;
    }
    let mut response = json(StatusCode::OK, &shown);
    turn_header::name(&mut response, turn);
    Ok(response)
}

/// Why the reply of a running turn is incomplete; never sent.
fn running() -> TurnError {
    TurnError { code: RUNNING.into(), message: RUNNING.into(), retryable: true }
}

impl TurnState {
    fn only(turn_id: String, status: &'static str) -> Self {
        TurnState {
            turn_id,
            status,
            stop_reason: None,
            messages: None,
            usage: None,
            error: None,
            awaiting: None,
        }
    }
}

/// Stops a running turn, or abandons the waiting of the last turn of a run. A stopped turn does not change: a repeated
/// request gets the same response.
pub(super) async fn cancel_turn(face: Face, Ids((session, turn)): Ids<(String, String)>) -> HandlerResult {
    face.may(Scope::Run)?;
    let session = face.session_id(&session)?;
    face.setup(session).await?;
    let turn = find(&face, session, &turn).await?;
    let is_last = match stop_of(&face, turn).await? {
        None => true,
        Some(stop) => !has_later_turn(&face, turn.run, stop + 1).await?,
    };
    if is_last {
        let reason = format!("cancelled by {}", face.caller.name);
        let command = Command::Cancel { by: CancelledBy::Operator, reason };
        match face.engine.write().submit(turn.run, command).await {
            Ok(_) => {}
            Err(error) if error.code() == Code::RunEnded => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(json(StatusCode::OK, &TurnState::only(turn.to_string(), STOPPED)))
}

/// Collects a turn as far as it is in the log.
async fn gathered(face: &Face, turn: TurnId) -> Result<Gathered, Refusal> {
    let mut gathered = Gathered::new(turn.opening);
    let mut from = turn.opening;
    loop {
        let page = events(face, turn.run, from, limits::PAGE_EVENTS).await?;
        let Some(last) = page.last() else { return Ok(gathered) };
        from = last.sequence + 1;
        for event in &page {
            gathered.event(event);
            if gathered.is_over() {
                return Ok(gathered);
            }
        }
    }
}

/// The event at which a turn stopped.
async fn stop_of(face: &Face, turn: TurnId) -> Result<Option<u64>, Refusal> {
    let mut projector = Projector::new(Mode::Message, turn.opening);
    let mut from = turn.opening;
    loop {
        let page = events(face, turn.run, from, limits::PAGE_EVENTS).await?;
        let Some(last) = page.last() else { return Ok(None) };
        from = last.sequence + 1;
        for event in &page {
            projector.event(event);
            if projector.is_over() {
                return Ok(Some(event.sequence));
            }
        }
    }
}

/// Whether another turn of the run starts at or after an event. Answers of other clients start none.
async fn has_later_turn(face: &Face, run: RunId, mut from: u64) -> Result<bool, Refusal> {
    loop {
        let page = events(face, run, from, limits::PAGE_EVENTS).await?;
        let Some(last) = page.last() else { return Ok(false) };
        if page.iter().any(opens_segment) {
            return Ok(true);
        }
        from = last.sequence + 1;
    }
}

/// In a path: the newest turn of the session, running or stopped.
const LATEST: &str = "latest";

/// The turn of a session that a path names.
pub(super) async fn find(face: &Face, session: SessionId, text: &str) -> Result<TurnId, Refusal> {
    if text == LATEST {
        return latest::turn(face, session).await?.ok_or_else(|| accept::no_turn(text));
    }
    let turn = accept::turn_id(text)?;
    let row = face.engine.catalogue().run(turn.run).await?;
    if row.is_none_or(|row| row.session_id != Some(session)) {
        return Err(accept::no_turn(text));
    }
    match events(face, turn.run, turn.opening, 1).await {
        Ok(events) if events.first().is_some_and(opens_segment) => Ok(turn),
        Ok(_) => Err(accept::no_turn(text)),
        Err(refusal) if refusal.code == Code::CursorAhead => Err(accept::no_turn(text)),
        Err(refusal) => Err(refusal),
    }
}

/// Whether a client with this frame has the whole turn. Refuses a frame that is not part of the turn in this mode,
/// because resuming from it could skip frames.
async fn is_last(face: &Face, turn: TurnId, mode: Mode, last: FrameId) -> Result<bool, Refusal> {
    let tail = face.engine.read().tail(turn.run).await?.unwrap_or(0);
    if last.sequence >= tail {
        let detail = format!("the frame {last} was never sent; send the id of the last received frame");
        return Err(Refusal::new(Code::CursorAhead, detail));
    }
    let mut projector = Projector::new(mode, turn.opening);
    let mut from = turn.opening;
    while from <= last.sequence && !projector.is_over() {
        let page = events(face, turn.run, from, limits::PAGE_EVENTS).await?;
        let Some(end) = page.last().map(|event| event.sequence) else { break };
        for event in page.iter().take_while(|event| event.sequence <= last.sequence) {
            let frames = projector.event(event);
            if frames.iter().any(|frame| frame.id == Some(last)) {
                return Ok(projector.is_over() && frames.iter().all(|frame| frame.is_through(last)));
            }
            if projector.is_over() {
                break;
            }
        }
        from = end + 1;
    }
    let detail = format!(
        "the frame {last} is not part of turn {turn} in this mode; send the id of the last received frame \
         and the same mode"
    );
    Err(Refusal::new(Code::CursorForeign, detail))
}
