//! `/decide/TOKEN`: answers one prompt by a link that a webhook sent.
//!
//! The token is the only credential: it is for one prompt as it was shown, and for one person. `GET` shows the prompt and never
//! decides, because chat programs open links for previews. It must not know how a link is sent. See [`router`] and
//! `docs/decisions/0145`.

mod link;
mod page;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Path, Request, State};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use http_body_util::{BodyExt as _, Limited};
use recount_engine::{ApprovalRow, Engine, Error, FoundArtifact, PromptRow};
use recount_event::{Code, ForeignId, Json, PromptKind, RunId, time};
use recount_face_aep::Refusal;
use recount_run::Command;
use serde_json::{Value, json};

use self::link::Claim;
pub(crate) use self::link::{DecisionLinks, PREFIX};
use self::page::PageContext;
pub(crate) use self::page::utc_time;
use crate::audit::AuditKind;
use crate::config::Webhooks;
use crate::peer::Peer;
use crate::tenants::Tenants;
use crate::{limits, plain_page};

/// Whether a path is that of a link, which needs neither a token nor a known origin: the link is what is checked.
pub(crate) fn is_link(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(|token| !token.is_empty() && !token.contains('/'))
}

/// What the handlers use.
pub(crate) struct Decisions {
    pub(crate) links: DecisionLinks,
    pub(crate) webhooks: Webhooks,
    pub(crate) tenants: Arc<Tenants>,
}

pub(crate) fn router(decisions: Option<Decisions>) -> Router {
    match decisions {
        Some(decisions) => {
            let path = format!("{PREFIX}{{token}}");
            Router::new().route(&path, get(show).post(decide)).with_state(Arc::new(decisions))
        }
        None => Router::new(),
    }
}

/// A prompt that a link may answer now.
struct OpenPrompt {
    claim: Claim,
    engine: Engine,
    row: PromptRow,
    run: RunId,
}

/// Why a link decides nothing.
struct Closed {
    status: u16,
    /// As the audit trail counts it.
    code: &'static str,
    heading: &'static str,
    texts: Vec<String>,
}

impl Closed {
    fn new(status: u16, code: &'static str, heading: &'static str, text: impl Into<String>) -> Self {
        Closed { status, code, heading, texts: vec![text.into()] }
    }

    fn invalid() -> Self {
        let text = "Copy the whole link from the message. Nothing was decided.";
        Closed::new(404, "decision_link_invalid", "This link is not valid", text)
    }

    fn withdrawn() -> Self {
        let text = "The webhook that sent it was removed or is for another person now. Nothing was decided.";
        Closed::new(410, "decision_link_withdrawn", "This link was withdrawn", text)
    }

    fn missing() -> Self {
        let text = "Its run was deleted or pruned. Nothing was decided.";
        Closed::new(410, "decision_link_expired", "The prompt no longer exists", text)
    }

    fn expired() -> Self {
        let text = "The time to answer by this link is over. Nothing was decided.";
        Closed::new(410, "decision_link_expired", "This link has expired", text)
    }

    fn changed() -> Self {
        let text = "It is not the prompt that the message was about. Read it in the console, and answer it there. \
                    Nothing was decided.";
        Closed::new(409, "decision_prompt_changed", "The prompt has changed", text)
    }

    fn malformed(text: &str) -> Self {
        let text = format!("{text} Nothing was decided; go back and try again.");
        Closed::new(400, "decision_form_invalid", "The answer is not complete", text)
    }

