//! The loop of a connection: reads messages of the editor, and runs all work in progress on one task.
//!
//! Messages are read while requests are in progress, up to a limit. Must not depend on what a method does. Start with
//! [`serve`].

mod connection;
mod dispatch;
mod ending;
mod follow;
mod prompts;
mod reader;
mod replay;
mod session;
mod turn;

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use recount_client::Client;
use recount_client::aap::AapClient;
use recount_world::World;
use tokio::io::{AsyncRead, AsyncWrite};

use self::connection::Connection;
use self::reader::{Line, Reader};
use crate::error::{PARSE_ERROR, RpcError};
use crate::limits;
use crate::rpc::{self, Incoming, Malformed};

/// The options of the program.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The name of the server's agent.
    pub agent: String,
    /// `in_place` or `clone`.
    pub workspace_mode: String,
    /// Whether to omit the MCP servers that the editor names, instead of refusing them.
    pub without_mcp_servers: bool,
    /// Values for the agent's options in new sessions.
    pub options: BTreeMap<String, String>,
}

/// Serves one editor until it closes `input`. `note` shows messages to the user of the program.
pub async fn serve(
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + 'static,
    clients: (Client, AapClient),
    options: Options,
    note: impl Fn(&str) + 'static,
) -> std::io::Result<()> {
    let connection =
        Rc::new(Connection::new(Box::new(output), clients, World::real(), options, Box::new(note)));
    let mut reader = Reader::new(input);
    let mut running = FuturesUnordered::new();
    loop {
        running.extend(connection.take_spawned());
        if connection.is_disconnected() {
            return Ok(());
        }
        tokio::select! {
            line = reader.next(), if connection.requests() < limits::REQUESTS_MAX => match line? {
                Some(line) => receive(&connection, line),
                None => break,
            },
            Some(()) = running.next(), if !running.is_empty() => {}
            () = connection.woken() => {}
        }
    }
    // Finishes requests that arrived before the end of the input. Runs continue on the server.
    let finish = async {
        while connection.requests() > 0 && !connection.is_disconnected() {
            running.extend(connection.take_spawned());
            tokio::select! {
                Some(()) = running.next(), if !running.is_empty() => {}
                () = connection.woken() => {}
            }
        }
    };
    // A request that takes longer is dropped; its effects on the server remain.
    drop(tokio::time::timeout(limits::CLOSE_WAIT, finish).await);
    Ok(())
}

fn receive(connection: &Rc<Connection>, line: Line) {
    let read = match line {
        Line::Whole(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => return,
        Line::Whole(bytes) => rpc::read(&bytes),
        Line::TooLong => {
            let why = format!("the message is longer than {} bytes", limits::MESSAGE_BYTES_MAX);
            Err(Malformed { id: serde_json::Value::Null, error: RpcError::new(PARSE_ERROR, why) })
        }
    };
    match read {
        Ok(Incoming::Answer { id, outcome }) => connection.answered(&id, outcome),
        Ok(Incoming::Notification { method, params }) => dispatch::notified(connection, &method, &params),
        Ok(Incoming::Request { id, method, params }) => {
            let (this, request) = (connection.clone(), connection.begin());
            connection.spawn(async move {
                if let Some(answer) = dispatch::request(&this, &id, &method, &params).await {
                    this.answer(&id, answer).await;
                }
                drop(request);
            });
        }
        Err(Malformed { id, error }) => {
            let (this, request) = (connection.clone(), connection.begin());
            connection.spawn(async move {
                this.answer(&id, Err(error)).await;
                drop(request);
            });
        }
    }
}
