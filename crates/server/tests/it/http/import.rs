//! `POST /v1/imports`: imports the lines of an export unchanged or not at all.

use recount_api::export::Header;
use recount_event::{Code, RunId};
use recount_log::chain::ChainValue;
use recount_server::export::{ExportDigest, Folder, FolderRuns, ImportError};
use recount_world::{Entropy, SeededEntropy};

use crate::test_context::{PREFIXES, TestContext, batch, check_problem, check_reply, text};
use crate::wire::{Reply, Wire};

const LINES: (&str, &str) = ("content-type", "application/x-ndjson");

/// The lines of a run, with a header that fits them.
fn noted(run: &str, envelopes: &[impl AsRef<str>]) -> String {
    let head = envelopes
        .iter()
        .fold(ChainValue::start(run), |head, envelope| head.then(envelope.as_ref().as_bytes()))
        .to_string();
    let mut lines = Header::new(run, envelopes.len() as u64, &head).line() + "\n";
    for envelope in envelopes {
        lines.push_str(envelope.as_ref());
        lines.push('\n');
    }
    lines
}

/// An export of a run that was only queued; another run for each number.
pub(crate) fn queued(number: usize) -> String {
    let run = format!("run_01JXMZ000000000000000{number:05}");
    let envelope = format!(
        r#"{{"schema_version":"1","event_id":"evt_01JXMZ00000000000000000000","run_id":"{run}","sequence":0,"occurred_at":"2026-05-03T15:26:59.953Z","type":"run.queued","data":{{"kind":"external","driver":"external","prior_run_id":null}}}}"#
    );
    noted(&run, &[envelope])
}

async fn export(context: &TestContext, run: &str) -> String {
    noted(run, &context.envelopes(&format!("/v1/runs/{run}/events")).await)
}

async fn import(context: &TestContext, lines: &str) -> Reply {
    context.request("POST", "/v1/imports", &[LINES], Some(lines.as_bytes())).await
}

async fn check_nothing_came(context: &TestContext, about: &str) {
    assert_eq!(context.running.engine.read().last_position().await.unwrap(), 0, "{about}");
    assert_eq!(context.get("/v1/runs").await.json()["data"], serde_json::json!([]), "{about}");
}

#[tokio::test]
async fn a_run_moves_from_one_server_to_another() {
    let (there, here) = (TestContext::memory().await, TestContext::memory().await);
    let run = there.run_with_story().await;
    let lines = export(&there, &run).await;
    let reply = import(&here, &lines).await;
    check_reply(&reply);
    assert_eq!((reply.status, reply.header("location")), (201, Some(&*format!("/v1/runs/{run}"))));
    let digest = there.get(&format!("/v1/runs/{run}/digest")).await.data();
    let reply = reply.data();
    assert_eq!((&reply["events"], &reply["head"]), (&digest["events"], &digest["head"]));
    assert_eq!((&reply["imported"], &reply["position"]), (&true.into(), &digest["events"]));
    assert_eq!(here.get(&format!("/v1/runs/{run}/digest")).await.data(), digest);
    assert_eq!(export(&here, &run).await, lines);
    for path in [format!("/v1/runs/{run}"), "/v1/runs".to_owned(), "/v1/approvals".to_owned()] {
        assert_eq!(here.get(&path).await.json(), there.get(&path).await.json(), "{path}");
    }
    // Again, under the other prefix, with parameters of the media type, without the last line end.
    let target = format!("{}/imports", PREFIXES[1]);
    let headers = [("content-type", "Application/X-NDJSON; charset=utf-8")];
    let reply = here.request("POST", &target, &headers, Some(lines.trim_end().as_bytes())).await;
    assert_eq!((reply.status, reply.header("location")), (200, None), "{}", reply.text());
    assert_eq!(reply.data()["imported"], false);
    assert_eq!(reply.data()["position"], digest["events"]);
    assert_eq!(here.envelopes("/v1/events").await, there.envelopes("/v1/events").await);
}

