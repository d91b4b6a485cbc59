//! One open subscription: [`Talk`] reads in the background and records lines as they arrive; callers wait for lines
//! that match.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use recount_world::{Kind, World};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::judge::Answer;
use super::transcript::{Line, LineOrigin, Scope, Transcript};
use crate::limits;
use crate::link::call::Caller;
use crate::link::{Dial, Link, LinkError};

/// A subscription, and what was said over it.
pub(crate) struct Talk {
    shared: Arc<Shared>,
    orders: mpsc::Sender<Order>,
    world: World,
    began: Instant,
    /// Where replies go when that is not the connection itself.
    post: Option<(Caller, String)>,
    /// What the producer calls it.
    pub(crate) id: Option<String>,
    /// The answer to the handshake, when there was one.
    pub(crate) answer: Option<String>,
    pub(crate) rejected: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

struct State {
    transcript: Transcript,
    /// Why nothing more comes.
    ended: Option<String>,
    signs: u64,
}

enum Order {
    Send(String, oneshot::Sender<Result<(), String>>),
    Pause(bool),
    /// Let go, without a word.
    End,
}

impl Talk {
    /// Opens it. `began` is when the run began, from which lines count their time.
    pub(crate) async fn open(
        world: &World,
        began: Instant,
        dial: &Dial,
        post: Option<(Caller, String)>,
        label: &str,
        scope: Scope,
    ) -> Result<Talk, LinkError> {
        let link = Link::open(world, dial).await?;
        let mut transcript = Transcript::new(label, scope);
        transcript.opened_ms = millis(began.elapsed());
        let line =
            |origin, text: &str| Line::new(millis(began.elapsed()), world.clock.now_ms(), origin, text);
        if let (Some(request), Some(answer)) = (&dial.request, link.answer()) {
            transcript.lines.push(line(LineOrigin::Sent, request));
            transcript.lines.push(line(LineOrigin::Heard, answer));
        }
        let (orders, inbox) = mpsc::channel(limits::TALK_ORDERS_MAX);
        let shared = Arc::new(Shared {
            state: Mutex::new(State { transcript, ended: None, signs: 0 }),
            changed: watch::Sender::new(0),
        });
        let talk = Talk {
            shared: shared.clone(),
            orders,
            world: world.clone(),
            began,
            post,
            id: link.subscription().map(str::to_owned),
            answer: link.answer().map(str::to_owned),
            rejected: link.is_rejected(),
        };
        world.tasks.spawn(Kind::Connection, move |mut shutdown| async move {
            tokio::select! {
                () = hold(link, inbox, &shared, began) => {}
                () = shutdown.requested() => {}
            }
        });
        Ok(talk)
    }

    /// How many lines there are: what comes next is behind them.
    pub(crate) fn len(&self) -> usize {
        self.read(<[Line]>::len)
    }

    /// Looks at what was said so far.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&[Line]) -> T) -> T {
        look(&self.lock().transcript.lines)
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.read(<[Line]>::to_vec)
    }

    /// Why nothing more comes, once that is so.
    pub(crate) fn ended(&self) -> Option<String> {
        self.lock().ended.clone()
    }

    /// Signs of life that were no messages.
    pub(crate) fn signs(&self) -> u64 {
        self.lock().signs
    }

    /// Waits until something can be found in what was said, at most so long.
    pub(crate) async fn until<T>(
        &self,
        patience: Duration,
        find: impl Fn(&[Line]) -> Option<T>,
    ) -> Option<T> {
        let mut changed = self.shared.changed.subscribe();
        let deadline = recount_world::moment() + patience;
        loop {
            changed.borrow_and_update();
            if let Some(found) = self.read(&find) {
                return Some(found);
            }
            if self.ended().is_some() {
                return None;
            }
            match tokio::time::timeout_at(deadline, changed.changed()).await {
                Ok(Ok(())) => {}
                _ => return self.read(&find),
            }
        }
    }

    /// The first line from `from` on that is so. Each is looked at once.
    pub(crate) async fn line(
        &self,
        from: usize,
        patience: Duration,
        is: impl Fn(&Line) -> bool,
    ) -> Option<usize> {
        let seen = std::cell::Cell::new(from);
        self.until(patience, |lines| {
            let found = (seen.get()..lines.len()).find(|number| is(&lines[*number]));
            seen.set(lines.len());
            found
        })
        .await
    }

    /// Sends a message; over HTTP answers what came back.
    pub(crate) async fn send_text(&self, text: &str) -> Result<Option<Answer>, String> {
        self.send(text, LineOrigin::Sent).await
    }

    /// Sends a message that must have no effect.
    pub(crate) async fn send_ineffective(&self, text: &str) -> Result<Option<Answer>, String> {
        self.send(text, LineOrigin::SentIneffective).await
    }

