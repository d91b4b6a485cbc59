//! Projects catalogue rows and stored bytes to replies. Pure.

use std::ops::RangeInclusive;

use bytes::{BufMut, Bytes, BytesMut};
use recount_api::export::ALGORITHM;
use recount_api::reply;
use recount_engine::{
    AgentOption, AllowanceRow, ApprovalRow, ArtifactRow, Budget, ChangeKind, ChangeState, ClarificationRow,
    Damage, Digest, ForeignDecision, ForeignVerdict, FoundArtifact, HandoffRow, ImportedRun, OptionKind,
    Profile, PromptRow, RunRow, SessionMessage, SessionRow, TaskRow, ToolInfo, UploadRow, WorkspaceChange,
    WorkspaceChanges,
};
use recount_event::digest::call_digest;
use recount_event::family::approval::Reversibility;
use recount_event::{ForeignId, Json, PromptKind, RunId, time};
use recount_run::view::Message;
use serde::Serialize;

pub(crate) fn run(row: RunRow, pinned: bool, successors: Vec<String>) -> reply::Run {
    reply::Run {
        needs_attention: !row.pending.is_empty(),
        id: row.id.to_string(),
        task_id: row.task_id.map(|task| task.to_string()),
        session_id: row.session_id.map(|session| session.to_string()),
        kind: row.kind,
        driver: row.driver,
        status: row.status,
        title: row.title,
        created_at: row.created_at,
        started_at: row.started_at,
        ended_at: row.ended_at,
        ending: row.ending,
        message: row.message,
        turns: row.turns,
        cost_micros_usd: row.cost_micros_usd,
        input_tokens: row.input_tokens,
        output_tokens: row.output_tokens,
        prior_cost_micros_usd: row.prior_cost_micros_usd,
        prior_input_tokens: row.prior_input_tokens,
        prior_output_tokens: row.prior_output_tokens,
        unpriced_turns: row.unpriced_turns,
        agent_name: row.agent_name,
        agent_version: row.agent_version,
        source: row.source,
        model: row.model,
        provider: row.provider,
        workspace_path: row.workspace_path,
        workspace_mode: row.workspace_mode,
        budget_micros_usd: row.budget_micros_usd,
        budget_tokens: row.budget_tokens,
        prior_run_id: row.prior_run_id,
        successor_run_ids: successors,
        pending_approvals: texts(row.pending_approvals),
        pending_clarifications: texts(row.pending_clarifications),
        pending_handoffs: texts(row.pending_handoffs),
        pinned,
        first_sequence: row.first_sequence,
    }
}

pub(crate) fn task(row: TaskRow, latest: Option<RunRow>, runs: u64) -> reply::Task {
    let budget = Budget::of(&row, latest.as_ref());
    reply::Task {
        cost_micros_usd: budget.spent_micros_usd,
        input_tokens: budget.input_tokens,
        output_tokens: budget.output_tokens,
        budget_micros_usd: budget.micros_usd,
        budget_remaining_micros_usd: budget.micros_usd_left(),
        budget_tokens: budget.tokens,
        budget_remaining_tokens: budget.tokens_left(),
        id: row.id.to_string(),
        title: row.title,
        status: latest.as_ref().map_or("idle".to_owned(), |run| run.status.clone()),
        needs_attention: latest.as_ref().is_some_and(|run| !run.pending.is_empty()),
        created_at: row.created_at,
        latest_run_id: latest.map(|run| run.id.to_string()),
        runs,
    }
}

/// `diff` if a small patch is shown alone.
pub(crate) fn found_artifact(found: FoundArtifact, diff: Option<String>) -> reply::Artifact {
    match found {
        FoundArtifact::OfRun(row) => artifact(*row, diff),
        FoundArtifact::Upload(upload) => self::upload(upload),
    }
}

