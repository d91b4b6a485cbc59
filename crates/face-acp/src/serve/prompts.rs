//! Asks the editor about an open prompt, and gives its answer to the server. The first valid answer of any face wins.
//!
//! It must not know how a run is followed. Look at [`ask`].

use std::rc::Rc;

use recount_client::ClientError;
use recount_client::request::{
    AcknowledgeHandoff, AnswerClarification, RejectHandoff, ResolveApproval, Verdict,
};
use recount_event::family::clarification;
use serde_json::value::RawValue;

use super::connection::Connection;
use super::ending;
use super::session::{Following, Session};
use crate::ask::{self, Decision};
use crate::project::{OpenPrompt, Step};

/// Asks about a prompt. `is_shown`: a question is in the replay already.
pub(super) fn ask(
    this: &Rc<Connection>,
    session: &Rc<Session>,
    following: &Rc<Following>,
    prompt: OpenPrompt,
    is_shown: bool,
) {
    let (this, session, following) = (this.clone(), session.clone(), following.clone());
    this.clone().spawn(async move {
        if !is_open(&following, &prompt) {
            return;
        }
        match &prompt {
            OpenPrompt::Clarification(asked) => {
                question(&this, &session, &following, &prompt, asked, is_shown).await
            }
            OpenPrompt::Approval(_) | OpenPrompt::Handoff(_) => {
                permission(&this, &session, &following, &prompt).await;
            }
        }
    });
}

fn is_open(following: &Following, prompt: &OpenPrompt) -> bool {
    following.projector.borrow().open().iter().any(|open| open.id() == prompt.id())
}

async fn permission(this: &Connection, session: &Session, following: &Following, prompt: &OpenPrompt) {
    let params = ask::permission(&session.id, prompt, &following.projector.borrow());
    let Some(params) = params else { return };
    let id = prompt.id().as_str();
    let answer = this.ask("session/request_permission", &params, |request| session.asks(id, request)).await;
    if session.asked(id).is_none() {
        // It was decided elsewhere, and withdrawn.
        return;
    }
    let decision = match answer {
        Ok(answer) => ask::decision(&answer),
        Err(why) => {
            this.note(&format!("the editor did not answer for {id}: {} ({})", why.message, why.code));
            None
        }
    };
    match decision {
        Some(decision) => {
            let told = decide(this, prompt, decision).await;
            report(this, session, following, id, told).await;
        }
        None => this.note(&format!("{id} stays open; it can be answered on any face")),
    }
}

async fn decide(this: &Connection, prompt: &OpenPrompt, decision: Decision) -> Result<(), ClientError> {
    let id = prompt.id().as_str();
    let is_yes = decision.verdict == Verdict::Approve;
    match prompt {
        OpenPrompt::Approval(_) => {
            let Decision { verdict, remember } = decision;
            let resolve = ResolveApproval { decision: verdict, comment: None, remember };
            this.patiently(async || this.client.resolve_approval(id, &resolve).await).await.map(drop)
        }
        OpenPrompt::Handoff(_) if is_yes => {
            let accept = AcknowledgeHandoff::default();
            this.patiently(async || this.client.acknowledge_handoff(id, &accept).await).await.map(drop)
        }
        OpenPrompt::Handoff(_) => {
            let reject = RejectHandoff::default();
            this.patiently(async || this.client.reject_handoff(id, &reject).await).await.map(drop)
        }
        OpenPrompt::Clarification(_) => Ok(()),
    }
}

/// An answer that came too late changes nothing. One that the server refuses is shown.
async fn report(
    this: &Connection,
    session: &Session,
    following: &Following,
    id: &str,
    told: Result<(), ClientError>,
) {
    let Err(why) = told else { return };
    let is_late = why.code().is_some_and(|code| code.ends_with("_not_pending") || code == "run_ended");
    if is_late {
        return;
    }
    let words = format!(
        "The answer for {id} was not accepted: {why}. It can be given with recount approve or in the console."
    );
    let note = following.projector.borrow().note(&words);
    if let Step::Update(update) = note {
        this.update(&session.id, &update).await;
    }
}

async fn question(
    this: &Connection,
    session: &Session,
    following: &Following,
    prompt: &OpenPrompt,
    asked: &clarification::Requested,
    is_shown: bool,
) {
    let id = prompt.id().as_str();
    let has_forms = this.introduced().is_ok_and(|introduced| introduced.editor.has_forms);
    if has_forms {
        let params = ask::form(&session.id, asked);
        let answer = this.ask("elicitation/create", &params, |request| session.asks(id, request)).await;
        if session.asked(id).is_none() {
            return;
        }
        let reply = answer.ok().and_then(|answer| ask::reply(asked, &answer));
        if let Some(reply) = reply.and_then(|reply| RawValue::from_string(reply).ok()) {
            let told = this.patiently(async || {
                let answer = AnswerClarification { response: reply.clone() };
                this.client.answer_clarification(id, &answer).await
            });
            let told = told.await.map(drop);
            return report(this, session, following, id, told).await;
        }
        if !is_open(following, prompt) {
            return;
        }
    }
    // The next message is the answer, also where a form was not filled in.
    session.asks_in_words(id);
    if !is_shown {
        let step = following.projector.borrow().question(asked);
        if let Step::Update(update) = step {
            this.update(&session.id, &update).await;
        }
    }
    ending::end_if_waiting(this, session, following).await;
}