    /// A prompt with an outcome.
    fn settled(row: &PromptRow) -> Self {
        let at = |at: &Option<String>| at.as_deref().map(utc_time).unwrap_or_default();
        let by = |by: &Option<String>| by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let text = match row {
            PromptRow::Approval(row) => {
                let comment = row.comment.as_ref().map(|comment| format!("\nComment: {comment}"));
                let (status, by, at) = (&row.status, by(&row.decided_by), at(&row.decided_at));
                format!("Outcome: {status}{by}, {at}.{}", comment.unwrap_or_default())
            }
            PromptRow::Clarification(row) => {
                let response =
                    row.response.as_ref().map(|response| format!("\nAnswer: {}", response.texts()));
                let (status, by, at) = (&row.status, by(&row.answered_by), at(&row.answered_at));
                format!("Outcome: {status}{by}, {at}.{}", response.unwrap_or_default())
            }
            PromptRow::Handoff(row) => format!("Outcome: {}{}.", row.status, by(&row.answered_by)),
        };
        let heading = "This prompt is already answered";
        let mut closed = Closed::new(410, "decision_prompt_answered", heading, about(row));
        closed.texts.push(text);
        closed
    }

    fn failed(error: Error) -> Self {
        let refusal = Refusal::from(error);
        let (code, detail) = (refusal.code.as_str(), refusal.detail.clone());
        let status =
            recount_face_aep::status_of(&axum::response::IntoResponse::into_response(refusal)).as_u16();
        Closed::new(
            status,
            code,
            "The answer was not accepted",
            format!("{detail}. Try again, or use the console."),
        )
    }

    fn response(&self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        plain_page::response(status, page::closed(self.heading, &self.texts))
    }
}

fn about(row: &PromptRow) -> &str {
    match row {
        PromptRow::Approval(row) => &row.summary,
        PromptRow::Clarification(row) => &row.question,
        PromptRow::Handoff(row) => &row.reason,
    }
}

async fn show(
    State(decisions): State<Arc<Decisions>>,
    Path(token): Path<String>,
    peer: Option<Extension<Peer>>,
) -> Response {
    let found = match decisions.open(&token).await {
        Ok(open) => open.page().await.map_err(Closed::failed),
        Err(closed) => Err(closed),
    };
    match found {
        Ok(page) => plain_page::response(StatusCode::OK, page),
        Err(closed) => {
            // A preview of a link that was used is nothing to record.
            if closed.code == "decision_link_invalid" {
                decisions.refused(&closed, peer);
            }
            closed.response()
        }
    }
}

async fn decide(
    State(decisions): State<Arc<Decisions>>,
    Path(token): Path<String>,
    peer: Option<Extension<Peer>>,
    request: Request,
) -> Response {
    let decided = match decisions.open(&token).await {
        Ok(open) => decisions.decide(open, request).await,
        Err(closed) => Err(closed),
    };
    match decided {
        Ok(row) => {
            let mut closed = Closed::settled(&row);
            closed.heading = "Your answer is recorded";
            plain_page::response(StatusCode::OK, page::closed(closed.heading, &closed.texts))
        }
        Err(closed) => {
            decisions.refused(&closed, peer);
            closed.response()
        }
    }
}

impl Decisions {
    fn refused(&self, closed: &Closed, peer: Option<Extension<Peer>>) {
        if let Some(audit) = self.tenants.audit() {
            audit.refused(closed.code, peer.map(|Extension(peer)| peer.id()));
        }
    }

    /// Checks everything that a link is bound to.
    async fn open(&self, token: &str) -> Result<OpenPrompt, Closed> {
        let claim = self.links.read(token).ok_or_else(Closed::invalid)?;
        let is_current = self.webhooks.named(&claim.webhook).is_some_and(|webhook| {
            webhook.tenant == claim.tenant && webhook.approver.as_ref() == Some(&claim.approver)
        });
        let engine =
            self.tenants.engine(&claim.tenant).filter(|_| is_current).ok_or_else(Closed::withdrawn)?;
        let kind = match claim.kind.as_str() {
            "approval" => PromptKind::Approval,
            "clarification" => PromptKind::Clarification,
            _ => return Err(Closed::invalid()),
        };
        let id = ForeignId::parse(&claim.prompt).map_err(|_| Closed::invalid())?;
        let run: RunId = claim.run.parse().map_err(|_| Closed::invalid())?;
        let row = engine.catalogue().prompt_of(kind, run, &id).await.map_err(Closed::failed)?;
        let row = row.ok_or_else(Closed::missing)?;
        if !row.is_pending() {
            return Err(Closed::settled(&row));
        }
        let now_ms = engine.world().clock.now_ms();
        let deadline = row.expires_at().and_then(time::parse_ms).unwrap_or(u64::MAX);
        let life_ms = u64::try_from(limits::DECISION_LINK_LIFE.as_millis()).unwrap_or(u64::MAX);
        if now_ms >= deadline.min(claim.issued_ms.saturating_add(life_ms)) {
            return Err(Closed::expired());
        }
        let shown = recount_face_aep::shown_prompt(row.clone(), None);
        if shown.shown_digest() != Some(claim.shown_digest.as_str()) {
            return Err(Closed::changed());
        }
        Ok(OpenPrompt { claim, engine, row, run })
    }

