//! Runs that only talk: no folder, one append for their beginning, thoughts where they are wanted, and the key of the
//! client that pays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use recount_engine::{AgentOption, NewSetup, OptionKind, Order, Profile, Profiles, Purpose, Sets, Setup};
use recount_event::family::run::Agent;
use recount_event::{Payload, SessionId, codec};
use recount_playback::{Player, Shelf};
use recount_world::World;

use crate::runs::applications::{answer, call_of, client_tool, output};
use crate::runs::providers::recording;
use crate::runs::scene::{self, Scene, asked, count, first, types};

fn chat() -> Order {
    Order { tools: Some(vec![]), ..Order::default() }
}

/// The types of events of each append.
fn appends(scene: &Scene) -> Vec<Vec<String>> {
    let types = |records: Vec<bytes::Bytes>| -> Vec<String> {
        records.iter().map(|bytes| codec::decode(bytes).unwrap().type_name().to_owned()).collect()
    };
    scene.disk.appends().into_iter().map(types).filter(|types| !types.is_empty()).collect()
}

#[tokio::test]
async fn a_chat_waits_for_the_disk_three_times_and_makes_no_folder() {
    let scene = Scene::with("[[turn]]\ntext = 'Hello.'").await;
    let run = scene.ask_for("say hello", chat(), None, None).await;
    let events = scene.ended(run).await;
    let appends = appends(&scene);
    assert_eq!(appends[0], ["run.queued"]);
    assert_eq!(appends[1], ["run.started", "user.message", "turn.started"]);
    // The answer's only piece may come with its end, or before.
    assert!(appends.len() <= 4, "{appends:#?}");
    assert_eq!(count(&events, "workspace.provisioned"), 0);
    let path = first!(events, RunQueued).workspace_path.unwrap();
    assert!(!std::path::Path::new(&path).exists());
    assert!(first!(events, TurnStarted).input_tokens_estimate.unwrap() > 1);
}

#[tokio::test]
async fn a_list_of_things_to_do_needs_no_folder_and_a_file_does() {
    let script = r#"
[[turn]]
call = [{ name = "todo_write", input = { todos = [{ content = "This", status = "pending" }] } }]
[[turn]]
call = [{ name = "wait" }]
[[turn]]
call = [{ name = "write_file", input = { path = "a.txt", content = "one" } }]
[[turn]]
text = "Done."
"#;
    let scene = Scene::with(script).await;
    let order = Order {
        tools: Some(vec!["todo_write".into()]),
        client_tools: vec![client_tool("wait")],
        ..Order::default()
    };
    let run = scene.ask_for("go", order.clone(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!((count(&events, "tool.completed"), count(&events, "workspace.provisioned")), (1, 0));
    // With the answer it gets a tool that works somewhere.
    let order = Order { tools: Some(vec!["write_file".into()]), ..order };
    let change = recount_engine::OrderChange::to(None, &order).written();
    answer(&scene, run, vec![output(call_of(&events, "wait"), "\"go on\"")], Some(change)).await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "workspace.provisioned"), 1, "{:?}", types(&events));
    assert_eq!(count(&events, "tool.file_write.applied"), 1);
}

/// P-031, P-032: thoughts come first, in blocks of their own; nobody who did not ask hears of them, nor does the model.
#[tokio::test]
async fn what_a_model_thinks_is_told_where_it_is_wanted() {
    let script = r#"
[[turn]]
thinking = "I might look."
text = "I look."
call = [{ name = "todo_write", input = { todos = [] } }]
[[turn]]
thinking = "Nothing there."
text = "Done."
"#;
    for thinking in [true, false] {
        let scene = Scene::with(script).await;
        let order = Order { thinking, tools: Some(vec!["todo_write".into()]), ..Order::default() };
        let run = scene.ask_for("go", order, None, None).await;
        let events = scene.ended(run).await;
        let told: Vec<(u64, u64, String)> = events
            .iter()
            .filter_map(|event| match event.payload() {
                Payload::AssistantThinkingComplete(text) | Payload::AssistantTextComplete(text) => {
                    Some((text.turn_index, text.block_index, text.text.clone()))
                }
                _ => None,
            })
            .collect();
        let block = |turn, block, text: &str| (turn, block, text.to_owned());
        if thinking {
            let blocks = [
                block(0, 0, "I might look."),
                block(0, 1, "I look."),
                block(1, 0, "Nothing there."),
                block(1, 1, "Done."),
            ];
            assert_eq!(told, blocks);
        } else {
            assert_eq!(told, [block(0, 0, "I look."), block(1, 0, "Done.")]);
        }
        assert_eq!(first!(events, AssistantFinalAnswer).summary, "Done.");
        let mut conversation = recount_agent::conversation::Conversation::default();
        events.iter().for_each(|event| conversation.event(event));
        assert!(!format!("{:?}", conversation.messages(None)).contains("Nothing there."));
    }
}

