//! Plays the recording line by line: waits for the first listener, keeps the recorded pauses, waits for answers on
//! request, and ends when every line was sent and read. It writes to nobody: feeds watch how far it is.

use std::sync::Arc;
use std::time::Duration;

use recount_world::moment;
use tokio::time::Instant;

use super::fresh::Round;
use super::stage::Stage;
use super::{Pace, ReplayNotice};
use crate::limits;

/// One who says.
pub(super) struct Player {
    stage: Arc<Stage>,
    /// When the line before was due.
    due: Instant,
    /// Prompts that were said and whose answers' place has not come, each with its token.
    asked: Vec<(usize, String)>,
    /// The next of the script's prompts.
    next_prompt: usize,
}

impl Player {
    pub(super) fn new(stage: Arc<Stage>) -> Player {
        Player { stage, due: moment(), asked: Vec::new(), next_prompt: 0 }
    }

    /// Says all, and returns when all was said and taken.
    pub(super) async fn play(mut self) {
        let (repeats, wait) = (self.stage.options.repeat, self.stage.options.wait);
        loop {
            if wait {
                let stage = self.stage.clone();
                self.until(move || stage.listeners() > 0).await;
            }
            let round_start = moment();
            let round = self.stage.open_round();
            self.stage.tell(ReplayNotice::Begins { round: round.number });
            self.round(&round).await;
            if !repeats {
                break;
            }
            // What nobody has taken yet is taken first: a recording without pauses would run away from its readers.
            self.taken().await;
            tokio::time::sleep_until(round_start + limits::REPLAY_ROUND_MIN).await;
        }
        if self.stage.options.stay {
            std::future::pending::<()>().await;
        }
        self.stage.finish();
        self.all_had().await;
    }

    async fn round(&mut self, round: &Arc<Round>) {
        let stage = self.stage.clone();
        (self.due, self.next_prompt) = (moment(), 0);
        self.asked.clear();
        for line in 0..stage.script.len() {
            // Without pauses nothing here waits, and subscribers are to have their turn.
            tokio::task::coop::consume_budget().await;
            self.pause(line).await;
            self.answers(line).await;
            while let Some(prompt) =
                stage.script.prompts.get(self.next_prompt).filter(|prompt| prompt.line == line)
            {
                // It can be answered as soon as it is read, so it is open before.
                let token = stage.token(round, &prompt.token);
                stage.prompts.ask(token.clone(), self.next_prompt, Duration::from_millis(prompt.timeout_ms));
                self.asked.push((self.next_prompt, token));
                self.next_prompt += 1;
            }
            let (place, now_ms) = (stage.now().place, stage.world.clock.now_ms());
            if stage.options.fresh {
                round.says(now_ms);
            }
            stage.progress.send_modify(|progress| progress.place += 1);
            let number = stage.script.lines[line].number;
            let text = stage.saying(place).text;
            stage.tell(ReplayNotice::Line { line: number, text: &text, at_ms: now_ms });
        }
        self.answers(stage.script.len()).await;
    }

    /// As long as it was when it was recorded; not at all once the answer is there that the next lines wait for.
    async fn pause(&mut self, line: usize) {
        let Pace::Recorded { speed } = self.stage.options.pace else { return };
        let pause = Duration::from_millis(self.stage.script.lines[line].pause_ms.into());
        self.due +=
            Duration::try_from_secs_f64(pause.as_secs_f64() / speed).unwrap_or(limits::REPLAY_PAUSE_MAX);
        let mut answered = self.stage.prompts.answered.subscribe();
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

    /// Whether what this line waited for in the recording is there.
    fn is_answered(&self, line: usize) -> bool {
        let stage = &self.stage;
        let settled = |(prompt, token): &(usize, String)| {
            stage.script.prompts[*prompt].settled >= line && stage.prompts.is_answered(token)
        };
        stage.options.hold && self.asked.iter().any(settled)
    }

    /// Waits for the answers that came before this line in the recording.
    async fn answers(&mut self, line: usize) {
        let stage = self.stage.clone();
        let (due, later) = std::mem::take(&mut self.asked)
            .into_iter()
            .partition(|(at, _)| stage.script.prompts[*at].settled <= line);
        let due: Vec<(usize, String)> = due;
        self.asked = later;
        if !stage.options.hold {
            return;
        }
        for (prompt, token) in due {
            let mut answered = stage.prompts.answered.subscribe();
            let number = stage.script.lines[stage.script.prompts[prompt].line].number;
            let mut told = false;
            loop {
                answered.borrow_and_update();
                let Some(until) = stage.prompts.waits_until(&token) else { break };
                if !told && moment() < until {
                    stage.tell(ReplayNotice::Waits { line: number, until: until - moment() });
                    told = true;
                }
                tokio::select! {
                    () = tokio::time::sleep_until(until) => {
                        stage.tell(ReplayNotice::TimedOut { line: number });
                        break;
                    }
                    changed = answered.changed() => if changed.is_err() { return },
                }
            }
            self.due = self.due.max(moment());
        }
    }

    /// Returns when all who listen have taken all that was said.
    async fn taken(&self) {
        let stage = self.stage.clone();
        self.until(move || stage.all_taken()).await;
    }

    /// Returns when all who listened have had all: also who left before the end, if it comes back soon.
    async fn all_had(&self) {
        let mut moved = self.stage.moved.subscribe();
        loop {
            moved.borrow_and_update();
            let empty = self.stage.listeners() == 0;
            let until = self.stage.return_until();
            if empty && until.is_none_or(|until| moment() >= until) {
                return;
            }
            let until = until.filter(|_| empty);
            tokio::select! {
                changed = moved.changed() => if changed.is_err() { return },
                () = async {
                    match until {
                        Some(until) => {
                            self.stage.tell(ReplayNotice::Lingers);
                            tokio::time::sleep_until(until).await;
                        }
                        None => std::future::pending().await,
                    }
                } => {}
            }
        }
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        let mut moved = self.stage.moved.subscribe();
        loop {
            moved.borrow_and_update();
            if is_so() || moved.changed().await.is_err() {
                return;
            }
        }
    }
}
