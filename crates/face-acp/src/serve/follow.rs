//! Follows a run and sends its updates to the editor, each once, across restarts of the server.
//!
//! Must not depend on the message that the run answers. Start with [`begin`].

use std::rc::Rc;

use recount_client::reply::Gap;
use recount_client::{Source, TailItem, Until};
use recount_event::codec;
use serde_json::Value;

use super::connection::Connection;
use super::session::{Following, Session};
use super::{ending, prompts};
use crate::error::{INTERNAL_ERROR, RpcError};
use crate::limits;
use crate::project::{Ending, OpenPrompt, Step};

/// Follows a run after the event `after`, or from its beginning, until it ends.
pub(super) fn begin(
    this: &Rc<Connection>,
    session: &Rc<Session>,
    following: Rc<Following>,
    after: Option<u64>,
) {
    session.follow(following.clone());
    let (this, session) = (this.clone(), session.clone());
    this.clone().spawn(async move {
        tokio::select! {
            () = follow(&this, &session, &following, after) => {}
            () = following.stopped() => {}
        }
    });
}

async fn follow(
    this: &Rc<Connection>,
    session: &Rc<Session>,
    following: &Rc<Following>,
    mut after: Option<u64>,
) {
    let mut attempt = 1;
    loop {
        let mut tail = this.client.tail(Source::Run(following.run.clone()), after, Until::Ended);
        while let Some(item) = tail.next().await {
            let why = match item {
                Ok(TailItem::Event { cursor, envelope }) => {
                    (after, attempt) = (Some(cursor), 1);
                    if send_event(this, session, following, &envelope).await {
                        return;
                    }
                    continue;
                }
                Ok(TailItem::Gap(gap)) => {
                    missing(this, session, following, &gap_words(&gap)).await;
                    continue;
                }
                Ok(TailItem::CaughtUp { .. }) => continue,
                Ok(TailItem::Disconnected { reason, .. }) => {
                    this.note(&format!("the connection to the server was lost ({reason}); reconnecting"));
                    continue;
                }
                Err(why) => why,
            };
            if why.may_pass() && attempt < limits::FOLLOW_ATTEMPTS_MAX {
                attempt += 1;
                tokio::time::sleep(limits::CALL_RETRY_WAIT).await;
                break;
            }
            return lost(this, session, following, why.into()).await;
        }
        if attempt == 1 {
            let error = RpcError::new(
                INTERNAL_ERROR,
                format!("the event stream of {} ended before the run ended", following.run),
            );
            return lost(this, session, following, error).await;
        }
    }
}

/// Reports that the run can no longer be followed. Its outcome is in the log.
async fn lost(this: &Connection, session: &Session, following: &Following, error: RpcError) {
    let ending =
        Ending::Failed { code: "unreachable".to_owned(), message: error.message.clone(), retriable: true };
    *following.ending.borrow_mut() = Some(ending);
    ending::fail(this, session, &following.run, error).await;
}

/// Describes missing events of a run.
pub(super) fn gap_words(gap: &Gap) -> String {
    match gap {
        Gap::Pruned { first_pruned_sequence: first, last_pruned_sequence: last } => {
            format!("Events {first} to {last} of the run were pruned.")
        }
        Gap::Damaged(range) => {
            let (first, last) = (range.first_sequence.unwrap_or(0), range.last_sequence.unwrap_or(0));
            format!("Events {first} to {last} of the run are damaged and cannot be shown.")
        }
    }
}

async fn missing(this: &Connection, session: &Session, following: &Following, words: &str) {
    let note = following.projector.borrow().note(words);
    if let Step::Update(update) = note {
        this.update(&session.id, &update).await;
    }
}

/// Sends the updates of one event. Returns whether the run has ended.
async fn send_event(
    this: &Rc<Connection>,
    session: &Rc<Session>,
    following: &Rc<Following>,
    envelope: &str,
) -> bool {
    let event = match codec::decode(envelope.as_bytes()) {
        Ok(event) => event,
        Err(why) => {
            missing(this, session, following, &format!("An event of the run cannot be read: {why}")).await;
            return false;
        }
    };
    let steps = following.projector.borrow_mut().event(&event);
    for step in steps {
        match step {
            Step::Update(update) => this.update(&session.id, &update).await,
            Step::Prompt(prompt) => prompts::forward(this, session, following, prompt, false),
            Step::Settled { prompt } => settled(this, session, &prompt).await,
            Step::Patch { call, artifact, path } => {
                let updates = patch(this, following, [&call, &artifact, &path]).await;
                for update in updates {
                    this.update(&session.id, &update).await;
                }
            }
            Step::Ended(ending) => {
                ended(this, session, following, ending).await;
                return true;
            }
        }
    }
    ending::end_if_waiting(this, session, following).await;
    false
}

async fn settled(this: &Connection, session: &Session, prompt: &str) {
    session.settle(prompt);
    if let Some(request) = session.take_request(prompt) {
        this.withdraw(request).await;
    }
}

async fn ended(this: &Connection, session: &Session, following: &Following, ending: Ending) {
    let used = following.projector.borrow().used();
    *following.ending.borrow_mut() = Some(ending.clone());
    if ending::answer(this, session, &following.run, &ending, used).await {
        return;
    }
    if let Some(words) = ending.words() {
        missing(this, session, following, &words).await;
    }
}

/// The diff of a patch, from its artifact.
pub(super) async fn patch(this: &Connection, following: &Following, names: [&str; 3]) -> Vec<Value> {
    let [call, artifact, path] = names;
    let fetched = this.patiently(async || this.client.get_artifact(artifact).await).await;
    let diff = match fetched {
        Ok(artifact) => artifact.diff.filter(|diff| diff.len() <= limits::PATCH_BYTES_MAX),
        Err(why) => {
            this.note(&format!("the artifact {artifact} cannot be read: {why}"));
            None
        }
    };
    let steps = following.projector.borrow_mut().patched(call, artifact, path, diff.as_deref());
    steps
        .into_iter()
        .filter_map(|step| if let Step::Update(update) = step { Some(update) } else { None })
        .collect()
}

/// Forwards the open prompts again, after the editor has reconnected.
pub(super) fn forward_open_prompts(
    this: &Rc<Connection>,
    session: &Rc<Session>,
    following: &Rc<Following>,
    is_shown: bool,
) {
    let open: Vec<OpenPrompt> = following.projector.borrow().open().to_vec();
    for prompt in open {
        prompts::forward(this, session, following, prompt, is_shown);
    }
}
