//! What all agents did since a time, as JSON and as lines for people: what each did, what it cost where that is known, and
//! what waits for a person.
//!
//! Pure; it must never know how runs are read. Entry points: [`Today::of`], [`lines`].

use std::collections::{BTreeMap, BTreeSet};

use recount_client::prompt::{Prompt, PromptKind};
use recount_client::reply::Run;
use serde::Serialize;

use super::sentence::dollars;
use super::{clean, count, flow, list, utc_time};

/// Columns of a line. Words are never cut, so an id stays whole.
const COLUMNS: usize = 80;

/// Columns of a title in the list of an agent's runs: with the longest status and an id it fills a line.
const RUN_TITLE_COLUMNS: usize = 32;

/// Runs of an agent that are named; the number of further ones is printed.
const NAMED_RUNS_MAX: usize = 5;

/// Sources whose runs may have been created long after the events that they record.
const IMPORTED: [&str; 2] = ["claude-transcripts", "codex-rollouts"];

/// The source of runs that only have what an agent reported of a recorded prompt after its end.
const TELEMETRY: &str = "claude-code-otel";

/// Kinds of runs that call no model, and so cost nothing.
const WITHOUT_MODEL: [&str; 3] = ["shell", "git", "file"];

/// The report.
#[derive(Debug, Serialize)]
pub(crate) struct Today {
    /// The report is about runs that were created, worked or ended from here on.
    since: String,
    /// Whether all of them were read.
    complete: bool,
    runs: usize,
    cost: KnownCost,
    agents: Vec<AgentReport>,
    waiting: Vec<WaitingPrompt>,
}

/// The sum of costs, where they are known.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
struct KnownCost {
    micros_usd: u64,
    /// Runs that report a cost, or cost nothing.
    runs_known: usize,
    /// Runs that report none.
    runs_unknown: usize,
    input_tokens: u64,
    output_tokens: u64,
}

/// One agent in one version.
#[derive(Debug, Serialize)]
struct AgentReport {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// What its runs were recorded from.
    sources: BTreeSet<String>,
    runs: usize,
    by_status: BTreeMap<String, usize>,
    cost: KnownCost,
    /// Newest first.
    latest: Vec<RunLine>,
    /// Whether something of it was imported, and may have happened earlier.
    imported: usize,
}

#[derive(Debug, Serialize)]
struct RunLine {
    id: String,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    created_at: String,
}

