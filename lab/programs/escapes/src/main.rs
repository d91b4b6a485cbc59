//! Tries to get out of a sandbox, one attempt after the other, and says what came of each.
//!
//! For tests of `recount-agent` only. Look at [`attempt::Attempt`]; each file beside this one has those of a kind. An
//! attempt is harmless where it succeeds: what it opens it does not write, what it changes is its own or what the
//! test made for it, and what would end the machine is asked for in a way that no kernel grants.
//!
//! `recount-escapes OUTSIDE PID PORT` prints a line for each: kind, name, `held` or `open`, and why.

#[cfg(target_os = "linux")]
mod attempt;
#[cfg(target_os = "linux")]
mod devices;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod growth;
#[cfg(target_os = "linux")]
mod ipc;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod processes;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let mut words = std::env::args().skip(1);
    let (Some(outside), Some(pid), Some(port)) = (words.next(), words.next(), words.next()) else {
        return std::process::ExitCode::FAILURE;
    };
    let (Ok(pid), Ok(port)) = (pid.parse(), port.parse()) else { return std::process::ExitCode::FAILURE };
    let about = attempt::About { outside: outside.into(), pid, port };
    let kinds: &[(&str, &[attempt::Attempt])] = &[
        ("files", files::ATTEMPTS),
        ("devices", devices::ATTEMPTS),
        ("kernel", kernel::ATTEMPTS),
        ("processes", processes::ATTEMPTS),
        ("namespaces", namespaces::ATTEMPTS),
        ("messages", ipc::ATTEMPTS),
        ("network", network::ATTEMPTS),
        ("growth", growth::ATTEMPTS),
    ];
    for (kind, attempts) in kinds {
        for attempt in *attempts {
            attempt::report(kind, attempt, &about);
        }
    }
    std::process::ExitCode::SUCCESS
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    std::process::ExitCode::FAILURE
}
