//! Tables: events and keys in, effects out.

use recount_aaep::Event;
use recount_aaep::wire::SubscriptionId;
use serde_json::{Value, json};

use super::*;

/// When the events of these tests happened.
const NOW_MS: u64 = 1_779_632_540_000;

struct Stage {
    narrator: Narrator,
    now_ms: u64,
    events: u32,
}

impl Stage {
    fn new(level: SpeechLevel, names_sessions: bool) -> Self {
        let mut narrator = Narrator::new(level, names_sessions, Phrases::of(&[]));
        narrator.subscribed(Some(SubscriptionId::new("sub_1").unwrap()));
        Stage { narrator, now_ms: NOW_MS, events: 0 }
    }

    fn one() -> Self {
        Stage::new(SpeechLevel::Normal, false)
    }

    /// An event of a session, whose type is without `aaep:agent.`.
    fn event(&mut self, session: u32, kind: &str, fields: Value) -> Event {
        self.events += 1;
        let mut event = json!({
            "@context": "https://aaep-protocol.org/context/v1",
            "type": format!("aaep:agent.{kind}"),
            "event_id": format!("evt_{}", self.events),
            "session_id": format!("sess_{session}"),
            "timestamp": "2026-05-24T14:22:20.000Z",
            "producer": {"agent_id": "planner"},
            "localization_hints": {"primary_language": "en-US"},
        });
        let members = event.as_object_mut().unwrap();
        members.extend(fields.as_object().unwrap().clone());
        Event::parse(&event.to_string()).unwrap()
    }

    fn hear(&mut self, session: u32, kind: &str, fields: Value) -> Vec<String> {
        let event = self.event(session, kind, fields);
        written(self.narrator.hear(&event, self.now_ms))
    }

    fn press(&mut self, keys: &str) -> Vec<String> {
        let mut all = Vec::new();
        for key in keys.chars() {
            let key = match key {
                '\n' => NarratorKey::Enter,
                '\u{1b}' => NarratorKey::Escape,
                '\u{7f}' => NarratorKey::Backspace,
                other => NarratorKey::Char(other),
            };
            all.extend(written(self.narrator.press(key, self.now_ms, 0)));
        }
        all
    }

    fn asks(&mut self, token: &str) -> Vec<String> {
        self.hear(
            1,
            "awaiting.confirmation",
            json!({"urgency": "critical", "action": "Delete old.", "consequence": "It is gone.", "reply_token": token,
                "timeout_seconds": 300, "default_decision": "reject", "summary_normal": "Delete old? It is gone."}),
        )
    }
}

fn written(effects: Vec<NarratorEffect>) -> Vec<String> {
    let write = |effect| match effect {
        NarratorEffect::Speak(utterance) => format!("{:?}: {}", utterance.priority, utterance.text),
        NarratorEffect::Silence => "silence".to_owned(),
        NarratorEffect::Cut => "cut".to_owned(),
        NarratorEffect::Echo(text) => format!("echo {text:?}"),
        NarratorEffect::Send(outgoing) => {
            let message: Value = serde_json::from_str(&outgoing.to_json()).unwrap();
            let value = ["decision", "response", "capabilities", "session_id", "seconds"]
                .into_iter()
                .find_map(|name| message.get(name));
            format!("send {} {}", message["type"].as_str().unwrap(), value.unwrap())
        }
        NarratorEffect::Ended { session, end } => format!("ended {session} {end:?}"),
        NarratorEffect::Signal(signal) => format!("signal {signal:?}"),
        NarratorEffect::Quit => "quit".to_owned(),
    };
    effects.into_iter().map(write).collect()
}

fn state(from: &str, to: &str, text: &str) -> Value {
    json!({"from_state": from, "to_state": to, "urgency": "background", "summary_normal": text})
}

