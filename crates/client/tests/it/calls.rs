//! Calls: where they go, and what becomes of every kind of answer.

use recount_client::request::{
    AcknowledgeHandoff, AnswerClarification, AppendEvents, ApplyRun, Cancel, ChangePatch, ChangeTask,
    ContinueRun, CreateRun, CreateSession, CreateTask, ExtendPrompt, Producer, Prune, PruneRun,
    RejectHandoff, ResolveApproval, ResumeRun, RetryRun, RetryRunFromTurn, SendMessage, Verdict,
};
use recount_client::routes::ROUTES;
use recount_client::{Client, ClientError, Listing, Source, Until, reply};
use serde_json::json;
use serde_json::value::RawValue;

use crate::scripted::{Answer, Scripted};

fn create_run() -> CreateRun {
    CreateRun { kind: "external".to_owned(), ..CreateRun::default() }
}

/// Whether a path as it came is one that the table words.
fn is_of(template: &str, target: &str) -> bool {
    let path = target.split('?').next().unwrap_or("").strip_prefix("/v1").unwrap_or("");
    let (wanted, came): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    wanted.len() == came.len() && wanted.iter().zip(came).all(|(a, b)| a.starts_with('{') || *a == b)
}

fn refused(outcome: Option<ClientError>) {
    assert_eq!(outcome.expect("it is refused").code(), Some("route_not_found"));
}

/// What changes an artifact, in the order of the routes.
async fn change_artifact(client: &Client) {
    let change = ChangePatch { reason: Some("why".into()) };
    refused(client.apply_patch("x", &change).await.err());
    refused(client.reject_patch("x", &change).await.err());
    refused(client.revert_patch("x", &change).await.err());
    refused(client.pin_artifact("x").await.err());
    refused(client.unpin_artifact("x").await.err());
    refused(client.delete_artifact("x").await.err());
}

