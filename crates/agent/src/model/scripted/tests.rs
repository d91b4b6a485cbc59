//! Responses and failures of scripts, and scripts that are rejected.

use super::*;
use crate::model::{Call, CallResult};

fn user(text: &str) -> Message {
    Message::User(vec![Part::Text(text.into())])
}

fn response(text: &str) -> Message {
    Message::Assistant { text: Some(text.into()), calls: vec![] }
}

fn called(id: &str) -> Message {
    let call = Call { id: id.into(), name: "t".into(), input: serde_json::json!({}) };
    Message::Assistant { text: None, calls: vec![call] }
}

fn result(text: &str) -> Message {
    let parts = vec![Part::Text(text.into())];
    Message::Results(vec![CallResult { call_id: "c".into(), parts, is_error: false }])
}

fn request(messages: Vec<Message>) -> Arc<Request> {
    Arc::new(Request {
        model: "any".into(),
        system: None,
        messages,
        tools: vec![],
        max_output_tokens: 1000,
        streams_call_inputs: false,
        key: None,
    })
}

fn scripted(text: &str) -> Scripted {
    Scripted::new(Script::parse(text).unwrap())
}

async fn receive(model: &Scripted, messages: Vec<Message>) -> (Vec<Piece>, Option<Failure>) {
    let mut reply = model.begin(request(messages));
    let mut pieces = Vec::new();
    loop {
        match reply.next().await {
            Ok(piece) => {
                let is_end = matches!(piece, Piece::Finish { .. });
                pieces.push(piece);
                if is_end {
                    return (pieces, None);
                }
            }
            Err(failure) => return (pieces, Some(failure)),
        }
    }
}

