//! Any sequence of calls gives events that the rules take, that the audit finds legal, and that a second recording
//! goes on from.

use proptest::prelude::*;
use recount_event::{Draft as Taken, Event, ForeignId, RunId, Stamp, codec, door};
use recount_record::{
    Answer, CallStart, Decided, Elsewhere, Ending, How, Outcome, Prompt, Recording, Source, TurnEnd,
    TurnStart, Usage,
};
use recount_run::{Command, State, apply, audit, decide};
use serde_json::{Value, json};

#[derive(Debug, Clone)]
enum Act {
    User(u8, String),
    TurnBegin,
    TurnEnd(u8),
    Delta(u8, Option<u64>, String),
    TextEnd(u8, Option<String>),
    Call(u8, u8),
    Running(u8),
    CallEnd(u8, u8),
    Raw(u8),
    Gap,
    Ask(u8, u8),
    /// A face answers an open approval, if there is one.
    Answer(u8, bool),
    Withdraw(u8, u8),
    End(u8),
    /// The recorder dies and is rebuilt from the run.
    Restart,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let text =
        prop_oneof![60 => ".{0,12}", 1 => Just("\u{1}".repeat(140_000)), 1 => Just("é".repeat(70_000))];
    let act = prop_oneof![
        2 => (0..3u8, text.clone()).prop_map(|(id, text)| Act::User(id, text)),
        2 => Just(Act::TurnBegin),
        2 => any::<u8>().prop_map(Act::TurnEnd),
        8 => (0..4u8, prop::option::of(0..6u64), text).prop_map(|(id, piece, text)| Act::Delta(id, piece, text)),
        3 => (0..4u8, prop::option::of(".{0,9}")).prop_map(|(id, whole)| Act::TextEnd(id, whole)),
        6 => (0..6u8, any::<u8>()).prop_map(|(id, name)| Act::Call(id, name)),
        2 => (0..6u8).prop_map(Act::Running),
        6 => (0..6u8, any::<u8>()).prop_map(|(id, how)| Act::CallEnd(id, how)),
        2 => (0..5u8).prop_map(Act::Raw),
        1 => Just(Act::Gap),
        5 => (0..6u8, any::<u8>()).prop_map(|(id, name)| Act::Ask(id, name)),
        3 => (0..4u8, any::<bool>()).prop_map(|(n, yes)| Act::Answer(n, yes)),
        3 => (0..4u8, any::<u8>()).prop_map(|(n, how)| Act::Withdraw(n, how)),
        1 => any::<u8>().prop_map(Act::End),
        1 => Just(Act::Restart),
    ];
    prop::collection::vec(act, 0..60)
}

/// A run as the engine has it, without the engine.
pub(crate) struct Run {
    state: State,
    pub(crate) events: Vec<Event>,
}

impl Run {
    pub(crate) fn new() -> Self {
        let id: RunId = "run_01HZX3Q0M0000000000000000A".parse().unwrap();
        let mut run = Run { state: State::blank(id, None, None), events: Vec::new() };
        let queued = r#"{"kind":"external","driver":"external","prior_run_id":null}"#;
        let Taken { payload, .. } = door::draft("run.queued", queued).unwrap();
        let recount_event::Payload::RunQueued(queued) = payload else { panic!("not run.queued") };
        run.takes(Command::Queue { queued, resumed_from: None });
        run
    }

    fn takes(&mut self, command: Command) {
        let n = self.events.len() as u128;
        let stamp = Stamp { now_ms: 1_777_803_825_000 + self.events.len() as u64, entropy: n };
        let events = decide(&self.state, command, stamp).unwrap_or_else(|no| panic!("{no:?}"));
        for event in events {
            // As the store has it: written down and read again.
            let event = codec::decode(&codec::encode(&event)).unwrap();
            apply(&mut self.state, &event);
            self.events.push(event);
        }
    }

    /// Appends what the recording has.
    pub(crate) fn append(&mut self, recording: &mut Recording) {
        let drafts: Vec<Taken> = recording
            .drain()
            .iter()
            .map(|draft| {
                door::draft(&draft.kind, &draft.data.to_string())
                    .unwrap_or_else(|no| panic!("{no}: {draft:?}"))
            })
            .collect();
        if !drafts.is_empty() {
            self.takes(Command::Append { drafts });
        }
    }