#[test]
fn events_are_spoken_by_urgency_and_level() {
    let called = json!({"tool": "shell_exec", "summary_normal": "Using shell_exec: ls", "summary_terse": "shell_exec",
        "summary_detailed": "Using shell_exec with ls in src"});
    let done = json!({"tool": "shell_exec", "status": "success", "summary_normal": "shell_exec is done"});
    let failed = json!({"tool": "shell_exec", "status": "error", "error_message": "no such file"});
    let errored = json!({"urgency": "critical", "error_category": "permanent", "summary_normal": "It failed.",
        "summary_terse": "Failed.", "remediation_hint": "Check the key."});
    let chunk = json!({"chunk": "All good.\nReally. ", "position": 0, "complete": false, "coalesce_hint": "sentence"});
    let handoff = json!({"urgency": "critical", "reason": "too hard", "target_kind": "human"});
    let wake = json!({"summary_normal": "A thing.", "x": 1});
    use SpeechLevel::{Brief, Detailed, Normal, Terse};
    for (level, kind, fields, expected) in [
        (Normal, "tool.invoked", &called, vec!["Text: Using shell_exec: ls"]),
        (Terse, "tool.invoked", &called, vec!["Text: shell_exec"]),
        (Detailed, "tool.invoked", &called, vec!["Text: Using shell_exec with ls in src"]),
        (Brief, "tool.invoked", &called, vec![]),
        (Normal, "tool.completed", &done, vec!["Text: shell_exec is done"]),
        (Terse, "tool.completed", &done, vec![]),
        (Terse, "tool.completed", &failed, vec!["Text: shell_exec: no such file."]),
        (Detailed, "state.changed", &state("idle", "thinking", "Thinking."), vec!["Progress: Thinking."]),
        // A state is repeated by the events that follow, but the end of a prompt is in no other event.
        (Normal, "state.changed", &state("idle", "thinking", "Thinking."), vec![]),
        (Normal, "state.changed", &state("thinking", "awaiting_input", "Waiting."), vec![]),
        (
            Normal,
            "state.changed",
            &state("awaiting_input", "thinking", "Rejected by ana."),
            vec!["Progress: Rejected by ana."],
        ),
        (Terse, "state.changed", &state("idle", "thinking", "Thinking."), vec![]),
        (
            Brief,
            "state.changed",
            &state("awaiting_input", "thinking", "Rejected by ana."),
            vec!["Progress: Rejected by ana."],
        ),
        (
            Normal,
            "state.changed",
            &json!({"from_state": "idle", "to_state": "pondering_it"}),
            vec!["Text: pondering it."],
        ),
        (
            Normal,
            "progress.updated",
            &json!({"urgency": "background", "progress": {"percent": 5}}),
            vec!["Progress: 5 percent."],
        ),
        (
            Normal,
            "progress.updated",
            &json!({"progress": {"step": 2, "total_steps": 7}}),
            vec!["Text: Step 2 of 7."],
        ),
        (Brief, "session.started", &json!({"summary_normal": "Started."}), vec!["Text: Started."]),
        (
            Brief,
            "session.completed",
            &json!({"summary_normal": "Finished: ok."}),
            vec!["Text: Finished: ok.", "ended sess_1 Completed"],
        ),
        (
            Brief,
            "session.cancelled",
            &json!({"cancelled_by": "user"}),
            vec!["Text: The session was cancelled by user.", "ended sess_1 Cancelled"],
        ),
        (
            Brief,
            "session.errored",
            &errored,
            vec!["Important: It failed. Check the key.", "ended sess_1 Errored"],
        ),
        (Normal, "output.streaming", &chunk, vec!["Text: All good. Really."]),
        (Brief, "output.streaming", &chunk, vec![]),
        (Brief, "handoff.requested", &handoff, vec!["Important: Handing over to human: too hard."]),
        (Normal, "wake.up", &wake, vec!["Text: A thing."]),
    ] {
        assert_eq!(Stage::new(level, false).hear(1, kind, fields.clone()), expected, "{level:?} {kind}");
    }
}

#[test]
fn an_event_is_spoken_once_and_in_its_language() {
    let mut stage = Stage::one();
    let event = stage.event(
        1,
        "session.started",
        json!({"summary_normal": "Los.", "localization_hints": {"primary_language": "de"}}),
    );
    let [NarratorEffect::Speak(spoken)] = &stage.narrator.hear(&event, NOW_MS)[..] else { panic!("one") };
    assert_eq!((spoken.language.as_str(), spoken.session), ("de", 1));
    assert_eq!(stage.narrator.hear(&event, NOW_MS), []);
    let mut foreign = event.clone();
    foreign.envelope.context = recount_aaep::wire::Context::One("https://example.org/other".into());
    foreign.envelope.event_id = recount_aaep::wire::EventId::new("evt_other").unwrap();
    assert_eq!(stage.narrator.hear(&foreign, NOW_MS), [], "of another protocol");
}

#[test]
fn held_output_is_spoken_before_later_events() {
    let mut stage = Stage::one();
    let piece =
        |text: &str| json!({"chunk": text, "position": 0, "complete": false, "coalesce_hint": "none"});
    assert_eq!(stage.hear(1, "output.streaming", piece("I will del")), [] as [&str; 0]);
    assert_eq!(
        stage.hear(1, "state.changed", state("writing_output", "thinking", "Thinking.")),
        [] as [&str; 0]
    );
    let spoken = stage.asks("rpl_1");
    assert_eq!(spoken[..2], ["Text: I will del", "Important: Delete old? It is gone."]);
}

#[test]
fn a_prompt_is_read_with_its_keys_and_answered_by_one() {
    let keys = "Message: Press y to approve, n to reject. 5 minutes left, then it is rejected.";
    for (pressed, expected) in [
        ("y", vec!["cut", "Message: Approval sent.", "send confirmation.reply \"accept\""]),
        ("n", vec!["cut", "Message: Rejection sent.", "send confirmation.reply \"reject\""]),
        ("a", vec!["cut", "Message: Press y to approve, n to reject."]),
        (
            "yy",
            vec![
                "cut",
                "Message: Approval sent.",
                "send confirmation.reply \"accept\"",
                "cut",
                "Message: No prompt is open.",
            ],
        ),
    ] {
        let mut stage = Stage::one();
        assert_eq!(stage.asks("rpl_1"), ["Important: Delete old? It is gone.", keys]);
        assert_eq!(stage.press(pressed), expected, "{pressed}");
    }
    let mut stage = Stage::one();
    assert_eq!(stage.press("yna"), ["cut", "Message: No prompt is open."].repeat(3));
}

