//! What the receiver of OTLP keeps between requests: the queues of open traces, bytes in work and counts. See [`OtlpState`].

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use recount_engine::{EngineInstance, RequestContext};
use recount_event::Code;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::counted::Counted;
use crate::error::Refusal;
use crate::limits;
use crate::trace::{self, Begin, IncomingSpans};

/// What the receiver keeps between requests.
#[derive(Default)]
pub(crate) struct OtlpState {
    /// Bytes of requests in work.
    pub(crate) bytes: Arc<AtomicUsize>,
    /// Bytes of events and spans in queues.
    pub(crate) queued_bytes: Arc<AtomicUsize>,
    traces: Mutex<HashMap<(EngineInstance, String), LiveTrace>>,
    trace_tasks: Arc<AtomicUsize>,
    /// Tenants whose open runs of traces were searched.
    resumed: Mutex<HashSet<EngineInstance>>,
    pub(crate) records: Counts,
    pub(crate) spans: Counts,
}

struct LiveTrace {
    queue: mpsc::Sender<IncomingSpans>,
    used: Instant,
}

/// Items that were taken, or rejected for good.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) taken: AtomicU64,
    pub(crate) rejected: AtomicU64,
}

/// Log records and spans that were received, since the server started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtlpFigures {
    /// Taken, whether or not they are about an agent.
    pub records: u64,
    pub records_rejected: u64,
    pub spans: u64,
    pub spans_rejected: u64,
}

impl OtlpState {
    pub(crate) fn figures(&self) -> OtlpFigures {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OtlpFigures {
            records: load(&self.records.taken),
            records_rejected: load(&self.records.rejected),
            spans: load(&self.spans.taken),
            spans_rejected: load(&self.spans.rejected),
        }
    }

    /// The queue of a trace in memory. Without one it is created if the trace `begins`.
    pub(crate) fn trace(
        &self,
        visitor: &RequestContext,
        trace_id: &str,
        begins: Option<Begin>,
    ) -> Result<Option<mpsc::Sender<IncomingSpans>>, Refusal> {
        let key = (visitor.engine.instance(), trace_id.to_owned());
        let used = recount_world::moment();
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trace) = traces.get_mut(&key).filter(|trace| !trace.queue.is_closed()) {
            trace.used = used;
            return Ok(Some(trace.queue.clone()));
        }
        let Some(begin) = begins else { return Ok(None) };
        traces.retain(|_, trace| !trace.queue.is_closed());
        let of_tenant = || traces.iter().filter(|((tenant, _), _)| *tenant == key.0);
        if of_tenant().count() >= limits::TRACES_MAX {
            let quietest = of_tenant().min_by_key(|(_, trace)| trace.used).map(|(key, _)| key.clone());
            // Its task handles the rest of its queue and ends the run.
            quietest.map(|quietest| traces.remove(&quietest));
        }
        let Some(task) = Counted::within(&self.trace_tasks, 1, limits::TRACES_OF_ALL_MAX) else {
            return Err(busy("too many traces are open"));
        };
        let queue = trace::start(visitor, trace_id, begin, task);
        traces.insert(key, LiveTrace { queue: queue.clone(), used });
        Ok(Some(queue))
    }

    /// Whether the open runs of traces that an earlier process left are still to be searched. True once for each tenant,
    /// and again after [`OtlpState::resume_later`].
    pub(crate) fn is_to_resume(&self, visitor: &RequestContext) -> bool {
        let mut resumed = self.resumed.lock().unwrap_or_else(PoisonError::into_inner);
        resumed.insert(visitor.engine.instance())
    }

    /// The search failed.
    pub(crate) fn resume_later(&self, visitor: &RequestContext) {
        let mut resumed = self.resumed.lock().unwrap_or_else(PoisonError::into_inner);
        resumed.remove(&visitor.engine.instance());
    }
}

pub(crate) fn busy(why: &str) -> Refusal {
    Refusal::new(Code::StoreBusy, format!("{why}; send the request again"))
}
