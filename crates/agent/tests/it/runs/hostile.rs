//! Providers that send invalid data. Each response leads to a defined, recorded outcome. The rules never refuse the
//! agent's own reports, and every event can be exported and imported.

use futures_util::StreamExt as _;
use recount_event::{Event, Payload, door, limits};
use recount_playback::{Api, End, Player, RecordedResponse, Recording, Shelf};
use recount_world::World;
use serde_json::{Value, json};

use crate::runs::scene::{Scene, Setup, count, first, refusals, results, types};

pub(crate) fn answer(body: String) -> RecordedResponse {
    RecordedResponse {
        status: 200,
        headers: std::collections::BTreeMap::default(),
        body,
        pause_ms: 0,
        chunk_bytes: None,
        filler_bytes: 0,
        end: End::Whole,
    }
}

/// The text of an event stream: each entry is one `data:` line.
fn stream(api: Api, lines: &[String]) -> String {
    let mut body: String = lines.iter().map(|line| format!("data: {line}\n\n")).collect();
    if api == Api::OpenAi {
        body.push_str("data: [DONE]\n\n");
    }
    body
}

fn chunk(delta: &Value) -> String {
    json!({ "choices": [{ "index": 0, "delta": delta }] }).to_string()
}

fn finish(reason: &str) -> String {
    json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }).to_string()
}

fn usage(input: &Value, output: &Value) -> String {
    json!({ "choices": [], "usage": { "prompt_tokens": input, "completion_tokens": output } }).to_string()
}

fn call(index: usize, name: &str, input: &str) -> String {
    let id = format!("call_{index}");
    call_named(index, &id, name, input)
}

fn call_named(index: usize, id: &str, name: &str, input: &str) -> String {
    chunk(
        &json!({ "tool_calls": [{ "index": index, "id": id, "function": { "name": name, "arguments": input } }] }),
    )
}

fn done() -> RecordedResponse {
    answer(stream(
        Api::OpenAi,
        &[chunk(&json!({ "content": "Done." })), finish("stop"), usage(&json!(10), &json!(2))],
    ))
}

/// A scene whose model plays these responses; `more` is added to the model settings.
pub(crate) async fn playing(api: Api, answers: Vec<RecordedResponse>, more: &str) -> (Scene, Player) {
    let recording = Recording { about: String::new(), api, answer: answers };
    let player = Player::start(&World::real(), 0, Shelf::of(recording)).await.unwrap();
    let kind = if api == Api::OpenAi { "openai" } else { "anthropic" };
    let models = format!(
        "[providers.real]\nkind = '{kind}'\nbase_url = '{}/v1'\napi_key = 'k'\n{more}\n",
        player.url()
    );
    let setup = Setup { models, default: "real/recorded-1", ..Setup::default() };
    (Scene::with_setup(setup).await, player)
}

/// A run with this response, followed by a good one.
async fn run_of(lines: &[String]) -> Vec<Event> {
    let (scene, _player) = playing(Api::OpenAi, vec![answer(stream(Api::OpenAi, lines)), done()], "").await;
    let run = scene.start("go").await;
    sound(&scene.ended(run).await)
}

/// Checks that every event can be exported and imported, and that the run did not end through a bug of this server.
fn sound(events: &[Event]) -> Vec<Event> {
    for event in events {
        let data = event.payload().write();
        let read = door::compact(&data);
        assert!(read.is_ok(), "{} cannot be imported: {read:?}", event.type_name());
        assert!(data.len() <= limits::DATA_BYTES_MAX, "{} has {} bytes", event.type_name(), data.len());
    }
    if let Payload::RunFailed(failed) = events.last().unwrap().payload() {
        assert_ne!(failed.code, "internal", "{}", failed.message);
        assert_ne!(failed.code, "worker_lost", "{}", failed.message);
    }
    events.to_vec()
}

