//! Session totals: the status of the latest run, and the usage of all runs.
//!
//! The row of a resumed run includes the usage of earlier runs; here each run counts only its own. Start with
//! [`ReadHandle::session_totals`].

use recount_event::SessionId;

use crate::boxed;
use crate::read::handle::ReadHandle;
use crate::{Error, ListQuery, RunRow, limits};

/// The status and usage of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionTotals {
    /// The newest run.
    pub latest: Option<RunRow>,
    /// The number of runs in the totals.
    pub runs: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_micros_usd: u64,
}

impl SessionTotals {
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
    /// The totals of a session's runs, the latest first, up to a limit.
    #[boxed]
    pub async fn session_totals(&self, session: SessionId) -> Result<SessionTotals, Error> {
        let query = ListQuery { limit: limits::SESSION_TOTALS_RUNS_MAX, ..ListQuery::default() };
        let runs = self.catalogue().list_session_runs(session, &query).await?.items;
        let mut totals = SessionTotals { runs: runs.len() as u64, ..SessionTotals::default() };
        for run in &runs {
            let [input, output, cost] = self.used_before(run).await?;
            totals.input_tokens += run.input_tokens.saturating_sub(input);
            totals.output_tokens += run.output_tokens.saturating_sub(output);
            totals.cost_micros_usd += run.cost_micros_usd.saturating_sub(cost);
        }
        totals.latest = runs.into_iter().next();
        Ok(totals)
    }

    /// The usage of earlier runs in the row of a run: input tokens, output tokens, cost.
    async fn used_before(&self, run: &RunRow) -> Result<[u64; 3], Error> {
        if run.prior_run_id.is_none() {
            return Ok([0; 3]);
        }
        let Some(queued) = self.queued(run.id).await? else { return Ok([0; 3]) };
        let prior = [queued.prior_input_tokens, queued.prior_output_tokens, queued.prior_cost_micros_usd];
        Ok(prior.map(Option::unwrap_or_default))
    }
}
