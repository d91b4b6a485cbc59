//! A request for permission: what a person is shown of a call, and the check that it is still that when it runs.
//!
//! Look at [`Worker::leave`] and [`Worker::changed_since_approval`]. It must not know how policies decide, or how
//! people are asked.

use std::sync::Arc;

use recount_engine::{AllowanceRow, Keep};
use recount_event::digest::call_digest;
use recount_event::family::approval::{DefaultDecision, Requested, Reversibility};
use recount_event::family::tool::RiskLevel;
use recount_event::{Draft, ForeignId};
use recount_world::Kind;
use serde_json::Value;

use crate::approved::{AllowedCall, Approved};
use crate::limits;
use crate::policy::{WorkspaceMode, is_grave};
use crate::tool::{Assessment, Preview, Tool};
use crate::worker::{Open, Worker};

/// A request, and what has to be reported before it.
pub(crate) struct Leave {
    pub(crate) asked: Box<Requested>,
    pub(crate) before: Vec<Draft>,
}

/// What a person is shown of a call.
pub(crate) struct Shown {
    preview: Preview,
    /// By what an allowance for the call is found. Missing where the call is asked about every time.
    allowance_digest: Option<String>,
}

/// On which terms a person is asked.
pub(crate) struct LeaveTerms {
    pub(crate) risk: RiskLevel,
    pub(crate) reversibility: Reversibility,
    pub(crate) timeout_seconds: u64,
    pub(crate) default_decision: DefaultDecision,
    pub(crate) policy_reason: String,
}

impl Worker {
    /// A request for permission, bound to one exact call and to what it will do.
    pub(crate) async fn leave(
        &self,
        open: &Open,
        assessment: &Assessment,
        terms: LeaveTerms,
        digest: Option<String>,
        shown: Option<Shown>,
    ) -> Leave {
        let id = self.desk.mint("appr_");
        let summary = assessment.summary.clone();
        let mut asked = Box::new(Requested::new(id, open.id.clone(), open.name.clone(), summary));
        asked.policy_reason = Some(terms.policy_reason);
        asked.action = Some(assessment.action.clone());
        asked.consequence = Some(assessment.consequence.clone());
        asked.risk_level = Some(terms.risk);
        asked.reversibility = Some(terms.reversibility);
        asked.irreversible = Some(terms.reversibility == Reversibility::Irreversible);
        asked.timeout_seconds = Some(terms.timeout_seconds);
        asked.expires_at = self.expires_at(asked.timeout_seconds);
        asked.default_decision = Some(terms.default_decision);
        asked.call_digest = digest;
        let mut before = Vec::new();
        // A run of one call has no proposed call that an artifact could belong to.
        let call = open.turn_index.map(|_| open.id.clone());
        if let Some(Shown { preview, allowance_digest }) = shown {
            asked.allowance_digest = allowance_digest;
            self.show(&mut asked, preview, call, &mut before).await;
        }
        Leave { asked, before }
    }

    /// What the call would do, and by what a yes to it would be known again. A grave call has no such thing: it is
    /// asked about every time.
    pub(crate) async fn shown(
        &self,
        tool: &Arc<dyn Tool>,
        input: &Value,
        terms: &LeaveTerms,
    ) -> Option<Shown> {
        let Ok(original) = self.original_preview(tool, input).await else {
            tracing::error!(run = %self.desk.run(), tool = tool.name(), "a preview panicked");
            return None;
        };
        let may_be_remembered = !is_grave(terms.risk, terms.reversibility);
        let allowance_digest = may_be_remembered.then(|| self.allowance_digest(&**tool, input, &original));
        Some(Shown { preview: self.masked(original), allowance_digest })
    }

    /// Over all that a person says yes to: the call, what it would do now, and what holds it in bounds.
    fn allowance_digest(&self, tool: &dyn Tool, input: &Value, original: &Preview) -> String {
        let setting = self.setting();
        let mode = match setting.workspace_mode {
            WorkspaceMode::Clone => "clone",
            WorkspaceMode::InPlace => "in_place",
        };
        let sandbox = if setting.sandboxed { "sandboxed" } else { "open" };
        let network = if setting.network { "network" } else { "alone" };
        // The keys of an object in JSON have no order that means anything, and here they have one.
        let (input, does) = (input.to_string(), original.binding());
        let parts = [tool.name(), &input, original.kind, &does, mode, sandbox, network];
        self.desk.write().allowance_digest(&parts)
    }

    /// The allowance by which a call that the policy asks about may be carried out without asking.
    pub(crate) async fn allowance(&mut self, id: &ForeignId, shown: &Option<Shown>) -> Option<AllowanceRow> {
        self.allowed.remove(id);
        let shown = shown.as_ref()?;
        let digest = shown.allowance_digest.as_deref()?;
        match self.desk.catalogue().allowed(self.desk.state(), digest).await {
            Ok(Some(allowance)) => {
                let Preview { kind, .. } = shown.preview;
                let does = call_digest(kind, &shown.preview.binding());
                let approved = Approved::new(kind.to_owned(), does, self.rewritten.clone());
                self.allowed.insert(id.clone(), AllowedCall { digest: digest.to_owned(), approved });
                Some(allowance)
            }
            Ok(None) => None,
            Err(error) => {
                // To ask once too often harms nobody.
                tracing::warn!(run = %self.desk.run(), %error, "allowances cannot be read, so a person is asked");
                None
            }
        }
    }

