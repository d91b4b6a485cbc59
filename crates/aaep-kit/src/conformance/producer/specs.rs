//! The checks of a producer beyond the rules on every conversation: [`CHECKS`], each with its requirement and its
//! [`Part`] of the run; and [`REASONS`], why a requirement cannot be tested from outside. Data only.

/// One check beyond the rules.
#[derive(Debug)]
pub struct Spec {
    pub requirement: &'static str,
    /// A sentence that is true if the check passes.
    pub name: &'static str,
    pub part: Part,
    /// The level it counts for, if not the requirement's.
    pub level: Option<u8>,
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Spec {
    pub fn level(&self) -> u8 {
        let own =
            || super::super::requirements::Requirement::named(self.requirement).map_or(1, |row| row.level);
        self.level.unwrap_or_else(own)
    }
}

/// Defines the parts of the run in order, each with its lowest level, its progress text and its checks.
macro_rules! checks {
    ($( $part:ident at $lowest:literal, $does:literal {
        $( $name:ident $requirement:literal $( at $level:literal )? $description:literal; )*
    } )*) => {
        /// A part of the run. Parts run in this order.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Part { $( #[doc = $does] $part, )* }

        impl Part {
            pub const ALL: &[Part] = &[$( Part::$part, )*];

            /// The lowest level at which it runs.
            pub fn level(self) -> u8 {
                match self { $( Part::$part => $lowest, )* }
            }

            /// The text for progress output.
            pub fn description(self) -> &'static str {
                match self { $( Part::$part => $does, )* }
            }
        }

        $( $(
            #[doc = $description]
            pub(super) static $name: Spec = Spec {
                requirement: $requirement,
                name: $description,
                part: Part::$part,
                level: [$( Some($level), )? None][0],
            };
        )* )*

        /// All checks in run order.
        pub static CHECKS: &[&Spec] = &[$( $( &$name, )* )*];
    };
}

