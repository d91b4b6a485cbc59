//! `recount mcp`: records what goes between an MCP client, at our standard input and output, and a server: a child process, or
//! one at an address. `recount mcp serve` connects the client to the log itself, and records nothing.
//!
//! Messages are forwarded as they come; a copy is recorded, and recording never holds up or ends the forwarding. It must
//! not know what a message means. Look at [`Mcp`].

mod http;
mod pump;
mod recorder;

use std::future::pending;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use clap::{Args, Subcommand};
use recount_client::{Client, url_below};
use recount_record::mcp::McpSide;
use recount_world::platform::{SignalKind, ending_text, request_end, signal};

use self::http::HttpServer;
use self::pump::{McpItem, McpQueue, forward, queue};
use self::recorder::McpRecorder;
use super::child_output::{self, EscapedStdout};
use super::invocation::{Invocation, block_on_threads};
use crate::failure::Failure;
use crate::limits;
use crate::output::note;

/// Record the calls to an MCP server, or serve the log over MCP
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Mcp {
    #[command(subcommand)]
    verb: Option<McpVerb>,
    /// URL of an MCP server over HTTP
    #[arg(value_name = "ADDRESS", conflicts_with = "command", required_unless_present = "command")]
    address: Option<String>,
    /// With ADDRESS: environment variable that holds the bearer token
    #[arg(long, value_name = "NAME", requires = "address")]
    token_env: Option<String>,
    /// Command that starts the MCP server, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Subcommand)]
enum McpVerb {
    /// Serve the server's runs and prompts to an MCP client on standard input and output
    Serve,
}

impl Mcp {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        let client = invocation.client_of_program()?;
        if let Some(McpVerb::Serve) = self.verb {
            return serve(&client, invocation.token_of_program());
        }
        let _escaped = EscapedStdout::start().map_err(|why| Failure::Own(format!("the terminal: {why}")))?;
        if let Some(address) = &self.address {
            return connect(client, address, self.token_env.as_deref());
        }
        block_on_threads(async move {
            let (program, arguments) = self.command.split_first().expect("the parser requires one");
            let mut child = Command::new(program)
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(child_output::stderr())
                .spawn()
                .map_err(|why| {
                    let check = "check the command after --";
                    Failure::Usage(format!("cannot start the MCP server {program:?}: {why}; {check}"))
                })?;
            let shown = child_output::show(&mut child);
            let pipes = (child.stdin.take().expect("it is piped"), child.stdout.take().expect("it is piped"));
            let (queue, waiting) = queue();
            let name = program.rsplit('/').next().unwrap_or(program);
            let recorder = McpRecorder::new(client, name, Some(&self.command.join(" ")));
            let (status, ()) = tokio::join!(connection(child, pipes, queue), recorder.run(waiting));
            if let Some(shown) = shown {
                shown.wait();
            }
            match status? {
                Some(status) if status.success() => Ok(()),
                Some(status) => Err(Failure::Refused(format!("the MCP server {}", ending_text(status)))),
                None => Err(Failure::Refused("the MCP server did not end and was killed".to_owned())),
            }
        })
    }
}

/// Connects the client to the MCP face of the server.
fn serve(client: &Client, token: Option<&str>) -> Result<(), Failure> {
    let address = url_below(client.base_url(), "/mcp");
    block_on_threads(async move {
        // Nothing takes from the queue, because this is no conversation of an agent with a tool of others.
        let (queue, _) = queue();
        HttpServer::new(&address, token, &queue)?.connect(stop_signal()).await;
        Ok(())
    })
}

/// The same for a server at an address.
fn connect(client: Client, address: &str, token_env: Option<&str>) -> Result<(), Failure> {
    let token = token_env
        .map(|name| {
            let why =
                |_| Failure::Usage(format!("the environment variable {name:?} is not set or not UTF-8"));
            std::env::var(name).map_err(why)
        })
        .transpose()?;
    block_on_threads(async move {
        let (queue, waiting) = queue();
        let forwarding = async {
            // The recorder ends when the queue is dropped.
            let queue = queue;
            let server = HttpServer::new(address, token.as_deref(), &queue)?;
            server.connect(stop_signal()).await;
            queue.push_last(McpItem::ServerEnded(Ok(()))).await;
            Ok(())
        };
        let place = http::without_query(address);
        let recorder = McpRecorder::new(client, &place, None);
        let (forwarded, ()) = tokio::join!(forwarding, recorder.run(waiting));
        forwarded
    })
}

/// Forwards in both directions until the server's output ends, and waits for the server. The recorder ends when the queue
/// is dropped.
async fn connection(
    child: Child,
    (server_in, server_out): (ChildStdin, ChildStdout),
    queue: McpQueue,
) -> Result<Option<ExitStatus>, Failure> {
    let failed = |why: std::io::Error| Failure::Own(format!("the pipes to the MCP server: {why}"));
    let server_in = tokio::process::ChildStdin::from_std(server_in).map_err(failed)?;
    let server_out = tokio::process::ChildStdout::from_std(server_out).map_err(failed)?;
    let pid = child.id();
    {
        let to_server = async {
            // The server's input is closed with the client's.
            forward(tokio::io::stdin(), server_in, McpSide::Client, &queue).await;
            pending::<()>().await;
        };
        let to_client = forward(server_out, tokio::io::stdout(), McpSide::Server, &queue);
        tokio::select! {
            () = to_client => {}
            () = to_server => {}
            () = stopped(pid) => {}
        }
    }
    let status = ended(child).await;
    let how = match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(ending_text(status)),
        None => Err("did not end and was killed".to_owned()),
    };
    queue.push_last(McpItem::ServerEnded(how)).await;
    Ok(status)
}

/// Waits for a signal that ends this program, and ends the server.
async fn stopped(pid: u32) {
    stop_signal().await;
    note("stopping the MCP server");
    request_end(pid);
}

/// Waits for a signal that ends this program.
async fn stop_signal() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Waits for the server's process. One that does not end is killed after a while.
async fn ended(mut child: Child) -> Option<ExitStatus> {
    let until = recount_client::moment() + limits::MCP_EXIT_WAIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if recount_client::moment() < until => tokio::time::sleep(limits::MCP_EXIT_POLL).await,
            Ok(None) | Err(_) => break,
        }
    }
    // It may have ended just now.
    child.kill().ok();
    child.wait().ok();
    None
}