/// An upload that no run has used yet.
fn upload(row: UploadRow) -> reply::Artifact {
    reply::Artifact {
        id: row.id.into(),
        kind: row.kind,
        status: "created".into(),
        summary: None,
        name: row.name,
        mime: Some(row.mime),
        size_bytes: Some(row.size_bytes),
        hash: Some(row.hash),
        truncated: false,
        original_size_bytes: None,
        target_path: None,
        base_revision: None,
        diff: None,
        stats: None,
        created_at: row.created_at,
        applied_at: None,
        rejected_at: None,
        reverted_at: None,
        task_id: None,
        produced_by_run_id: None,
        produced_by_tool_call_id: None,
        pinned: false,
    }
}

fn texts(ids: Vec<ForeignId>) -> Vec<String> {
    ids.into_iter().map(String::from).collect()
}

pub(crate) fn artifact(row: ArtifactRow, diff: Option<String>) -> reply::Artifact {
    let stats = row.additions.or(row.deletions).or(row.hunks).map(|_| reply::PatchStats {
        additions: row.additions.unwrap_or(0),
        deletions: row.deletions.unwrap_or(0),
        hunks: row.hunks.unwrap_or(0),
    });
    reply::Artifact {
        id: row.id.to_string(),
        kind: row.kind,
        status: row.status,
        summary: row.summary,
        name: row.name,
        mime: row.mime,
        size_bytes: row.size_bytes,
        hash: row.hash,
        truncated: row.truncated.unwrap_or(false),
        original_size_bytes: row.original_size_bytes,
        target_path: row.path,
        base_revision: row.base_revision,
        diff,
        stats,
        created_at: row.created_at,
        applied_at: row.applied_at,
        rejected_at: row.rejected_at,
        reverted_at: row.reverted_at,
        task_id: row.task_id.map(|task| task.to_string()),
        produced_by_run_id: Some(row.run_id.to_string()),
        produced_by_tool_call_id: row.tool_call_id.map(String::from),
        pinned: row.pinned,
    }
}

pub(crate) fn session(row: SessionRow, latest: Option<RunRow>, runs: u64) -> reply::Session {
    reply::Session {
        id: row.id.to_string(),
        title: row.title,
        status: latest.as_ref().map_or("idle".to_owned(), |run| run.status.clone()),
        created_at: row.created_at,
        latest_run_id: latest.map(|run| run.id.to_string()),
        runs,
    }
}

pub(crate) fn message(entry: SessionMessage) -> reply::Message {
    let blank = reply::Message {
        run_id: entry.run.to_string(),
        sequence: entry.sequence,
        at: time::format_ms(entry.occurred_ms),
        role: String::new(),
        text: None,
        aborted: false,
        artifact_id: None,
        tool_call_id: None,
        tool_name: None,
        input: None,
        outcome: None,
        output: None,
    };
    let by = |role: &str| reply::Message { role: role.to_owned(), ..blank };
    match entry.message {
        Message::User { text } => reply::Message { text: Some(text), ..by("user") },
        Message::Attached { artifact_id } => {
            reply::Message { artifact_id: Some(artifact_id.to_string()), ..by("user") }
        }
        Message::Assistant { text, aborted } => {
            reply::Message { text: Some(text), aborted, ..by("assistant") }
        }
        Message::Called { tool_call_id, tool_name, input } => reply::Message {
            tool_call_id: Some(tool_call_id.to_string()),
            tool_name: Some(tool_name),
            input: Some(input),
            ..by("assistant")
        },
        Message::ToolResult { tool_call_id, tool_name, outcome, output } => reply::Message {
            tool_call_id: Some(tool_call_id.to_string()),
            tool_name: Some(tool_name),
            outcome: Some(outcome.as_str().to_owned()),
            output,
            ..by("tool")
        },
    }
}

/// The digest of what a client shows of a prompt, which an answer may carry. `prompt` is it without its outcome,
/// without its deadline, which can be moved, and without its run, which its id determines.
fn shown_digest(kind: PromptKind, prompt: &impl Serialize) -> Option<String> {
    let text = serde_json::to_string(prompt).expect("replies are valid JSON");
    Some(call_digest(kind.as_str(), &text))
}

