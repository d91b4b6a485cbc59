//! Runs that only exchange messages: no workspace, one append at the start, reasoning where it is enabled, and the
//! provider key of the paying client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use recount_engine::{
    AgentOption, NewSetup, OptionKind, OptionTarget, Profile, Profiles, Purpose, RunConfig, Setup,
};
use recount_event::family::run::Agent;
use recount_event::{Payload, SessionId, codec};
use recount_playback::{Player, Shelf};
use recount_world::World;

use crate::runs::applications::{answer, call_of, client_tool, output};
use crate::runs::providers::recording;
use crate::runs::scene::{self, Scene, count, first, model_run, types};

fn chat() -> RunConfig {
    RunConfig { tools: Some(vec![]), ..RunConfig::default() }
}

/// The types of events of each append.
fn appends(scene: &Scene) -> Vec<Vec<String>> {
    let types = |records: Vec<bytes::Bytes>| -> Vec<String> {
        records.iter().map(|bytes| codec::decode(bytes).unwrap().type_name().to_owned()).collect()
    };
    scene.disk.appends().into_iter().map(types).filter(|types| !types.is_empty()).collect()
}

#[tokio::test]
async fn a_chat_waits_for_three_syncs_and_creates_no_folder() {
    let scene = Scene::with("[[turn]]\ntext = 'Hello.'").await;
    let run = scene.start_with("say hello", chat(), None, None).await;
    let events = scene.ended(run).await;
    let appends = appends(&scene);
    assert_eq!(appends[0], ["run.queued"]);
    assert_eq!(appends[1], ["run.started", "user.message", "turn.started"]);
    // The only piece of text may come with its end, or before.
    assert!(appends.len() <= 4, "{appends:#?}");
    assert_eq!(count(&events, "workspace.provisioned"), 0);
    let path = first!(events, RunQueued).workspace_path.unwrap();
    assert!(!std::path::Path::new(&path).exists());
    assert!(first!(events, TurnStarted).input_tokens_estimate.unwrap() > 1);
}

#[tokio::test]
async fn a_todo_list_needs_no_folder_and_a_file_does() {
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
    let order = RunConfig {
        tools: Some(vec!["todo_write".into()]),
        client_tools: vec![client_tool("wait")],
        ..RunConfig::default()
    };
    let run = scene.start_with("go", order.clone(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!((count(&events, "tool.completed"), count(&events, "workspace.provisioned")), (1, 0));
    // With the response it gets a tool that needs a workspace.
    let order = RunConfig { tools: Some(vec!["write_file".into()]), ..order };
    let change = recount_engine::RunConfigChange::from_config(None, &order).written();
    answer(&scene, run, vec![output(call_of(&events, "wait"), "\"go on\"")], Some(change)).await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "workspace.provisioned"), 1, "{:?}", types(&events));
    assert_eq!(count(&events, "tool.file_write.applied"), 1);
}

/// P-031, P-032: reasoning comes first, in separate blocks. Clients that did not request it do not receive it, and
/// neither does the model.
#[tokio::test]
async fn reasoning_is_recorded_where_it_is_enabled() {
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
        let order = RunConfig { thinking, tools: Some(vec!["todo_write".into()]), ..RunConfig::default() };
        let run = scene.start_with("go", order, None, None).await;
        let events = scene.ended(run).await;
        let recorded: Vec<(u64, u64, String)> = events
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
            assert_eq!(recorded, blocks);
        } else {
            assert_eq!(recorded, [block(0, 0, "I look."), block(1, 0, "Done.")]);
        }
        assert_eq!(first!(events, AssistantFinalAnswer).summary, "Done.");
        let mut conversation = recount_agent::conversation::Conversation::default();
        events.iter().for_each(|event| conversation.event(event));
        assert!(!format!("{:?}", conversation.messages(None)).contains("Nothing there."));
    }
}

const KEY: &str = "a key of the client's own";

/// A scene whose model is a provider on a socket, and whose agent has an option for the provider's key.
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
        sets: Some(OptionTarget::ApiKey),
    };
    let profile = Profile { name: "clerk".into(), options: vec![option], ..Profile::default() };
    let profiles = Arc::new(Profiles::new([profile]));
    let setup = scene::Setup { models, default: "real/recorded-1", profiles, ..scene::Setup::default() };
    (Scene::with_setup(setup).await, player)
}

async fn session_with(scene: &Scene, key: Option<&str>) -> SessionId {
    let secrets: BTreeMap<String, String> = key.iter().map(|key| ("key".into(), (*key).into())).collect();
    let names: BTreeSet<String> = secrets.keys().cloned().collect();
    let setup = Setup { agent: "clerk".into(), secrets: names, ..Setup::default() };
    let new = NewSetup { setup, secrets, ..NewSetup::default() };
    scene.engine.write().create_setup(new, None).await.unwrap().id
}

async fn run_with_key(scene: &Scene, session: SessionId) -> Vec<recount_event::Event> {
    let order = RunConfig { secrets: BTreeMap::from([(Purpose::ApiKey, "key".into())]), ..chat() };
    let mut queued = model_run("hello");
    queued.agent = Some(Agent { name: "clerk".into(), version: None });
    let run = scene.queue(queued, order, None, Some(session)).await;
    scene.ended(run).await
}

#[tokio::test]
async fn a_run_uses_the_provider_key_of_its_session() {
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

/// P-064: a key that a provider repeats is not recorded, neither completely nor in part.
#[tokio::test]
async fn a_key_that_a_provider_repeats_is_masked() {
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
        let scene = Scene::with_setup(setup).await;
        let session = session_with(&scene, Some(KEY)).await;
        let events = run_with_key(&scene, session).await;
        assert_eq!(player.seen()[0].headers["authorization"], format!("Bearer {KEY}"));
        let log = scene.stored_lines(events[0].run_id).await.join("\n");
        assert!(!log.contains(&KEY[..5]) && log.contains("*****"), "{log}");
    }
}

#[tokio::test]
async fn an_unreadable_key_fails_the_run_and_no_other_key_is_used() {
    let (mut scene, player) = with_key("text", "the agent's key").await;
    let session = session_with(&scene, Some(KEY)).await;
    // Another sealing key of the server.
    scene.setup.key = Some([8; recount_engine::SEAL_KEY_BYTES]);
    scene.restart().await;
    let failed = first!(run_with_key(&scene, session).await, RunFailed);
    assert_eq!(failed.code, "secret_lost");
    assert!(failed.message.contains("option key"), "{}", failed.message);
    assert!(player.seen().is_empty());
}
