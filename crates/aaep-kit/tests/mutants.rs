//! The suite for producers is tried on the scripted producer: the right one passes, and each that does one thing wrong
//! is found out on the requirement that it breaks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use recount_aaep_kit::World;
use recount_aaep_kit::conformance::producer::{self, Subject};
use recount_aaep_kit::conformance::{LevelVerdict, Outcome, Report};
use recount_aaep_kit::scripted::{Behaviour, Fault, Scripted};

/// How many producers are tried at a time: most of a run is waiting.
const AT_ONCE: usize = 10;

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

async fn tried(fault: Option<Fault>, level: u8, only: Option<&str>) -> Report {
    tried_as(Behaviour { fault, ..Behaviour::default() }, level, only).await
}

async fn tried_as(behaviour: Behaviour, level: u8, only: Option<&str>) -> Report {
    let world = World::real();
    let token = "secret".to_owned();
    let behaviour =
        Behaviour { heartbeat_ms: 400, timeout_seconds: 5, token: Some(token.clone()), ..behaviour };
    let scripted = Scripted::start(&world, behaviour).await.expect("a free port");
    let mut subject = Subject::at(scripted.base().parse().expect("an address"));
    subject.token = Some(token);
    subject.patience = Duration::from_secs(6);
    subject.silence = Duration::from_millis(250);
    subject.quiet = Duration::from_millis(1_200);
    subject.only = only.map(str::to_owned).into_iter().collect();
    let report = producer::run(&world, &subject, level, &|_| {}).await.expect("it is there");
    scripted.stop().await;
    report
}

fn of<'r>(report: &'r Report, requirement: &str) -> Vec<&'r Outcome> {
    let checks = report.checks.iter().filter(|check| check.requirement == requirement);
    checks.map(|check| &check.outcome).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_producer_passes_every_level() {
    let reports = futures_util::future::join_all([1, 2, 3].map(|level| tried(None, level, None))).await;
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
async fn a_right_producer_whose_second_stream_lags_is_not_accused() {
    let runs =
        [40, 40, 40, 300].map(|lag_ms| tried_as(Behaviour { lag_ms, ..Behaviour::default() }, 3, None));
    for report in futures_util::future::join_all(runs).await {
        let text = report.text();
        assert_eq!(report.tally().failed, 0, "{text}");
        assert_eq!((report.verdict(), report.reached()), (LevelVerdict::Passed, Some(3)), "{text}");
    }
}

/// A check that breaks off, here because no prompt comes, ends no talk in the middle of a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_breaks_off_hears_its_sessions_out() {
    let report = tried_as(Behaviour { asks: false, lag_ms: 40, ..Behaviour::default() }, 2, None).await;
    assert_eq!(of(&report, "R-031"), [&Outcome::Passed], "{}", report.text());
    assert_eq!(report.tally().failed, 0, "{}", report.text());
}

/// It does all that it is asked for at once: no check fails, and more than half of level 2 never comes up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_never_asks_anything_is_given_no_level_of_prompts() {
    let plain = Behaviour { asks: false, ..Behaviour::default() };
    let report = tried_as(plain, 2, None).await;
    let text = report.text();
    assert_eq!(report.tally().failed, 0, "{text}");
    assert_eq!((report.verdict(), report.reached()), (LevelVerdict::NotShown, Some(1)), "{text}");
    assert!(!report.passed(), "{text}");
    for id in ["R-070", "R-074", "R-078", "R-080", "R-089", "R-094", "R-095"] {
        assert!(report.unshown().contains(&id) && report.claim().contains(id), "{id}\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_is_found_on_the_requirement_that_it_breaks() {
    assert!(Fault::ALL.len() >= 40);
    let wrong = Arc::new(std::sync::Mutex::new(Vec::new()));
    let began = recount_world::moment();
    futures_util::stream::iter(Fault::ALL.iter().copied())
        .for_each_concurrent(AT_ONCE, |fault| {
            let wrong = wrong.clone();
            async move {
                let began = recount_world::moment();
                let report = tried(Some(fault), fault.level(), Some(fault.requirement())).await;
                let outcomes = of(&report, fault.requirement());
                let expected = if WARNED.contains(&fault) { Outcome::Warned } else { Outcome::Failed };
                println!("{:6} ms {}", began.elapsed().as_millis(), fault.name());
                if !outcomes.contains(&&expected)
                    || (expected == Outcome::Warned && outcomes.contains(&&Outcome::Failed))
                {
                    let text = format!(
                        "{} ({}): {}\n{}",
                        fault.name(),
                        fault.requirement(),
                        fault.says(),
                        report.text()
                    );
                    wrong.lock().expect("nobody panics while it notes").push(text);
                }
            }
        })
        .await;
    println!("{} s for {} faults", began.elapsed().as_secs(), Fault::ALL.len());
    let wrong = wrong.lock().expect("nobody panics while it notes");
    assert!(
        wrong.is_empty(),
        "{} of {} were not found:\n{}",
        wrong.len(),
        Fault::ALL.len(),
        wrong.join("\n")
    );
}
