//! The names and arguments of all phrases. The tests fail if a catalogue lacks one.

macro_rules! phrases {
    ($( $key:ident = $name:literal ( $( $put:ident ),* ); )*) => {
        /// A text of the narrator itself.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum PhraseKey { $( $key, )* }

        impl PhraseKey {
            /// Its name in the catalogues.
            pub(super) fn name(self) -> &'static str {
                match self { $( PhraseKey::$key => $name, )* }
            }
        }

        #[cfg(test)]
        impl PhraseKey {
            pub(super) const ALL: &[PhraseKey] = &[$( PhraseKey::$key, )*];

            /// The names of its arguments.
            pub(super) fn puts(self) -> &'static [&'static str] {
                match self { $( PhraseKey::$key => &[$( stringify!($put), )*], )* }
            }
        }
    };
}

phrases! {
    Connected = "connected" ();
    ConnectedAgain = "connected-again" ();
    ConnectionLost = "connection-lost" ();
    NarrationEnded = "narration-ended" ();
    NotConnected = "not-connected" ();
    NotConnectedNotSent = "not-connected-not-sent" ();
    NotSent = "not-sent" (why);
    TooMuchWaits = "too-much-waits" ();
    KeysApproveReject = "keys-approve-reject" ();
    KeysApprove = "keys-approve" ();
    KeysReject = "keys-reject" ();
    KeysNumber = "keys-number" ();
    KeysYesNo = "keys-yes-no" ();
    KeysOrYesNo = "keys-or-yes-no" ();
    KeysType = "keys-type" ();
    KeysOrType = "keys-or-type" ();
    KeysTypeNumber = "keys-type-number" ();
    KeysOrTypeNumber = "keys-or-type-number" ();
    LineEnds = "line-ends" (count);
    Blanks = "blanks" (count);
    Backtick = "backtick" ();
    Heading = "heading" (text);
    TaskDone = "task-done" (text);
    TaskOpen = "task-open" (text);
    Code = "code" (language, count);
    CodePlain = "code-plain" (count);
    AnswerCut = "answer-cut" ();
    PastPermission = "past-permission" (text);
    PastQuestion = "past-question" (text);
    Seconds = "seconds" (count);
    Minutes = "minutes" (count);
    Hours = "hours" (count);
    TimeLeft = "time-left" (time);
    TimeLeftApproved = "time-left-approved" (time);
    TimeLeftRejected = "time-left-rejected" (time);
    TimeLeftAnswered = "time-left-answered" (time, answer);
    AnotherPrompt = "another-prompt" ();
    AnotherPromptOf = "another-prompt-of" (run);
    MorePrompts = "more-prompts" (count);
    NoPrompt = "no-prompt" ();
    PromptClosed = "prompt-closed" ();
    PromptChanged = "prompt-changed" ();
    ConfirmFirst = "confirm-first" ();
    NotApproved = "not-approved" ();
    NotAnswered = "not-answered" ();
    TypeAnswer = "type-answer" ();
    NothingTyped = "nothing-typed" ();
    NotANumber = "not-a-number" (text);
    NotAChoice = "not-a-choice" (text);
    Choice = "choice" (number, answer);
    NoChoice = "no-choice" (number);
    ApprovalSent = "approval-sent" ();
    RejectionSent = "rejection-sent" ();
    AnswerSent = "answer-sent" (answer);
    AnswerSentYes = "answer-sent-yes" ();
    AnswerSentNo = "answer-sent-no" ();
    ReplyWithoutEffect = "reply-without-effect" ();
    TimeRequested = "asked-for-time" (time);
    NothingHappened = "nothing-happened" ();
    NoRunActive = "no-run-active" ();
    RunEnded = "run-ended" ();
    RunsActive = "runs-active" (count);
    NotStarted = "not-started" ();
    RunText = "run-says" (run, text);
    PromptOpen = "prompt-open" (left);
    PromptsOpen = "prompts-open" (count, left);
    CutShort = "cut-short" (count);
    Help = "help" ();
    NotAKey = "not-a-key" ();
    NothingSpoken = "nothing-spoken" ();
    LevelNow = "level-now" (level);
    LevelHighest = "level-highest" (level);
    LevelLowest = "level-lowest" (level);
    LevelBrief = "level-brief" ();
    LevelTerse = "level-terse" ();
    LevelNormal = "level-normal" ();
    LevelDetailed = "level-detailed" ();
    CancelRun = "cancel-run" ();
    CancelRunOf = "cancel-run-of" (run);
    CancelRequested = "cancel-asked" ();
    NotCancelled = "not-cancelled" ();
    EndedAlready = "ended-already" ();
    NothingToCancel = "nothing-to-cancel" ();
    SessionStarted = "session-started" ();
    SessionFinished = "session-finished" ();
    SessionFailed = "session-failed" ();
    SessionCancelled = "session-cancelled" (by);
    UsingTool = "using-tool" (tool);
    ToolEnded = "tool-ended" (tool, status);
    Handover = "handover" (target, reason);
    Percent = "percent" (percent);
    Step = "step" (step);
    StepOf = "step-of" (step, total);
}
