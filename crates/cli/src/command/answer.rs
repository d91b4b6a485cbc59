//! `recount answer`: shows the questions of runs to people, and answers them. The first valid answer wins.

use clap::Args;
use recount_client::Client;
use recount_client::query::LIST_LIMIT_DEFAULT;
use recount_client::reply::Clarification;
use recount_client::request::AnswerClarification;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::pages::open_prompts;
use crate::render::{clean, count, list, utc_time};

/// List open questions, or answer one
#[derive(Args)]
pub(super) struct Answer {
    /// Id of the question; if omitted, list the open questions
    clarification: Option<String>,
    /// Answer as text; without any answer, show the question and its choices
    #[arg(value_name = "TEXT")]
    words: Vec<String>,
    /// Answer with choice N, counted from 1
    #[arg(long, value_name = "N", conflicts_with_all = ["words", "value"])]
    choice: Option<usize>,
    /// Answer with a JSON value
    #[arg(long, value_name = "JSON", conflicts_with = "words")]
    value: Option<String>,
}

impl Answer {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(mut self, mut asking: Asking) -> Result<(), Failure> {
        if let Some(question) = &mut self.clarification {
            *question = ids::full(&asking.client, IdKind::Question, question).await?;
        }
        let Some(clarification) = &self.clarification else {
            let open = open_prompts::<Clarification>(&asking.client, LIST_LIMIT_DEFAULT).await?;
            return asking.print_items(&open, list::prompts, "no open questions");
        };
        let Some(response) = self.response(&asking.client, clarification).await? else {
            let question: Clarification = asking.client.get_prompt(clarification).await?;
            return if asking.json {
                asking.out.value(&question)
            } else {
                asking.out.lines(&render_clarification(&question))
            };
        };
        let answer = AnswerClarification { response, shown_digest: None };
        let answered = asking.client.answer_prompt(clarification, &answer).await?;
        asking.print_prompt(&answered, "")
    }

    async fn response(&self, client: &Client, clarification: &str) -> Result<Option<Box<RawValue>>, Failure> {
        let json = match (&self.value, self.choice) {
            (Some(value), _) => value.clone(),
            (None, Some(choice)) => {
                let question: Clarification = client.get_prompt(clarification).await?;
                let choices = question.choices.unwrap_or_default();
                let chosen = choice.checked_sub(1).and_then(|place| choices.get(place));
                let none = || {
                    let known = count(choices.len() as u64, "choice");
                    Failure::Usage(format!("unknown choice {choice}; the question has {known}"))
                };
                meant(chosen.ok_or_else(none)?.text())
            }
            (None, None) if self.words.is_empty() => return Ok(None),
            (None, None) => serde_json::Value::from(self.words.join(" ")).to_string(),
        };
        let response = RawValue::from_string(json);
        response.map(Some).map_err(|why| Failure::Usage(format!("--value is not JSON: {why}")))
    }
}

/// The value of a choice: its `value` where it has one, else the choice itself.
pub(super) fn meant(choice: &str) -> String {
    #[derive(Deserialize)]
    struct Labelled {
        value: Box<RawValue>,
    }
    serde_json::from_str::<Labelled>(choice)
        .map_or_else(|_| choice.to_owned(), |labelled| labelled.value.get().to_owned())
}

/// The question, its context and its choices, and what became of it.
fn render_clarification(clarification: &Clarification) -> Vec<String> {
    let head = format!("{} of {}, {}", clarification.id, clarification.run_id, clarification.status);
    let mut lines = vec![clean::line(&head)];
    lines.extend(clean::lines(&clarification.question));
    lines.extend(clarification.context.iter().flat_map(|context| clean::lines(context)));
    for (place, choice) in clarification.choices.iter().flatten().enumerate() {
        lines.push(clean::line(&format!("choice {}: {}", place + 1, choice.text())));
    }
    if let Some(default) = &clarification.default_response {
        let until = clarification
            .expires_at
            .as_deref()
            .map_or(String::new(), |until| format!(" at {}", utc_time(until)));
        lines.push(clean::line(&format!("without an answer{until}: {}", default.text())));
    }
    if let Some(response) = &clarification.response {
        let by = clarification.answered_by.as_deref().unwrap_or("an unknown caller");
        lines.push(clean::line(&format!("answered by {by}: {}", response.text())));
    }
    lines
}
