//! The rows of the rule table. Data only; [`crate::rule`] and [`crate::session`] have the checks.

use super::Layer::*;
use super::Severity::{Error, Note, Warning};
use super::Source::*;
use super::{Layer, Rule, Severity, Source};

macro_rules! severity {
    (error) => {
        Some(Severity::Error)
    };
    (warning) => {
        Some(Severity::Warning)
    };
    (note) => {
        Some(Severity::Note)
    };
    (off) => {
        None
    };
}
macro_rules! schema {
    () => {
        false
    };
    (schema) => {
        true
    };
}
macro_rules! rules {
    ($( $layer:ident { $(
        $name:ident $id:literal $source:ident $cites:literal $strict:ident $compat:ident $( $schema:ident )? :
        $statement:literal => $remedy:literal;
    )* } )*) => {
        $( $(
            #[doc = $statement]
            pub static $name: Rule = Rule {
                id: $id,
                layer: Layer::$layer,
                source: Source::$source,
                cites: $cites,
                strict: severity!($strict),
                compat: severity!($compat),
                in_schema: schema!($( $schema )?),
                statement: $statement,
                remedy: $remedy,
            };
        )* )*
        /// All rules, in the order of the reference page.
        pub static ALL: &[&Rule] = &[$( $( &$name, )* )*];
    };
}

// The macro uses these names without a path.
const _: (Severity, Severity, Severity, Layer, Source) = (Error, Warning, Note, Text, Schema);

