//! Error codes: one alphabetical list, with the meaning, HTTP status and remedy of each.
//!
//! `docs/errors.md` is generated from it. Codes are permanent once released.

/// One row of the error reference.
#[derive(Debug, Clone, Copy)]
pub struct CodeRow {
    pub code: Code,
    /// As on the wire.
    pub name: &'static str,
    /// The HTTP status that carries it.
    pub status: u16,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// The AAEP category of the code.
    pub aaep: &'static str,
    /// The meaning.
    pub meaning: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

macro_rules! codes {
    ($( $variant:ident = $name:literal, $status:literal, $retry:ident, $aaep:literal, $meaning:literal, $remedy:literal; )*) => {
        /// A stable name for a refusal or a failure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $( $variant, )* }

        /// All codes, alphabetically.
        pub const CODES: &[CodeRow] = &[$( CodeRow {
            code: Code::$variant,
            name: $name,
            status: $status,
            retryable: retryable!($retry),
            aaep: $aaep,
            meaning: $meaning,
            remedy: $remedy,
        }, )*];
    };
}

macro_rules! retryable {
    (retry) => {
        true
    };
    (final) => {
        false
    };
}

codes! {
    AgentNotFound = "agent_not_found", 400, final, "permanent", "No agent with this name is configured.", "Use a name that GET /v1/agents lists.";
    AllowanceNotFound = "allowance_not_found", 404, final, "permanent", "No allowance with this id exists; it may have been revoked, or erased with its run.", "List allowances with GET /v1/allowances.";
    AllowanceRefused = "allowance_refused", 409, final, "permanent", "This decision cannot be remembered as requested; nothing was decided.", "Resend the decision without `remember` or with another scope, as the detail says.";
    ApplyConflict = "apply_conflict", 409, final, "permanent", "The original folder has changed since it was copied, in the same places as the copy; nothing was written.", "Compare both with GET /v1/runs/{run}/changes, then copy manually or undo one of the changes.";
    ApprovalNotFound = "approval_not_found", 404, final, "permanent", "No approval with this id exists.", "List pending approvals with GET /v1/approvals?status=pending.";
    ApprovalNotPending = "approval_not_pending", 409, final, "permanent", "The approval was already decided, by another caller or by its timeout.", "Read the approval to see the decision; the first valid answer wins.";
    ArtifactBytesLost = "artifact_bytes_lost", 500, final, "permanent", "The artifact's bytes were stored here, and are now missing or changed on disk.", "Restore its blob from a backup; recount verify --data and recount doctor --full name it.";
    ArtifactBytesMissing = "artifact_bytes_missing", 404, final, "permanent", "The artifact is known, but its bytes are not stored here: its run was imported, or its producer stores them elsewhere.", "Get the bytes from where the run was recorded.";
    ArtifactDeleted = "artifact_deleted", 410, final, "permanent", "The artifact was deleted; its id is never used again.", "Pin artifacts that you need.";
    ArtifactInLog = "artifact_in_log", 409, final, "permanent", "The artifact's bytes are events of its run and cannot be deleted without them.", "Prune the run, or delete its task.";
    ArtifactNotFound = "artifact_not_found", 404, final, "permanent", "No artifact with this id exists.", "List artifacts with GET /v1/artifacts; an upload that no run uses is deleted after a day.";
    ArtifactPinned = "artifact_pinned", 409, final, "permanent", "The artifact, or the run that created it, is pinned and cannot be deleted.", "Unpin it first.";
    ArtifactPruned = "artifact_pruned", 410, final, "permanent", "The artifact was pruned with the beginning of its run.", "Pin the runs whose artifacts you want to keep.";
    ArtifactQuota = "artifact_quota", 422, final, "permanent", "The task, or the run without a task, has reached its artifact limit, or too many uploads are unused.", "Delete artifacts that are not needed, or raise the setting that the detail names.";
    ArtifactUnused = "artifact_unused", 409, final, "permanent", "No run uses the upload yet, so it is deleted after a day.", "Attach it to a run first.";
    BackupUnsupported = "backup_unsupported", 422, final, "permanent", "The stores of this server are in a database, which has its own tools for backups.", "Use pg_dump or pg_basebackup, and archive the write-ahead log for point-in-time recovery.";
    BodyMalformed = "body_malformed", 400, final, "permanent", "The request body is not the JSON that this endpoint expects.", "Correct the field that the detail names.";
    BodyTimeout = "body_timeout", 408, retry, "transient", "The request body did not arrive in time.", "Send the body faster, or in smaller batches.";
    BodyTooLarge = "body_too_large", 413, final, "permanent", "The request body exceeds the limit that the detail names.", "Send smaller batches; store large values as artifacts.";
    BudgetNotRaised = "budget_not_raised", 409, final, "permanent", "A budget can only be raised.", "Send a figure above the one that the detail names, or omit it.";
    BudgetUnpriced = "budget_unpriced", 422, final, "permanent", "The task has a cost budget, but the model has no configured price, so the budget cannot be enforced.", "Configure a price for the model, or also set budget_tokens or budget_turns.";
    CallNotFound = "call_not_found", 404, final, "permanent", "No tool call with this id exists in the run.", "Read the run's events to find its calls.";
    CallNotPending = "call_not_pending", 409, final, "permanent", "The call was already answered, or expects another kind of answer.", "Read the session's history to see the outcome of the call.";
    CheckpointMissing = "checkpoint_missing", 409, final, "permanent", "The run has no point to resume from, because it started no turn.", "Retry the run, or continue it with a new prompt.";
    CheckpointNotFound = "checkpoint_not_found", 404, final, "permanent", "The run has no checkpoint with this id.", "Use the checkpoint_id of a run.checkpoint_saved event of the same run.";
    ClarificationNotFound = "clarification_not_found", 404, final, "permanent", "No question with this id exists.", "List open questions with GET /v1/clarifications?status=pending.";
    ClarificationNotPending = "clarification_not_pending", 409, final, "permanent", "The question was already answered, or has timed out.", "Read the question to see the answer; the first valid answer wins.";
    CursorAhead = "cursor_ahead", 409, final, "permanent", "The cursor is beyond the end.", "Continue from the last event that you received, or start from the beginning.";
    CursorForeign = "cursor_foreign", 400, final, "permanent", "The cursor belongs to another list.", "Use the cursor that this list returned.";
    CursorMalformed = "cursor_malformed", 400, final, "permanent", "The cursor is not valid.", "Send a whole number from -1, or the cursor exactly as the server returned it.";
    CursorPruned = "cursor_pruned", 410, final, "permanent", "Events after this position of the feed were pruned, so it is impossible to continue from it without a gap.", "Start without a cursor to read the remaining events, or from the position that the detail names.";
    DeadLetterNotFound = "dead_letter_not_found", 404, final, "permanent", "The webhook has no dead letter of this event.", "List dead letters with recount webhooks; one that was sent again is deleted.";
    EventRefused = "event_refused", 422, final, "permanent", "An event of the batch breaks a rule of the log; nothing was appended.", "Correct the event at the index that the problem names; docs/grammar.md describes the rule.";
    ExportAltered = "export_altered", 422, final, "permanent", "The lines of the export do not match its header; nothing was imported.", "Export the run again, and transfer the file unchanged.";
    ExtensionRefused = "extension_refused", 409, final, "permanent", "The deadline of the approval, question or handoff cannot be moved.", "Answer it instead; the detail gives the reason.";
    FilesNotRestorable = "files_not_restorable", 409, final, "permanent", "The files at this place of the run were not recorded, or not all of them.", "Start with the files as they are now: send \"files\": \"current\"; or choose another checkpoint.";
    HandoffNotFound = "handoff_not_found", 404, final, "permanent", "No handoff with this id exists.", "List open handoffs with GET /v1/handoffs?status=pending.";
    HandoffNotPending = "handoff_not_pending", 409, final, "permanent", "The handoff was already answered, or has timed out.", "Read the handoff to see the answer; the first valid answer wins.";
    HeaderInvalid = "header_invalid", 400, final, "permanent", "A request header has an invalid value.", "Correct the header that the detail names.";
    HistoryUndeclared = "history_undeclared", 404, final, "permanent", "The agent does not offer this kind of history.", "Request a kind that the agent's capabilities name.";
    HostRefused = "host_refused", 403, final, "permanent", "The Host header names a host that this server does not serve.", "Use the address that the server printed when it started.";
    IdTaken = "id_taken", 409, final, "permanent", "An id that must be unique in the store is already in use.", "Choose another id.";
    IdempotencyInProgress = "idempotency_in_progress", 409, retry, "transient", "A request with this Idempotency-Key is still in progress.", "Wait, then resend the request to get its answer.";
    IdempotencyKeyReused = "idempotency_key_reused", 409, final, "permanent", "This Idempotency-Key was already used with another body.", "Use a new key for each operation, and the same body when you resend one.";
    ImageRefused = "image_refused", 400, final, "permanent", "An image in the message cannot be accepted.", "Send an image of the kind and size that the detail names.";
    Internal = "internal", 500, retry, "transient", "The server found an inconsistency in its own state, and restarted the affected part from the log.", "Try again; if the error persists, report it with the request id.";
    KindUnavailable = "kind_unavailable", 422, final, "permanent", "This server does not execute runs of this kind.", "Use a kind that the detail names.";
    LimitReached = "limit_reached", 422, final, "permanent", "The request would exceed a limit.", "Stay below the limit that the detail names.";
    MediaTypeUnsupported = "media_type_unsupported", 415, final, "permanent", "The Content-Type of the body is not one that this path accepts.", "Send the Content-Type that the detail names; for most paths it is application/json.";
    MethodNotAllowed = "method_not_allowed", 405, final, "permanent", "This path does not support this method.", "Use a method that the Allow header names.";
    ModelUnknown = "model_unknown", 422, final, "permanent", "No provider or model with this name is configured.", "Use a name that the detail lists, or configure this one.";
    NotAcceptable = "not_acceptable", 406, final, "permanent", "This path has no format that the Accept header allows.", "Accept application/json or text/event-stream.";
    OptionInvalid = "option_invalid", 400, final, "permanent", "An option of the agent is unknown or has an invalid value.", "Use options and values that the agent declares.";
    OrderRefused = "order_refused", 422, final, "permanent", "This server cannot execute the run as requested.", "Correct what the detail names.";
    OriginRefused = "origin_refused", 403, final, "permanent", "Pages of this origin may not use this server.", "Open the console from the server itself, or name the origin in access.allowed_origins.";
    ParameterInvalid = "parameter_invalid", 400, final, "permanent", "A query parameter is unknown, repeated or has an invalid value.", "Correct the parameter that the detail names.";
    PatchDrift = "patch_drift", 409, final, "permanent", "A file has changed since the patch was created; nothing was written.", "Undo later changes of the file, such as later patches, or make the change manually.";
    PatchFailed = "patch_failed", 409, final, "permanent", "The run that was to apply, reject or revert the patch failed.", "Read the run that the detail names; it says why, and that nothing was written.";
    PatchStatus = "patch_status", 409, final, "permanent", "The patch is in a state that does not allow this: a proposed patch can be applied or rejected, an applied one can be reverted once.", "Read the artifact to see its status.";
    PatchUnusable = "patch_unusable", 422, final, "permanent", "The stored patch cannot be applied: a secret in it was masked, it was truncated, or it is not a readable diff.", "Make the change manually; the detail gives the reason.";
    ProducerFenced = "producer_fenced", 409, final, "permanent", "A producer with a higher epoch has taken over.", "Stop this instance; a newer instance of the producer writes now.";
    ProducerGap = "producer_gap", 409, final, "permanent", "The batch number skips a batch that never arrived.", "Send the batches in order, starting with the number that the detail names.";
    ProducerReused = "producer_reused", 409, final, "permanent", "The same producer, epoch and number were already used with other events.", "Give each new batch the next number.";
    PromptChanged = "prompt_changed", 409, final, "permanent", "The prompt differs from the one that was shown to the person who answered; the answer was not accepted.", "Read the prompt again, show it, and answer with its shown_digest.";
    RangeNotSatisfiable = "range_not_satisfiable", 416, final, "permanent", "The Range header requests bytes beyond the end of the artifact.", "Request bytes within the size that Content-Range names.";
    RateLimited = "rate_limited", 429, retry, "transient", "The token has exceeded its request rate.", "Wait for the time in Retry-After, and send fewer requests.";
    RouteNotFound = "route_not_found", 404, final, "permanent", "No route has this path.", "Use a path that docs/faces/aep.md lists.";
    RunActive = "run_active", 409, final, "permanent", "The run is active; only runs that have ended can be pruned, retried, resumed or applied.", "Wait until it ends, or cancel it.";
    RunDamaged = "run_damaged", 500, final, "permanent", "Stored events of the run are damaged; the detail names the run and the events.", "Read the rest: pages and streams name the damaged events and continue after them. Restore the run from a backup, or delete its task or its session.";
    RunEnded = "run_ended", 409, final, "permanent", "The run has already ended.", "Create a new run.";
    RunErased = "run_erased", 410, final, "permanent", "The run was erased with its task or session; only a tombstone remains.", "Remove references to the run; its id is never used again.";
    RunExists = "run_exists", 409, final, "permanent", "A run with this id already exists here with different content.", "Compare both with recount digest; an existing run is never replaced.";
    RunExternal = "run_external", 409, final, "permanent", "Another program drives the run, so this server cannot retry, resume or continue it.", "Start the work again with the program that drives it.";
    RunInSession = "run_in_session", 409, final, "permanent", "The run belongs to a session, which needs the whole run as long as it exists.", "Keep the run; it is deleted with its session.";
    RunInTask = "run_in_task", 409, final, "permanent", "The run belongs to a task, and is deleted with it.", "Delete the task that the detail names.";
    RunNotExternal = "run_not_external", 409, final, "permanent", "This server executes the run, so no other program may append to it.", "Create a run of kind external to record another program.";
    RunNotFound = "run_not_found", 404, final, "permanent", "No run with this id exists.", "List runs with GET /v1/runs.";
    RunPinned = "run_pinned", 409, final, "permanent", "The run is pinned and cannot be pruned.", "Unpin it first.";
    RunPruned = "run_pruned", 422, final, "permanent", "The beginning of the run was pruned, so the run cannot be imported, retried, resumed or continued.", "Import an export from before the pruning, or create a new run.";
    ScopeMissing = "scope_missing", 403, final, "permanent", "The token does not permit this request.", "Use a token with the scope that the detail names; recount token add creates one.";
    SessionBusy = "session_busy", 409, retry, "transient", "The session already has an active run of this server.", "Wait until it ends, answer what it waits for, or cancel it.";
    SessionErased = "session_erased", 410, final, "permanent", "The session was deleted with its runs.", "Create a new session; the id is never used again.";
    SessionNotFound = "session_not_found", 404, final, "permanent", "No session with this id exists.", "List sessions with GET /v1/sessions, or create one with POST /v1/sessions.";
    ShuttingDown = "shutting_down", 503, retry, "transient", "The server is shutting down and accepts no new work.", "Try again when it has restarted.";
    SignInDenied = "sign_in_denied", 403, final, "permanent", "The provider signed the person in, and this server gives them no access; or the provider refused.", "Ask the operator for a grant in sign_in.grants; the detail has the reason.";
    SignInInvalid = "sign_in_invalid", 400, final, "permanent", "The sign-in is unknown, has expired, was used before, or was started by another browser.", "Sign in again.";
    SignInUnavailable = "sign_in_unavailable", 503, retry, "transient", "The sign-in provider cannot be reached or does not respond as it must.", "Try again after the time in Retry-After; the server's log has the cause.";
    StoreBusy = "store_busy", 503, retry, "transient", "More work waits for the disk than the limit allows.", "Try again after the time in Retry-After.";
    StoreCorrupt = "store_corrupt", 500, final, "permanent", "The bytes read from the store are not the bytes that were written.", "Run recount verify, and restore from a backup.";
    StoreFull = "store_full", 507, retry, "resource", "The disk is full; nothing was written, and reads still work.", "Free some space; the server recovers by itself.";
    StoreUnavailable = "store_unavailable", 503, retry, "transient", "The store could not be read or written.", "Try again; the server's log has the cause.";
    TaskBusy = "task_busy", 409, final, "permanent", "The task already has an active run.", "Wait until it ends, or cancel it.";
    TaskErased = "task_erased", 410, final, "permanent", "The task was deleted with its runs.", "Create a new task; the id is never used again.";
    TaskNotFound = "task_not_found", 404, final, "permanent", "No task with this id exists.", "List tasks with GET /v1/tasks.";
    TicketInvalid = "ticket_invalid", 401, final, "permanent", "The ticket is unknown, expired, or valid for something else.", "Request a new one with POST /v1/tickets.";
    TlsRequired = "tls_required", 400, final, "permanent", "This address requires TLS, and the request was not encrypted.", "Use https:// in the URL.";
    TokenInvalid = "token_invalid", 401, final, "permanent", "The token is unknown, expired or revoked.", "Ask the operator for a new one; recount token ls lists the existing ones.";
    TokenMissing = "token_missing", 401, final, "permanent", "This server requires a token.", "Send the header `authorization: Bearer TOKEN`, or set RECOUNT_TOKEN.";
    TokenNotFound = "token_not_found", 404, final, "permanent", "No token with this id exists.", "List tokens with recount token ls.";
    TooManyStreams = "too_many_streams", 503, retry, "resource", "The server has reached its limit of connected clients.", "Try again after the time in Retry-After.";
    TurnNotFound = "turn_not_found", 404, final, "permanent", "The session, or the run, has no such turn.", "Use the id from the response to the turn, or the turn_index of a turn.started event.";
    WebhookNotFound = "webhook_not_found", 404, final, "permanent", "No webhook with this name is configured.", "List webhooks with recount webhooks.";
    WorkspaceGone = "workspace_gone", 410, final, "permanent", "The copy that the run worked in no longer exists.", "Apply changes before the copy is removed; workspaces.keep sets how long it is kept.";
    WorkspaceRefused = "workspace_refused", 422, final, "permanent", "The run may not work in this folder.", "Name a folder that exists, that the server may read, and that is allowed.";
}

impl Code {
    pub fn row(self) -> &'static CodeRow {
        &CODES[self as usize]
    }

    pub fn as_str(self) -> &'static str {
        self.row().name
    }

    pub fn parse(name: &str) -> Option<Code> {
        CODES.iter().find(|row| row.name == name).map(|row| row.code)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The reference page.
pub fn reference() -> String {
    let mut page = String::from(
        "# Errors\n\nA failed request returns an `application/problem+json` body with a `code`. Find the code \
         below. `retryable` says whether the same request may succeed later. This page is generated from \
         `crates/event/src/code.rs`.\n\n\
         | code | HTTP | retryable | AAEP category | meaning | what to do |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for row in CODES {
        let retry = if row.retryable { "yes" } else { "no" };
        page.push_str(&format!(
            "| `{}` | {} | {retry} | {} | {} | {} |\n",
            row.name, row.status, row.aaep, row.meaning, row.remedy
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphabetical_and_found_by_name() {
        assert!(CODES.is_sorted_by(|a, b| a.name < b.name));
        for row in CODES {
            assert_eq!(Code::parse(row.name), Some(row.code));
            assert_eq!(row.code.row().name, row.name);
            assert!(row.meaning.ends_with('.') && row.remedy.ends_with('.'), "{}", row.name);
        }
    }
}
