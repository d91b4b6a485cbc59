//! Plays the recording line by line: waits for the first listener, keeps the recorded pauses, waits for replies if
//! configured, and ends when every line was sent and read. It does not write to peers: feeds follow its progress.

use std::sync::Arc;
use std::time::Duration;

use recount_world::moment;
use tokio::time::Instant;

use super::fresh::Round;
use super::playback::Playback;
use super::{Pace, ReplayNotice};
use crate::limits;

/// Advances a playback.
pub(super) struct Player {
    playback: Arc<Playback>,
    /// When the previous line was due.
    due: Instant,
    /// Prompts that were sent and whose recorded reply has not been reached, each with its token.
    awaited: Vec<(usize, String)>,
    /// The index of the next prompt of the script.
    next_prompt: usize,
}

impl Player {
    pub(super) fn new(playback: Arc<Playback>) -> Player {
        Player { playback, due: moment(), awaited: Vec::new(), next_prompt: 0 }
    }

    /// Sends all lines; returns when they were sent and read.
    pub(super) async fn play(mut self) {
        let (repeats, wait) = (self.playback.options.repeat, self.playback.options.wait);
        loop {
            if wait {
                let playback = self.playback.clone();
                self.wait_until(move || playback.listeners() > 0).await;
            }
            let round_start = moment();
            let round = self.playback.open_round();
            self.playback.notify(ReplayNotice::RoundStarted { round: round.number });
            self.round(&round).await;
            if !repeats {
                break;
            }
            // Wait for readers: a recording without pauses would overtake them.
            self.await_readers().await;
            tokio::time::sleep_until(round_start + limits::REPLAY_ROUND_MIN).await;
        }
        if self.playback.options.stay {
            std::future::pending::<()>().await;
        }
        self.playback.finish();
        self.await_all_listeners().await;
    }

    async fn round(&mut self, round: &Arc<Round>) {
        let playback = self.playback.clone();
        (self.due, self.next_prompt) = (moment(), 0);
        self.awaited.clear();
        for line in 0..playback.script.len() {
            // Without pauses nothing here waits; let subscribers run.
            tokio::task::coop::consume_budget().await;
            self.pause(line).await;
            self.answers(line).await;
            while let Some(prompt) =
                playback.script.prompts.get(self.next_prompt).filter(|prompt| prompt.line == line)
            {
                // It can be answered as soon as it is read, so open it first.
                let token = playback.token(round, &prompt.token);
                playback.prompts.open(
                    token.clone(),
                    self.next_prompt,
                    Duration::from_millis(prompt.timeout_ms),
                );
                self.awaited.push((self.next_prompt, token));
                self.next_prompt += 1;
            }
            let (position, now_ms) = (playback.now().position, playback.world.clock.now_ms());
            if playback.options.fresh {
                round.record_time(now_ms);
            }
            playback.progress.send_modify(|progress| progress.position += 1);
            let number = playback.script.lines[line].number;
            let text = playback.outgoing_line(position).text;
            playback.notify(ReplayNotice::Line { line: number, text: &text, at_ms: now_ms });
        }
        self.answers(playback.script.len()).await;
    }

    /// Waits as long as in the recording, but not once the reply has arrived that the next lines waited for.
    async fn pause(&mut self, line: usize) {
        let Pace::Recorded { speed } = self.playback.options.pace else { return };
        let pause = Duration::from_millis(self.playback.script.lines[line].pause_ms.into());
        self.due +=
            Duration::try_from_secs_f64(pause.as_secs_f64() / speed).unwrap_or(limits::REPLAY_PAUSE_MAX);
        let mut answered = self.playback.prompts.answered.subscribe();
        loop {
            answered.borrow_and_update();
            if self.is_answered(line) {
                self.due = moment();
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(self.due) => return,
                changed = answered.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Whether the reply that this line waited for in the recording has arrived.
    fn is_answered(&self, line: usize) -> bool {
        let playback = &self.playback;
        let settled = |(prompt, token): &(usize, String)| {
            playback.script.prompts[*prompt].settled >= line && playback.prompts.is_answered(token)
        };
        playback.options.hold && self.awaited.iter().any(settled)
    }

    /// Waits for the replies that were recorded before this line.
    async fn answers(&mut self, line: usize) {
        let playback = self.playback.clone();
        let (due, later) = std::mem::take(&mut self.awaited)
            .into_iter()
            .partition(|(at, _)| playback.script.prompts[*at].settled <= line);
        let due: Vec<(usize, String)> = due;
        self.awaited = later;
        if !playback.options.hold {
            return;
        }
        for (prompt, token) in due {
            let mut answered = playback.prompts.answered.subscribe();
            let number = playback.script.lines[playback.script.prompts[prompt].line].number;
            let mut notified = false;
            loop {
                answered.borrow_and_update();
                let Some(until) = playback.prompts.waits_until(&token) else { break };
                if !notified && moment() < until {
                    playback.notify(ReplayNotice::WaitingForReply { line: number, until: until - moment() });
                    notified = true;
                }
                tokio::select! {
                    () = tokio::time::sleep_until(until) => {
                        playback.notify(ReplayNotice::ReplyTimedOut { line: number });
                        break;
                    }
                    changed = answered.changed() => if changed.is_err() { return },
                }
            }
            self.due = self.due.max(moment());
        }
    }

    /// Waits until all current listeners have read everything that was sent.
    async fn await_readers(&self) {
        let playback = self.playback.clone();
        self.wait_until(move || playback.is_all_read()).await;
    }

    /// Waits until all listeners have read everything, including those that left early and return soon.
    async fn await_all_listeners(&self) {
        let mut listeners_changed = self.playback.listeners_changed.subscribe();
        loop {
            listeners_changed.borrow_and_update();
            let empty = self.playback.listeners() == 0;
            let until = self.playback.return_deadline();
            if empty && until.is_none_or(|until| moment() >= until) {
                return;
            }
            let until = until.filter(|_| empty);
            tokio::select! {
                changed = listeners_changed.changed() => if changed.is_err() { return },
                () = async {
                    match until {
                        Some(until) => {
                            self.playback.notify(ReplayNotice::WaitingForListener);
                            tokio::time::sleep_until(until).await;
                        }
                        None => std::future::pending().await,
                    }
                } => {}
            }
        }
    }

    async fn wait_until(&self, is_so: impl Fn() -> bool) {
        let mut listeners_changed = self.playback.listeners_changed.subscribe();
        loop {
            listeners_changed.borrow_and_update();
            if is_so() || listeners_changed.changed().await.is_err() {
                return;
            }
        }
    }
}