    pub(crate) fn data(&self) -> Vec<(String, Value)> {
        let data =
            |event: &Event| serde_json::from_str(event.body.verbatim.as_deref().unwrap_or("{}")).unwrap();
        self.events.iter().map(|event| (event.type_name().to_owned(), data(event))).collect()
    }
}

fn source() -> Source {
    Source::new("claude", "claude-code-hooks", &["tool calls"], &["tokens"]).with_version(Some("2.1".into()))
}

fn name(n: u8) -> &'static str {
    ["Bash", "Read", "", "mcp__x__y"][usize::from(n % 4)]
}

fn foreign(id: u8) -> String {
    ["toolu_1", "a b", "", "x-1", "é", "toolu_2"][usize::from(id)].to_owned()
}

fn start(id: u8, n: u8) -> CallStart {
    let input = match n % 5 {
        0 => json!({"command": "ls"}),
        1 => json!(u64::MAX),
        2 => json!({"content": "\"\u{1}".repeat(if n > 240 { 40_000 } else { 4 })}),
        3 => Value::Null,
        _ => json!([1.5, {"a": {"b": []}}]),
    };
    CallStart { foreign_id: foreign(id), name: name(n).into(), input, ..CallStart::default() }
}

fn how(n: u8) -> How {
    [How::Completed, How::Failed, How::Cancelled, How::TimedOut, How::Refused][usize::from(n % 5)]
}

fn plays(acts: &[Act]) -> Run {
    let mut run = Run::new();
    let mut recording = Recording::begin(&source());
    let mut approvals = 0;
    for act in acts {
        match act {
            Act::User(id, text) => recording.user((*id > 0).then(|| foreign(*id)).as_deref(), text),
            Act::TurnBegin => recording.turn_begin(TurnStart { model: Some("m".into()), provider: None }),
            Act::TurnEnd(n) => recording.turn_end(TurnEnd {
                stop_reason: ["end_turn", "tool_use", "odd"][usize::from(n % 3)],
                usage: Some(Usage {
                    input_tokens: Some(u64::from(*n)),
                    output_tokens: Some(u64::MAX),
                    ..Usage::default()
                }),
            }),
            Act::Delta(id, piece, text) => recording.text_delta(&foreign(*id), *piece, text),
            Act::TextEnd(id, whole) => recording.text_end(&foreign(*id), whole.as_deref()),
            Act::Call(id, n) => recording.call(start(*id, *n)),
            Act::Running(id) => recording.call_running(&foreign(*id)),
            Act::CallEnd(id, n) => recording.call_end(
                &foreign(*id),
                Outcome {
                    output: Some(json!("x".repeat(if *n > 240 { 300_000 } else { 3 }))),
                    duration_ms: Some(u64::MAX),
                    ..Outcome::of(how(*n))
                },
            ),
            Act::Raw(n) => recording.raw("SomeEvent", &json!({"n": n}), (*n > 0).then_some("key")),
            Act::Gap => recording.gap("server_away", "anything"),
            Act::Ask(id, n) => {
                approvals += 1;
                let prompt = Prompt {
                    approval_id: format!("appr_{approvals}"),
                    call: start(*id, *n),
                    summary: "may I".into(),
                    preview: Some(("command", "\u{1}".repeat(if *n > 240 { 90_000 } else { 1 }))),
                    risk_level: Some("high"),
                    timeout_seconds: Some(u64::MAX),
                    withdrawn_at_deadline: n.is_multiple_of(2),
                };
                recording.prompt(prompt);
            }
            Act::Answer(n, yes) => {
                run.append(&mut recording);
                let open = recording.open_approvals();
                if let Some(id) = open.get(usize::from(*n)) {
                    run.takes(Command::ResolveApproval {
                        approval_id: ForeignId::parse(id).unwrap(),
                        approve: *yes,
                        by: "ann".into(),
                        comment: None,
                        remember: None,
                    });
                    recording.answered(id, if *yes { Answer::Approved } else { Answer::Rejected });
                }
            }
            Act::Withdraw(n, how) => {
                let decided =
                    [Decided::Approved, Decided::Rejected, Decided::Undecided][usize::from(how % 3)];
                let open = recording.open_approvals();
                if let Some(id) = open.get(usize::from(*n)) {
                    recording
                        .withdraw(id, &Elsewhere { by: "editor".into(), decided, comment: String::new() });
                }
            }
            Act::End(n) => recording.end(match n % 3 {
                0 => Ending::Finished { status: String::new() },
                1 => Ending::Failed { code: String::new(), message: "m".repeat(9_999) },
                _ => Ending::Cancelled { by: String::new(), reason: String::new() },
            }),
            Act::Restart => {
                run.append(&mut recording);
                let data = run.data();
                recording =
                    Recording::resume(&source(), data.iter().map(|(kind, data)| (kind.as_str(), data)));
            }
        }
        // Sometimes one batch has what several methods gave.
        if !matches!(act, Act::Call(..) | Act::Delta(..)) {
            run.append(&mut recording);
        }
    }
    recording.end(Ending::Finished { status: "completed".into() });
    recording.user(None, "late");
    recording.text_delta("late", None, "late");
    run.append(&mut recording);
    assert!(recording.is_ended() && recording.drain().is_empty());
    run
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_calls_is_a_legal_run(acts in acts()) {
        let run = plays(&acts);
        prop_assert_eq!(audit(&run.events), None);
        prop_assert!(run.state.is_ended());
    }

    #[test]
    fn repeated_acts_are_recorded_once(acts in acts()) {
        // Acts that have a name of their own; the others mean something new each time.
        let named: Vec<Act> = acts
            .into_iter()
            .filter(|act| matches!(
                act,
                Act::User(1.., _) | Act::Delta(_, Some(_), _) | Act::Call(..) | Act::CallEnd(..) | Act::Raw(1..) | Act::TextEnd(..)
            ))
            .collect();
        let twice: Vec<Act> = named.iter().flat_map(|act| [act.clone(), act.clone()]).collect();
        let types = |run: &Run| run.data();
        prop_assert_eq!(types(&plays(&named)), types(&plays(&twice)));
    }
}

