//! The suite for producers is tried on the scripted producer: the right one passes, and each that does one thing wrong
//! is found out on the requirement that it breaks.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use recount_aaep_kit::World;
use recount_aaep_kit::conformance::producer::{self, Subject};
use recount_aaep_kit::conformance::{LevelVerdict, Outcome, Report};
use recount_aaep_kit::link::call::Caller;
use recount_aaep_kit::scenario::Scenario;
use recount_aaep_kit::scripted::{Behaviour, Fault, Scripted};

/// How many producers are tried at a time: most of a run is waiting.
const AT_ONCE: usize = 10;

/// How long is waited for what comes, on a machine that is busy with other things. A right producer leaves nothing out,
/// so nothing waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long is waited for what a faulty producer may never send. Where a busy machine is slower than that, the fault is
/// tried again with [`PATIENCE`].
const PATIENCE_IN_VAIN: Duration = Duration::from_secs(6);

/// What only deserves a warning: the protocol says SHOULD or nothing, or it cannot be told for certain.
const WARNED: &[Fault] = &[
    Fault::UrgencyInflated,
    Fault::StatesUntold,
    Fault::SummaryMissing,
    Fault::HintMissing,
    Fault::UnknownVersionAccepted,
    Fault::NeverFull,
    Fault::ResumeIgnored,
    Fault::ResumeRenames,
    Fault::NoSummary,
    Fault::HeartbeatMissing,
];

const TOKEN: &str = "secret";

async fn tried_as(behaviour: Behaviour, level: u8, only: Option<&str>, patience: Duration) -> Report {
    let world = World::real();
    let token = Some(TOKEN.to_owned());
    let behaviour = Behaviour { heartbeat_ms: 400, timeout_seconds: 5, token, ..behaviour };
    let scripted = Scripted::start(&world, behaviour).await.expect("a free port");
    let report = tried_at(&world, &scripted, level, only, patience).await;
    scripted.stop().await;
    report
}

async fn tried_at(
    world: &World,
    scripted: &Scripted,
    level: u8,
    only: Option<&str>,
    patience: Duration,
) -> Report {
    let mut subject = Subject::at(scripted.base().parse().expect("an address"));
    subject.token = Some(TOKEN.to_owned());
    subject.patience = patience;
    subject.silence = Duration::from_millis(250);
    subject.quiet = Duration::from_millis(1_200);
    subject.only = only.map(str::to_owned).into_iter().collect();
    producer::run(world, &subject, level, &|_| {}).await.expect("it is there")
}

fn of<'r>(report: &'r Report, requirement: &str) -> Vec<&'r Outcome> {
    let checks = report.checks.iter().filter(|check| check.requirement == requirement);
    checks.map(|check| &check.outcome).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_producer_passes_every_level() {
    let reports = futures_util::future::join_all(
        [1, 2, 3].map(|level| tried_as(Behaviour::default(), level, None, PATIENCE)),
    )
    .await;
    for (report, level) in reports.iter().zip(1..) {
        let text = report.text();
        assert_eq!(report.tally().failed, 0, "{text}");
        assert_eq!((report.verdict(), report.reached()), (LevelVerdict::Passed, Some(level)), "{text}");
        assert!(report.passed(), "{text}");
        assert!(report.checks.iter().all(|check| check.level <= level), "{text}");
        // A warning here would hide what a fault does.
        let warned: BTreeSet<_> = report
            .checks
            .iter()
            .filter(|check| check.outcome == Outcome::Warned)
            .map(|check| check.requirement)
            .collect();
        assert!(warned.is_empty(), "{text}");
    }
    assert_eq!(reports[2].tally().not_shown, 0, "{}", reports[2].text());
    // What no conversation shows is named by the claim, not counted in silence.
    let outside = reports[2].outside();
    assert!(outside.contains(&"R-085") && outside.contains(&"R-208"), "{outside:?}");
    assert!(outside.iter().all(|id| reports[2].claim().contains(id)), "{}", reports[2].claim());
}

/// A stream lags that is opened beside another, which is right: no run may blame the producer for what was not heard out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "full: our own AAEP suite"]
async fn a_right_producer_whose_second_stream_lags_is_not_accused() {
    let runs = [40, 40, 40, 300]
        .map(|lag_ms| tried_as(Behaviour { lag_ms, ..Behaviour::default() }, 3, None, PATIENCE));
    for report in futures_util::future::join_all(runs).await {
        let text = report.text();
        assert_eq!(report.tally().failed, 0, "{text}");
        assert_eq!((report.verdict(), report.reached()), (LevelVerdict::Passed, Some(3)), "{text}");
    }
}

