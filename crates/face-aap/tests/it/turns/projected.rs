//! Projects a run for the tests: its segments, the streams of each segment, and the lines of its history.

use std::collections::BTreeSet;

use bytes::BytesMut;
use recount_event::family::tool::Executor;
use recount_event::{Event, ForeignId, Payload};
use recount_face_aap::project::{
    Frame, FrameId, Gathered, Mode, Pictures, Projector, history_message, line_pictures, opens_segment,
};
use recount_run::view::{Block, BlockStatus, History, Line, Placed};
use serde_json::Value;

/// A part of a run that is one turn: where it opens, and where it closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) opening: u64,
    pub(crate) close: u64,
}

/// The closed segments, by the rules of the grammar.
pub(crate) fn segments(events: &[Event]) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut open = None;
    for event in events {
        if opens_segment(event) {
            assert_eq!(open.replace(event.sequence), None, "two segments are open");
        }
        let closes =
            matches!(event.type_name(), "run.waiting" | "run.finished" | "run.failed" | "run.cancelled");
        if let Some(opening) = open.filter(|_| closes) {
            segments.push(Segment { opening, close: event.sequence });
            open = None;
        }
    }
    segments
}

/// All frames of a segment, projected from the first event of the run.
pub(crate) fn frames(events: &[Event], mode: Mode, opening: u64) -> Vec<Frame> {
    let mut projector = Projector::new(mode, opening);
    let frames = events.iter().flat_map(|event| projector.event(event)).collect();
    assert!(projector.is_over());
    frames
}

/// Pictures for all named ids.
pub(crate) fn pictures<'a>(named: impl IntoIterator<Item = &'a ForeignId>) -> Pictures {
    let mut pictures = Pictures::default();
    for id in named {
        pictures.put(id.clone(), format!("data:image/png;base64,{id}"));
    }
    pictures
}

pub(crate) fn bytes(frames: &[Frame]) -> Vec<u8> {
    let mut out = BytesMut::new();
    for frame in frames {
        frame.write(&pictures(frame.pictures().map(|picture| &picture.artifact_id)), &mut out);
    }
    out.to_vec()
}

/// The frames after the frame `last`.
pub(crate) fn rest(frames: Vec<Frame>, last: FrameId) -> Vec<Frame> {
    frames.into_iter().filter(|frame| !frame.is_through(last)).collect()
}

/// The encoded reply of a segment.
pub(crate) fn reply(events: &[Event], opening: u64) -> String {
    let mut gathered = Gathered::new(opening);
    for event in events {
        gathered.event(event);
    }
    assert!(gathered.is_over());
    let pictures = pictures(gathered.pictures().map(|picture| &picture.artifact_id));
    serde_json::to_string(&gathered.response(&pictures).unwrap()).unwrap()
}

pub(crate) fn history(events: &[Event]) -> Vec<Placed> {
    let mut history = History::new();
    events.iter().for_each(|event| history.event(event));
    history.full().cloned().collect()
}

/// An encoded line of the history.
pub(crate) fn message(line: &Line) -> String {
    let named = line_pictures(line);
    let pictures = pictures(named.iter().map(|picture| &picture.artifact_id));
    serde_json::to_string(&history_message(line, &pictures)).unwrap()
}

/// Calls that the application executes.
pub(crate) fn client_calls(events: &[Event]) -> BTreeSet<ForeignId> {
    let client = |event: &Event| match event.payload() {
        Payload::ToolInvoked(invoked) if invoked.executor == Some(Executor::Client) => {
            Some(invoked.tool_call_id.clone())
        }
        _ => None,
    };
    events.iter().filter_map(client).collect()
}

/// The history without abandoned responses and the results of their calls.
pub(crate) fn counting(history: &[Placed]) -> Vec<Placed> {
    let mut dropped = BTreeSet::new();
    let mut counting = Vec::new();
    for placed in history {
        let mut placed = placed.clone();
        match &mut placed.line {
            Line::Assistant { blocks } => {
                blocks.retain(|answer| {
                    let is_abandoned = answer.status == BlockStatus::Abandoned;
                    if let (true, Block::ToolUse { tool_call_id, .. }) = (is_abandoned, &answer.block) {
                        dropped.insert(tool_call_id.clone());
                    }
                    !is_abandoned
                });
                if blocks.is_empty() {
                    continue;
                }
            }
            Line::Tool { tool_call_id, .. } if dropped.contains(tool_call_id) => continue,
            Line::Tool { .. } | Line::User { .. } => {}
        }
        counting.push(placed);
    }
    counting
}

/// All text that a segment generated, with abandoned responses and their notes.
pub(crate) fn text_of_all(history: &[Placed], segment: Segment) -> String {
    let mut text = String::new();
    for placed in
        history.iter().filter(|placed| segment.opening <= placed.sequence && placed.sequence <= segment.close)
    {
        let Line::Assistant { blocks } = &placed.line else { continue };
        for answer in blocks {
            if let Block::Text(piece) = &answer.block {
                text += piece;
            }
        }
    }
    text
}

/// The messages that a segment generated: messages of the agent and results of server calls.
pub(crate) fn generated(history: &[Placed], own: &BTreeSet<ForeignId>, segment: Segment) -> Vec<Value> {
    let within = |placed: &&Placed| {
        let place = segment.opening <= placed.sequence && placed.sequence <= segment.close;
        place
            && match &placed.line {
                Line::User { .. } => false,
                Line::Assistant { .. } => true,
                Line::Tool { tool_call_id, .. } => !own.contains(tool_call_id),
            }
    };
    history
        .iter()
        .filter(within)
        .map(|placed| serde_json::from_str(&message(&placed.line)).unwrap())
        .collect()
}
