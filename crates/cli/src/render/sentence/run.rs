//! Sentences for runs, turns, costs and gaps.

use super::{Data, Sentence, counted, duration, facts, money, turns};
use crate::render::{count, short, utc_time};

pub(super) fn of(type_name: &str, data: &Data) -> Option<Sentence> {
    match type_name.split('.').next()? {
        "run" | "child_run" => of_run(type_name, data),
        "turn" => of_turn(type_name, data),
        "cost" => of_cost(type_name, data),
        "gap" => of_gap(type_name, data),
        "workspace" => of_workspace(type_name, data),
        "context" => of_context(type_name, data),
        _ => None,
    }
}

fn of_run(type_name: &str, data: &Data) -> Option<Sentence> {
    Some(match type_name {
        "run.queued" => queued(data)?,
        "run.started" => match data.text("worker_id") {
            Some(worker) => Sentence::line(format!("started by worker {worker}")),
            None => Sentence::line("started"),
        },
        "run.waiting" => waiting(data)?,
        "run.continued" => Sentence::line(format!("continued after an answer by {}", data.text("by")?)),
        "run.throttled" => {
            let place = data.number("place").map(|place| format!("position {place}"));
            Sentence::with(format!("queued{}", facts([place])), data.text("reason"))
        }
        "run.resumed_from_event" => {
            let (run, at) = (data.text("from_run_id")?, data.number("from_sequence")?);
            Sentence::line(format!("continues from event {at} of {run}"))
        }
        "run.branched_from" => {
            let (run, at) = (data.text("from_run_id")?, data.number("from_sequence")?);
            Sentence::with(format!("branched from event {at} of {run}"), data.text("reason"))
        }
        "run.checkpoint_saved" => Sentence::line(format!("checkpoint {}", data.text("checkpoint_id")?)),
        "run.finished" => Sentence::line(format!("{}{}", data.text("final_status")?, totals(data))),
        "run.failed" => {
            let again = if data.is_true("retriable") { ", retry may succeed" } else { "" };
            Sentence::with(format!("{}{again}{}", data.text("code")?, totals(data)), data.text("message"))
        }
        "run.cancelled" => {
            Sentence::with(format!("by {}{}", data.text("by")?, totals(data)), data.text("reason"))
        }
        "child_run.started" => {
            Sentence::with(format!("started run {}", data.text("child_run_id")?), data.text("summary"))
        }
        _ => return None,
    })
}

fn of_turn(type_name: &str, data: &Data) -> Option<Sentence> {
    Some(match type_name {
        "turn.started" => {
            let model = data.text("model").map_or(String::new(), |model| format!(", model {model}"));
            let provider = data.text("provider").map_or(String::new(), |name| format!(" of {name}"));
            Sentence::line(format!("turn {}{model}{provider}", data.number("turn_index")?))
        }
        "turn.completed" => {
            let facts = facts([
                counted(data, "input_tokens", "token", " in"),
                counted(data, "output_tokens", "token", " out"),
                counted(data, "cached_input_tokens", "token", " cached"),
                money(data, "cost_micros_usd"),
                duration(data),
            ]);
            let (turn, reason) = (data.number("turn_index")?, data.text("stop_reason")?);
            let adjusted = data.texts("adjusted").map(|words| words.join(", ").replace('_', " "));
            let adjusted =
                adjusted.map_or(String::new(), |words| format!("; adjusted before recording: {words}"));
            Sentence::line(format!("turn {turn} stopped with {reason}{facts}{adjusted}"))
        }
        "turn.failed" => {
            let next =
                if data.is_true("will_retry") { ", will be retried; its output is discarded" } else { "" };
            let (turn, code) = (data.number("turn_index")?, data.text("code")?);
            Sentence::with(format!("turn {turn} failed with {code}{next}"), data.text("message"))
        }
        _ => return None,
    })
}

fn of_cost(type_name: &str, data: &Data) -> Option<Sentence> {
    Some(match type_name {
        "cost.tick" => {
            let cost = money(data, "cumulative_cost_micros_usd")?;
            let (into, out) =
                (data.number("cumulative_input_tokens")?, data.number("cumulative_output_tokens")?);
            let left = money(data, "task_budget_remaining_micros_usd");
            let left = left.map(|left| format!("{left} remaining"));
            let (into, out) = (count(into, "token"), count(out, "token"));
            Sentence::line(format!("so far {cost}, {into} in, {out} out{}", facts([left])))
        }
        "cost.budget_warning" => {
            let (used, budget) = spending(data)?;
            Sentence::line(format!("{} percent used: {used} of {budget}", data.number("threshold_pct")?))
        }
        "cost.budget_exceeded" => {
            let action = data.text("action")?;
            match data.text("exhausted") {
                Some(bound @ ("tokens" | "turns")) => {
                    Sentence::line(format!("used up: {bound}; action: {action}"))
                }
                _ => {
                    let (used, budget) = spending(data)?;
                    Sentence::line(format!("used up: {used} of {budget}; action: {action}"))
                }
            }
        }
        _ => return None,
    })
}