/// Something that waits for a person.
#[derive(Debug, Serialize)]
pub(crate) struct WaitingPrompt {
    /// `approval`, `question` or `handoff`.
    kind: &'static str,
    id: String,
    run_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    summary: String,
    requested_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl WaitingPrompt {
    pub(crate) fn all<P: Prompt>(prompts: &[P]) -> Vec<Self> {
        prompts.iter().map(WaitingPrompt::of).collect()
    }

    fn of<P: Prompt>(prompt: &P) -> Self {
        let head = prompt.head();
        WaitingPrompt {
            kind: match P::KIND {
                PromptKind::Clarification => "question",
                kind => kind.as_str(),
            },
            id: head.id.to_owned(),
            run_id: head.run_id.to_owned(),
            agent: None,
            summary: head.title.to_owned(),
            requested_at: head.requested_at.to_owned(),
            expires_at: head.expires_at.map(str::to_owned),
        }
    }

    pub(crate) fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The command that answers it.
    fn command(&self) -> String {
        let id = &self.id;
        match self.kind {
            "approval" => format!("recount approve {id}"),
            "question" => format!("recount answer {id}"),
            _ => format!("recount handoff ack {id}"),
        }
    }
}

impl Today {
    /// Of runs, newest first, and of what waits. `asking` are the runs of what waits, whenever they were created.
    pub(crate) fn of(
        since: String,
        runs: &[Run],
        is_complete: bool,
        waiting: Vec<WaitingPrompt>,
        asking: &[Run],
    ) -> Self {
        let mut groups: BTreeMap<(String, Option<String>), AgentReport> = BTreeMap::new();
        let mut cost = KnownCost::default();
        let joined = joined(runs);
        for run in &joined {
            cost.add(run);
            let key = (agent_name(run), run.agent_version.clone());
            groups.entry(key.clone()).or_insert_with(|| AgentReport::new(key)).add(run);
        }
        let mut agents: Vec<AgentReport> = groups.into_values().collect();
        agents.sort_by_key(|agent| std::cmp::Reverse(agent.runs));
        let of_run = |id: &str| asking.iter().chain(runs).find(|run| run.id == id).map(agent_name);
        let mut waiting: Vec<WaitingPrompt> = waiting
            .into_iter()
            .map(|prompt| WaitingPrompt { agent: of_run(&prompt.run_id), ..prompt })
            .collect();
        waiting.sort_by(|one, other| one.requested_at.cmp(&other.requested_at));
        Today { since, complete: is_complete, runs: joined.len(), cost, agents, waiting }
    }
}

/// A prompt that was recorded while the agent worked and imported afterwards is one run: the recorded one, with the figures
/// and the version that the imported one adds. So is one whose tokens were reported after its end.
fn joined(runs: &[Run]) -> Vec<Run> {
    let is_from =
        |run: &Run, sources: &[&str]| run.source.as_deref().is_some_and(|source| sources.contains(&source));
    let adds = |run: &Run| is_from(run, &IMPORTED) || is_from(run, &[TELEMETRY]);
    let mut all: Vec<Run> = runs.iter().filter(|run| !adds(run)).cloned().collect();
    let mut taken: BTreeSet<(String, bool)> = BTreeSet::new();
    // The oldest first, as equal prompts are paired in their order.
    for run in runs.iter().rev().filter(|run| adds(run)) {
        let is_late = is_from(run, &[TELEMETRY]);
        let title = run.title.as_deref().unwrap_or_default().trim_end_matches('…');
        let is_same = |live: &&mut Run| {
            let begins =
                live.title.as_deref().is_some_and(|of_live| !title.is_empty() && of_live.starts_with(title));
            begins
                && run.session_id.is_some()
                && live.session_id == run.session_id
                && !taken.contains(&(live.id.clone(), is_late))
        };
        match all.iter_mut().rev().find(is_same) {
            Some(live) => {
                taken.insert((live.id.clone(), is_late));
                live.agent_version = live.agent_version.take().or_else(|| run.agent_version.clone());
                if is_late {
                    // Its totals do not have what the recorded run has.
                    live.cost_micros_usd += run.cost_micros_usd;
                    live.input_tokens += run.input_tokens;
                    live.output_tokens += run.output_tokens;
                } else if (live.cost_micros_usd, live.input_tokens, live.output_tokens) == (0, 0, 0) {
                    live.cost_micros_usd = run.cost_micros_usd;
                    (live.input_tokens, live.output_tokens) = (run.input_tokens, run.output_tokens);
                }
            }
            None => all.push(run.clone()),
        }
    }
    all.sort_by(|one, other| other.created_at.cmp(&one.created_at));
    all
}

impl KnownCost {
    /// The cost of a run without that of earlier runs, which it includes.
    fn add(&mut self, run: &Run) {
        let own = run.cost_micros_usd.saturating_sub(run.prior_cost_micros_usd);
        // Of a pruned run the turns are not there any more; the total of an external run is what its producer reports.
        let has_turns =
            run.driver == "own" && run.turns > 0 && run.unpriced_turns == 0 && run.first_sequence == 0;
        if own > 0 || has_turns || WITHOUT_MODEL.contains(&run.kind.as_str()) {
            self.runs_known += 1;
        } else {
            self.runs_unknown += 1;
        }
        self.micros_usd = self.micros_usd.saturating_add(own);
        let tokens = |all: u64, prior: u64| all.saturating_sub(prior);
        self.input_tokens =
            self.input_tokens.saturating_add(tokens(run.input_tokens, run.prior_input_tokens));
        self.output_tokens =
            self.output_tokens.saturating_add(tokens(run.output_tokens, run.prior_output_tokens));
    }

