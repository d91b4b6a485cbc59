//! Tools that read runs: search, one run, its cost, and its events.

use recount_api::query::{
    AFTER, AFTER_SEQUENCE, AGENT, KIND, LIMIT, NEEDS_ATTENTION, SESSION_ID, SOURCE, STATUS, TASK_ID, TEXT,
};
use recount_api::reply::{Digest, Gap, One, Page, Run};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::args::Args;
use crate::events::{self, ShownEvent};
use crate::limits;
use crate::native::{Failure, Native};
use crate::project::{self, Pile, Reply, cut_note, dollars, fields, quote};

/// A page of envelopes, each as the bytes of the log.
type EventsPage = Page<Box<RawValue>>;

pub(super) async fn search_runs(native: &Native, args: &Args) -> Result<Reply, Failure> {
    let since = args.text("since").map(|since| {
        project::utc_prefix(since).ok_or_else(|| {
            "since is not a date or a time in UTC; send 2026-11-28 or 2026-11-28T09:30:00Z".to_owned()
        })
    });
    let since = since.transpose()?;
    let limit = args.number("limit").unwrap_or(limits::RUNS_DEFAULT);
    let text = |name: &str| args.text(name).map(str::to_owned);
    let (mut runs, mut cursor, mut has_more) = (Vec::new(), text("cursor"), true);
    // A page of the native face may be short, because a filter scans a limited number of rows.
    for _ in 0..limits::PAGES_MAX {
        let missing = limit - runs.len() as u64;
        let page: Page<Run> = native
            .get(
                &["runs"],
                &[
                    (TEXT, text("text")),
                    (STATUS, text("status")),
                    (KIND, text("kind")),
                    (AGENT, text("agent")),
                    (SOURCE, text("source")),
                    (TASK_ID, text("task")),
                    (SESSION_ID, text("session")),
                    (NEEDS_ATTENTION, args.is_set("needs_attention").map(|is| is.to_string())),
                    (AFTER, cursor.clone()),
                    (LIMIT, Some(missing.to_string())),
                ],
            )
            .await?;
        has_more = page.has_more;
        cursor = page.next.as_ref().and_then(Value::as_str).map(str::to_owned).or(cursor);
        for run in page.data {
            if since.is_some_and(|since| &*run.created_at < since) {
                // Newest first: all others are older.
                has_more = false;
                break;
            }
            runs.push(run);
        }
        if !has_more || runs.len() as u64 >= limit {
            break;
        }
    }
    Ok(found(&runs, cursor.filter(|_| has_more)))
}

fn found(runs: &[Run], next: Option<String>) -> Reply {
    let lines: String = runs.iter().map(|run| quote(&run_line(run))).collect();
    let mut head = match runs.len() {
        0 => "no runs found".to_owned(),
        1 => "1 run".to_owned(),
        count => format!("{count} runs, newest first"),
    };
    let mut structured = Map::new();
    structured.insert("runs".to_owned(), json!(runs));
    structured.insert("has_more".to_owned(), next.is_some().into());
    if let Some(next) = next {
        head.push_str(&format!("; more follow: call search_runs again with cursor {next:?}"));
        structured.insert("next".to_owned(), next.into());
    }
    Reply::quoting(&head, &lines, structured)
}

/// A run in three lines or fewer.
fn run_line(run: &Run) -> String {
    let mut line = format!(
        "{} {} {}, created {}, {} turns, {}",
        run.id,
        run.status,
        run.kind,
        run.created_at,
        run.turns,
        dollars(run.cost_micros_usd)
    );
    if let Some(title) = &run.title {
        line.push_str(&format!("\n  title: {}", project::cut(title, limits::FIELD_CHARS_MAX)));
    }
    let origin = [&run.agent_name, &run.source, &run.model, &run.workspace_path];
    let origin: Vec<&str> = origin.into_iter().flatten().map(String::as_str).collect();
    if !origin.is_empty() {
        line.push_str(&format!("\n  {}", origin.join(", ")));
    }
    line
}

