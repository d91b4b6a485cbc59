//! `recount acp`: records an ACP agent, between the editor at our standard input and output and the agent, a child.
//!
//! Two threads forward, byte for byte; the recorder reads a copy. Look at [`Relay`].

mod account;
mod gate;
mod leftover;
mod line;
mod producer;
mod queue;
mod recorder;
mod relay;
mod run;

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use recount_client::{Kind, World, moment, thread};
use recount_world::platform;
use serde_json::json;
use tokio::sync::oneshot;

use self::account::{AcpConnection, ApprovalTerms};
use self::gate::{Ask, Gate};
use self::leftover::{Leftover, close_left_open};
use self::producer::AcpProducer;
use self::queue::{AcpItem, AcpQueue, AcpSide, queue};
use self::recorder::{AcpRecorder, command_name, raw};
use self::relay::{Outlet, Relay};
use super::acp_agent::AgentOptions;
use super::child_output::{self, EscapedStdout};
use super::invocation::{Invocation, block_on};
use crate::failure::Failure;
use crate::limits;
use crate::output::note;
use crate::render::count;

/// Record an ACP agent, or serve an agent of the server to an editor
#[derive(Args)]
pub(super) struct Acp {
    #[command(flatten)]
    own: AgentOptions,
    /// Where permission requests are answered
    #[arg(long, value_enum, value_name = "WHERE", default_value = "both")]
    ask: Ask,
    /// With --ask recount: seconds to wait for an answer before the call is rejected
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    ask_seconds: u64,
    /// Folder for the ids of open runs; a later recorder closes the runs of one that was killed
    #[arg(long, value_name = "DIR", env = "RECOUNT_ACP_STATE", hide_env_values = true)]
    state: Option<PathBuf>,
    /// Command that starts the agent, with its arguments
    #[arg(last = true, required_unless_present = "agent", value_name = "COMMAND")]
    command: Vec<String>,
}

impl Acp {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        if let Some(served) = self.own.run(&invocation) {
            return served;
        }
        let client = invocation.client_of_program()?;
        let _escaped = EscapedStdout::start().map_err(|why| Failure::Own(format!("the terminal: {why}")))?;
        let (program, arguments) =
            self.command.split_first().expect("the parser requires one without an agent");
        let mut child = start_agent(program, arguments)?;
        let shown = child_output::show(&mut child);
        let (agent_in, agent_out) = (child.stdin.take(), child.stdout.take());
        let agent = Outlet::new(agent_in.expect("it is piped"));
        let editor = Outlet::new(std::io::stdout());
        let gate = Arc::new(Gate::new(self.ask));
        let (queue, waiting) = queue();

        let to_agent = Relay {
            from: AcpSide::Editor,
            to: Arc::clone(&agent),
            gate: Arc::clone(&gate),
            queue: queue.clone(),
        };
        let closing = (Arc::clone(&agent), queue.clone());
        thread("acp-editor", move || {
            to_agent.run(std::io::stdin());
            closing.1.push(AcpItem::EditorLeft);
            closing.0.close();
        });
        let to_editor = Relay {
            from: AcpSide::Agent,
            to: Arc::clone(&editor),
            gate: Arc::clone(&gate),
            queue: queue.clone(),
        };
        let agent_out = agent_out.expect("it is piped");
        let (ended, agent_ended) = oneshot::channel();
        let pid = child.id();
        let is_over = Arc::new(AtomicBool::new(false));
        let ending = AgentEnd {
            child,
            pid,
            editor: Arc::clone(&editor),
            agent: Arc::clone(&agent),
            gate: Arc::clone(&gate),
            queue,
            is_over: Arc::clone(&is_over),
            ended,
        };
        let (status_sender, status) = oneshot::channel();
        thread("acp-agent", move || {
            to_editor.run(agent_out);
            // Where it is not read, this program has failed.
            status_sender.send(ending.end()).ok();
        });

        let world = World::real();
        let who = producer(&world, program);
        let asking = ApprovalTerms {
            in_recount: self.ask != Ask::Editor,
            timeout_seconds: (self.ask == Ask::Recount).then_some(self.ask_seconds),
            prefix: format!("appr-{}-", who.producer),
        };
        let state = self.state.or_else(default_state);
        let url = invocation.url.clone();
        let account = AcpConnection::new(&who.agent, asking);
        let ask = self.ask;
        block_on(async move {
            let leftover = Leftover::open(state.as_deref(), &url, &who);
            let stopping = stop_agent(world.clone(), pid, Arc::clone(&agent), is_over);
            world.tasks.spawn(Kind::Service, |_| stopping);
            let others = client.clone();
            let closing = async move { close_left_open(state.as_deref(), &url, &others).await };
            let (closed, is_closed) = oneshot::channel();
            world.tasks.spawn(Kind::Service, |_| async move {
                closing.await;
                closed.send(()).ok();
            });
            let recorder = AcpRecorder::new(world, client, who, account, gate, editor, agent, ask, leftover);
            recorder.run(waiting, agent_ended).await;
            // Also one that ends at once closes what others left.
            drop(tokio::time::timeout(limits::ACP_CLOSE_WAIT, is_closed).await);
            Ok(())
        })?;
        let status = status.blocking_recv();
        if let Some(shown) = shown {
            shown.wait();
        }
        outcome(status.map_err(|_| Failure::Own("the forwarding thread has failed".into()))?)
    }
}

