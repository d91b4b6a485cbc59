//! Ids of traces and spans, derived from the ids of runs, turns, calls and prompts: the same after a restart and for a
//! repeated export, so that a repeated span replaces itself.
//!
//! Pure. Start with [`Origin`] and [`SpanName::id`].

use recount_event::{ForeignId, PromptName, RunId};

pub type TraceId = [u8; 16];
pub type SpanId = [u8; 8];

/// Where the span of a run belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    pub trace: TraceId,
    /// None for the first span of a trace.
    pub parent: Option<SpanId>,
}

/// The run and the call that started a child run, and the first run of the family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ancestry {
    pub first_run: RunId,
    pub parent_run: RunId,
    pub call: ForeignId,
}

/// Names a span within its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanName<'a> {
    Run,
    /// An attempt of a turn, both counted from 0.
    Turn {
        index: u64,
        attempt: u64,
    },
    Call(&'a ForeignId),
    Prompt(&'a PromptName),
}

impl Origin {
    /// `traceparent` is the trace of the request that created the run. A child run has the one of its parent, and
    /// belongs below the call that started it.
    pub fn of(run: RunId, traceparent: Option<&str>, ancestry: Option<&Ancestry>) -> Origin {
        let requested = traceparent.and_then(parse_traceparent);
        let derived = || derive_trace(ancestry.map_or(run, |ancestry| ancestry.first_run));
        Origin {
            trace: requested.map_or_else(derived, |(trace, _)| trace),
            parent: match ancestry {
                Some(above) => Some(SpanName::Call(&above.call).id(above.parent_run)),
                None => requested.map(|(_, parent)| parent),
            },
        }
    }
}

impl SpanName<'_> {
    pub fn id(&self, run: RunId) -> SpanId {
        let mut hash = blake3::Hasher::new_derive_key("recount 2026 OpenTelemetry span id");
        hash.update(&run.ulid().to_bytes());
        match self {
            SpanName::Run => hash.update(b"run"),
            SpanName::Turn { index, attempt } => {
                hash.update(b"turn").update(&index.to_le_bytes()).update(&attempt.to_le_bytes())
            }
            SpanName::Call(id) => hash.update(b"call").update(id.as_str().as_bytes()),
            SpanName::Prompt(name) => {
                hash.update(name.kind.as_str().as_bytes()).update(b":").update(name.id.as_str().as_bytes())
            }
        };
        let mut id = SpanId::default();
        hash.finalize_xof().fill(&mut id);
        // All zeros is not a valid id.
        if id == SpanId::default() { [1; 8] } else { id }
    }
}

fn derive_trace(run: RunId) -> TraceId {
    let mut hash = blake3::Hasher::new_derive_key("recount 2026 OpenTelemetry trace id");
    hash.update(&run.ulid().to_bytes());
    let mut id = TraceId::default();
    hash.finalize_xof().fill(&mut id);
    if id == TraceId::default() { [1; 16] } else { id }
}

/// The trace and the span of a `traceparent` header; `None` if it is invalid.
fn parse_traceparent(text: &str) -> Option<(TraceId, SpanId)> {
    let mut parts = text.split('-').skip(1);
    let (trace, parent) = (hex(parts.next()?)?, hex(parts.next()?)?);
    (trace != TraceId::default() && parent != SpanId::default()).then_some((trace, parent))
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(last: char) -> RunId {
        format!("run_01KQPVTMD3J3EQPNZXHCZRNBX{last}").parse().unwrap()
    }

    /// Backends hold these ids: they must never change.
    #[test]
    fn ids_are_the_same_in_every_release() {
        let call = ForeignId::parse("call_1").unwrap();
        let prompt = recount_event::PromptKind::Approval.named(&ForeignId::parse("appr_1").unwrap());
        let ids = [
            SpanName::Run,
            SpanName::Turn { index: 1, attempt: 0 },
            SpanName::Turn { index: 1, attempt: 1 },
            SpanName::Call(&call),
            SpanName::Prompt(&prompt),
        ];
        let ids = ids.map(|name| format!("{:016x}", u64::from_be_bytes(name.id(run('8')))));
        let trace = u128::from_be_bytes(Origin::of(run('8'), None, None).trace);
        assert_eq!(format!("{trace:032x}"), "c360fba8752d1837a6ac1a76c90f47dc");
        let expected = [
            "d131b5cba0431163",
            "c45a42344f9c445e",
            "a71a9d74f7e574d5",
            "3ebccd0daf36e3f9",
            "8a52c02f34cb42e6",
        ];
        assert_eq!(ids, expected);
    }

    #[test]
    fn a_child_run_is_below_its_call_in_the_trace_of_its_family() {
        let call = ForeignId::parse("call_1").unwrap();
        let above = Ancestry { first_run: run('1'), parent_run: run('2'), call: call.clone() };
        let child = Origin::of(run('3'), None, Some(&above));
        assert_eq!(child.trace, Origin::of(run('1'), None, None).trace);
        assert_eq!(child.parent, Some(SpanName::Call(&call).id(run('2'))));

        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let top = Origin::of(run('1'), Some(given), None);
        assert_eq!(top.trace[..2], [0x4b, 0xf9]);
        assert_eq!(top.parent, Some([0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]));
        let child = Origin::of(run('3'), Some(given), Some(&above));
        assert_eq!(child.trace, top.trace);
        assert_eq!(child.parent, Some(SpanName::Call(&call).id(run('2'))));
    }

    #[test]
    fn an_invalid_traceparent_is_not_used() {
        let derived = Origin::of(run('1'), None, None);
        for text in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
            "00-xyz92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Origin::of(run('1'), Some(text), None), derived, "{text}");
        }
    }
}