/// A run with its last messages.
pub(crate) async fn get_run(native: &Native, run: &str, messages: u64) -> Result<Reply, Failure> {
    let One { data: row, .. }: One<Run> = native.get(&["runs", run], &[]).await?;
    let last = if messages == 0 { Vec::new() } else { last_messages(native, run, messages as usize).await? };
    let mut body = quote(&fields(&json!(row)));
    if messages > 0 {
        let scanned = limits::MESSAGES_SCAN_EVENTS;
        body.push_str(&match last.len() {
            0 => format!("no messages in the last {scanned} events\n"),
            1 => "last message:\n".to_owned(),
            count => format!("last {count} messages, oldest first:\n"),
        });
    }
    body.extend(last.iter().map(|message| &*message.text));
    let mut structured = Map::new();
    structured.insert("run".to_owned(), json!(row));
    let last: Vec<Value> = last.into_iter().map(|message| message.structured).collect();
    structured.insert("messages".to_owned(), last.into());
    Ok(Reply::quoting("", &body, structured))
}

async fn last_messages(native: &Native, run: &str, count: usize) -> Result<Vec<ShownEvent>, Failure> {
    let One { data: digest, .. }: One<Digest> = native.get(&["runs", run, "digest"], &[]).await?;
    let before = digest.events.saturating_sub(limits::MESSAGES_SCAN_EVENTS).checked_sub(1);
    let (mut after, mut found) = (before, Vec::new());
    for _ in 0..limits::PAGES_MAX {
        let page = page(native, run, after, limits::MESSAGES_SCAN_EVENTS).await?;
        for stored in &page.data {
            let envelope = envelope(stored)?;
            found.extend(events::message(stored.get(), &envelope));
        }
        // Only the last are returned.
        found.drain(..found.len().saturating_sub(count));
        after = next(&page).or(after);
        if !page.has_more {
            break;
        }
    }
    Ok(found)
}

async fn page(native: &Native, run: &str, after: Option<u64>, limit: u64) -> Result<EventsPage, Failure> {
    let query = [(AFTER_SEQUENCE, after.map(|after| after.to_string())), (LIMIT, Some(limit.to_string()))];
    native.get(&["runs", run, "events"], &query).await
}

fn next(page: &EventsPage) -> Option<u64> {
    page.next.as_ref().and_then(Value::as_u64)
}

fn envelope(stored: &RawValue) -> Result<Value, Failure> {
    serde_json::from_str(stored.get()).map_err(|why| {
        Failure::new(recount_event::Code::Internal, format!("a stored event is not JSON: {why}"))
    })
}

pub(super) async fn run_cost(native: &Native, args: &Args) -> Result<Reply, Failure> {
    let One { data: run, .. }: One<Run> = native.get(&["runs", args.needed("run")?], &[]).await?;
    let mut lines = vec![
        format!("cost {} ({} micro-dollars)", dollars(run.cost_micros_usd), run.cost_micros_usd),
        format!("tokens: {} in, {} out; turns: {}", run.input_tokens, run.output_tokens, run.turns),
    ];
    if run.prior_cost_micros_usd + run.prior_input_tokens + run.prior_output_tokens > 0 {
        lines.push(format!(
            "of these, the runs that it continues: {}, {} tokens in, {} out",
            dollars(run.prior_cost_micros_usd),
            run.prior_input_tokens,
            run.prior_output_tokens
        ));
    }
    if run.unpriced_turns > 0 {
        lines.push(format!("{} turns report no cost: the real cost is higher", run.unpriced_turns));
    }
    if let Some(budget) = run.budget_micros_usd {
        lines.push(format!("budget of its task: {}", dollars(budget)));
    }
    if let Some(budget) = run.budget_tokens {
        lines.push(format!("budget of its task: {budget} tokens"));
    }
    let structured = json!({
        "run": run.id,
        "status": run.status,
        "cost_micros_usd": run.cost_micros_usd,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "turns": run.turns,
        "unpriced_turns": run.unpriced_turns,
        "prior_cost_micros_usd": run.prior_cost_micros_usd,
        "prior_input_tokens": run.prior_input_tokens,
        "prior_output_tokens": run.prior_output_tokens,
        "budget_micros_usd": run.budget_micros_usd,
        "budget_tokens": run.budget_tokens,
    });
    Ok(Reply { text: lines.join("\n"), structured })
}

