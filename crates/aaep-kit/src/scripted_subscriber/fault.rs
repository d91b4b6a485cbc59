//! The faults of the scripted subscriber, each with the requirement that it breaks.

use crate::faults::faults;

faults! {
    /// A fault of a subscriber.
    ForeignContext = "foreign-context" "R-003" 1: "It processes events of any protocol.";
    EndsAtUnknownType = "ends-at-unknown-type" "R-005" 1: "It ends at an unknown type.";
    CompactNamesOnly = "compact-names-only" "R-006" 1: "It knows types by their short names alone.";
    AnswersTwice = "answers-twice" "R-008" 3: "It answers an event as often as it is delivered.";
    EndsAtExtension = "ends-at-extension" "R-017" 1: "It ends when an event has objects of extensions.";
    WantsKeyOrder = "wants-key-order" "R-020" 1: "It reads only events that begin with their context.";
    EndsAtLargeEvent = "ends-at-large-event" "R-021" 1: "It ends at an event of more than 64 KiB.";
    EndsAtBrokenJson = "ends-at-broken-json" "R-022" 1: "It ends at a text that is not JSON.";
    ForgivesCommas = "forgives-commas" "R-022" 1: "It accepts JSON with an extra comma.";
    ReadsHalfEvents = "reads-half-events" "R-025" 1: "It answers a truncated prompt.";
    EndsAtUnknownState = "ends-at-unknown-state" "R-038" 1: "It ends at a state that it does not know.";
    CutsTokens = "cuts-tokens" "R-076" 2: "It keeps 40 characters of a token.";
    FoldsTokens = "folds-tokens" "R-076" 2: "It sends tokens back in small letters.";
    MakesTokensUp = "makes-tokens-up" "R-076" 2: "It sends a second reply, with an invented token.";
    DecidesAnything = "decides-anything" "R-078" 2: "It accepts what can only be rejected.";
    RepliesWithoutTime = "replies-without-time" "R-078" 2: "Its replies lack their timestamp.";
    AnswersInWords = "answers-in-words" "R-086" 2: "It answers every question with the same words.";
    AnswersWithdrawn = "answers-withdrawn" "R-090" 2: "It answers withdrawn prompts.";
    AnswersLate = "answers-late" "R-090" 2: "It answers short prompts long after their timeout.";
    AnswersUnasked = "answers-unasked" "R-091" 2: "It accepts although it is not configured to.";
    DecidesOtherwise = "decides-otherwise" "R-091" 2: "It rejects although it is configured to accept.";
    OnePromptOnly = "one-prompt-only" "R-092" 2: "A second prompt makes it forget the first.";
    OpensUnasked = "opens-unasked" "R-110" 3: "It reads without a handshake.";
    AsksWithoutCapabilities = "asks-without-capabilities" "R-110" 3: "Its request lacks the capabilities.";
    DropsInBursts = "drops-in-bursts" "R-119" 3: "After 200 events of one second it drops all for five seconds, prompts too.";
    EndsAtCut = "ends-at-cut" "R-121" 3: "It ends when its connection is cut.";
    StormsWhenDown = "storms-when-down" "R-121" 3: "It retries without pause while a producer refuses it.";
    DeniesReplies = "denies-replies" "R-127" 2: "Its request does not declare that it can reply.";
    WantsItsTerms = "wants-its-terms" "R-129" 3: "It repeatedly requests its original terms.";
    StormsWhenRejected = "storms-when-rejected" "R-129" 3: "It retries a rejected request without pause.";
    LeavesSilently = "leaves-silently" "R-130" 3: "It ends without a close.";
    ClosesOther = "closes-other" "R-130" 3: "It closes a subscription that is not its own.";
    ReadsWrites = "reads-writes" "R-141" 1: "It treats every piece of the stream as a whole event.";
    ReadsOneLine = "reads-one-line" "R-141" 1: "Of an event of several lines it reads the first.";
    ForgetsMissed = "forgets-missed" "R-143" 1: "After a reconnect it waits for a new session.";
    NeverReplies = "never-replies" "R-145" 2: "It never sends its replies.";
    SmallEventsOnly = "small-events-only" "R-148" 3: "It ignores events of more than 32 KiB.";
    ResumesNowhere = "resumes-nowhere" "R-149" 3: "It reconnects without the id of the last event.";
    RepliesWithoutToken = "replies-without-token" "R-163" 1: "It sends its bearer token for the stream, not for replies.";
    WantsComposedText = "wants-composed-text" "R-184" 1: "It drops events with combining marks.";
    EndsAtNewWord = "ends-at-new-word" "R-204" 1: "It ends at words of later versions.";
}
