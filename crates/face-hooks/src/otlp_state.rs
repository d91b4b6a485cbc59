//! What the receiver of OTLP keeps between requests: the queues of open traces, bytes in work and counts. See [`OtlpState`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use recount_engine::{EngineInstance, RequestContext};
use recount_event::Code;
use tokio::sync::mpsc;

use crate::error::Refusal;
use crate::limits;
use crate::trace::{self, IncomingSpans};

/// What the receiver keeps between requests.
#[derive(Default)]
pub(crate) struct OtlpState {
    /// Bytes of requests in work.
    pub(crate) bytes: Arc<AtomicUsize>,
    traces: Mutex<HashMap<(EngineInstance, String), mpsc::Sender<IncomingSpans>>>,
    pub(crate) records: Counts,
    pub(crate) spans: Counts,
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

    /// The queue of a trace in memory. With `begins`, it is created if there is none.
    pub(crate) fn trace(
        &self,
        visitor: &RequestContext,
        trace_id: &str,
        begins: bool,
    ) -> Result<Option<mpsc::Sender<IncomingSpans>>, Refusal> {
        let key = (visitor.engine.instance(), trace_id.to_owned());
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = traces.get(&key).filter(|queue| !queue.is_closed()) {
            return Ok(Some(queue.clone()));
        }
        if !begins {
            return Ok(None);
        }
        traces.retain(|_, queue| !queue.is_closed());
        if traces.len() >= limits::TRACES_MAX {
            return Err(busy("too many traces are open"));
        }
        let queue = trace::start(visitor, trace_id);
        traces.insert(key, queue.clone());
        Ok(Some(queue))
    }
}

pub(crate) fn busy(why: &str) -> Refusal {
    Refusal::new(Code::StoreBusy, format!("{why}; send the request again"))
}
