//! A run that starts a run, over HTTP, whose server is killed while the started one waits for a person.

use recount_client::{Client, Listing, reply};
use serde_json::Value;

use crate::process::scene::{Scene, all};
use crate::server::{CommandOutput, Server};

const SCRIPT: &str = r#"
[[scene]]
when = "the whole"
[[scene.turn]]
call = [{ name = "spawn_run", input = { prompt = "ask about the part", title = "The part" } }]
[[scene.turn]]
when = "It is blue."
text = "All is blue."
[[scene.turn]]
text = "Nothing is known."

[[scene]]
when = "the part"
[[scene.turn]]
call = [{ name = "ask_user", input = { question = "Which one?" } }]
[[scene.turn]]
text = "It is blue."
"#;

async fn events(client: &Client, run: &str) -> Vec<Value> {
    let page = client.read_run_events(run, None, Some(1000)).await.unwrap();
    page.data.iter().map(|envelope| serde_json::from_str(envelope.get()).unwrap()).collect()
}

/// The question of the started run, when it is asked.
async fn question(client: &Client) -> String {
    loop {
        let pending = Listing { status: Some("pending".to_owned()), ..Listing::default() };
        if let Some(question_id) =
            client.list_prompts::<reply::Clarification>(&pending).await.unwrap().data.first()
        {
            return question_id.id.clone();
        }
        crate::server::look_again().await;
    }
}

async fn ended(client: &Client, run: &str) {
    while client.get_run(run).await.unwrap().ended_at.is_none() {
        crate::server::look_again().await;
    }
}

fn client_of(server: &Server) -> Client {
    Client::new(&server.url(), None).unwrap()
}

#[tokio::test]
async fn a_started_run_outlives_a_killed_server_and_its_answer_arrives() {
    let scene = Scene::playing(SCRIPT).with("[experimental]\nchild_runs = true\n");
    let mut server = scene.server();
    CommandOutput::of(&mut scene.run(&server, &["the whole", "--detach"])).good();
    let question_id = question(&client_of(&server)).await;
    server.kill();
    let server = scene.server();
    let client = client_of(&server);
    server.ask(&["answer", &question_id, "blue"]).good();
    let listed = client.list_runs(&Listing::default()).await.unwrap().data;
    let [child, parent] = listed.as_slice() else { panic!("no further run was started: {listed:?}") };
    ended(&client, &parent.id).await;
    let recorded = events(&client, &parent.id).await;
    assert_eq!(all(&recorded, "assistant.final_answer")[0]["data"]["summary"], "All is blue.");
    let started = all(&recorded, "child_run.started");
    assert_eq!(started.len(), 1);
    assert_eq!(started[0]["data"]["child_run_id"], child.id.as_str());
    assert_eq!(all(&recorded, "gap.run_disconnected").len(), 1, "the server was killed while it waited");
    assert_eq!(all(&recorded, "tool.completed")[0]["data"]["output"], "It is blue.");
    let recorded = events(&client, &child.id).await;
    let queued = &recorded[0]["data"];
    assert_eq!(queued["requested_by"], parent.id.as_str());
    assert_eq!(queued["config"]["spawned_by"]["run_id"], parent.id.as_str());
    assert_eq!(client.list_runs(&Listing::default()).await.unwrap().data.len(), 2);
    assert!(server.ask(&["show", &parent.id]).good().contains(&format!("started run {}", child.id)));
}

#[tokio::test]
async fn without_the_setting_no_run_starts_another() {
    let scene = Scene::playing(SCRIPT);
    let server = scene.server();
    CommandOutput::of(&mut scene.run(&server, &["the whole"])).good();
    let client = client_of(&server);
    let listed = client.list_runs(&Listing::default()).await.unwrap().data;
    let recorded = events(&client, &listed[0].id).await;
    assert_eq!((listed.len(), all(&recorded, "child_run.started").len()), (1, 0));
    assert_eq!(all(&recorded, "tool.refused")[0]["data"]["code"], "unknown_tool");
}
