//! The tables of routes. The router and the published contract are both made from them.
//!
//! A row has a route's method and path, the required scope, a description, and its terms in the types of
//! `terms.rs`: query, body, responses and own error codes. What follows from these, such as
//! `run_not_found` where the path names a run, is not repeated. The compiler requires every field.

use recount_event::Code::*;

use crate::admin::{
    AddToken, AddedToken, AskTicket, Backup, Checkup, DeadLetter, Delivery, MakeBackup, Removed,
    RequestDelivery, SigningKey, SigningKeys, Ticket, Token, WebhookProgress,
};
use crate::reply::{
    Agent, Allowance, Approval, Artifact, ArtifactGone, Changes, Clarification, Deleted, Digest, Handoff,
    Health, Import, Message, PatchOutcome, PolicyVerdict, Pruned, Receipt, Run, RunDeleted, Session,
    SessionDeleted, Swept, Task,
};
use crate::request::{
    AcknowledgeHandoff, AnswerClarification, AppendEvents, ApplyRun, Cancel, ChangePatch, ChangeTask,
    ContinueRun, CreateRun, CreateSession, CreateTask, ExtendPrompt, Prune, PruneRun, RejectHandoff,
    ResolveApproval, ResumeRun, RetryRun, RetryRunFromTurn, SendMessage,
};
use crate::scope::Scope;
use crate::sign_in::{DeviceSignIn, FinishDeviceSignIn, FinishSignIn, SignIn, SignInAbout};
use crate::terms::ResponseKind::{Bytes, Document, EventStream, EventsPage, Over};
use crate::terms::parameter::*;
use crate::terms::{BYTES, LINES, NOTHING, bare, body, created, made, one, page, perhaps};

/// A route of the native face.
pub type Route = crate::terms::Route<RouteName>;
/// A route outside the native face.
pub type ServerRoute = crate::terms::Route<ServerRouteName>;

