//! A small MCP server for tests of `recount-agent`, with deliberate misbehaviour.
//!
//! `recount-toy-mcp ERA` uses its pipes, `recount-toy-mcp ERA http` a port that it prints. Eras: `old` has
//! `initialize`, `strict` ends at any request before it, `new` has `server/discover`, `mute` sends nothing.

#![allow(clippy::print_stdout, reason = "standard output is how this server speaks")]

mod http;
mod toy;

use std::io::{BufRead as _, Write as _};

use toy::{ToyEra, ToyServer};

fn main() {
    let mut words = std::env::args().skip(1);
    let era = match words.next().as_deref() {
        Some("new") => ToyEra::New,
        Some("strict") => ToyEra::Strict,
        Some("mute") => ToyEra::Mute,
        _ => ToyEra::Old,
    };
    if words.next().as_deref() == Some("http") {
        return http::serve(era);
    }
    let mut toy = ToyServer::new(era);
    // Programs print such lines, and clients must tolerate them.
    println!("the toy starts");
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let Ok(message) = serde_json::from_str(&line) else { continue };
        for answer in toy.answers(&message) {
            println!("{answer}");
        }
        std::io::stdout().flush().ok();
    }
}