    /// Puts the whole preview into the request, or its beginning and where the rest is.
    async fn show(
        &self,
        asked: &mut Requested,
        preview: Preview,
        call: Option<ForeignId>,
        before: &mut Vec<Draft>,
    ) {
        asked.preview_kind = Some(preview.kind.to_owned());
        asked.preview_digest = Some(call_digest(preview.kind, &preview.binding()));
        if preview.text.len() <= limits::PREVIEW_BYTES_MAX {
            asked.preview = Some(preview.text);
            return;
        }
        asked.preview_size_bytes = Some(preview.text.len() as u64);
        let mut end = limits::PREVIEW_BYTES_MAX;
        while !preview.text.is_char_boundary(end) {
            end -= 1;
        }
        asked.preview = Some(preview.text[..end].to_owned());
        let keep = Keep {
            kind: "approval_preview".to_owned(),
            mime: "text/plain; charset=utf-8".to_owned(),
            summary: Some(asked.summary.clone()),
            name: None,
            bytes: preview.text.into(),
            original_size_bytes: None,
            call,
            target: None,
        };
        match self.desk.write().keep(self.desk.run(), keep).await {
            Ok(kept) => {
                asked.preview_artifact_id = Some(kept.id);
                before.push(kept.created);
            }
            Err(error) => {
                tracing::warn!(run = %self.desk.run(), %error, "a preview could not be kept whole");
            }
        }
    }

    /// What the call would do now, with secrets masked as the log masks them.
    async fn preview(&self, tool: &Arc<dyn Tool>, input: &Value) -> Result<Preview, Panicked> {
        self.original_preview(tool, input).await.map(|preview| self.masked(preview))
    }

    async fn original_preview(&self, tool: &Arc<dyn Tool>, input: &Value) -> Result<Preview, Panicked> {
        let (tool, input, root) = (tool.clone(), input.clone(), self.setting().root);
        let work = move || tool.preview(&input, &root);
        self.desk.world().tasks.block(Kind::Effect, work).await.map_err(|_| Panicked)
    }

    fn masked(&self, preview: Preview) -> Preview {
        let text = self.desk.redactor().text(&preview.text).into_owned();
        Preview { text, ..preview }
    }

    /// What a person allowed of a call, now or before, where it was shown.
    pub(crate) fn approved(&self, id: &ForeignId) -> Option<Approved> {
        if let Some(allowed) = self.allowed.get(id) {
            return Some(allowed.approved.clone());
        }
        let asked = self.desk.state().call(id)?.granted()?;
        let (kind, digest) = (asked.preview_kind.clone()?, asked.preview_digest.clone()?);
        Some(Approved::new(kind, digest, self.rewritten.clone()))
    }

    /// Why an allowed call must not be carried out: it would do something else than what was shown.
    pub(crate) async fn changed_since_approval(
        &self,
        id: &ForeignId,
        tool: &Arc<dyn Tool>,
        input: &Value,
    ) -> Option<String> {
        const AGAIN: &str = "nothing was done; look again and ask again";
        if let Some(allowed) = self.allowed.get(id) {
            let now = self.original_preview(tool, input).await;
            let is_same = now.is_ok_and(|now| self.allowance_digest(&**tool, input, &now) == allowed.digest);
            if !is_same {
                return Some(format!("it would not do any more what was allowed before; {AGAIN}"));
            }
            // It may have been taken back while the call waited.
            return match self.desk.catalogue().allowed(self.desk.state(), &allowed.digest).await {
                Ok(Some(_)) => None,
                Ok(None) => Some(format!("its allowance was taken back before it began; {AGAIN}")),
                Err(error) => Some(format!("its allowance cannot be read: {error}; {AGAIN}")),
            };
        }
        let call = self.desk.state().call(id)?;
        let asked = call.granted()?;
        let logged = match (&call.input, call.turn_index) {
            (Some(input), _) => Some(input.text().to_owned()),
            (None, None) => Some(input.to_string()),
            (None, Some(_)) => None,
        };
        if let (Some(digest), Some(logged)) = (&asked.call_digest, logged)
            && *digest != call_digest(tool.name(), &logged)
        {
            return Some(format!("its input is not the one that was approved; {AGAIN}"));
        }
        let approved = self.approved(id)?;
        let Ok(preview) = self.preview(tool, input).await else {
            return Some(format!("what it would do cannot be compared with what was approved; {AGAIN}"));
        };
        if approved.is(preview.kind, &preview.binding()) || approved.allows(&preview.changes) {
            return None;
        }
        Some(format!("it would not do any more what was approved; {AGAIN}"))
    }
}

/// A tool broke while it worked out its preview.
struct Panicked;