rules! {
    Text {
        JSON_SYNTAX "json.syntax" Prose "R-022 §3.8" error error:
            "A message is one JSON value as defined by RFC 8259." => "Write it with a JSON library; no comments, no trailing commas, no single quotes.";
        JSON_TRUNCATED "json.truncated" Prose "R-025 §2.2.4" error error:
            "A message is complete." => "Write each message with one write, and drop the truncated message of a writer that died.";
        JSON_ENCODING "json.encoding" Prose "R-022 §3.8" error error:
            "JSON is in UTF-8." => "Encode in UTF-8.";
        JSON_BOM "json.bom" Prose "R-022 §3.8" error error:
            "JSON has no byte order mark." => "Remove the mark.";
        JSON_NUMBER "json.number" Prose "R-022 §3.8" error error:
            "Numbers are in JSON syntax; `NaN` and `Infinity` are not numbers." => "Leave the field out, or send a string.";
        JSON_SURROGATE "json.surrogate" Prose "R-022 §3.8" error error:
            "Characters beyond U+FFFF are escaped with both surrogates." => "Escape the whole character, or do not escape it.";
        JSON_DUPLICATE_KEY "json.duplicate_key" Prose "R-022 §3.8" error error:
            "No key appears twice in an object." => "Keep one of the two; parsers do not agree on which one counts.";
        JSON_DEPTH "json.depth" Prose "R-021 §3.7" error error:
            "Nesting stays within the limit of parsers." => "Flatten it; the protocol advises at most eight levels.";
        JSON_OBJECT "json.object" Schema "R-024 §3.9" error error schema:
            "A message is a JSON object." => "Send one object for each message.";
    }
    Required {
        ENVELOPE_REQUIRED "envelope.required" Schema "R-001 §3.2" error error schema:
            "Every event has `@context`, `type`, `event_id`, `session_id`, `timestamp` and `producer`." => "Add the field that is missing.";
        PAYLOAD_REQUIRED "payload.required" Schema "§4" error error schema:
            "An event has the fields that its type requires." => "Add the field that is missing.";
    }
    Form {
        ENVELOPE_CONTEXT "envelope.context" Schema "R-002 §3.2.1" error error schema:
            "`@context` is the protocol's context, or an array of strings that begins with it." => "Write `https://aaep-protocol.org/context/v1`, followed by the contexts of extensions.";
        CONTEXT_REPEATED "envelope.context_repeated" Lint "R-002 §3.2.1" warning off:
            "`@context` names no context twice." => "Remove the repetition.";
        ENVELOPE_TYPE "envelope.type" Schema "§3.2.2" error error schema:
            "`type` is `prefix:name` or a URI." => "Write it as `aaep:agent.…`, or with the prefix of your extension.";
        TYPE_UNDEFINED "envelope.type_undefined" Prose "R-004 R-200 §3.2.2 §7.2" error warning schema:
            "The namespace `aaep:` has twelve event types and no others." => "Use one of the twelve, or a prefix of your own.";
        EVENT_ID "envelope.event_id" Schema "R-007 §3.2.3" error error schema:
            "`event_id` is `evt_` and 1 to 64 letters and digits." => "Write `evt_` and 32 hexadecimal digits of randomness.";
        SESSION_ID "envelope.session_id" Schema "R-009 §3.2.4" error error schema:
            "`session_id` is `sess_` and 1 to 64 letters and digits." => "Write `sess_` and 32 hexadecimal digits of randomness.";
        TIMESTAMP "envelope.timestamp" Suite "R-010 §3.2.5" error error schema:
            "`timestamp` is a valid RFC 3339 timestamp with `T` and a time zone." => "Write it as `2026-05-24T14:22:11.342Z`.";
        TIMESTAMP_FRACTION "envelope.timestamp_fraction" Prose "R-010 §3.2.5" error warning schema:
            "Fractional seconds have three or six digits." => "Write milliseconds: `2026-05-24T14:22:11.342Z`.";
        TIMESTAMP_WHOLE "envelope.timestamp_whole" Prose "R-010 §3.2.5" warning off:
            "A timestamp has fractional seconds." => "Write milliseconds: `2026-05-24T14:22:11.342Z`.";
        TIMESTAMP_LEAP "envelope.timestamp_leap" Lint "R-010 G-03 §3.2.5" warning off:
            "A timestamp is not in a leap second, which many clocks and parsers do not know." => "Write second 59 or the next second 00.";
        TIMESTAMP_OFFSET "envelope.timestamp_offset" Lint "R-010 §3.2.5" warning off:
            "The time zone of a timestamp is known; `-00:00` means that it is not." => "Write `Z` or `+00:00`.";
        PRODUCER "envelope.producer" Schema "R-012 §3.2.6" error error schema:
            "`producer` is an object with an `agent_id` and, optionally, `agent_version`, `agent_name`, `model` and `manifest_uri`." => "Correct the field; put other data into an extension.";
        ENVELOPE_FORM "envelope.form" Schema "§3.3 §3.4" error error schema:
            "Optional fields of the envelope are as chapter 3 defines them." => "Correct the value, or leave the field out.";
        HINTS_FORM "envelope.localization_hints" Schema "R-180 §3.3.3" error error schema:
            "`localization_hints` has only the fields of §3.3.3, each in the required format." => "Correct the field; put other data into an extension.";
        LANGUAGE_BCP47 "language.bcp47" Prose "R-181 §11.1.2" error warning schema:
            "Language tags are well-formed BCP 47." => "Write it as `en-US`: hyphens, language, script, region.";
        VERSION_PUBLISHED "envelope.version" Prose "R-018 §3.4.4" warning warning schema:
            "`aaep_version` is a published version." => "Write `1.0.0`, or leave the field out.";
        FIELD_UNKNOWN "envelope.field_unknown" Prose "R-019 §3.5" error warning schema:
            "An event of a core type has no fields that the protocol does not define." => "Put it into `extensions`, under a prefix that `@context` declares.";
        FIELD_RESERVED "envelope.field_reserved" Prose "R-019 §3.5 §7.2.5" error warning schema:
            "No field begins with `aaep_` (except `aaep_version`) or `@` (except `@context`)." => "Put it into `extensions`, under a prefix that `@context` declares.";
        FIELD_RAW "envelope.field_raw" Prose "§11.5.1 §11.7" note off:
            "A raw value may accompany its formatted form, as in `amount_raw`." => "No action is needed; subscribers may ignore it.";
        LOCALIZED_FORM "envelope.localized_text" Prose "§11.5.1" error warning schema:
            "A text for one language, such as `summary_normal_yo`, is a string." => "Write the text, or leave the field out.";
    }
    Payload {
        PAYLOAD_FORM "payload.form" Schema "§4" error error schema:
            "The fields of a type are as chapter 4 defines them." => "Correct the value, or leave the field out when it is optional.";
        MEDIA_TYPE_PARAMETERS "payload.media_type" Schema "R-024 §4.3.3" error warning schema:
            "`content_type` is a media type without parameters." => "Leave the parameters out; chunks are always UTF-8.";
        URGENCY_CRITICAL "payload.urgency" Suite "R-033 R-083 §4.1.3 §4.4" error error schema:
            "Errors, prompts and handoffs are `critical`." => "Write `\"urgency\": \"critical\"`; an absent urgency means `normal`.";
        DEFAULT_ACCEPTS "prompt.default_accepts" Suite "R-082 R-210 §6.4.1" error error schema:
            "An action that cannot be undone and has high or medium risk is rejected at the timeout." => "Write `\"default_decision\": \"reject\"`.";
        DEFAULT_ACCEPTS_ASSUMED "prompt.default_accepts_assumed" Prose "R-082 G-10 §6.4.1" error warning schema:
            "An action that cannot be undone is rejected at the timeout; without a `risk_level` its risk counts as high, and `reversibility` counts like `irreversible`." => "Write `\"default_decision\": \"reject\"`, or `\"risk_level\": \"low\"` if the risk is low.";
        ALLOWED_REPLIES "prompt.allowed_replies" Prose "G-17 §6.3" error warning schema:
            "`allowed_replies` names `accept`, `reject` or both, and includes the default." => "Leave the field out to allow both.";
        HINTS_MISSING "localization.missing" Prose "R-180 R-013 §11.1" error warning schema:
            "An event with text for people names its language in `localization_hints.primary_language`." => "Add `\"localization_hints\": {\"primary_language\": \"en\"}` with the language of the texts.";
    }
    Extension {
        TOOL_DISGUISED "tool.disguised" Prose "R-004 R-051 §3.2.2 §4.3.1" error error:
            "A call that cannot be undone, or has high risk, is reported with `tool.invoked`, not with an undeclared type that no subscriber knows." => "Use `aaep:agent.tool.invoked`, after an accepted prompt.";
        EXTENSION_TYPE "extension.type" Prose "R-004 R-016 R-200 §3.2.2 §3.4.3" error warning:
            "The prefix of a type is exactly `aaep`, or that of an extension which `@context` declares." => "Write `aaep:agent.…`, or make `@context` an array: the core context, then that of the extension.";
        EXTENSION_UNDECLARED "extension.undeclared" Prose "R-016 §3.4.3" error warning schema:
            "Prefixes in `extensions` are declared by a context after the core one." => "Make `@context` an array: the core context, then that of the extension.";
        EXTENSION_UNRESOLVED "extension.unresolved" Prose "R-016 G-37 §3.4.3" note off:
            "Only resolving a context shows whether it declares a prefix, and contexts are never fetched." => "No action is needed if the context declares the prefix.";
        EXTENSION_PREFIX "extension.prefix" Prose "R-200 §7.2 §7.3" error warning schema:
            "The prefix of an extension is not reserved (`aaep`, `xsd`, `rdf`, `rdfs`, `@…`)." => "Choose another prefix.";
    }
    Advice {
        BIG_INTEGER "number.big" Prose "R-023 §3.8" error warning:
            "Integers beyond 2^53 are sent as strings." => "Put the number in quotes.";
        SECONDS_FORM "number.seconds" Lint "R-024 §4.4" warning off:
            "Seconds are written as integers, without a fraction or an exponent." => "Write `300`, not `300.0`.";
        PROGRESS_STEP "progress.step" Lint "R-024 §4.2.2" warning off:
            "`total_steps` comes with a `step`, and `step` is at most `total_steps`." => "Correct the numbers, or send only those that are known.";
        ERROR_UNEXPLAINED "tool.error_unexplained" Lint "R-040 §4.3.2" warning off:
            "A call that failed has an `error_message`." => "Add one sentence as `error_message`.";
        SIZE_EVENT "size.event" Prose "R-021 §3.7" warning warning:
            "An event has at most 64 KiB." => "Shorten its texts, or send a link.";
        SIZE_FIELDS "size.fields" Prose "R-021 §3.7" warning warning:
            "An envelope has at most 32 fields, including extension prefixes." => "Group related fields in one extension.";
        SIZE_DEPTH "size.depth" Prose "R-021 §3.7" warning warning:
            "An event nests at most eight levels." => "Flatten it.";
        SIZE_STRING "size.string" Prose "R-021 §3.7" warning warning:
            "A string has at most 16 KiB." => "Split it into several events, or send a link.";
        SUMMARY_MISSING "summary.missing" Prose "R-040 §9.3.1.9" warning off:
            "Events that are announced have a `summary_normal`." => "Add one sentence as `summary_normal`.";
        URGENCY_UNUSUAL "urgency.unusual" Lint "R-014 G-24 §3.3.2" warning off:
            "Only errors, prompts and handoffs are `critical`." => "Write `normal` or `background`; critical events bypass every limit that a subscriber sets.";
        DEFAULT_ADVICE "prompt.default_advice" Prose "R-082 §6.4.1" warning off:
            "An action that cannot be undone, or has high risk, should be rejected at the timeout." => "Write `\"default_decision\": \"reject\"`.";
        REVERSIBILITY_CONTRADICTION "prompt.reversibility" Lint "G-10 §4.4.1 §6.4.1" warning warning:
            "`irreversible` and `reversibility` agree." => "Make them agree, or leave one out.";
        TIMEOUT_ADVICE "prompt.timeout_advice" Lint "§6.4.2" note off:
            "People have time to answer: 180 to 600 seconds for grave actions, 60 to 180 for medium risk, at least 30 otherwise." => "Choose `timeout_seconds` accordingly.";
        CHOICES_MISSING "question.choices" Lint "G-16 §6.5" error warning:
            "A question accepts `multiple_choice` if and only if it has choices." => "Add `choices`, or leave the kind out.";
        CHOICES_REPEATED "question.choice_repeated" Lint "G-16 §6.5" error warning:
            "No two choices have the same `value`." => "Give each choice a value of its own.";
        DEFAULT_RESPONSE "question.default_response" Lint "G-15 §6.5" error warning:
            "`default_response` is an answer that the question accepts." => "Write one of the values, a number, `yes` or `no`, according to the accepted kinds.";
        COMBINING_START "output.combining_start" Prose "R-186 §11.3.3" warning off:
            "No chunk of output begins with a combining mark." => "Split before the character that the mark belongs to.";
        CHARACTER_CUT "output.character_cut" Prose "R-186 §11.3.3" warning off:
            "No chunk of output ends inside a character, such as an emoji of several parts." => "Split between characters (grapheme clusters).";
        HINT_MISSING "output.hint_missing" Prose "R-059 §9.3.1.6" note off:
            "Small chunks of output have a `coalesce_hint` that says where they may be spoken." => "Add `coalesce_hint`.";
        SECRET "text.secret" Suite "R-053 R-170 §4.3.1" warning warning:
            "Texts for people contain no secrets." => "Remove the secret; describe its purpose instead.";
        PERSONAL "text.personal" Lint "R-170 §4.3.1" warning warning:
            "Texts for people contain no payment card numbers and no social security numbers." => "Leave the number out, or show only its last four digits.";
        CONTROL "text.control" Lint "§11.3" warning warning:
            "Texts for people contain no control or invisible characters except tabs and line ends." => "Remove the character, and terminal escape sequences.";
        TEXT_BLANK "text.blank" Lint "R-040 §9.3.1.9" warning off:
            "Texts for people that must not be empty contain more than blanks and invisible characters." => "Write a sentence, or leave an optional field out.";
        BIDIRECTIONAL "text.bidirectional" Lint "§11.4.2" warning warning:
            "Texts for people contain no bidirectional overrides, and close each embedding and isolate." => "Use isolates (U+2066 to U+2068) and close each with U+2069, or remove the control.";
        MARKUP "text.markup" Lint "§4.3.3 §11.3" warning off:
            "Texts that are spoken contain no markup." => "Use plain words; for output, name the type in `content_type`.";
        DIRECTION "text.direction" Prose "R-187 §11.4.2" warning off:
            "Texts in right-to-left scripts declare it, because the default is `ltr`: `text_direction: rtl`, or with mixed directions `auto` or Unicode isolates." => "Write `\"text_direction\": \"auto\"`.";
    }
    Message {
        MESSAGE_TYPE "message.type" Prose "§5 §6" error warning:
            "A message other than an event is a message of the protocol." => "Correct `type`.";
        MESSAGE_REQUIRED "message.required" Schema "§5 §6" error error schema:
            "A message has the fields that its type requires." => "Add the field that is missing.";
        REPLY_ADDRESS "message.reply_address" Schema "G-18 §6.3 §6.5" error warning schema:
            "A reply has a `subscription_id` and a `timestamp`." => "Add both; only servers for older subscribers accept replies without them.";
        MESSAGE_FORM "message.form" Schema "§5 §6" error error schema:
            "The fields of a message are as chapters 5 and 6 define them." => "Correct the value.";
        MESSAGE_UNKNOWN "message.field_unknown" Schema "§5 §6" error error schema:
            "Messages have no fields that the protocol does not define." => "Leave the field out, or put it into `extensions`.";
    }
    Session {
        START_FIRST "session.start_first" Suite "R-030 §4.1.1 §4.5.1" error error:
            "A session begins with `session.started`." => "Send `session.started` before any other event of the session.";
        START_ONCE "session.start_once" Suite "R-030 §4.1.1 §4.5.1" error error:
            "A session begins once." => "Start another request with a new `session_id`.";
        END_MISSING "session.end_missing" Suite "R-031 §4.1.2 §4.5.1" error error:
            "A session ends with `session.completed`, `session.errored` or `session.cancelled`." => "Send one ending, even when the work was interrupted.";
        END_ONCE "session.end_once" Suite "R-031 §4.1.2 §4.5.1 A.8.2" error error:
            "A session ends once." => "Send one ending and nothing after it.";
        AFTER_END "session.after_end" Suite "R-031 §4.5.1 A.8.3" error error:
            "Nothing follows the ending of a session." => "Send it before the ending, or drop it.";
        ID_REUSED "session.id_reused" Prose "R-009 §3.2.4" error error:
            "The id of a session is never reused." => "Create a new `session_id` for each request.";
        EVENT_ID_REUSED "session.event_id_reused" Prose "R-007 §3.2.3" error error:
            "No two events have the same `event_id`." => "Create a new `event_id` for each event.";
        DELIVERED_TWICE "session.delivered_twice" Lint "R-008 §8.2.4" note off:
            "The same event may be delivered more than once." => "No action is needed; subscribers drop events that they already have.";
        TIME_FALLS "time.falls" Prose "R-011 §3.2.5" error warning:
            "Timestamps never decrease within a session." => "Never write a time before the last one of the session, even when the clock goes back.";
        SEQUENCE_START "sequence.start" Prose "R-015 §3.4.1" error warning:
            "`sequence_number` is 0 on `session.started`." => "Count from 0.";
        SEQUENCE_STEP "sequence.step" Prose "R-015 §3.4.1" error warning:
            "`sequence_number` grows by one." => "Number all events of a session in the order in which they are sent.";
        SEQUENCE_MIXED "sequence.mixed" Prose "R-015 §3.4.1" error warning:
            "All events of a session have a `sequence_number`, or none." => "Number all events or none.";
        STATE_FIRST "state.first" Prose "R-036 §4.2.1" error warning:
            "The first `state.changed` of a producer comes from `idle`." => "Write `\"from_state\": \"idle\"`.";
        STATE_CHAIN "state.chain" Prose "R-036 G-33 §4.2.1" error warning:
            "`from_state` is the previous `to_state`, or the state that tools, prompts and output imply since then." => "Continue from the state that was last announced.";
        STATE_IMPLIED "state.implied" Lint "R-036 G-33 §4.2.1" warning note:
            "States are announced, not only implied by tools, prompts and output." => "Announce the change with `state.changed`.";
        STATE_UNCHANGED "state.unchanged" Lint "R-036 §4.2.1" warning off:
            "`state.changed` reports another state, or repeats the state with a new summary." => "Leave the event out.";
        STATE_TOOL "state.tool" Lint "R-037 A.3 §9.3.1.3" warning off:
            "While a tool works, the state is `calling_tool`." => "Announce `calling_tool` around the call.";
        STATE_OUTPUT "state.output" Lint "R-037 A.6 §9.3.1.3" warning off:
            "While output is written, the state is `writing_output`." => "Announce `writing_output` before the first chunk.";
        STATE_HANDOFF "state.handoff" Lint "A.2" warning off:
            "At a handoff the state is `handing_off`." => "Announce `handing_off` before `handoff.requested`.";
        HANDOFF_WORK "handoff.work" Lint "§4.4.3 A.2" warning off:
            "After a handoff is requested, no tool is called before the producer announces that it works again." => "End the session, or announce `thinking` or `deciding` first.";
        TOOL_NOT_INVOKED "tool.not_invoked" Suite "§4.5.2 A.3 A.8.1" error error:
            "`tool.completed` follows its `tool.invoked`." => "Announce the call before it is made.";
        TOOL_COMPLETED_TWICE "tool.completed_twice" Suite "R-054 A.3" error error:
            "A call is completed once." => "Send one `tool.completed` for each call.";
        TOOL_ID_REUSED "tool.id_reused" Suite "R-052 §4.3.1" error error:
            "A `tool_call_id` belongs to one call of a session." => "Create a new id for each call.";
        TOOL_ID_ONE_SIDE "tool.id_one_side" Suite "R-052 §4.3.1" error error:
            "Both events of a call have its `tool_call_id`, or neither." => "Repeat the id of `tool.invoked` on `tool.completed`.";
        TOOL_RENAMED "tool.renamed" Suite "R-056 §4.3.2" error error:
            "`tool` is the same on both events of a call." => "Repeat the name of `tool.invoked`.";
        TOOL_OPEN "tool.open" Prose "R-054 G-09 §4.3.2 A.3" error warning:
            "Every call is completed before the session completes." => "Send `tool.completed`, with `timeout` for an abandoned call.";
        TOOL_OPEN_BROKEN_OFF "tool.open_broken_off" Prose "R-054 G-09 §9.3.1.5" warning off:
            "Every call is completed, even when the session ends early." => "Send `tool.completed` with `timeout` before the ending.";
        TOOL_LATE "tool.completed_late" Prose "R-055 §4.3.2" error warning:
            "`tool.completed` comes before the state after the tool is announced." => "Send `tool.completed` first, then `state.changed`.";
        TOOL_UNCONFIRMED "tool.unconfirmed" Prose "R-051 §2.3.5 §4.3.1 A.8.4" error error:
            "An action that cannot be undone is confirmed first, by an accepted prompt of its own." => "Send `awaiting.confirmation` and wait for `accept` before the call.";
        TOOL_BEFORE_ANSWER "tool.before_answer" Prose "R-070 §4.4.1 §6.1.1" error error:
            "No action is done before its prompt is answered." => "Wait for the reply, or for the timeout.";
        TOOL_AFTER_REJECT "tool.after_reject" Suite "R-051 §4.5.3 A.4 A.8.5" error error:
            "A rejected action is not done." => "Send `state.changed` and do something else.";
        TOOL_AFTER_DEFAULT "tool.after_default_reject" Prose "R-070 §4.5.3 §6.4" error error:
            "An unanswered action is not done when its default is `reject`." => "Apply the default: do not call the tool.";
        TOOL_UNSEEN "tool.confirmation_unseen" Prose "R-051 R-062 R-093 §5.3.1.4" warning warning:
            "Only a subscription that can reply shows whether a call was confirmed; others get no prompts." => "Record with a subscription that can reply, such as `aaep capture --handshake --auto reject`.";
        TOOL_HIGH_RISK "tool.high_risk" Prose "R-062 §2.3.5" error warning:
            "A high-risk action is confirmed first, even when it can be undone." => "Send `awaiting.confirmation` and wait for `accept` before the call.";
        PROMPT_REPEATED "prompt.repeated" Prose "R-073 §6.1.4" error warning:
            "An action has no second prompt while the first is open." => "Wait for the first prompt.";
        TOKEN_REUSED "prompt.token_reused" Prose "R-075 §6.2" error error:
            "A `reply_token` is never reused." => "Create a new token for each prompt, from 128 random bits.";
        PROMPT_OPEN "prompt.open" Prose "G-36 §4.5.3 §6.1.2" error warning:
            "A session does not complete while a prompt is open." => "Wait for the reply or the timeout, and announce the outcome.";
        PROMPT_NO_FOLLOW_UP "prompt.no_follow_up" Prose "R-071 R-088 §4.5.3 §6.1.2" error warning:
            "A rejection is followed by an event that reports it." => "Send `state.changed` back to `thinking` or `deciding`.";
        PROMPT_NOT_DONE "prompt.not_done" Prose "R-074 §4.5.3" warning warning:
            "An accepted action is done: `tool.invoked` follows." => "Send `tool.invoked` for the action, or end with an error that says why not.";
        PROMPT_IMPLIED "prompt.implied" Prose "R-072 §6.1.3" warning warning:
            "While a prompt is open, no event reports its action as done." => "Wait for the answer before making the call; unrelated work may continue.";
        PROMPT_COUNTDOWN "prompt.countdown" Lint "R-084 §6.4.3" note off:
            "A prompt of more than a minute has a countdown: progress is sent when half and when a tenth of its time remain." => "Send `progress.updated` with the remaining time.";
        PROMPT_STATE "prompt.state" Prose "R-096 G-34 A.4" warning off:
            "The state is `awaiting_input` at a prompt." => "Announce `awaiting_input` before the prompt.";
        PROMPT_STATE_STAYS "prompt.state_stays" Prose "R-096 G-34 A.4" warning off:
            "After a prompt the state leaves `awaiting_input`." => "Announce the new state when the prompt is settled.";
        REPLY_UNKNOWN "reply.unknown" Prose "R-076 R-078 §6.3.4" warning warning:
            "A reply carries the token of a prompt that was sent." => "Return the token unchanged; a producer ignores others.";
        REPLY_LATE "reply.late" Prose "R-080 R-081 §6.3.5" note note:
            "Only the first valid reply before the timeout counts." => "No action is needed; the reply has no effect.";
        REPLY_INVALID "reply.invalid" Prose "R-078 R-086 §6.3.4 §6.5.5" warning warning:
            "A reply is one that the prompt accepts." => "Answer with an allowed decision, or a response of an accepted kind.";
        REPLY_MODIFIED "reply.modified_action" Prose "R-087 §6.3.2" note note:
            "A changed action counts as a rejection where the producer does not support it." => "No action is needed if the producer supports it.";
        POSITION_FALLS "stream.position_falls" Suite "R-057 A.6 A.8.7" error error:
            "`position` never decreases within an output." => "Send the chunks in order.";
        POSITION_EXACT "stream.position" Prose "R-057 G-08 §4.3.3" error warning:
            "`position` is the number of characters of the output before this chunk." => "Count the characters of the previous chunks, from 0.";
        POSITION_UNIT "stream.position_unit" Lint "G-07 §4.3.3" note note:
            "`position` counts Unicode characters." => "Count characters, not UTF-16 units.";
        STREAM_AFTER_COMPLETE "stream.after_complete" Suite "R-058 §4.5.4 A.8.6" error error:
            "Nothing follows the last chunk of an output." => "Start another output with a new `output_id`.";
        STREAM_COMPLETE_TWICE "stream.complete_twice" Suite "R-058 §4.5.4" error error:
            "An output is completed once." => "Start another output with a new `output_id`.";
        STREAM_ID_MIXED "stream.id_mixed" Lint "R-058 §4.5.4" warning off:
            "All chunks of output in a session have an `output_id`, or none has." => "Write `output_id` on every chunk.";
        STREAM_OPEN "stream.open" Suite "R-058 G-36 §4.5.4" error error:
            "Every output has a last chunk with `complete: true`." => "Send a last chunk, empty if necessary, even when the session ends early.";
        TERMS_WIDER "handshake.wider" Suite "R-112 §5.4.4" error error:
            "No more is honoured than was requested." => "Honour at most what was requested.";
        TERMS_FILTER "handshake.filter" Prose "R-117 §5.3.1.7" error warning:
            "Events that the filters exclude are not sent, unless they are critical." => "Apply `exclude` first, then `include`.";
        TERMS_BOUNDARY "handshake.boundary" Prose "R-060 §5.3.1.6" warning warning:
            "`coalesce_hint` is one of the agreed boundaries." => "Split output at the agreed boundaries.";
        TERMS_REPLY "handshake.prompt" Prose "R-093 G-11 §5.3.1.4" note note:
            "A subscriber that cannot reply gets no prompts." => "Apply the default at once, unless another subscriber can reply.";
        TERMS_UNKNOWN "handshake.unknown" Prose "§5.7 §5.8" warning warning:
            "Renegotiations and closings name a subscription that was accepted." => "Use the `subscription_id` of `subscription.accepted`.";
        TERMS_CLOSED "handshake.closed" Prose "R-122 §5.8.2" error warning:
            "Nothing is sent on a closed subscription." => "Stop sending after a close was received or sent.";
        LIMIT_SESSIONS "limit.sessions" Lint "–" warning warning:
            "All sessions are checked to their end." => "Check fewer sessions at a time; the session that was idle longest was dropped.";
        LIMIT_SESSION "limit.session" Lint "–" warning warning:
            "All parts of a session are checked." => "Check a shorter session; parts beyond the limit were not checked.";
    }
}
