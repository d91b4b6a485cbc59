//! The source of a recorded run, and the facts that it provides.

use serde_json::{Map, Value};

use crate::draft::Fields;
use crate::kept::short;
use crate::limits;

/// A source of events of another agent. It is written into the run as its first event after `run.started`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The agent in one lower case word, the owner of its extension events: `claude`.
    pub agent: String,
    /// The source: `claude-code-hooks`.
    pub name: String,
    /// The version of the agent, if it is known.
    pub version: Option<String>,
    /// The facts that this source provides.
    pub shows: Vec<String>,
    /// The facts that it cannot provide; their absence in the run means nothing.
    pub does_not_show: Vec<String>,
}

impl Source {
    pub fn new(agent: &str, name: &str, shows: &[&str], does_not_show: &[&str]) -> Self {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        Source {
            agent: agent.to_owned(),
            name: name.to_owned(),
            version: None,
            shows: list(shows),
            does_not_show: list(does_not_show),
        }
    }

    pub fn with_version(mut self, version: Option<String>) -> Self {
        self.version = version;
        self
    }

    /// Takes the lists of a source event that is in the run.
    pub(crate) fn saw(&mut self, data: &Value) {
        let list = |name: &str| -> Option<Vec<String>> {
            Some(data.get(name)?.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        };
        if let (Some(shows), Some(does_not_show)) = (list("shows"), list("does_not_show")) {
            (self.shows, self.does_not_show) = (shows, does_not_show);
        }
    }

    /// The data of `ext.recount.source`.
    pub(crate) fn fields(&self) -> Map<String, Value> {
        let list = |items: &[String]| -> Vec<Value> {
            items.iter().take(64).map(|item| short(item, limits::SENTENCE_BYTES_MAX).into()).collect()
        };
        Fields::new()
            .put("source", short(&self.name, limits::NAME_BYTES_MAX))
            .put("agent", short(&self.agent, limits::NAME_BYTES_MAX))
            .maybe("version", self.version.as_deref().map(|version| short(version, limits::NAME_BYTES_MAX)))
            .put("shows", list(&self.shows))
            .put("does_not_show", list(&self.does_not_show))
            .done()
    }
}