fn start_agent(program: &str, arguments: &[String]) -> Result<Child, Failure> {
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(child_output::stderr())
        .spawn();
    started.map_err(|why| {
        Failure::Usage(format!("cannot start the agent {program:?}: {why}; check the command after --"))
    })
}

/// What happens when the agent's output has ended.
struct AgentEnd {
    child: Child,
    pid: u32,
    editor: Arc<Outlet>,
    agent: Arc<Outlet>,
    gate: Arc<Gate>,
    queue: AcpQueue,
    /// The agent's process has ended, or is waited for now.
    is_over: Arc<AtomicBool>,
    ended: oneshot::Sender<()>,
}

impl AgentEnd {
    /// Waits for the agent, answers what it did not, and ends the recorder.
    fn end(mut self) -> Option<ExitStatus> {
        self.agent.close();
        let status = self.wait();
        self.ended.send(()).ok();
        let how = status.map_or_else(|| "did not end and was killed".to_owned(), words);
        let open = self.gate.take_editor_requests();
        if !open.is_empty() {
            note(&format!("the agent {how} before it answered {}", count(open.len() as u64, "request")));
        }
        for request in open {
            let message = format!("the agent {how} before it answered");
            let error =
                json!({"jsonrpc": "2.0", "id": raw(&request), "error": {"code": -32603, "message": message}});
            // The editor may have exited, too.
            self.editor.write(format!("{error}\n").as_bytes()).ok();
        }
        self.queue.push_last(AcpItem::AgentEnded(how));
        status
    }

    /// An agent that has closed its output and goes on is killed after a while.
    fn wait(&mut self) -> Option<ExitStatus> {
        let (pid, is_over) = (self.pid, Arc::clone(&self.is_over));
        let is_killed = Arc::new(AtomicBool::new(false));
        let killing = Arc::clone(&is_killed);
        let watch = thread("acp-patience", move || {
            let until = moment() + limits::ACP_AGENT_EXIT_WAIT;
            while !is_over.load(Ordering::SeqCst) {
                let Some(left) = until.checked_duration_since(moment()) else {
                    killing.store(true, Ordering::SeqCst);
                    platform::kill(pid);
                    return;
                };
                std::thread::park_timeout(left);
            }
        });
        let status = self.child.wait();
        self.is_over.store(true, Ordering::SeqCst);
        watch.thread().unpark();
        status.ok().filter(|_| !is_killed.load(Ordering::SeqCst))
    }
}

/// A signal that ends this program ends the agent; then all is recorded as when the agent ends by itself.
async fn stop_agent(world: World, pid: u32, agent: Arc<Outlet>, is_over: Arc<AtomicBool>) {
    let listen = |kind| platform::signal(kind).ok();
    let (terminate, interrupt) =
        (listen(platform::SignalKind::terminate()), listen(platform::SignalKind::interrupt()));
    let (Some(mut terminate), Some(mut interrupt)) = (terminate, interrupt) else { return };
    let mut end: fn(u32) = platform::request_end;
    let mut was_requested = false;
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = tokio::time::sleep(limits::ACP_AGENT_EXIT_WAIT), if was_requested => {}
        }
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        note("stopping the agent");
        end(pid);
        // Not before: an agent that reads may still answer. It may block where the agent does not read.
        let agent = Arc::clone(&agent);
        let closing = world.clone();
        let closing =
            async move { closing.tasks.block(Kind::Effect, move || agent.close()).await.unwrap_or(()) };
        world.tasks.spawn(Kind::Service, |_| closing);
        (end, was_requested) = (platform::kill, true);
    }
}

fn words(status: ExitStatus) -> String {
    if status.success() { "ended".to_owned() } else { platform::ending_text(status) }
}

fn outcome(status: Option<ExitStatus>) -> Result<(), Failure> {
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(Failure::Refused(format!("the agent {}", words(status)))),
        None => Err(Failure::Refused("the agent did not end and was killed".to_owned())),
    }
}

/// A name and an epoch that no other recorder has.
fn producer(world: &World, program: &str) -> AcpProducer {
    let epoch = world.clock.now_ms();
    let producer = format!("acp-{:032x}", world.entropy.draw());
    AcpProducer { producer, epoch, agent: command_name(program), agent_version: None }
}

/// `recount/acp` in the user's state folder.
fn default_state() -> Option<PathBuf> {
    Some(super::recorded::state_folder().ok()?.join("acp"))
}