    /// One sentence, without its end.
    fn words(self) -> String {
        let KnownCost { micros_usd, runs_known, runs_unknown, .. } = self;
        match (runs_known, runs_unknown) {
            (0, _) => "cost unknown".to_owned(),
            (_, 0) => format!("cost {}", dollars(micros_usd)),
            _ => {
                let unknown = list::count_of_runs(runs_unknown as u64);
                format!("cost {} (unknown for {unknown})", dollars(micros_usd))
            }
        }
    }

    fn tokens(self) -> Option<String> {
        let KnownCost { input_tokens, output_tokens, .. } = self;
        (input_tokens + output_tokens > 0)
            .then(|| format!("{} tokens in, {} tokens out", grouped(input_tokens), grouped(output_tokens)))
    }
}

impl AgentReport {
    fn new((name, version): (String, Option<String>)) -> Self {
        AgentReport {
            name,
            version,
            sources: BTreeSet::new(),
            runs: 0,
            by_status: BTreeMap::new(),
            cost: KnownCost::default(),
            latest: Vec::new(),
            imported: 0,
        }
    }

    fn add(&mut self, run: &Run) {
        self.runs += 1;
        *self.by_status.entry(run.status.clone()).or_default() += 1;
        self.cost.add(run);
        if let Some(source) = &run.source {
            self.imported += usize::from(IMPORTED.contains(&source.as_str()));
            self.sources.insert(source.clone());
        }
        if self.latest.len() < NAMED_RUNS_MAX {
            self.latest.push(RunLine {
                id: run.id.clone(),
                status: run.status.clone(),
                title: run.title.clone(),
                created_at: run.created_at.clone(),
            });
        }
    }

