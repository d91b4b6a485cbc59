//! Imports: a run is imported unchanged or not at all.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use recount_engine::{Delivery, Error, Import, ImportedRun, ListQuery, limits};
use recount_event::{Code, PromptKind, RunId};
use recount_faulty_store::AppendFault;
use recount_log::FaultKind;
use recount_log::chain::ChainValue;
use recount_run::Command;

use crate::scene::{APPROVAL, End, START_MS, Scene, batch_id, code, drafts, read};

/// The export of a run.
async fn export(scene: &Scene, run: RunId) -> Import {
    let mut records = Vec::new();
    loop {
        let after = (records.len() as u64).checked_sub(1);
        let (page, more) = scene.engine.read().read_run(run, after, 100).await.unwrap();
        records.extend(page.into_iter().map(|(_, bytes)| bytes));
        if !more {
            break;
        }
    }
    let digest = scene.engine.read().digest(run).await.unwrap();
    Import { run, events: digest.events, head: digest.head, records }
}

/// The same import with count and head computed from its records.
fn with_new_header(mut import: Import) -> Import {
    import.events = import.records.len() as u64;
    let start = ChainValue::start(&import.run.to_string());
    import.head = import.records.iter().fold(start, |head, record| head.then(record)).to_string();
    import
}

fn lines(run: RunId, lines: impl IntoIterator<Item = impl Into<Bytes>>) -> Import {
    let records = lines.into_iter().map(Into::into).collect();
    with_new_header(Import { run, events: 0, head: String::new(), records })
}

/// A record with one text replaced.
fn with(mut import: Import, at: usize, from: &str, to: &str) -> Import {
    let text = std::str::from_utf8(&import.records[at]).unwrap();
    let edited = text.replacen(from, to, 1);
    assert_ne!(text, edited, "{from} exists");
    import.records[at] = edited.into();
    with_new_header(import)
}

