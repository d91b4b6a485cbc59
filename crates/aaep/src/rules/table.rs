//! The rows of the rule table. Text only; the checks are elsewhere.

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
        $says:literal => $remedy:literal;
    )* } )*) => {
        $( $(
            #[doc = $says]
            pub static $name: Rule = Rule {
                id: $id,
                layer: Layer::$layer,
                source: Source::$source,
                cites: $cites,
                strict: severity!($strict),
                compat: severity!($compat),
                in_schema: schema!($( $schema )?),
                says: $says,
                remedy: $remedy,
            };
        )* )*
        /// All rules, in the order of the reference page.
        pub static ALL: &[&Rule] = &[$( $( &$name, )* )*];
    };
}

// The macro names them by their bare words.
const _: (Severity, Severity, Severity, Layer, Source) = (Error, Warning, Note, Text, Schema);

rules! {
    Text {
        JSON_SYNTAX "json.syntax" Prose "R-022 §3.8" error error:
            "A message is one JSON value as RFC 8259 defines it." => "Write it with a JSON library; no comments, no trailing commas, no single quotes.";
        JSON_TRUNCATED "json.truncated" Prose "R-025 §2.2.4" error error:
            "A message is whole." => "Write each message with one write, and drop what was cut off when the writer died.";
        JSON_ENCODING "json.encoding" Prose "R-022 §3.8" error error:
            "JSON is in UTF-8." => "Encode in UTF-8.";
        JSON_BOM "json.bom" Prose "R-022 §3.8" error error:
            "JSON has no byte order mark." => "Leave the mark out.";
        JSON_NUMBER "json.number" Prose "R-022 §3.8" error error:
            "Numbers are written as JSON writes them; `NaN` and `Infinity` are none." => "Leave the field out, or say it in words.";
        JSON_SURROGATE "json.surrogate" Prose "R-022 §3.8" error error:
            "Characters beyond U+FFFF are escaped with both surrogates." => "Escape the whole character, or do not escape it.";
        JSON_DUPLICATE_KEY "json.duplicate_key" Prose "R-022 §3.8" error error:
            "No key comes twice in an object." => "Keep one of the two; readers do not agree which one counts.";
        JSON_DEPTH "json.depth" Prose "R-021 §3.7" error error:
            "Nesting is not so deep that readers give up." => "Flatten it; eight levels are what the protocol advises.";
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
            "`@context` is the protocol's context, or an array of strings that begins with it." => "Write `https://aaep-protocol.org/context/v1`, with contexts of extensions behind it.";
        ENVELOPE_TYPE "envelope.type" Schema "§3.2.2" error error schema:
            "`type` is `prefix:name` or a URI." => "Write it as `aaep:agent.…`, or with the prefix of your extension.";
        TYPE_UNDEFINED "envelope.type_undefined" Prose "R-004 R-200 §3.2.2 §7.2" error warning schema:
            "In the namespace `aaep:` there are twelve event types and no others." => "Use one of the twelve, or a prefix of your own.";
        EVENT_ID "envelope.event_id" Schema "R-007 §3.2.3" error error schema:
            "`event_id` is `evt_` and 1 to 64 letters and digits." => "Write `evt_` and 32 hexadecimal digits of randomness.";
        SESSION_ID "envelope.session_id" Schema "R-009 §3.2.4" error error schema:
            "`session_id` is `sess_` and 1 to 64 letters and digits." => "Write `sess_` and 32 hexadecimal digits of randomness.";
        TIMESTAMP "envelope.timestamp" Suite "R-010 §3.2.5" error error schema:
            "`timestamp` is a real moment in RFC 3339, with `T` and a zone." => "Write it as `2026-05-24T14:22:11.342Z`.";
        TIMESTAMP_FRACTION "envelope.timestamp_fraction" Prose "R-010 §3.2.5" error warning schema:
            "A fraction of a second has three or six digits." => "Write milliseconds: `2026-05-24T14:22:11.342Z`.";
        TIMESTAMP_WHOLE "envelope.timestamp_whole" Prose "R-010 §3.2.5" warning off:
            "A timestamp says a fraction of a second." => "Write milliseconds: `2026-05-24T14:22:11.342Z`.";
        PRODUCER "envelope.producer" Schema "R-012 §3.2.6" error error schema:
            "`producer` is an object with an `agent_id`, and nothing but `agent_version`, `agent_name`, `model` and `manifest_uri` beside it." => "Correct the field; put what else there is to say into an extension.";
        ENVELOPE_FORM "envelope.form" Schema "§3.3 §3.4" error error schema:
            "Optional fields of the envelope are as chapter 3 defines them." => "Correct the value, or leave the field out.";
        HINTS_FORM "envelope.localization_hints" Schema "R-180 §3.3.3" error error schema:
            "`localization_hints` has only the fields of §3.3.3, each in its form." => "Correct the field; put what else there is to say into an extension.";
        LANGUAGE_BCP47 "language.bcp47" Prose "R-181 §11.1.2" error warning schema:
            "Language tags are well-formed BCP 47." => "Write it as `en-US`: hyphens, language, script, region.";
        VERSION_PUBLISHED "envelope.version" Prose "R-018 §3.4.4" error warning schema:
            "`aaep_version` is a published version." => "Write `1.0.0`, or leave the field out.";
        FIELD_UNKNOWN "envelope.field_unknown" Prose "R-019 §3.5" error warning schema:
            "An event of a core type has no fields that the protocol does not define." => "Put it into `extensions`, under a prefix that `@context` declares.";
        FIELD_RESERVED "envelope.field_reserved" Prose "R-019 §3.5 §7.2.5" error warning schema:
            "No field begins with `aaep_` (but `aaep_version`) or `@` (but `@context`)." => "Put it into `extensions`, under a prefix that `@context` declares.";
        FIELD_RAW "envelope.field_raw" Prose "§11.5.1 §11.7" note off:
            "A value may stand beside its formatted form, as `amount_raw`." => "Nothing need be done; subscribers may pass it over.";
        LOCALIZED_FORM "envelope.localized_text" Prose "§11.5.1" error warning schema:
            "A text for one language, as `summary_normal_yo`, is a string." => "Write the text, or leave the field out.";
    }
    Payload {
        PAYLOAD_FORM "payload.form" Schema "§4" error error schema:
            "The fields of a type are as chapter 4 defines them." => "Correct the value, or leave the field out when it is optional.";
        URGENCY_CRITICAL "payload.urgency" Suite "R-033 R-083 §4.1.3 §4.4" error error schema:
            "Errors, prompts and handoffs are `critical`." => "Write `\"urgency\": \"critical\"`; an absent urgency means `normal`.";
        DEFAULT_ACCEPTS "prompt.default_accepts" Suite "R-082 R-210 §6.4.1" error error schema:
            "What cannot be undone and has high or medium risk is rejected when nobody answers." => "Write `\"default_decision\": \"reject\"`.";
        DEFAULT_ACCEPTS_ASSUMED "prompt.default_accepts_assumed" Prose "R-082 G-10 §6.4.1" error warning schema:
            "What cannot be undone is rejected when nobody answers; without a `risk_level` its risk counts as high, and `reversibility` counts like `irreversible`." => "Write `\"default_decision\": \"reject\"`, or say `\"risk_level\": \"low\"` if it is.";
        ALLOWED_REPLIES "prompt.allowed_replies" Prose "G-17 §6.3" error warning schema:
            "`allowed_replies` names `accept`, `reject` or both, and the default among them." => "Leave the field out; both are allowed then.";
        HINTS_MISSING "localization.missing" Prose "R-180 R-013 §11.1" error warning schema:
            "An event with text for people says its language in `localization_hints.primary_language`." => "Add `\"localization_hints\": {\"primary_language\": \"en\"}` with the language of the texts.";
    }
    Extension {
        TOOL_DISGUISED "tool.disguised" Prose "R-004 R-051 §3.2.2 §4.3.1" error error:
            "A call that cannot be undone, or has high risk, is told with `tool.invoked`; a type that nobody has declared tells it to nobody." => "Use `aaep:agent.tool.invoked`, behind an accepted prompt.";
        EXTENSION_TYPE "extension.type" Prose "R-004 R-016 R-200 §3.2.2 §3.4.3" error warning:
            "The prefix of a type is `aaep`, written so, or that of an extension which `@context` declares." => "Write `aaep:agent.…`, or make `@context` an array: the core context, then that of the extension.";
        EXTENSION_UNDECLARED "extension.undeclared" Prose "R-016 §3.4.3" error warning schema:
            "Prefixes in `extensions` are declared by a context behind the core one." => "Make `@context` an array: the core context, then that of the extension.";
        EXTENSION_UNRESOLVED "extension.unresolved" Prose "R-016 G-37 §3.4.3" note off:
            "Whether a context declares a prefix is known only to who resolves it; contexts are never fetched." => "Nothing need be done when the context declares the prefix.";
        EXTENSION_PREFIX "extension.prefix" Prose "R-200 §7.2 §7.3" error warning schema:
            "A prefix of an extension is a word that is not reserved (`aaep`, `xsd`, `rdf`, `rdfs`, `@…`)." => "Choose another prefix.";
    }
    Advice {
        BIG_INTEGER "number.big" Prose "R-023 §3.8" error warning:
            "Integers beyond 2^53 are sent as strings." => "Put the number in quotes.";
        SIZE_EVENT "size.event" Prose "R-021 §3.7" warning warning:
            "An event has at most 64 KiB." => "Shorten its texts, or send a link.";
        SIZE_FIELDS "size.fields" Prose "R-021 §3.7" warning warning:
            "An envelope has at most 32 fields, extension prefixes counted." => "Gather what belongs together in one extension.";
        SIZE_DEPTH "size.depth" Prose "R-021 §3.7" warning warning:
            "An event nests at most eight levels." => "Flatten it.";
        SIZE_STRING "size.string" Prose "R-021 §3.7" warning warning:
            "A string has at most 16 KiB." => "Cut it into several events, or send a link.";
        SUMMARY_MISSING "summary.missing" Prose "R-040 §9.3.1.9" warning off:
            "Events that are announced have a `summary_normal`." => "Add one sentence as `summary_normal`.";
        URGENCY_UNUSUAL "urgency.unusual" Lint "R-014 G-24 §3.3.2" warning off:
            "Only errors, prompts and handoffs are `critical`." => "Write `normal` or `background`; critical events pass every limit that a subscriber sets.";
        DEFAULT_ADVICE "prompt.default_advice" Prose "R-082 §6.4.1" warning off:
            "What cannot be undone, or has high risk, should be rejected when nobody answers." => "Write `\"default_decision\": \"reject\"`.";
        REVERSIBILITY_CONTRADICTION "prompt.reversibility" Lint "G-10 §4.4.1 §6.4.1" warning warning:
            "`irreversible` and `reversibility` say the same." => "Make the two agree, or leave one out.";
        TIMEOUT_ADVICE "prompt.timeout_advice" Lint "§6.4.2" note off:
            "People have time to answer: 180 to 600 seconds for what is grave, 60 to 180 for medium risk, at least 30 otherwise." => "Choose `timeout_seconds` accordingly.";
        CHOICES_MISSING "question.choices" Lint "G-16 §6.5" warning warning:
            "A question takes `multiple_choice` exactly when it has choices." => "Add `choices`, or leave the kind out.";
        CHOICES_REPEATED "question.choice_repeated" Lint "G-16 §6.5" warning warning:
            "No two choices have the same `value`." => "Give each choice a value of its own.";
        DEFAULT_RESPONSE "question.default_response" Lint "G-15 §6.5" warning warning:
            "`default_response` is an answer that the question takes." => "Write one of the values, a number, `yes` or `no`, as the accepted kinds ask.";
        COMBINING_START "output.combining_start" Prose "R-186 §11.3.3" warning off:
            "No piece of output begins with a combining mark." => "Cut before the character that the mark belongs to.";
        HINT_MISSING "output.hint_missing" Prose "R-059 §9.3.1.6" note off:
            "Small pieces of output say where they may be spoken, with `coalesce_hint`." => "Add `coalesce_hint`.";
        SECRET "text.secret" Suite "R-053 R-170 §4.3.1" warning warning:
            "Texts for people contain no secrets." => "Take the secret out; say what it is for instead.";
        PERSONAL "text.personal" Lint "R-170 §4.3.1" warning warning:
            "Texts for people contain no payment card numbers and no social security numbers." => "Leave the number out, or its last four digits only.";
        CONTROL "text.control" Lint "§11.3" warning warning:
            "Texts for people contain no control characters but tabs and line ends, and none that are as silent." => "Take the character out; escape sequences of terminals too.";
        BIDIRECTIONAL "text.bidirectional" Lint "§11.4.2" warning warning:
            "Texts for people contain no bidirectional overrides, and close each embedding and isolate." => "Use isolates (U+2066 to U+2068) and close each with U+2069, or leave the control out.";
        MARKUP "text.markup" Lint "§4.3.3 §11.3" warning off:
            "Texts that are spoken contain no markup." => "Say it in plain words; of output, name its type in `content_type`.";
        DIRECTION "text.direction" Prose "R-187 §11.4.2" warning off:
            "Texts that mix directions say so: `text_direction: auto`, or Unicode isolates." => "Write `\"text_direction\": \"auto\"`.";
    }
    Message {
        MESSAGE_TYPE "message.type" Prose "§5 §6" error warning:
            "A message that is no event is one of the protocol's." => "Correct `type`.";
        MESSAGE_REQUIRED "message.required" Schema "§5 §6" error error schema:
            "A message has the fields that its type requires." => "Add the field that is missing.";
        REPLY_ADDRESS "message.reply_address" Schema "G-18 §6.3 §6.5" error warning schema:
            "A reply has the `subscription_id` and the `timestamp` of who answers." => "Add both; only servers for older subscribers take replies without them.";
        MESSAGE_FORM "message.form" Schema "§5 §6" error error schema:
            "The fields of a message are as chapters 5 and 6 define them." => "Correct the value.";
        MESSAGE_UNKNOWN "message.field_unknown" Schema "§5 §6" error error schema:
            "Messages have no fields that the protocol does not define." => "Leave the field out, or put it into `extensions`.";
    }
    Session {
        START_FIRST "session.start_first" Suite "R-030 §4.1.1 §4.5.1" error error:
            "A session begins with `session.started`." => "Send `session.started` before anything else of the session.";
        START_ONCE "session.start_once" Suite "R-030 §4.1.1 §4.5.1" error error:
            "A session begins once." => "Begin another request with a new `session_id`.";
        END_MISSING "session.end_missing" Suite "R-031 §4.1.2 §4.5.1" error error:
            "A session ends with `session.completed`, `session.errored` or `session.cancelled`." => "Send one ending, also when the work broke off.";
        END_ONCE "session.end_once" Suite "R-031 §4.1.2 §4.5.1 A.8.2" error error:
            "A session ends once." => "Send one ending and nothing behind it.";
        AFTER_END "session.after_end" Suite "R-031 §4.5.1 A.8.3" error error:
            "Nothing follows the ending of a session." => "Send it before the ending, or drop it.";
        ID_REUSED "session.id_reused" Prose "R-009 §3.2.4" error error:
            "The id of a session is never used again." => "Make a new `session_id` for each request.";
        EVENT_ID_REUSED "session.event_id_reused" Prose "R-007 §3.2.3" error error:
            "No two events have the same `event_id`." => "Make a new `event_id` for each event.";
        DELIVERED_TWICE "session.delivered_twice" Lint "R-008 §8.2.4" note off:
            "The same event may be delivered more than once." => "Nothing need be done; subscribers drop what they have had.";
        TIME_FALLS "time.falls" Prose "R-011 §3.2.5" error warning:
            "Timestamps never fall within a session." => "Never write a time before the last one of the session, whatever the clock says.";
        SEQUENCE_START "sequence.start" Prose "R-015 §3.4.1" error warning:
            "`sequence_number` is 0 on `session.started`." => "Count from 0.";
        SEQUENCE_STEP "sequence.step" Prose "R-015 §3.4.1" error warning:
            "`sequence_number` grows by one." => "Number all events of a session in the order they are sent.";
        SEQUENCE_MIXED "sequence.mixed" Prose "R-015 §3.4.1" error warning:
            "All events of a session have a `sequence_number`, or none." => "Number all or none.";
        STATE_FIRST "state.first" Prose "R-036 §4.2.1" error warning:
            "The first `state.changed` of a producer comes from `idle`." => "Write `\"from_state\": \"idle\"`.";
        STATE_CHAIN "state.chain" Prose "R-036 G-33 §4.2.1" error warning:
            "`from_state` is the `to_state` before it, or the state that tools, prompts and output since then imply." => "Continue from the state that was last announced.";
        STATE_IMPLIED "state.implied" Lint "R-036 G-33 §4.2.1" warning note:
            "States are announced, not only implied by tools, prompts and output." => "Announce the change with `state.changed`.";
        STATE_TOOL "state.tool" Lint "R-037 A.3 §9.3.1.3" warning off:
            "While a tool works, the state is `calling_tool`." => "Announce `calling_tool` around the call.";
        STATE_OUTPUT "state.output" Lint "R-037 A.6 §9.3.1.3" warning off:
            "While output is written, the state is `writing_output`." => "Announce `writing_output` before the first piece.";
        STATE_HANDOFF "state.handoff" Lint "A.2" warning off:
            "At a handoff the state is `handing_off`." => "Announce `handing_off` before `handoff.requested`.";
        HANDOFF_WORK "handoff.work" Lint "§4.4.3 A.2" warning off:
            "After a handoff was asked for, no tool is called before the state has changed." => "End the session, or announce that work goes on.";
        TOOL_NOT_INVOKED "tool.not_invoked" Suite "§4.5.2 A.3 A.8.1" error error:
            "`tool.completed` follows its `tool.invoked`." => "Announce the call before it is made.";
        TOOL_COMPLETED_TWICE "tool.completed_twice" Suite "R-054 A.3" error error:
            "A call is completed once." => "Send one `tool.completed` for each call.";
        TOOL_ID_REUSED "tool.id_reused" Suite "R-052 §4.3.1" error error:
            "A `tool_call_id` belongs to one call of a session." => "Make a new id for each call.";
        TOOL_ID_ONE_SIDE "tool.id_one_side" Suite "R-052 §4.3.1" error error:
            "Both events of a call have its `tool_call_id`, or neither." => "Repeat the id of `tool.invoked` on `tool.completed`.";
        TOOL_RENAMED "tool.renamed" Suite "R-056 §4.3.2" error error:
            "`tool` is the same on both events of a call." => "Repeat the name of `tool.invoked`.";
        TOOL_OPEN "tool.open" Prose "R-054 G-09 §4.3.2 A.3" error warning:
            "Every call is completed before the session completes." => "Send `tool.completed`, with `timeout` for a call that was given up.";
        TOOL_OPEN_BROKEN_OFF "tool.open_broken_off" Prose "R-054 G-09 §9.3.1.5" warning off:
            "Every call is completed, also when the session breaks off." => "Send `tool.completed` with `timeout` before the ending.";
        TOOL_LATE "tool.completed_late" Prose "R-055 §4.3.2" error warning:
            "`tool.completed` comes before the state after the tool is announced." => "Send `tool.completed` first, then `state.changed`.";
        TOOL_UNCONFIRMED "tool.unconfirmed" Prose "R-051 §2.3.5 §4.3.1 A.8.4" error error:
            "What cannot be undone is confirmed first: a prompt of its own, accepted." => "Send `awaiting.confirmation` and wait for `accept` before the call.";
        TOOL_BEFORE_ANSWER "tool.before_answer" Prose "R-070 §4.4.1 §6.1.1" error error:
            "Nothing is done before its prompt is answered." => "Wait for the reply, or for the timeout.";
        TOOL_AFTER_REJECT "tool.after_reject" Suite "R-051 §4.5.3 A.4 A.8.5" error error:
            "What was rejected is not done." => "Send `state.changed` and do something else.";
        TOOL_AFTER_DEFAULT "tool.after_default_reject" Prose "R-070 §4.5.3 §6.4" error error:
            "What nobody answered is not done when its default is `reject`." => "Apply the default: do not call the tool.";
        TOOL_UNSEEN "tool.confirmation_unseen" Prose "R-051 R-062 R-093 §5.3.1.4" warning warning:
            "Whether a call was confirmed shows only to a subscription that can answer; others get no prompts." => "Record with a subscription that can answer, such as `aaep capture --handshake --auto reject`.";
        TOOL_HIGH_RISK "tool.high_risk" Prose "R-062 §2.3.5" error warning:
            "What has high risk is confirmed first, also when it can be undone." => "Send `awaiting.confirmation` and wait for `accept` before the call.";
        PROMPT_REPEATED "prompt.repeated" Prose "R-073 §6.1.4" error warning:
            "There is no second prompt for an action while the first is open." => "Wait for the first prompt.";
        TOKEN_REUSED "prompt.token_reused" Prose "R-075 §6.2" error error:
            "A `reply_token` is never used again." => "Make a new token for each prompt, from 128 bits of randomness.";
        PROMPT_OPEN "prompt.open" Prose "G-36 §4.5.3 §6.1.2" error warning:
            "A session does not complete while a prompt is open." => "Wait for the reply or the timeout, and announce the outcome.";
        PROMPT_NO_FOLLOW_UP "prompt.no_follow_up" Prose "R-071 R-088 §4.5.3 §6.1.2" error warning:
            "A rejection is followed by an event that tells of it." => "Send `state.changed` back to `thinking` or `deciding`.";
        PROMPT_NOT_DONE "prompt.not_done" Prose "R-074 §4.5.3" error warning:
            "What was accepted is done: `tool.invoked` follows." => "Send `tool.invoked` for the action, or end with an error that says why not.";
        PROMPT_IMPLIED "prompt.implied" Prose "R-072 §6.1.3" warning warning:
            "While a prompt is open, nothing says that what it asks for was done." => "Wait for the answer before the call is made and completed; work that the prompt does not ask for may go on.";
        PROMPT_COUNTDOWN "prompt.countdown" Lint "R-084 §6.4.3" note off:
            "A prompt of more than a minute is counted down: progress is told when half of its time and when a tenth is left." => "Send `progress.updated` with the time that is left.";
        PROMPT_STATE "prompt.state" Prose "R-096 G-34 A.4" warning off:
            "The state is `awaiting_input` at a prompt." => "Announce `awaiting_input` before the prompt.";
        PROMPT_STATE_STAYS "prompt.state_stays" Prose "R-096 G-34 A.4" warning off:
            "After a prompt the state leaves `awaiting_input`." => "Announce the new state when the prompt is settled.";
        REPLY_UNKNOWN "reply.unknown" Prose "R-076 R-078 §6.3.4" warning warning:
            "A reply carries the token of a prompt that was sent." => "Return the token as it came; a producer passes over others.";
        REPLY_LATE "reply.late" Prose "R-080 R-081 §6.3.5" note note:
            "Only the first valid reply before the timeout counts." => "Nothing need be done; the reply has no effect.";
        REPLY_INVALID "reply.invalid" Prose "R-078 R-086 §6.3.4 §6.5.5" warning warning:
            "A reply is one that the prompt takes." => "Answer with an allowed decision, or a response of an accepted kind.";
        REPLY_MODIFIED "reply.modified_action" Prose "R-087 §6.3.2" note note:
            "A changed action counts as a rejection where the producer does not support it." => "Nothing need be done when the producer supports it.";
        POSITION_FALLS "stream.position_falls" Suite "R-057 A.6 A.8.7" error error:
            "`position` never falls within an output." => "Send the pieces in order.";
        POSITION_EXACT "stream.position" Prose "R-057 G-08 §4.3.3" error warning:
            "`position` is the number of characters of the output before this piece." => "Count the characters of the pieces before, from 0.";
        POSITION_UNIT "stream.position_unit" Lint "G-07 §4.3.3" note note:
            "`position` counts Unicode characters." => "Count characters, not UTF-16 units.";
        STREAM_AFTER_COMPLETE "stream.after_complete" Suite "R-058 §4.5.4 A.8.6" error error:
            "Nothing follows the last piece of an output." => "Begin another output with a new `output_id`.";
        STREAM_COMPLETE_TWICE "stream.complete_twice" Suite "R-058 §4.5.4" error error:
            "An output is completed once." => "Begin another output with a new `output_id`.";
        STREAM_OPEN "stream.open" Suite "R-058 G-36 §4.5.4" error error:
            "Every output has a last piece with `complete: true`." => "Send a last piece, empty if need be, also when the session breaks off.";
        TERMS_WIDER "handshake.wider" Suite "R-112 §5.4.4" error error:
            "What is honoured is no more than what was asked for." => "Honour at most what the request says.";
        TERMS_FILTER "handshake.filter" Prose "R-117 §5.3.1.7" error warning:
            "Events that the filters leave out are not sent, unless they are critical." => "Apply `exclude` first, then `include`.";
        TERMS_BOUNDARY "handshake.boundary" Prose "R-060 §5.3.1.6" warning warning:
            "`coalesce_hint` is one of the boundaries that were agreed." => "Cut output at the agreed boundaries.";
        TERMS_REPLY "handshake.prompt" Prose "R-093 G-11 §5.3.1.4" note note:
            "A subscriber that cannot answer gets no prompts." => "Apply the default at once, unless another subscriber can answer.";
        TERMS_UNKNOWN "handshake.unknown" Prose "§5.7 §5.8" warning warning:
            "Renegotiations and closings name a subscription that was accepted." => "Use the `subscription_id` of `subscription.accepted`.";
        TERMS_CLOSED "handshake.closed" Prose "R-122 §5.8.2" error warning:
            "Nothing is sent on a subscription that was closed." => "Stop sending when the closing has come or gone.";
        LIMIT_SESSIONS "limit.sessions" Lint "–" warning warning:
            "All sessions are followed to their end." => "Check fewer sessions at a time; the one that was silent longest was forgotten.";
        LIMIT_SESSION "limit.session" Lint "–" warning warning:
            "All parts of a session are followed." => "Check a shorter session; parts beyond the limit were not looked at.";
    }
}
