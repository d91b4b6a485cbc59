//! The faults of the scripted producer, each with the requirement that it breaks. Data only.

use crate::faults::faults;

faults! {
    /// One thing that is wrong, and nothing else.
    // The envelope.
    ContextMissing "R-001" 1: "Events have no `@context`.";
    ContextForeign "R-002" 1: "`@context` is of another protocol.";
    TypeUndefined "R-004" 1: "Progress has a type that the protocol does not define.";
    EventIdForm "R-007" 1: "Event ids have hyphens.";
    EventIdRepeated "R-007" 1: "Every second event has the id of the one before it.";
    SessionIdReused "R-009" 1: "All sessions have the same id.";
    TimestampForm "R-010" 1: "Timestamps have no zone.";
    TimestampFalls "R-011" 1: "Every third event is a second earlier than the one before it.";
    AgentMissing "R-012" 1: "`producer` has no `agent_id`.";
    UrgencyInflated "R-014" 1: "Changes of state are critical.";
    SequenceFromOne "R-015" 1: "`sequence_number` begins at 1.";
    SequenceGaps "R-015" 3: "Events are numbered before the filters, so excluded events leave gaps.";
    VersionUnpublished "R-018" 1: "`aaep_version` is 99.0.0.";
    FieldOfItsOwn "R-019" 1: "Events have a field that the protocol does not define.";
    LanguageMissing "R-180" 1: "Events do not state their language.";
    LanguageForm "R-181" 1: "The language is written with an underscore.";

    // Sessions and states.
    StartMissing "R-030" 1: "Sessions begin without `session.started`.";
    StartTwice "R-030" 1: "Sessions begin twice.";
    EndMissing "R-031" 1: "Sessions do not end.";
    EndTwice "R-031" 1: "Sessions end twice.";
    EventAfterEnd "R-031" 1: "Something follows the end of a session.";
    ErrorNotCritical "R-033" 1: "`session.errored` has normal urgency.";
    ErrorCategoryUnknown "R-024" 1: "`error_category` is none of the four values.";
    StateChainBroken "R-036" 1: "A change leaves a state that was not entered.";
    StateFirst "R-036" 1: "The first change does not start from `idle`.";
    StatesMissing "R-037" 1: "State changes are not sent.";
    SummaryMissing "R-040" 1: "Changes of state have no `summary_normal`.";
    TerseLeavesOut "R-042" 3: "Terse subscriptions get no progress.";

    // Tools and output.
    ToolCompletedFirst "R-050" 1: "`tool.completed` comes before its `tool.invoked`.";
    ToolIdsDiffer "R-052" 1: "The two events of a call have different ids.";
    ToolRenamed "R-056" 1: "The two events of a call name different tools.";
    ToolUncompleted "R-054" 1: "Calls are not completed.";
    ToolTimeoutUnreported "R-054" 1: "A call that times out is not completed.";
    ToolCompletedLate "R-055" 1: "`tool.completed` comes after the state that follows the tool.";
    SecretsEchoed "R-053" 1: "What was typed is repeated in `args_summary`, secrets included.";
    PositionInBytes "R-057" 1: "`position` counts bytes.";
    PositionFalls "R-057" 1: "Every third piece of output has position 0.";
    CompleteTwice "R-058" 1: "The last piece of output comes twice.";
    OutputLeftOpen "R-058" 1: "No piece of output is the last.";
    PieceBehindComplete "R-058" 1: "A piece of output follows the last one.";
    HintMissing "R-059" 1: "Pieces of output have no boundary hint.";
    BoundariesIgnored "R-060" 3: "Output is sent word by word, whatever was agreed, with the hint `sentence` for words.";
    TextLost "R-118" 3: "Pieces that hold several words lose the last one.";
    TextDoubled "R-118" 3: "Pieces that hold several words repeat the last one.";

    // Prompts.
    PromptNotCritical "R-083" 2: "Confirmations have normal urgency.";
    QuestionNotCritical "R-083" 2: "Clarifications have normal urgency.";
    HandoffNotCritical "R-083" 2: "Handoffs have normal urgency.";
    HandoffMissing "R-095" 2: "A handoff is not announced.";
    DefaultAccepts "R-082" 2: "A grave action is accepted at its timeout.";
    TokenForm "R-075" 2: "Tokens have hyphens.";
    TokenReused "R-075" 2: "All prompts have the same token.";
    KindsUntrue "R-094" 2: "A question claims to accept free text but ignores it.";
    IrreversibleUnasked "R-051" 2: "An irreversible action is done before its confirmation is requested.";
    NotBlocking "R-070" 2: "The action is done while its confirmation is open.";
    DoneAfterReject "R-051" 2: "A rejected action is done anyway.";
    DoneAfterTimeout "R-081" 2: "An unanswered action is done, although its default is `reject`.";
    NotDoneAfterAccept "R-074" 2: "An accepted action is not done.";
    NoFollowUp "R-071" 2: "No event reports that an action was rejected or timed out.";
    SecondPrompt "R-073" 2: "The same action is requested again while the first prompt is open.";
    TimeoutLate "R-081" 2: "The default is applied a second and a half too late.";
    TimeoutEarly "R-081" 2: "The default is applied when half of the time is over.";
    TimeoutNever "R-081" 2: "The default of a prompt is never applied.";
    QuestionNeverResolved "R-088" 2: "A question without an answer waits for ever.";
    ResolutionUnreported "R-088" 2: "Only the subscription that answered receives the outcome of the prompt.";
    MuteSubscribersPrompted "R-093" 2: "A subscription that cannot reply gets prompts, and is waited for.";
    OpenPromptForgotten "R-145" 2: "A subscription that is made anew gets no prompt that is open already.";
    OutcomeMerged "R-088" 3: "At a limited rate, the decision on a prompt is merged into a later state.";
    PromptBeforeState "R-096" 2: "A prompt comes before the state `awaiting_input`.";
    PromptOvertakesState "R-096" 3: "At a limited rate, a prompt comes before the state `awaiting_input`.";
    PromptOutlivesReaders "R-097" 2: "A prompt stays open when no subscription remains that could answer.";

    // Replies.
    AllowedRepliesIgnored "R-078" 2: "Any decision other than `reject` counts as `accept`.";
    ForgedReplyTaken "R-078" 2: "A reply with a token that was never sent settles the prompt that is open.";
    LateReplyTaken "R-081" 2: "A reply after the timeout is carried out.";
    SecondReplyTaken "R-080" 2: "A second reply to the same prompt is carried out, too.";
    StrangersReplyTaken "R-161" 2: "A reply counts although its subscription did not get the prompt.";
    ReplyReveals "R-079" 2: "A reply without effect is answered with 400 and the reason.";
    ModifiedActionTaken "R-087" 2: "A modified action is accepted, and the original action is done.";
    WrongKindTaken "R-086" 2: "A question with choices takes a number or yes and no.";
    ForeignChoiceTaken "R-086" 2: "A question with choices takes a value that is none of them.";

    // Handshakes.
    HandshakeUnanswered "R-111" 3: "A handshake gets no answer.";
    MalformedUnanswered "R-111" 3: "A handshake that cannot be read gets no answer.";
    RateRaised "R-112" 3: "Twice the requested rate is honoured.";
    LanguagesWidened "R-112" 3: "A language is honoured that was not requested.";
    BoundariesWidened "R-112" 3: "A boundary is honoured that was not requested.";
    LevelsWidened "R-112" 3: "All levels are honoured, whichever were requested.";
    ExtensionsWidened "R-112" 3: "An extension is honoured that was not requested.";
    RepliesRaised "R-112" 3: "Replies are honoured for a subscription that declared it cannot reply.";
    FiltersWidened "R-112" 3: "Requested filters are not honoured.";
    SignedOnlyAccepted "R-113" 3: "A request for signed manifests only is accepted, although there is none.";
    UnknownCapabilityRejected "R-114" 3: "A request with capabilities of an unknown extension is rejected.";
    UnknownVersionAccepted "R-203" 3: "An unsupported version is accepted.";
    NeverFull "R-131" 3: "More subscriptions are accepted than the manifest allows.";
    LanguageKeepsSilent "R-183" 3: "A request for an unavailable language is accepted and gets no events.";

    // Terms.
    ExcludeIgnored "R-117" 3: "What the filters exclude is sent when they include it.";
    CriticalFiltered "R-116" 3: "Critical events are excluded when the filters do not name them.";
    CriticalDelayed "R-116" 3: "Critical events come late.";
    RateIgnored "R-115" 3: "The agreed rate is not kept.";
    RateInWindows "R-115" 3: "The rate is kept in fixed seconds: twice as much comes around their edges.";
    RenegotiateIgnored "R-120" 3: "A renegotiation is accepted, and the old terms stay.";
    RenegotiateUnanswered "R-120" 3: "A renegotiation is carried out and gets no answer.";
    EventsAfterClose "R-122" 3: "Events go on after `subscription.close`.";
    SlowReaderStalls "R-123" 3: "A reader that does not read stops all others.";

    // The transport.
    LargeEventsCut "R-148" 3: "Events of more than 48 KiB are cut off at 32 KiB.";
    ResumeIgnored "R-149" 3: "`Last-Event-ID` is ignored: only new events are sent.";
    ResumeLoses "R-143" 3: "A return with `Last-Event-ID` misses one event.";
    ResumeRenames "R-149" 3: "A return with `Last-Event-ID` gets events again, with new ids.";
    NoSummary "R-150" 3: "A late subscription gets no summary of the session.";
    HeartbeatMissing "R-152" 1: "An idle stream sends no heartbeat.";
    ManifestMissing "R-124" 3: "There is no manifest.";
    ManifestUntrue "R-124" 3: "The manifest is of another agent.";
    EventsUnguarded "R-163" 1: "Events are sent without a token.";
    RepliesUnguarded "R-077" 2: "Replies are accepted without a token.";
    SubscriptionIdAdmits "R-163" 1: "A `subscription_id` is enough to read its events, without a token.";
}
