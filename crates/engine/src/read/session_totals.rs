//! How a session stands: what its latest run does, and what all of them have used.
//!
//! The row of a run that goes on from another counts what was used before it, too; here each run counts for what it
//! has used itself. Look at [`ReadHandle::session_standing`].

use recount_event::SessionId;

use crate::boxed;
use crate::read::handle::ReadHandle;
use crate::{Error, ListQuery, RunRow, limits};

/// See the file's head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionStanding {
    /// The run that was made last.
    pub latest: Option<RunRow>,
    /// How many runs were added up.
    pub runs: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_micros_usd: u64,
}

impl SessionStanding {
    /// `idle`, `running` or `waiting`.
    pub fn status(&self) -> &'static str {
        match self.latest.as_ref().filter(|run| !run.has_ended()) {
            None => "idle",
            Some(run) if run.status == recount_run::Status::Waiting.as_str() => "waiting",
            Some(_) => "running",
        }
    }
}

impl ReadHandle {
    /// Adds up the runs of a session, the latest first, up to a bound.
    #[boxed]
    pub async fn session_standing(&self, session: SessionId) -> Result<SessionStanding, Error> {
        let query = ListQuery { limit: limits::STANDING_RUNS_MAX, ..ListQuery::default() };
        let runs = self.catalogue().list_session_runs(session, &query).await?.items;
        let mut standing = SessionStanding { runs: runs.len() as u64, ..SessionStanding::default() };
        for run in &runs {
            let [input, output, cost] = self.used_before(run).await?;
            standing.input_tokens += run.input_tokens.saturating_sub(input);
            standing.output_tokens += run.output_tokens.saturating_sub(output);
            standing.cost_micros_usd += run.cost_micros_usd.saturating_sub(cost);
        }
        standing.latest = runs.into_iter().next();
        Ok(standing)
    }

    /// What was used before a run and counts in its row: tokens in and out, and money.
    async fn used_before(&self, run: &RunRow) -> Result<[u64; 3], Error> {
        if run.prior_run_id.is_none() {
            return Ok([0; 3]);
        }
        let Some(queued) = self.queued(run.id).await? else { return Ok([0; 3]) };
        let prior = [queued.prior_input_tokens, queued.prior_output_tokens, queued.prior_cost_micros_usd];
        Ok(prior.map(Option::unwrap_or_default))
    }
}
