//! Sends a turn: as a stream of frames, or as one reply when it has stopped. The turn continues when the client
//! disconnects. Start with [`streamed`] and [`whole`].

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ::http::{HeaderValue, StatusCode, header};
use axum::body::Body;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use recount_engine::{Engine, Error, Events, SharedEvent};
use recount_event::{Code, SessionId};
use recount_transport::{Heartbeat, sse};
use recount_world::Kind;

use super::caller::Face;
use super::http::json;
use super::originals::Originals;
use super::{StreamPermit, pictures};
use crate::error::Refusal;
use crate::limits;
use crate::project::{Frame, FrameId, FramePayload, Gathered, Mode, Pictures, Projector, TurnId};
use crate::turn_header::name;
use crate::wire::{StreamMode, TurnError, TurnEvent};

/// A request for the frames of a turn.
pub(super) struct TurnStreamRequest {
    pub(super) session: SessionId,
    pub(super) turn: TurnId,
    /// The last frame that the client has.
    pub(super) last: Option<FrameId>,
    pub(super) place: StreamPermit,
    /// The original inputs of the calls that this reader executes.
    pub(super) originals: Originals,
}

/// Resolves with the last frame when a stream must end.
type End = Pin<Box<dyn Future<Output = Frame> + Send>>;

fn end(face: &Face) -> End {
    let mut shutdown = face.engine.world().tasks.shutdown_signal(Kind::Connection);
    let mut caller = face.caller.clone();
    Box::pin(async move {
        tokio::select! {
            () = shutdown.requested() => Frame::shutting_down(),
            () = caller.revoked() => Frame::broken_off(TurnError {
                code: Code::TokenInvalid.to_string(),
                message: "the token or ticket of this stream was revoked; the turn continues".into(),
                retryable: false,
            }),
        }
    })
}

/// The same for a reply in one piece.
fn error_of(last: Frame) -> Option<TurnError> {
    match last.payload {
        FramePayload::Event(TurnEvent::TurnStop { error, .. }) => error,
        _ => None,
    }
}

/// The error of a stream that ends before its turn.
fn broken(error: Error) -> TurnError {
    match error.code() {
        // Its session was deleted, which cancels its active run.
        Code::RunErased | Code::RunNotFound => TurnError {
            code: "cancelled".into(),
            message: "the session was deleted".into(),
            retryable: false,
        },
        code => {
            let refusal = Refusal::from(error);
            TurnError { code: code.to_string(), message: refusal.detail, retryable: code.row().retryable }
        }
    }
}

/// The log of the run ended before the turn. Only a damaged log does.
fn cut_short(turn: TurnId) -> TurnError {
    TurnError {
        code: Code::Internal.to_string(),
        message: format!("the turn {turn} has no end"),
        retryable: false,
    }
}

async fn follow(engine: &Engine, turn: TurnId) -> Result<Events, Error> {
    engine.read().follow_events(turn.run, turn.opening.checked_sub(1)).await
}

// ---- frame by frame ------------------------------------------------------------------------------

struct Open {
    engine: Engine,
    session: SessionId,
    turn: TurnId,
    events: Events,
    projector: Projector,
    last: Option<FrameId>,
    end: End,
    heartbeat: Heartbeat,
    over: bool,
    originals: Originals,
    _place: StreamPermit,
}

/// A turn as a stream.
pub(super) async fn streamed(
    face: &Face,
    request: TurnStreamRequest,
    mode: Mode,
) -> Result<Response, Refusal> {
    let TurnStreamRequest { session, turn, last, place, originals } = request;
    let open = Open {
        engine: face.engine.clone(),
        session,
        turn,
        events: follow(&face.engine, turn).await?,
        projector: Projector::new(mode, turn.opening),
        last,
        end: end(face),
        heartbeat: Heartbeat::new(limits::HEARTBEAT_EVERY),
        over: false,
        originals,
        _place: place,
    };
    let pieces = stream::unfold(open, |mut open| async move {
        let piece = open.next().await?;
        open.heartbeat.sent();
        Some((Ok::<Bytes, Infallible>(piece), open))
    });
    let mut response = event_stream(Body::from_stream(pieces));
    name(&mut response, turn);
    Ok(response)
}