/// A prompt on the wire.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Prompt {
    Approval(Box<reply::Approval>),
    Clarification(Box<reply::Clarification>),
    Handoff(Box<reply::Handoff>),
}

impl Prompt {
    /// The digest of what a client shows.
    pub fn shown_digest(&self) -> Option<&str> {
        match self {
            Prompt::Approval(approval) => approval.shown_digest.as_deref(),
            Prompt::Clarification(clarification) => clarification.shown_digest.as_deref(),
            Prompt::Handoff(handoff) => handoff.shown_digest.as_deref(),
        }
    }
}

/// A prompt of a list. A handoff is without the context for its recipient and therefore without a digest.
pub(crate) fn listed_prompt(row: PromptRow) -> Prompt {
    match row {
        PromptRow::Handoff(row) => Prompt::Handoff(Box::new(handoff(*row, None))),
        row => single_prompt(row, None),
    }
}

/// A prompt with the context of a handoff.
pub fn single_prompt(row: PromptRow, packaged_context: Option<Json>) -> Prompt {
    match row {
        PromptRow::Approval(row) => Prompt::Approval(Box::new(approval(*row))),
        PromptRow::Clarification(row) => Prompt::Clarification(Box::new(clarification(*row))),
        PromptRow::Handoff(row) => Prompt::Handoff(Box::new(single_handoff(*row, packaged_context))),
    }
}

fn approval(row: ApprovalRow) -> reply::Approval {
    let approval = reply::Approval {
        id: row.id.to_string(),
        run_id: row.run_id.to_string(),
        task_id: row.task_id.map(|task| task.to_string()),
        tool_call_id: row.tool_call_id.into(),
        kind: row.kind,
        summary: row.summary,
        status: row.status,
        requested_at: row.requested_at,
        expires_at: row.expires_at,
        default_decision: row.default_decision,
        withdrawn_at_deadline: row.withdrawn_at_deadline,
        policy_reason: row.policy_reason,
        risk_level: row.risk_level,
        action: row.action,
        consequence: row.consequence,
        irreversible: row.irreversible,
        call_digest: row.call_digest,
        preview: row.preview,
        preview_kind: row.preview_kind,
        preview_size_bytes: row.preview_size_bytes,
        preview_artifact_id: row.preview_artifact_id.map(String::from),
        shown_digest: None,
        decision: row.decision,
        decided_by: row.decided_by,
        decided_at: row.decided_at,
        comment: row.comment,
        can_be_remembered: row.can_be_remembered,
        allowance_id: row.allowance_id.map(String::from),
        allowance_scope: row.allowance_scope,
    };
    let shown = reply::Approval {
        run_id: String::new(),
        task_id: None,
        requested_at: String::new(),
        status: String::new(),
        expires_at: None,
        decision: None,
        decided_by: None,
        decided_at: None,
        comment: None,
        allowance_id: None,
        allowance_scope: None,
        ..approval.clone()
    };
    reply::Approval { shown_digest: shown_digest(PromptKind::Approval, &shown), ..approval }
}

pub(crate) fn allowance(row: AllowanceRow) -> reply::Allowance {
    reply::Allowance {
        id: row.id.to_string(),
        scope: row.scope.as_str().to_owned(),
        run_id: row.run_id.to_string(),
        task_id: row.task_id.map(|task| task.to_string()),
        session_id: row.session_id.map(|session| session.to_string()),
        workspace: row.workspace,
        approval_id: row.approval_id.into(),
        kind: row.kind,
        summary: row.summary,
        preview: row.preview,
        preview_kind: row.preview_kind,
        preview_size_bytes: row.preview_size_bytes,
        given_by: row.given_by,
        given_at: row.given_at,
    }
}