pub(super) async fn read_events(native: &Native, args: &Args) -> Result<Reply, Failure> {
    let run = args.needed("run")?;
    let mut reading = Reading {
        after: args.number("after"),
        limit: args.number("limit").unwrap_or(limits::EVENTS_DEFAULT) as usize,
        is_raw: args.is_set("raw") == Some(true),
        pile: Pile::new(limits::RESULT_BYTES_MAX),
        events: Vec::new(),
        pieces: 0,
        notes: Vec::new(),
        has_more: true,
    };
    for _ in 0..limits::PAGES_MAX {
        let limit = if reading.is_raw { reading.limit as u64 } else { limits::MESSAGES_SCAN_EVENTS };
        let page = page(native, run, reading.after, limit).await?;
        if !reading.take(&page)? || !reading.has_more {
            break;
        }
    }
    Ok(reading.into_reply())
}

/// Events that are collected for a result.
struct Reading {
    /// The last event that was read.
    after: Option<u64>,
    limit: usize,
    is_raw: bool,
    pile: Pile,
    events: Vec<Value>,
    /// How many pieces were left out.
    pieces: u64,
    notes: Vec<String>,
    has_more: bool,
}

impl Reading {
    /// Adds the events of a page. Returns false if the result is full.
    fn take(&mut self, page: &EventsPage) -> Result<bool, Failure> {
        if let Some(gap) = &page.gap {
            self.notes.push(match gap {
                Gap::Pruned { first_pruned_sequence, last_pruned_sequence } => {
                    format!("events {first_pruned_sequence} to {last_pruned_sequence} were pruned")
                }
                Gap::Damaged(range) => format!(
                    "events {} to {} cannot be read: their stored bytes are damaged",
                    range.first_sequence.unwrap_or_default(),
                    range.last_sequence.unwrap_or_default()
                ),
            });
        }
        for stored in &page.data {
            let envelope = envelope(stored)?;
            if !self.is_raw && events::is_piece(&envelope) {
                self.pieces += 1;
            } else if !self.add(stored.get(), &envelope) {
                return Ok(false);
            }
            self.after = Some(events::sequence(&envelope));
        }
        self.after = next(page).or(self.after);
        self.has_more = page.has_more;
        Ok(true)
    }

    fn add(&mut self, stored: &str, envelope: &Value) -> bool {
        if self.events.len() == self.limit {
            return false;
        }
        let mut shown = if self.is_raw { events::whole(stored, envelope) } else { events::short(envelope) };
        if self.events.is_empty() && shown.text.len() > limits::RESULT_BYTES_MAX {
            let sequence = events::sequence(envelope);
            self.notes.push(cut_note(&format!(
                "event {sequence} has {} bytes; GET /v1/runs/RUN/events?after_sequence={}&limit=1 returns all of them",
                stored.len(),
                sequence as i64 - 1
            )));
            let beginning = project::beginning(&shown.text, limits::RESULT_BYTES_MAX).to_owned();
            shown.structured = json!({
                "sequence": sequence, "type": envelope["type"], "is_cut": true, "size_bytes": stored.len(),
            });
            shown.text = beginning + "\n";
        }
        if !self.pile.push(&shown.text) {
            self.notes.push(cut_note("more events follow"));
            return false;
        }
        self.events.push(shown.structured);
        true
    }

    fn into_reply(self) -> Reply {
        let mut head = vec![match self.events.len() {
            0 => "no events".to_owned(),
            1 => "1 event".to_owned(),
            count => format!("{count} events"),
        }];
        if self.pieces > 0 {
            head.push(format!("{} pieces of streamed text left out", self.pieces));
        }
        head.extend(self.notes.iter().cloned());
        let after = self.after.map_or("the start".to_owned(), |after| after.to_string());
        head.push(match self.has_more {
            true => format!("more follow: call read_events again with after {after}"),
            false => {
                format!("no more events now; to look for new ones, call read_events again with after {after}")
            }
        });
        let mut structured = Map::new();
        structured.insert("events".to_owned(), self.events.into());
        structured.insert("after".to_owned(), json!(self.after));
        structured.insert("has_more".to_owned(), self.has_more.into());
        structured.insert("pieces_left_out".to_owned(), self.pieces.into());
        structured.insert("notes".to_owned(), json!(self.notes));
        Reply::quoting(&head.join("; "), &self.pile.text, structured)
    }
}
