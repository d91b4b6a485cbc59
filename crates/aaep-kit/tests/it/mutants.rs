//! Tests the suite for producers with the scripted producer: the correct one passes, and each fault is found on the
//! requirement that it breaks.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use recount_aaep_kit::World;
use recount_aaep_kit::conformance::producer::{self, ProducerSubject};
use recount_aaep_kit::conformance::{LevelVerdict, Outcome, Report};
use recount_aaep_kit::link::call::Caller;
use recount_aaep_kit::scenario::Scenario;
use recount_aaep_kit::scripted::{Behaviour, Fault, Scripted};

/// Producers tested at a time: most of a run is waiting.
const AT_ONCE: usize = 10;

/// How long to wait for messages on a busy machine. A correct producer omits nothing, so this is never reached.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait for messages that a faulty producer may never send. If a busy machine is slower, the fault is
/// tested again with [`PATIENCE`].
const PATIENCE_IN_VAIN: Duration = Duration::from_secs(6);

/// Faults that cause only a warning: the protocol says SHOULD or nothing, or the violation is not certain or harmless
///
const WARNED: &[Fault] = &[
    Fault::UrgencyInflated,
    Fault::VersionUnpublished,
    Fault::PromptBeforeState,
    Fault::PromptOvertakesState,
    Fault::StatesMissing,
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

async fn run_suite_as(behaviour: Behaviour, level: u8, only: Option<&str>, patience: Duration) -> Report {
    let world = World::real();
    let token = Some(TOKEN.to_owned());
    let behaviour = Behaviour { heartbeat_ms: 400, timeout_seconds: 5, token, ..behaviour };
    let scripted = Scripted::start(&world, behaviour).await.expect("a free port");
    let report = run_suite_at(&world, &scripted, level, only, patience).await;
    scripted.stop().await;
    report
}

async fn run_suite_at(
    world: &World,
    scripted: &Scripted,
    level: u8,
    only: Option<&str>,
    patience: Duration,
) -> Report {
    let mut subject = ProducerSubject::at(scripted.base().parse().expect("an address"));
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
        [1, 2, 3].map(|level| run_suite_as(Behaviour::default(), level, None, PATIENCE)),
    )
    .await;
    for (report, level) in reports.iter().zip(1..) {
        let text = report.text();
        assert_eq!(report.tally().failed, 0, "{text}");
        assert_eq!((report.verdict(), report.reached()), (LevelVerdict::Passed, Some(level)), "{text}");
        assert!(report.passed(), "{text}");
        assert!(report.checks.iter().all(|check| check.level <= level), "{text}");
        // A warning here would hide the effect of a fault.
        let warned: BTreeSet<_> = report
            .checks
            .iter()
            .filter(|check| check.outcome == Outcome::Warned)
            .map(|check| check.requirement)
            .collect();
        assert!(warned.is_empty(), "{text}");
    }
    assert_eq!(reports[2].tally().not_shown, 0, "{}", reports[2].text());
    // The claim names the requirements that no conversation can show.
    let outside = reports[2].outside();
    assert!(outside.contains(&"R-085") && outside.contains(&"R-208"), "{outside:?}");
    assert!(outside.iter().all(|id| reports[2].claim().contains(id)), "{}", reports[2].claim());
}

/// A stream opened beside another may lag: the suite must not blame the producer for events that have not arrived yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "full: our own AAEP suite"]
async fn a_right_producer_whose_second_stream_lags_is_not_accused() {
    let runs = [40, 40, 40, 300]
        .map(|lag_ms| run_suite_as(Behaviour { lag_ms, ..Behaviour::default() }, 3, None, PATIENCE));
    for report in futures_util::future::join_all(runs).await {
        let text = report.text();
        assert_eq!(report.tally().failed, 0, "{text}");
        assert_eq!((report.verdict(), report.reached()), (LevelVerdict::Passed, Some(3)), "{text}");
    }
}

/// An aborted check, here because no prompt arrives, closes no conversation in the middle of a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aborted_check_waits_for_its_sessions_to_end() {
    let report = run_suite_as(
        Behaviour { sends_prompts: false, lag_ms: 40, ..Behaviour::default() },
        2,
        None,
        PATIENCE,
    )
    .await;
    assert_eq!(of(&report, "R-031"), [&Outcome::Passed], "{}", report.text());
    assert_eq!(report.tally().failed, 0, "{}", report.text());
}

/// A producer that performs every request at once: no check fails, and more than half of level 2 is not shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_without_prompts_does_not_reach_level_2() {
    let plain = Behaviour { sends_prompts: false, ..Behaviour::default() };
    let report = run_suite_as(plain, 2, None, PATIENCE).await;
    let text = report.text();
    assert_eq!(report.tally().failed, 0, "{text}");
    assert_eq!((report.verdict(), report.reached()), (LevelVerdict::NotShown, Some(1)), "{text}");
    assert!(!report.passed(), "{text}");
    for id in ["R-070", "R-074", "R-078", "R-080", "R-089", "R-094", "R-095"] {
        assert!(report.unshown().contains(&id) && report.claim().contains(id), "{id}\n{text}");
    }
}

/// Another client keeps the producer busy: its sessions are received from the middle and continue after the close, and
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
        report = run_suite_at(&world, &scripted, 1, None, PATIENCE) => report,
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

/// Describes what is wrong with the report on a fault, if it was not found as required.
async fn unfound(fault: Fault, patience: Duration) -> Option<String> {
    let behaviour = Behaviour { fault: Some(fault), ..Behaviour::default() };
    let report = run_suite_as(behaviour, fault.level(), Some(fault.requirement()), patience).await;
    let outcomes = of(&report, fault.requirement());
    let expected = if WARNED.contains(&fault) { Outcome::Warned } else { Outcome::Failed };
    let is_found = outcomes.contains(&&expected)
        && (expected != Outcome::Warned || !outcomes.contains(&&Outcome::Failed));
    (!is_found).then(|| {
        format!("{} ({}): {}\n{}", fault.name(), fault.requirement(), fault.description(), report.text())
    })
}

/// An open prompt that a new subscription does not get, a decision that is merged away at a low rate, and a prompt before
/// its state: faults that a listener notices first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_prompt_and_a_lost_decision_are_found() {
    let faults = [
        Fault::OpenPromptForgotten,
        Fault::OutcomeMerged,
        Fault::PromptBeforeState,
        Fault::PromptOvertakesState,
    ];
    let runs = faults.map(|fault| unfound(fault, PATIENCE_IN_VAIN));
    let wrong: Vec<String> = futures_util::future::join_all(runs).await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{} were not found:\n{}", wrong.len(), wrong.join("\n"));
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
