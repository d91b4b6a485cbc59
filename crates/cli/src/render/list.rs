//! Lists as lines: columns of plain text, padded with spaces, the same order in every line.

use jiff::Timestamp;
use recount_client::prompt::Prompt;
use recount_client::reply::{Artifact, Run, Session, Task};

use super::sentence::dollars;
use super::{clean, count, flow, utc_time};

/// Columns of a title in a list; longer ones are cut with a sign.
pub(crate) const TITLE_COLUMNS_MAX: usize = 48;

/// One line a run: id, status, title, age, duration, cost, the agent, and whether it needs attention.
pub(crate) fn runs(runs: &[Run], now: Timestamp) -> Vec<String> {
    let rows = runs.iter().map(|run| {
        let attention = if run.needs_attention { "needs attention" } else { "" };
        [
            clean::line(&run.id),
            clean::line(&run.status),
            title(run.title.as_deref()),
            seconds_between(&run.created_at, None, now)
                .map_or_else(String::new, |age| format!("{} ago", span(age))),
            duration(run, now),
            cost(run),
            agent(run).unwrap_or_default(),
            attention.to_owned(),
        ]
    });
    columns(rows.collect())
}

/// How long a run took, or goes on.
fn duration(run: &Run, now: Timestamp) -> String {
    let from = run.started_at.as_deref();
    let took = from.and_then(|from| seconds_between(from, run.ended_at.as_deref(), now));
    took.map_or_else(|| "-".to_owned(), span)
}

/// What the run itself cost, as far as it is known.
fn cost(run: &Run) -> String {
    match run.cost_micros_usd.saturating_sub(run.prior_cost_micros_usd) {
        0 => "-".to_owned(),
        micros => dollars(micros),
    }
}

fn seconds_between(from: &str, until: Option<&str>, now: Timestamp) -> Option<u64> {
    let from: Timestamp = from.parse().ok()?;
    let until = until.map_or(Some(now), |until| until.parse().ok())?;
    Some(u64::try_from(until.duration_since(from).as_secs()).unwrap_or(0))
}

/// `45s`, `12m`, `3h`, `5d`: in the largest unit.
fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `claude-code 2.1.330 (claude-code-hooks)`: an agent's name and version, and the source of a recorded run.
pub(crate) fn agent(run: &Run) -> Option<String> {
    let name = run.agent_name.as_deref().map(|name| {
        let version = run.agent_version.as_deref().map_or(String::new(), |version| format!(" {version}"));
        format!("{name}{version}")
    });
    let source = run.source.as_deref().map(|source| format!("({source})"));
    let parts: Vec<String> = [name, source].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| clean::line(&parts.join(" ")))
}

/// One line a task: id, status, title, time of creation, how many runs.
pub(crate) fn tasks(tasks: &[Task]) -> Vec<String> {
    let rows = tasks.iter().map(|task| {
        [
            clean::line(&task.id),
            clean::line(&task.status),
            title(task.title.as_deref()),
            utc_time(&task.created_at),
            count_of_runs(task.runs),
        ]
    });
    columns(rows.collect())
}

/// One line a session, as of tasks.
pub(crate) fn sessions(sessions: &[Session]) -> Vec<String> {
    let rows = sessions.iter().map(|session| {
        [
            clean::line(&session.id),
            clean::line(&session.status),
            title(session.title.as_deref()),
            utc_time(&session.created_at),
            count_of_runs(session.runs),
        ]
    });
    columns(rows.collect())
}

/// One line a prompt: id, status, what it is about, time of asking, run.
pub(crate) fn prompts<P: Prompt>(prompts: &[P]) -> Vec<String> {
    let rows = prompts.iter().map(|prompt| {
        let head = prompt.head();
        [
            clean::line(head.id),
            clean::line(head.status),
            title(Some(head.title)),
            utc_time(head.requested_at),
            clean::line(head.run_id),
        ]
    });
    columns(rows.collect())
}

/// One line an artifact: id, status, kind and what it is, time of making, run.
pub(crate) fn artifacts(artifacts: &[Artifact]) -> Vec<String> {
    let rows = artifacts.iter().map(|artifact| {
        let what = [&artifact.summary, &artifact.target_path, &artifact.name];
        let what = what.into_iter().flatten().next().map_or(String::new(), |what| format!(": {what}"));
        [
            clean::line(&artifact.id),
            clean::line(&artifact.status),
            title(Some(&format!("{}{what}", artifact.kind))),
            utc_time(&artifact.created_at),
            clean::line(artifact.produced_by_run_id.as_deref().unwrap_or("(no run yet)")),
        ]
    });
    columns(rows.collect())
}

/// `1 run`, `2 runs`.
pub(crate) fn count_of_runs(runs: u64) -> String {
    count(runs, "run")
}

fn title(title: Option<&str>) -> String {
    title_within(title, TITLE_COLUMNS_MAX)
}

/// A title in at most so many columns.
pub(crate) fn title_within(title: Option<&str>, columns_max: usize) -> String {
    let title = clean::line(title.filter(|title| !title.trim().is_empty()).unwrap_or("(no title)"));
    if flow::columns(&title) <= columns_max {
        return title;
    }
    let cut = flow::beginning(&title, columns_max - 1);
    // Between words, unless the last one is long.
    let words = cut.rsplit_once(' ').map(|(words, _)| words.trim_end_matches([',', ';', ':']));
    let cut = words.filter(|words| flow::columns(words) * 2 > columns_max).unwrap_or(cut);
    format!("{cut}…")
}

/// Columns that are empty in every row are left out.
fn columns<const N: usize>(rows: Vec<[String; N]>) -> Vec<String> {
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = flow::columns(cell).max(*width);
        }
    }
    let padded = |row: &[String; N]| {
        let spaces = |cell: &str, width: usize| " ".repeat(width.saturating_sub(flow::columns(cell)));
        let shown = row.iter().zip(widths).filter(|(_, width)| *width > 0);
        let cells: Vec<String> =
            shown.map(|(cell, width)| format!("{cell}{}", spaces(cell, width))).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(padded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_and_harmless() {
        let task = |id: &str, title: Option<&str>, runs| Task {
            id: id.to_owned(),
            title: title.map(str::to_owned),
            needs_attention: false,
            status: "idle".to_owned(),
            created_at: "2026-05-03T10:23:45.123Z".to_owned(),
            latest_run_id: None,
            runs,
            cost_micros_usd: 0,
            input_tokens: 0,
            output_tokens: 0,
            budget_micros_usd: None,
            budget_remaining_micros_usd: None,
            budget_tokens: None,
            budget_remaining_tokens: None,
        };
        let long = "x".repeat(60);
        let lines = tasks(&[
            task("task_1", Some("a\u{1b}[1m\tb"), 1),
            task("task_22", None, 2),
            task("t", Some(&long), 0),
            task("e", Some(" "), 0),
        ]);
        let cut = format!("{}…", "x".repeat(47));
        let expected = [
            format!("task_1   idle  {:<48}  2026-05-03 10:23:45 UTC  1 run", "a\\u{1b}[1m    b"),
            format!("task_22  idle  {:<48}  2026-05-03 10:23:45 UTC  2 runs", "(no title)"),
            format!("t        idle  {cut}  2026-05-03 10:23:45 UTC  0 runs"),
            format!("e        idle  {:<48}  2026-05-03 10:23:45 UTC  0 runs", "(no title)"),
        ];
        assert_eq!(lines, expected);
    }
}
