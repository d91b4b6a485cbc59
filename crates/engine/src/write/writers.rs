//! The active writers, and the delivery of jobs to the writer of a run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::{Code, RunId};
use recount_world::Kind;
use tokio::sync::mpsc;

use crate::ground::error::{run_erased, run_not_found};
use crate::ground::journal;
use crate::write::context::WriteContext;
use crate::write::request::{Job, JobOutcome, ReplyTo, Request};
use crate::write::writer::Writer;
use crate::{Error, Failure, limits};

pub(crate) struct Writers {
    context: Arc<WriteContext>,
    awake: Mutex<HashMap<RunId, mpsc::Sender<Request>>>,
}

impl Writers {
    pub(crate) fn new(context: Arc<WriteContext>) -> Arc<Self> {
        Arc::new(Writers { context, awake: Mutex::default() })
    }

    pub(crate) fn awake(&self) -> usize {
        self.awake.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Sends a job to the run's writer, starts the writer if necessary, and waits for the reply.
    pub(crate) async fn ask<J: Job>(self: &Arc<Self>, run: RunId, mut job: J) -> Result<J::Reply, Error> {
        for _ in 0..limits::WAKE_TRIES {
            let inbox = self.inbox(run).await?;
            let (to, turn) = ReplyTo::new();
            if let Err(unsent) = inbox.send(job.request(to)).await {
                self.forget(run, &inbox);
                unsent.0.give_back();
            }
            match turn.await {
                Ok(JobOutcome::Done(answer)) => return answer,
                Ok(JobOutcome::WriterIdle(unread)) => job = unread,
                Err(_) => {
                    self.forget(run, &inbox);
                    return Err(Error::bug(format!(
                        "the writer of {run} stopped; read the log to see whether the command took effect"
                    )));
                }
            }
        }
        Err(if self.context.ground.world.tasks.shutdown_signal(Kind::Writer).is_requested() {
            Error::shutting_down()
        } else {
            Error::bug(format!("the writer of {run} stopped repeatedly"))
        })
    }

    /// The inbox of a run's writer, which is started if necessary. Unknown runs start no writer.
    async fn inbox(self: &Arc<Self>, run: RunId) -> Result<mpsc::Sender<Request>, Error> {
        if let Some(inbox) = self.awake.lock().unwrap_or_else(PoisonError::into_inner).get(&run) {
            return Ok(inbox.clone());
        }
        if !self.context.fresh.is_unwritten(run) {
            match self.context.ground.store.end(&journal::stream_of(run)).await? {
                None => return Err(run_not_found(run)),
                Some(tail) if tail.erased => return Err(run_erased(run)),
                Some(_) => {}
            }
        }
        self.wake(run)
    }

    fn wake(self: &Arc<Self>, run: RunId) -> Result<mpsc::Sender<Request>, Error> {
        let mut awake = self.awake.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inbox) = awake.get(&run) {
            return Ok(inbox.clone());
        }
        if awake.len() >= limits::AWAKE_MAX {
            let message =
                format!("the limit of {} active runs is reached; try again shortly", limits::AWAKE_MAX);
            return Err(Failure::for_now(Code::StoreBusy, message, limits::TRY_AGAIN).into());
        }
        let (inbox, receiver) = mpsc::channel(limits::INBOX_MAX);
        awake.insert(run, inbox.clone());
        let writer = Writer::new(self.context.clone(), run);
        let writers = self.clone();
        self.context.ground.world.tasks.spawn(Kind::Writer, move |shutdown| async move {
            let mut end = WriterEnd { writers: writers.clone(), run, is_clean: false };
            writer.work(receiver, shutdown, move |inbox| writers.retire(run, inbox)).await;
            end.is_clean = true;
        });
        Ok(inbox)
    }

    /// Lets a writer stop, unless a request has just arrived.
    fn retire(&self, run: RunId, inbox: &mut mpsc::Receiver<Request>) -> bool {
        let mut awake = self.awake.lock().unwrap_or_else(PoisonError::into_inner);
        if !inbox.is_empty() {
            return false;
        }
        inbox.close();
        awake.remove(&run);
        true
    }

    fn forget(&self, run: RunId, inbox: &mpsc::Sender<Request>) {
        let mut awake = self.awake.lock().unwrap_or_else(PoisonError::into_inner);
        if awake.get(&run).is_some_and(|current| current.same_channel(inbox)) {
            awake.remove(&run);
        }
    }

    /// Removes a writer that ended; a newer one stays.
    fn drop_closed(&self, run: RunId) {
        let mut awake = self.awake.lock().unwrap_or_else(PoisonError::into_inner);
        if awake.get(&run).is_some_and(mpsc::Sender::is_closed) {
            awake.remove(&run);
        }
    }
}

/// Cleans up when a writer ends in any way.
struct WriterEnd {
    writers: Arc<Writers>,
    run: RunId,
    is_clean: bool,
}

impl Drop for WriterEnd {
    fn drop(&mut self) {
        self.writers.drop_closed(self.run);
        if !self.is_clean {
            let context = &self.writers.context;
            context.timers.look_again(self.run, &context.ground.world);
        }
    }
}