/// A check that breaks off, here because no prompt comes, ends no talk in the middle of a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_breaks_off_hears_its_sessions_out() {
    let report =
        tried_as(Behaviour { asks: false, lag_ms: 40, ..Behaviour::default() }, 2, None, PATIENCE).await;
    assert_eq!(of(&report, "R-031"), [&Outcome::Passed], "{}", report.text());
    assert_eq!(report.tally().failed, 0, "{}", report.text());
}

/// It does all that it is asked for at once: no check fails, and more than half of level 2 never comes up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_never_asks_anything_is_given_no_level_of_prompts() {
    let plain = Behaviour { asks: false, ..Behaviour::default() };
    let report = tried_as(plain, 2, None, PATIENCE).await;
    let text = report.text();
    assert_eq!(report.tally().failed, 0, "{text}");
    assert_eq!((report.verdict(), report.reached()), (LevelVerdict::NotShown, Some(1)), "{text}");
    assert!(!report.passed(), "{text}");
    for id in ["R-070", "R-074", "R-078", "R-080", "R-089", "R-094", "R-095"] {
        assert!(report.unshown().contains(&id) && report.claim().contains(id), "{id}\n{text}");
    }
}

/// Another client keeps the producer at work: its sessions are heard in the middle and go on after the close, and
/// its prompts stay open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "full: our own AAEP suite"]
async fn sessions_of_other_clients_are_not_held_against_a_producer() {
    let world = World::real();
    let token = Some(TOKEN.to_owned());
    let behaviour =
        Behaviour { timeout_seconds: 60, pause_ms: 5, heartbeat_ms: 400, token, ..Behaviour::default() };
    let scripted = Scripted::start(&world, behaviour).await.expect("a free port");
    let messages = format!("{}/messages", scripted.base());
    let caller = Caller::new(&messages, Some(TOKEN), Duration::from_secs(6)).unwrap();
    let ask = async |scenario: Scenario| {
        let input = serde_json::json!({"kind": "user_input", "text": scenario.text()}).to_string();
        caller.post(&messages, input.as_bytes()).await.expect("it takes input");
    };
    let other = async {
        ask(Scenario::Confirm).await;
        loop {
            ask(Scenario::LongStream).await;
            // tidy: the other client's own pace; nothing waits for it.
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
    };
    let report = tokio::select! {
        report = tried_at(&world, &scripted, 1, None, PATIENCE) => report,
        () = other => unreachable!("it asks for ever"),
    };
    scripted.stop().await;
    for requirement in ["R-015", "R-030", "R-031", "R-036"] {
        let outcomes = of(&report, requirement);
        let passed = outcomes.iter().all(|outcome| **outcome == Outcome::Passed);
        assert!(passed && !outcomes.is_empty(), "{requirement}: {outcomes:?}\n{}", report.text());
    }
    assert_eq!(report.tally().failed, 0, "{}", report.text());
}

/// What is wrong with the report on a fault, where it is not found as it must be.
async fn unfound(fault: Fault, patience: Duration) -> Option<String> {
    let behaviour = Behaviour { fault: Some(fault), ..Behaviour::default() };
    let report = tried_as(behaviour, fault.level(), Some(fault.requirement()), patience).await;
    let outcomes = of(&report, fault.requirement());
    let expected = if WARNED.contains(&fault) { Outcome::Warned } else { Outcome::Failed };
    let is_found = outcomes.contains(&&expected)
        && (expected != Outcome::Warned || !outcomes.contains(&&Outcome::Failed));
    (!is_found).then(|| {
        format!("{} ({}): {}\n{}", fault.name(), fault.requirement(), fault.description(), report.text())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "full: mutants"]
async fn each_fault_is_found_on_the_requirement_that_it_breaks() {
    assert!(Fault::ALL.len() >= 40);
    let started = recount_world::moment();
    let again: Vec<Fault> = futures_util::stream::iter(Fault::ALL.iter().copied())
        .map(async |fault| unfound(fault, PATIENCE_IN_VAIN).await.map(|_| fault))
        .buffer_unordered(AT_ONCE)
        .filter_map(async |fault| fault)
        .collect()
        .await;
    println!("{} s for {} faults", started.elapsed().as_secs(), Fault::ALL.len());
    let mut wrong = Vec::new();
    for fault in again {
        println!("{} is tried again, alone and with more patience", fault.name());
        wrong.extend(unfound(fault, PATIENCE).await);
    }
    assert!(
        wrong.is_empty(),
        "{} of {} were not found:\n{}",
        wrong.len(),
        Fault::ALL.len(),
        wrong.join("\n")
    );
}
