//! The protocol's requirements, one row each: id, addressee, level, strength, section and a short statement. [`ALL`]
//! is the table. The rules of `recount_aaep` and both sides of the suite define which test covers a requirement.

use recount_aaep::rule;

/// How strong a requirement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    Must,
    Should,
    /// Allowed or informative; observations are reported.
    May,
}

impl Strength {
    pub fn name(self) -> &'static str {
        match self {
            Strength::Must => "must",
            Strength::Should => "should",
            Strength::May => "may",
        }
    }
}

/// One requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    /// Such as `R-051`.
    pub id: &'static str,
    /// Whom it concerns, one letter each: `P` producers, `S` subscribers, `T` transports, `G` gateways, `V`
    /// validators, `C` suites such as this one, `X` extensions.
    pub who: &'static str,
    /// The level it belongs to. If the protocol names none, the level at which its subject first occurs.
    pub level: u8,
    pub strength: Strength,
    /// The section of the specification.
    pub section: &'static str,
    /// The statement.
    pub text: &'static str,
}

impl Requirement {
    pub fn named(id: &str) -> Option<&'static Requirement> {
        ALL.iter().find(|requirement| requirement.id == id)
    }

    /// Whether it concerns producers, their transport, or this suite.
    pub fn concerns_producers(&self) -> bool {
        self.who.contains(['P', 'T', 'G', 'V', 'C', 'X'])
    }

    pub fn concerns_subscribers(&self) -> bool {
        self.who.contains('S')
    }

    /// The rules of `recount_aaep` that check it.
    pub fn rules(&self) -> impl Iterator<Item = &'static rule::Rule> {
        let id = self.id;
        rule::ALL.iter().copied().filter(move |rule| cited(rule).any(|cited| cited == id))
    }
}

/// The requirements that a rule covers: those it cites, or, if it cites chapters only, the requirement of these
/// chapters.
pub fn cited(rule: &rule::Rule) -> impl Iterator<Item = &'static str> {
    let under: &[&str] = match rule.id {
        // The id may belong to another call, or arrive too early.
        "tool.not_invoked" => &["R-050", "R-052"],
        "prompt.open" => &["R-071"],
        "prompt.allowed_replies" => &["R-078"],
        "prompt.reversibility" | "prompt.timeout_advice" => &["R-082"],
        "question.choices" | "question.choice_repeated" | "question.default_response" => &["R-094"],
        "state.handoff" | "handoff.work" => &["R-095"],
        "message.type" | "message.required" | "message.form" | "message.field_unknown" => &["R-111"],
        "payload.required"
        | "payload.form"
        | "envelope.type"
        | "envelope.form"
        | "envelope.localized_text" => &["R-024"],
        _ => &[],
    };
    rule.cites.split(' ').filter(|word| word.starts_with("R-")).chain(under.iter().copied())
}

macro_rules! requirements {
    ($( $id:literal $who:ident $level:literal $strength:ident $section:literal $text:literal; )*) => {
        /// All requirements, in the order of their ids.
        pub static ALL: &[Requirement] = &[$( Requirement {
            id: $id,
            who: stringify!($who),
            level: $level,
            strength: Strength::$strength,
            section: $section,
            text: $text,
        }, )*];
    };
}

