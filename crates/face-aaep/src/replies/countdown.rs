//! Reports the remaining time of a prompt to a subscription, when a half and a tenth of it remain. Start with
//! [`take_countdowns`].

use recount_aaep::Event;
use recount_aaep::wire::{Progress, ProgressUpdated, Timestamp, Urgency};

use super::submit;
use crate::reply_state::DueMark;
use crate::speech::{Key, Speech};
use crate::subscription::Subscription;

/// The countdown events that are due for prompts that are still open. Cancel-safe.
pub(crate) async fn take_countdowns(subscription: &Subscription) -> Vec<Event> {
    let now_ms = subscription.engine().world().clock.now_ms();
    let due = subscription.replies().shown().due(now_ms);
    let mut open = Vec::with_capacity(due.len());
    for mark in due {
        // If the store cannot be read, an unneeded countdown is the lesser problem.
        let is_open = submit::find_open(subscription, &mark.shown).await.is_none_or(|found| found.is_some());
        open.push((mark, is_open));
    }
    let mut shown = subscription.replies().shown();
    open.retain(|(mark, is_open)| shown.mark_reported(mark, *is_open));
    open.into_iter().map(|(mark, _)| event(&mark, now_ms)).collect()
}

fn event(mark: &DueMark, now_ms: u64) -> Event {
    let mut envelope = mark.envelope.clone();
    envelope.event_id = mark.event_place().event_id();
    envelope.timestamp =
        Timestamp::of_millis(i64::try_from(now_ms).unwrap_or(i64::MAX).max(mark.envelope.timestamp.millis()));
    envelope.urgency = Some(Urgency::Normal);
    let tag = envelope.localization_hints.as_ref().and_then(|hints| hints.primary_language.as_deref());
    let speech = Speech::of(tag.unwrap_or_default());
    let seconds = mark.left_ms.div_ceil(1_000);
    let summaries = match seconds {
        0..=119 => speech.render(Key::SecondsLeft, &[("seconds", seconds.into())]),
        _ => speech.render(Key::MinutesLeft, &[("minutes", (seconds / 60).into())]),
    };
    let progress = Progress {
        percent: Some(mark.percent.into()),
        step: None,
        total_steps: None,
        description: summaries.normal.clone(),
    };
    Event { envelope, summaries, body: ProgressUpdated::new(progress).into(), other: Vec::new() }
}
