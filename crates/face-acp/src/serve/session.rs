//! A session that the editor has open, and its followed run.
//!
//! Must not depend on messages or the server. Start with [`Session`] and [`Following`].

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use recount_client::aap::wire::{AgentInfo, Overrides, SessionInfo};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::offer::{self, Mode};
use crate::project::{Ending, OpenPrompt, Projector};

pub(super) struct Session {
    pub(super) id: String,
    pub(super) mode: Cell<Mode>,
    /// The mode that the server has stored.
    stored_mode: Cell<Mode>,
    /// Values of the agent's options, and those that the server has not stored yet.
    values: RefCell<BTreeMap<String, String>>,
    changed: RefCell<BTreeMap<String, String>>,
    pub(super) is_titled: Cell<bool>,
    prompting: RefCell<Option<Prompting>>,
    following: RefCell<Option<Rc<Following>>>,
    /// Requests to the editor, by their prompt.
    requests: RefCell<HashMap<String, u64>>,
    /// Questions that were shown as text: the next message answers the first one.
    text_questions: RefCell<BTreeSet<String>>,
    /// The question that the prompt in progress answers.
    answering: RefCell<Option<String>>,
}

/// A `session/prompt` without a response.
#[derive(Debug, Clone)]
pub(super) struct Prompting {
    pub(super) request: Value,
    /// The run that it started or continued, if known.
    pub(super) run: Option<String>,
    pub(super) is_cancelled: bool,
}

/// A run whose updates are sent to the editor.
pub(super) struct Following {
    pub(super) run: String,
    pub(super) projector: RefCell<Projector>,
    pub(super) ending: RefCell<Option<Ending>>,
    stop: Notify,
}

impl Following {
    pub(super) fn new(projector: Projector) -> Self {
        let run = projector.run().to_owned();
        Following { run, projector: RefCell::new(projector), ending: RefCell::new(None), stop: Notify::new() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.ending.borrow().is_some()
    }

    pub(super) fn stop(&self) {
        self.stop.notify_one();
    }

    pub(super) async fn stopped(&self) {
        self.stop.notified().await;
    }
}

impl Session {
    pub(super) fn new(info: &SessionInfo, agent: &AgentInfo) -> Self {
        let mode = Mode::of(agent, &info.agent);
        Session {
            id: info.session_id.clone(),
            mode: Cell::new(mode),
            stored_mode: Cell::new(mode),
            values: RefCell::new(info.agent.options.clone().unwrap_or_default()),
            changed: RefCell::default(),
            is_titled: Cell::new(info.title.is_some()),
            prompting: RefCell::new(None),
            following: RefCell::new(None),
            requests: RefCell::default(),
            text_questions: RefCell::default(),
            answering: RefCell::new(None),
        }
    }

    /// Its modes and options, in the form of responses.
    pub(super) fn shown(&self, agent: &AgentInfo) -> Value {
        json!({ "modes": offer::modes(self.mode.get()), "configOptions": self.config_options(agent) })
    }

    pub(super) fn config_options(&self, agent: &AgentInfo) -> Value {
        offer::config_options(agent, &self.values.borrow())
    }

    pub(super) fn choose(&self, name: &str, value: &str) {
        self.values.borrow_mut().insert(name.to_owned(), value.to_owned());
        self.changed.borrow_mut().insert(name.to_owned(), value.to_owned());
    }

    /// The changes of the session in the next turn.
    pub(super) fn overrides(&self, agent: &AgentInfo) -> Option<Overrides> {
        let mode = self.mode.get();
        let tools = if mode == self.stored_mode.get() { None } else { mode.tools(agent) };
        let options = Some(self.changed.borrow().clone()).filter(|changed| !changed.is_empty());
        (tools.is_some() || options.is_some()).then_some(Overrides { tools, options })
    }

    /// Marks these choices as stored by the server; others may have been made since they were sent.
    pub(super) fn stored(&self, mode: Mode, sent: &BTreeMap<String, String>) {
        self.stored_mode.set(mode);
        self.changed.borrow_mut().retain(|name, value| sent.get(name) != Some(value));
    }

    // The prompt in progress.

    /// Returns `false` if a prompt is in progress.
    pub(super) fn begin_prompt(&self, request: &Value) -> bool {
        let mut prompting = self.prompting.borrow_mut();
        if prompting.is_some() {
            return false;
        }
        *prompting = Some(Prompting { request: request.clone(), run: None, is_cancelled: false });
        *self.answering.borrow_mut() = self.open_text_question();
        true
    }

    pub(super) fn prompting(&self) -> Option<Prompting> {
        self.prompting.borrow().clone()
    }

    pub(super) fn prompt_runs(&self, run: &str) {
        if let Some(prompting) = self.prompting.borrow_mut().as_mut() {
            prompting.run = Some(run.to_owned());
        }
    }

    /// Ends the prompt in progress; it is answered once.
    pub(super) fn end_prompt(&self) -> Option<Prompting> {
        *self.answering.borrow_mut() = None;
        self.prompting.borrow_mut().take()
    }

    /// Marks the prompt in progress as cancelled. Returns the run to cancel, if it is known.
    pub(super) fn cancel(&self) -> Option<String> {
        let mut prompting = self.prompting.borrow_mut();
        let of_prompt = prompting.as_mut().map(|prompting| {
            prompting.is_cancelled = true;
            prompting.run.clone()
        });
        let followed =
            || self.following.borrow().as_ref().filter(|run| !run.is_over()).map(|run| run.run.clone());
        of_prompt.unwrap_or_else(followed)
    }

    // The run that is followed.

    pub(super) fn following(&self) -> Option<Rc<Following>> {
        self.following.borrow().clone()
    }

    pub(super) fn follow(&self, following: Rc<Following>) {
        *self.following.borrow_mut() = Some(following);
    }

    // Prompts.

    pub(super) fn register_request(&self, prompt: &str, request: u64) {
        self.requests.borrow_mut().insert(prompt.to_owned(), request);
    }

    /// Removes and returns the request to the editor about a prompt.
    pub(super) fn take_request(&self, prompt: &str) -> Option<u64> {
        self.requests.borrow_mut().remove(prompt)
    }

    pub(super) fn expect_text_answer(&self, prompt: &str) {
        self.text_questions.borrow_mut().insert(prompt.to_owned());
    }

    pub(super) fn settle(&self, prompt: &str) {
        self.text_questions.borrow_mut().remove(prompt);
        self.answering.borrow_mut().take_if(|answering| answering == prompt);
    }

    /// The first open question that the next message answers.
    fn open_text_question(&self) -> Option<String> {
        let following = self.following()?;
        let projector = following.projector.borrow();
        let text_questions = self.text_questions.borrow();
        let mut open = projector.open().iter().map(|open| open.id().as_str().to_owned());
        open.find(|open| text_questions.contains(open))
    }

    /// Whether a run waits, and only for questions that the next message answers.
    pub(super) fn waits_for_message(&self, following: &Following) -> bool {
        let projector = following.projector.borrow();
        let (text_questions, answering) = (self.text_questions.borrow(), self.answering.borrow());
        let awaits_text = |open: &OpenPrompt| {
            let id = open.id().as_str();
            text_questions.contains(id) && answering.as_deref() != Some(id)
        };
        projector.is_waiting() && !projector.open().is_empty() && projector.open().iter().all(awaits_text)
    }
}