async fn text_of(model: &Scripted, messages: Vec<Message>) -> String {
    let (pieces, failure) = receive(model, messages).await;
    assert_eq!(failure, None);
    pieces
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(text),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_sent_in_order_completely_and_at_its_pace() {
    let model = scripted(
        r#"
        pace = { words = 2, tokens_per_second = 20 }
        [[turn]]
        thinking = "let me see"
        text = " one two  three\nfour five"
        usage = { input_tokens = 7, output_tokens = 8, cached_input_tokens = 3 }
        pace = { delay_ms = 500 }
        call = [{ name = "a", input = { n = 1 } }, { name = "b", raw = "{oops", id = "mine" }]
        "#,
    );
    let mut reply = model.begin(request(vec![user("go")]));
    let started = recount_world::moment();
    let mut received = Vec::new();
    for _ in 0..8 {
        let piece = reply.next().await.unwrap();
        received.push((started.elapsed().as_millis(), piece));
    }
    let text = |text: &str| Piece::Text(text.into());
    let call = |id: &str, name: &str, input: &str| Piece::Call {
        provider_call_id: id.into(),
        name: name.into(),
        input: input.into(),
    };
    let usage = Usage { input_tokens: 7, output_tokens: 8, cached_input_tokens: 3 };
    assert_eq!(
        received,
        [
            (500, Piece::Thinking("let me ".into())),
            (600, Piece::Thinking("see".into())),
            (650, text(" one two  ")),
            (750, text("three\nfour ")),
            (850, text("five")),
            (900, call("scripted_1", "a", r#"{"n":1}"#)),
            (950, call("mine", "b", "{oops")),
            (1000, Piece::Finish { stop: StopReason::ToolUse, usage }),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_turn_depends_only_on_the_conversation() {
    let model = scripted(
        r#"
        end = "over"
        [[turn]]
        text = "first"
        [[turn]]
        when = "FAILED"
        text = "fix it"
        [[turn]]
        text = "second"
        [[scene]]
        when = "fix"
        end = "fixed"
        [[scene.turn]]
        text = "fixing"
        "#,
    );
    for (messages, text) in [
        (vec![user("go")], "first"),
        (vec![user("a"), response("x"), user("go")], "first"),
        (vec![user("go"), called("c"), result("ok")], "second"),
        (vec![user("go"), called("c"), result("2 FAILED")], "fix it"),
        (vec![user("go"), called("c"), result("2 FAILED"), called("d"), result("ok")], "over"),
        (vec![user("FAILED")], "first"),
        (vec![user("please fix"), user("soon")], "fixing"),
        (vec![user("please fix"), response("x"), user("go")], "first"),
        (vec![user("fix"), called("c"), result("ok")], "fixed"),
        (vec![], "first"),
    ] {
        assert_eq!(text_of(&model, messages.clone()).await, text, "{messages:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_follow_the_script() {
    let failing = |failure: &str| format!("[[turn]]\ntext = \"one two\"\nfailure = {{ {failure} }}");
    for (failure, code, sent, retriable) in [
        (r#"how = "status", status = 429, retry_after_ms = 1500"#, "model_rate_limited", 0, true),
        (r#"how = "status", status = 529"#, "model_overloaded", 0, true),
        (r#"how = "status", status = 401"#, "model_unauthorized", 0, false),
        (r#"how = "cut", after = 1"#, "model_cut", 1, true),
        (r#"how = "cut", after = 99"#, "model_cut", 2, true),
        (r#"how = "malformed""#, "model_malformed", 0, true),
        (r#"how = "unreachable", retriable = false"#, "model_unreachable", 0, false),
        (r#"how = "silent", after = 1"#, "model_timeout", 1, true),
    ] {
        let (pieces, result) = receive(&scripted(&failing(failure)), vec![user("go")]).await;
        let result = result.unwrap();
        assert_eq!((result.code, pieces.len(), result.retriable), (code, sent, retriable), "{failure}");
        let wait = failure.contains("retry_after").then_some(Duration::from_millis(1500));
        assert_eq!(result.retry_after, wait);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_count_applies_to_each_conversation() {
    let model =
        scripted("[[turn]]\ntext = \"at last\"\nfailure = { how = \"status\", status = 500, times = 2 }");
    for messages in [vec![user("a")], vec![user("b")]] {
        assert_eq!(receive(&model, messages.clone()).await.1.unwrap().code, "model_failed");
        assert_eq!(receive(&model, messages.clone()).await.1.unwrap().code, "model_failed");
        assert_eq!(text_of(&model, messages).await, "at last");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_is_resumed() {
    let model = scripted("[[turn]]\ntext = \"one two\"\npace = { tokens_per_second = 1 }");
    let mut reply = model.begin(request(vec![user("go")]));
    assert_eq!(reply.next().await, Ok(Piece::Text("one ".into())));
    let started = recount_world::moment();
    for _ in 0..3 {
        tokio::time::timeout(Duration::from_millis(300), reply.next()).await.unwrap_err();
    }
    assert_eq!(reply.next().await, Ok(Piece::Text("two".into())));
    assert_eq!(started.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn five_hundred_concurrent_replies_are_on_time() {
    let text = "word ".repeat(200);
    let model =
        scripted(&format!("[[turn]]\ntext = \"{text}\"\npace = {{ words = 1, tokens_per_second = 20 }}"));
    let one = |at: usize| {
        let mut reply = model.begin(request(vec![user(&at.to_string())]));
        async move {
            let (started, mut last) = (recount_world::moment(), 0);
            while !matches!(reply.next().await.unwrap(), Piece::Finish { .. }) {
                last = started.elapsed().as_millis();
            }
            last
        }
    };
    let lasts = futures_util::future::join_all((0..500).map(one)).await;
    assert!(lasts.iter().all(|last| *last == 199 * 50), "{lasts:?}");
}

#[tokio::test]
async fn a_folder_has_a_model_for_each_script() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.toml"), "[[turn]]\ntext = \"I am a\"").unwrap();
    std::fs::write(folder.path().join("b.toml"), "").unwrap();
    std::fs::write(folder.path().join("notes.md"), "no script").unwrap();
    let model = Scripted::load(folder.path()).unwrap();
    assert_eq!(model.models().collect::<Vec<_>>(), ["a", "b"]);
    let of_model =
        |name: &str| Arc::new(Request { model: name.into(), ..(*request(vec![user("x")])).clone() });
    assert_eq!(model.begin(of_model("a")).next().await, Ok(Piece::Text("I ".into())));
    assert_eq!(model.begin(of_model("b")).next().await, Ok(Piece::Text("The ".into())));
    let failure = model.begin(of_model("c")).next().await.unwrap_err();
    assert_eq!(failure.code, "model_not_found");
    assert_eq!(failure.message, "unknown script \"c\"; available scripts: a, b");
}

#[test]
fn invalid_scripts_are_rejected() {
    for (text, why) in [
        ("turns = []", "unknown field"),
        ("[[turn]]\ntext = 1", "invalid type"),
        ("[[turn]]\nstop = \"maybe\"", "unknown variant"),
        ("[[turn]]\ncall = [{ name = \"a\", input = {}, raw = \"\" }]", "both input and raw"),
        ("[[turn]]\nfailure = { how = \"status\" }", "a failure needs a status"),
        ("[[turn]]\nfailure = { how = \"cut\", status = 500 }", "a failure needs a status"),
        ("[[turn]]\nfailure = { how = \"status\", status = 200 }", "400 to 599"),
        ("pace = { words = 0 }", "at least one word"),
        ("pace = { tokens_per_second = 0 }", "tokens_per_second"),
        ("pace = { tokens_per_second = nan }", "tokens_per_second"),
        ("pace = { delay_ms = 100000000000 }", "delay_ms"),
    ] {
        let refused = Script::parse(text).unwrap_err();
        assert!(refused.contains(why), "{text}: {refused}");
    }
    assert!(matches!(Scripted::load(Path::new("/nowhere/at/all")), Err(ScriptError::Unreadable { .. })));
}

proptest::proptest! {
    #[test]
    fn pieces_join_to_the_text(text in "\\PC{0,80}|[a ä\n]{0,40}", words in 1u32..4, bytes in proptest::option::of(1u32..5)) {
        let pace = Pace { words: Some(words), bytes, ..Pace::default() };
        let (mut at, mut joined) = (0, String::new());
        while at < text.len() {
            let piece = next_piece(&text, at, pace);
            proptest::prop_assert!(piece.end > at);
            joined.push_str(&text[piece.clone()]);
            at = piece.end;
        }
        proptest::prop_assert_eq!(joined, text);
    }
}
