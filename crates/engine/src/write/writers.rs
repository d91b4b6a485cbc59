//! Which runs are awake, and how a command finds the writer of its run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::{Code, Draft, Event, RunId};
use recount_world::Kind;
use tokio::sync::{mpsc, oneshot};

use crate::ground::error::{run_erased, run_not_found};
use crate::ground::journal;
use crate::write::run_writer::{Answer, Inbox, Reported, Work, Writer};
use crate::write::tools::Tools;
use crate::{Error, Failure, Receipt, limits};

pub(crate) struct Writers {
    tools: Arc<Tools>,
    awake: Mutex<HashMap<RunId, mpsc::Sender<Inbox>>>,
}

impl Writers {
    pub(crate) fn new(tools: Arc<Tools>) -> Arc<Self> {
        Arc::new(Writers { tools, awake: Mutex::default() })
    }

    pub(crate) fn awake(&self) -> usize {
        self.awake.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Sends work to the run's writer, waking it when it sleeps, and waits for the answer.
    pub(crate) async fn ask(self: &Arc<Self>, run: RunId, mut work: Work) -> Result<Option<Receipt>, Error> {
        for _ in 0..limits::WAKE_TRIES {
            let inbox = self.inbox(run).await?;
            let (reply, answer) = oneshot::channel();
            if let Err(unsent) = inbox.send(Inbox { work, reply }).await {
                self.forget(run, &inbox);
                work = unsent.0.work;
                continue;
            }
            match answer.await {
                Ok(Answer::Done(answer)) => return answer,
                Ok(Answer::Asleep(unread)) => work = unread,
                Err(_) => {
                    self.forget(run, &inbox);
                    return Err(Error::bug(format!(
                        "the writer of {run} stopped; whether the command happened stands in the log"
                    )));
                }
            }
        }
        Err(if self.tools.world.tasks.shutdown_signal(Kind::Writer).is_requested() {
            Error::shutting_down()
        } else {
            Error::bug(format!("the writer of {run} does not stay awake"))
        })
    }

    /// Has a worker's report written down, and answers what it became.
    pub(crate) async fn report(
        self: &Arc<Self>,
        run: RunId,
        claim: Option<u64>,
        drafts: Vec<Draft>,
    ) -> Result<Vec<Event>, Error> {
        let out = Reported::default();
        self.ask(run, Work::Report { claim, drafts, out: out.clone() }).await?;
        Ok(std::mem::take(&mut *out.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The inbox of a run's writer, which is woken when it sleeps. Runs that do not exist wake nobody.
    async fn inbox(self: &Arc<Self>, run: RunId) -> Result<mpsc::Sender<Inbox>, Error> {
        if let Some(inbox) = self.awake.lock().unwrap_or_else(PoisonError::into_inner).get(&run) {
            return Ok(inbox.clone());
        }
        if !self.tools.fresh.is_asleep(run) {
            match self.tools.store.end(&journal::stream_of(run)).await? {
                None => return Err(run_not_found(run)),
                Some(tail) if tail.erased => return Err(run_erased(run)),
                Some(_) => {}
            }
        }
        self.wake(run)
    }

    fn wake(self: &Arc<Self>, run: RunId) -> Result<mpsc::Sender<Inbox>, Error> {
        let mut awake = self.awake.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inbox) = awake.get(&run) {
            return Ok(inbox.clone());
        }
        if awake.len() >= limits::AWAKE_MAX {
            return Err(Error::Failed(Failure {
                code: Code::StoreBusy,
                message: format!("{} runs are at work already; try again shortly", limits::AWAKE_MAX),
                retry_after: Some(limits::TRY_AGAIN),
                damage: None,
            }));
        }
        let (inbox, receiver) = mpsc::channel(limits::INBOX_MAX);
        awake.insert(run, inbox.clone());
        let writer = Writer::new(self.tools.clone(), run);
        let writers = self.clone();
        self.tools.world.tasks.spawn(Kind::Writer, move |shutdown| async move {
            let mut end = End { writers: writers.clone(), run, as_meant: false };
            writer.work(receiver, shutdown, move |inbox| writers.retire(run, inbox)).await;
            end.as_meant = true;
        });
        Ok(inbox)
    }

    /// Lets a writer go to sleep, unless somebody has just written to it.
    fn retire(&self, run: RunId, inbox: &mut mpsc::Receiver<Inbox>) -> bool {
        let mut awake = self.awake.lock().unwrap_or_else(PoisonError::into_inner);
        if !inbox.is_empty() {
            return false;
        }
        inbox.close();
        awake.remove(&run);
        true
    }

    fn forget(&self, run: RunId, inbox: &mpsc::Sender<Inbox>) {
        let mut awake = self.awake.lock().unwrap_or_else(PoisonError::into_inner);
        if awake.get(&run).is_some_and(|current| current.same_channel(inbox)) {
            awake.remove(&run);
        }
    }

    /// Takes a writer that ended by itself out of the map; a younger one stays.
    fn drop_closed(&self, run: RunId) {
        let mut awake = self.awake.lock().unwrap_or_else(PoisonError::into_inner);
        if awake.get(&run).is_some_and(mpsc::Sender::is_closed) {
            awake.remove(&run);
        }
    }
}

/// What is left to do when a writer ends, in whatever way.
struct End {
    writers: Arc<Writers>,
    run: RunId,
    as_meant: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        self.writers.drop_closed(self.run);
        if !self.as_meant {
            let tools = &self.writers.tools;
            tools.timers.look_again(self.run, &tools.world);
        }
    }
}
