//! Measures what recording costs an agent: a hook posted and a hook sent by `recount hook`, each compared with an empty
//! handler; a message that `recount acp` forwards, compared with a direct one; and the server's memory with a hundred
//! concurrent agents.
//!
//! `recount` must be in the folder of this program; `cargo xtask bench` builds both.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::{Bench, Sheet, alternate};
use crate::clock::{self, now_ns};
use crate::histogram::Histogram;
use crate::http::Connection;
use crate::process::{Server, anonymous_kib};
use crate::sheet::{Bar, SheetRow};

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "recorder.hook",
        what: "a hook over HTTP, p99 beyond an empty handler's",
        unit: "ms",
        bar: Bar::AtMost(5.0),
    },
    SheetRow {
        key: "recorder.command",
        what: "`recount hook`, p99 from its start to its end",
        unit: "ms",
        bar: Bar::AtMost(25.0),
    },
    SheetRow {
        key: "recorder.start",
        what: "`recount hook` with an empty handler, p50 from its start to its end",
        unit: "ms",
        bar: Bar::AtMost(20.0),
    },
    SheetRow {
        key: "recorder.forward",
        what: "a message of an ACP agent, p99 beyond the same without the recorder",
        unit: "ms",
        bar: Bar::AtMost(1.0),
    },
    SheetRow {
        key: "recorder.memory",
        what: "100 agents recorded at once, the most anonymous memory of the server",
        unit: "MiB",
        bar: Bar::AtMost(300.0),
    },
    SheetRow {
        key: "recorder.acp_memory",
        what: "one `recount acp`, anonymous memory at the end of its session",
        unit: "MiB",
        bar: Bar::None,
    },
];

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    hooks(bench, pair, sheet)?;
    forwarding(bench, pair, sheet)?;
    crowd(bench, sheet)
}

// Hooks.

fn hooks(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let scratch = bench.scratch("hooks")?;
    let product = Server::product(&scratch.path().join("data"))?;
    let empty = Server::start(&["yardstick", "empty"])?;
    let calls = bench.pick(5, 1_000);
    let (mut ours, mut theirs) = (Histogram::default(), Histogram::default());
    alternate(
        pair,
        &mut [&mut || post_calls(&product, "s-posted", calls, OUTPUT_BYTES, &mut ours), &mut || {
            post_calls(&empty, "s-posted", calls, OUTPUT_BYTES, &mut theirs)
        }],
    )?;
    sheet.one("recorder.hook", ours.p99_ms() - theirs.p99_ms());
    sheet.note(format!(
        "a hook: p50 {:.2} ms, p99 {:.2} ms; an empty handler: {:.2} and {:.2}; this disk syncs {:.0} times a second",
        ours.p50_ms(),
        ours.p99_ms(),
        theirs.p50_ms(),
        theirs.p99_ms(),
        bench.raw_syncs(4096)?
    ));
    let commands = bench.pick(2, 200);
    let (mut ours, mut theirs) = (Histogram::default(), Histogram::default());
    let state = scratch.path().join("state");
    alternate(
        pair,
        &mut [
            &mut || (0..commands).try_for_each(|call| command(&product, &state, call, &mut ours)),
            &mut || (0..commands).try_for_each(|call| command(&empty, &state, call, &mut theirs)),
        ],
    )?;
    sheet.one("recorder.command", ours.p99_ms());
    sheet.one("recorder.start", theirs.p50_ms());
    sheet.note(format!("`recount hook`: p50 {:.1} ms", ours.p50_ms()));
    let runs = crate::http::get(product.address, "/v1/runs")?;
    sheet.must(runs.matches("\"kind\":\"external\"").count() == 2, || {
        format!("the runs of two sessions are not there: {runs}")
    });
    empty.kill()?;
    product.stop()
}

/// Bytes of the output of a tool call.
const OUTPUT_BYTES: usize = 1 << 10;

/// Sends a prompt with so many tool calls, which stays open.
fn post_calls(
    server: &Server,
    session: &str,
    calls: usize,
    output: usize,
    late: &mut Histogram,
) -> Result<()> {
    let mut connection = Connection::open(server.address)?;
    let mut post = |event: &str, rest: Value| -> Result<()> {
        let body = body(session, event, rest);
        let start = now_ns();
        let answer = connection.post(&format!("/hooks/claude/{event}"), &body)?;
        late.add(now_ns() - start);
        ensure!(answer.status == 200, "a hook was refused: {}", String::from_utf8_lossy(&answer.body));
        Ok(())
    };
    post("SessionStart", json!({ "source": "startup" }))?;
    post("UserPromptSubmit", json!({ "prompt": "list the files" }))?;
    for call in 0..calls {
        let (before, after) = call_bodies(call, output);
        post("PreToolUse", before)?;
        post("PostToolUse", after)?;
    }
    Ok(())
}

