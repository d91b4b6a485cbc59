//! Runs several read-only calls of a turn concurrently.
//!
//! A call that changes anything is never run here.
//!
//! Start at [`Worker::carry_out_together`]. The calls share one desk. Events are appended in the order of their
//! arrival, and the events of one call stay in order. The model sees the results in the order of the calls; see
//! `conversation`.

use std::collections::VecDeque;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use recount_engine::WorkerExit;
use recount_event::{Draft, ForeignId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::execute::{NOT_OWNER, ReadyCall, first_sequence, outcome_failed, without_output};
use crate::limits;
use crate::tool::{Cancel, EventReporter, FileRevisions, Job, Outcome, RunLost, Terms};
use crate::worker::{WorkResult, Worker};

/// Events of one call, and the channel that confirms that they are durable.
struct CallDrafts {
    drafts: Vec<Draft>,
    reply_to: oneshot::Sender<Result<u64, RunLost>>,
}

/// Sends the events of one call to the worker.
struct ChannelReporter(mpsc::Sender<CallDrafts>);

impl EventReporter for ChannelReporter {
    fn report(&mut self, drafts: Vec<Draft>) -> BoxFuture<'_, Result<u64, RunLost>> {
        Box::pin(async move {
            let (reply_to, reply) = oneshot::channel();
            self.0.send(CallDrafts { drafts, reply_to }).await.map_err(|_| RunLost)?;
            reply.await.unwrap_or(Err(RunLost))
        })
    }
}

/// The next thing to handle.
enum Next {
    RunEnded,
    Report(CallDrafts),
    Ended(usize, Outcome, Instant),
    /// The hooks after a call have run. Holds the events about failed hooks.
    Hooked(Vec<Draft>),
    GraceElapsed,
}

impl Worker {
    /// Runs invoked read-only calls to their ends.
    pub(crate) async fn carry_out_together(&mut self, ids: &[ForeignId]) -> WorkResult<()> {
        let mut calls: Vec<ReadyCall> = Vec::new();
        let mut terms = None;
        for id in ids {
            if let Some((ready, call_terms)) = self.prepare_call(id).await? {
                calls.push(ready);
                terms = Some(call_terms);
            }
        }
        let Some(terms) = terms else { return Ok(()) };
        // The first call waits for a place. Calls that find none take the place of a call that has ended.
        let mut places = vec![self.tool_place().await?];
        while places.len() < calls.len()
            && let Some(place) = self.agent.tool_places().try_take()
        {
            places.push(place);
        }
        match self.claim_folder(&terms).await? {
            Ok(_claim) => self.run_together(&calls, &terms, places.len()).await,
            Err(busy) => {
                for call in calls {
                    self.settle(call.ended, busy.clone()).await?;
                }
                Ok(())
            }
        }
    }

    /// Runs the calls, at most `places` at a time, until each has ended or the run has.
    async fn run_together(&mut self, calls: &[ReadyCall], terms: &Terms, places: usize) -> WorkResult<()> {
        let mut hooked = Vec::new();
        for call in calls {
            hooked.push(self.hooks_before(&call.id, &call.name).await);
        }
        let (world, redactor, artifacts) =
            (self.worker_session.world().clone(), self.worker_session.redactor().clone(), self.artifacts());
        let write = self.worker_session.write().clone();
        let (cancel_sender, cancel) = Cancel::new();
        let (sender, mut reports) = mpsc::channel(limits::READ_REPORTS_QUEUED_MAX);
        let start = |at: usize| {
            let (call, hooked, mut cancel, sender) =
                (&calls[at], &hooked[at], cancel.clone(), sender.clone());
            let (terms, artifacts, redactor, world) = (terms, &artifacts, &redactor, &world);
            let write = &write;
            async move {
                let mut reporter = ChannelReporter(sender);
                let started = recount_world::moment();
                if let Err(error) = write.check_owner() {
                    return (at, outcome_failed(NOT_OWNER, error.to_string()), started);
                }
                if let Some(hooked) = hooked
                    && let Some(vetoed) = hooked.admit(&mut reporter, &mut cancel).await
                {
                    return (at, vetoed, started);
                }
                let started = recount_world::moment();
                if let Err(error) = write.check_owner() {
                    return (at, outcome_failed(NOT_OWNER, error.to_string()), started);
                }
                let job = Job {
                    call: &call.id,
                    tool_name: &call.name,
                    turn_index: call.ended.turn_index,
                    input: &call.input,
                    // Read-only calls need no approval.
                    approved: None,
                    revisions: FileRevisions::default(),
                    terms,
                    reporter: &mut reporter,
                    artifacts,
                    redactor,
                    cancel,
                    world,
                };
                (at, call.tool.run(job).await, started)
            }
        };
        let mut running: FuturesUnordered<_> = (0..places).map(&start).collect();
        let mut waiting: VecDeque<usize> = (places..calls.len()).collect();
        let mut after: FuturesUnordered<BoxFuture<'static, Vec<Draft>>> = FuturesUnordered::new();
        let mut watch = self.worker_session.watch();
        // Why nothing more is reported, and how long the remaining calls may take to end.
        let mut stopping: Option<(WorkerExit, Instant)> = None;
        while !running.is_empty() || !after.is_empty() {
            let deadline = stopping.as_ref().map(|(_, until)| *until);
            let next = tokio::select! {
                biased;
                () = watch.ended(), if deadline.is_none() => Next::RunEnded,
                () = until(deadline) => Next::GraceElapsed,
                Some(report) = reports.recv() => Next::Report(report),
                Some((at, outcome, started)) = running.next() => Next::Ended(at, outcome, started),
                Some(notes) = after.next() => Next::Hooked(notes),
            };
            let handled = match next {
                Next::RunEnded => Err(WorkerExit::Ended),
                Next::GraceElapsed => break,
                // What arrives after the end is dropped.
                Next::Report(_) | Next::Ended(..) | Next::Hooked(_) if stopping.is_some() => Ok(()),
                Next::Report(report) => self.append(report).await,
                Next::Hooked(notes) if notes.is_empty() => Ok(()),
                Next::Hooked(notes) => self.report(notes).await,
                Next::Ended(at, outcome, started) => {
                    let mut ended = calls[at].ended.clone();
                    ended.duration_ms = u64::try_from(started.elapsed().as_millis()).ok();
                    self.record_end(ended, outcome).await.map(|hooked| {
                        after.extend(hooked.map(|hooked| hooked.report_end().boxed()));
                        running.extend(waiting.pop_front().map(&start));
                    })
                }
            };
            if let Err(reason) = handled {
                cancel_sender.send_replace(true);
                after.clear();
                stopping = Some((reason, recount_world::moment() + limits::CANCEL_PATIENCE));
            }
        }
        stopping.map_or(Ok(()), |(stopping, _)| Err(stopping))
    }

    /// Appends the events of one call, and confirms them.
    async fn append(&mut self, CallDrafts { drafts, reply_to }: CallDrafts) -> WorkResult<()> {
        let appended = self.worker_session.report(drafts).await;
        // A call that no longer waits has ended.
        reply_to.send(appended.as_ref().map(|events| first_sequence(events)).map_err(|_| RunLost)).ok();
        let events: Vec<_> = without_output(appended?).collect();
        self.apply_events(&events);
        Ok(())
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