checks! {
    Irreversible at 2, "an action that cannot be undone: invalid replies, an acceptance, late replies" {
        CONFIRMED "R-051" "an action that cannot be undone brings a confirmation when it is asked for";
        BLOCKED "R-070" "nothing is done while the confirmation waits";
        SILENT "R-072" "nothing sounds done while the confirmation waits";
        BAD_REPLIES "R-078" "replies with a single error have no effect";
        BARE_REPLY "R-078" "a reply without `subscription_id` and `timestamp` has no effect";
        UNAUTHENTICATED_REPLY "R-077" "a reply with the right token and without credentials has no effect";
        STRANGER "R-161" "a reply for a subscription that cannot reply, or does not exist, has no effect";
        DONE "R-074" "what is accepted is done";
        REPLY_PATH "R-145" "a reply reaches the producer";
        FIRST_WINS "R-080" "a second reply, the same or another, has no effect";
        LATE_REPLY "R-089" "a reply after the end of its session has no effect";
        ALIKE "R-079" "all invalid replies get the same answer, byte for byte";
    }
    Rejected at 2, "a confirmation that is rejected while others listen" {
        OTHER_TOKEN "R-162" "the token of an earlier session has no effect on a new prompt";
        REJECTED "R-071" "a rejection is followed by an event, and the action is not done";
        ALL_HEAR "R-088" "every subscription with the prompt receives its outcome";
    }
    Race at 2, "a hundred replies to one confirmation" {
        RACE "R-080" "of a hundred replies over two subscriptions one takes effect";
    }
    TimedOut at 2, "a confirmation that nobody answers" {
        DEFAULT_ON_TIME "R-081" "the default is applied at the timeout, not earlier and not much later";
        DEFAULT_APPLIED "R-081" "an unanswered action is done exactly when its default is `accept`";
        EXPIRED "R-081" "a reply after the timeout has no effect";
        COUNTDOWN "R-084" "a long prompt counts down";
    }
    Modified at 2, "an acceptance with changes" {
        MODIFIED "R-087" "an acceptance with unsupported changes counts as a rejection";
    }
    Twice at 2, "the same action asked for twice" {
        ONE_PROMPT "R-073" "an action has one open prompt at a time";
    }
    Question at 2, "questions and their answers" {
        WRONG_KIND "R-086" "an answer of the wrong kind leaves the question open for a right one";
        KINDS "R-094" "every listed kind of answer is accepted";
        UNANSWERED "R-088" "an unanswered question is followed by an event that reports it";
    }
    Handoff at 2, "a handoff" {
        HANDED_OVER "R-095" "a handoff is announced before the session ends";
        LARGE_EVENT "R-148" "an event of nearly 64 KiB arrives whole";
    }
    Leaving at 2, "prompts without a subscriber that can answer" {
        CANNOT_REPLY "R-093" "a subscription that cannot reply gets no prompt, and the default is applied";
        ONE_CANNOT "R-093" "with one subscription that can reply and one that cannot, the prompt waits or takes its default";
        LAST_LEAVES "R-097" "when every subscription that could reply has closed, the default is applied";
        ONE_LEAVES "R-097" "when one of two subscriptions has closed, the default is applied or the other's reply counts";
        BROKEN_OFF "R-144" "a broken connection counts as leaving";
        MADE_ANEW "R-145" "a subscription that is made anew while a prompt is open can answer it";
    }
    Plain at 1, "sessions without prompts" {
        SHOWN "R-030" "a request starts a session";
        NEW_SESSION "R-032" "every request starts its own session";
        SAME_AGENT "R-012" "`agent_id` is the same in all sessions";
        TOOL_SHOWN "R-054" "a tool that takes too long ends with `timeout`";
        SECRETS "R-053" "a secret in a request is in no text for people";
        MASKED "R-166" "a secret in a request is nowhere in the events";
        RECENT "R-011" "timestamps are close to the time of arrival";
        HINTED "R-059" "small pieces of output have a `coalesce_hint`";
        VERSIONED "R-018" "all events have a version, or none";
        NFC "R-184" "texts are composed";
        RELEASED "R-206" "the build is a release";
        ONE_EACH "R-141" "every frame is one whole message";
    }
    Delivery at 1, "one session with several readers" {
        SAME_BYTES "R-140" "two subscriptions with the same terms receive the same bytes";
        IN_ORDER "R-142" "events arrive in the order of their session";
        AT_LEAST_ONCE "R-143" "after a lost connection and a return, every event was received";
        RESUMED "R-149" "a return with `Last-Event-ID` misses nothing";
    }
    Access at 1, "who may listen and reply" {
        REFUSED "R-163" "every route refuses requests without credentials";
        CREDENTIALS "R-160" "subscribers of other hosts need credentials";
        PLAIN_HTTP "R-146" "plain HTTP is for one machine";
    }
    Handshake at 3, "requests for a subscription" {
        ANSWERED "R-111" "every request is answered, even a malformed one";
        SIGNED_ONLY "R-113" "a request for signed manifests only gets one, or is refused with its code";
        UNKNOWN_EXTENSION "R-114" "a request with capabilities of an unknown extension is accepted";
        VERSION "R-203" "an unsupported version is refused";
        FULL "R-131" "one subscription too many is refused with a time to retry";
        LARGE "R-148" "a request of 64 KiB is accepted";
    }
    Terms at 3, "one session on subscriptions with different terms" {
        RATE "R-115" "no second has more events than agreed";
        PROGRESS_RATE "R-039" "progress keeps to the agreed rate";
        CRITICAL "R-116" "a prompt passes rate limits and filters at once";
        FILTERED "R-117" "filtered events are not sent, and all others are";
        NUMBERED "R-015" at 3 "filtered events leave no gaps in the numbers";
        EXACT "R-118" "joined text of a slow subscription equals the text of others";
        BOUNDARIES "R-060" "pieces end at the agreed boundaries, or are finer and say so";
        AS_MANY "R-042" "a terse subscription receives as many events as a detailed one";
        ADAPTS "R-126" "load, pace and verbosity change what is sent";
        NO_LANGUAGE "R-183" "an unavailable language withholds no events";
        SLOW_OUTCOME "R-088" at 3 "a decision of another subscription reaches subscriptions with any rate";
        SLOW_STATE "R-096" at 3 "at any rate the state is `awaiting_input` before its prompt comes";
        HIGHEST_LEVEL "R-125" "a subscription of level 1 gets no prompts";
        OLDEST "R-205" "events have no later version than agreed";
    }
    Renegotiate at 3, "renegotiation and the end of a subscription" {
        RENEGOTIATED "R-120" "new terms are answered, and later events follow them";
        NEW_LANGUAGE "R-188" "a renegotiated language applies to later events";
        CLOSED "R-122" "nothing is sent after a close";
    }
    Readers at 3, "readers that are slow, disconnect, return or join late" {
        NOT_HELD_UP "R-123" "a subscription that does not read holds up no other";
        STALLED "R-151" "a reader that stalls loses no critical event and no text";
        SURVIVES "R-121" "the producer continues after lost connections";
        AGED "R-149" "a return with an unknown id gets the current state";
        MIDWAY "R-150" "a late subscription gets the current state";
    }
    Manifest at 1, "the manifest" {
        MANIFEST "R-124" "there is a manifest, and it agrees with the conversation";
        SEVERAL_AGENTS "R-209" "a session with several agents is declared";
    }
    Quiet at 1, "an idle stream" {
        HEARTBEAT "R-152" "an idle stream sends a heartbeat within 35 seconds";
    }
}

/// Why a requirement on producers, transports or suites is not tested from outside.
pub static REASONS: &[(&str, &str)] = &[
    (
        "R-006",
        "A producer may write either name. Whichever comes is held to the same rules; who must read both is a subscriber.",
    ),
    ("R-085", "The protocol has no message by which more time is asked for."),
    (
        "R-128",
        "A request names extensions by their URIs; which prefix each declares is not on the wire, so no collision can be made from outside. `recount_aaep::negotiate` refuses them, and its tests show it.",
    ),
    (
        "R-147",
        "TLS is not spoken below 1.2 by this suite, so it cannot show that 1.1 is refused. An `https` address that answers shows that 1.2 or later is there.",
    ),
    ("R-164", "Logs of attempts to reply are inside the producer."),
    ("R-168", "How much is needed is a judgement; no message shows what was left out."),
    (
        "R-170",
        "It is about validators. Ours looks for secrets with the rule `text.secret`, which the suite holds as well, on R-053.",
    ),
    ("R-201", "Whether an extension needs another is said by its schema, which is not on the wire."),
    ("R-207", "It is about this suite: each report begins with such a claim; a test holds its form."),
    ("R-208", "No profiles are tried, so none is claimed."),
];
