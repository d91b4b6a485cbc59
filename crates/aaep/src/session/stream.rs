//! Checks output of a session: consecutive chunks, and one last chunk.

use super::event_context::{EventContext, evict_settled};
use super::states::{Speaker, or_idle};
use crate::field::Field;
use crate::hash::hash_text;
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

/// Reports outputs without a last chunk at the end of a session.
pub(super) fn check_end(outputs: &[Output], event: &Reading<'_>, findings: &mut Findings) {
    let open = outputs.iter().filter(|output| !output.done).count();
    if open > 0 {
        let message =
            || format!("{open} {} no last chunk", if open == 1 { "output has" } else { "outputs have" });
        findings.add(&rule::STREAM_OPEN, event.doc().text(), Some(event.node()), String::new, message);
    }
}