macro_rules! routes {
    (
        $(#[$about:meta])* $names:ident, $(#[$about_table:meta])* $table:ident, $route:ident:
        $( $name:ident = $method:literal $path:literal, [$($scope:ident),*], $does:literal,
           [$($parameter:expr),*] $body:expr => [$($gives:expr),*], [$($code:expr),*]; )*
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $names { $( $name, )* }

        $(#[$about_table])*
        pub const $table: &[$route] = &[$( $route {
            name: $names::$name,
            method: $method,
            path: $path,
            scopes: &[$( Scope::$scope ),*],
            does: $does,
            query: &[$( $parameter ),*],
            body: $body,
            gives: &[$( $gives ),*],
            refuses: &[$( $code ),*],
        }, )*];
    };
}

routes! {
    /// Names a route, so that the server must answer for each.
    RouteName,
    /// The native face. Paths are under `/v1`, and the same under `/hecate/v1`, which the protocol's first
    /// clients call.
    ROUTES, Route:

    CreateTask = "POST" "/tasks", [Run], "Creates a task, and its first run if a kind is given.",
        [] perhaps::<CreateTask>() => [created::<Task>("task")],
        [AgentNotFound, ArtifactDeleted, ArtifactNotFound, ArtifactPruned, BudgetUnpriced, KindUnavailable, LimitReached, ModelUnknown, OptionInvalid, OrderRefused, WorkspaceRefused];
    ListTasks = "GET" "/tasks", [Read], "Lists tasks, newest first.",
        [after("task_"), LIST_LIMIT, TASK_STATUS, NEEDS_ATTENTION, TEXT] NOTHING => [page::<Task>()], [];
    GetTask = "GET" "/tasks/{task}", [Read], "Shows a task.",
        [] NOTHING => [one::<Task>("task")], [];
    ChangeTask = "PATCH" "/tasks/{task}", [Run], "Raises a task's budget, or changes its title.",
        [] body::<ChangeTask>() => [one::<Task>("task")], [BudgetNotRaised, LimitReached];
    DeleteTask = "DELETE" "/tasks/{task}", [Admin], "Deletes a task and erases its runs; only tombstones remain.",
        [] NOTHING => [one::<Deleted>("deleted")], [];
    CancelTask = "POST" "/tasks/{task}/cancel", [Run], "Cancels the task's active run.",
        [] perhaps::<Cancel>() => [one::<Task>("task")], [RunEnded, RunErased, LimitReached];
    CreateTaskRun = "POST" "/tasks/{task}/runs", [Run, Ingest], "Creates a run of a task.",
        [] body::<CreateRun>() => [created::<Run>("run")],
        [AgentNotFound, ArtifactDeleted, ArtifactNotFound, ArtifactPruned, BudgetUnpriced, KindUnavailable, LimitReached, ModelUnknown, OptionInvalid, OrderRefused, RunActive, RunErased, RunNotFound,
         SessionBusy, SessionErased, SessionNotFound, TaskBusy, WorkspaceRefused];
    ListTaskRuns = "GET" "/tasks/{task}/runs", [Read], "Lists a task's runs, newest first.",
        [after("run_"), LIST_LIMIT, RUN_STATUS, RUN_KIND, RUN_AGENT, RUN_SOURCE, NEEDS_ATTENTION, TEXT] NOTHING => [page::<Run>()], [];
    GetTaskRun = "GET" "/tasks/{task}/runs/{run}", [Read], "Shows a run of a task.",
        [] NOTHING => [one::<Run>("run")], [];
    CancelTaskRun = "POST" "/tasks/{task}/runs/{run}/cancel", [Run], "Cancels a run of a task.",
        [] perhaps::<Cancel>() => [one::<Run>("run")], [RunEnded, LimitReached];
    ReadTaskRunEvents = "GET" "/tasks/{task}/runs/{run}/events", [Read], "Reads a run's events, as a page or as a stream.",
        [AFTER_SEQUENCE, EVENTS_LIMIT] NOTHING => [EventsPage, EventStream, Over], [];
    AppendTaskRunEvents = "POST" "/tasks/{task}/runs/{run}/events", [Ingest], "Appends events to an external run.",
        [] body::<AppendEvents>() => [one::<Receipt>("receipt")],
        [EventRefused, IdTaken, LimitReached, ProducerFenced, ProducerGap, ProducerReused, RunEnded, RunNotExternal];
    CreateRun = "POST" "/runs", [Run, Ingest], "Creates a run.",
        [] body::<CreateRun>() => [created::<Run>("run")],
        [AgentNotFound, ArtifactDeleted, ArtifactNotFound, ArtifactPruned, BudgetUnpriced, FilesNotRestorable, KindUnavailable, LimitReached, ModelUnknown, OptionInvalid, OrderRefused, RunActive, RunErased, RunNotFound,
         SessionBusy, SessionErased, SessionNotFound, TaskBusy, TaskErased, TaskNotFound, WorkspaceRefused];
    ListRuns = "GET" "/runs", [Read], "Lists runs, newest first.",
        [after("run_"), LIST_LIMIT, RUN_STATUS, RUN_KIND, RUN_AGENT, RUN_SOURCE, NEEDS_ATTENTION, TEXT, TASK_ID, SESSION_ID] NOTHING => [page::<Run>()],
        [TaskNotFound, SessionNotFound];
    GetRun = "GET" "/runs/{run}", [Read], "Shows a run.",
        [] NOTHING => [one::<Run>("run")], [];
    CancelRun = "POST" "/runs/{run}/cancel", [Run], "Cancels a run.",
        [] perhaps::<Cancel>() => [one::<Run>("run")], [RunEnded, LimitReached];
    RetryRun = "POST" "/runs/{run}/retry", [Run], "Repeats an ended run as a new run.",
        [] perhaps::<RetryRun>() => [created::<Run>("run")],
        [ArtifactDeleted, ArtifactNotFound, ArtifactPruned, BudgetUnpriced, KindUnavailable, LimitReached, ModelUnknown, OrderRefused, RunActive, RunErased, RunExternal, RunPruned,
         SessionBusy, SessionErased, TaskBusy, TaskErased, WorkspaceRefused];
    ResumeRun = "POST" "/runs/{run}/resume", [Run], "Resumes an ended run in a new run, from its last checkpoint or from a given one.",
        [] perhaps::<ResumeRun>() => [created::<Run>("run")],
        [ArtifactDeleted, ArtifactNotFound, ArtifactPruned, BudgetUnpriced, CheckpointMissing, CheckpointNotFound, FilesNotRestorable, KindUnavailable, LimitReached, ModelUnknown, OrderRefused, RunActive, RunErased, RunExternal, RunPruned,
         SessionBusy, SessionErased, TaskBusy, TaskErased, WorkspaceRefused];
    ContinueRun = "POST" "/runs/{run}/continue", [Run], "Continues an ended run with a new prompt, in a new run.",
        [] body::<ContinueRun>() => [created::<Run>("run")],
        [ArtifactDeleted, ArtifactNotFound, ArtifactPruned, BudgetUnpriced, KindUnavailable, LimitReached, ModelUnknown, OrderRefused, RunActive, RunErased, RunExternal, RunPruned,
         SessionBusy, SessionErased, TaskBusy, TaskErased, WorkspaceRefused];
    RetryRunFromTurn = "POST" "/runs/{run}/retry-from-turn", [Run], "Repeats an ended run from one of its turns, in a new run.",
        [] body::<RetryRunFromTurn>() => [created::<Run>("run")],
        [ArtifactDeleted, ArtifactNotFound, ArtifactPruned, BudgetUnpriced, FilesNotRestorable, KindUnavailable, LimitReached, ModelUnknown, OrderRefused, RunActive, RunErased, RunExternal, RunPruned,
         SessionBusy, SessionErased, TaskBusy, TaskErased, TurnNotFound, WorkspaceRefused];
    GetRunDigest = "GET" "/runs/{run}/digest", [Read], "Shows a run's digest: its number of events and the head of its chain.",
        [] NOTHING => [one::<Digest>("digest")], [];
    GetRunChanges = "GET" "/runs/{run}/changes", [Read], "Shows what a run changed in its copy of a folder.",
        [] NOTHING => [one::<Changes>("changes")], [KindUnavailable, WorkspaceGone, WorkspaceRefused];
    ApplyRun = "POST" "/runs/{run}/apply", [Approve], "Applies the changes of a run's copy to the original folder.",
        [] perhaps::<ApplyRun>() => [one::<Changes>("changes")],
        [OrderRefused, ApplyConflict, KindUnavailable, RunActive, WorkspaceGone, WorkspaceRefused];
    DiscardRunChanges = "DELETE" "/runs/{run}/changes", [Approve], "Deletes a run's copy of a folder with all changes in it.",
        [] NOTHING => [one::<Changes>("changes")], [KindUnavailable, RunActive, WorkspaceGone, WorkspaceRefused];
    PinRun = "PUT" "/runs/{run}/pin", [Admin], "Excludes a run from pruning.",
        [] NOTHING => [one::<Run>("run")], [];
    UnpinRun = "DELETE" "/runs/{run}/pin", [Admin], "Allows a run to be pruned again.",
        [] NOTHING => [one::<Run>("run")], [];
    DeleteRun = "DELETE" "/runs/{run}", [Admin], "Erases a run that belongs to no task and no session; only a tombstone remains.",
        [] NOTHING => [one::<RunDeleted>("deleted")], [RunInSession, RunInTask];
    PruneRun = "POST" "/runs/{run}/prune", [Admin], "Removes the events of an ended run before its ending, or before a given event.",
        [] perhaps::<PruneRun>() => [one::<Pruned>("pruned")], [RunActive, RunInSession, RunPinned];
    ReadRunEvents = "GET" "/runs/{run}/events", [Read], "Reads a run's events, as a page or as a stream.",
        [AFTER_SEQUENCE, EVENTS_LIMIT] NOTHING => [EventsPage, EventStream, Over], [];
    AppendRunEvents = "POST" "/runs/{run}/events", [Ingest], "Appends events to an external run.",
        [] body::<AppendEvents>() => [one::<Receipt>("receipt")],
        [EventRefused, IdTaken, LimitReached, ProducerFenced, ProducerGap, ProducerReused, RunEnded, RunNotExternal];
    ImportRun = "POST" "/imports", [Admin], "Imports an exported run, completely or not at all.",
        [] LINES => [one::<Import>("import"), created::<Import>("import")],
        [EventRefused, ExportAltered, IdTaken, LimitReached, RunErased, RunExists, RunPruned, SessionErased,
         TaskBusy, TaskErased];
    Prune = "POST" "/prune", [Admin], "Prunes ended runs, in the order in which they ended, until the given bounds hold.",
        [] body::<Prune>() => [one::<Swept>("swept")], [];
    ReadFeed = "GET" "/events", [Read], "Reads the events of all runs, as a page or as a stream.",
        [AFTER_POSITION, EVENTS_LIMIT, FEED_TYPE, FEED_RUN, FEED_TASK, FEED_SESSION, FEED_KIND, FEED_STATUS] NOTHING => [EventsPage, EventStream], [CursorPruned];
    StreamFeed = "GET" "/events/stream", [Read], "Streams the events of all runs.",
        [AFTER_POSITION, EVENTS_LIMIT, FEED_TYPE, FEED_RUN, FEED_TASK, FEED_SESSION, FEED_KIND, FEED_STATUS] NOTHING => [EventStream], [CursorPruned];
    ListApprovals = "GET" "/approvals", [Read], "Lists approvals, newest first.",
        [after(""), LIST_LIMIT, APPROVAL_STATUS] NOTHING => [page::<Approval>()], [];
    GetApproval = "GET" "/approvals/{approval}", [Read], "Shows an approval.",
        [] NOTHING => [one::<Approval>("approval")], [];
    ResolveApproval = "POST" "/approvals/{approval}/resolve", [Approve], "Approves or rejects; the first valid answer wins.",
        [] body::<ResolveApproval>() => [one::<Approval>("approval")],
        [AllowanceRefused, ApprovalNotPending, PromptChanged, RunEnded, RunErased, LimitReached];
    ExtendApproval = "POST" "/approvals/{approval}/extend", [Approve], "Moves the deadline of an approval.",
        [] body::<ExtendPrompt>() => [one::<Approval>("approval")],
        [ExtensionRefused, ApprovalNotPending, RunEnded, RunErased, LimitReached];
    ListAllowances = "GET" "/allowances", [Read], "Lists allowances, newest first.",
        [after("allow_"), LIST_LIMIT, ALLOWANCE_SCOPE, ALLOWANCE_RUN, ALLOWANCE_SESSION] NOTHING => [page::<Allowance>()],
        [RunNotFound, SessionNotFound];
    TakeBackAllowance = "DELETE" "/allowances/{allowance}", [Approve], "Revokes an allowance; matching calls need an approval again.",
        [] NOTHING => [one::<Allowance>("allowance")], [];
    ListClarifications = "GET" "/clarifications", [Read], "Lists questions, newest first.",
        [after(""), LIST_LIMIT, CLARIFICATION_STATUS] NOTHING => [page::<Clarification>()], [];
    GetClarification = "GET" "/clarifications/{clarification}", [Read], "Shows a question.",
        [] NOTHING => [one::<Clarification>("clarification")], [];
    AnswerClarification = "POST" "/clarifications/{clarification}/answer", [Approve], "Answers a question; the first valid answer wins.",
        [] body::<AnswerClarification>() => [one::<Clarification>("clarification")],
        [ClarificationNotPending, PromptChanged, RunEnded, RunErased, LimitReached];
    ExtendClarification = "POST" "/clarifications/{clarification}/extend", [Approve], "Moves the deadline of a question.",
        [] body::<ExtendPrompt>() => [one::<Clarification>("clarification")],
        [ExtensionRefused, ClarificationNotPending, RunEnded, RunErased, LimitReached];
    ListHandoffs = "GET" "/handoffs", [Read], "Lists handoffs, newest first.",
        [after(""), LIST_LIMIT, HANDOFF_STATUS] NOTHING => [page::<Handoff>()], [];
    GetHandoff = "GET" "/handoffs/{handoff}", [Read], "Shows a handoff with its packaged context.",
        [] NOTHING => [one::<Handoff>("handoff")], [];
    AcknowledgeHandoff = "POST" "/handoffs/{handoff}/acknowledge", [Approve], "Accepts a handoff; the first valid answer wins.",
        [] perhaps::<AcknowledgeHandoff>() => [one::<Handoff>("handoff")],
        [HandoffNotPending, PromptChanged, RunEnded, RunErased, LimitReached];
    RejectHandoff = "POST" "/handoffs/{handoff}/reject", [Approve], "Rejects a handoff; the first valid answer wins.",
        [] perhaps::<RejectHandoff>() => [one::<Handoff>("handoff")],
        [HandoffNotPending, PromptChanged, RunEnded, RunErased, LimitReached];
    ExtendHandoff = "POST" "/handoffs/{handoff}/extend", [Approve], "Moves the deadline of a handoff.",
        [] body::<ExtendPrompt>() => [one::<Handoff>("handoff")],
        [ExtensionRefused, HandoffNotPending, RunEnded, RunErased, LimitReached];
    UploadArtifact = "POST" "/artifacts", [Run, Ingest], "Uploads bytes for a run; they are deleted after a day if no run uses them.",
        [UPLOAD_KIND, UPLOAD_NAME] BYTES => [created::<Artifact>("artifact")],
        [ArtifactNotFound, ArtifactQuota, LimitReached];
    ListArtifacts = "GET" "/artifacts", [Read], "Lists artifacts, newest first.",
        [after("evt_"), LIST_LIMIT, ARTIFACT_STATUS, ARTIFACT_KIND, ARTIFACT_RUN, ARTIFACT_TASK] NOTHING => [page::<Artifact>()],
        [RunNotFound, RunErased, TaskNotFound, TaskErased];
    GetArtifact = "GET" "/artifacts/{artifact}", [Read], "Shows an artifact; a small patch includes its text.",
        [] NOTHING => [one::<Artifact>("artifact")], [];
    ReadArtifact = "GET" "/artifacts/{artifact}/raw", [Read], "Returns the bytes of an artifact, or a part of them.",
        [] NOTHING => [Bytes], [ArtifactBytesLost, ArtifactBytesMissing];
    ApplyPatch = "POST" "/artifacts/{artifact}/apply", [Approve], "Applies a proposed patch of an ended run where the run worked.",
        [] perhaps::<ChangePatch>() => [one::<PatchOutcome>("patch")],
        [ArtifactBytesLost, ArtifactBytesMissing, KindUnavailable, OrderRefused, PatchDrift, PatchFailed, PatchStatus, PatchUnusable,
         RunActive, RunErased, RunExternal, RunPruned, TaskBusy, TaskErased, WorkspaceGone, WorkspaceRefused];
    RejectPatch = "POST" "/artifacts/{artifact}/reject", [Approve], "Rejects a proposed patch of an ended run.",
        [] perhaps::<ChangePatch>() => [one::<PatchOutcome>("patch")],
        [KindUnavailable, OrderRefused, PatchFailed, PatchStatus, PatchUnusable, RunActive, RunErased, RunExternal, RunPruned, TaskBusy,
         TaskErased, WorkspaceRefused];
    RevertPatch = "POST" "/artifacts/{artifact}/revert", [Approve], "Reverts an applied patch of an ended run, by a new patch.",
        [] perhaps::<ChangePatch>() => [one::<PatchOutcome>("patch")],
        [ArtifactBytesLost, ArtifactBytesMissing, KindUnavailable, OrderRefused, PatchDrift, PatchFailed, PatchStatus, PatchUnusable,
         RunActive, RunErased, RunExternal, RunPruned, TaskBusy, TaskErased, WorkspaceGone, WorkspaceRefused];
    PinArtifact = "PUT" "/artifacts/{artifact}/pin", [Admin], "Excludes an artifact from deletion, and the run that created it from pruning.",
        [] NOTHING => [one::<Artifact>("artifact")], [ArtifactUnused];
    UnpinArtifact = "DELETE" "/artifacts/{artifact}/pin", [Admin], "Allows an artifact to be deleted again.",
        [] NOTHING => [one::<Artifact>("artifact")], [ArtifactUnused];
    DeleteArtifact = "DELETE" "/artifacts/{artifact}", [Admin], "Deletes an artifact of an ended run; the run's events stay.",
        [] NOTHING => [one::<ArtifactGone>("deleted")], [ArtifactInLog, ArtifactPinned, RunActive];
    ListRunArtifacts = "GET" "/runs/{run}/artifacts", [Read], "Lists a run's artifacts, newest first.",
        [after("evt_"), LIST_LIMIT, ARTIFACT_STATUS, ARTIFACT_KIND] NOTHING => [page::<Artifact>()], [];
    JudgeMcpCall = "GET" "/policy/mcp/{mcp_server}/{mcp_tool}", [Ingest], "Shows what the policy says about a call of an MCP server's tool by another agent; nothing is executed, and no approval is requested.",
        [DESTRUCTIVE] NOTHING => [one::<PolicyVerdict>("policy_verdict")], [KindUnavailable];
    ListAgents = "GET" "/agents", [Read], "Lists the agents of this server by name.",
        [] NOTHING => [page::<Agent>()], [];
    CreateSession = "POST" "/sessions", [Run, Ingest], "Creates a session.",
        [] perhaps::<CreateSession>() => [created::<Session>("session")], [LimitReached, SessionErased];
    ListSessions = "GET" "/sessions", [Read], "Lists sessions, newest first.",
        [after("chat_"), LIST_LIMIT] NOTHING => [page::<Session>()], [];
    GetSession = "GET" "/sessions/{session}", [Read], "Shows a session.",
        [] NOTHING => [one::<Session>("session")], [];
    SendMessage = "POST" "/sessions/{session}/messages", [Run], "Sends a message in a session; a new run of kind agent_loop answers.",
        [] body::<SendMessage>() => [created::<Run>("run")],
        [AgentNotFound, ArtifactDeleted, ArtifactNotFound, ArtifactPruned, BudgetUnpriced, KindUnavailable, LimitReached, ModelUnknown, OptionInvalid, OrderRefused, RunErased, SessionBusy, WorkspaceRefused];
    ListMessages = "GET" "/sessions/{session}/messages", [Read], "Lists the messages and tool calls of a session, oldest first.",
        [AFTER_MESSAGE, LIST_LIMIT] NOTHING => [page::<Message>()], [];
    DeleteSession = "DELETE" "/sessions/{session}", [Admin], "Deletes a session and erases its runs; only tombstones remain.",
        [] NOTHING => [one::<SessionDeleted>("deleted")], [];
}

routes! {
    /// Names a route outside the native face.
    ServerRouteName,
    /// The routes that every server has besides its faces, for operators. Paths are absolute.
    SERVER_ROUTES, ServerRoute:

    AddToken = "POST" "/admin/tokens", [Admin], "Creates a token and shows it once.",
        [] body::<AddToken>() => [made::<AddedToken>("token")], [LimitReached];
    ListTokens = "GET" "/admin/tokens", [Admin], "Lists tokens, without their secrets.",
        [] NOTHING => [page::<Token>()], [];
    RemoveToken = "DELETE" "/admin/tokens/{token}", [Admin], "Revokes a token; streams that were opened with it end.",
        [] NOTHING => [one::<Removed>("removed")], [];
    MakeTicket = "POST" "/v1/tickets", [Read], "Creates a ticket for one stream, for clients that cannot send headers.",
        [] body::<AskTicket>() => [made::<Ticket>("ticket")], [];
    MakeTicketToo = "POST" "/hecate/v1/tickets", [Read], "The same, for the protocol's first clients.",
        [] body::<AskTicket>() => [made::<Ticket>("ticket")], [];
    MakeBackup = "POST" "/admin/backups", [Admin], "Copies the whole store into a new folder while the server runs.",
        [] perhaps::<MakeBackup>() => [made::<Backup>("backup")], [BackupUnsupported, IdTaken];
    ListSigningKeys = "GET" "/.well-known/recount-keys", [], "Lists the public keys that sign heads of runs, as JSON Web Keys.",
        [] NOTHING => [bare::<SigningKeys>(200)], [];
    RotateSigningKey = "POST" "/admin/signing-keys", [Admin], "Replaces the key that signs heads of the tenant's runs; the previous private key is deleted.",
        [] NOTHING => [made::<SigningKey>("signing_key")], [LimitReached];
    ListWebhooks = "GET" "/admin/webhooks", [Admin], "Lists webhooks and how far they are; those of all tenants for the default tenant.",
        [] NOTHING => [page::<WebhookProgress>()], [];
    ListDeadLetters = "GET" "/admin/webhooks/{webhook}/dead-letters", [Admin], "Lists the events that a webhook gave up, newest first.",
        [] NOTHING => [page::<DeadLetter>()], [];
    RequestDelivery = "POST" "/admin/webhooks/{webhook}/deliveries", [Admin], "Sends a dead letter again, or a test message: one attempt, which the response reports.",
        [] perhaps::<RequestDelivery>() => [one::<Delivery>("delivery")], [DeadLetterNotFound, StoreBusy];
    LookAtHealth = "GET" "/admin/doctor", [Admin], "Runs the doctor's checks on the running server.",
        [FULL] NOTHING => [one::<Checkup>("checkup")], [];
    DescribeSignIn = "GET" "/sign-in/about", [], "Shows whether people can sign in, and where a browser begins.",
        [] NOTHING => [one::<SignInAbout>("sign_in_about")], [];
    FinishSignIn = "POST" "/sign-in/token", [], "Gives the console the token of a person who has signed in.",
        [] body::<FinishSignIn>() => [one::<SignIn>("sign_in")], [LimitReached, SignInDenied, SignInInvalid];
    StartDeviceSignIn = "POST" "/sign-in/device", [], "Starts a sign-in that a person confirms on another device.",
        [] NOTHING => [made::<DeviceSignIn>("device_sign_in")], [SignInUnavailable];
    FinishDeviceSignIn = "POST" "/sign-in/device/token", [], "Gives a client the token, once a person has confirmed the sign-in.",
        [] body::<FinishDeviceSignIn>() => [one::<SignIn>("sign_in")], [LimitReached, SignInDenied, SignInInvalid, SignInUnavailable];
    EndSignIn = "DELETE" "/sign-in/session", [Read, Run, Approve, Ingest, Admin], "Signs out: revokes the token of the request, if it is of a sign-in.",
        [] NOTHING => [one::<Removed>("removed")], [SignInInvalid];
    IsAlive = "GET" "/healthz", [], "Checks that the process responds.",
        [] NOTHING => [bare::<Health>(200)], [];
    IsReady = "GET" "/readyz", [], "Checks that agents are attached, and that the store responds and has space for appends.",
        [] NOTHING => [bare::<Health>(200), bare::<Health>(503)], [];
    Measure = "GET" "/metrics", [Admin], "Returns metrics for monitoring.",
        [] NOTHING => [Document { media_type: "application/openmetrics-text; version=1.0.0; charset=utf-8", about: "Counters and gauges as OpenMetrics." }], [];
    Describe = "GET" "/openapi.json", [], "Returns this document.",
        [] NOTHING => [Document { media_type: "application/json", about: "OpenAPI 3.1." }], [];
    Explain = "GET" "/docs", [], "Returns this document as an HTML page.",
        [] NOTHING => [Document { media_type: "text/html; charset=utf-8", about: "One page of HTML without scripts." }], [];
}
