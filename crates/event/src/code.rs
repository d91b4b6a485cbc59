//! Every way we say no or admit a failure: one flat, alphabetical list with what to do about each.
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
    /// The category under which AAEP tells it.
    pub aaep: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to do.
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
    AgentNotFound = "agent_not_found", 400, final, "permanent", "No agent of this name is configured.", "Send one of the names that GET /v1/agents lists.";
    AllowanceNotFound = "allowance_not_found", 404, final, "permanent", "No allowance with this id exists; it may have been taken back, or gone with its run.", "List allowances with GET /v1/allowances.";
    AllowanceRefused = "allowance_refused", 409, final, "permanent", "The decision cannot be remembered as it was asked for. Nothing was decided.", "Send the decision again without `remember`, or with another scope, as the detail says.";
    ApplyConflict = "apply_conflict", 409, final, "permanent", "The folder has changed since it was copied, in the same places as the copy.", "Look at both, with GET /v1/runs/{run}/changes, and copy by hand or undo one of them.";
    ApprovalNotFound = "approval_not_found", 404, final, "permanent", "No approval with this id exists.", "List pending approvals with GET /v1/approvals?status=pending.";
    ApprovalNotPending = "approval_not_pending", 409, final, "permanent", "The approval was decided before, by somebody else or by its timeout.", "Read the approval to see what was decided; the first valid answer wins.";
    ArtifactBytesLost = "artifact_bytes_lost", 500, final, "permanent", "The artifact's bytes were kept here, and are gone or were changed on the disk.", "Put its blob back from a backup; recount verify --data and doctor --full name it.";
    ArtifactBytesMissing = "artifact_bytes_missing", 404, final, "permanent", "The artifact is known, but its bytes are not here: its run was imported, or its producer kept them elsewhere.", "Ask where the run comes from.";
    ArtifactNotFound = "artifact_not_found", 404, final, "permanent", "No artifact with this id exists.", "List artifacts with GET /v1/artifacts; what was sent in and not used by a run is forgotten after a day.";
    ArtifactPruned = "artifact_pruned", 410, final, "permanent", "The artifact went with the beginning of its run, which was pruned.", "Pin runs whose artifacts are to stay.";
    BodyMalformed = "body_malformed", 400, final, "permanent", "The request body is not the JSON that this endpoint takes.", "Correct the field that the detail names.";
    BodyTimeout = "body_timeout", 408, retry, "transient", "The request body did not arrive in time.", "Send the body faster, or in smaller batches.";
    BodyTooLarge = "body_too_large", 413, final, "permanent", "The request body is larger than the limit the detail names.", "Send smaller batches; keep large things as artifacts.";
    BudgetNotRaised = "budget_not_raised", 409, final, "permanent", "A budget is only ever raised.", "Send a larger figure than the one the detail names, or leave it out.";
    BudgetUnpriced = "budget_unpriced", 422, final, "permanent", "The task has a cost budget, but the model has no configured price, so the budget cannot be enforced.", "Configure a price for the model, or also send budget_tokens or budget_turns.";
    CallNotFound = "call_not_found", 404, final, "permanent", "The run has no tool call with this id.", "Read the run's events for the calls it made.";
    CallNotPending = "call_not_pending", 409, final, "permanent", "The call was answered before, or takes another kind of answer.", "Read the session's history to see what became of it.";
    ClarificationNotFound = "clarification_not_found", 404, final, "permanent", "No question with this id exists.", "List open questions with GET /v1/clarifications?status=pending.";
    ClarificationNotPending = "clarification_not_pending", 409, final, "permanent", "The question was answered before, or its time is over.", "Read the question to see the answer; the first valid answer wins.";
    CursorAhead = "cursor_ahead", 409, final, "permanent", "The cursor is past the end of what exists.", "Start again from the last event you really received, or from the beginning.";
    CursorForeign = "cursor_foreign", 400, final, "permanent", "The cursor was made for another list.", "Use the cursor that this list gave.";
    CursorMalformed = "cursor_malformed", 400, final, "permanent", "The cursor cannot be read.", "Send a whole number from -1, or the cursor exactly as it was given.";
    CursorPruned = "cursor_pruned", 410, final, "permanent", "Events behind this place of the feed were pruned, so it cannot be gone on from without a gap.", "Begin again without a cursor, which gives what is left, or from the position the detail names.";
    EventRefused = "event_refused", 422, final, "permanent", "An event of the batch breaks a rule of the log; nothing was appended.", "Correct the event at the index the problem names; the rule is described in docs/grammar.md.";
    ExportAltered = "export_altered", 422, final, "permanent", "The lines of an export do not add up to what their header notes; nothing was imported.", "Export the run again, and bring the file over unchanged.";
    HandoffNotFound = "handoff_not_found", 404, final, "permanent", "No handoff with this id exists.", "List open handoffs with GET /v1/handoffs?status=pending.";
    HandoffNotPending = "handoff_not_pending", 409, final, "permanent", "The handoff was answered before, or its time is over.", "Read the handoff to see the answer; the first valid answer wins.";
    HeaderInvalid = "header_invalid", 400, final, "permanent", "A header has a value that cannot be used.", "Correct the header that the detail names.";
    HistoryUndeclared = "history_undeclared", 404, final, "permanent", "The agent does not offer this kind of history.", "Ask for a kind that the agent's capabilities name.";
    HostRefused = "host_refused", 403, final, "permanent", "The Host header names a host that this server does not answer for.", "Use the address the server printed when it started.";
    IdTaken = "id_taken", 409, final, "permanent", "An identifier that must be unique in the store is in use.", "Choose another identifier.";
    IdempotencyInProgress = "idempotency_in_progress", 409, retry, "transient", "A request with this Idempotency-Key is being done.", "Wait, and send it again: then it is answered with what came of it.";
    IdempotencyKeyReused = "idempotency_key_reused", 409, final, "permanent", "The Idempotency-Key came with another body before.", "Choose a new key for each thing that is to be done, and send the same body when it is sent again.";
    ImageRefused = "image_refused", 400, final, "permanent", "A picture in a message cannot be taken.", "Send a picture of the kind and size that the detail names.";
    Internal = "internal", 500, retry, "transient", "The server found its own belief to be wrong and restarted the part concerned from the log.", "Try again; if it stays, report it with the request id.";
    KindUnavailable = "kind_unavailable", 422, final, "permanent", "Nobody at this server does runs of this kind.", "Send a kind that the detail names.";
    LimitReached = "limit_reached", 422, final, "permanent", "The request would go beyond a named limit.", "Stay below the limit that the detail names.";
    MediaTypeUnsupported = "media_type_unsupported", 415, final, "permanent", "The body is not declared as what this path takes.", "Send the Content-Type that the detail names, for most paths application/json.";
    MethodNotAllowed = "method_not_allowed", 405, final, "permanent", "The path exists, but not for this method.", "Use a method that the Allow header names.";
    ModelUnknown = "model_unknown", 422, final, "permanent", "No provider or model of this name is configured.", "Send one of the names that the detail gives, or configure it.";
    NotAcceptable = "not_acceptable", 406, final, "permanent", "The Accept header allows nothing that this path can send.", "Accept application/json or text/event-stream.";
    OptionInvalid = "option_invalid", 400, final, "permanent", "An option of the agent is unknown, or has a value that it cannot have.", "Send options and values that the agent declares.";
    OrderRefused = "order_refused", 422, final, "permanent", "What was asked of the run cannot be done by this server.", "Correct what the detail names.";
    OriginRefused = "origin_refused", 403, final, "permanent", "A page of another origin may not use this server.", "Open the console from the server itself.";
    ParameterInvalid = "parameter_invalid", 400, final, "permanent", "A query parameter has a value that cannot be used.", "Correct the parameter that the detail names.";
    ProducerFenced = "producer_fenced", 409, final, "permanent", "A producer with a higher epoch has taken over.", "Stop; another instance of this producer writes now.";
    ProducerGap = "producer_gap", 409, final, "permanent", "The batch number skips one that never arrived.", "Send the batches in order, beginning with the number the detail names.";
    ProducerReused = "producer_reused", 409, final, "permanent", "The same producer, epoch and number came with other events before.", "Give every new batch the next number.";
    RangeNotSatisfiable = "range_not_satisfiable", 416, final, "permanent", "The Range header asks for bytes beyond the end of the artifact.", "Ask for bytes within the size that Content-Range names.";
    RateLimited = "rate_limited", 429, retry, "transient", "The token asks more often than it may.", "Wait as long as Retry-After says, and ask less often.";
    RouteNotFound = "route_not_found", 404, final, "permanent", "Nothing is at this path.", "See docs/faces/aep.md for the paths there are.";
    RunActive = "run_active", 409, final, "permanent", "The run goes on; only runs that have ended are pruned, retried, resumed or applied.", "Wait for its end, or cancel it.";
    RunDamaged = "run_damaged", 500, final, "permanent", "Stored events of the run are not what was written; the detail names the run and which events.", "Read what is whole: pages and streams say which events are damaged and go on after them. Restore the run from a backup.";
    RunEnded = "run_ended", 409, final, "permanent", "The run has ended; its account is closed.", "Create a new run.";
    RunErased = "run_erased", 410, final, "permanent", "The run was erased with its task or its session; nothing but a tombstone is left of it.", "Forget the run; its id never comes back.";
    RunExists = "run_exists", 409, final, "permanent", "A run with this id is here already and says something else.", "Compare both with recount digest; a run that exists is never replaced.";
    RunInSession = "run_in_session", 409, final, "permanent", "The run belongs to a session, which needs all of it while it exists.", "Leave it; it goes with its session.";
    RunNotExternal = "run_not_external", 409, final, "permanent", "The run is driven by this server, so nobody else may append to it.", "Create a run of kind external to report from outside.";
    RunNotFound = "run_not_found", 404, final, "permanent", "No run with this id exists.", "List runs with GET /v1/runs.";
    RunPinned = "run_pinned", 409, final, "permanent", "The run is pinned, so nothing of it is pruned.", "Unpin it first.";
    RunPruned = "run_pruned", 422, final, "permanent", "The run's beginning was pruned where it was exported, and such a run cannot be taken in.", "Import an export that was made before, or keep this one as a file: recount verify reads it.";
    ScopeMissing = "scope_missing", 403, final, "permanent", "The token does not allow this.", "Use a token with the scope that the detail names; recount token add makes one.";
    SessionBusy = "session_busy", 409, retry, "transient", "The session has an active run of ours already.", "Wait for it to end, answer what it waits for, or cancel it.";
    SessionErased = "session_erased", 410, final, "permanent", "The session was deleted, and its runs with it.", "Create a new session; the id never comes back.";
    SessionNotFound = "session_not_found", 404, final, "permanent", "No session with this id exists.", "List sessions with GET /v1/sessions, or create one with POST /v1/sessions.";
    ShuttingDown = "shutting_down", 503, retry, "transient", "The server is going down and takes nothing new.", "Try again when it is back.";
    StoreBusy = "store_busy", 503, retry, "transient", "More is waiting for the disk than the limit allows.", "Try again after the time in Retry-After.";
    StoreCorrupt = "store_corrupt", 500, final, "permanent", "What was read from the store is not what was written.", "Run recount verify; restore from a backup.";
    StoreFull = "store_full", 507, retry, "resource", "No space is left on the disk; nothing was written, reading goes on.", "Free some space; the server goes on by itself.";
    StoreUnavailable = "store_unavailable", 503, retry, "transient", "The store could not be read or written.", "Try again; see the server's log for the cause.";
    TaskBusy = "task_busy", 409, final, "permanent", "The task has an active run already.", "Wait for it to end, or cancel it.";
    TaskErased = "task_erased", 410, final, "permanent", "The task was deleted, and its runs with it.", "Create a new task; the id never comes back.";
    TaskNotFound = "task_not_found", 404, final, "permanent", "No task with this id exists.", "List tasks with GET /v1/tasks.";
    TicketInvalid = "ticket_invalid", 401, final, "permanent", "The ticket is unknown, too old, or was made for something else.", "Ask for a new one with POST /v1/tickets.";
    TokenInvalid = "token_invalid", 401, final, "permanent", "The token is unknown, expired or revoked.", "Ask who runs the server for a new one; recount token ls shows what there is.";
    TokenMissing = "token_missing", 401, final, "permanent", "This server wants to know who asks.", "Send authorization: Bearer and a token, or set RECOUNT_TOKEN.";
    TokenNotFound = "token_not_found", 404, final, "permanent", "No token with this id exists.", "List tokens with recount token ls.";
    TooManyStreams = "too_many_streams", 503, retry, "resource", "As many clients are connected as the limit allows.", "Try again after the time in Retry-After.";
    TurnNotFound = "turn_not_found", 404, final, "permanent", "No turn with this id is in the session.", "Use the id that the response to the turn carried.";
    WorkspaceGone = "workspace_gone", 410, final, "permanent", "The copy that the run worked in is not there any more.", "Apply changes before the copy is removed; see workspaces.keep.";
    WorkspaceRefused = "workspace_refused", 422, final, "permanent", "The folder cannot be worked in.", "Name a folder that is there, that the server may read, and that is allowed.";
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
        "# Errors\n\nEvery refusal and failure carries one of these codes, in `code` of an \
         `application/problem+json` body. `retryable` says whether the same request may succeed later. \
         This page is generated from `crates/event/src/code.rs`.\n\n\
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
