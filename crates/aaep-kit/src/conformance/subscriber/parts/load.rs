//! Checks under load: events at the agreed rate with prompts between them, then a burst followed by a prompt. No
//! critical event may be lost.

use recount_aaep::wire::Boundary;

use super::unusual_input::SILENT_BY_ITSELF;
use crate::conformance::Outcome;
use crate::conformance::subscriber::trial::{SubscriberReaction, Trial};
use crate::conformance::subscriber::{Expectation, TrialError};
use crate::limits;

const SUSTAINED: Expectation = Expectation("R-119", "it loses no prompt at the agreed rate");
const BURST: Expectation = Expectation("R-119", "it answers the prompt after a burst of events");

pub(crate) async fn run(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    if trial.level < 3 || !trial.present().await? {
        return Ok(());
    }
    sustained(trial).await?;
    if trial.present().await? {
        burst(trial).await?;
    }
    Ok(())
}

async fn sustained(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    trial.start_check();
    let agreed = trial.producer.rate();
    let rate = agreed.unwrap_or(limits::SYNTHETIC_RATE).clamp(1, limits::TRIAL_RATE_MAX);
    let lasts = trial.subject.times.sustain;
    let began = recount_world::moment();
    let mut every = tokio::time::interval(limits::TRIAL_SECOND / u32::try_from(rate).unwrap_or(u32::MAX));
    let mut prompts = Vec::new();
    let (mut event_count, mut unread) = (0_u64, false);
    let writing = trial.builder.go("writing_output");
    trial.send_event(&writing).await;
    let mark = trial.producer.mark();
    let mut next_prompt = lasts / limits::TRIAL_PROMPTS;
    while began.elapsed() < lasts {
        every.tick().await;
        let position = event_count / 2 * u64::try_from(WORDS.len()).unwrap_or_default();
        let event = match event_count % 2 {
            0 => trial.builder.output(WORDS, position, Boundary::Sentence),
            _ => trial.builder.progress(1 + event_count / 2, u64::from(u32::MAX)),
        };
        event_count += 1;
        if trial.send_event(&event).await == 0 {
            unread = true;
            break;
        }
        if began.elapsed() >= next_prompt {
            next_prompt += lasts / limits::TRIAL_PROMPTS;
            let prompt = trial.new_confirmation(limits::TRIAL_PROMPT_SECONDS);
            let sent = trial.issue(&prompt).await;
            prompts.push((prompt.token, sent));
        }
    }
    let mut lost = 0;
    if trial.answers() {
        // All of them have had their time when the last one has.
        let until = recount_world::moment() + trial.subject.times.reply;
        for (token, sent) in &prompts {
            let left = until.saturating_duration_since(recount_world::moment());
            let reaction = trial.watch(mark, token, *sent, left).await;
            lost += usize::from(!matches!(reaction, SubscriberReaction::Answered { .. }));
        }
    }
    let position = event_count.div_ceil(2) * u64::try_from(WORDS.len()).unwrap_or_default();
    for event in [trial.builder.last_output("", position), trial.builder.go("thinking")] {
        trial.send_event(&event).await;
    }
    let disconnected = unread || trial.producer.lines().is_empty();
    let how = format!(
        "{event_count} events in {:.1} s ({rate} a second{}), {} prompts among them",
        began.elapsed().as_secs_f64(),
        if agreed.is_none() { ", since it set no limit" } else { "" },
        prompts.len()
    );
    let (outcome, detail) = if disconnected {
        (Outcome::Failed, format!("{}: {how}", trial.describe(&SubscriberReaction::Disconnected)))
    } else if !trial.answers() {
        (Outcome::NotShown(SILENT_BY_ITSELF.into()), format!("it stayed connected: {how}"))
    } else if lost > 0 {
        (Outcome::Failed, format!("{lost} prompts were not answered: {how}"))
    } else {
        (Outcome::Passed, how)
    };
    trial.check(SUSTAINED, outcome, detail);
    Ok(())
}

const WORDS: &str = "All is well. ";

async fn burst(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    trial.start_check();
    // Build all events before sending the first, so that they have the same timestamp.
    let events: Vec<_> =
        (1..=limits::TRIAL_BURST).map(|step| trial.builder.progress(step, limits::TRIAL_BURST)).collect();
    for event in &events {
        if trial.send_event(event).await == 0 {
            break;
        }
    }
    let reaction = trial.probe().await;
    let detail = format!("{} events at once, then {}", limits::TRIAL_BURST, trial.describe(&reaction));
    let outcome = match reaction {
        SubscriberReaction::StayedConnected => Outcome::NotShown(SILENT_BY_ITSELF.into()),
        _ if reaction.is_healthy() => Outcome::Passed,
        _ => Outcome::Failed,
    };
    trial.check(BURST, outcome, detail);
    trial.recover(&reaction).await
}
