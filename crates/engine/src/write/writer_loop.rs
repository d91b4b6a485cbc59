//! The loop of a run's writer: takes requests, executes them, and stops when it is idle. It must not know the
//! requests.

use std::pin::pin;

use recount_world::Shutdown;
use tokio::sync::mpsc;

use crate::write::request::{Erase, Prune, Request, SubmitWithRows};
use crate::write::run_writer::Writer;
use crate::{Error, limits};

impl Writer {
    /// Works until it is idle or until shutdown. `retire` is called before it stops, and returns whether no request
    /// has arrived meanwhile.
    pub(crate) async fn work(
        mut self,
        mut inbox: mpsc::Receiver<Request>,
        mut shutdown: Shutdown,
        retire: impl Fn(&mut mpsc::Receiver<Request>) -> bool,
    ) {
        {
            // Created once, because creating and dropping these futures for each command costs more than the command.
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
                        let idle_limit =
                            if self.has_ended() { limits::WRITER_IDLE_ENDED } else { limits::WRITER_IDLE };
                        let idle_since = busy_until + idle_limit;
                        if idle_since <= now && retire(&mut inbox) {
                            break;
                        }
                        idle.as_mut().reset(if idle_since > now { idle_since } else { now + idle_limit });
                    }
                }
            }
        }
        // Requests that arrived before the inbox closed go to another writer, or are refused at shutdown.
        inbox.close();
        while let Some(request) = inbox.recv().await {
            if shutdown.is_requested() {
                request.refuse(Error::shutting_down());
            } else {
                request.give_back();
            }
        }
    }

    /// Whether the run has ended, so that few requests can follow.
    fn has_ended(&self) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| loaded.state.is_ended())
    }

    async fn serve(&mut self, requests: &mut Vec<Request>) {
        let mut pending = requests.drain(..);
        while let Some(first) = pending.as_slice().first() {
            if !first.is_alone() {
                self.serve_group(&mut pending).await;
            } else if let Some(request) = pending.next() {
                self.serve_alone(request).await;
            }
        }
    }

    async fn serve_alone(&mut self, request: Request) {
        let (loaded, request) = match (self.take_loaded().await, request) {
            (Ok(loaded), request) => (loaded, request),
            (Err(error), Request::Erase(Erase { by }, to)) if error.is_damage() => {
                return to.reply(self.erase_damaged(by).await);
            }
            (Err(error), request) => return request.refuse(error),
        };
        match request {
            Request::SubmitWithRows(SubmitWithRows { command, with }, to) => {
                to.reply(self.submit_with_rows(loaded, command, *with).await);
            }
            Request::Prune(Prune { before, reason, rows, is_trial }, to) => {
                to.reply(self.prune(loaded, before, reason, rows, is_trial).await);
            }
            Request::Erase(Erase { by }, to) => to.reply(self.erase(loaded, by).await),
            shared => shared.refuse(Error::bug("requests that share an append are served together")),
        }
    }
}