    /// Answers a prompt, records that, and returns the prompt with its outcome.
    async fn decide(&self, open: OpenPrompt, request: Request) -> Result<PromptRow, Closed> {
        let form = Form::read(request).await?;
        let (command, decision) = open.command(&form).await?;
        let OpenPrompt { claim, engine, row, run } = open;
        let (kind, id) = (row.kind(), row.id().clone());
        let submitted = engine.write().submit(run, command).await;
        let after = engine.catalogue().prompt_of(kind, run, &id).await.map_err(Closed::failed)?;
        let after = after.ok_or_else(Closed::missing)?;
        match submitted {
            Ok(_) => {}
            Err(error)
                if matches!(error.code(), Code::ApprovalNotPending | Code::ClarificationNotPending) =>
            {
                return Err(Closed::settled(&after));
            }
            Err(error) => return Err(Closed::failed(error)),
        }
        if let Some(audit) = self.tenants.audit() {
            let facts = json!({
                "tenant": claim.tenant, "webhook": claim.webhook, "approver": claim.approver, "kind": claim.kind,
                "prompt_id": claim.prompt, "run_id": claim.run, "decision": decision,
            });
            audit.record(AuditKind::DecisionLinkUsed, facts).await;
        }
        Ok(after)
    }
}

/// The fields of a form, each at most once.
#[derive(Default)]
struct Form {
    decision: Option<String>,
    comment: Option<String>,
    choice: Option<String>,
    answer: Option<String>,
}

impl Form {
    async fn read(request: Request) -> Result<Self, Closed> {
        const TIMEOUT: Duration = limits::WEBHOOK_TIMEOUT;
        let body = Limited::new(request.into_body(), limits::DECISION_FORM_BYTES_MAX);
        let body = match tokio::time::timeout(TIMEOUT, body.collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            _ => return Err(Closed::malformed("The form is too large or was cut off.")),
        };
        let mut form = Form::default();
        for (name, value) in form_urlencoded::parse(&body) {
            let field = match &*name {
                "decision" => &mut form.decision,
                "comment" => &mut form.comment,
                "choice" => &mut form.choice,
                "answer" => &mut form.answer,
                _ => return Err(Closed::malformed("The form has an unknown field.")),
            };
            // Browsers send the ends of lines as two characters.
            let value = value.replace("\r\n", "\n").trim().to_owned();
            if value.chars().count() > limits::DECISION_TEXT_CHARS_MAX {
                return Err(Closed::malformed("The text is too long."));
            }
            if field.replace(value).is_some() {
                return Err(Closed::malformed("The form has a field twice."));
            }
        }
        Ok(form)
    }
}

impl OpenPrompt {
    /// The name that the log records for the answer.
    fn by(&self) -> String {
        format!("{} (link of webhook {})", self.claim.approver, self.claim.webhook)
    }

    async fn page(&self) -> Result<String, Error> {
        let run = self.engine.catalogue().run(self.run).await?;
        let context =
            PageContext { approver: &self.claim.approver, run: run.as_ref(), run_id: &self.claim.run };
        Ok(match &self.row {
            PromptRow::Approval(row) => {
                let (preview, is_whole) = self.preview(row).await?;
                page::approval(row, preview.as_deref(), is_whole, &context)
            }
            PromptRow::Clarification(row) => page::clarification(row, &context),
            PromptRow::Handoff(_) => page::closed("Handoff", &[]),
        })
    }

