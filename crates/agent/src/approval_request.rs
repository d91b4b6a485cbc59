//! Approval requests: the preview that a person sees, and the check that the call still does the same when it runs.
//!
//! It must not know how policies decide, or how people are asked.
//!
//! Start at [`Worker::approval_request`] and [`Worker::changed_since_approval`].

use std::sync::Arc;

use recount_engine::{AllowanceRow, ArtifactInput};
use recount_event::digest::call_digest;
use recount_event::family::approval::{DefaultDecision, Requested, Reversibility};
use recount_event::family::tool::RiskLevel;
use recount_event::{Draft, ForeignId};
use recount_world::Kind;
use serde_json::Value;

use crate::approved::{AllowedCall, ApprovedCall};
use crate::limits;
use crate::policy::{WorkspaceMode, is_grave};
use crate::tool::{Assessment, Preview, Tool};
use crate::worker::{OpenCall, Worker};

/// A request, and the events to report before it.
pub(crate) struct ApprovalRequest {
    pub(crate) request: Box<Requested>,
    pub(crate) before: Vec<Draft>,
}

/// The preview of a call.
pub(crate) struct ApprovalPreview {
    preview: Preview,
    /// Identifies allowances for the call. Missing for calls that always need a new approval.
    allowance_digest: Option<String>,
}

/// The terms of an approval request.
pub(crate) struct ApprovalTerms {
    pub(crate) risk: RiskLevel,
    pub(crate) reversibility: Reversibility,
    pub(crate) timeout_seconds: u64,
    pub(crate) default_decision: DefaultDecision,
    pub(crate) policy_reason: String,
}

impl Worker {
    /// Creates an approval request, bound to one exact call and its effect.
    pub(crate) async fn approval_request(
        &self,
        open: &OpenCall,
        assessment: &Assessment,
        terms: ApprovalTerms,
        digest: Option<String>,
        shown: Option<ApprovalPreview>,
    ) -> ApprovalRequest {
        let id = self.worker_session.mint("appr_");
        let summary = assessment.summary.clone();
        let mut request = Box::new(Requested::new(id, open.id.clone(), open.name.clone(), summary));
        request.policy_reason = Some(terms.policy_reason);
        request.action = Some(assessment.action.clone());
        request.consequence = Some(assessment.consequence.clone());
        request.risk_level = Some(terms.risk);
        request.reversibility = Some(terms.reversibility);
        request.irreversible = Some(terms.reversibility == Reversibility::Irreversible);
        request.timeout_seconds = Some(terms.timeout_seconds);
        request.expires_at = self.expires_at(request.timeout_seconds);
        request.default_decision = Some(terms.default_decision);
        request.call_digest = digest;
        let mut before = Vec::new();
        // A run of one call has no proposed call that an artifact could belong to.
        let call = open.turn_index.map(|_| open.id.clone());
        if let Some(ApprovalPreview { preview, allowance_digest }) = shown {
            request.allowance_digest = allowance_digest;
            self.attach_preview(&mut request, preview, call, &mut before).await;
        }
        ApprovalRequest { request, before }
    }

    /// The preview of a call, and the digest that later allowances are found by. A grave call has no digest: it always
    /// needs a new approval.
    pub(crate) async fn approval_preview(
        &self,
        tool: &Arc<dyn Tool>,
        input: &Value,
        terms: &ApprovalTerms,
    ) -> Option<ApprovalPreview> {
        let Ok(original) = self.original_preview(tool, input).await else {
            tracing::error!(run = %self.worker_session.run(), tool = tool.name(), "a preview failed with a panic");
            return None;
        };
        let is_repeatable = !is_grave(terms.risk, terms.reversibility);
        let allowance_digest = is_repeatable.then(|| self.allowance_digest(&**tool, input, &original));
        Some(ApprovalPreview { preview: self.masked(original), allowance_digest })
    }

    /// A digest of everything that an approval covers: the call, its effect, and its restrictions.
    fn allowance_digest(&self, tool: &dyn Tool, input: &Value, original: &Preview) -> String {
        let setting = self.setting();
        let mode = match setting.workspace_mode {
            WorkspaceMode::Clone => "clone",
            WorkspaceMode::InPlace => "in_place",
        };
        let sandbox = if setting.sandboxed { "sandboxed" } else { "open" };
        let network = if setting.network { "network" } else { "alone" };
        // The order of the keys of a JSON object has no meaning; here it is fixed.
        let (input, does) = (input.to_string(), original.binding());
        let parts = [tool.name(), &input, original.kind, &does, mode, sandbox, network];
        self.worker_session.write().allowance_digest(&parts)
    }

    /// The allowance that covers this call, if there is one.
    pub(crate) async fn allowance(
        &mut self,
        id: &ForeignId,
        shown: &Option<ApprovalPreview>,
    ) -> Option<AllowanceRow> {
        self.allowed.remove(id);
        let shown = shown.as_ref()?;
        let digest = shown.allowance_digest.as_deref()?;
        match self.worker_session.catalogue().allowed(self.worker_session.state(), digest).await {
            Ok(Some(allowance)) => {
                let Preview { kind, .. } = shown.preview;
                let does = call_digest(kind, &shown.preview.binding());
                let approved = ApprovedCall::new(kind.to_owned(), does, self.revisions.clone());
                self.allowed.insert(id.clone(), AllowedCall { digest: digest.to_owned(), approved });
                Some(allowance)
            }
            Ok(None) => None,
            Err(error) => {
                // An unnecessary approval request does no harm.
                tracing::warn!(
                    run = %self.worker_session.run(), %error,
                    "stored approvals cannot be read, so this call needs approval"
                );
                None
            }
        }
    }