#[test]
fn prompts_are_spoken_completely_even_if_the_summary_is_shorter() {
    let mut stage = Stage::new(SpeechLevel::Brief, false);
    let spoken = stage.hear(1, "awaiting.confirmation", json!({"urgency": "critical", "action": "Send 500 dollars",
        "consequence": "The money is gone.", "reply_token": "rpl_1", "timeout_seconds": 60, "default_decision": "accept",
        "allowed_replies": ["reject"], "summary_terse": "Money!"}));
    assert_eq!(
        spoken,
        [
            "Important: Money! Send 500 dollars. The money is gone.",
            "Message: Press n to reject. 60 seconds left, then it is approved."
        ]
    );
    assert_eq!(stage.press("y"), ["cut", "Message: Press n to reject."]);
}

#[test]
fn grave_calls_are_approved_only_with_a_second_key() {
    let grave = |risk: &str, irreversible: bool| {
        json!({"urgency": "critical", "action": "Wipe.", "consequence": "Gone.",
        "reply_token": "rpl_1", "timeout_seconds": 300, "default_decision": "reject", "risk_level": risk,
        "irreversible": irreversible, "summary_normal": "Wipe. Gone."})
    };
    let confirm =
        "Message: High risk, or cannot be undone. Press Enter to approve, any other key to go back.";
    let back = "Message: Not approved. The prompt is still open.";
    for (fields, pressed, expected) in [
        (
            grave("low", true),
            "y\n",
            vec!["cut", confirm, "cut", "Message: Approval sent.", "send confirmation.reply \"accept\""],
        ),
        (grave("high", false), "yy", vec!["cut", confirm, "cut", back]),
        (grave("low", true), "y y", vec!["cut", confirm, "cut", back, "cut", confirm]),
        (
            grave("low", true),
            "n",
            vec!["cut", "Message: Rejection sent.", "send confirmation.reply \"reject\""],
        ),
        (
            grave("low", false),
            "y",
            vec!["cut", "Message: Approval sent.", "send confirmation.reply \"accept\""],
        ),
    ] {
        let mut stage = Stage::one();
        stage.hear(1, "awaiting.confirmation", fields.clone());
        assert_eq!(stage.press(pressed), expected, "{fields} {pressed:?}");
    }
    let mut stage = Stage::one();
    stage.hear(1, "awaiting.confirmation", grave("high", true));
    stage.press("y");
    let settled = stage.hear(1, "state.changed", state("awaiting_input", "thinking", "Rejected by ana."));
    assert_eq!(settled, ["Progress: Rejected by ana.", "Message: The prompt is closed. Nothing was sent."]);
    assert_eq!(stage.press("\n"), [] as [&str; 0], "Enter alone approves nothing");
}

fn question(kinds: &[&str], choices: Value) -> Value {
    let mut fields = json!({"urgency": "critical", "question": "Where?", "reply_token": "rpl_q", "timeout_seconds": 90,
        "summary_normal": "Where?"});
    if !kinds.is_empty() {
        fields["accepted_response_kinds"] = json!(kinds);
    }
    if !choices.is_null() {
        fields["choices"] = choices;
    }
    fields
}

#[test]
fn questions_are_answered_by_text_number_choice_and_yes_or_no() {
    let cities = json!([{"value": "lagos", "label": "Lagos"}, {"value": "lima", "label": "Lima"}]);
    let none = Value::Null;
    for (kinds, choices, pressed, sent) in [
        (&[][..], &none, "aIn Rome\n", Some("\"In Rome\"")),
        (&["freetext"][..], &none, "aRomx\u{7f}e\n", Some("\"Rome\"")),
        (&["freetext"][..], &none, "a  \n", None),
        (&["freetext"][..], &none, "aRome\u{1b}", None),
        (&["numeric"][..], &none, "a2.5\n", Some("2.5")),
        (&["numeric"][..], &none, "atwo\n", None),
        (&["yes_no"][..], &none, "y", Some("true")),
        (&["yes_no"][..], &none, "n", Some("false")),
        (&["yes_no"][..], &none, "a", None),
        (&["multiple_choice"][..], &cities, "2\n", Some("\"lima\"")),
        (&["multiple_choice"][..], &cities, "3\n", None),
        (&["multiple_choice"][..], &cities, "aLagos\n", Some("\"lagos\"")),
        (&["multiple_choice"][..], &cities, "aOslo\n", None),
        (&["multiple_choice"][..], &cities, "y", None),
        (&["freetext", "multiple_choice"][..], &cities, "aOslo\n", Some("\"Oslo\"")),
    ] {
        let mut stage = Stage::one();
        stage.hear(1, "awaiting.clarification", question(kinds, choices.clone()));
        let effects = stage.press(pressed);
        let replies: Vec<&String> = effects.iter().filter(|effect| effect.starts_with("send")).collect();
        let expected: Vec<String> =
            sent.iter().map(|sent| format!("send clarification.reply {sent}")).collect();
        assert_eq!(replies, expected.iter().collect::<Vec<_>>(), "{kinds:?} {pressed:?}: {effects:?}");
    }
    let mut stage = Stage::one();
    let read = stage.hear(1, "awaiting.clarification", question(&["multiple_choice"], cities));
    assert_eq!(
        read,
        ["Important: Where? 1: Lagos. 2: Lima.", "Message: Press a number and Enter. 90 seconds left."]
    );
    assert_eq!(stage.press("2"), ["cut", "Message: 2: Lima. Press Enter to answer."]);
}

