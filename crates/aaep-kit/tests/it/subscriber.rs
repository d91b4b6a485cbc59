//! Tests the trial of subscribers: with a correct subscriber at each level and on each surface, and with one for each
//! fault, which must fail on the requirement that it breaks. The subscriber is a process.

use std::net::SocketAddr;
use std::time::Duration;

use recount_aaep_kit::World;
use recount_aaep_kit::conformance::subscriber::{
    Question, ReplyPolicy, SubscriberSubject, TrialTimes, declarable, run,
};
use recount_aaep_kit::conformance::{LevelVerdict, Outcome, Report};
use recount_aaep_kit::scripted_subscriber::{Fault, SubscriberSurface};

const SUBSCRIBER: &str = env!("CARGO_BIN_EXE_recount-aaep-subscriber");
/// Long enough to withdraw a prompt before the reply.
const REPLY_DELAY_MS: u64 = 200;

/// Timeouts for a subscriber that is known to be fast.
fn quick() -> TrialTimes {
    TrialTimes {
        connect: Duration::from_secs(30),
        reply: Duration::from_secs(10),
        quiet: Duration::from_millis(500),
        reconnect: Duration::from_secs(20),
        down: Duration::from_secs(2),
        sustain: Duration::from_secs(2),
    }
}

fn subject(options: &[&str], answers: ReplyPolicy) -> SubscriberSubject {
    let mut subject = SubscriberSubject::new(SocketAddr::from(([127, 0, 0, 1], 0)), answers);
    let command = [SUBSCRIBER, "{url}"].iter().chain(options).map(|part| (*part).to_owned());
    subject.command = Some(command.collect());
    subject.times = quick();
    subject
}

async fn run_suite(subject: &SubscriberSubject, level: u8) -> Report {
    let mut sink = |_: recount_aaep_kit::conformance::subscriber::TrialNotice<'_>| {};
    run(&World::real(), subject, level, &mut sink).await.expect("the subscriber comes")
}

fn failed(report: &Report) -> Vec<&'static str> {
    let failed = report.checks.iter().filter(|check| check.outcome == Outcome::Failed);
    let mut ids: Vec<_> = failed.map(|check| check.requirement).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_subscriber_passes_at_every_level_and_on_every_surface() {
    let reply_delay = REPLY_DELAY_MS.to_string();
    let mut trials = Vec::new();
    for level in 1..=3 {
        for surface in SubscriberSurface::ALL {
            if surface == SubscriberSurface::LegacyBare && level == 3 {
                continue;
            }
            trials.push((level, surface));
        }
    }
    let runs = trials.iter().map(|(level, surface)| {
        let level_word = level.to_string();
        let options = ["--level", &level_word, "--surface", surface.name(), "--thinks-ms", &reply_delay];
        let subject = subject(&options, ReplyPolicy::Accept);
        async move { run_suite(&subject, *level).await }
    });
    for ((level, surface), report) in trials.iter().zip(futures_util::future::join_all(runs).await) {
        assert_eq!(failed(&report), Vec::<&str>::new(), "level {level} {surface:?}\n{}", report.text());
        // No person was asked, so only the requirements that need one prevent the level.
        let people: &[&str] = match level {
            1 => &["R-034", "R-038", "R-041", "R-061", "R-185"],
            _ => &["R-034", "R-038", "R-041", "R-061", "R-092", "R-185"],
        };
        assert_eq!(report.unshown(), people, "level {level} {surface:?}\n{}", report.text());
        assert_eq!((report.verdict(), report.reached()), (LevelVerdict::NotShown, None), "{}", report.text());
        let replies = report
            .checks
            .iter()
            .find(|check| check.requirement == "R-090" && check.outcome == Outcome::Passed);
        assert!(*level < 2 || replies.is_some(), "a prompt was withdrawn\n{}", report.text());
    }
}