/// The response without a turn: another client ended the waiting run.
pub(super) fn over(why: TurnError, mode: StreamMode) -> Response {
    if mode == StreamMode::None {
        let reply = Gathered::new(0).broken_off(why, &Pictures::default());
        return json(StatusCode::OK, &reply);
    }
    let start = Frame { id: None, payload: FramePayload::Event(TurnEvent::TurnStart {}) };
    let mut out = BytesMut::new();
    for frame in [start, Frame::broken_off(why)] {
        frame.write(&Pictures::default(), &mut out);
    }
    event_stream(Body::from(out.freeze()))
}

fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(sse::MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Open {
    /// Everything that is ready to send.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        while out.is_empty() {
            if self.over {
                return None;
            }
            tokio::select! {
                biased;
                last = &mut self.end => self.stop(&last, &mut out),
                events = self.events.next() => match events {
                    Ok(Some(events)) => self.send_events(&events, &mut out).await,
                    Ok(None) => self.stop(&Frame::broken_off(cut_short(self.turn)), &mut out),
                    Err(error) => self.stop(&Frame::broken_off(broken(error)), &mut out),
                },
                () = self.heartbeat.due() => out.extend_from_slice(sse::HEARTBEAT),
            }
        }
        Some(out.freeze())
    }

    fn stop(&mut self, last: &Frame, out: &mut BytesMut) {
        self.over = true;
        last.write(&Pictures::default(), out);
    }

    async fn send_events(&mut self, events: &[Arc<SharedEvent>], out: &mut BytesMut) {
        for event in events {
            let frames = self.projector.event(event);
            let mut frames: Vec<Frame> = frames.into_iter().filter(|frame| self.is_new(frame)).collect();
            let wanted: Vec<_> = frames.iter().flat_map(Frame::pictures).cloned().collect();
            let pictures = match wanted.is_empty() {
                true => Pictures::default(),
                false => match pictures::of(&self.engine, self.session, wanted).await {
                    Ok(pictures) => pictures,
                    Err(error) => return self.stop(&Frame::broken_off(broken(error)), out),
                },
            };
            for mut frame in frames.drain(..) {
                if let Err(error) = self.originals.restore_frame(&mut frame).await {
                    return self.stop(&Frame::broken_off(broken(error)), out);
                }
                frame.write(&pictures, out);
            }
            if self.projector.is_over() {
                self.over = true;
                return;
            }
        }
    }

    fn is_new(&self, frame: &Frame) -> bool {
        !self.last.is_some_and(|last| frame.is_through(last))
    }
}

// ---- whole ---------------------------------------------------------------------------------------

/// A turn as one reply, sent when it has stopped. Errors before that are in the reply, as in a stream.
pub(super) async fn whole(face: &Face, request: TurnStreamRequest) -> Result<Response, Refusal> {
    let TurnStreamRequest { session, turn, place, mut originals, .. } = request;
    let mut events = follow(&face.engine, turn).await?;
    let mut gathered = Gathered::new(turn.opening);
    let mut end = end(face);
    let error = loop {
        if gathered.is_over() {
            break None;
        }
        tokio::select! {
            biased;
            last = &mut end => break error_of(last),
            next = events.next() => match next {
                Ok(Some(events)) => events.iter().for_each(|event| gathered.event(event)),
                Ok(None) => break Some(cut_short(turn)),
                Err(error) => break Some(broken(error)),
            },
        }
    };
    drop(place);
    let wanted: Vec<_> = gathered.pictures().cloned().collect();
    let pictures = pictures::of(&face.engine, session, wanted).await?;
    let mut reply = match (error, gathered.response(&pictures)) {
        (None, Some(reply)) => reply,
        (error, _) => gathered.broken_off(error.unwrap_or_else(|| cut_short(turn)), &pictures),
    };
    for message in &mut reply.messages {
        originals.restore_message(message).await?;
    }
    let mut response = json(StatusCode::OK, &reply);
    name(&mut response, turn);
    Ok(response)
}
