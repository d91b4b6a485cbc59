//! Runs several read-only calls of a turn side by side.
//!
//! The calls share one desk: what each reports is appended in the order in which it comes, and its own events stay in
//! order. A call that changes anything is never run here. Look at [`Worker::carry_out_together`]; the order in which
//! the model is told of results is that of its calls, see `conversation`.

use std::collections::VecDeque;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
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
    /// The hooks after a call have run; which of them failed.
    Hooked(Vec<Draft>),
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
        let mut hooked = Vec::new();
        for call in &calls {
            hooked.push(self.hooks_before(&call.id, &call.name).await);
        }
        let outcomes: Vec<_> = calls.iter().map(|call| call.ended.clone()).collect();
        let (world, redactor, keeper) =
            (self.desk.world().clone(), self.desk.redactor().clone(), self.keeper());
        let (tell_cancel, cancel) = Cancel::new();
        let (line, mut told) = mpsc::channel(limits::READS_TELLING);
        let start = |at: usize| {
            let (call, hooked, mut cancel, line) = (&calls[at], &hooked[at], cancel.clone(), line.clone());
            let (terms, keeper, redactor, world) = (&terms, &keeper, &redactor, &world);
            async move {
                let mut teller = LineTeller(line);
                let asked = recount_world::moment();
                if let Some(hooked) = hooked
                    && let Some(vetoed) = hooked.admit(&mut teller, &mut cancel).await
                {
                    return (at, vetoed, asked);
                }
                let began = recount_world::moment();
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
        let mut after: FuturesUnordered<BoxFuture<'static, Vec<Draft>>> = FuturesUnordered::new();
        let mut watch = self.desk.watch();
        // Why nothing more is reported, and how long the calls that are left may take to end.
        let mut left: Option<(Left, Instant)> = None;
        while !running.is_empty() || !after.is_empty() {
            let patience = left.as_ref().map(|(_, until)| *until);
            let next = tokio::select! {
                biased;
                () = watch.ended(), if patience.is_none() => Next::RunEnded,
                () = until(patience) => Next::PatienceIsOver,
                Some(telling) = told.recv() => Next::Tell(telling),
                Some((at, outcome, began)) = running.next() => Next::Ended(at, outcome, began),
                Some(notes) = after.next() => Next::Hooked(notes),
            };
            let gone = match next {
                Next::RunEnded => Some(Left::Ended),
                Next::PatienceIsOver => break,
                Next::Tell(CallDrafts { drafts, done }) if left.is_some() => {
                    drop((drafts, done));
                    None
                }
                Next::Tell(telling) => self.append(telling).await.err(),
                Next::Ended(..) | Next::Hooked(_) if left.is_some() => None,
                Next::Hooked(notes) if notes.is_empty() => None,
                Next::Hooked(notes) => self.report(notes).await.err(),
                Next::Ended(at, outcome, began) => {
                    let mut ended = outcomes[at].clone();
                    ended.duration_ms = u64::try_from(began.elapsed().as_millis()).ok();
                    match self.record_end(ended, outcome).await {
                        Ok(hooked) => {
                            after.extend(hooked.map(|hooked| hooked.report_end().boxed()));
                            running.extend(waiting.pop_front().map(&start));
                            None
                        }
                        Err(gone) => Some(gone),
                    }
                }
            };
            if let Some(gone) = gone {
                tell_cancel.send_replace(true);
                after.clear();
                left = Some((gone, recount_world::moment() + limits::CANCEL_PATIENCE));
            }
        }
        left.map_or(Ok(()), |(left, _)| Err(left))
    }

    /// Appends what one call did, and lets it go on.
    async fn append(&mut self, CallDrafts { drafts, done }: CallDrafts) -> Done<()> {
        let appended = self.desk.report(drafts).await;
        // A call that does not wait any more has ended.
        done.send(appended.as_ref().map(|events| first_sequence(events)).map_err(|_| Gone)).ok();
        let events: Vec<_> = without_output(appended?).collect();
        self.see(&events);
        Ok(())
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