/// Everything observable is shown, with a person who says yes to all questions.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "full: our own AAEP suite"]
async fn a_level_is_given_when_each_requirement_of_it_was_shown() {
    let reply_delay = REPLY_DELAY_MS.to_string();
    let trials = [1_u8, 2, 3].map(|level| {
        let level_word = level.to_string();
        let mut subject =
            subject(&["--level", &level_word, "--thinks-ms", &reply_delay], ReplyPolicy::Accept);
        let (question_sender, mut question_receiver) = tokio::sync::mpsc::channel::<Question>(1);
        subject.person = Some(question_sender);
        let person = async move {
            while let Some(question) = question_receiver.recv().await {
                question.answer.send(Some(true)).unwrap();
            }
        };
        async move { tokio::join!(async move { run_suite(&subject, level).await }, person).0 }
    });
    for (level, report) in (1..).zip(futures_util::future::join_all(trials).await) {
        let text = report.text();
        assert_eq!((report.verdict(), report.reached()), (LevelVerdict::Passed, Some(level)), "{text}");
        assert!(report.passed(), "{text}");
        // The claim names the requirements that no conversation can show.
        assert_eq!(report.outside().contains(&"R-165"), level == 3, "{text}");
        assert!(report.outside().iter().all(|id| report.claim().contains(id)), "{text}");
        let strays = report.checks.iter().filter(|check| matches!(check.outcome, Outcome::NotShown(_)));
        assert_eq!(strays.count(), 0, "{text}");
    }
}

/// Unattended, a right subscriber reaches each level when what only a person can judge is declared.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_subscriber_passes_with_declarations() {
    let reply_delay = REPLY_DELAY_MS.to_string();
    let trials = [1_u8, 2, 3].map(|level| {
        let level_word = level.to_string();
        let mut subject =
            subject(&["--level", &level_word, "--thinks-ms", &reply_delay], ReplyPolicy::Accept);
        subject.declared = declarable();
        async move { run_suite(&subject, level).await }
    });
    for (level, report) in (1..).zip(futures_util::future::join_all(trials).await) {
        let text = report.text();
        assert_eq!((report.verdict(), report.reached()), (LevelVerdict::Passed, Some(level)), "{text}");
        assert!(report.passed(), "{text}");
        let people: &[&str] = match level {
            1 => &["R-034", "R-035", "R-038", "R-041", "R-061", "R-185", "R-189"],
            _ => &["R-034", "R-035", "R-038", "R-041", "R-061", "R-092", "R-185", "R-189"],
        };
        assert_eq!(report.declared(), people, "{text}");
        assert!(people.iter().all(|id| report.claim().contains(id)), "{}", report.claim());
        assert!(text.contains("declared, not observed, R-034"), "{text}");
    }
}

