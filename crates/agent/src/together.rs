//! Runs several read-only calls of a turn side by side.
//!
//! The calls share one desk: what each reports is appended in the order in which it comes, and its own events stay in
//! order. A call that changes anything is never run here. Look at [`Worker::carry_out_together`]; the order in which
//! the model is told of results is that of its calls, see `conversation`.

use std::collections::VecDeque;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use recount_engine::Left;
use recount_event::{Draft, ForeignId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::execute::{ReadyCall, first_sequence, without_output};
use crate::limits;
use crate::tool::{Cancel, Gone, Job, Outcome, Rewritten, Teller};
use crate::worker::{Done, Worker};

/// Events of one call, and where it waits until they are durable.
struct CallDrafts {
    drafts: Vec<Draft>,
    done: oneshot::Sender<Result<u64, Gone>>,
}

/// Passes the events of one call to the worker.
struct LineTeller(mpsc::Sender<CallDrafts>);

impl Teller for LineTeller {
    fn tell(&mut self, drafts: Vec<Draft>) -> BoxFuture<'_, Result<u64, Gone>> {
        Box::pin(async move {
            let (done, told) = oneshot::channel();
            self.0.send(CallDrafts { drafts, done }).await.map_err(|_| Gone)?;
            told.await.unwrap_or(Err(Gone))
        })
    }
}

/// What happens next.
enum Next {
    RunEnded,
    Tell(CallDrafts),
    Ended(usize, Outcome, Instant),
    PatienceIsOver,
}

impl Worker {
    /// Runs invoked calls that only read, all to their ends.
    pub(crate) async fn carry_out_together(&mut self, ids: &[ForeignId]) -> Done<()> {
        let mut calls: Vec<ReadyCall> = Vec::new();
        let mut terms = None;
        for id in ids {
            if let Some((ready, holds)) = self.make_ready(id).await? {
                calls.push(ready);
                terms = Some(holds);
            }
        }
        let Some(terms) = terms else { return Ok(()) };
        // The first waits for its place. Those that find none take the place of one that has ended.
        let mut places = vec![self.tool_place().await?];
        while places.len() < calls.len()
            && let Some(place) = self.agent.tool_places().try_take()
        {
            places.push(place);
        }
        let _claim = match self.claim_folder(&terms).await? {
            Ok(claim) => claim,
            Err(busy) => {
                for call in calls {
                    self.settle(call.ended, busy.clone()).await?;
                }
                return Ok(());
            }
        };
        let outcomes: Vec<_> = calls.iter().map(|call| call.ended.clone()).collect();
        let (world, redactor, keeper) =
            (self.desk.world().clone(), self.desk.redactor().clone(), self.keeper());
        let (tell_cancel, cancel) = Cancel::new();
        let (line, mut told) = mpsc::channel(limits::READS_TELLING);
        let start = |at: usize| {
            let (call, cancel, line) = (&calls[at], cancel.clone(), line.clone());
            let (terms, keeper, redactor, world) = (&terms, &keeper, &redactor, &world);
            async move {
                let began = recount_world::moment();
                let mut teller = LineTeller(line);
                let job = Job {
                    call: &call.id,
                    tool_name: &call.name,
                    turn_index: call.ended.turn_index,
                    input: &call.input,
                    // These only read.
                    approved: None,
                    rewritten: Rewritten::default(),
                    terms,
                    teller: &mut teller,
                    keeper,
                    redactor,
                    cancel,
                    world,
                };
                (at, call.tool.run(job).await, began)
            }
        };
        let mut running: FuturesUnordered<_> = (0..places.len()).map(&start).collect();
        let mut waiting: VecDeque<usize> = (places.len()..calls.len()).collect();
        let mut watch = self.desk.watch();
        // Why nothing more is reported, and how long the calls that are left may take to end.
        let mut left: Option<(Left, Instant)> = None;
        while !running.is_empty() {
            let patience = left.as_ref().map(|(_, until)| *until);
            let next = tokio::select! {
                biased;
                () = watch.ended(), if patience.is_none() => Next::RunEnded,
                () = until(patience) => Next::PatienceIsOver,
                Some(telling) = told.recv() => Next::Tell(telling),
                Some((at, outcome, began)) = running.next() => Next::Ended(at, outcome, began),
            };
            let gone = match next {
                Next::RunEnded => Some(Left::Ended),
                Next::PatienceIsOver => break,
                Next::Tell(CallDrafts { drafts, done }) if left.is_some() => {
                    drop((drafts, done));
                    None
                }
                Next::Tell(CallDrafts { drafts, done }) => match self.desk.report(drafts).await {
                    Ok(events) => {
                        let first = first_sequence(&events);
                        let events: Vec<_> = without_output(events).collect();
                        self.see(&events);
                        // A call that does not wait any more has ended.
                        done.send(Ok(first)).ok();
                        None
                    }
                    Err(gone) => {
                        done.send(Err(Gone)).ok();
                        Some(gone)
                    }
                },
                Next::Ended(..) if left.is_some() => None,
                Next::Ended(at, outcome, began) => {
                    let mut ended = outcomes[at].clone();
                    ended.duration_ms = u64::try_from(began.elapsed().as_millis()).ok();
                    let settled = self.settle(ended, outcome).await;
                    if settled.is_ok() {
                        running.extend(waiting.pop_front().map(&start));
                    }
                    settled.err()
                }
            };
            if let Some(gone) = gone {
                tell_cancel.send_replace(true);
                left = Some((gone, recount_world::moment() + limits::CANCEL_PATIENCE));
            }
        }
        left.map_or(Ok(()), |(left, _)| Err(left))
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