#[tokio::test]
async fn a_refused_import_is_a_problem_and_leaves_nothing() {
    let (there, here) = (TestContext::memory().await, TestContext::memory().await);
    let run = there.run_with_story().await;
    let envelopes = there.envelopes(&format!("/v1/runs/{run}/events")).await;
    let good = noted(&run, &envelopes);
    let other = there.new_run().await;
    let two = format!("{good}{}", export(&there, &other).await);
    let cut = good.trim_end().rsplit_once('\n').unwrap().0.to_owned();
    let again = |at: usize, from: &str, to: &str| {
        let mut envelopes = envelopes.clone();
        envelopes[at] = envelopes[at].replacen(from, to, 1);
        noted(&run, &envelopes)
    };
    let cases = [
        (String::new(), Code::BodyMalformed),
        ("\n".to_owned(), Code::BodyMalformed),
        (envelopes.join("\n"), Code::BodyMalformed),
        (format!(" {good}"), Code::BodyMalformed),
        (good.replacen("{\"object\"", "{ \"object\"", 1), Code::BodyMalformed),
        (good.replacen("recount.run.v1", "recount.run.v2", 1), Code::BodyMalformed),
        (good.replacen(&run, "run_1", 1), Code::BodyMalformed),
        (good.replacen(&run, &other, 1), Code::ExportAltered),
        (two, Code::ExportAltered),
        (cut, Code::ExportAltered),
        (format!("{good}\n"), Code::ExportAltered),
        (good.replace('\n', "\r\n"), Code::BodyMalformed),
        (good.replacen("I will look.", "I did look..", 1), Code::ExportAltered),
        (good.replacen(":2,", ": 2,", 1), Code::ExportAltered),
        (noted(&run, &[""; 0]), Code::BodyMalformed),
        (noted(&run, &envelopes[1..]), Code::EventRefused),
        (noted(&other, &envelopes), Code::EventRefused),
        (again(3, "\"data\":{", "\"data\": {"), Code::EventRefused),
        (again(3, "turn_index\":0", "turn_index\":1"), Code::EventRefused),
    ];
    for (lines, code) in cases {
        let about = format!("{lines:.200}");
        check_problem(&import(&here, &lines).await, code, &about);
        check_nothing_came(&here, &about).await;
    }
    let problem = check_problem(
        &import(&here, &again(4, "\"type\":\"assistant.text_delta\"", "\"type\":\"run.started\"")).await,
        Code::EventRefused,
        "a second start",
    );
    assert_eq!((problem["index"].as_u64(), problem["event_type"].as_str()), (Some(4), Some("run.started")));
    assert!(problem["rule"].is_string(), "{problem}");
    check_nothing_came(&here, "a second start").await;

    for media_type in ["application/json", "text/plain", "application/x-ndjsonx", ""] {
        let headers = [("content-type", media_type)];
        let reply = here.request("POST", "/v1/imports", &headers, Some(good.as_bytes())).await;
        check_problem(&reply, Code::MediaTypeUnsupported, media_type);
    }
    check_nothing_came(&here, "media types").await;

    assert_eq!(import(&here, &good).await.status, 201);
    let early = noted(&run, &envelopes[..3]);
    check_problem(&import(&here, &early).await, Code::RunExists, "less than is here");
    assert_eq!(export(&here, &run).await, good);
}

#[tokio::test]
async fn an_oversized_import_is_refused_before_its_body() {
    let context = TestContext::memory().await;
    let mut wire = Wire::connect(context.address).await;
    let head = format!(
        "POST /v1/imports HTTP/1.1\r\nhost: {}\r\ncontent-type: application/x-ndjson\r\ncontent-length: 67108865\r\n\r\n",
        context.address
    );
    wire.send(head.as_bytes()).await;
    check_problem(&wire.reply("POST").await.unwrap(), Code::BodyTooLarge, "by its length");
}

#[tokio::test]
async fn concurrent_imports_are_limited() {
    let context = TestContext::memory().await;
    let head = format!(
        "POST /v1/imports HTTP/1.1\r\nhost: {}\r\ncontent-type: application/x-ndjson\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n",
        context.address
    );
    let mut waiting = Vec::new();
    for _ in 0..recount_face_aep::limits::IMPORTS_MAX {
        let mut wire = Wire::connect(context.address).await;
        wire.send(head.as_bytes()).await;
        // The server sends 100 when the import has its slot.
        assert_eq!(wire.reply("POST").await.unwrap().status, 100);
        waiting.push(wire);
    }
    let problem = check_problem(&import(&context, &queued(1)).await, Code::StoreBusy, "one more");
    assert_eq!(problem["retryable"], true);
    drop(waiting);
    let came = async {
        while import(&context, &queued(1)).await.status == 503 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), came).await.expect("the slots are free again");
    assert_eq!(import(&context, &queued(1)).await.status, 200);
}