requirements! {
    "R-001" P 1 Must "§3.2" "every event has the six fields of the envelope";
    "R-002" P 1 Must "§3.2.1" "`@context` is the protocol's, or an array that begins with it";
    "R-003" S 1 Must "§3.2.1" "`@context` is checked before an event is used";
    "R-004" P 1 Must "§3.2.2" "in `aaep:` only the twelve types are sent";
    "R-005" S 1 Must "§3.2.2" "an unknown type never ends a subscription";
    "R-006" PS 1 Must "§3.2.2" "compact and full type names are equivalent";
    "R-007" P 1 Must "§3.2.3" "every event has a unique `event_id` of the right form";
    "R-008" S 3 Must "§3.2.3 §8.2.4" "a repeated event is used once";
    "R-009" P 1 Must "§3.2.4" "every session has a unique `session_id`";
    "R-010" P 1 Must "§3.2.5" "timestamps are real moments in the protocol's form";
    "R-011" P 1 Must "§3.2.5" "timestamps never decrease within a session and are not shifted";
    "R-012" P 1 Must "§3.2.6" "`producer.agent_id` is present and constant";
    "R-013" P 1 Should "§3.3" "`verbosity`, `urgency` and `localization_hints` accompany text";
    "R-014" P 1 Should "§3.3.2" "types have the urgency that is recommended for them";
    "R-015" P 1 Must "§3.4.1" "events of a session are numbered from 0 without gaps, or not at all";
    "R-016" P 1 Must "§3.4.3" "prefixes of extensions are declared by `@context`";
    "R-017" S 1 Must "§3.4.3" "objects of unknown extensions are ignored";
    "R-018" P 1 Must "§3.4.4" "`aaep_version` is a published version";
    "R-019" P 1 Must "§3.5" "events have no fields that the protocol does not define";
    "R-020" S 1 Must "§3.6" "the order of keys does not matter";
    "R-021" PS 1 Should "§3.7" "sizes stay within the advised limits, and larger ones are survived";
    "R-022" PS 1 Must "§3.8" "messages are JSON in UTF-8 and nothing else";
    "R-023" P 1 Must "§3.8" "integers beyond 2^53 are strings";
    "R-024" PV 1 Must "§3.9" "events pass validation in nine steps: form, type and payload";
    "R-025" S 1 Must "§2.2.4" "half an event is no event";
    "R-030" P 1 Must "§4.1.1" "a session begins once, with `session.started`";
    "R-031" P 1 Must "§4.1.2" "a session ends once, and nothing follows";
    "R-032" P 1 Must "§2.2.5" "a session is about one request";
    "R-033" P 1 Must "§4.1.3" "`session.errored` is critical";
    "R-034" S 1 Must "§4.1.3" "errors are reported promptly and never held back";
    "R-035" S 1 Should "§4.1.3" "`remediation_hint` is reported";
    "R-036" P 1 Must "§4.2.1" "states form an unbroken chain from `idle`";
    "R-037" P 1 Must "§9.3.1.3" "thinking, calling a tool and writing output are announced";
    "R-038" S 1 Must "§4.2.1" "unknown states are accepted, and states can be repeated on request";
    "R-039" P 3 Must "§4.2.2" "progress keeps to the agreed rate";
    "R-040" P 1 Must "§9.3.1.9" "events that are announced have a `summary_normal`";
    "R-041" S 1 Must "§9.3.2.4" "completed, failed and cancelled sound different";
    "R-042" P 3 Must "§2.2.8" "a terse subscriber receives as many events as a detailed one";
    "R-050" P 1 Must "§4.3.1" "`tool.invoked` comes before the tool acts";
    "R-051" P 2 Must "§4.3.1 §2.3.5" "an irreversible action is confirmed and accepted first";
    "R-052" P 1 Must "§4.3.1" "a call has one `tool_call_id`, on both of its events";
    "R-053" P 1 Must "§4.3.1" "texts for people hold no secrets";
    "R-054" P 1 Must "§4.3.2 A.3" "every call is completed once, even when it is abandoned";
    "R-055" P 1 Must "§4.3.2" "a call is completed before the state moves on";
    "R-056" P 1 Must "§4.3.2" "a call has one tool name on both of its events";
    "R-057" P 1 Must "§4.3.3" "`position` counts the characters of the output before a piece";
    "R-058" P 1 Must "§4.5.4" "an output has one last piece, and nothing after it";
    "R-059" P 1 Should "§9.3.1.6" "small pieces of output say where they may be spoken";
    "R-060" P 3 Must "§4.3.3 §5.3.1.6" "output is cut at the agreed boundaries, or finer with true hints";
    "R-061" S 1 Must "§4.3.3" "pieces without a boundary are not spoken by themselves";
    "R-062" P 2 Must "§2.3.5" "a high-risk action is confirmed first";
    "R-070" P 2 Must "§4.4.1 §6.1.1" "nothing is done while its prompt is open";
    "R-071" P 2 Must "§6.1.2 §4.5.3" "a rejection is followed by an event that reports it";
    "R-072" P 2 Must "§6.1.3" "nothing sounds done while its prompt is open";
    "R-073" P 2 Must "§6.1.4" "an action has one open prompt at a time";
    "R-074" P 2 Must "§4.5.3" "an accepted action is done";
    "R-075" P 2 Must "§6.2" "reply tokens have the right form, are unguessable and never reused";
    "R-076" S 2 Must "§6.2.3" "a token is returned byte for byte, and none is invented";
    "R-077" P 2 Must "§6.2.4" "replies are authenticated; a reply token proves nothing";
    "R-078" P 2 Must "§6.3.4" "replies are checked against schema, token, time, sender and allowed decisions";
    "R-079" P 2 Must "§6.3.4" "invalid replies are ignored without a reason";
    "R-080" P 2 Must "§6.3.5" "the first valid reply counts and no other";
    "R-081" P 2 Must "§6.4" "the default is applied when the timeout since the prompt's timestamp has passed";
    "R-082" P 2 Must "§6.4.1" "a grave action is rejected at its timeout";
    "R-083" P 2 Must "§4.4" "prompts and handoffs are critical";
    "R-084" PS 2 Should "§6.4.3" "long prompts count down at a half and a tenth of their time";
    "R-085" P 2 Should "§6.4.2" "requests for more time are honoured";
    "R-086" P 2 Must "§6.5.5" "an answer of the wrong kind is no answer, and the question stays open";
    "R-087" P 2 Must "§6.3.2" "an unsupported modified action counts as a rejection";
    "R-088" P 2 Must "§6.7.2 §9.4.1.9" "every subscriber that received a prompt receives its outcome";
    "R-089" P 2 Must "§6.8" "a withdrawn prompt takes no reply";
    "R-090" S 2 Must "§9.4.2.9" "a withdrawn prompt disappears";
    "R-091" S 2 Must "§4.4.1 §9.4.2.6" "no prompt is answered automatically unless the user wants that";
    "R-092" S 2 Must "§10.1.3" "prompts are shown first, complete and unchanged";
    "R-093" P 2 Must "§5.3.1.4" "a subscriber that cannot reply gets no prompt";
    "R-094" P 2 Must "§9.4.1.7" "every kind of answer that a question lists is accepted";
    "R-095" P 2 Must "§9.4.1.10" "a handoff is announced with `handoff.requested`";
    "R-096" P 2 May "A.4" "the state is `awaiting_input` at a prompt, and leaves it afterwards";
    "R-097" P 2 Must "§5.8.2 §8.2.5" "prompts of a departed subscriber take their default";
    "R-110" S 3 Must "§9.5.2.2" "a subscriber begins with `subscription.request`";
    "R-111" P 3 Must "§9.5.1.3" "every request is answered, accepted or rejected";
    "R-112" P 3 Must "§5.4.4" "no more is honoured than was requested";
    "R-113" P 3 Must "§5.3.1.12" "a request for signed manifests only is refused when there is none";
    "R-114" P 3 Must "§5.3.2" "capabilities of unknown extensions are ignored";
    "R-115" P 3 Must "§5.6.1.1" "the agreed rate holds at every moment, for each subscription";
    "R-116" P 3 Must "§5.5.4 §5.6.1.3" "critical events pass rate and filters at once";
    "R-117" P 3 Must "§5.3.1.7" "filtered events are not sent; exclude beats include";
    "R-118" P 3 Must "§5.6.1.2" "events over the rate are held and joined, and no text is lost";
    "R-119" S 3 Must "§5.6.2" "a subscriber sustains its declared rate and loses nothing critical";
    "R-120" P 3 Must "§5.7" "terms can be renegotiated, and later events follow them";
    "R-121" PS 3 Must "§5.8" "the other side's sudden end is survived";
    "R-122" P 3 Must "§5.8.2" "nothing is sent after a close";
    "R-123" P 3 Must "§5.9" "a slow subscriber does not hold up others";
    "R-124" P 3 Must "§5.10 §9.5.1.8" "there is a manifest, and it is true";
    "R-125" P 3 Should "§5.3.1.8" "the highest common level is used";
    "R-126" P 3 Should "§5.3.1" "load, pace and verbosity that were asked for change what is sent";
    "R-127" S 2 Must "§5.3.1.4" "a subscriber that can reply declares it";
    "R-128" P 3 Must "§7.3.1" "prefixes of extensions that collide are refused";
    "R-129" S 3 Must "§9.5.2.3" "accepted terms are kept, or renegotiated";
    "R-130" S 3 Must "§9.5.2.7" "a subscriber sends a close when it ends";
    "R-131" P 3 Should "§5.5.3" "a subscription too many is told when to retry";
    "R-140" TG 1 Must "§8.2.1" "messages are delivered as sent, byte for byte";
    "R-141" T 1 Must "§8.2.2" "message boundaries are known without parsing";
    "R-142" T 1 Must "§8.2.3" "events of a session arrive in order";
    "R-143" T 1 Must "§8.2.4" "every event is delivered at least once";
    "R-144" PS 2 Must "§8.2.5" "a lost connection is noticed and cleaned up";
    "R-145" T 2 Must "§8.2.6" "replies can be sent";
    "R-146" T 1 Must "§8.2.7" "there is authentication; plain HTTP is for one machine";
    "R-147" T 1 Must "§8.2.8" "TLS is 1.2 or later";
    "R-148" T 3 Must "§8.3" "messages of 64 KiB are carried, and should be up to 1 MiB";
    "R-149" P 3 Should "§8.7" "a return with `Last-Event-ID` misses nothing";
    "R-150" P 3 Should "§8.7" "a late subscription gets the current state";
    "R-151" P 3 Should "§8.8" "a stalled reader is sent less";
    "R-152" PT 1 May "–" "an idle stream sends heartbeats";
    "R-160" P 1 Must "§10.1.2" "subscribers of other hosts are authenticated";
    "R-161" P 2 Must "T1" "only subscribers that received the prompt may reply";
    "R-162" P 2 Must "T2" "a token is valid once, for its session and its time";
    "R-163" P 1 Must "T8" "every message is authenticated; a `subscription_id` proves nothing";
    "R-164" P 2 Should "T2" "attempts to reply are logged";
    "R-165" S 3 Should "T4" "a subscriber limits its input, and logs the excess";
    "R-166" P 1 Should "T5" "sensitive content is masked";
    "R-167" S 3 Should "§9.5.2.8 §10.4.2" "signed manifests are verified";
    "R-168" P 1 Must "§10.5" "no more is sent than needed";
    "R-169" S 1 Should "§10.5.2" "stored data is deleted in time, and logs hold no texts";
    "R-170" V 1 May "T5" "texts are searched for patterns of secrets";
    "R-180" P 1 Must "§11.1" "texts for people declare their language";
    "R-181" P 1 Must "§11.1.2" "language tags are BCP 47";
    "R-182" S 1 Must "§11.1.2" "`en` and `en-US` match";
    "R-183" P 3 Must "§11.2" "an unavailable language withholds no events";
    "R-184" PS 1 Should "§11.3.2" "texts are in NFC, and any form is taken";
    "R-185" S 1 Must "§11.3.3 §11.4.1" "characters are not cut, and direction is kept";
    "R-186" P 1 Should "§11.3.3" "no piece begins with a combining mark";
    "R-187" P 1 Must "§11.4.2" "texts of mixed direction declare it";
    "R-188" P 3 Must "§11.2.2" "a renegotiated language applies to what follows";
    "R-189" S 1 Should "§11.5.3" "the language of a piece is used for it";
    "R-200" X 1 Must "§7.2 §7.3.2" "extensions change nothing of the protocol's own";
    "R-201" X 1 Must "§7.5.2" "an extension needs no other";
    "R-202" X 1 Must "§7.4" "events of extensions have the whole envelope";
    "R-203" P 3 May "§12.5.2" "an unsupported version is refused, or answered with another";
    "R-204" S 1 Must "§12.2 §12.6.1" "additions of later versions are survived";
    "R-205" P 3 Should "§12.6.2" "events have the oldest requested version";
    "R-206" C 1 Should "§12.1.1" "builds before a release claim nothing in general";
    "R-207" C 1 Must "§9.8" "a claim has name, level, edition and day";
    "R-208" C 1 Must "§9.6" "claims of profiles have a level, fixtures and a URI";
    "R-209" G 1 Must "§2.2.5 A.9" "a producer for several agents declares the pattern";
    "R-210" C 2 Must "§6.4.1" "a suite finds a grave action that is accepted when nobody answers";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requirements of the protocol's matrix, as ranges of their numbers.
    const NUMBERS: [std::ops::RangeInclusive<u16>; 9] =
        [1..=25, 30..=42, 50..=62, 70..=97, 110..=131, 140..=152, 160..=170, 180..=189, 200..=210];

    #[test]
    fn every_requirement_of_the_matrix_is_in_the_table_once() {
        let expected: Vec<String> =
            NUMBERS.into_iter().flatten().map(|number| format!("R-{number:03}")).collect();
        let ids: Vec<&str> = ALL.iter().map(|requirement| requirement.id).collect();
        assert_eq!(ids, expected);
        assert!(ALL.iter().all(|row| (1..=3).contains(&row.level)));
        assert!(ALL.iter().all(|row| row.concerns_producers() || row.concerns_subscribers()));
    }

    #[test]
    fn rules_cite_existing_requirements() {
        for rule in rule::ALL {
            assert!(cited(rule).all(|id| Requirement::named(id).is_some()), "{}: {}", rule.id, rule.cites);
        }
    }
}
