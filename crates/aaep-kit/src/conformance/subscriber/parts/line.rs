//! Checks of lost connections: cut in the middle, refused for a while, and a producer that is killed and restarted.

use crate::conformance::Outcome;
use crate::conformance::subscriber::stage::{Seen, What};
use crate::conformance::subscriber::trial::{Sign, Trial};
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

/// Cut, with a prompt that it misses.
async fn cut(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    trial.fresh();
    // Once this is answered, it has everything of before.
    trial.probe().await;
    let waiting = trial.voice.go("awaiting_input");
    trial.say(&waiting).await;
    let token = trial.voice.token();
    let missed = trial.voice.confirmation(token, limits::TRIAL_PROMPT_SECONDS);
    let mark = trial.stage.mark();
    trial.stage.cut();
    let back = trial.connected(trial.subject.times.returns).await;
    let Some(open) = back else {
        let ending = trial.ending();
        let said = format!("it did not come back{ending}");
        // At the lower levels a tidy end is enough; from level 3 on it must go on.
        trial.check(RETURNS, Outcome::Warned, said.clone());
        trial.check(GOES_ON, Outcome::Failed, said);
        trial.not_shown(RESUMES, "it did not come back");
        return Ok(());
    };
    let resumes = trial.stage.since(mark).into_iter().rev().find_map(|seen| match seen.what {
        What::Opened { resumes, line } if line == open.line => Some(resumes),
        _ => None,
    });
    let known = |id: &String| trial.has_said(id);
    let (outcome, said) = match resumes.flatten() {
        _ if open.face.is_socket() => {
            (Outcome::Inapplicable("a WebSocket cannot be resumed".into()), String::new())
        }
        Some(id) if known(&id) => (Outcome::Passed, format!("it asked for the events after {id}")),
        Some(id) => (Outcome::Failed, format!("it asked for the events after `{id}`, which was never sent")),
        None => (Outcome::Failed, "it came without `Last-Event-ID`".to_owned()),
    };
    trial.check(RESUMES, outcome, said);
    // What it missed comes again, with or without a resume.
    let piece = missed.event.piece();
    let sign = trial.ask(missed, &piece).await;
    trial.follow(&sign).await;
    let told = match &sign {
        Sign::Answered { after, .. } => {
            format!("it answered what it had missed after {} ms", after.as_millis())
        }
        Sign::Silent => "it came back but did not answer what it had missed".to_owned(),
        sign => trial.told(sign),
    };
    trial.hold(RETURNS, sign.is_well(), told);
    trial.recover(&sign).await
}

/// Refused for a while: it may try again, but not without pause.
async fn refused(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    trial.fresh();
    let mark = trial.stage.mark();
    trial.stage.refuse(Some(limits::STAGE_REFUSAL));
    trial.stage.cut();
    let tries = tries_from(trial, mark).await;
    trial.stage.refuse(None);
    trial.hold(PAUSES, !tries.are_many, tries.said);
    Ok(())
}

/// How often it tried to come while the producer was down.
pub(super) struct Tries {
    /// More often than it may without pause.
    pub(super) are_many: bool,
    pub(super) said: String,
}

/// Waits while the producer is down, or until it has tried too often.
pub(super) async fn tries_from(trial: &Trial<'_>, mark: usize) -> Tries {
    let came = |seen: &[Seen]| seen.iter().filter(|seen| matches!(seen.what, What::Came { .. })).count();
    let down = trial.subject.times.down;
    let too_often = |seen: &[Seen]| (came(seen) > limits::TRIAL_TRIES_MAX).then_some(());
    match trial.stage.wait(mark, down, too_often).await {
        Some(()) => {
            let said = format!("more than {} tries within {down:?}", limits::TRIAL_TRIES_MAX);
            Tries { are_many: true, said }
        }
        None => {
            let said = format!("{} tries within {down:?}", came(&trial.stage.since(mark)));
            Tries { are_many: false, said }
        }
    }
}

async fn killed(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    trial.fresh();
    trial.stage.close_door().await;
    trial.stage.forget();
    // tidy: nothing listens meanwhile, so there is nothing to wait for but the time
    tokio::time::sleep(trial.subject.times.down / 2).await;
    let address = trial.stage.address();
    trial.stage.open_door().await.map_err(|why| TrialError::Listen { address, why })?;
    let back = trial.arrive(trial.subject.times.returns).await;
    let sign = match back {
        Some(_) => trial.probe().await,
        None => Sign::Gone,
    };
    let told = match (&back, &sign) {
        (None, _) => format!("it did not come back{}", trial.ending()),
        (Some(_), sign) => format!("it came back, and {}", trial.told(sign)),
    };
    trial.hold(KILLED, back.is_some() && sign.is_well(), told);
    trial.recover(&sign).await
}

/// Over all that went before, whether two connections stood side by side.
fn single(trial: &mut Trial<'_>) {
    let (mut open, mut most) = (0_usize, 0);
    for seen in trial.stage.since(0) {
        match seen.what {
            What::Opened { .. } => open += 1,
            What::Closed => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    let outcome = if most > 1 { Outcome::Warned } else { Outcome::Passed };
    trial.check(SINGLE, outcome, format!("{most} streams were open at a time"));
}