#[test]
fn a_second_prompt_waits_until_the_first_is_answered() {
    let mut stage = Stage::one();
    stage.asks("rpl_1");
    assert_eq!(stage.asks("rpl_2"), ["Important: Another prompt is waiting. Press p to hear it."]);
    let effects = stage.press("y");
    assert_eq!(
        effects[..4],
        [
            "cut",
            "Message: Approval sent.",
            "send confirmation.reply \"accept\"",
            "Important: Delete old? It is gone."
        ]
    );
    // A key that was meant for the first one.
    let changed = "Message: The prompt just changed. Nothing was sent. Listen, then press the key again.";
    assert_eq!(stage.press("y")[1], changed);
    stage.now_ms += crate::limits::PROMPT_SWITCH_MS;
    assert_eq!(stage.press("n")[2], "send confirmation.reply \"reject\"");
}

/// The tokens of a subscription end with it. The producer emits open prompts again with new ones.
#[test]
fn a_new_subscription_replaces_the_prompts_of_the_former() {
    let subscribe = |stage: &mut Stage, id: &str| {
        stage.narrator.subscribed(None);
        stage.narrator.subscribed(Some(SubscriptionId::new(id).unwrap()));
    };
    let mut stage = Stage::one();
    stage.asks("rpl_1");
    subscribe(&mut stage, "sub_1");
    assert_eq!(current(&stage), "rpl_1", "the same subscription goes on");
    subscribe(&mut stage, "sub_2");
    assert_eq!(stage.press("y"), ["cut", "Message: No prompt is open."]);
    assert!(stage.asks("rpl_2")[0].starts_with("Important: Delete old?"));
    assert_eq!(stage.press("y").last().unwrap(), "send confirmation.reply \"accept\"");
    // An answer that is being typed was for the former prompt.
    stage.hear(2, "awaiting.clarification", question(&[], Value::Null));
    stage.press("aIn Rome");
    subscribe(&mut stage, "sub_3");
    assert_eq!(stage.press("\n"), ["Message: The prompt is closed. Nothing was sent."]);
}

/// The protocol has no acknowledgement: only events show that a reply decided something.
#[test]
fn a_reply_that_decides_nothing_does_not_sound_like_success() {
    let nothing = "Important: Your reply had no effect. The prompt is still open.";
    let mut stage = Stage::one();
    stage.asks("rpl_1");
    for (key, spoken) in [("y", "Message: Approval sent."), ("n", "Message: Rejection sent.")] {
        assert_eq!(stage.press(key)[1], spoken);
        let due = stage.now_ms + crate::limits::REPLY_EFFECT_WAIT_MS;
        assert_eq!(stage.narrator.next_due_ms(), Some(due));
        assert_eq!(written(stage.narrator.quiet(due - 1)), [] as [&str; 0]);
        stage.now_ms = due;
        assert_eq!(written(stage.narrator.quiet(due)), [nothing]);
        assert_eq!(stage.narrator.next_due_ms(), None);
        assert_eq!(current(&stage), "rpl_1", "it can be answered again");
    }
    // Without a connection nothing is known; afterwards it counts again.
    stage.press("y");
    stage.narrator.subscribed(None);
    assert_eq!(stage.narrator.next_due_ms(), None);
    stage.narrator.subscribed(Some(SubscriptionId::new("sub_1").unwrap()));
    stage.hear(1, "state.changed", state("awaiting_input", "calling_tool", "Approved by ana."));
    assert_eq!(stage.narrator.next_due_ms(), None, "the reply had an effect");

    let mut stage = Stage::one();
    stage.hear(1, "awaiting.clarification", question(&["yes_no"], Value::Null));
    stage.now_ms += 86_000;
    assert_eq!(stage.press("y")[1], "Message: Answer sent: yes.");
    assert_eq!(stage.narrator.next_due_ms(), None, "its default applies before");
}

#[test]
fn p_goes_round_the_open_prompts() {
    let mut stage = Stage::one();
    assert_eq!(stage.press("p"), ["cut", "Message: No prompt is open."]);
    for token in ["rpl_1", "rpl_2"] {
        stage.asks(token);
    }
    let more = "Message: Press y to approve, n to reject. 5 minutes left, then it is rejected. 1 more. Press p for \
                the next.";
    for _ in 0..3 {
        assert_eq!(stage.press("p"), ["cut", "Important: Delete old? It is gone.", more]);
    }
    for token in ["rpl_1", "rpl_2"] {
        stage.press("p");
        assert_eq!(current(&stage), token);
    }
    assert_eq!(stage.press("y")[2], "send confirmation.reply \"accept\"", "the one that was read last");
    assert_eq!(current(&stage), "rpl_1");
}