#[tokio::test]
async fn a_producer_starts_over_after_an_import() {
    let (there, here) = (TestContext::memory().await, TestContext::memory().await);
    let run = there.new_run().await;
    there.report(&run, 0, &[("run.started", "{}")]).await;
    assert_eq!(import(&here, &export(&there, &run).await).await.status, 201);
    let target = format!("/v1/runs/{run}/events");
    let note = [("ext.a.b", "{}")];
    check_problem(&here.post(&target, &batch("p", 1, 1, &note)).await, Code::ProducerGap, "as it went on");
    let reply = here.post(&target, &batch("p", 2, 0, &note)).await;
    assert_eq!(reply.data()["first_sequence"], 2, "{}", reply.text());
    assert_eq!(
        here.post(&target, &batch("p", 2, 1, &[("run.finished", r#"{"final_status":"ok"}"#)])).await.status,
        200
    );
}

/// Random edits of an export file: the exported run is imported unchanged, or nothing is.
#[tokio::test]
async fn an_edited_file_is_refused_or_the_same() {
    let there = TestContext::memory().await;
    let run = there.run_with_story().await;
    let good = export(&there, &run).await.into_bytes();
    let seed: u64 = 20_260_503;
    let draw = SeededEntropy::new(seed);
    let below = |bound: usize| usize::try_from(draw.draw() % bound as u128).unwrap();
    let mut came_in = 0;
    let mut folder = tempfile::tempdir().unwrap();
    let mut store = Folder::open_or_create(folder.path()).unwrap();
    for round in 0..2000 {
        let mut edited = good.clone();
        let at = below(edited.len());
        match below(5) {
            0 => edited[at] = u8::try_from(below(256)).unwrap(),
            1 => edited.insert(at, b" \n\r\t,\"0{}"[below(9)]),
            2 => drop(edited.remove(at)),
            3 => edited.truncate(at),
            _ => {
                let other = below(edited.len());
                edited.swap(at, other);
            }
        }
        let about = format!("seed {seed}, round {round}");
        match store.import(&edited).await {
            Ok(imported) => {
                came_in += 1;
                assert_eq!(edited.trim_ascii_end(), good.trim_ascii_end(), "{about}");
                assert!(imported.is_new);
                store.close().await.unwrap();
                folder = tempfile::tempdir().unwrap();
                store = Folder::open_or_create(folder.path()).unwrap();
            }
            Err(ImportError::Refused { .. }) => {
                assert_eq!(store.runs().await.unwrap(), FolderRuns::default(), "{about}");
            }
            Err(why) => panic!("{about}: {why:?}"),
        }
    }
    assert!(came_in < 200, "{came_in} edits changed nothing");
}

#[tokio::test]
async fn a_folder_exports_and_imports_whole_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    assert!(Folder::open(&data).is_err(), "there is none to read");
    let there = TestContext::memory().await;
    let (one, two) = (there.run_with_story().await, there.new_run().await);
    let store = Folder::open_or_create(&data).unwrap();
    for run in [&two, &one] {
        let lines = export(&there, run).await;
        assert!(store.import(lines.as_bytes()).await.unwrap().is_new);
        assert!(!store.import(lines.as_bytes()).await.unwrap().is_new);
        let tail = store.tail(run).await.unwrap().unwrap();
        let digest = (tail.next_sequence, tail.head.to_string());
        let events = store.events(run, 0).await.unwrap();
        assert_eq!(digest.0, events.len() as u64);
        let mut sum = ExportDigest::new(run);
        events.iter().for_each(|event| sum.event(event).unwrap());
        sum.finish(digest.0, &digest.1).unwrap();
        let mut sum = ExportDigest::new(run);
        sum.event(b"{}").unwrap();
        assert!(sum.event(b"{\n}").is_err());
        assert!(sum.finish(1, &digest.1).unwrap_err().contains("have the head"));
        assert!(ExportDigest::new(run).finish(1, &digest.1).unwrap_err().contains("0 readable events"));
    }
    let mut expected = [one.clone(), two];
    expected.sort();
    let ids = expected.to_vec();
    assert_eq!(store.runs().await.unwrap(), FolderRuns { ids, ..FolderRuns::default() });
    assert_eq!(store.tail("run_x").await.unwrap(), None);
    assert!(Folder::open(&data).is_err(), "one at a time");
    store.close().await.unwrap();
    let context = TestContext::sqlite(&data).await;
    let listed = context.get("/v1/runs").await.json();
    assert_eq!(listed["data"], there.get("/v1/runs").await.json()["data"]);
    let run: RunId = one.parse().unwrap();
    assert_eq!(text(&context.get(&format!("/v1/runs/{run}")).await.data()["status"]), "finished");
}
