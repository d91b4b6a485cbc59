//! Tests the suite for producers with the protocol's reference producer (`aaep-minimal-producer` 1.0.0), whose known
//! violations of its own specification must be found on the right requirements.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use recount_aaep_kit::World;
use recount_aaep_kit::conformance::producer::{self, ProducerSubject};
use recount_aaep_kit::conformance::{Check, Outcome, Report};
use recount_aaep_kit::scenario::Scenario;
use tokio::process::{Child, Command};

use crate::exchange::python::program;

/// The timeout of its start; reached only on failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// Their producer, killed when the test ends.
struct Theirs {
    _child: Child,
    url: String,
}

async fn theirs() -> Theirs {
    // It does not accept port 0, so it gets one that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let place = free.local_addr().expect("it has an address");
    drop(free);
    let mut command = Command::new(program("aaep-minimal-producer"));
    command.args(["--port", &place.port().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let child = command.spawn().expect("it is installed");
    let reached = async {
        while tokio::net::TcpStream::connect(place).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.expect("it listens");
    Theirs { _child: child, url: format!("http://{place}") }
}

async fn run_suite(only: &[&str]) -> Report {
    let theirs = theirs().await;
    let mut subject = ProducerSubject::at(theirs.url.parse().expect("an address"));
    // It requires no token, which is one of the expected findings.
    subject.token = Some("a token".into());
    subject.patience = Duration::from_secs(4);
    // A transfer takes 0.7 seconds without any event.
    subject.silence = Duration::from_secs(1);
    subject.outlast = Duration::ZERO;
    subject.quiet = Duration::ZERO;
    subject.only = only.iter().map(|id| (*id).to_owned()).collect();
    // Its model recognizes tools by these words, and calls one only in the first session of the process.
    subject.sentences.insert(Scenario::Irreversible, "Please transfer 500 dollars to savings.".into());
    producer::run(&World::real(), &subject, 3, &|_| {}).await.expect("it answers")
}

fn found(report: &Report, outcome: &Outcome) -> BTreeSet<&'static str> {
    report.checks.iter().filter(|check| check.outcome == *outcome).map(|check| check.requirement).collect()
}

fn mentions(report: &Report, requirement: &str, words: &str) -> bool {
    let text = |check: &Check| format!("{} {}", check.detail, check.evidence.join(" "));
    report.checks.iter().any(|check| {
        check.requirement == requirement
            && matches!(check.outcome, Outcome::Failed | Outcome::Warned)
            && text(check).contains(words)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "full: needs the public AAEP tools"]
async fn known_violations_of_the_reference_producer_are_found() {
    let report = run_suite(&[]).await;
    let text = report.text();
    let (failed, warned) = (found(&report, &Outcome::Failed), found(&report, &Outcome::Warned));
    let failures = [
        ("R-051", "the call is announced before its confirmation"),
        ("R-180", "the language is missing"),
        ("R-053", "what was typed is repeated in a summary"),
        ("R-077", "replies without credentials are taken"),
        ("R-163", "no route looks at credentials"),
        ("R-078", "replies that do not fit their schema settle a prompt"),
        ("R-111", "no handshake is answered"),
        ("R-124", "there is no manifest"),
    ];
    for (requirement, what) in failures {
        assert!(failed.contains(requirement), "{requirement} is not among the failed: {what}\n{text}");
    }
    // Its sessions end. A prompt that is settled before it can be rejected is not a missing end.
    assert!(!failed.contains("R-031"), "{text}");
    let warnings = [
        ("R-096", "prompts come without `awaiting_input`"),
        ("R-149", "frames have no id, so clients cannot resume"),
        ("R-018", "only `session.started` states its version"),
    ];
    for (requirement, what) in warnings {
        assert!(warned.contains(requirement), "{requirement} is not among the warnings: {what}\n{text}");
    }
    assert!(mentions(&report, "R-051", "before its confirmation"), "{text}");
    assert!(mentions(&report, "R-077", "got 200"), "{text}");
    // Situations that it does not support are reported as not shown, not as passed: errors (its categories are not the
    // protocol's), questions, and expired prompts (its 300 seconds run by its own clock).
    let not_shown = |requirement: &str| {
        let is =
            |check: &Check| matches!(check.outcome, Outcome::NotShown(_)) && check.requirement == requirement;
        report.checks.iter().any(is)
    };
    for requirement in ["R-033", "R-081", "R-086", "R-094", "R-120"] {
        assert!(not_shown(requirement), "{requirement}\n{text}");
    }
    // Correct behaviour is reported too: invalid replies get the same response.
    assert!(found(&report, &Outcome::Passed).contains("R-079"), "{text}");
    assert_eq!(report.reached(), None, "{text}");
    assert!(report.claim().contains("no AAEP 1.0.0 producer of level 3"), "{text}");
}