    /// Puts the preview into the request. Of a long preview only the beginning, and the rest as an artifact.
    async fn attach_preview(
        &self,
        request: &mut Requested,
        preview: Preview,
        call: Option<ForeignId>,
        before: &mut Vec<Draft>,
    ) {
        request.preview_kind = Some(preview.kind.to_owned());
        request.preview_digest = Some(call_digest(preview.kind, &preview.binding()));
        if preview.text.len() <= limits::PREVIEW_BYTES_MAX {
            request.preview = Some(preview.text);
            return;
        }
        request.preview_size_bytes = Some(preview.text.len() as u64);
        let mut end = limits::PREVIEW_BYTES_MAX;
        while !preview.text.is_char_boundary(end) {
            end -= 1;
        }
        request.preview = Some(preview.text[..end].to_owned());
        let keep = ArtifactInput {
            kind: "approval_preview".to_owned(),
            mime: "text/plain; charset=utf-8".to_owned(),
            summary: Some(request.summary.clone()),
            name: None,
            bytes: preview.text.into(),
            original_size_bytes: None,
            call,
            target: None,
        };
        match self.worker_session.write().store_artifact(self.worker_session.run(), keep).await {
            Ok(stored) => {
                request.preview_artifact_id = Some(stored.id);
                before.push(stored.created);
            }
            Err(error) => {
                tracing::warn!(run = %self.worker_session.run(), %error, "a preview could not be stored completely");
            }
        }
    }

    /// The current effect of the call, with secrets masked as in the log.
    async fn preview(&self, tool: &Arc<dyn Tool>, input: &Value) -> Result<Preview, Panicked> {
        self.original_preview(tool, input).await.map(|preview| self.masked(preview))
    }

    async fn original_preview(&self, tool: &Arc<dyn Tool>, input: &Value) -> Result<Preview, Panicked> {
        let (tool, input, root) = (tool.clone(), input.clone(), self.setting().root);
        let work = move || tool.preview(&input, &root);
        self.worker_session.world().tasks.block(Kind::Effect, work).await.map_err(|_| Panicked)
    }

    fn masked(&self, preview: Preview) -> Preview {
        let text = self.worker_session.redactor().text(&preview.text).into_owned();
        Preview { text, ..preview }
    }

    /// The approval or allowance that covers a call, if its preview was shown.
    pub(crate) fn approved(&self, id: &ForeignId) -> Option<ApprovedCall> {
        if let Some(allowed) = self.allowed.get(id) {
            return Some(allowed.approved.clone());
        }
        let request = self.worker_session.state().call(id)?.granted()?;
        let (kind, digest) = (request.preview_kind.clone()?, request.preview_digest.clone()?);
        Some(ApprovedCall::new(kind, digest, self.revisions.clone()))
    }

    /// Why an allowed call must not run: its effect is no longer the one that was shown.
    pub(crate) async fn changed_since_approval(
        &self,
        id: &ForeignId,
        tool: &Arc<dyn Tool>,
        input: &Value,
    ) -> Option<String> {
        const AGAIN: &str = "nothing was done; check the current state and repeat the call";
        if let Some(allowed) = self.allowed.get(id) {
            let now = self.original_preview(tool, input).await;
            let is_same = now.is_ok_and(|now| self.allowance_digest(&**tool, input, &now) == allowed.digest);
            if !is_same {
                return Some(format!("the call's effect differs from what was allowed before; {AGAIN}"));
            }
            // It may have been revoked while the call waited.
            return match self
                .worker_session
                .catalogue()
                .allowed(self.worker_session.state(), &allowed.digest)
                .await
            {
                Ok(Some(_)) => None,
                Ok(None) => Some(format!("the approval was revoked before the call began; {AGAIN}")),
                Err(error) => Some(format!("the stored approval cannot be read: {error}; {AGAIN}")),
            };
        }
        let call = self.worker_session.state().call(id)?;
        let request = call.granted()?;
        let logged = match (&call.input, call.turn_index) {
            (Some(input), _) => Some(input.text().to_owned()),
            (None, None) => Some(input.to_string()),
            (None, Some(_)) => None,
        };
        if let (Some(digest), Some(logged)) = (&request.call_digest, logged)
            && *digest != call_digest(tool.name(), &logged)
        {
            return Some(format!("the input differs from the approved input; {AGAIN}"));
        }
        let approved = self.approved(id)?;
        let Ok(preview) = self.preview(tool, input).await else {
            return Some(format!("the call's effect cannot be compared with what was approved; {AGAIN}"));
        };
        if approved.is(preview.kind, &preview.binding()) || approved.allows(&preview.changes) {
            return None;
        }
        Some(format!("the call's effect differs from what was approved; {AGAIN}"))
    }
}

/// A tool panicked while it computed its preview.
struct Panicked;