fn texts(events: &[Event]) -> Vec<String> {
    let text = |event: &Event| match event.payload() {
        Payload::AssistantTextComplete(text) if text.aborted != Some(true) => Some(text.text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

/// The recorded adjustments of the first completed turn.
fn adjusted(events: &[Event]) -> Value {
    let completed = events.iter().find(|event| event.type_name() == "turn.completed").unwrap();
    let data: Value = serde_json::from_str(&completed.payload().write()).unwrap();
    data["adjusted"].clone()
}

#[tokio::test]
async fn a_large_piece_of_text_is_recorded_in_blocks() {
    for letter in ["x", "é", "\u{1}"] {
        let whole = letter.repeat(700_000 / letter.len() / if letter == "\u{1}" { 6 } else { 1 });
        let events = run_of(&[chunk(&json!({ "content": whole })), finish("stop")]).await;
        assert_eq!(first!(events, RunFinished).final_status, "completed", "{letter:?}");
        assert_eq!(texts(&events).concat(), whole, "{letter:?}");
    }
}

#[tokio::test]
async fn a_lone_surrogate_is_replaced_and_recorded() {
    let broken =
        r#"{"choices":[{"index":0,"delta":{"content":"a\ud800b \\ud800 \ud83d\ude00 \udc00"}}]}"#.to_owned();
    let events = run_of(&[broken, finish("stop")]).await;
    assert_eq!(texts(&events), ["a\u{fffd}b \\ud800 \u{1f600} \u{fffd}"]);
    assert_eq!(adjusted(&events), json!(["text_replaced"]));
    let events = run_of(&[chunk(&json!({ "content": "fine" })), finish("stop")]).await;
    assert_eq!(adjusted(&events), Value::Null);
}

#[tokio::test]
async fn a_lone_surrogate_in_a_call_input_is_reported_to_the_model() {
    let input = r#"{"path":"\ud800"}"#;
    let events = run_of(&[call(0, "read_file", input), finish("tool_calls")]).await;
    assert_eq!(first!(events, RunFinished).final_status, "completed");
    let (code, why) = refusals(&events)[0].clone();
    assert_eq!(code, "invalid_input");
    assert!(why.contains("surrogate"), "{why}");
}

#[tokio::test]
async fn calls_beyond_the_limit_are_refused_with_a_message_to_the_model() {
    let mut lines: Vec<String> = (0..70).map(|at| call(at, "glob", r#"{"pattern":"*"}"#)).collect();
    lines.push(finish("tool_calls"));
    let events = run_of(&lines).await;
    assert_eq!(first!(events, RunFinished).final_status, "completed");
    assert_eq!((count(&events, "tool.completed"), count(&events, "tool.refused")), (64, 6));
    let outputs = results(&events);
    assert_eq!(outputs.len(), 70);
    assert!(outputs[63].0.contains("no match") || !outputs[63].1, "{:?}", outputs[63]);
    assert!(outputs[64].1 && outputs[64].0.contains("64 calls"), "{:?}", outputs[64]);
}

#[tokio::test]
async fn too_many_calls_fail_the_turn_with_their_number() {
    let mut lines: Vec<String> = (0..200).map(|at| call(at, "glob", r#"{"pattern":"*"}"#)).collect();
    lines.push(finish("tool_calls"));
    let (scene, _player) = playing(Api::OpenAi, vec![answer(stream(Api::OpenAi, &lines))], "").await;
    let run = scene.start("go").await;
    let events = sound(&scene.ended(run).await);
    let failed = first!(events, RunFailed);
    assert_eq!(failed.code, "model_malformed");
    assert!(failed.message.contains("128 calls"), "{}", failed.message);
}

#[tokio::test]
async fn impossible_usage_figures_are_limited_and_recorded() {
    let tiny = json!(1);
    for (tokens, counted, adjustments) in [
        (json!(u64::MAX), 1_u64 << 32, json!(["usage_bounded"])),
        (json!(1e300), 1 << 32, json!(["usage_bounded"])),
        (json!(-5), 0, json!(["usage_unreadable"])),
        (json!("many"), 0, json!(["usage_unreadable"])),
        (json!(12.0), 12, Value::Null),
    ] {
        let lines = [chunk(&json!({ "content": "x" })), finish("stop"), usage(&tokens, &tiny)];
        let events = run_of(&lines).await;
        let completed = first!(events, TurnCompleted);
        assert_eq!(completed.input_tokens, Some(counted), "{tokens}");
        assert_eq!(adjusted(&events), adjustments, "{tokens}");
    }
}

#[tokio::test]
async fn long_names_and_ids_are_truncated_and_recorded() {
    let long = "n\u{0}\u{1b}".repeat(50_000);
    let lines = [call_named(0, &long, "glob", r#"{"pattern":"*"}"#), finish("tool_calls")];
    let events = run_of(&lines).await;
    assert_eq!(adjusted(&events), json!(["call_id_replaced"]));
    assert_eq!(first!(events, AssistantToolCallProposed).provider_call_id, None);
    assert_eq!(count(&events, "tool.completed"), 1);
    let lines = [call(0, &long, "{}"), finish("tool_calls")];
    let events = run_of(&lines).await;
    assert_eq!(adjusted(&events), json!(["tool_name_shortened"]));
    assert_eq!(refusals(&events)[0].0, "unknown_tool");
}

#[tokio::test]
async fn ambiguous_inputs_are_refused_with_a_reason_for_the_model() {
    let deep = |levels: usize| format!("{{\"pattern\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    for (input, why) in [
        (deep(63), "nested"),
        (deep(64), "nested"),
        (deep(500), "nested"),
        (r#"{"pattern":"a","pattern":"b"}"#.to_owned(), "duplicate"),
        (r#"{"pattern":"a","n":9007199254740993}"#.to_owned(), "too large"),
        ("{\"pattern\":\"a\u{1}\"}".to_owned(), "control character"),
        (format!("{{\"pattern\":\"{}\"}}", "\u{1}".repeat(200_000)), "control character"),
        (format!("{{\"pattern\":\"{}\"}}", "y".repeat(300_000)), "bytes"),
    ] {
        let events = run_of(&[call(0, "glob", &input), finish("tool_calls")]).await;
        assert_eq!(first!(events, RunFinished).final_status, "completed");
        let (code, message) = refusals(&events)[0].clone();
        assert_eq!(code, "invalid_input", "{why}");
        assert!(message.contains(why), "{message} does not say {why}");
    }
}

#[tokio::test]
async fn a_model_that_alternates_reasoning_and_text_endlessly_is_stopped() {
    let mut lines = Vec::new();
    for _ in 0..2_500 {
        lines.push(chunk(&json!({ "content": "x" })));
        lines.push(chunk(&json!({ "reasoning": "y" })));
    }
    lines.push(finish("stop"));
    let (scene, _player) = playing(Api::OpenAi, vec![answer(stream(Api::OpenAi, &lines))], "").await;
    let order = recount_engine::RunConfig { thinking: true, ..recount_engine::RunConfig::default() };
    let run = scene.start_with("go", order, None, None).await;
    let (page, _) = {
        scene.until(run, "run.failed").await;
        scene.engine.read().read_run(run, None, 30_000).await.unwrap()
    };
    let last = recount_event::codec::decode(&page.last().unwrap().1).unwrap();
    let Payload::RunFailed(failed) = last.payload() else { panic!("{}", last.type_name()) };
    assert_eq!(failed.code, "model_malformed", "{}", failed.message);
    assert!(failed.message.contains("blocks"), "{}", failed.message);
}

/// Deterministic random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.roll() % most as u64).unwrap()
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    /// A JSON text, which may be invalid.
    fn text(&mut self) -> String {
        let pieces: [&str; 14] = [
            "word ",
            "\\u0000",
            "\\ud800",
            "\\udc00",
            "\\ud83d\\ude00",
            "\\n",
            "\\\\",
            "\\\"",
            "é",
            "\u{202e}",
            "{}",
            "ghp_a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2",
            "\\u0001",
            "日本",
        ];
        let times = [1, 3, 40, 3_000][self.below(4)];
        (0..self.below(6)).map(|_| self.one(&pieces).repeat(1 + self.below(times))).collect()
    }

    fn number(&mut self) -> String {
        let numbers = [
            "0",
            "1",
            "-1",
            "9007199254740993",
            "18446744073709551616",
            "1e400",
            "0.5",
            "null",
            "\"x\"",
            "{}",
        ];
        self.one(&numbers).to_owned()
    }

    fn name(&mut self) -> String {
        match self.below(4) {
            0 => self.text(),
            1 => String::new(),
            _ => self.one(&["glob", "read_file", "todo_write", "write_file", "ask_user"]).to_owned(),
        }
    }

    /// The input of a call, escaped for a JSON string.
    fn input(&mut self) -> String {
        let inputs = [
            r#"{\"pattern\":\"*\"}"#,
            r#"{\"path\":\"a.txt\",\"content\":\"x\"}"#,
            r#"{\"pattern\":\"\\ud800\"}"#,
            r#"{\"a\":1,\"a\":2}"#,
            r#"{\"a\":9007199254740993}"#,
            r#"[[[[[["#,
            "",
            "null",
        ];
        match self.below(3) {
            0 => self.text(),
            _ => self.one(&inputs).to_owned(),
        }
    }

    fn openai(&mut self) -> String {
        let index = self.below(80);
        match self.below(9) {
            0 | 1 => format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{}"}}}}]}}"#, self.text()),
            2 => format!(r#"{{"choices":[{{"index":0,"delta":{{"reasoning":"{}"}}}}]}}"#, self.text()),
            3..=5 => format!(
                r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":{index},"id":"{}","function":{{"name":"{}","arguments":"{}"}}}}]}}}}]}}"#,
                self.text(),
                self.name(),
                self.input()
            ),
            6 => format!(
                r#"{{"choices":[],"usage":{{"prompt_tokens":{},"completion_tokens":{}}}}}"#,
                self.number(),
                self.number()
            ),
            7 => format!(
                r#"{{"choices":[{{"index":{},"delta":{{}},"finish_reason":"{}"}}]}}"#,
                self.number(),
                self.text()
            ),
            _ => self.text(),
        }
    }

    fn anthropic(&mut self) -> String {
        let index = self.below(80);
        match self.below(9) {
            0 => format!(
                r#"{{"type":"message_start","message":{{"usage":{{"input_tokens":{},"output_tokens":{}}}}}}}"#,
                self.number(),
                self.number()
            ),
            1 | 2 => format!(
                r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":"{}"}}}}"#,
                self.text()
            ),
            3 | 4 => format!(
                r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"tool_use","id":"{}","name":"{}","input":{{}}}}}}"#,
                self.text(),
                self.name()
            ),
            5 => format!(
                r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"input_json_delta","partial_json":"{}"}}}}"#,
                self.input()
            ),
            6 => format!(r#"{{"type":"content_block_stop","index":{index}}}"#),
            7 => format!(
                r#"{{"type":"message_delta","delta":{{"stop_reason":"{}"}},"usage":{{"output_tokens":{}}}}}"#,
                self.text(),
                self.number()
            ),
            _ => self.text(),
        }
    }

    fn body(&mut self, api: Api) -> RecordedResponse {
        let mut lines = Vec::new();
        for _ in 0..self.below(20) {
            lines.push(if api == Api::OpenAi { self.openai() } else { self.anthropic() });
        }
        if self.below(4) > 0 {
            lines.push(match api {
                Api::OpenAi => finish("stop"),
                Api::Anthropic => r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#.to_owned(),
            });
        }
        let end = if self.below(5) == 0 { End::Cut } else { End::Whole };
        // Some chunks end in the middle of a character.
        let chunk_bytes = (self.below(3) == 0).then(|| 1 + self.below(900));
        RecordedResponse { end, chunk_bytes, ..answer(stream(api, &lines)) }
    }
}

/// One run with random streams. Returns its ending.
async fn hostile_run(seed: u64) -> String {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let api = if seed.is_multiple_of(2) { Api::OpenAi } else { Api::Anthropic };
    let answers = (0..6).map(|_| dice.body(api)).collect();
    let (scene, _player) = playing(api, answers, "").await;
    let order = recount_engine::RunConfig {
        max_turns: Some(4),
        tools: Some(["glob", "read_file", "todo_write", "write_file"].map(str::to_owned).to_vec()),
        thinking: seed.is_multiple_of(3),
        ..recount_engine::RunConfig::default()
    };
    let run = scene.start_with("go", order, None, None).await;
    let events = sound(&scene.ended(run).await);
    assert!(types(&events).len() > 3, "seed {seed}");
    match events.last().unwrap().payload() {
        Payload::RunFailed(failed) => failed.code.clone(),
        other => other.type_name().to_owned(),
    }
}

#[tokio::test]
async fn random_hostile_streams_end_every_run_legally() {
    // Failed attempts are followed by a wait, so several runs are concurrent.
    let runs = futures_util::stream::iter(1..=48).map(hostile_run).buffer_unordered(12);
    let endings: std::collections::BTreeSet<String> = runs.collect().await;
    // The seeds produce good endings as well as bad ones.
    assert!(endings.len() > 1 && endings.contains("run.finished"), "{endings:?}");
}
