//! Drafts: events without an envelope. Required fields of a type are arguments, optional ones are methods.

use serde_json::{Map, Value};

use crate::wire::{
    AwaitingClarification, AwaitingConfirmation, Body, Boundary, CancelledBy, Choice, Decision,
    ErrorCategory, HandoffRequested, HandoffTarget, Level, OutputStreaming, Progress, ProgressUpdated,
    ReplyToken, Reversibility, SessionCancelled, SessionCompleted, SessionErrored, SessionStarted,
    StateChanged, Summaries, ToolCompleted, ToolInvoked, ToolStatus, Urgency, Verbosity,
};

/// An event without an envelope; [`super::Frame::event`] adds it.
#[derive(Debug, Clone)]
pub struct Draft<B> {
    pub(crate) body: B,
    pub(crate) summaries: Summaries,
    pub(crate) urgency: Option<Urgency>,
    pub(crate) verbosity: Option<Verbosity>,
    pub(crate) extensions: Vec<(String, Map<String, Value>)>,
    pub(crate) contexts: Vec<Box<str>>,
    pub(crate) localized: Vec<(Box<str>, String)>,
    pub(crate) language: Option<String>,
}

impl<B> Draft<B> {
    fn of(body: B) -> Self {
        Draft {
            body,
            summaries: Summaries::default(),
            urgency: None,
            verbosity: None,
            extensions: Vec::new(),
            contexts: Vec::new(),
            localized: Vec::new(),
            language: None,
        }
    }

    fn with_summary(body: B, summary: impl Into<String>) -> Self {
        Draft::of(body).summary(summary)
    }

    /// Sets `summary_normal`: one sentence.
    pub fn summary(mut self, text: impl Into<String>) -> Self {
        self.summaries.normal = Some(text.into());
        self
    }

    /// Sets `summary_terse`: a few words.
    pub fn terse(mut self, text: impl Into<String>) -> Self {
        self.summaries.terse = Some(text.into());
        self
    }

    /// Sets `summary_detailed`: the full text.
    pub fn detailed(mut self, text: impl Into<String>) -> Self {
        self.summaries.detailed = Some(text.into());
        self
    }

    /// Adds a text in another language: `in_language("summary_normal", "yo", …)`.
    pub fn in_language(mut self, field: &str, tag: &str, text: impl Into<String>) -> Self {
        self.localized.push((format!("{field}_{}", tag.to_ascii_lowercase()).into(), text.into()));
        self
    }

    /// Sets the urgency. Errors, prompts and handoffs are always critical.
    pub fn urgency(mut self, urgency: Urgency) -> Self {
        self.urgency = Some(urgency);
        self
    }

    pub fn verbosity(mut self, verbosity: Verbosity) -> Self {
        self.verbosity = Some(verbosity);
        self
    }

    /// Sets the language of the texts, if it differs from the frame's.
    pub fn language(mut self, tag: impl Into<String>) -> Self {
        self.language = Some(tag.into());
        self
    }

    /// Adds an extension's object, with the context that declares its prefix.
    pub fn extension(mut self, context: &str, prefix: impl Into<String>, object: Map<String, Value>) -> Self {
        if !self.contexts.iter().any(|known| &**known == context) {
            self.contexts.push(context.into());
        }
        self.extensions.push((prefix.into(), object));
        self
    }

    pub(super) fn into_body(self) -> Draft<Body>
    where
        B: Into<Body>,
    {
        Draft {
            body: self.body.into(),
            summaries: self.summaries,
            urgency: self.urgency,
            verbosity: self.verbosity,
            extensions: self.extensions,
            contexts: self.contexts,
            localized: self.localized,
            language: self.language,
        }
    }
}

macro_rules! setters {
    ($( $body:ident { $( $field:ident : $value:ty, )* } )*) => { $(
        impl Draft<$body> { $(
            #[doc = concat!("Sets `", stringify!($field), "`.")]
            pub fn $field(mut self, value: impl Into<$value>) -> Self {
                self.body.$field = Some(value.into());
                self
            }
        )* }
    )* };
}

setters! {
    SessionStarted {
        expected_duration_ms: u64,
        requested_by: String,
        request_text: String,
        tools_available: Vec<String>,
    }
    SessionCompleted {
        duration_ms: u64,
        tool_invocations_count: u64,
        output_summary: String,
        result_uri: String,
    }
    SessionErrored {
        error_code: String,
        error_uri: String,
        recoverable: bool,
        remediation_hint: String,
    }
    SessionCancelled { cancellation_reason: String, partial_result: String, }
    StateChanged { expected_duration_ms: u64, }
    ProgressUpdated { eta_ms: u64, }
    ToolInvoked {
        description: String,
        args_summary: String,
        expected_duration_ms: u64,
        risk_level: Level,
        irreversible: bool,
        tool_call_id: String,
    }
    ToolCompleted { tool_call_id: String, duration_ms: u64, error_message: String, }
    OutputStreaming { coalesce_hint: Boundary, output_id: String, content_type: String, }
    AwaitingConfirmation {
        risk_level: Level,
        irreversible: bool,
        reversibility: Reversibility,
        allowed_replies: Vec<Decision>,
        extra_context: Map<String, Value>,
    }
    AwaitingClarification { accepted_response_kinds: Vec<String>, context: String, default_response: String, }
    HandoffRequested { target_uri: String, packaged_context: Map<String, Value>, urgency_for_handoff: Level, }
}