    /// The preview, and whether that is all of it.
    async fn preview(&self, row: &ApprovalRow) -> Result<(Option<String>, bool), Error> {
        let Some(size) = row.preview_size_bytes else { return Ok((row.preview.clone(), true)) };
        let beginning = (row.preview.clone(), false);
        let Some(id) =
            row.preview_artifact_id.as_ref().filter(|_| size <= limits::DECISION_PREVIEW_BYTES_MAX)
        else {
            return Ok(beginning);
        };
        let found = self.engine.read().find_artifacts(id).await?.into_iter().find(|found| match found {
            FoundArtifact::OfRun(row) => row.run_id == self.run && row.truncated != Some(true),
            FoundArtifact::Upload(_) => false,
        });
        // An event may claim another size than the artifact has.
        let Some(found) = found.filter(|found| found.size_bytes() == Some(size)) else {
            return Ok(beginning);
        };
        match self.engine.read().artifact_bytes(&found).await {
            Ok(bytes) => {
                let start = row.preview.as_deref().unwrap_or_default();
                let is_it = bytes.len() as u64 == size && bytes.starts_with(start.as_bytes());
                Ok(if is_it { (Some(String::from_utf8_lossy(&bytes).into_owned()), true) } else { beginning })
            }
            Err(error) if matches!(error.code(), Code::ArtifactBytesMissing | Code::ArtifactBytesLost) => {
                Ok(beginning)
            }
            Err(error) => Err(error),
        }
    }

    /// The command of a form, and the decision for the audit trail.
    async fn command(&self, form: &Form) -> Result<(Command, &'static str), Closed> {
        let decision = form.decision.as_deref().unwrap_or_default();
        match &self.row {
            PromptRow::Approval(row) => {
                let decision = match decision {
                    "approve" => "approve",
                    "reject" => "reject",
                    _ => return Err(Closed::malformed("Choose Approve or Reject.")),
                };
                if decision == "approve" && !self.preview(row).await.map_err(Closed::failed)?.1 {
                    return Err(Closed::malformed(
                        "Not all of the call can be shown here, so it cannot be approved.",
                    ));
                }
                let command = Command::ResolveApproval {
                    approval_id: row.id.clone(),
                    approve: decision == "approve",
                    by: self.by(),
                    comment: form.comment.clone().filter(|comment| !comment.is_empty()),
                    remember: None,
                };
                Ok((command, decision))
            }
            PromptRow::Clarification(row) => {
                let choices = page::choices(row);
                let chosen =
                    form.choice.as_deref().and_then(|place| choices.get(place.parse::<usize>().ok()?));
                let text = form.answer.as_deref().filter(|text| !text.is_empty() && page::takes_text(row));
                let response = match (chosen, text) {
                    (Some((_, value)), None) => value.clone(),
                    (None, Some(text)) if page::is_numeric(row) => match text.parse::<f64>() {
                        Ok(_) => {
                            serde_json::from_str(text).map_err(|_| Closed::malformed("Send a number."))?
                        }
                        Err(_) => return Err(Closed::malformed("Send a number.")),
                    },
                    (None, Some(text)) => Value::from(text),
                    (Some(_), Some(_)) => {
                        return Err(Closed::malformed("Choose an answer or write one, not both."));
                    }
                    (None, None) => return Err(Closed::malformed("The answer is missing.")),
                };
                let response = Json::parse(&response.to_string());
                let command = Command::AnswerClarification {
                    clarification_id: row.id.clone(),
                    response: response.map_err(|_| Closed::malformed("The answer is not valid."))?,
                    by: self.by(),
                    blocks: None,
                    config: None,
                };
                Ok((command, "answer"))
            }
            PromptRow::Handoff(_) => Err(Closed::invalid()),
        }
    }
}