/// A finished run with an approval and a call.
async fn complete_run(scene: &Scene) -> RunId {
    let run = scene.start().await;
    scene
        .report(run, 1, &[APPROVAL, ("ext.test.note", r#"{"text":"a \u00e9 \"b\" c","n":1.00}"#)])
        .await
        .unwrap();
    scene.answer(run, "a1", true, "operator").await.unwrap();
    let call = r#"{"tool_call_id":"c1","tool_name":"shell"}"#;
    let done = r#"{"tool_call_id":"c1","tool_name":"shell","summary":"s"}"#;
    scene.report(run, 2, &[("tool.invoked", call), ("tool.completed", done)]).await.unwrap();
    scene.report(run, 3, &[("run.finished", r#"{"final_status":"done"}"#)]).await.unwrap();
    run
}

/// Checks that the store is empty.
async fn check_empty(scene: &Scene, about: &str) {
    assert_eq!(scene.engine.read().last_position().await.unwrap(), 0, "{about}");
    assert!(scene.disk.store().streams(None, 10).await.unwrap().is_empty(), "{about}");
    assert!(scene.disk.catalogue().await.is_empty(), "{about}");
    assert!(scene.engine.catalogue().list_tasks(&everything()).await.unwrap().items.is_empty(), "{about}");
    assert_eq!(scene.store.appends(), 0, "{about}");
}

fn everything() -> ListQuery {
    ListQuery { limit: 1000, ..ListQuery::default() }
}

async fn check_same(here: &Scene, import: &Import, imported: &ImportedRun) {
    assert_eq!((imported.run, imported.events, &imported.head), (import.run, import.events, &import.head));
    let again = export(here, import.run).await;
    assert_eq!(again.records, import.records);
    assert_eq!((again.events, &again.head), (import.events, &import.head));
}

#[tokio::test(start_paused = true)]
async fn imported_runs_have_the_same_bytes_and_rows() {
    let there = Scene::new().await;
    let (task, _) = there.engine.write().create_task(Some("tidy".into()), None).await.unwrap();
    let task = task.id;
    let of_task = there.queue_for(Some(task)).await.unwrap();
    let open = there.start().await;
    let approval_data = APPROVAL.1.replace("\"a1\"", "\"a2\"");
    there.report(open, 1, &[("approval.requested", &approval_data)]).await.unwrap();
    let runs = [complete_run(&there).await, of_task, open];

    let here = Scene::new().await;
    let mut position = 0;
    for run in runs {
        let import = export(&there, run).await;
        let imported = here.engine.admin().import(import.clone()).await.unwrap();
        position += import.events;
        assert_eq!((imported.is_new, imported.position), (true, position));
        check_same(&here, &import, &imported).await;
        let appends = here.store.appends();
        let again = here.engine.admin().import(import).await.unwrap();
        assert_eq!(again, ImportedRun { is_new: false, ..imported });
        assert_eq!(here.store.appends(), appends, "nothing is written the second time");
    }
    assert_eq!(here.disk.catalogue().await, there.disk.catalogue().await);
    assert_eq!(here.engine.catalogue().active_run(task).await.unwrap(), Some(of_task));
    here.check().await;
}

#[tokio::test(start_paused = true)]
async fn every_story_can_be_imported() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/runs");
    let mut stories = 0;
    let here = Scene::new().await;
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let first = recount_event::codec::decode(text.lines().next().unwrap().as_bytes()).unwrap();
        let import = lines(first.run_id, text.lines().map(str::to_owned));
        let imported = here.engine.admin().import(import.clone()).await;
        let imported = imported.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        check_same(&here, &import, &imported).await;
        stories += 1;
    }
    assert!(stories > 30, "{stories}");
    here.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_export_is_refused_and_writes_nothing() {
    let there = Scene::new().await;
    let run = complete_run(&there).await;
    let good = export(&there, run).await;
    let here = Scene::new().await;
    for at in 0..good.records.len() {
        let mut without = good.clone();
        without.records.remove(at);
        let mut twice = good.clone();
        twice.records.insert(at, good.records[at].clone());
        let mut swapped = good.clone();
        swapped.records.swap(at, (at + 1) % good.records.len());
        let mut edited = good.clone();
        let mut bytes = edited.records[at].to_vec();
        let last = bytes.len() - 3;
        bytes[last] ^= 1;
        edited.records[at] = bytes.into();
        for (what, import) in
            [("without", without), ("twice", twice), ("swapped", swapped), ("edited", edited)]
        {
            let about = format!("{what} {at}");
            assert_eq!(
                code(here.engine.admin().import(import.clone()).await),
                Code::ExportAltered,
                "{about}"
            );
            check_empty(&here, &about).await;
            // With a matching head, the run itself must be legal. Its end may be missing.
            let last = at == good.records.len() - 1;
            if (what == "without" && last) || what == "edited" {
                continue;
            }
            assert_eq!(
                code(here.engine.admin().import(with_new_header(import)).await),
                Code::EventRefused,
                "{about}"
            );
            check_empty(&here, &about).await;
        }
    }
    for import in [
        Import { events: good.events + 1, ..good.clone() },
        Import { head: good.head.to_uppercase(), ..good.clone() },
        Import { head: String::new(), ..good.clone() },
        Import { run: there.queue().await, ..good.clone() },
    ] {
        assert_eq!(code(here.engine.admin().import(import).await), Code::ExportAltered);
        check_empty(&here, "the header").await;
    }
    here.engine.admin().import(good).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn records_in_a_form_no_log_contains_are_refused() {
    let there = Scene::new().await;
    let run = complete_run(&there).await;
    let good = export(&there, run).await;
    let note = good.records.iter().position(|record| record.ends_with(br#""n":1.00}}"#)).unwrap();
    let here = Scene::new().await;
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let vast = format!("\"n\":\"{}\"", "x".repeat(recount_event::limits::DATA_BYTES_MAX));
    for (from, to) in [
        ("\"n\":1.00", "\"n\": 1.00"),
        ("\"n\":1.00", "\"n\":1.00\n"),
        ("\"n\":1.00", "\"n\":1.00\r"),
        ("\"n\":1.00", "\"n\":1.00,\"n\":2"),
        ("\"n\":1.00", "\"n\":9007199254740992"),
        ("\"n\":1.00", "\"n\":1e999"),
        ("\"n\":1.00", r#""n":"\ud800""#),
        ("\"n\":1.00", &format!("\"n\":{}", deep(64))),
        ("\"n\":1.00", &vast),
        ("{\"schema", " {\"schema"),
        ("\"schema_version\":\"1\"", "\"schema_version\":\"2\""),
        ("\"sequence\":", "\"sequence\": "),
        ("\"sequence\":3", "\"sequence\":03"),
        ("\"sequence\":3", "\"sequence\":3.0"),
        ("\"sequence\":3", "\"sequence\":4"),
        ("Z\"", "+00:00\""),
        ("\"type\":\"ext.test.note\"", "\"type\":\"ext.test.not\\u0065\""),
        ("\"type\":\"ext.test.note\"", "\"type\":\"Shout\""),
        ("\"type\":\"ext.test.note\"", "\"type\":\"run.finished\""),
        ("1.00}}", "1.00},\"later\":{\"a\": 1}}"),
        ("1.00}}", "1.00},\"later\":{\"a\":1,\"a\":1}}"),
        ("1.00}}", "1.00},\"sequence\":3}"),
        ("1.00}}", "1.00}}}"),
        ("1.00}}", "1.00}"),
        ("\"run_id\":\"run_0", "\"run_id\":\"run_1"),
        ("\"event_id\":\"evt_0", "\"event_id\":\"evt_7"),
        ("\"event_id\":\"evt_0", "\"event_id\":\"evt_00"),
        ("\"occurred_at\":\"20", "\"occurred_at\":\"19"),
    ] {
        let import = with(good.clone(), note, from, to);
        let about = &format!("{from} as {to:.80}");
        match here.engine.admin().import(import).await.expect_err(about) {
            Error::Rejected(why) => {
                assert_eq!(why.code, Code::EventRefused, "{about}: {why}");
                // A wrong order may be reported at the next event.
                assert!(why.index == Some(note) || why.index == Some(note + 1), "{about}: {why:?}");
                assert!(why.rule.is_some(), "{about}");
            }
            why => panic!("{about}: {why}"),
        }
        check_empty(&here, about).await;
    }
    // Unknown envelope fields of a later release are kept.
    let later = with(good.clone(), note, "1.00}}", "1.00},\"later\":{\"a\":1}}");
    let imported = here.engine.admin().import(later.clone()).await.unwrap();
    check_same(&here, &later, &imported).await;
    // The greatest ids leave no ids for later events.
    let last = good.records.len() - 1;
    let import = with(good, last, "\"event_id\":\"evt_0", "\"event_id\":\"evt_7");
    assert_eq!(code(Scene::new().await.engine.admin().import(import).await), Code::EventRefused);
}

#[tokio::test(start_paused = true)]
async fn sizes_beyond_one_append_are_named() {
    let here = Scene::new().await;
    let run = Scene::new().await.queue().await;
    assert_eq!(code(here.engine.admin().import(lines(run, [""; 0])).await), Code::BodyMalformed);
    let many = lines(run, vec![Bytes::from_static(b"{}"); limits::IMPORT_ENTRIES_MAX + 1]);
    let large = lines(run, vec![Bytes::from(vec![b'x'; 1 << 20]); (limits::IMPORT_BYTES_MAX >> 20) + 1]);
    for (import, name) in [(many, "IMPORT_ENTRIES_MAX"), (large, "IMPORT_BYTES_MAX")] {
        let why = here.engine.admin().import(import).await.expect_err("too large");
        assert_eq!(why.code(), Code::LimitReached);
        assert!(why.to_string().contains(name), "{why}");
        check_empty(&here, name).await;
    }
}

/// Rows are folded in slices: ids stay guarded, and a prompt that is answered much later has one row.
#[tokio::test(start_paused = true)]
async fn long_runs_are_imported_with_their_rows() {
    let there = Scene::new().await;
    let run = Box::pin(long_run(&there)).await;
    let import = export(&there, run).await;
    assert!(import.records.len() > 3 * limits::IMPORT_SLICE_EVENTS);
    let here = Scene::new().await;
    let imported = here.engine.admin().import(import.clone()).await.unwrap();
    check_same(&here, &import, &imported).await;
    assert_eq!(here.disk.catalogue().await, there.disk.catalogue().await);
    here.check().await;
    let mut busy = Scene::new().await;
    busy.reopen_at(START_MS + 60_000).await;
    let other = busy.start().await;
    busy.report(other, 1, &[APPROVAL]).await.unwrap();
    assert_eq!(code(busy.engine.admin().import(import).await), Code::IdTaken);
    assert_eq!(busy.engine.read().tail(run).await.unwrap(), None);
    busy.check().await;
}

async fn long_run(scene: &Scene) -> RunId {
    let run = scene.start().await;
    let notes = vec![("ext.test.note", "{}"); 600];
    scene.report(run, 1, &[APPROVAL]).await.unwrap();
    scene.report(run, 2, &notes).await.unwrap();
    scene.answer(run, "a1", false, "operator").await.unwrap();
    scene.report(run, 3, &notes).await.unwrap();
    let approval_data = APPROVAL.1.replace("\"a1\"", "\"a2\"").replace("\"c1\"", "\"c2\"");
    scene.report(run, 4, &[("approval.requested", &approval_data)]).await.unwrap();
    scene.report(run, 5, &notes).await.unwrap();
    run
}

#[tokio::test(start_paused = true)]
async fn an_existing_run_with_other_events_does_not_change() {
    let there = Scene::new().await;
    let run = there.start().await;
    let early = export(&there, run).await;
    there.note(run, "n").await.unwrap();
    let late = export(&there, run).await;
    let here = Scene::new().await;
    assert!(here.engine.admin().import(early.clone()).await.unwrap().is_new);
    assert_eq!(code(here.engine.admin().import(late.clone()).await), Code::RunExists);
    assert_eq!(export(&here, run).await.records, early.records);
    assert_eq!(code(there.engine.admin().import(early).await), Code::RunExists);
    assert_eq!(export(&there, run).await.records, late.records);
    here.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_approval_names_one_request_in_the_whole_store() {
    let there = Scene::new().await;
    let run = complete_run(&there).await;
    let import = export(&there, run).await;
    let mut here = Scene::new().await;
    // Equal seeds give equal ids, so the clock differs.
    here.reopen_at(START_MS + 60_000).await;
    complete_run(&here).await;
    let (appends, position) = (here.store.appends(), here.engine.read().last_position().await.unwrap());
    let why = here.engine.admin().import(import).await.expect_err("a1 is here");
    assert_eq!(why.code(), Code::IdTaken, "{why}");
    assert!(why.to_string().contains("\"a1\""), "{why}");
    assert_eq!(here.store.appends(), appends);
    assert_eq!(here.engine.read().last_position().await.unwrap(), position);
    assert_eq!(here.engine.catalogue().run(run).await.unwrap(), None);
    here.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_import_creates_the_task_from_its_run_and_keeps_the_active_run() {
    let there = Scene::new().await;
    let mut queued = recount_event::family::run::Queued::new(recount_event::family::run::RunKind::External);
    queued.title = Some("tidy up".into());
    let (task, first) =
        there.engine.write().create_task(Some("the task's own".into()), Some(queued)).await.unwrap();
    let (task, first): (recount_event::TaskId, _) = (task.id, first.unwrap());
    let first_open = export(&there, first).await;
    there.cancel(first).await.unwrap();
    let second = there.queue_for(Some(task)).await.unwrap();
    let (first_ended, second_open) = (export(&there, first).await, export(&there, second).await);
    there.cancel(second).await.unwrap();
    let second_ended = export(&there, second).await;

    let here = Scene::new().await;
    here.engine.admin().import(first_open.clone()).await.unwrap();
    let row = here.engine.catalogue().task(task).await.unwrap().unwrap();
    assert_eq!(row.title.as_deref(), Some("tidy up"));
    assert_eq!(row.created_at, recount_event::time::format_ms(START_MS));
    // One active run at a time; an imported ended run does not release the task.
    assert_eq!(code(here.engine.admin().import(second_open.clone()).await), Code::TaskBusy);
    here.engine.admin().import(second_ended).await.unwrap();
    assert_eq!(here.engine.catalogue().active_run(task).await.unwrap(), Some(first));
    assert_eq!(here.engine.catalogue().task(task).await.unwrap().unwrap(), row);
    here.cancel(first).await.unwrap();
    assert_eq!(here.engine.catalogue().active_run(task).await.unwrap(), None);
    assert_eq!(here.engine.catalogue().count_task_runs(task).await.unwrap(), 2);
    here.check().await;

    let here = Scene::new().await;
    here.engine.admin().import(first_ended).await.unwrap();
    assert_eq!(here.engine.catalogue().active_run(task).await.unwrap(), None);
    here.engine.admin().import(second_open).await.unwrap();
    assert_eq!(here.engine.catalogue().active_run(task).await.unwrap(), Some(second));
    assert_eq!(here.engine.catalogue().task(task).await.unwrap().unwrap().title.as_deref(), Some("tidy up"));
    here.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_imported_open_run_can_continue() {
    let there = Scene::new().await;
    let run = there.start().await;
    there.report(run, 1, &[APPROVAL]).await.unwrap();
    let import = export(&there, run).await;
    let here = Scene::new().await;
    here.engine.admin().import(import.clone()).await.unwrap();
    // Producers are not exported, so they start again.
    let batch =
        |epoch, seq| here.engine.write().ingest(run, batch_id("p", epoch, seq), drafts(&[("ext.a.b", "{}")]));
    assert_eq!(code(batch(1, 2).await), Code::ProducerGap);
    let receipt = batch(1, 0).await.unwrap();
    assert_eq!((receipt.first_sequence, receipt.position), (import.events, import.events + 1));
    // The prompt is still pending, with its original deadline.
    let listed = here.engine.read().list_prompts(PromptKind::Approval, &everything()).await.unwrap();
    assert_eq!(listed.items[0].status(), "pending");
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(here.types(run).await.last().unwrap(), "approval.timed_out");
    here.check().await;
    assert_eq!(here.engine.write().submit(run, Command::Tick).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn readers_get_the_events_of_an_import() {
    let there = Scene::new().await;
    let run = complete_run(&there).await;
    let import = export(&there, run).await;
    let here = Scene::new().await;
    let mut feed = here.engine.read().follow_feed(None).await.unwrap();
    assert_eq!(read(&mut feed).await.end, End::CaughtUp);
    here.engine.admin().import(import.clone()).await.unwrap();
    let reading = read(&mut feed).await;
    assert_eq!(reading.cursors, (1..=import.events).collect::<Vec<_>>());
    assert_eq!(reading.bytes, import.records.iter().map(|bytes| bytes.to_vec()).collect::<Vec<_>>());
    let mut reader = here.engine.read().follow_run(run, None).await.unwrap();
    assert_eq!(read(&mut reader).await.bytes.len(), import.records.len());
    assert!(matches!(reader.next().await.unwrap(), Delivery::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_failed_import_returns_an_error_and_can_be_retried() {
    let there = Scene::new().await;
    let run = there.start().await;
    there.report(run, 1, &[APPROVAL]).await.unwrap();
    let import = export(&there, run).await;
    let mut here = Scene::new().await;
    here.store.next_appends([AppendFault::Refuse(FaultKind::Full), AppendFault::LoseAnswer]);
    assert_eq!(code(here.engine.admin().import(import.clone()).await), Code::StoreFull);
    assert_eq!(here.engine.read().tail(run).await.unwrap(), None);
    assert_eq!(code(here.engine.admin().import(import.clone()).await), Code::StoreUnavailable);
    let imported = here.engine.admin().import(import.clone()).await.unwrap();
    assert!(!imported.is_new);
    check_same(&here, &import, &imported).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(here.types(run).await.last().unwrap(), "approval.timed_out", "its deadline was registered");
    here.reopen().await;
    here.check().await;
}

#[tokio::test(start_paused = true)]
async fn two_concurrent_imports_of_a_run_write_it_once() {
    let there = Scene::new().await;
    let (task, first) = {
        let queued = recount_event::family::run::Queued::new(recount_event::family::run::RunKind::External);
        there.engine.write().create_task(None, Some(queued)).await.unwrap()
    };
    let first = first.unwrap();
    there.cancel(first).await.unwrap();
    let second = there.queue_for(Some(task.id)).await.unwrap();
    let (one, two) = (export(&there, first).await, export(&there, second).await);
    for (other, both_new) in [(one.clone(), false), (two, true)] {
        let here = Scene::new().await;
        let (go, held) = tokio::sync::oneshot::channel();
        here.store.next_appends([AppendFault::Hold(held)]);
        // Polled first, so a short run reaches its append before the other import starts.
        let late = here.engine.admin().import(one.clone());
        let early = async {
            let early = here.engine.admin().import(other).await.unwrap();
            go.send(()).unwrap();
            early
        };
        let (late, early) = tokio::join!(late, early);
        assert!(early.is_new);
        assert_eq!(late.unwrap().is_new, both_new);
        here.check().await;
    }
}

/// An edit of an export.
#[derive(Debug, Clone)]
enum Edit {
    Set(usize, usize, u8),
    Insert(usize, usize, u8),
    Cut(usize, usize),
    Drop(usize),
    Repeat(usize, usize),
    Replace(usize, &'static str, &'static str),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let place = || (0_usize..64, 0_usize..4096);
    let byte = || prop_oneof![any::<u8>(), proptest::sample::select(br#" {}[]",:0123456789aeutf\"#.to_vec())];
    let pairs = vec![
        ("true", "false"),
        ("p", "operator"),
        ("a1", "a2"),
        ("c1", "c2"),
        ("approve", "reject"),
        ("completed", "failed"),
        ("run.finished", "run.failed"),
        ("\"sequence\":4", "\"sequence\":5"),
        ("external", "shell"),
        (":30", ":0"),
    ];
    let one = prop_oneof![
        (place(), byte()).prop_map(|((at, byte), new)| Edit::Set(at, byte, new)),
        (place(), byte()).prop_map(|((at, byte), new)| Edit::Insert(at, byte, new)),
        place().prop_map(|(at, byte)| Edit::Cut(at, byte)),
        (0_usize..64).prop_map(Edit::Drop),
        (0_usize..64, 0_usize..64).prop_map(|(from, to)| Edit::Repeat(from, to)),
        (0_usize..64, proptest::sample::select(pairs)).prop_map(|(at, (a, b))| Edit::Replace(at, a, b)),
    ];
    proptest::collection::vec(one, 1..4)
}

fn edited(mut import: Import, edits: &[Edit]) -> Import {
    for edit in edits {
        let count = import.records.len().max(1);
        let of = |at: usize| at % count;
        let mut change = |at: usize, change: &dyn Fn(&mut Vec<u8>)| {
            if let Some(record) = import.records.get_mut(of(at)) {
                let mut bytes = record.to_vec();
                change(&mut bytes);
                *record = bytes.into();
            }
        };
        match *edit {
            Edit::Set(at, byte, new) => change(at, &|bytes| {
                let place = byte % bytes.len().max(1);
                bytes.splice(place..(place + 1).min(bytes.len()), [new]);
            }),
            Edit::Insert(at, byte, new) => change(at, &|bytes| bytes.insert(byte % (bytes.len() + 1), new)),
            Edit::Cut(at, byte) => change(at, &|bytes| bytes.truncate(byte % (bytes.len() + 1))),
            Edit::Drop(at) => drop((!import.records.is_empty()).then(|| import.records.remove(of(at)))),
            Edit::Repeat(from, to) => {
                if let Some(record) = import.records.get(of(from)).cloned() {
                    import.records.insert(of(to), record);
                }
            }
            Edit::Replace(at, from, to) => change(at, &|bytes| {
                let text = String::from_utf8_lossy(bytes).replacen(from, to, 1);
                *bytes = text.into_bytes();
            }),
        }
    }
    import
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// With the original header, an edited export is refused unless it is unchanged. With a new header, it is
    /// refused, or imported unchanged as a legal run.
    #[test]
    fn an_edited_export_is_refused_or_harmless(edits in edits()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let there = Scene::new().await;
            let run = complete_run(&there).await;
            let good = export(&there, run).await;
            let edited = edited(good.clone(), &edits);
            let here = Scene::new().await;
            match here.engine.admin().import(edited.clone()).await {
                Ok(_) => assert_eq!(edited.records, good.records),
                Err(why) => {
                    assert_eq!(why.code(), Code::ExportAltered, "{why}");
                    check_empty(&here, "edited").await;
                }
            }
            let here = Scene::new().await;
            let edited = with_new_header(edited);
            match here.engine.admin().import(edited.clone()).await {
                Ok(imported) => {
                    check_same(&here, &edited, &imported).await;
                    here.check().await;
                }
                Err(Error::Rejected(_)) => check_empty(&here, "noted anew").await,
                Err(why) => panic!("{why}"),
            }
        });
    }
}
