//! Checks output of a session: consecutive chunks, and one last chunk.

use unicode_segmentation::UnicodeSegmentation;

use super::event_context::{EventContext, evict_settled};
use super::states::{Speaker, or_idle};
use crate::field::Field;
use crate::hash::hash_text;
use crate::limits;
use crate::reading::Reading;
use crate::rule::{self, Findings};

/// One output of a session.
pub(super) struct Output {
    /// Hash of `output_id`; 0 for output without an id.
    id: u64,
    /// Position of the next chunk, in characters and in UTF-16 units.
    points: i64,
    units: i64,
    last: i64,
    /// The number of the event that opened it.
    pub(super) opened_by: u64,
    pub(super) done: bool,
    /// The end of the last chunk, if the next chunk could continue its last character.
    tail: String,
}

/// Checks a chunk; returns whether its output is tracked.
pub(super) fn add_chunk(
    outputs: &mut Vec<Output>,
    speaker: &Speaker,
    context: EventContext,
    event: &Reading<'_>,
    findings: &mut Findings,
) -> bool {
    let text = event.doc().text();
    let id = event.text(Field::OutputId).map_or(0, |id| hash_text(context.seed, id.as_bytes()));
    let complete = event.bool(Field::Complete) == Some(true);
    let at = match outputs.iter().rposition(|output| output.id == id) {
        Some(at) => at,
        None => {
            if !speaker.is_in("writing_output") {
                let message = || format!("the state is `{}`", or_idle(&speaker.state));
                findings.add(&rule::STATE_OUTPUT, text, Some(event.node()), String::new, message);
            }
            if outputs.iter().any(|output| (output.id == 0) != (id == 0)) {
                let message =
                    || "some chunks of the session have an `output_id` and others have none".to_owned();
                let node = event.get(Field::OutputId).or(Some(event.node()));
                findings.add(&rule::STREAM_ID_MIXED, text, node, || "output_id".into(), message);
            }
            if !evict_settled(outputs, |output| output.done) {
                return false;
            }
            outputs.push(Output {
                id,
                points: 0,
                units: 0,
                last: 0,
                opened_by: context.event_number,
                done: false,
                tail: String::new(),
            });
            outputs.len() - 1
        }
    };
    let output = &mut outputs[at];
    if output.done {
        let (rule, what) = if complete {
            (&rule::STREAM_COMPLETE_TWICE, "a second last chunk")
        } else {
            (&rule::STREAM_AFTER_COMPLETE, "a chunk after the last one")
        };
        findings.add(rule, text, event.get(Field::Complete), || "complete".into(), || what.to_owned());
        return true;
    }
    check_cut(output, event, findings);
    let (points, units) = event.get(Field::Chunk).map_or((0, 0), crate::json::Node::lengths);
    let (points, units) =
        (i64::try_from(points).unwrap_or(i64::MAX), i64::try_from(units).unwrap_or(i64::MAX));
    if let Some(position) = event.int(Field::Position) {
        let node = event.get(Field::Position);
        let path = || "position".to_owned();
        if position < output.last {
            let message = || format!("{position} after {}", output.last);
            findings.add(&rule::POSITION_FALLS, text, node, path, message);
            (output.points, output.units) = (position, position);
        } else if position == output.points {
        } else if position == output.units {
            let message =
                || format!("{position} counts UTF-16 units; {} characters came before", output.points);
            findings.add(&rule::POSITION_UNIT, text, node, path, message);
        } else {
            let message = || format!("{position}; {} characters came before", output.points);
            findings.add(&rule::POSITION_EXACT, text, node, path, message);
            (output.points, output.units) = (position, position);
        }
        output.last = position;
    }
    output.points = output.points.saturating_add(points);
    output.units = output.units.saturating_add(units);
    output.done = complete;
    true
}

/// Reports a chunk that continues the last character of the chunk before it.
fn check_cut(output: &mut Output, event: &Reading<'_>, findings: &mut Findings) {
    let Some(node) = event.get(Field::Chunk).filter(|node| !node.raw().is_empty()) else { return };
    let tail = std::mem::take(&mut output.tail);
    if node.is_ascii() {
        // No ASCII character continues another one.
        return;
    }
    let chunk = node.str().unwrap_or_default();
    let first = chunk.chars().next().unwrap_or_default();
    // Chunks that begin with a mark or follow a joiner are reported as single events.
    let is_reported = rule::is_combining(first) || tail.ends_with('\u{200D}');
    if !tail.is_empty() && !is_reported && format!("{tail}{first}").graphemes(true).nth(1).is_none() {
        let message = || "begins inside a character of the previous chunk".to_owned();
        let text = event.doc().text();
        findings.add(&rule::CHARACTER_CUT, text, Some(node), || "chunk".into(), message);
    }
    let last = chunk.graphemes(true).next_back().unwrap_or_default();
    if last.len() <= limits::CHARACTER_BYTES_MAX {
        output.tail.push_str(last);
    }
}

/// Reports outputs without a last chunk at the end of a session.
pub(super) fn check_end(outputs: &[Output], event: &Reading<'_>, findings: &mut Findings) {
    let open = outputs.iter().filter(|output| !output.done).count();
    if open > 0 {
        let message =
            || format!("{open} {} no last chunk", if open == 1 { "output has" } else { "outputs have" });
        findings.add(&rule::STREAM_OPEN, event.doc().text(), Some(event.node()), String::new, message);
    }
}