    async fn send(&self, text: &str, origin: LineOrigin) -> Result<Option<Answer>, String> {
        self.note(origin, text);
        match &self.post {
            Some((caller, url)) => match caller.post(url, text.as_bytes()).await {
                Ok(reply) => Ok(Some(Answer { status: reply.status, body: reply.body })),
                Err(why) => Err(why.to_string()),
            },
            None => {
                let (done, outcome) = oneshot::channel();
                let ended = |_| "the connection has ended".to_owned();
                self.orders.send(Order::Send(text.to_owned(), done)).await.map_err(|_| ended(()))?;
                outcome.await.map_err(|_| ended(()))?.map(|()| None)
            }
        }
    }

    /// Writes down what was said beside the connection.
    pub(crate) fn note(&self, origin: LineOrigin, text: &str) {
        let line = Line::new(millis(self.began.elapsed()), self.world.clock.now_ms(), origin, text);
        self.shared.write(line);
    }

    /// Stops to read, or goes on.
    pub(crate) async fn pause(&self, paused: bool) {
        // Where the connection has ended there is nothing to pause.
        self.orders.send(Order::Pause(paused)).await.ok();
    }

    /// Records that endings of sessions may be missing.
    pub(crate) fn mark_cut_short(&self) {
        self.lock().transcript.cut_short = true;
    }

    /// When it was opened, by the clock of its lines.
    pub(crate) fn opened_ms(&self) -> u64 {
        self.lock().transcript.opened_ms
    }

    /// Whether what is there is held to be the whole of what happened.
    pub(crate) fn is_whole(&self) -> bool {
        self.lock().transcript.scope == Scope::Whole
    }

    /// Breaks the connection off without a word.
    pub(crate) async fn cut(self) -> Transcript {
        self.orders.send(Order::End).await.ok();
        self.orders.closed().await;
        let mut transcript = self.lock().transcript.clone();
        transcript.scope = Scope::Part;
        transcript
    }

    /// The same, for its signs of life: how many there were.
    pub(crate) async fn cut_and_count(self) -> u64 {
        self.orders.send(Order::End).await.ok();
        self.orders.closed().await;
        self.signs()
    }

    /// Closes the subscription, where there is one, and ends the connection.
    pub(crate) async fn close(self) -> Transcript {
        if let (Some(id), None) = (&self.id, self.ended()) {
            let close = serde_json::json!({
                "type": "subscription.close", "subscription_id": id, "reason_code": "subscriber_shutdown",
                "reason_message": "the check is over",
            });
            // Behind the transcript: nobody is held to what follows it.
            let kept = self.lock().transcript.clone();
            self.send(&close.to_string(), LineOrigin::Sent).await.ok();
            self.orders.send(Order::End).await.ok();
            self.orders.closed().await;
            return kept;
        }
        self.orders.send(Order::End).await.ok();
        self.orders.closed().await;
        self.lock().transcript.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.lock()
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds a conversation")
    }

    fn write(&self, line: Line) {
        self.lock().transcript.lines.push(line);
        self.changed.send_modify(|count| *count += 1);
    }

    fn end(&self, why: String) {
        self.lock().ended.get_or_insert(why);
        self.changed.send_modify(|count| *count += 1);
    }
}

async fn hold(mut link: Link, mut inbox: mpsc::Receiver<Order>, shared: &Shared, began: Instant) {
    let (mut paused, mut over) = (false, false);
    loop {
        tokio::select! {
            order = inbox.recv() => match order {
                Some(Order::Send(text, done)) => {
                    let outcome = link.send(&text).await.map(|_| ()).map_err(|why| why.to_string());
                    // Who asked may have gone.
                    done.send(outcome).ok();
                }
                Some(Order::Pause(pause)) => paused = pause,
                Some(Order::End) | None => break,
            },
            heard = link.next(), if !paused && !over => match heard {
                Ok(Some(heard)) => {
                    let at_ms = millis(heard.at.saturating_duration_since(began));
                    let mut line = Line::new(at_ms, heard.at_ms, LineOrigin::Heard, heard.text);
                    line.id = heard.id;
                    shared.lock().signs += heard.comments;
                    shared.write(line);
                    if shared.lock().transcript.lines.len() >= limits::TALK_LINES_MAX {
                        over = true;
                        shared.end(format!("more than {} messages came (TALK_LINES_MAX)", limits::TALK_LINES_MAX));
                    }
                }
                Ok(None) => {
                    over = true;
                    shared.end("the producer ended the stream".to_owned());
                }
                // A call of ours was refused; what follows is heard nevertheless.
                Err(LinkError::Rpc { .. }) => {}
                Err(why) => {
                    over = true;
                    shared.end(why.to_string());
                }
            },
        }
    }
    shared.lock().signs = link.comments();
    shared.end("the check ended it".to_owned());
    link.close().await;
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