fn current(stage: &Stage) -> String {
    stage.narrator.prompts.current().unwrap().token.as_str().to_owned()
}

#[test]
fn prompts_close_when_the_events_show_it() {
    let leave = || state("awaiting_input", "thinking", "Rejected by ana.");
    let again = || state("thinking", "awaiting_input", "One more question.");
    type Event = (&'static str, Value);
    let cases: [(&[&str], Vec<Event>, usize); 7] = [
        (&["rpl_1"], vec![], 1),
        (&["rpl_1"], vec![("state.changed", leave())], 0),
        (&["rpl_1"], vec![("state.changed", state("awaiting_input", "awaiting_input", "x"))], 1),
        (&["rpl_1"], vec![("session.cancelled", json!({"cancelled_by": "user", "summary_normal": "x"}))], 0),
        // Either of the two may be settled.
        (&["rpl_1", "rpl_2"], vec![("state.changed", leave())], 2),
        (&["rpl_1", "rpl_2"], vec![("state.changed", leave()), ("state.changed", again())], 2),
        (
            &["rpl_1", "rpl_2"],
            vec![("state.changed", leave()), ("state.changed", state("thinking", "deciding", "x"))],
            0,
        ),
    ];
    for (tokens, events, open) in cases {
        let mut stage = Stage::one();
        for token in tokens {
            stage.asks(token);
        }
        for (kind, fields) in events.clone() {
            stage.hear(1, kind, fields);
        }
        assert_eq!(stage.narrator.prompts.open().count(), open, "{tokens:?} {events:?}");
    }
    // Of two prompts, the one that was answered here is settled.
    let mut stage = Stage::one();
    stage.asks("rpl_1");
    stage.asks("rpl_2");
    stage.press("y");
    stage.hear(1, "state.changed", leave());
    stage.hear(1, "state.changed", again());
    assert_eq!(current(&stage), "rpl_2");
    assert_eq!(stage.asks("rpl_2"), [] as [&str; 0], "a prompt that comes again is known");
}

#[test]
fn keys_that_need_no_prompt() {
    let mut stage = Stage::one();
    assert_eq!(stage.press("r"), ["cut", "Message: Nothing has been spoken yet."]);
    assert_eq!(
        stage.press("w"),
        ["cut", "Message: Nothing has happened yet.", "Message: No prompt is open."]
    );
    stage.hear(1, "session.started", json!({"summary_normal": "Started."}));
    stage.hear(1, "tool.invoked", json!({"tool": "shell_exec", "summary_normal": "Using shell_exec."}));
    // A state that is not spoken is still what the run does.
    stage.hear(1, "state.changed", state("idle", "thinking", "Thinking."));
    for (pressed, expected) in [
        (" ", vec!["silence"]),
        ("s", vec!["silence"]),
        ("r", vec!["cut", "Message: Using shell_exec."]),
        ("2r", vec!["cut", "Message: Started.", "Message: Using shell_exec."]),
        ("99r", vec!["cut", "Message: Started.", "Message: Using shell_exec."]),
        ("w", vec!["cut", "Message: Thinking.", "Message: No prompt is open."]),
        ("q", vec!["quit"]),
        ("\n\u{1b}\u{7f}", vec![]),
        ("x", vec!["cut", "Message: Unknown key. Press question mark for help."]),
        ("7\n", vec!["cut", "Message: There is no choice 7."]),
        (
            "c\n",
            vec![
                "cut",
                "Message: Cancel the run? Press Enter to cancel it, any other key to go back.",
                "cut",
                "Message: Cancellation requested.",
                "send recount.control \"sess_1\"",
            ],
        ),
        (
            "cc",
            vec![
                "cut",
                "Message: Cancel the run? Press Enter to cancel it, any other key to go back.",
                "cut",
                "Message: Not cancelled.",
            ],
        ),
    ] {
        assert_eq!(stage.press(pressed), expected, "{pressed:?}");
    }
    assert_eq!(stage.press("?")[1], format!("Message: {}", Phrases::of(&[]).plain(PhraseKey::Help)));
    stage.asks("rpl_1");
    assert_eq!(stage.press("e"), ["cut", "Message: Asked for 10 minutes more.", "send recount.extend 600"]);
    stage.now_ms += 290_000;
    assert_eq!(
        stage.press("w")[2],
        "Message: 1 prompt is open: 10 seconds left, then it is rejected. Press p to hear it."
    );
    stage.hear(1, "session.cancelled", json!({"cancelled_by": "user", "summary_normal": "Cancelled."}));
    assert_eq!(stage.press("w")[1], "Message: The run has ended.");
    assert_eq!(stage.press("c"), ["cut", "Message: No active run to cancel."]);
}

#[test]
fn level_changes_are_requested_from_the_producer() {
    let mut stage = Stage::one();
    let requested = |verbosity: &str, load: &str| {
        format!(
            "send subscription.renegotiate {}",
            json!({"cognitive_load": load, "preferred_verbosity": verbosity})
        )
    };
    for (pressed, word, sent) in [
        ("+", "Level detailed.", Some(requested("detailed", "medium"))),
        ("=", "detailed is the highest level.", None),
        ("-", "Level normal.", Some(requested("normal", "medium"))),
        ("-", "Level terse.", Some(requested("terse", "medium"))),
        ("_", "Level brief.", Some(requested("terse", "low"))),
        ("-", "brief is the lowest level.", None),
    ] {
        let expected: Vec<String> =
            ["cut".to_owned(), format!("Message: {word}")].into_iter().chain(sent).collect();
        assert_eq!(stage.press(pressed), expected);
    }
}

#[test]
fn sessions_are_named_when_there_are_several() {
    let mut stage = Stage::new(SpeechLevel::Normal, true);
    let started = |text: &str| json!({"summary_normal": text});
    assert_eq!(stage.hear(1, "session.started", started("One.")), ["Text: Run 1: One."]);
    assert_eq!(stage.hear(2, "session.started", started("Two.")), ["Text: Run 2: Two."]);
    assert_eq!(stage.hear(2, "state.changed", state("idle", "thinking", "Thinking.")), [] as [&str; 0]);
    assert_eq!(stage.asks("rpl_1")[0], "Important: Run 1: Delete old? It is gone.");
    assert_eq!(
        stage.press("w"),
        [
            "cut",
            "Message: 2 runs are active.",
            "Message: Run 1: One.",
            "Message: Run 2: Thinking.",
            "Message: 1 prompt is open: 5 minutes left, then it is rejected. Press p to hear it."
        ]
    );
    assert_eq!(stage.press("c\n")[4], "send recount.control \"sess_1\"", "the run of the prompt");
}

#[test]
fn nothing_is_sent_without_a_subscription_and_a_failed_reply_can_be_repeated() {
    let mut stage = Stage::one();
    stage.asks("rpl_1");
    stage.narrator.subscribed(None);
    assert_eq!(
        stage.press("y"),
        ["cut", "Message: Not sent: no connection. Press the key again after reconnecting."]
    );
    stage.narrator.subscribed(Some(SubscriptionId::new("sub_1").unwrap()));
    let effects = stage.narrator.press(NarratorKey::Char('y'), NOW_MS, 0);
    let Some(NarratorEffect::Send(sent)) = effects.last() else { panic!("it is sent") };
    let Outgoing::Message(message) = sent else { panic!("a message") };
    let recount_aaep::Message::ConfirmationReply(reply) = &**message else { panic!("a reply") };
    assert_eq!((reply.subscription_id.as_str(), reply.timestamp.millis()), ("sub_1", 1_779_632_540_000));
    assert_eq!(stage.press("y")[1], "Message: No prompt is open.");
    assert_eq!(
        written(stage.narrator.not_sent(sent, "no answer")),
        ["Important: Not sent: no answer. Press the key again."]
    );
    assert_eq!(stage.press("y")[2], "send confirmation.reply \"accept\"");
}

#[test]
fn all_state_of_the_narrator_is_bounded() {
    let mut stage = Stage::new(SpeechLevel::Normal, true);
    for number in 0..1_030 {
        stage.hear(number, "session.started", json!({"summary_normal": "x".repeat(2_100)}));
        stage.asks(&format!("rpl_{number}"));
    }
    let narrator = &stage.narrator;
    assert_eq!(narrator.history.len(), crate::limits::NARRATED_HISTORY_MAX);
    assert_eq!(narrator.prompts.open().count(), crate::limits::NARRATED_PROMPTS_MAX);
    assert!(narrator.sessions.active().count() <= crate::limits::NARRATED_SESSIONS_MAX);
}

/// A long text is spoken whole, in several utterances, and repeated whole.
#[test]
fn nothing_of_a_long_text_is_left_out() {
    let words = "word ".repeat(1_000);
    let mut stage = Stage::one();
    let spoken = stage.hear(1, "session.started", json!({ "summary_normal": words }));
    let whole = |spoken: &[String], priority: &str| {
        let texts = spoken.iter().map(|piece| piece.strip_prefix(priority).unwrap().trim());
        texts.collect::<Vec<_>>().join(" ")
    };
    assert_eq!((spoken.len(), whole(&spoken, "Text:")), (3, words.trim().to_owned()));
    let again = stage.press("r");
    assert_eq!(whole(&again[1..], "Message:"), words.trim());
}

/// What an utterance is about, for printed lines that can be searched.
#[test]
fn every_utterance_has_a_subject() {
    let mut stage = Stage::one();
    let mut subjects = Vec::new();
    for (kind, fields) in [
        ("session.started", json!({"summary_normal": "Started."})),
        ("output.streaming", json!({"chunk": "Hello.", "position": 0, "complete": true})),
        ("tool.invoked", json!({"tool": "ls", "summary_normal": "Using ls."})),
        (
            "awaiting.confirmation",
            json!({"urgency": "critical", "action": "Delete.", "consequence": "Cannot be undone.", "reply_token": "rpl_1",
                "timeout_seconds": 60, "default_decision": "reject"}),
        ),
        ("state.changed", state("awaiting_input", "thinking", "Rejected by ana.")),
        ("awaiting.clarification", question(&[], Value::Null)),
        ("state.changed", state("awaiting_input", "thinking", "ana answered.")),
        ("handoff.requested", json!({"urgency": "critical", "reason": "too hard", "target_kind": "human"})),
        ("session.errored", json!({"urgency": "critical", "error_category": "permanent"})),
    ] {
        let event = stage.event(1, kind, fields);
        for effect in stage.narrator.hear(&event, NOW_MS) {
            let NarratorEffect::Speak(spoken) = effect else { continue };
            subjects.push(spoken.subject.label());
        }
    }
    let expected = "run agent tool permission narrator permission question narrator question handoff error";
    assert_eq!(subjects.join(" "), expected);
}

/// Choices are spoken once, with their numbers, and an action once, although the summary has no marks around its code.
#[test]
fn actions_and_choices_are_spoken_once() {
    let mut stage = Stage::one();
    let spoken = stage.hear(1, "awaiting.confirmation", json!({"urgency": "critical", "action": "Run `rm -r old`.",
        "consequence": "Deletes files.", "reply_token": "rpl_1", "timeout_seconds": 300, "default_decision": "reject",
        "summary_normal": "Run rm -r old. Deletes files. Allow this?"}));
    assert_eq!(spoken[0], "Important: Run rm -r old. Deletes files. Allow this?");
    stage.press("n");
    let choices = json!([{"value": "a", "label": "plain text"}, {"value": "b", "label": "Markdown"}]);
    let mut fields = question(&["multiple_choice"], choices);
    fields["summary_normal"] = json!("Which format? Choose one of: plain text; Markdown.");
    fields["question"] = json!("Which format?");
    fields["context"] = json!("The report is done.");
    let spoken = stage.hear(2, "awaiting.clarification", fields.clone());
    assert_eq!(spoken[0], "Important: Which format? 1: plain text. 2: Markdown.");
    let mut stage = Stage::new(SpeechLevel::Detailed, false);
    fields["summary_detailed"] =
        json!("The report is done. Which format? Choose one of: plain text; Markdown.");
    let spoken = stage.hear(2, "awaiting.clarification", fields);
    assert_eq!(spoken[0], "Important: The report is done. Which format? 1: plain text. 2: Markdown.");
}

#[test]
fn markdown_is_spoken_as_text() {
    let markdown = "# Result\n\nAll **3** pass.\n- one\n- [x] two\n- [ ] three\n\n| file | lines |\n|---|---|\n\
                    | a.txt | 12 |\n\n```rust\nfn main() {\n    hi();\n}\n```\nDone.";
    let output = json!({"chunk": markdown, "position": 0, "complete": true, "content_type": "text/markdown"});
    let expected = [
        "Text: Heading: Result",
        "Text: All 3 pass.",
        "Text: one",
        "Text: Done: two",
        "Text: To do: three",
        "Text: file: a.txt, lines: 12.",
        "Text: Code, rust, 3 lines.",
        "Text: fn main() {\n    hi();\n}",
        "Text: Done.",
    ];
    assert_eq!(Stage::one().hear(1, "output.streaming", output.clone()), expected);
    let terse = Stage::new(SpeechLevel::Terse, false).hear(1, "output.streaming", output);
    assert_eq!(terse[5..], ["Text: file: a.txt, lines: 12.", "Text: Code, rust, 3 lines.", "Text: Done."]);
}

/// The prompts of a run that has ended are facts: nothing waits for an answer, and nothing interrupts.
#[test]
fn prompts_of_an_ended_run_are_read_as_history() {
    let mut stage = Stage::one();
    let options = NarratorOptions { is_history: true, has_signals: true, ..NarratorOptions::default() };
    stage.narrator = stage.narrator.with_options(options);
    stage.narrator.subscribed(Some(SubscriptionId::new("sub_1").unwrap()));
    let [past] = &stage.asks("rpl_1")[..] else { panic!("one line") };
    assert!(past.starts_with("Text: Permission was requested: Delete old. It is"), "{past}");
    assert_eq!(stage.press("y"), ["cut", "Message: No prompt is open."]);
    let settled = stage.hear(1, "state.changed", state("awaiting_input", "thinking", "ana approved it."));
    assert_eq!(settled, ["Progress: ana approved it."]);
    let past = stage.hear(1, "awaiting.clarification", question(&["yes_no"], Value::Null));
    assert_eq!(past, ["Text: The agent had a question: Where?"]);
    let errored =
        json!({"urgency": "critical", "error_category": "permanent", "summary_normal": "It failed."});
    assert_eq!(stage.hear(1, "session.errored", errored), ["Text: It failed.", "ended sess_1 Errored"]);
}

/// Output is spoken when the session ends: the last one, whole. Prompts are not held.
#[test]
fn the_answer_is_spoken_at_the_end() {
    let mut stage = Stage::new(SpeechLevel::Brief, false);
    stage.narrator = stage.narrator.with_options(NarratorOptions { is_at_end: true, ..Default::default() });
    let piece = |id: &str, chunk: &str, position: u64| {
        json!({"chunk": chunk, "position": position,
        "complete": position > 0, "output_id": id, "content_type": "text/markdown"})
    };
    assert_eq!(stage.hear(1, "output.streaming", piece("out_1", "I look.", 0)), [""; 0]);
    assert!(stage.asks("rpl_1")[0].starts_with("Important: Delete old?"));
    assert_eq!(stage.hear(1, "output.streaming", piece("out_2", "# All\n", 0)), [""; 0]);
    assert_eq!(stage.hear(1, "output.streaming", piece("out_2", "Two pass.", 6)), [""; 0]);
    assert_eq!(
        stage.hear(1, "session.completed", json!({"summary_normal": "Finished."})),
        ["Text: Heading: All", "Text: Two pass.", "Text: Finished.", "ended sess_1 Completed"]
    );
    let long = "word ".repeat(crate::limits::HELD_ANSWER_BYTES_MAX / 5 + 1);
    stage.hear(2, "output.streaming", piece("out_3", "Short.", 0));
    stage.hear(2, "output.streaming", piece("out_3", &long, 6));
    let end =
        stage.hear(2, "session.cancelled", json!({"cancelled_by": "user", "summary_normal": "Cancelled."}));
    let cut = "Text: The answer is longer. recount show prints all of it.";
    assert_eq!(end, ["Text: Short.", cut, "Text: Cancelled.", "ended sess_2 Cancelled"]);
}

#[test]
fn sounds_are_requested_only_on_demand() {
    let mut stage = Stage::one();
    stage.narrator = stage.narrator.with_options(NarratorOptions { has_signals: true, ..Default::default() });
    let mut signals = Vec::new();
    signals.extend(stage.asks("rpl_1"));
    signals.extend(stage.asks("rpl_2"));
    for (kind, fields) in [
        ("handoff.requested", json!({"urgency": "critical", "reason": "too hard", "target_kind": "human"})),
        ("session.completed", json!({"summary_normal": "Finished."})),
        ("session.errored", json!({"urgency": "critical", "error_category": "permanent"})),
        ("session.cancelled", json!({"cancelled_by": "user"})),
    ] {
        let session = 1 + signals.len() as u32;
        signals.extend(stage.hear(session, kind, fields));
    }
    signals.retain(|line| line.starts_with("signal"));
    let expected = ["NeedsYou", "NeedsYou", "NeedsYou", "Finished", "Failed", "Failed"];
    assert_eq!(signals, expected.map(|name| format!("signal {name}")));
}

/// A producer that falls silent within a sentence leaves nothing unspoken.
#[test]
fn text_without_a_boundary_is_spoken_after_a_pause() {
    let mut stage = Stage::one();
    let piece = |chunk: &str, position: u64| json!({"chunk": chunk, "position": position, "complete": false, "coalesce_hint": "none", "output_id": "out_1"});
    assert_eq!(stage.hear(1, "output.streaming", piece("It rains", 0)), [""; 0]);
    stage.now_ms += 2_000;
    assert_eq!(stage.hear(1, "output.streaming", piece(" and", 8)), [""; 0]);
    let due = stage.narrator.next_due_ms();
    assert_eq!(due, Some(stage.now_ms + crate::limits::HELD_TEXT_MS_MAX));
    assert_eq!(written(stage.narrator.quiet(due.unwrap() - 1)), [""; 0]);
    assert_eq!(written(stage.narrator.quiet(due.unwrap())), ["Text: It rains and"]);
    assert_eq!(stage.narrator.next_due_ms(), None);
    // What follows is spoken once.
    let rest = json!({"chunk": " snows.", "position": 12, "complete": true, "output_id": "out_1"});
    assert_eq!(stage.hear(1, "output.streaming", rest), ["Text: snows."]);
}

/// Every text of the narrator itself is in the language of the listener and has its tag.
#[test]
fn the_narrator_speaks_the_language_of_the_listener() {
    let mut stage = Stage::one();
    stage.narrator = Narrator::new(SpeechLevel::Normal, true, Phrases::of(&["ar".to_owned()]));
    for key in ["?", "w", "p", "y", "5\n", "c", "e", "+", "+", "x"] {
        for effect in stage.narrator.press(NarratorKey::Char(key.chars().next().unwrap()), NOW_MS, 3) {
            let NarratorEffect::Speak(utterance) = effect else { continue };
            assert_eq!(utterance.language, "ar", "{utterance:?}");
            assert!(utterance.text.chars().any(|c| ('\u{600}'..='\u{6ff}').contains(&c)), "{utterance:?}");
        }
    }
}