pub(crate) fn policy_verdict(judged: ForeignVerdict) -> reply::PolicyVerdict {
    let (verdict, policy_id, reason) = match judged.decision {
        ForeignDecision::Allowed => ("allow", None, None),
        ForeignDecision::NeedsApproval { reason } => ("ask", None, Some(reason)),
        ForeignDecision::Blocked { policy_id, reason } => ("block", Some(policy_id), Some(reason)),
    };
    reply::PolicyVerdict {
        verdict: verdict.to_owned(),
        risk_level: judged.risk.as_str().to_owned(),
        irreversible: judged.reversibility == Reversibility::Irreversible,
        policy_id,
        reason,
        policy_digest: judged.policy_digest,
    }
}

fn clarification(row: ClarificationRow) -> reply::Clarification {
    let clarification = reply::Clarification {
        id: row.id.to_string(),
        run_id: row.run_id.to_string(),
        task_id: row.task_id.map(|task| task.to_string()),
        tool_call_id: row.tool_call_id.map(String::from),
        question: row.question,
        context: row.context,
        accepted_response_kinds: row.accepted_response_kinds,
        choices: row.choices,
        default_response: row.default_response,
        shown_digest: None,
        status: row.status,
        requested_at: row.requested_at,
        expires_at: row.expires_at,
        response: row.response,
        answered_by: row.answered_by,
        answered_at: row.answered_at,
    };
    let shown = reply::Clarification {
        run_id: String::new(),
        task_id: None,
        requested_at: String::new(),
        status: String::new(),
        expires_at: None,
        response: None,
        answered_by: None,
        answered_at: None,
        ..clarification.clone()
    };
    reply::Clarification { shown_digest: shown_digest(PromptKind::Clarification, &shown), ..clarification }
}

fn single_handoff(row: HandoffRow, packaged_context: Option<Json>) -> reply::Handoff {
    let handoff = handoff(row, packaged_context);
    let shown = reply::Handoff {
        run_id: String::new(),
        task_id: None,
        requested_at: String::new(),
        status: String::new(),
        expires_at: None,
        answered_by: None,
        answered_at: None,
        comment: None,
        ..handoff.clone()
    };
    reply::Handoff { shown_digest: shown_digest(PromptKind::Handoff, &shown), ..handoff }
}

fn handoff(row: HandoffRow, packaged_context: Option<Json>) -> reply::Handoff {
    reply::Handoff {
        id: row.id.to_string(),
        run_id: row.run_id.to_string(),
        task_id: row.task_id.map(|task| task.to_string()),
        tool_call_id: row.tool_call_id.map(String::from),
        reason: row.reason,
        target_kind: row.target_kind,
        target_uri: row.target_uri,
        urgency_for_handoff: row.urgency,
        summary_terse: row.summary_terse,
        summary_normal: row.summary_normal,
        summary_detailed: row.summary_detailed,
        packaged_context,
        shown_digest: None,
        status: row.status,
        requested_at: row.requested_at,
        expires_at: row.expires_at,
        answered_by: row.answered_by,
        answered_at: row.answered_at,
        comment: row.comment,
    }
}

pub(crate) fn digest(run_id: String, digest: Digest) -> reply::Digest {
    reply::Digest {
        run_id,
        events: digest.events,
        algorithm: ALGORITHM.into(),
        head: digest.head,
        first_sequence: digest.first_sequence,
        start: (digest.first_sequence > 0).then_some(digest.start),
        signed: None,
    }
}

pub(crate) fn import(imported: ImportedRun) -> reply::Import {
    reply::Import {
        run_id: imported.run.to_string(),
        events: imported.events,
        head: imported.head,
        imported: imported.is_new,
        position: imported.position,
    }
}

/// The pruned events.
pub(crate) fn gap(first: u64, last: u64) -> String {
    format!("{{\"first_pruned_sequence\":{first},\"last_pruned_sequence\":{last}}}")
}

