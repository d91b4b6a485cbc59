//! Forwards open prompts to the editor and submits its answers to the server. The first valid answer of any face wins.
//!
//! Must not depend on how a run is followed. Start with [`forward`].

use std::rc::Rc;

use recount_client::ClientError;
use recount_client::prompt::PromptAnswer;
use recount_client::request::{
    AcknowledgeHandoff, AnswerClarification, RejectHandoff, ResolveApproval, Verdict,
};
use recount_event::family::clarification;
use serde_json::value::RawValue;

use super::connection::Connection;
use super::ending;
use super::session::{Following, Session};
use crate::editor_prompt::{self, Decision};
use crate::project::{OpenPrompt, Step};

/// Forwards a prompt. `is_shown`: the replay has shown the question.
pub(super) fn forward(
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
            OpenPrompt::Clarification(clarification) => {
                question(&this, &session, &following, &prompt, clarification, is_shown).await
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
    let params = editor_prompt::permission(&session.id, prompt, &following.projector.borrow());
    let Some(params) = params else { return };
    let id = prompt.id().as_str();
    let answer = this
        .request("session/request_permission", &params, |request| session.register_request(id, request))
        .await;
    if session.take_request(id).is_none() {
        // The prompt was decided elsewhere and the request withdrawn.
        return;
    }
    let decision = match answer {
        Ok(answer) => editor_prompt::decision(&answer),
        Err(why) => {
            this.note(&format!(
                "the editor did not answer the request for {id}: {} ({})",
                why.message, why.code
            ));
            None
        }
    };
    match decision {
        Some(decision) => {
            let submitted = decide(this, prompt, decision).await;
            report(this, session, following, id, submitted).await;
        }
        None => this.note(&format!(
            "{id} stays open; answer it with recount approve, in the console or in another client"
        )),
    }
}

async fn decide(this: &Connection, prompt: &OpenPrompt, decision: Decision) -> Result<(), ClientError> {
    let id = prompt.id().as_str();
    let Decision { verdict, remember } = decision;
    match prompt {
        OpenPrompt::Approval(_) => {
            let resolve = ResolveApproval { decision: verdict, comment: None, remember, shown_digest: None };
            submit(this, id, &resolve).await
        }
        OpenPrompt::Handoff(_) if verdict == Verdict::Approve => {
            submit(this, id, &AcknowledgeHandoff::default()).await
        }
        OpenPrompt::Handoff(_) => submit(this, id, &RejectHandoff::default()).await,
        OpenPrompt::Clarification(_) => Ok(()),
    }
}

async fn submit(this: &Connection, id: &str, answer: &impl PromptAnswer) -> Result<(), ClientError> {
    this.patiently(async || this.client.answer_prompt(id, answer).await).await.map(drop)
}

/// Shows the error of an answer that the server refused. A late answer is ignored.
async fn report(
    this: &Connection,
    session: &Session,
    following: &Following,
    id: &str,
    submitted: Result<(), ClientError>,
) {
    let Err(why) = submitted else { return };
    let is_late = why.code().is_some_and(|code| code.ends_with("_not_pending") || code == "run_ended");
    if is_late {
        return;
    }
    let words =
        format!("The answer to {id} was not accepted: {why}. Answer with recount approve or in the console.");
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
    clarification: &clarification::Requested,
    is_shown: bool,
) {
    let id = prompt.id().as_str();
    let has_forms = this.introduced().is_ok_and(|introduced| introduced.editor.has_forms);
    if has_forms {
        let params = editor_prompt::form(&session.id, clarification);
        let answer = this
            .request("elicitation/create", &params, |request| session.register_request(id, request))
            .await;
        if session.take_request(id).is_none() {
            return;
        }
        let reply = answer.ok().and_then(|answer| editor_prompt::reply(clarification, &answer));
        if let Some(reply) = reply.and_then(|reply| RawValue::from_string(reply).ok()) {
            let answer = AnswerClarification { response: reply, shown_digest: None };
            let submitted = submit(this, id, &answer).await;
            return report(this, session, following, id, submitted).await;
        }
        if !is_open(following, prompt) {
            return;
        }
    }
    // The next message is the answer, also if a form was not filled in.
    session.expect_text_answer(id);
    if !is_shown {
        let step = following.projector.borrow().question(clarification);
        if let Step::Update(update) = step {
            this.update(&session.id, &update).await;
        }
    }
    ending::end_if_waiting(this, session, following).await;
}
