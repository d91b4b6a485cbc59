//! Runs that a killed process left unfinished in the data folder: lists them, then resumes them, cancels them or stops,
//! as the user chose. Resuming calls the model again, which costs money, so it never happens without a choice.
//!
//! It must not know how a run is executed. See [`Unfinished::resolve`].

use std::io::IsTerminal as _;

use super::follow::{Following, View};
use super::stdin::AnswerInput;
use crate::command::reach::Reached;
use crate::failure::Failure;
use crate::limits;
use crate::output::note;
use crate::render::{clean, utc_time};

/// What to do with unfinished runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::command) enum Action {
    Ask,
    Resume,
    Abandon,
}

impl Action {
    /// Parses the value of `--unfinished`; the argument parser admits no others.
    pub(in crate::command) fn parse(word: &str) -> Action {
        match word {
            "resume" => Action::Resume,
            "abandon" => Action::Abandon,
            _ => Action::Ask,
        }
    }

    /// Parses a typed answer.
    fn typed(line: &str) -> Option<Action> {
        match line.trim().to_lowercase().as_str() {
            "r" | "resume" => Some(Action::Resume),
            "a" | "abandon" => Some(Action::Abandon),
            _ => None,
        }
    }
}

/// The tenant whose runs this process can follow.
const DEFAULT_TENANT: &str = "default";

pub(in crate::command) struct Unfinished {
    pub(in crate::command) left: Vec<recount_server::Unfinished>,
    pub(in crate::command) action: Action,
    pub(in crate::command) view: View,
    pub(in crate::command) even_from_a_pipe: bool,
}

impl Unfinished {
    /// Resumes or cancels the runs and starts the workers of the in-process server. Returns how the last run ended, if
    /// any was resumed or cancelled.
    pub(in crate::command) async fn resolve(
        self,
        reached: &Reached,
    ) -> Result<Option<Result<(), Failure>>, Failure> {
        if self.left.is_empty() {
            reached.work().await?;
            return Ok(None);
        }
        for left in &self.left {
            note(&format!("unfinished run: {}", in_words(left)));
        }
        let action = match self.action {
            Action::Ask => self.ask().await?,
            action => action,
        };
        if action == Action::Abandon {
            reached.abandon(&self.left).await?;
            note("cancelled; the events stay in the log");
            reached.work().await?;
            return Ok(Some(Ok(())));
        }
        reached.work().await?;
        let mut last = None;
        for left in self.left.iter().filter(|left| left.tenant == DEFAULT_TENANT) {
            note(&format!("resuming {}", clean::line(&left.run)));
            let following = Following::new(reached, &left.run, self.view, self.even_from_a_pipe, None);
            match following.follow().await {
                // Its ending was printed; it does not decide the exit status of the new run.
                done @ (Ok(()) | Err(Failure::No | Failure::Cancelled | Failure::Signal(_))) => {
                    last = Some(done)
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(last)
    }

    /// Asks on the terminal. Without a terminal it fails and names the options.
    async fn ask(&self) -> Result<Action, Failure> {
        if !std::io::stdin().is_terminal() && !self.even_from_a_pipe {
            return Err(self.refused());
        }
        let mut typed = AnswerInput::open(self.even_from_a_pipe);
        for _ in 0..limits::CHOICE_ATTEMPTS_MAX {
            note(
                "Type r to resume (calls the model again), a to cancel the run, q to quit and leave the run as it is.",
            );
            let Some(line) = typed.line().await else { break };
            if let Some(action) = Action::typed(&line) {
                return Ok(action);
            }
            if matches!(line.trim(), "q" | "quit") {
                break;
            }
        }
        Err(self.refused())
    }

    fn refused(&self) -> Failure {
        let count = match self.left.len() {
            1 => "1 run of a previous process is unfinished".to_owned(),
            several => format!("{several} runs of previous processes are unfinished"),
        };
        Failure::Refused(format!(
            "{count} in the data folder; pass --unfinished resume to continue first or --unfinished abandon to cancel, \
             or start recount serve, which resumes all of them"
        ))
    }
}

fn in_words(left: &recount_server::Unfinished) -> String {
    let title = left.title.as_deref().map_or(String::new(), |title| format!(": {title}"));
    let created = utc_time(&left.created_at);
    clean::line(&format!("{} ({}, created {created}){title}", left.run, left.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_choice_is_a_choice() {
        assert_eq!(Action::typed(" R\n"), Some(Action::Resume));
        assert_eq!(Action::typed("abandon"), Some(Action::Abandon));
        for line in ["", "y", "yes", "ra", "q"] {
            assert_eq!(Action::typed(line), None, "{line:?}");
        }
    }
}