/// The damaged events. The run is named only to clients that may read every run.
pub(crate) fn damaged(damage: &Damage, names_run: bool) -> String {
    let end =
        |range: &Option<RangeInclusive<u64>>| range.as_ref().map(|range| (*range.start(), *range.end()));
    let (sequences, positions) = (end(&damage.sequences).filter(|_| names_run), end(&damage.positions));
    let range = reply::DamagedRange {
        reason: reply::DAMAGED.to_owned(),
        run_id: damage.stream.as_ref().filter(|_| names_run).map(|stream| stream.to_string()),
        first_sequence: sequences.map(|(first, _)| first),
        last_sequence: sequences.map(|(_, last)| last),
        first_position: positions.map(|(first, _)| first),
        last_position: positions.map(|(_, last)| last),
    };
    serde_json::to_string(&range).expect("strings and numbers are valid JSON")
}

/// A page of envelopes, each exactly as stored, with the gaps in the requested range.
pub(crate) fn events_page(
    envelopes: &[(u64, Bytes)],
    next: i64,
    has_more: bool,
    gap: Option<String>,
) -> Bytes {
    let size: usize = envelopes.iter().map(|(_, bytes)| bytes.len() + 1).sum();
    let mut out = BytesMut::with_capacity(size + 96);
    out.put_slice(b"{\"object\":\"list\",\"data\":[");
    for (place, (_, bytes)) in envelopes.iter().enumerate() {
        if place > 0 {
            out.put_u8(b',');
        }
        out.put_slice(bytes);
    }
    let gap = gap.map(|gap| format!(",\"gap\":{gap}")).unwrap_or_default();
    out.put_slice(format!("],\"next\":{next},\"has_more\":{has_more}{gap}}}").as_bytes());
    out.freeze()
}

/// An agent, for clients that may use it: without secrets, hidden options and system prompt.
pub(crate) fn agent(profile: &Profile) -> reply::Agent {
    let tool = |tool: &ToolInfo| reply::AgentTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
    };
    let option = |option: &AgentOption| {
        let (kind, values) = match &option.kind {
            OptionKind::Text => ("text", None),
            OptionKind::Secret => ("secret", None),
            OptionKind::Select(values) => ("select", Some(values.clone())),
        };
        reply::AgentOption {
            name: option.name.clone(),
            kind: kind.to_owned(),
            title: option.title.clone(),
            description: option.description.clone(),
            default: (option.kind != OptionKind::Secret).then(|| option.default.clone()),
            values,
        }
    };
    reply::Agent {
        name: profile.name.clone(),
        title: profile.title.clone(),
        version: profile.version.clone(),
        description: profile.description.clone(),
        model: profile.model.clone(),
        tools: profile.tools.iter().map(tool).collect(),
        options: profile.options.iter().map(option).collect(),
    }
}
/// The changes of a run in its copy.
pub(crate) fn changes(run: RunId, changes: WorkspaceChanges) -> reply::Changes {
    let change = |change: WorkspaceChange| reply::Change {
        path: change.path,
        change: match change.kind {
            ChangeKind::Added => "added",
            ChangeKind::Changed => "changed",
            ChangeKind::Deleted => "deleted",
        }
        .to_owned(),
        kind: change.thing.to_owned(),
        state: match change.state {
            ChangeState::Open => "open",
            ChangeState::Mergeable => "mergeable",
            ChangeState::Applied => "applied",
            ChangeState::Conflict => "conflict",
        }
        .to_owned(),
        conflict: change.conflict,
        executed_by: change.executed_by.map(str::to_owned),
    };
    reply::Changes {
        run_id: run.to_string(),
        path: changes.path,
        source: changes.source,
        changes: changes.changes.into_iter().map(change).collect(),
        count: changes.count,
        ignored: changes.ignored,
        diff: changes.diff,
        diff_cut: changes.diff_cut,
        branch: changes.branch,
        commit: changes.commit,
        active_run_id: changes.active.map(|run| run.to_string()),
        put_back: changes.put_back,
        digest: changes.digest,
    }
}
