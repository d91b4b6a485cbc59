//! The names and arguments of all messages. The tests fail if a catalogue lacks one.

macro_rules! keys {
    ($( $key:ident = $name:literal ( $( $arg:ident ),* ); )*) => {
        /// A message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Key { $( $key, )* }

        impl Key {
            pub const ALL: &[Key] = &[$( Key::$key, )*];

            /// Its name in the catalogues.
            pub fn name(self) -> &'static str {
                match self { $( Key::$key => $name, )* }
            }

            /// The names of its arguments.
            pub fn args(self) -> &'static [&'static str] {
                match self { $( Key::$key => &[$( stringify!($arg), )*], )* }
            }
        }
    };
}

keys! {
    SessionStarted = "session-started" (agent, request);
    SessionStartedPlain = "session-started-plain" (agent);
    SessionCompleted = "session-completed" (agent, seconds, calls);
    SessionCompletedWithAnswer = "session-completed-saying" (agent, seconds, calls, answer);
    SessionErrored = "session-errored" (message, code);
    SessionCancelled = "session-cancelled" (reason);
    SessionCancelledPlain = "session-cancelled-plain" ();
    RemedyRetry = "remedy-retry" ();
    RemedyNone = "remedy-none" ();
    Thinking = "thinking" ();
    Deciding = "deciding" ();
    Writing = "writing" ();
    CallingTool = "calling-tool" ();
    AwaitingInput = "awaiting-input" ();
    StillAwaitingInput = "still-awaiting-input" (prompts);
    HandingOff = "handing-off" ();
    TakenOver = "taken-over" ();
    Throttled = "throttled" (place, reason);
    Continued = "continued" ();
    ContinuedBy = "continued-by" (by);
    Resumed = "resumed" ();
    Disconnected = "disconnected" ();
    WaitingForApplication = "waiting-for-application" (calls);
    TurnFailed = "turn-failed" (message);
    TurnRetried = "turn-retried" (message);
    TurnRetriedPlain = "turn-retried-plain" ();
    TextCut = "text-cut" ();
    Compacted = "compacted" ();
    WorkspaceFailed = "workspace-failed" ();
    BudgetWarning = "budget-warning" (percent);
    BudgetExceeded = "budget-exceeded" ();
    ChildStarted = "child-started" ();
    ChildStartedWithSummary = "child-started-saying" (summary);
    ToolInvoked = "tool-invoked" (tool);
    ToolInvokedWith = "tool-invoked-with" (tool, arguments);
    ToolIrreversible = "tool-irreversible" (tool, arguments);
    ToolUnasked = "tool-unasked" (tool, arguments);
    ToolUnaskedIrreversible = "tool-unasked-irreversible" (tool, arguments);
    ToolRunning = "tool-running" (tool, seconds);
    ToolRunningWithLine = "tool-running-saying" (tool, seconds, line);
    ToolSucceeded = "tool-succeeded" (tool);
    ToolSucceededWithSummary = "tool-succeeded-saying" (tool, summary);
    ToolFailed = "tool-failed" (tool, error);
    ToolFailedPlain = "tool-failed-plain" (tool);
    ToolCancelled = "tool-cancelled" (tool);
    ToolInterrupted = "tool-interrupted" (tool);
    ToolTimedOut = "tool-timed-out" (tool);
    ToolAbandoned = "tool-abandoned" (tool);
    ToolRefused = "tool-refused" (tool, reason);
    Todo = "todo" (step, total, item);
    Confirmation = "confirmation" (action, consequence, preview);
    ConfirmationIrreversible = "confirmation-irreversible" (action, consequence, preview);
    ConsequenceUnknown = "consequence-unknown" ();
    ConsequenceByRule = "consequence-by-rule" (reason);
    ActionUnknown = "action-unknown" (tool);
    Approved = "approved" (by);
    ApprovedWithComment = "approved-saying" (by, comment);
    Rejected = "rejected" (by);
    RejectedWithComment = "rejected-saying" (by, comment);
    ApprovalWithdrawn = "approval-withdrawn" ();
    ApprovalTimedOutRejected = "approval-timed-out-rejected" ();
    ApprovalTimedOutApproved = "approval-timed-out-approved" ();
    Clarification = "clarification" (question, choices);
    ClarificationInContext = "clarification-in-context" (question, context, choices);
    Choices = "choices" (choices);
    ExtendedSeconds = "extended-seconds" (by, seconds);
    ExtendedMinutes = "extended-minutes" (by, minutes);
    SecondsLeft = "seconds-left" (seconds);
    MinutesLeft = "minutes-left" (minutes);
    Answered = "answered" (by, answer);
    AnsweredPlain = "answered-plain" (by);
    UnansweredDefault = "unanswered-default" (answer);
    Unanswered = "unanswered" ();
    QuestionWithdrawn = "question-withdrawn" ();
    Handoff = "handoff" (reason);
    HandoffAcknowledged = "handoff-acknowledged" (by);
    HandoffRejected = "handoff-rejected" (by);
    HandoffRejectedWithReason = "handoff-rejected-saying" (by, reason);
    HandoffTimedOut = "handoff-timed-out" ();
    Blocked = "blocked" (tool, reason);
    ModelRewritten = "model-rewritten" (from, to, reason);
    ToolUnavailable = "tool-unavailable" (tool, reason);
    CapabilityMissing = "capability-missing" (model, capability);
    Upstream = "upstream" (provider, message);
    Joined = "joined" (agent, state);
    JoinedRequest = "joined-request" (agent, request, state);
    Missed = "missed" (agent, state);
    AgedOut = "aged-out" ();
    Damaged = "damaged" ();
    RemedyDamaged = "remedy-damaged" ();
    OpenPrompts = "open-prompts" (prompts);
    ToolsRunning = "tools-running" (calls);
    ConfirmationOfOthers = "confirmation-of-others" (action, consequence);
    ConfirmationOfOthersIrreversible = "confirmation-of-others-irreversible" (action, consequence);
    ClarificationOfOthers = "clarification-of-others" (question);
    LineEnds = "line-ends" (count);
    Blanks = "blanks" (count);
    Backtick = "backtick" ();
    Heading = "heading" (text);
    TaskDone = "task-done" (text);
    TaskOpen = "task-open" (text);
    CodeBlock = "code" (language, count);
    CodeBlockPlain = "code-plain" (count);
    Unnamed = "unnamed" ();
    AgentUnnamed = "agent-unnamed" ();
}
