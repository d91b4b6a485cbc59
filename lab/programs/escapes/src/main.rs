//! Tries to escape from a sandbox and reports the result of each attempt.
//!
//! Only for tests of `recount-agent`. Start at [`attempt::Attempt`]; each other file has the attempts of one kind. A
//! successful attempt is harmless: it does not write to what it opens, it changes only its own objects or those of the
//! test, and a call that would stop the machine has an argument that no kernel accepts.
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
    let targets = attempt::Targets { outside: outside.into(), pid, port };
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
            attempt::report(kind, attempt, &targets);
        }
    }
    std::process::ExitCode::SUCCESS
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    std::process::ExitCode::FAILURE
}
