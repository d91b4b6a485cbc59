//! The loop of a run's writer: takes what waits, has it served, and goes to sleep when there has been nothing for a while.
//! It must not know what becomes of a request.

use std::pin::pin;

use recount_world::Shutdown;
use tokio::sync::mpsc;

use crate::write::request::{Answer, Inbox, Work, send};
use crate::write::run_writer::Writer;
use crate::{Error, Receipt, limits};

impl Writer {
    /// Works until there has been nothing to do for a while, or shutdown. `retire` is asked before going
    /// to sleep, and says whether nobody has come in the meantime.
    pub(crate) async fn work(
        mut self,
        mut inbox: mpsc::Receiver<Inbox>,
        mut shutdown: Shutdown,
        retire: impl Fn(&mut mpsc::Receiver<Inbox>) -> bool,
    ) {
        {
            // Made once and not at every turn: a wait that is begun and given up again for each command
            // costs more than the command does.
            let mut over = pin!(shutdown.requested());
            let mut idle = pin!(tokio::time::sleep(limits::WRITER_IDLE));
            let mut waiting = Vec::new();
            let mut busy_until = recount_world::moment();
            loop {
                tokio::select! {
                    biased;
                    () = &mut over => break,
                    count = inbox.recv_many(&mut waiting, limits::APPEND_COMMANDS_MAX) => {
                        if count == 0 {
                            return;
                        }
                        self.serve(&mut waiting).await;
                        busy_until = recount_world::moment();
                        if self.has_ended() {
                            idle.as_mut().reset(busy_until + limits::WRITER_IDLE_ENDED);
                        }
                    }
                    () = &mut idle => {
                        let now = recount_world::moment();
                        let patience =
                            if self.has_ended() { limits::WRITER_IDLE_ENDED } else { limits::WRITER_IDLE };
                        let idle_since = busy_until + patience;
                        if idle_since <= now && retire(&mut inbox) {
                            break;
                        }
                        idle.as_mut().reset(if idle_since > now { idle_since } else { now + patience });
                    }
                }
            }
        }
        // What slipped in before the inbox closed is sent to another writer, or told that we close.
        inbox.close();
        while let Some(Inbox { work, reply }) = inbox.recv().await {
            let answer = if shutdown.is_requested() {
                Answer::Done(Err(Error::shutting_down()))
            } else {
                Answer::Asleep(work)
            };
            send(reply, answer);
        }
    }

    /// Whether little can still come.
    fn has_ended(&self) -> bool {
        self.awake.as_ref().is_some_and(|awake| awake.state.is_ended())
    }

    async fn serve(&mut self, messages: &mut Vec<Inbox>) {
        let mut left = messages.drain(..);
        while let Some(first) = left.as_slice().first() {
            if first.work.is_alone() {
                if let Some(Inbox { work, reply }) = left.next() {
                    send(reply, Answer::Done(self.serve_alone(work).await));
                }
            } else {
                self.serve_some(&mut left).await;
            }
        }
    }

    async fn serve_alone(&mut self, work: Work) -> Result<Option<Receipt>, Error> {
        let awake = match self.awake.take() {
            Some(awake) => awake,
            None => self.wake().await?,
        };
        match work {
            Work::Beside { command, beside } => self.beside(awake, command, *beside).await,
            work => self.remove(awake, work).await,
        }
    }
}