    fn lines(&self) -> Vec<String> {
        let version = self.version.as_deref().map_or(String::new(), |version| format!(" {version}"));
        let statuses: Vec<String> =
            self.by_status.iter().map(|(status, count)| format!("{count} {status}")).collect();
        let mut lines = vec![format!(
            "{}{version}: {} ({}), {}.",
            self.name,
            list::count_of_runs(self.runs as u64),
            statuses.join(", "),
            self.cost.words()
        )];
        if let Some(tokens) = self.cost.tokens() {
            lines.push(format!("  {tokens}."));
        }
        if !self.sources.is_empty() {
            let sources: Vec<&str> = self.sources.iter().map(String::as_str).collect();
            lines.push(format!("  Recorded from {}.", sources.join(" and ")));
        }
        if self.imported > 0 {
            let count = list::count_of_runs(self.imported as u64);
            lines.push(format!("  Imported: {count}; the work may be from an earlier day."));
        }
        for run in &self.latest {
            let title = list::title_within(run.title.as_deref(), RUN_TITLE_COLUMNS);
            lines.push(format!("  {}: {title}, {}", run.status, run.id));
        }
        let more = self.runs - self.latest.len();
        if more > 0 {
            let count = if more == 1 { "1 more run".to_owned() } else { format!("{more} more runs") };
            lines.push(format!("  {count}; to list all: recount ls --agent '{}'", self.name));
        }
        lines
    }
}

/// The report for people, without colours, in lines that fit [`COLUMNS`].
pub(crate) fn lines(today: &Today) -> Vec<String> {
    let since = utc_time(&today.since);
    if today.runs == 0 && today.waiting.is_empty() {
        return vec![format!("No runs since {since}, and nothing waits for you.")];
    }
    let agents = count(today.agents.len() as u64, "agent");
    let mut lines = vec![
        format!("Since {since}: {} by {agents}.", list::count_of_runs(today.runs as u64)),
        format!("{}.", capital(&today.cost.words())),
    ];
    if !today.complete {
        lines.push("There are too many runs to read all; the numbers cover the newest runs only.".to_owned());
    }
    lines.push(match today.waiting.len() {
        0 => "Nothing waits for you.".to_owned(),
        1 => "1 request waits for you.".to_owned(),
        count => format!("{count} requests wait for you."),
    });
    for prompt in &today.waiting {
        let at = utc_time(&prompt.requested_at);
        let agent = prompt.agent.as_deref().map_or(String::new(), |agent| format!(" of {agent}"));
        let summary = list::title_within(Some(&prompt.summary), COLUMNS - 2);
        lines.push(String::new());
        lines.push(format!("{}{agent}, since {at}:", capital(prompt.kind)));
        lines.push(format!("  {summary}"));
        lines.push(format!("  To answer: {}", prompt.command()));
    }
    for agent in &today.agents {
        lines.push(String::new());
        lines.extend(agent.lines());
    }
    lines.iter().map(|line| flow::broken(&clean::line(line), Some(COLUMNS))).collect()
}

/// The agent of a run; of one without, what it is.
fn agent_name(run: &Run) -> String {
    match (&run.agent_name, run.kind.as_str()) {
        (Some(name), _) if !name.trim().is_empty() => name.clone(),
        (_, "agent_loop") => "recount".to_owned(),
        (_, "external") => "unnamed agent".to_owned(),
        (_, kind) => format!("{kind} commands"),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

/// `12,345`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(id: u32, more: serde_json::Value) -> Run {
        let mut run = json!({
            "id": format!("run_01M7YHX00000000000000000{id:02}"), "kind": "external", "driver": "external",
            "status": "finished", "needs_attention": false, "created_at": "2026-11-25T10:00:00.000Z",
            "turns": 0, "cost_micros_usd": 0, "pending_approvals": [],
        });
        run.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(run).unwrap()
    }

    fn claude(id: u32, more: serde_json::Value) -> Run {
        let mut agent = json!({"agent_name": "claude-code", "agent_version": "2.1.330",
            "source": "claude-code-hooks", "title": "Fix the page on which people log in, and its tests"});
        agent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        run(id, agent)
    }

    #[test]
    fn what_is_not_known_is_not_counted_as_nothing() {
        let mut cost = KnownCost::default();
        // Reported; reported to be nothing; a command.
        cost.add(&claude(1, json!({"turns": 1, "cost_micros_usd": 5, "input_tokens": 7})));
        cost.add(&claude(2, json!({"driver": "own", "turns": 1})));
        cost.add(&run(3, json!({"kind": "shell"})));
        assert_eq!((cost.runs_known, cost.runs_unknown, cost.micros_usd), (3, 0, 5));
        // Turns without a cost; no turn; pruned; only what earlier runs cost.
        cost.add(&claude(4, json!({"turns": 2, "unpriced_turns": 1})));
        cost.add(&claude(5, json!({})));
        cost.add(&claude(6, json!({"driver": "own", "turns": 2, "first_sequence": 9})));
        cost.add(&claude(
            7,
            json!({"cost_micros_usd": 5, "prior_cost_micros_usd": 5,
            "input_tokens": 9, "prior_input_tokens": 7}),
        ));
        assert_eq!((cost.runs_known, cost.runs_unknown, cost.micros_usd), (3, 4, 5));
        assert_eq!(cost.input_tokens, 9);
    }

    #[test]
    fn a_prompt_that_was_recorded_and_imported_is_one_run() {
        let live = |id| {
            claude(
                id,
                json!({"session_id": "chat_1", "agent_version": null, "title": "Fix it, please, and then run all of its tests"}),
            )
        };
        let imported = |id: u32, session: &str| {
            claude(
                id,
                json!({"session_id": session, "source": "claude-transcripts", "title": "Fix it, please…",
                "cost_micros_usd": 5, "input_tokens": 7, "output_tokens": 1}),
            )
        };
        // Of three equal prompts two were recorded; one of another session has nothing to do with them.
        let runs = [
            imported(6, "chat_2"),
            imported(5, "chat_1"),
            imported(4, "chat_1"),
            imported(3, "chat_1"),
            live(2),
            live(1),
        ];
        let today = Today::of(String::new(), &runs, true, Vec::new(), &[]);
        assert_eq!((today.runs, today.cost.micros_usd, today.cost.runs_unknown), (4, 20, 0));
        let [agent] = &today.agents[..] else { panic!("one agent in one version: {:?}", today.agents) };
        assert_eq!((agent.runs, agent.imported, agent.version.as_deref()), (4, 2, Some("2.1.330")));
    }

    #[test]
    fn tokens_that_were_reported_after_the_end_of_a_prompt_count_with_it() {
        let figures = |source: &str, cost: u64| json!({"session_id": "chat_1", "source": source, "title": "Fix it", "cost_micros_usd": cost, "input_tokens": 1});
        let runs = [claude(2, figures("claude-code-otel", 5)), claude(1, figures("claude-code-hooks", 7))];
        let today = Today::of(String::new(), &runs, true, Vec::new(), &[]);
        assert_eq!((today.runs, today.cost.micros_usd, today.cost.input_tokens), (1, 12, 2));
        let alone = Today::of(String::new(), &runs[..1], true, Vec::new(), &[]);
        assert_eq!((alone.runs, alone.cost.micros_usd), (1, 5));
    }

    #[test]
    fn a_morning_in_eighty_columns() {
        let mut runs: Vec<Run> = (1..8).map(|id| claude(id, json!({}))).collect();
        runs[0] = claude(
            1,
            json!({"status": "waiting", "turns": 2, "unpriced_turns": 1,
            "cost_micros_usd": 1_250_000, "input_tokens": 12_345, "output_tokens": 678}),
        );
        runs.push(run(9, json!({"kind": "shell", "title": "ls"})));
        runs.push(run(10, json!({"agent_name": "codex", "source": "codex-rollouts"})));
        let prompt = WaitingPrompt {
            kind: "approval",
            id: "appr_1".into(),
            run_id: runs[0].id.clone(),
            agent: None,
            summary: "rm -r \u{1b}[31mold".into(),
            requested_at: "2026-11-26T08:00:00.000Z".into(),
            expires_at: None,
        };
        let today = Today::of("2026-11-25T00:00:00.000Z".into(), &runs, true, vec![prompt], &[]);
        let expected = "\
Since 2026-11-25 00:00:00 UTC: 9 runs by 3 agents.
Cost 1.25 USD (unknown for 7 runs).
1 request waits for you.

Approval of claude-code, since 2026-11-26 08:00:00 UTC:
  rm -r \\u{1b}[31mold
  To answer: recount approve appr_1

claude-code 2.1.330: 7 runs (6 finished, 1 waiting), cost 1.25 USD (unknown for
  6 runs).
  12,345 tokens in, 678 tokens out.
  Recorded from claude-code-hooks.
  waiting: Fix the page on which people…, run_01M7YHX0000000000000000001
  finished: Fix the page on which people…, run_01M7YHX0000000000000000002
  finished: Fix the page on which people…, run_01M7YHX0000000000000000003
  finished: Fix the page on which people…, run_01M7YHX0000000000000000004
  finished: Fix the page on which people…, run_01M7YHX0000000000000000005
  2 more runs; to list all: recount ls --agent 'claude-code'

codex: 1 run (1 finished), cost unknown.
  Recorded from codex-rollouts.
  Imported: 1 run; the work may be from an earlier day.
  finished: (no title), run_01M7YHX0000000000000000010

shell commands: 1 run (1 finished), cost 0.00 USD.
  finished: ls, run_01M7YHX0000000000000000009";
        assert_eq!(lines(&today).join("\n"), expected);
        assert!(lines(&today).join("\n").lines().all(|line| flow::columns(line) <= COLUMNS));
        let none = Today::of("2026-11-25T00:00:00.000Z".into(), &[], true, Vec::new(), &[]);
        assert_eq!(lines(&none), ["No runs since 2026-11-25 00:00:00 UTC, and nothing waits for you."]);
    }
}
