//! Session setups: what is stored, what is deleted with the session, and the totals of a session.

use std::collections::BTreeMap;

use proptest::prelude::*;
use recount_engine::{NewFork, NewSetup, Profile, Profiles, Setup, UserMessage, limits};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, Json, SessionId};
use recount_faulty_store::AppendFault;
use recount_log::FaultKind;
use recount_run::view::Line;

use crate::scene::{Scene, code};
use crate::user_messages::{create_session, new_run, overrides_with, progress, send, waiting};

/// Has the shape of a secret.
const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

/// The masked form; it shows the kind of secret.
fn masked() -> String {
    format!("ghp_{}", "*".repeat(SECRET.len() - 4))
}

fn seed_message(text: &str) -> Json {
    Json::parse(&format!(r#"{{"role":"user","content":{}}}"#, serde_json::to_string(text).unwrap())).unwrap()
}

async fn seeded(scene: &Scene, seed: Vec<Json>) -> Result<SessionId, recount_engine::Error> {
    let setup = Setup { agent: "clerk".into(), secrets: ["key".to_owned()].into(), ..Setup::default() };
    let secrets = BTreeMap::from([("key".to_owned(), "very secret".to_owned())]);
    let new = NewSetup { title: Some("a talk".into()), setup, secrets, seed };
    Ok(scene.engine.write().create_setup(new, None).await?.id)
}

/// All records of sessions.
async fn stored_rows(scene: &Scene) -> Vec<String> {
    let mut found = Vec::new();
    for space in [
        "record.sessions",
        "record.session_setups",
        "record.session_seeds",
        "record.session_active",
        "record.sealed",
    ] {
        found.extend(scene.disk.rows_of(space).await.into_iter().map(|row| format!("{space} {row}")));
    }
    found
}

#[tokio::test(start_paused = true)]
async fn seed_messages_are_returned_unchanged_except_for_secrets() {
    let mut scene = Scene::new().await;
    let seed = vec![
        seed_message("hello"),
        seed_message(&format!("my key is {SECRET}, keep it")),
        seed_message("é and ✓"),
    ];
    let new = NewSetup { title: Some(format!("about {SECRET}")), seed: seed.clone(), ..NewSetup::default() };
    let row = scene.engine.write().create_setup(new, None).await.unwrap();
    let session: SessionId = row.id;
    scene.reopen().await;
    let back = scene.engine.catalogue().seed(session).await.unwrap();
    let stars = masked();
    assert_eq!(
        back,
        [seed[0].clone(), seed_message(&format!("my key is {stars}, keep it")), seed[2].clone()]
    );
    let title = scene.engine.catalogue().session(session).await.unwrap().unwrap().title;
    assert_eq!(title, Some(format!("about {stars}")));
    let renamed = scene.engine.write().set_title(session, Some(format!("{SECRET}!"))).await.unwrap();
    assert_eq!(renamed.title, Some(format!("{stars}!")));
    assert_eq!(scene.engine.catalogue().session(session).await.unwrap(), Some(renamed));
    assert_eq!(scene.engine.write().set_title(session, None).await.unwrap().title, None);
    assert!(stored_rows(&scene).await.iter().all(|row| !row.contains(SECRET)));
    let setup = scene.engine.catalogue().setup(session).await.unwrap().unwrap();
    assert_eq!(setup.seeded, 3);
    let unknown: SessionId = "chat_01HZX3Q0M0000000000000000C".parse().unwrap();
    assert_eq!(code(scene.engine.write().set_title(unknown, None).await), Code::SessionNotFound);
}

#[tokio::test(start_paused = true)]
async fn large_seeds_and_setups_are_accepted_up_to_their_limits() {
    let scene = Scene::new().await;
    // An image as data.
    let large = seed_message(&"QUJD".repeat(limits::SEED_ROW_BYTES));
    let seed = vec![large.clone(), seed_message("ü"), large.clone(), large.clone()];
    assert!(seed.iter().map(|message| message.text().len()).sum::<usize>() > 12 << 20);
    let session = seeded(&scene, seed.clone()).await.unwrap();
    assert_eq!(scene.engine.catalogue().seed(session).await.unwrap(), seed);
    let too_much = vec![large; 7];
    let position = stored_rows(&scene).await.len();
    assert_eq!(code(seeded(&scene, too_much).await), Code::LimitReached);
    assert_eq!(stored_rows(&scene).await.len(), position);
    let options = BTreeMap::from([("language".to_owned(), "x".repeat(limits::SETUP_BYTES_MAX))]);
    let setup = Setup { agent: "clerk".into(), options, ..Setup::default() };
    let chosen = scene.engine.write().create_setup(NewSetup { setup, ..NewSetup::default() }, None).await;
    assert_eq!(code(chosen), Code::LimitReached);
    let before = scene.engine.catalogue().setup(session).await.unwrap();
    let large = "x".repeat(limits::SETUP_BYTES_MAX + 1);
    for overrides in [overrides_with(&large, "key"), overrides_with("Dutch", &large)] {
        let (new, before) = (new_run("hello"), before.clone());
        let user_message = UserMessage { session, new, before, overrides, supersedes: None };
        assert_eq!(code(scene.engine.write().send_message(user_message, None).await), Code::LimitReached);
    }
    assert_eq!(scene.engine.catalogue().setup(session).await.unwrap(), before);
}

fn seeds() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("\\PC{0,40}", 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_seed_text_is_returned_with_its_length(words in seeds(), secret_at in 0_usize..6) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let scene = Scene::new().await;
            let mut words = words;
            if let Some(words) = words.get_mut(secret_at) {
                *words = format!("{words} {SECRET} {words}");
            }
            let seed: Vec<Json> = words.iter().map(|words| seed_message(words)).collect();
            let session = seeded(&scene, seed.clone()).await.unwrap();
            let back = scene.engine.catalogue().seed(session).await.unwrap();
            assert_eq!(back.len(), seed.len());
            for (back, seed) in back.iter().zip(&seed) {
                assert_eq!(back.text().len(), seed.text().len());
                assert!(!back.text().contains(SECRET));
                let agrees = |(back, seed): (u8, u8)| back == seed || back == b'*';
                assert!(back.text().bytes().zip(seed.text().bytes()).all(agrees));
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_session_leaves_nothing_of_its_setup_after_any_crash() {
    for passes in 0..14 {
        let mut scene = Scene::new().await;
        let session =
            seeded(&scene, vec![seed_message("a unique text"), seed_message("another")]).await.unwrap();
        let neighbour = create_session(&scene).await;
        let run = waiting(&scene, session).await;
        let faults = (0..passes).map(|_| AppendFault::Pass).chain([AppendFault::Refuse(FaultKind::Io)]);
        scene.store.next_appends(faults);
        let deleted = scene.engine.admin().delete_session(session, "ann").await;
        if passes > 0 {
            // From the first append on nothing is returned.
            assert_eq!(scene.engine.catalogue().setup(session).await.unwrap(), None);
            assert!(scene.engine.catalogue().seed(session).await.unwrap().is_empty());
            assert_eq!(scene.engine.write().secret_option(session, "key").await.unwrap(), None);
        }
        scene.reopen().await;
        if passes == 0 {
            assert!(deleted.is_err());
            assert!(scene.engine.catalogue().setup(session).await.unwrap().is_some());
            scene.engine.admin().delete_session(session, "ann").await.unwrap();
        }
        let finished = async {
            while !scene.disk.rows_of("record.erasing").await.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), finished).await.unwrap();
        let remaining = stored_rows(&scene).await;
        assert!(remaining.iter().all(|row| !row.contains(&session.to_string())), "{remaining:?}");
        assert!(remaining.iter().all(|row| !row.contains("a unique text")), "{remaining:?}");
        assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), None);
        assert_eq!(code(scene.engine.read().read_run(run, None, 9).await), Code::RunErased);
        assert_eq!(
            code(scene.engine.write().fork(session, NewFork::default(), None).await),
            Code::SessionErased
        );
        assert_eq!(code(scene.engine.write().set_title(session, None).await), Code::SessionErased);
        // The other session keeps its data.
        assert_eq!(
            scene.engine.write().secret_option(neighbour, "key").await.unwrap().as_deref(),
            Some("first")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_set_while_its_session_is_deleted_is_deleted_too() {
    let scene = Scene::new().await;
    let session = seeded(&scene, Vec::new()).await.unwrap();
    let before = scene.engine.catalogue().setup(session).await.unwrap();
    let mut overrides = overrides_with("Dutch", "second");
    overrides.secrets.insert("other".into(), "third".into());
    // The deletion has read the setup, and is held before its append.
    let (go, held) = tokio::sync::oneshot::channel();
    scene.store.next_appends([AppendFault::Hold(held)]);
    let send_message = async {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        let new = new_run("hello");
        let user_message = UserMessage { session, new, before, overrides, supersedes: None };
        scene.engine.write().send_message(user_message, None).await.unwrap();
        go.send(()).unwrap();
    };
    let (deleted, ()) = tokio::join!(scene.engine.admin().delete_session(session, "ann"), send_message);
    assert_eq!(deleted.unwrap(), 1);
    assert_eq!(stored_rows(&scene).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_fork_has_the_same_setup_and_its_own_secrets() {
    let mut scene = Scene::new().await;
    let session = seeded(&scene, vec![seed_message("before")]).await.unwrap();
    let new = NewFork {
        title: Some("another way".into()),
        seed: vec![seed_message("before"), seed_message(SECRET)],
    };
    let fork = scene.engine.write().fork(session, new, None).await.unwrap();
    assert_eq!(fork.title.as_deref(), Some("another way"));
    let fork: SessionId = fork.id;
    assert_ne!(fork, session);
    let setup_of = async |session| scene.engine.catalogue().setup(session).await.unwrap().unwrap().setup;
    assert_eq!(setup_of(fork).await, setup_of(session).await);
    assert_eq!(
        scene.engine.catalogue().seed(fork).await.unwrap(),
        [seed_message("before"), seed_message(&masked())]
    );
    scene.engine.admin().delete_session(session, "ann").await.unwrap();
    scene.reopen().await;
    assert_eq!(
        scene.engine.write().secret_option(fork, "key").await.unwrap().as_deref(),
        Some("very secret")
    );
    let plain = scene.engine.write().create_session(None).await.unwrap().id;
    assert_eq!(code(scene.engine.write().fork(plain, NewFork::default(), None).await), Code::SessionNotFound);
}

/// A turn that uses ten input tokens, three output tokens and seven millionths, with totals for `times` turns.
async fn work(scene: &Scene, run: recount_event::RunId, times: u64) {
    let tick = format!(
        r#"{{"cumulative_input_tokens":{},"cumulative_output_tokens":{},"cumulative_cost_micros_usd":{}}}"#,
        10 * times,
        3 * times,
        7 * times
    );
    let used = r#"{"turn_index":0,"stop_reason":"end_turn","input_tokens":10,"output_tokens":3,"cost_micros_usd":7}"#;
    let events = [
        ("run.started", "{}"),
        ("turn.started", r#"{"turn_index":0}"#),
        ("turn.completed", used),
        ("cost.tick", tick.as_str()),
    ];
    progress(scene, run, &events).await;
}

#[tokio::test(start_paused = true)]
async fn session_totals_have_the_status_of_the_latest_run_and_the_usage_of_all() {
    let scene = Scene::new().await;
    let session = create_session(&scene).await;
    let totals = async || scene.engine.read().session_totals(session).await.unwrap();
    assert_eq!((totals().await.status(), totals().await.runs), ("idle", 0));
    let run = send(&scene, session, "hello").await;
    work(&scene, run, 1).await;
    assert_eq!((totals().await.status(), totals().await.input_tokens), ("running", 10));
    scene.cancel(run).await.unwrap();
    assert_eq!(totals().await.status(), "idle");
    // A run that continues another one includes its usage.
    let ended = scene.engine.write().ended_run(run).await.unwrap();
    let mut queued = Queued::new(RunKind::AgentLoop);
    ended.set_predecessor(&mut queued);
    let mut new = new_run("more");
    new.queued = queued;
    let user_message =
        UserMessage { session, new, before: None, overrides: Default::default(), supersedes: None };
    let (next, _) = scene.engine.write().send_message(user_message, None).await.unwrap();
    work(&scene, next, 2).await;
    assert_eq!(
        scene.engine.catalogue().run(next).await.unwrap().unwrap().input_tokens,
        20,
        "equal to the count in the row"
    );
    scene.cancel(next).await.unwrap();
    let third = waiting(&scene, session).await;
    let all = totals().await;
    assert_eq!((all.runs, all.input_tokens, all.output_tokens, all.cost_micros_usd), (3, 20, 6, 14));
    assert_eq!((all.status(), all.latest.unwrap().id), ("waiting", third));
}

#[tokio::test(start_paused = true)]
async fn the_history_has_all_runs_in_order_without_file_runs() {
    let scene = Scene::new().await;
    let session = create_session(&scene).await;
    let mut expected = Vec::new();
    for words in ["one", "two", "three"] {
        let run = send(&scene, session, words).await;
        let data = format!(r#"{{"text":{words:?}}}"#);
        progress(&scene, run, &[("run.started", "{}"), ("user.message", &data)]).await;
        scene.cancel(run).await.unwrap();
        expected.push((run, words.to_owned()));
        let mut file = new_run("a file");
        file.queued = Queued::new(RunKind::File);
        let file =
            UserMessage { session, new: file, before: None, overrides: Default::default(), supersedes: None };
        let (file, _) = scene.engine.write().send_message(file, None).await.unwrap();
        progress(&scene, file, &[("run.started", "{}"), ("user.message", r#"{"text":"no"}"#)]).await;
        scene.cancel(file).await.unwrap();
    }
    let history = scene.engine.read().history(session).await.unwrap();
    let lines = history.full().map(|placed| match &placed.line {
        Line::User { text, .. } => (placed.run, text.clone()),
        other => panic!("{other:?}"),
    });
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn profiles_are_registered_once() {
    let scene = Scene::new().await;
    assert_eq!(scene.engine.catalogue().profiles().iter().count(), 0);
    let named = |name: &str| Profiles::new([Profile { name: name.into(), ..Profile::default() }]);
    scene.engine.catalogue().register_profiles(named("clerk").into());
    scene.engine.catalogue().register_profiles(named("other").into());
    assert!(
        scene.engine.catalogue().profiles().get("clerk").is_ok()
            && scene.engine.catalogue().profiles().get("other").is_err()
    );
}