#[test]
fn pieces_are_put_in_order_and_a_lost_one_is_reported() {
    let texts = |acts: &[Act]| -> Vec<String> {
        let run = plays(acts);
        run.data()
            .into_iter()
            .filter_map(|(kind, data)| match kind.as_str() {
                "assistant.text_complete" => Some(data["text"].as_str()?.to_owned()),
                "ext.recount.gap" => Some(format!("gap: {}", data["what"].as_str()?)),
                _ => None,
            })
            .collect()
    };
    let delta = |piece, text: &str| Act::Delta(0, Some(piece), text.into());
    assert_eq!(texts(&[delta(0, "a"), delta(2, "c"), delta(1, "b"), Act::TextEnd(0, None)]), ["abc"]);
    assert_eq!(
        texts(&[delta(0, "a"), delta(2, "c"), Act::TextEnd(0, None)]),
        ["gap: pieces 1 to 1 of the text toolu_1", "ac"]
    );
    assert_eq!(texts(&[delta(0, "a"), Act::Restart, delta(0, "a"), delta(1, "b"), delta(1, "b")]), ["ab"]);
}

#[test]
fn a_running_call_withdraws_its_approval_and_a_denied_call_that_runs_is_reported() {
    let types = |acts: &[Act]| -> Vec<String> {
        let ours = ["run.", "turn.", "ext.recount.source"];
        let all = plays(acts).data().into_iter().map(|(kind, _)| kind);
        all.filter(|kind| !ours.iter().any(|skipped| kind.starts_with(skipped))).collect()
    };
    let (asks, done) = (Act::Ask(0, 0), Act::CallEnd(0, 0));
    let start = ["assistant.tool_call_proposed", "approval.requested"];
    let expect = |rest: &[&'static str]| -> Vec<String> {
        start.iter().chain(rest).map(|kind| (*kind).to_owned()).collect()
    };
    assert_eq!(
        types(&[asks.clone(), done.clone()]),
        expect(&["approval.resolved", "tool.invoked", "tool.completed"])
    );
    assert_eq!(
        types(&[asks.clone(), Act::Answer(0, false), done.clone()]),
        expect(&["approval.resolved", "tool.refused", "ext.recount.outcome_after_end"])
    );
    assert_eq!(
        types(&[asks.clone(), Act::Withdraw(0, 1), done.clone()]),
        expect(&["approval.resolved", "tool.refused", "ext.recount.outcome_after_denial"])
    );
    assert_eq!(types(&[asks.clone(), Act::End(0)]), expect(&["approval.resolved", "tool.refused"]));
    assert_eq!(
        types(&[asks, Act::Answer(0, true), done]),
        expect(&["approval.resolved", "tool.invoked", "tool.completed"])
    );
}