fn call_bodies(call: usize, output: usize) -> (Value, Value) {
    let id = format!("toolu_{call}");
    let input = json!({ "command": format!("ls -l folder-{call}") });
    let before = json!({ "tool_name": "Bash", "tool_input": input, "tool_use_id": id });
    let mut after = before.clone();
    after["tool_response"] =
        json!({ "stdout": "file ".repeat(output / 5), "stderr": "", "interrupted": false });
    (before, after)
}

fn body(session: &str, event: &str, mut rest: Value) -> Vec<u8> {
    rest["session_id"] = session.into();
    rest["prompt_id"] = "p-1".into();
    rest["cwd"] = "/home/me/project".into();
    rest["hook_event_name"] = event.into();
    rest.to_string().into_bytes()
}

/// Sends one hook with `recount hook`: its prompt first, then each call.
fn command(server: &Server, state: &std::path::Path, call: usize, late: &mut Histogram) -> Result<()> {
    let (event, rest) = match call {
        0 => ("UserPromptSubmit", json!({ "prompt": "list the files" })),
        call => ("PreToolUse", call_bodies(call, 0).0),
    };
    let body = body("s-command", event, rest);
    let start = now_ns();
    let mut child = Command::new(recount()?)
        .args(["--url", &format!("http://{}", server.address), "hook", "claude"])
        .env("XDG_STATE_HOME", state)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("`recount hook` cannot be started")?;
    child.stdin.take().context("standard input is piped")?.write_all(&body)?;
    let ended = child.wait_with_output()?;
    late.add(now_ns() - start);
    let answer = String::from_utf8_lossy(&ended.stdout).into_owned();
    ensure!(
        ended.status.success() && ended.stderr.is_empty() && answer.trim() == "{}",
        "`recount hook` ended with {} and printed {answer:?} and {:?}",
        ended.status,
        String::from_utf8_lossy(&ended.stderr)
    );
    Ok(())
}

/// The product's own program.
fn recount() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("recount");
    if !path.is_file() {
        bail!(
            "{} is missing: build recount-cli with the same profile, as `cargo xtask bench` does",
            path.display()
        );
    }
    Ok(path)
}

// ACP.

fn forwarding(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let scratch = bench.scratch("acp")?;
    let product = Server::product(&scratch.path().join("data"))?;
    let (prompts, updates) = (bench.pick(1, 20), bench.pick(20, 500));
    let (mut ours, mut theirs, mut memory_kib) = (Histogram::default(), Histogram::default(), 0.0);
    let agent = std::env::current_exe()?;
    alternate(
        pair,
        &mut [
            &mut || {
                let mut command = Command::new(recount()?);
                command.args(["--url", &format!("http://{}", product.address), "acp"]);
                command.env("RECOUNT_ACP_STATE", scratch.path().join("state"));
                command.arg("--").arg(&agent).arg("acp-agent");
                memory_kib = Editor::start(&mut command)?.session(prompts, updates, &mut ours)?;
                Ok(())
            },
            &mut || {
                let mut command = Command::new(&agent);
                Editor::start(command.arg("acp-agent"))?.session(prompts, updates, &mut theirs)?;
                Ok(())
            },
        ],
    )?;
    let runs = crate::http::get(product.address, "/v1/runs")?;
    sheet.must(runs.matches("\"status\":\"finished\"").count() == prompts, || {
        format!("{prompts} prompts were answered, and these are the runs: {runs}")
    });
    sheet.one("recorder.forward", ours.p99_ms() - theirs.p99_ms());
    sheet.one("recorder.acp_memory", memory_kib / 1024.0);
    sheet.note(format!(
        "a message: p50 {:.3} ms, p99 {:.3} ms; without the recorder {:.3} and {:.3}",
        ours.p50_ms(),
        ours.p99_ms(),
        theirs.p50_ms(),
        theirs.p99_ms()
    ));
    product.stop()
}

/// The agent's pace between two messages.
const PACE_NS: u64 = 1_000_000;

