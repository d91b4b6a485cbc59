//! One open subscription: [`Conversation`] reads in the background and records lines as they arrive; callers wait for
//! lines that match.

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

/// A subscription and its recorded messages.
pub(crate) struct Conversation {
    shared: Arc<SharedConversation>,
    commands: mpsc::Sender<Command>,
    world: World,
    began: Instant,
    /// The client for replies, if they do not use the connection itself.
    post: Option<(Caller, String)>,
    /// The subscription id that the producer assigned.
    pub(crate) id: Option<String>,
    /// The response to the handshake, if there was one.
    pub(crate) answer: Option<String>,
    pub(crate) rejected: bool,
}

struct SharedConversation {
    state: Mutex<ConversationState>,
    changed: watch::Sender<u64>,
}

struct ConversationState {
    transcript: Transcript,
    /// Why no more messages arrive.
    ended: Option<String>,
    signs: u64,
}

enum Command {
    Send(String, oneshot::Sender<Result<(), String>>),
    Pause(bool),
    /// Disconnect without a close message.
    Disconnect,
}

impl Conversation {
    /// Opens a subscription. `began` is the start of the run; lines count their time from it.
    pub(crate) async fn open(
        world: &World,
        began: Instant,
        dial: &Dial,
        post: Option<(Caller, String)>,
        label: &str,
        scope: Scope,
    ) -> Result<Conversation, LinkError> {
        let link = Link::open(world, dial).await?;
        let mut transcript = Transcript::new(label, scope);
        transcript.opened_ms = millis(began.elapsed());
        let line =
            |origin, text: &str| Line::new(millis(began.elapsed()), world.clock.now_ms(), origin, text);
        if let (Some(request), Some(answer)) = (&dial.request, link.handshake_response()) {
            transcript.lines.push(line(LineOrigin::Sent, request));
            transcript.lines.push(line(LineOrigin::Received, answer));
        }
        let (commands, inbox) = mpsc::channel(limits::CONVERSATION_COMMANDS_MAX);
        let shared = Arc::new(SharedConversation {
            state: Mutex::new(ConversationState { transcript, ended: None, signs: 0 }),
            changed: watch::Sender::new(0),
        });
        let conversation = Conversation {
            shared: shared.clone(),
            commands,
            world: world.clone(),
            began,
            post,
            id: link.subscription().map(str::to_owned),
            answer: link.handshake_response().map(str::to_owned),
            rejected: link.is_rejected(),
        };
        world.tasks.spawn(Kind::Connection, move |mut shutdown| async move {
            tokio::select! {
                () = drive(link, inbox, &shared, began) => {}
                () = shutdown.requested() => {}
            }
        });
        Ok(conversation)
    }

    /// The number of lines, which is the index of the next one.
    pub(crate) fn len(&self) -> usize {
        self.read(<[Line]>::len)
    }

    /// Reads the recorded lines.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&[Line]) -> T) -> T {
        look(&self.lock().transcript.lines)
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        self.read(<[Line]>::to_vec)
    }

    /// Why no more messages arrive, if so.
    pub(crate) fn ended(&self) -> Option<String> {
        self.lock().ended.clone()
    }

    /// Signs of life other than messages.
    pub(crate) fn signs(&self) -> u64 {
        self.lock().signs
    }

    /// Waits until `find` succeeds on the recorded lines, for at most `patience`.
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

    /// The index of the first matching line from `from` on. Each line is checked once.
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

    /// Sends a message; returns the HTTP response, if any.
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
                self.commands.send(Command::Send(text.to_owned(), done)).await.map_err(|_| ended(()))?;
                outcome.await.map_err(|_| ended(()))?.map(|()| None)
            }
        }
    }

    /// Records a message that was sent beside the connection.
    pub(crate) fn note(&self, origin: LineOrigin, text: &str) {
        let line = Line::new(millis(self.began.elapsed()), self.world.clock.now_ms(), origin, text);
        self.shared.write(line);
    }

    /// Stops or resumes reading.
    pub(crate) async fn pause(&self, paused: bool) {
        // After the connection has ended there is nothing to pause.
        self.commands.send(Command::Pause(paused)).await.ok();
    }

    /// Records that endings of sessions may be missing.
    pub(crate) fn mark_cut_short(&self) {
        self.lock().transcript.cut_short = true;
    }

    /// When it was opened, by the clock of its lines.
    pub(crate) fn opened_ms(&self) -> u64 {
        self.lock().transcript.opened_ms
    }

    /// Whether the transcript must contain whole sessions.
    pub(crate) fn is_whole(&self) -> bool {
        self.lock().transcript.scope == Scope::Whole
    }

    /// Disconnects without a close message.
    pub(crate) async fn cut(self) -> Transcript {
        self.commands.send(Command::Disconnect).await.ok();
        self.commands.closed().await;
        let mut transcript = self.lock().transcript.clone();
        transcript.scope = Scope::Part;
        transcript
    }

    /// Disconnects and returns the number of signs of life.
    pub(crate) async fn cut_and_count(self) -> u64 {
        self.commands.send(Command::Disconnect).await.ok();
        self.commands.closed().await;
        self.signs()
    }

    /// Closes the subscription, if there is one, and ends the connection.
    pub(crate) async fn close(self) -> Transcript {
        if let (Some(id), None) = (&self.id, self.ended()) {
            let close = serde_json::json!({
                "type": "subscription.close", "subscription_id": id, "reason_code": "subscriber_shutdown",
                "reason_message": "the check is over",
            });
            // The close is not part of the transcript: no check covers what follows it.
            let transcript = self.lock().transcript.clone();
            self.send(&close.to_string(), LineOrigin::Sent).await.ok();
            self.commands.send(Command::Disconnect).await.ok();
            self.commands.closed().await;
            return transcript;
        }
        self.commands.send(Command::Disconnect).await.ok();
        self.commands.closed().await;
        self.lock().transcript.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ConversationState> {
        self.shared.lock()
    }
}

impl SharedConversation {
    fn lock(&self) -> std::sync::MutexGuard<'_, ConversationState> {
        self.state.lock().expect("no code panics while holding this lock")
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

async fn drive(
    mut link: Link,
    mut inbox: mpsc::Receiver<Command>,
    shared: &SharedConversation,
    began: Instant,
) {
    let (mut paused, mut over) = (false, false);
    loop {
        tokio::select! {
            order = inbox.recv() => match order {
                Some(Command::Send(text, done)) => {
                    let outcome = link.send(&text).await.map(|_| ()).map_err(|why| why.to_string());
                    // The caller may have been dropped.
                    done.send(outcome).ok();
                }
                Some(Command::Pause(pause)) => paused = pause,
                Some(Command::Disconnect) | None => break,
            },
            message = link.next(), if !paused && !over => match message {
                Ok(Some(message)) => {
                    let at_ms = millis(message.at.saturating_duration_since(began));
                    let mut line = Line::new(at_ms, message.at_ms, LineOrigin::Received, message.text);
                    line.id = message.id;
                    shared.lock().signs += message.comments;
                    shared.write(line);
                    if shared.lock().transcript.lines.len() >= limits::CONVERSATION_LINES_MAX {
                        over = true;
                        let max = limits::CONVERSATION_LINES_MAX;
                        shared.end(format!("more than {max} messages came (CONVERSATION_LINES_MAX)"));
                    }
                }
                Ok(None) => {
                    over = true;
                    shared.end("the producer ended the stream".to_owned());
                }
                // A message of the suite was refused; events may still follow.
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
