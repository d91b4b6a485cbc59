//! Words for people. Begin with [`Account`]: envelopes go in, lines come out.
//!
//! Everything here is pure: no clock, no terminal, no network. A line stands by itself, nothing is drawn,
//! no colour carries meaning, and no text from an event can drive the terminal (see [`clean`]).

mod account;
pub(crate) mod chat;
pub(crate) mod gap;
pub(crate) mod list;
pub(crate) mod live;
pub(crate) mod pulse;
mod sentence;
pub(crate) mod title;
pub(crate) mod today;

pub(crate) use account::Account;
pub(crate) use recount_command_line::{clean, flow};

/// An identifier that people can distinguish: the prefix and the last six characters of a long one.
fn short(id: &str) -> String {
    let body = id.rsplit('_').next().unwrap_or(id);
    if body.len() < 20 || !id.is_ascii() {
        return id.to_owned();
    }
    let prefix = &id[..id.len() - body.len()];
    format!("{prefix}…{}", &id[id.len() - 6..])
}

/// `1 run`, `2 runs`: a count and its unit, which is given in the singular.
pub(crate) fn count(count: u64, unit: &str) -> String {
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// `2026-05-03 10:23:45 UTC`: a time of the server, without fractions of a second.
pub(crate) fn utc_time(at: &str) -> String {
    match at.get(..19) {
        Some(seconds) if at.ends_with('Z') => clean::line(&format!("{} UTC", seconds.replacen('T', " ", 1))),
        _ => clean::line(at),
    }
}

#[cfg(test)]
mod tests;