const KEY: &str = "a key of the client's own";

/// A scene whose model is a provider over the wire, and whose agent has an option for the provider's key.
async fn with_key(name: &str, default: &str) -> (Scene, Player) {
    let player = Player::start(&World::real(), 0, Shelf::of(recording(name))).await.unwrap();
    let models = format!(
        "[providers.real]\nkind = 'openai'\nbase_url = '{}/v1'\napi_key = 'own-key-of-it'\n",
        player.url()
    );
    let option = AgentOption {
        name: "key".into(),
        title: None,
        description: None,
        kind: OptionKind::Secret,
        default: default.into(),
        sets: Some(Sets::ApiKey),
    };
    let profile = Profile { name: "clerk".into(), options: vec![option], ..Profile::default() };
    let profiles = Arc::new(Profiles::new([profile]));
    let setup = scene::Setup { models, default: "real/recorded-1", profiles, ..scene::Setup::default() };
    (Scene::of(setup).await, player)
}

async fn session_with(scene: &Scene, key: Option<&str>) -> SessionId {
    let secrets: BTreeMap<String, String> = key.iter().map(|key| ("key".into(), (*key).into())).collect();
    let names: BTreeSet<String> = secrets.keys().cloned().collect();
    let setup = Setup { agent: "clerk".into(), secrets: names, ..Setup::default() };
    let new = NewSetup { setup, secrets, ..NewSetup::default() };
    scene.engine.write().create_setup(new, None).await.unwrap().id
}

async fn run_with_key(scene: &Scene, session: SessionId) -> Vec<recount_event::Event> {
    let order = Order { secrets: BTreeMap::from([(Purpose::ApiKey, "key".into())]), ..chat() };
    let mut queued = asked("hello");
    queued.agent = Some(Agent { name: "clerk".into(), version: None });
    let run = scene.queue(queued, order, None, Some(session)).await;
    scene.ended(run).await
}

#[tokio::test]
async fn a_run_asks_under_the_key_that_was_chosen_for_its_session() {
    for (chosen, default, sent) in [
        (Some(KEY), "the agent's key", KEY),
        (None, "the agent's key", "the agent's key"),
        (Some(""), "the agent's key", "own-key-of-it"),
        (None, "", "own-key-of-it"),
    ] {
        let (mut scene, player) = with_key("text", default).await;
        let session = session_with(&scene, chosen).await;
        scene.restart().await;
        let events = run_with_key(&scene, session).await;
        assert_eq!(types(&events).last(), Some(&"run.finished"));
        assert_eq!(player.seen()[0].headers["authorization"], format!("Bearer {sent}"));
        assert!(!scene.disk.has_seen(KEY));
    }
}

/// P-064: a provider that says a key back does not bring it into the log, whole or in part.
#[tokio::test]
async fn a_key_that_a_provider_says_back_is_masked() {
    for (status, before) in [(401, 0), (401, 490), (200, 0)] {
        let (scene, player) = with_key("unauthorized", "").await;
        let mut recorded = recording(if status == 200 { "text" } else { "unauthorized" });
        let body = &mut recorded.answer[0].body;
        if status == 200 {
            // In two pieces.
            let (head, tail) = KEY.split_at(9);
            *body = body.replace("\"Good ", &format!("\"Good {head}"));
            *body = body.replace("\"morning", &format!("\"{tail} morning"));
        } else {
            *body = serde_json::json!({ "error": { "message": format!("{}{KEY} is wrong", "x".repeat(before)) } }).to_string();
        }
        drop(player);
        let player = Player::start(&World::real(), 0, Shelf::of(recorded)).await.unwrap();
        let models = format!(
            "[providers.real]\nkind = 'openai'\nbase_url = '{}/v1'\napi_key = 'own-key-of-it'\n",
            player.url()
        );
        let setup = scene::Setup { models, ..scene.setup.clone() };
        let scene = Scene::of(setup).await;
        let session = session_with(&scene, Some(KEY)).await;
        let events = run_with_key(&scene, session).await;
        assert_eq!(player.seen()[0].headers["authorization"], format!("Bearer {KEY}"));
        let told = scene.told(events[0].run_id).await.join("\n");
        assert!(!told.contains(&KEY[..5]) && told.contains("*****"), "{told}");
    }
}

#[tokio::test]
async fn a_key_that_cannot_be_read_any_more_fails_the_run_and_nobody_else_pays() {
    let (mut scene, player) = with_key("text", "the agent's key").await;
    let session = session_with(&scene, Some(KEY)).await;
    // Another key of the server's own.
    scene.setup.key = Some([8; recount_engine::SEAL_KEY_BYTES]);
    scene.restart().await;
    let failed = first!(run_with_key(&scene, session).await, RunFailed);
    assert_eq!(failed.code, "secret_lost");
    assert!(failed.message.contains("option key"), "{}", failed.message);
    assert!(player.seen().is_empty());
}