#[tokio::test]
async fn every_route_has_its_call() {
    let server = Scripted::start([Answer::problem(404, "route_not_found", false)]).await;
    let client = Client::new(&server.url, Some("secret")).unwrap();
    let listing = Listing {
        after: Some(json!("c 1")),
        limit: Some(7),
        status: Some("failed".to_owned()),
        ..Listing::default()
    };
    let producer = Producer { id: "p".to_owned(), epoch: 1, seq: 0 };
    let batch = AppendEvents { producer, events: Vec::new() };
    let cancel = Cancel { reason: Some("enough".to_owned()) };
    let resolve =
        ResolveApproval { decision: Verdict::Approve, comment: None, remember: None, shown_digest: None };
    let response = RawValue::from_string("\"blue\"".to_owned()).unwrap();
    let answer = AnswerClarification { response, shown_digest: None };
    refused(client.create_task(&CreateTask::default()).await.err());
    refused(client.list_tasks(&listing).await.err());
    refused(client.get_task("t").await.err());
    refused(client.change_task("t", &ChangeTask::default()).await.err());
    refused(client.delete_task("t").await.err());
    refused(client.cancel_task("t", &cancel).await.err());
    refused(client.create_task_run("t", &create_run()).await.err());
    refused(client.list_task_runs("t", &listing).await.err());
    refused(client.get_task_run("t", "r").await.err());
    refused(client.cancel_task_run("t", "r", &cancel).await.err());
    refused(client.read_task_run_events("t", "r", Some(3), None).await.err());
    refused(client.append_task_run_events("t", "r", &batch).await.err());
    refused(client.create_run(&create_run()).await.err());
    refused(client.list_runs(&listing).await.err());
    refused(client.get_run("r").await.err());
    refused(client.cancel_run("r", &cancel).await.err());
    refused(client.retry_run("r", &RetryRun::default()).await.err());
    refused(client.resume_run("r", &ResumeRun::default()).await.err());
    refused(client.continue_run("r", &ContinueRun::default()).await.err());
    refused(client.retry_run_from_turn("r", &RetryRunFromTurn::default()).await.err());
    refused(client.get_run_digest("r").await.err());
    refused(client.run_changes("r").await.err());
    refused(client.apply_run("r", &ApplyRun::default()).await.err());
    refused(client.discard_run_changes("r").await.err());
    refused(client.pin_run("r").await.err());
    refused(client.unpin_run("r").await.err());
    refused(client.delete_run("r").await.err());
    refused(client.prune_run("r", &PruneRun { before: Some(7), ..PruneRun::default() }).await.err());
    refused(client.read_run_events("r", Some(3), Some(10)).await.err());
    refused(client.append_run_events("r", &batch).await.err());
    refused(client.import_run(b"{}\n".to_vec()).await.err());
    let policy =
        Prune { max_age_seconds: Some(60), max_events: Some(0), max_bytes: None, ..Prune::default() };
    refused(client.prune(&policy).await.err());
    refused(client.read_feed(Some(3), None).await.err());
    refused(client.tail(Source::Feed, Some(4), Until::Ended).next().await.unwrap().err());
    refused(client.list_prompts::<reply::Approval>(&listing).await.err());
    refused(client.get_prompt::<reply::Approval>("a").await.err());
    refused(client.answer_prompt("a", &resolve).await.err());
    refused(client.extend_prompt::<reply::Approval>("a", &ExtendPrompt { seconds: 60 }).await.err());
    refused(client.list_allowances(&Listing::default(), Some("run"), Some("r"), None).await.err());
    refused(client.take_back_allowance("w").await.err());
    refused(client.list_prompts::<reply::Clarification>(&listing).await.err());
    refused(client.get_prompt::<reply::Clarification>("q").await.err());
    refused(client.answer_prompt("q", &answer).await.err());
    refused(client.extend_prompt::<reply::Clarification>("q", &ExtendPrompt { seconds: 60 }).await.err());
    refused(client.list_prompts::<reply::Handoff>(&listing).await.err());
    refused(client.get_prompt::<reply::Handoff>("h").await.err());
    refused(client.answer_prompt("h", &AcknowledgeHandoff::default()).await.err());
    refused(client.answer_prompt("h", &RejectHandoff::default()).await.err());
    refused(client.extend_prompt::<reply::Handoff>("h", &ExtendPrompt { seconds: 60 }).await.err());
    let sent = client.upload_artifact(b"bytes".to_vec(), "image/png", Some("image"), Some("a b")).await;
    refused(sent.err());
    refused(client.list_artifacts(&listing, Some("r"), Some("t")).await.err());
    refused(client.get_artifact("x").await.err());
    refused(client.read_artifact("x").await.err());
    change_artifact(&client).await;
    refused(client.list_run_artifacts("r", &listing).await.err());
    refused(client.judge_mcp_call("my files", "a/b", true).await.err());
    refused(client.list_agents().await.err());
    refused(client.create_session(&CreateSession::default()).await.err());
    refused(client.list_sessions(&listing).await.err());
    refused(client.get_session("s").await.err());
    let hello = SendMessage { text: "hello".into(), ..SendMessage::default() };
    refused(client.send_message("s", &hello).await.err());
    refused(client.list_messages("s", &Listing { status: None, ..listing.clone() }).await.err());
    refused(client.delete_session("s").await.err());
    // One more that goes where another call goes.
    refused(client.list_session_runs("s", &listing).await.err());

    let requests = server.requests();
    for (route, received) in ROUTES.iter().zip(&requests) {
        assert_eq!(received.method, route.method, "{route:?}");
        assert!(is_of(route.path, &received.target), "{route:?} went to {}", received.target);
        assert_eq!(received.header("authorization"), Some("Bearer secret"));
    }
    assert_eq!(requests.len(), ROUTES.len() + 1);
    let target = |name: &str| {
        let at = ROUTES.iter().position(|route| format!("{:?}", route.name) == name);
        requests[at.expect("the route exists")].clone()
    };
    assert_eq!(target("ListRuns").target, "/v1/runs?after=c%201&limit=7&status=failed");
    assert_eq!(target("ReadRunEvents").target, "/v1/runs/r/events?after_sequence=3&limit=10");
    assert_eq!(target("ReadFeed").target, "/v1/events?after_position=3");
    assert_eq!(target("StreamFeed").target, "/v1/events/stream?after_position=4");
    assert_eq!(target("StreamFeed").header("accept"), Some("text/event-stream"));
    assert_eq!(target("ImportRun").header("content-type"), Some("application/x-ndjson"));
    assert_eq!(target("ImportRun").body, "{}\n");
    assert_eq!(target("PruneRun").body, r#"{"before":7}"#);
    assert_eq!(target("Prune").body, r#"{"max_age_seconds":60,"max_events":0}"#);
    assert_eq!(target("CancelRun").body, r#"{"reason":"enough"}"#);
    assert_eq!(target("ResolveApproval").body, r#"{"decision":"approve"}"#);
    assert_eq!(target("ListAllowances").target, "/v1/allowances?scope=run&run_id=r");
    assert_eq!(target("JudgeMcpCall").target, "/v1/policy/mcp/my%20files/a%2Fb?destructive=true");
    assert_eq!(target("AnswerClarification").body, r#"{"response":"blue"}"#);
    assert_eq!(target("RevertPatch").body, r#"{"reason":"why"}"#);
    assert_eq!(target("SendMessage").body, r#"{"text":"hello"}"#);
    assert_eq!(target("UploadArtifact").target, "/v1/artifacts?kind=image&name=a%20b");
    assert_eq!(target("UploadArtifact").header("content-type"), Some("image/png"));
    assert_eq!(target("UploadArtifact").body, "bytes");
    assert_eq!(target("RejectHandoff").body, "{}");
    let of_session = &requests[ROUTES.len()].target;
    assert_eq!(of_session, "/v1/runs?session_id=s&after=c%201&limit=7&status=failed");
}

#[tokio::test]
async fn a_page_keeps_the_bytes_of_each_envelope() {
    let envelope = r#"{"b":1.50,"a":"\u00e9 /\/","b2":1e2}"#;
    let body = format!(r#"{{"object":"list","data":[{envelope}],"next":4,"has_more":true}}"#);
    let server = Scripted::start([Answer::json(body)]).await;
    let page = Client::new(&server.url, None).unwrap().read_run_events("r", None, None).await.unwrap();
    assert_eq!(page.data.iter().map(|raw| raw.get()).collect::<Vec<_>>(), [envelope]);
    assert_eq!((page.next, page.has_more), (Some(json!(4)), true));
    assert_eq!(server.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn every_bad_answer_is_typed() {
    async fn outcome(answer: Answer) -> ClientError {
        let server = Scripted::start([answer]).await;
        Client::new(&server.url, None).unwrap().get_run("r").await.expect_err("no such answer is good")
    }
    let problem = outcome(Answer::problem(503, "store_busy", true)).await;
    assert_eq!((problem.code(), problem.may_pass()), (Some("store_busy"), true));
    assert_eq!(problem.to_string(), "d (store_busy)");

    let broken = outcome(Answer::Nothing).await;
    assert!(matches!(broken, ClientError::Unreachable { .. }) && broken.may_pass(), "{broken:?}");

    let html = Answer::Full { status: 502, media_type: "text/html", body: "<p>no".to_owned() };
    for odd in [Answer::json("[]"), Answer::json("{"), html] {
        let odd = outcome(odd).await;
        assert!(matches!(odd, ClientError::Protocol { .. }) && !odd.may_pass(), "{odd:?}");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_an_error() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let client = Client::new(&url, None).unwrap();
    let why = client.get_run("r").await.expect_err("nobody listens");
    assert!(matches!(why, ClientError::Unreachable { .. }), "{why:?}");
    assert!(why.to_string().starts_with(&format!("no response from {url}: ")), "{why}");
    let mut tail = client.tail(Source::Feed, None, Until::Ended);
    assert!(matches!(tail.next().await, Some(Err(ClientError::Unreachable { .. }))));
    assert!(tail.next().await.is_none(), "an error is the last thing told");
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_before() {
    let addresses = [
        ("ftp://h", "does not begin with http:// or https://"),
        ("foo", "is not a server URL"),
        ("h:80", "does not begin with http://"),
        ("http://h/?a", "more than"),
    ];
    for (address, word) in addresses {
        let why = Client::new(address, None).err().unwrap();
        assert!(matches!(&why, ClientError::Unusable(why) if why.contains(word)), "{address}: {why}");
    }
    assert!(matches!(Client::new("http://h", Some("a\nb")).err().unwrap(), ClientError::Unusable(_)));
    let client = Client::new("http://127.0.0.1:1", None).unwrap();
    let why = client.get_run("..").await.unwrap_err();
    assert!(matches!(&why, ClientError::Unusable(why) if why.contains("\"..\"")), "{why}");
}
