//! The source of an event stream: one run, the feed, or the filtered feed. See [`Source`].
//!
//! It must not know how a stream is opened or resumed.

use recount_api::query;

/// What is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// One run, by id; cursors are sequences.
    Run(String),
    /// All runs; cursors are positions.
    Feed,
    /// The same, of what passes.
    FeedOf(Filter),
}

/// What is wanted of the feed; where a part is empty it does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Names of types, or what they begin with and a star.
    pub types: Vec<String>,
    pub runs: Vec<String>,
    pub tasks: Vec<String>,
    pub sessions: Vec<String>,
    pub kinds: Vec<String>,
    pub statuses: Vec<String>,
}

impl Filter {
    /// Each parameter with its words.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&'static str, String)> {
        let parts = [
            (query::TYPE, &self.types),
            (query::RUN_ID, &self.runs),
            (query::TASK_ID, &self.tasks),
            (query::SESSION_ID, &self.sessions),
            (query::KIND, &self.kinds),
            (query::STATUS, &self.statuses),
        ];
        parts.into_iter().filter(|(_, words)| !words.is_empty()).map(|(name, words)| (name, words.join(",")))
    }
}