/// The agent `acp-agent`: each prompt names the number of updates, and each update contains the time at which it was
/// written.
pub(crate) fn agent() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let result = match message["method"].as_str() {
            Some("initialize") => {
                json!({ "protocolVersion": 1, "agentInfo": { "name": "paced", "version": "1" } })
            }
            Some("session/new") => json!({ "sessionId": "s-1" }),
            Some("session/prompt") => {
                let updates =
                    message["params"]["prompt"][0]["text"].as_str().unwrap_or("0").parse::<u64>()?;
                let start = now_ns();
                for update in 0..updates {
                    clock::sleep_until_ns(start + update * PACE_NS);
                    let text = format!("{update} {}; ", now_ns());
                    let update = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
                    let params = json!({ "sessionId": "s-1", "update": update });
                    let message = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
                    writeln!(out, "{message}")?;
                    out.flush()?;
                }
                json!({ "stopReason": "end_turn" })
            }
            _ => continue,
        };
        writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))?;
        out.flush()?;
    }
    Ok(())
}

/// The editor that reads the agent's messages and measures their delay.
struct Editor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Editor {
    fn start(command: &mut Command) -> Result<Editor> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the agent cannot be started")?;
        let input = child.stdin.take().context("standard input is piped")?;
        let output = BufReader::new(child.stdout.take().context("standard output is piped")?);
        Ok(Editor { child, input, output })
    }

    /// Runs a session. Returns the anonymous memory of the process at its end, in KiB.
    fn session(mut self, prompts: usize, updates: usize, late: &mut Histogram) -> Result<f64> {
        self.ask(0, "initialize", &json!({ "protocolVersion": 1, "clientCapabilities": {} }), late)?;
        self.ask(1, "session/new", &json!({ "cwd": "/home/me/project", "mcpServers": [] }), late)?;
        for prompt in 0..prompts {
            let text = json!([{ "type": "text", "text": updates.to_string() }]);
            let params = json!({ "sessionId": "s-1", "prompt": text });
            let seen = self.ask(prompt as u64 + 2, "session/prompt", &params, late)?;
            ensure!(seen == updates as u64, "{seen} updates of {updates} arrived");
        }
        let memory = anonymous_kib(self.child.id())?;
        drop(self.input);
        let status = self.child.wait()?;
        ensure!(status.success(), "the agent ended with {status}");
        Ok(memory)
    }

    /// Sends a request and waits for its response. Returns the number of updates, and checks their order.
    fn ask(&mut self, id: u64, method: &str, params: &Value, late: &mut Histogram) -> Result<u64> {
        writeln!(
            self.input,
            "{}",
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
        )?;
        let mut seen = 0;
        let mut line = String::new();
        loop {
            line.clear();
            ensure!(self.output.read_line(&mut line)? > 0, "the agent closed its output");
            let now = now_ns();
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == id {
                return Ok(seen);
            }
            let text = message["params"]["update"]["content"]["text"].as_str().context("another message")?;
            let (number, written) = text.trim_end_matches("; ").split_once(' ').context("another text")?;
            ensure!(number.parse::<u64>()? == seen, "message {number} came in place of {seen}");
            late.add(now.saturating_sub(written.parse()?));
            seen += 1;
        }
    }
}

// Many at once.

fn crowd(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let (agents, calls) = (bench.pick(5, 100), bench.pick(2, 40));
    let scratch = bench.scratch("crowd")?;
    let product = Server::product(scratch.path())?;
    let mut most = 0.0_f64;
    let late = std::thread::scope(|scope| {
        let posting: Vec<_> = (0..agents)
            .map(|agent| {
                let product = &product;
                scope.spawn(move || {
                    let mut late = Histogram::default();
                    post_calls(product, &format!("s-{agent}"), calls, CROWD_OUTPUT_BYTES, &mut late)
                        .map(|()| late)
                })
            })
            .collect();
        while posting.iter().any(|thread| !thread.is_finished()) {
            most = most.max(anonymous_kib(product.pid())?);
            clock::pause(20);
        }
        let mut all = Histogram::default();
        for thread in posting {
            all.merge(&thread.join().map_err(|_| anyhow::anyhow!("who posts died"))??);
        }
        anyhow::Ok(all)
    })?;
    sheet.one("recorder.memory", most.max(anonymous_kib(product.pid())?) / 1024.0);
    sheet.note(format!(
        "{agents} agents at once, {} hooks: p50 {:.1} ms, p99 {:.1} ms",
        late.total(),
        late.p50_ms(),
        late.p99_ms()
    ));
    product.stop()
}

/// Bytes of the output of a tool call of one of many agents.
const CROWD_OUTPUT_BYTES: usize = 16 << 10;
