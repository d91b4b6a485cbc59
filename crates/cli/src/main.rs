//! `recount`: the server, and verbs that speak to one.
//!
//! Each verb is a file in `command/`. This program must never know stores: it asks the server.

mod command;
mod exit;
mod failure;
mod limits;
mod mailbox;
mod output;
mod pages;
mod patience;
mod place;
mod render;
mod version;

/// Runs come and go in hundreds a second, on all threads; the system's allocator would keep several times what is in
/// use. See `docs/decisions/0018`. On Windows it is not built.
#[cfg(unix)]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    // A command of an agent is started by this program, started again; then it is nothing else.
    match recount_server::sandbox_entrance() {
        Some(ended) => ended,
        None => command::run(),
    }
}
