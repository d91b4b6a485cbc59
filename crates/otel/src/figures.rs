//! What was exported of one tenant, for metrics and the doctor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::project::RunTotals;
use crate::project::turns::TurnHistograms;
use crate::settings::Signal;

/// Counters of one tenant, shared with their readers.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    traces: SignalCounters,
    logs: SignalCounters,
    runs: AtomicU64,
    runs_failed: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    cost_micros_usd: AtomicU64,
    turns: Mutex<TurnHistograms>,
}

/// Counters of one signal.
#[derive(Debug, Default)]
pub(crate) struct SignalCounters {
    pub(crate) sent: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) failed_requests: AtomicU64,
    /// Everything up to this position was exported.
    pub(crate) exported_to: AtomicU64,
    failing: Mutex<Option<Failing>>,
}

/// An endpoint that does not take requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    pub since_ms: u64,
    pub why: String,
}

/// What was exported of one tenant since the server started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportFigures {
    pub traces: SignalFigures,
    pub logs: SignalFigures,
    /// Runs that were exported as traces.
    pub runs: u64,
    /// Those of them that failed.
    pub runs_failed: u64,
    /// What these runs used.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_micros_usd: u64,
    /// The turns of these runs.
    pub turns: TurnHistograms,
}

/// The same of one signal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignalFigures {
    /// Spans, or log records.
    pub sent: u64,
    /// Those that the endpoint refused for good.
    pub rejected: u64,
    pub failed_requests: u64,
    /// Everything up to this position was exported.
    pub exported_to: u64,
    pub failing: Option<Failing>,
}

impl ExportFigures {
    #[must_use]
    pub fn of(&self, signal: Signal) -> &SignalFigures {
        match signal {
            Signal::Traces => &self.traces,
            Signal::Logs => &self.logs,
        }
    }
}

impl Counters {
    pub(crate) fn of(&self, signal: Signal) -> &SignalCounters {
        match signal {
            Signal::Traces => &self.traces,
            Signal::Logs => &self.logs,
        }
    }

    pub(crate) fn read(&self) -> ExportFigures {
        ExportFigures {
            traces: self.traces.read(),
            logs: self.logs.read(),
            runs: load(&self.runs),
            runs_failed: load(&self.runs_failed),
            input_tokens: load(&self.input_tokens),
            output_tokens: load(&self.output_tokens),
            cost_micros_usd: load(&self.cost_micros_usd),
            turns: self.turns.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Counts runs that were exported, and their turns.
    pub(crate) fn exported(&self, runs: Vec<RunTotals>, turns: &TurnHistograms) {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).add(turns);
        let add = |counter: &AtomicU64, more: u64| counter.fetch_add(more, Ordering::Relaxed);
        for run in runs {
            add(&self.runs, 1);
            add(&self.runs_failed, u64::from(run.is_failed));
            add(&self.input_tokens, run.input_tokens);
            add(&self.output_tokens, run.output_tokens);
            add(&self.cost_micros_usd, run.cost_micros_usd);
        }
    }
}

impl SignalCounters {
    fn read(&self) -> SignalFigures {
        SignalFigures {
            sent: load(&self.sent),
            rejected: load(&self.rejected),
            failed_requests: load(&self.failed_requests),
            exported_to: load(&self.exported_to),
            failing: self.failing.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Returns whether it did not fail before.
    pub(crate) fn fails(&self, now_ms: u64, why: &str) -> bool {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let since_ms = failing.as_ref().map(|before| before.since_ms);
        *failing = Some(Failing { since_ms: since_ms.unwrap_or(now_ms), why: why.to_owned() });
        since_ms.is_none()
    }

    /// Returns since when it failed, if it did.
    pub(crate) fn works(&self) -> Option<u64> {
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner).take();
        failing.map(|failing| failing.since_ms)
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
