//! Facts of a run row that the rules do not track: the source of an external run, and the number of turns without
//! cost. It must not know who recorded a run. Start with [`RecorderFields::event`].

use recount_event::family::run::Driver;
use recount_event::{Event, Payload};
use serde::Deserialize;

use crate::limits;

/// The event in which a recorder names its source.
pub(crate) const SOURCE_EVENT: &str = "ext.recount.source";

#[derive(Default)]
pub(crate) struct RecorderFields {
    pub(crate) source: Option<String>,
    pub(crate) unpriced_turns: u64,
    is_external: bool,
    changed: bool,
}

/// The fields of a source event that a row shows.
#[derive(Deserialize)]
struct Source {
    source: String,
}

impl RecorderFields {
    /// Adds one event, and returns whether a fact changed.
    pub(crate) fn event(&mut self, event: &Event) -> bool {
        let changes = match event.payload() {
            Payload::RunQueued(queued) => {
                self.is_external = queued.driver == Driver::External;
                false
            }
            Payload::Opaque(other)
                if self.is_external && self.source.is_none() && &*other.type_name == SOURCE_EVENT =>
            {
                self.source = source(&other.data);
                self.source.is_some()
            }
            Payload::TurnCompleted(turn) if turn.cost_micros_usd.is_none() => {
                self.unpriced_turns += 1;
                true
            }
            // A rebuilt catalogue does not see the pruned events.
            Payload::GapEventsPruned(_) => {
                self.source = None;
                self.unpriced_turns = 0;
                true
            }
            _ => false,
        };
        self.changed |= changes;
        changes
    }

    /// Whether a fact changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

/// The name of a source. `None` if it is empty or too long.
fn source(data: &str) -> Option<String> {
    let Source { source } = serde_json::from_str(data).ok()?;
    let fits = !source.trim().is_empty() && source.chars().count() <= limits::SOURCE_CHARS_MAX;
    fits.then_some(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_short_text_is_a_source() {
        let data = |name: &str| format!(r#"{{"source":"{name}","version":"2.1","shows":["text"]}}"#);
        assert_eq!(source(&data("claude-code-hooks")).as_deref(), Some("claude-code-hooks"));
        assert_eq!(source(&data(&"x".repeat(limits::SOURCE_CHARS_MAX))).map(|name| name.len()), Some(64));
        for none in [data(" "), data(&"x".repeat(65)), "{}".into(), r#"{"source":1}"#.into(), "[]".into()] {
            assert_eq!(source(&none), None, "{none}");
        }
    }
}
