//! The conformance suite of the protocol's authors, run against our scripted producer.

use recount_aaep_kit::scripted::{Behaviour, Scripted};

use crate::exchange::{public_suite, python};

async fn run_suite(announce_sessions: bool) -> public_suite::SuiteRun {
    let world = recount_aaep_kit::World::real();
    let producer =
        Scripted::start(&world, Behaviour { announce_sessions, ..Behaviour::default() }).await.unwrap();
    let (program, endpoint) = (python::program("aaep-conformance"), producer.base().to_owned());
    let run = tokio::task::spawn_blocking(move || public_suite::run(&program, &endpoint, 1));
    let run = run.await.unwrap();
    producer.stop().await;
    run
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "full: needs the public AAEP suite"]
async fn the_suite_takes_the_first_message_for_the_session_and_misses_its_start() {
    let run = run_suite(false).await;
    assert_eq!((run.status, run.failed("error")), (Some(1), vec!["L1-LIFE-004"]), "{}", run.output);
    let run = run_suite(true).await;
    assert_eq!((run.status, run.failed("error").len()), (Some(0), 0), "{}", run.output);
    let (passed, all) = run.passed();
    assert!(passed == all && all > 20, "{}", run.output);
}