/// A subscriber that only reads a stream, like `curl -N`: nothing fails, and nothing is shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_only_reads_gets_no_level() {
    let trials = [1, 2].map(|level| async move {
        let subject = subject(
            &["--surface", SubscriberSurface::LegacyBare.name(), "--answers", "nobody"],
            ReplyPolicy::Never,
        );
        run_suite(&subject, level).await
    });
    for (level, report) in (1..).zip(futures_util::future::join_all(trials).await) {
        let text = report.text();
        assert_eq!(failed(&report), Vec::<&str>::new(), "{text}");
        assert_eq!((report.verdict(), report.reached()), (LevelVerdict::NotShown, None), "{text}");
        assert!(!report.passed(), "{text}");
        assert!(report.claim().contains("not shown") && report.claim().contains("R-141"), "{text}");
        assert_eq!(report.unshown().contains(&"R-145"), level == 2, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "full: mutants"]
async fn every_fault_fails_on_the_requirement_that_it_breaks() {
    let mut wrong = Vec::new();
    for some in Fault::ALL.chunks(21) {
        let runs = some.iter().map(|fault| {
            // Only a delayed reply can lose a prompt.
            let reply_delay = matches!(fault.requirement(), "R-090" | "R-092")
                .then_some(REPLY_DELAY_MS)
                .unwrap_or_default();
            let reply_delay = reply_delay.to_string();
            let unasked = *fault == Fault::AnswersUnasked;
            let answers = if unasked { ReplyPolicy::Never } else { ReplyPolicy::Accept };
            let replies = if unasked { "nobody" } else { "accept" };
            let mut options =
                vec!["--fault", fault.name(), "--answers", replies, "--thinks-ms", &reply_delay];
            let mut subject = subject(&options, answers);
            if *fault == Fault::RepliesWithoutToken {
                options.extend(["--token", "secret"]);
                subject = self::subject(&options, answers);
                subject.token = Some("secret".into());
            }
            async move { run_suite(&subject, fault.level().max(2)).await }
        });
        for (fault, report) in some.iter().zip(futures_util::future::join_all(runs).await) {
            let failed = failed(&report);
            println!("{:28} {} {:?} in {} ms", fault.name(), fault.requirement(), failed, report.took_ms);
            // One fault may show in several places, but not everywhere.
            if !failed.contains(&fault.requirement()) || failed.len() > 3 {
                wrong.push(format!("{} failed on {failed:?}\n{}", fault.name(), report.text()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "full: our own AAEP suite"]
async fn silence_passes_only_when_no_replies_are_configured() {
    let silent = subject(&["--answers", "nobody"], ReplyPolicy::Never);
    let (report, mute) = tokio::join!(run_suite(&silent, 3), async {
        run_suite(&subject(&["--answers", "nobody"], ReplyPolicy::Reject), 2).await
    });
    assert_eq!(failed(&report), Vec::<&str>::new(), "{}", report.text());
    let of =
        |id| report.checks.iter().find(|check| check.requirement == id).map(|check| check.outcome.clone());
    assert_eq!(of("R-091"), Some(Outcome::Passed));
    assert!(matches!(of("R-076"), Some(Outcome::NotShown(_))), "{}", report.text());
    assert_eq!(failed(&mute), ["R-145"], "{}", mute.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn people_get_questions_only_about_what_cannot_be_observed() {
    let (question_sender, mut question_receiver) = tokio::sync::mpsc::channel::<Question>(1);
    let mut subject = subject(&["--level", "2"], ReplyPolicy::Accept);
    subject.person = Some(question_sender);
    let person = async {
        let mut questions = Vec::new();
        while let Some(question) = question_receiver.recv().await {
            // The person says no to the first, cannot tell the second, and says yes to the others.
            let answer = [Some(false), None].get(questions.len()).copied().unwrap_or(Some(true));
            questions.push(question.text);
            question.answer.send(answer).unwrap();
        }
        questions
    };
    let trial = async move { run_suite(&subject, 2).await };
    let (report, questions) = tokio::join!(trial, person);
    assert!(questions.iter().all(|question| question.ends_with('?')), "{questions:?}");
    assert_eq!(failed(&report), ["R-034"]);
    let of = |id| report.checks.iter().rev().find(|check| check.requirement == id).unwrap().outcome.clone();
    assert!(matches!(of("R-035"), Outcome::NotShown(_)));
    assert_eq!(of("R-061"), Outcome::Passed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_never_connects_is_reported_with_its_last_output() {
    let mut subject = subject(&[], ReplyPolicy::Never);
    subject.command = Some(vec!["/bin/sh".into(), "-c".into(), "echo no such host >&2; exit 3".into()]);
    subject.times.connect = Duration::from_secs(1);
    let mut sink = |_: recount_aaep_kit::conformance::subscriber::TrialNotice<'_>| {};
    let error = run(&World::real(), &subject, 1, &mut sink).await.unwrap_err().to_string();
    assert!(error.contains("exit status: 3") && error.contains("no such host"), "{error}");
}