/// Starts a session.
pub fn session_started(summary: impl Into<String>) -> Draft<SessionStarted> {
    Draft::with_summary(SessionStarted::new(), summary)
}

/// Ends a session successfully.
pub fn session_completed(summary: impl Into<String>) -> Draft<SessionCompleted> {
    Draft::with_summary(SessionCompleted::new(), summary)
}

/// Ends a session with an error.
pub fn session_errored(category: ErrorCategory, summary: impl Into<String>) -> Draft<SessionErrored> {
    Draft::with_summary(SessionErrored::new(category), summary)
}

/// Cancels a session.
pub fn session_cancelled(by: CancelledBy, summary: impl Into<String>) -> Draft<SessionCancelled> {
    Draft::with_summary(SessionCancelled::new(by), summary)
}

/// Changes the state.
pub fn state_changed(
    from: impl Into<String>,
    to: impl Into<String>,
    summary: impl Into<String>,
) -> Draft<StateChanged> {
    Draft::with_summary(StateChanged::new(from.into(), to.into()), summary)
}

/// Reports progress.
pub fn progress(progress: Progress) -> Draft<ProgressUpdated> {
    Draft::of(ProgressUpdated::new(progress))
}

/// Announces a tool call.
pub fn tool_invoked(tool: impl Into<String>, summary: impl Into<String>) -> Draft<ToolInvoked> {
    Draft::with_summary(ToolInvoked::new(tool.into()), summary)
}

/// Ends a tool call.
pub fn tool_completed(
    tool: impl Into<String>,
    status: ToolStatus,
    summary: impl Into<String>,
) -> Draft<ToolCompleted> {
    Draft::with_summary(ToolCompleted::new(tool.into(), status), summary)
}

/// A chunk of output; `position` counts the characters before it.
pub fn output(chunk: impl Into<String>, position: u64, hint: Boundary) -> Draft<OutputStreaming> {
    let mut piece = OutputStreaming::new(chunk.into(), position, false);
    piece.coalesce_hint = Some(hint);
    Draft::of(piece)
}

/// The last chunk of an output; it may be empty.
pub fn last_output(chunk: impl Into<String>, position: u64) -> Draft<OutputStreaming> {
    let mut piece = OutputStreaming::new(chunk.into(), position, true);
    piece.coalesce_hint = Some(Boundary::Completion);
    Draft::of(piece)
}

/// Requests confirmation of an action. Without a reply it is rejected, unless [`Draft::default_accept`] is used.
pub fn confirmation(
    action: impl Into<String>,
    consequence: impl Into<String>,
    token: ReplyToken,
    timeout_seconds: u32,
) -> Draft<AwaitingConfirmation> {
    let (action, consequence) = (action.into(), consequence.into());
    let summary = format!("{action} {consequence}");
    Draft::with_summary(
        AwaitingConfirmation::new(action, consequence, token, timeout_seconds, Decision::Reject),
        summary,
    )
}

impl Draft<AwaitingConfirmation> {
    /// Accepts the action if no reply arrives in time. Invalid for high-risk actions that cannot be undone.
    pub fn default_accept(mut self) -> Self {
        self.body.default_decision = Decision::Accept;
        self
    }

    /// Names the call that needs the confirmation, so that the acceptance applies to no other call.
    pub fn for_call(mut self, tool: &str, tool_call_id: &str) -> Self {
        let context = self.body.extra_context.get_or_insert_default();
        context.insert("tool".into(), tool.into());
        context.insert("tool_call_id".into(), tool_call_id.into());
        self
    }

    /// Shows the arguments of the call, which must repeat them in its own `args_summary`.
    pub fn for_arguments(mut self, args_summary: &str) -> Self {
        let context = self.body.extra_context.get_or_insert_default();
        context.insert("args_summary".into(), args_summary.into());
        self
    }
}

/// Asks a question.
pub fn clarification(
    question: impl Into<String>,
    token: ReplyToken,
    timeout_seconds: u32,
) -> Draft<AwaitingClarification> {
    let question = question.into();
    let summary = question.clone();
    Draft::with_summary(AwaitingClarification::new(question, token, timeout_seconds), summary)
}

impl Draft<AwaitingClarification> {
    /// Adds a choice: the value to return and the label for people.
    pub fn choice(mut self, value: impl Into<String>, label: impl Into<String>) -> Self {
        let kinds = self.body.accepted_response_kinds.get_or_insert_default();
        if !kinds.iter().any(|kind| kind == "multiple_choice") {
            kinds.push("multiple_choice".into());
        }
        let choice = Choice { value: value.into(), label: label.into() };
        self.body.choices.get_or_insert_default().push(choice);
        self
    }
}

/// Requests a handoff to another agent or to a person.
pub fn handoff(
    reason: impl Into<String>,
    target: HandoffTarget,
    summary: impl Into<String>,
) -> Draft<HandoffRequested> {
    Draft::with_summary(HandoffRequested::new(reason.into(), target), summary)
}
