//! Words for people. Begin with [`Account`]: envelopes go in, lines come out.
//!
//! Everything here is pure: no clock, no terminal, no network. A line stands by itself, nothing is drawn,
//! no colour carries meaning, and no text from an event can drive the terminal (see [`clean`]).

mod account;
pub(crate) mod chat;
pub(crate) mod damage;
pub(crate) mod list;
pub(crate) mod live;
pub(crate) mod pulse;
mod sentence;
pub(crate) mod title;
pub(crate) mod today;

pub(crate) use account::Account;
pub(crate) use recount_command_line::{clean, flow};

/// An identifier as people can tell it apart: the prefix and the last six characters of a long one.
fn short(id: &str) -> String {
    let body = id.rsplit('_').next().unwrap_or(id);
    if body.len() < 20 || !id.is_ascii() {
        return id.to_owned();
    }
    let prefix = &id[..id.len() - body.len()];
    format!("{prefix}…{}", &id[id.len() - 6..])
}

#[cfg(test)]
mod tests;
