//! What can be wrong, each thing with the requirement it breaks. Words only; who does it wrong is elsewhere.

macro_rules! faults {
    ($( $(#[$doc:meta])* $fault:ident $requirement:literal $level:literal : $says:literal; )*) => {
        /// One thing that is wrong, and nothing else.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault { $( #[doc = $says] $fault, )* }

        impl Fault {
            /// All of them.
            pub const ALL: &[Fault] = &[$( Fault::$fault, )*];

            /// As it is written in tables.
            pub fn name(self) -> &'static str {
                match self { $( Fault::$fault => stringify!($fault), )* }
            }

            /// What the producer does.
            pub fn says(self) -> &'static str {
                match self { $( Fault::$fault => $says, )* }
            }

            /// The requirement it breaks.
            pub fn requirement(self) -> &'static str {
                match self { $( Fault::$fault => $requirement, )* }
            }

            /// The lowest level whose check must find it.
            pub fn level(self) -> u8 {
                match self { $( Fault::$fault => $level, )* }
            }
        }
    };
}

faults! {
    ContextMissing "R-001" 1: "Events have no `@context`.";
    SecretsEchoed "R-053" 1: "What was typed is repeated in `args_summary`, secrets included.";
    IrreversibleBeforePrompt "R-051" 2: "What cannot be undone is done before its confirmation is asked for.";
    NotBlocking "R-070" 2: "The action is done while its confirmation is open.";
    NoFollowUp "R-071" 2: "Nothing tells that an action was rejected, or that its time was up.";
    SecondPrompt "R-073" 2: "The same action is asked for a second time while the first prompt is open.";
    TokenReused "R-075" 2: "All prompts have the same token.";
    DoneAfterReject "R-051" 2: "What was rejected is done all the same.";
    AllowedRepliesIgnored "R-078" 2: "Any decision that does not say `reject` counts as `accept`.";
    ForgedReplyTaken "R-078" 2: "A reply with a token that was never sent settles the prompt that is open.";
    LateReplyTaken "R-081" 2: "A reply that comes after the time was up is carried out.";
    SecondReplyTaken "R-080" 2: "A second reply to the same prompt is carried out, too.";
    StrangersReplyTaken "R-161" 2: "A reply counts although its subscription did not get the prompt.";
    ReplyReveals "R-079" 2: "A reply without effect is answered with 400 and the reason.";
    ModifiedActionAccepted "R-087" 2: "A changed action is accepted, and the action done as it was told before.";
    WrongKindAccepted "R-086" 2: "A question with choices takes a number or yes and no.";
    ChoiceOutsideValues "R-086" 2: "A question with choices takes a value that is none of them.";
    ClarificationNeverResolved "R-088" 2: "A question without an answer waits for ever.";
    TimeoutLate "R-081" 2: "The default is applied a second and a half too late.";
    TimeoutEarly "R-081" 2: "The default is applied when half of the time is over.";
    TimeoutNever "R-081" 2: "The default of a prompt is never applied.";
    ResolutionUntold "R-088" 2: "Only who answered hears what became of the prompt.";
    HandshakeUnanswered "R-111" 3: "A handshake gets no answer.";
    RenegotiateIgnored "R-120" 3: "A renegotiation is accepted, and the old terms stay.";
    RenegotiateUnanswered "R-120" 3: "A renegotiation is carried out and gets no answer.";
    EventsAfterClose "R-122" 3: "Events go on after `subscription.close`.";
    NoSummary "R-150" 3: "Who comes in the middle of a session is told nothing of it.";
    SlowReaderStalls "R-123" 3: "A reader that does not read stops all others.";
}