fn of_gap(type_name: &str, data: &Data) -> Option<Sentence> {
    Some(match type_name {
        "gap.events_damaged" => {
            let first = data.number("first_damaged_sequence")?;
            let last =
                data.number("last_damaged_sequence").map_or(String::new(), |last| format!(" to {last}"));
            Sentence::with(
                format!("events from {first}{last} of the previous store are lost or unverified"),
                data.text("reason"),
            )
        }
        "gap.events_pruned" => {
            let (first, last) = (data.number("first_pruned_sequence")?, data.number("last_pruned_sequence")?);
            Sentence::with(format!("events {first} to {last} were pruned"), data.text("reason"))
        }
        "gap.run_disconnected" => {
            let since = data.text("since_at")?;
            Sentence::with(format!("the run had no worker since {}", utc_time(since)), data.text("reason"))
        }
        "gap.workspace_removed" => {
            Sentence::with(format!("the workspace {} was removed", data.text("path")?), data.text("reason"))
        }
        _ => return None,
    })
}

fn of_workspace(type_name: &str, data: &Data) -> Option<Sentence> {
    Some(match type_name {
        "workspace.provisioned" => {
            let (mode, path) = (data.text("mode")?, data.text("path")?);
            let source = data.text("source").map(|source| format!("from {source}"));
            let earlier = data.text("files_from_run_id").zip(data.number("files_from_sequence"));
            let earlier = earlier.map(|(run, sequence)| format!("files at event {sequence} of {run}"));
            let facts = facts([
                source,
                earlier,
                counted(data, "files", "file", ""),
                counted(data, "bytes", "byte", ""),
                duration(data),
            ]);
            Sentence::line(format!("{mode} workspace {path}{facts}"))
        }
        "workspace.failed" => {
            let (mode, code) = (data.text("mode")?, data.text("code")?);
            let path = data.text("path").map_or(String::new(), |path| format!(" {path}"));
            Sentence::with(format!("{mode} workspace{path} failed: {code}"), data.text("message"))
        }
        _ => return None,
    })
}

fn of_context(type_name: &str, data: &Data) -> Option<Sentence> {
    Some(match type_name {
        "context.compacted" => {
            let (run, through) = (data.text("through_run_id")?, data.number("through_sequence")?);
            let facts = facts([
                counted(data, "tokens_before", "token", " before"),
                counted(data, "tokens_after", "token", " after"),
            ]);
            let line = format!("summary of everything up to event {through} of {}{facts}", short(run));
            Sentence::with(line, data.text("summary"))
        }
        "context.trimmed" => {
            let results = data.value("results").and_then(serde_json::Value::as_array)?.len();
            let facts = facts([
                counted(data, "tokens_before", "token", " before"),
                counted(data, "tokens_after", "token", " after"),
            ]);
            let results = count(results as u64, "earlier result");
            Sentence::line(format!("{results} shortened for the model{facts}"))
        }
        _ => return None,
    })
}

fn queued(data: &Data) -> Option<Sentence> {
    let kind = data.text("kind")?;
    let title = data.text("title").map_or(String::new(), |title| format!(", titled {title}"));
    let agent = data.value("agent").and_then(|agent| {
        let name = agent.get("name")?.as_str()?;
        let version = agent.get("version").and_then(|version| version.as_str());
        Some(version.map_or(format!(", by {name}"), |version| format!(", by {name} {version}")))
    });
    let prior = data.text("prior_run_id").map_or(String::new(), |run| format!(", after {run}"));
    let line = format!("run of kind {kind}{title}{}{prior}", agent.unwrap_or_default());
    Some(Sentence::with(line, data.text("request_text")))
}

/// Prompts are named in full: that is what an answer needs.
fn waiting(data: &Data) -> Option<Sentence> {
    let waits: Option<Vec<String>> = data
        .value("for")?
        .as_array()?
        .iter()
        .map(|wait| {
            let kind = wait.get("kind")?.as_str()?.replace('_', " ");
            Some(format!("{kind} {}", wait.get("id")?.as_str()?))
        })
        .collect();
    Some(Sentence::line(format!("waits for {}", waits?.join(" and "))))
}

fn totals(data: &Data) -> String {
    facts([turns(data), money(data, "cost_micros_usd"), duration(data)])
}

fn spending(data: &Data) -> Option<(String, String)> {
    Some((money(data, "cumulative_cost_micros_usd")?, money(data, "task_budget_micros_usd")?))
}
