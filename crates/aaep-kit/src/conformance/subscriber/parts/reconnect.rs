//! Checks of lost connections: cut in the middle, refused for a while, and a producer that is killed and restarted.

use crate::conformance::Outcome;
use crate::conformance::subscriber::producer::{Input, Observation};
use crate::conformance::subscriber::trial::{SubscriberReaction, Trial};
use crate::conformance::subscriber::{Expectation, TrialError};
use crate::limits;

const RETURNS: Expectation = Expectation("R-143", "it reconnects after a cut connection and loses nothing");
const GOES_ON: Expectation = Expectation("R-121", RETURNS.1);
const RESUMES: Expectation = Expectation("R-149", "it reconnects with the id of its last event");
const PAUSES: Expectation = Expectation("R-121", "it retries with pauses while it is refused");
const KILLED: Expectation = Expectation("R-121", "it reconnects after the producer was killed and restarted");
const SINGLE: Expectation = Expectation("R-144", "it closes old connections");

pub(crate) async fn run(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    if !trial.present().await? {
        return Ok(());
    }
    cut(trial).await?;
    if trial.level < 3 {
        single(trial);
        return Ok(());
    }
    if trial.present().await? {
        refused(trial).await?;
    }
    if trial.present().await? {
        killed(trial).await?;
    }
    single(trial);
    Ok(())
}

/// Cuts the connection and sends a prompt that the subscriber misses.
async fn cut(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    trial.start_check();
    // A reply to this probe shows that it has received everything before.
    trial.probe().await;
    let waiting = trial.builder.go("awaiting_input");
    trial.send_event(&waiting).await;
    let token = trial.builder.token();
    let missed = trial.builder.confirmation(token, limits::TRIAL_PROMPT_SECONDS);
    let mark = trial.producer.mark();
    trial.producer.cut();
    let back = trial.connected(trial.subject.times.reconnect).await;
    let Some(open) = back else {
        let ending = trial.ending();
        let detail = format!("it did not come back{ending}");
        // At the lower levels a clean end is enough; from level 3 on it must resume.
        trial.check(RETURNS, Outcome::Warned, detail.clone());
        trial.check(GOES_ON, Outcome::Failed, detail);
        trial.not_shown(RESUMES, "it did not come back");
        return Ok(());
    };
    let resumes = trial.producer.since(mark).into_iter().rev().find_map(|seen| match seen.what {
        Input::Opened { resumes, line } if line == open.line => Some(resumes),
        _ => None,
    });
    let known = |id: &String| trial.has_sent(id);
    let (outcome, detail) = match resumes.flatten() {
        _ if open.surface.is_socket() => {
            (Outcome::Inapplicable("a WebSocket cannot be resumed".into()), String::new())
        }
        Some(id) if known(&id) => (Outcome::Passed, format!("it requested the events after {id}")),
        Some(id) => (Outcome::Failed, format!("it requested the events after `{id}`, which was never sent")),
        None => (Outcome::Failed, "it came without `Last-Event-ID`".to_owned()),
    };
    trial.check(RESUMES, outcome, detail);
    // The missed events are sent again, with or without a resume.
    let piece = missed.event.piece();
    let reaction = trial.send_prompt(missed, &piece).await;
    trial.follow(&reaction).await;
    let detail = match &reaction {
        SubscriberReaction::Answered { after, .. } => {
            format!("it answered what it had missed after {} ms", after.as_millis())
        }
        SubscriberReaction::Silent => "it came back but did not answer what it had missed".to_owned(),
        reaction => trial.describe(reaction),
    };
    trial.check_that(RETURNS, reaction.is_healthy(), detail);
    trial.recover(&reaction).await
}

/// Refuses connections for a while: the subscriber may retry, but not without pauses.
async fn refused(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    trial.start_check();
    let mark = trial.producer.mark();
    trial.producer.refuse(Some(limits::SYNTHETIC_REFUSAL));
    trial.producer.cut();
    let tries = tries_from(trial, mark).await;
    trial.producer.refuse(None);
    trial.check_that(PAUSES, !tries.are_many, tries.detail);
    Ok(())
}

/// How often it tried to connect while the producer was down.
pub(super) struct Tries {
    /// More often than retries with pauses allow.
    pub(super) are_many: bool,
    pub(super) detail: String,
}

/// Waits while the producer is down, or until too many attempts.
pub(super) async fn tries_from(trial: &Trial<'_>, mark: usize) -> Tries {
    let came =
        |seen: &[Observation]| seen.iter().filter(|seen| matches!(seen.what, Input::Request { .. })).count();
    let down = trial.subject.times.down;
    let too_often = |seen: &[Observation]| (came(seen) > limits::TRIAL_TRIES_MAX).then_some(());
    match trial.producer.wait(mark, down, too_often).await {
        Some(()) => {
            let detail = format!("more than {} tries within {down:?}", limits::TRIAL_TRIES_MAX);
            Tries { are_many: true, detail }
        }
        None => {
            let detail = format!("{} tries within {down:?}", came(&trial.producer.since(mark)));
            Tries { are_many: false, detail }
        }
    }
}

async fn killed(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    trial.start_check();
    trial.producer.stop_listening().await;
    trial.producer.forget();
    // tidy: nothing listens meanwhile, so there is nothing to wait for but the time
    tokio::time::sleep(trial.subject.times.down / 2).await;
    let address = trial.producer.address();
    trial.producer.start_listening().await.map_err(|why| TrialError::Listen { address, why })?;
    let back = trial.arrive(trial.subject.times.reconnect).await;
    let reaction = match back {
        Some(_) => trial.probe().await,
        None => SubscriberReaction::Disconnected,
    };
    let detail = match (&back, &reaction) {
        (None, _) => format!("it did not come back{}", trial.ending()),
        (Some(_), reaction) => format!("it came back, and {}", trial.describe(reaction)),
    };
    trial.check_that(KILLED, back.is_some() && reaction.is_healthy(), detail);
    trial.recover(&reaction).await
}

/// Checks that the subscriber never had two connections at the same time.
fn single(trial: &mut Trial<'_>) {
    let (mut open, mut most) = (0_usize, 0);
    for seen in trial.producer.since(0) {
        match seen.what {
            Input::Opened { .. } => open += 1,
            Input::Closed => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    let outcome = if most > 1 { Outcome::Warned } else { Outcome::Passed };
    trial.check(SINGLE, outcome, format!("{most} streams were open at a time"));
}
