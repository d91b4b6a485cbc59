//! A scripted producer for testing subscribers and conformance suites: plays scenarios, optionally with one fault.
//!
//! `cargo run -p recount-aaep-kit --example scripted_producer -- --port 8080 [--fault NAME] [--lag-ms MS] [--suite]`
//!
//! `--lag-ms` delays streams that are opened beside another, which the protocol allows.
//! `--suite` sends the id of each session before the session on the de-facto surface, and gives prompts a timeout of
//! one second, so that the public suite can follow.

use recount_aaep_kit::World;
use recount_aaep_kit::scripted::{Behaviour, Fault, Scripted};

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout, reason = "the address is the output of the program")]
async fn main() -> std::io::Result<()> {
    let mut behaviour = Behaviour::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value =
            || arguments.next().ok_or_else(|| std::io::Error::other(format!("{argument} needs a value")));
        match argument.as_str() {
            "--port" => behaviour.port = value()?.parse().map_err(std::io::Error::other)?,
            "--lag-ms" => behaviour.lag_ms = value()?.parse().map_err(std::io::Error::other)?,
            "--token" => behaviour.token = Some(value()?),
            "--fault" => {
                let name = value()?;
                let found = Fault::ALL.iter().find(|fault| fault.name() == name);
                let known = || Fault::ALL.iter().map(|fault| fault.name()).collect::<Vec<_>>().join(", ");
                let wrong =
                    || std::io::Error::other(format!("there is no fault {name:?}; there are {}", known()));
                behaviour.fault = Some(*found.ok_or_else(wrong)?);
            }
            "--suite" => {
                behaviour.announce_sessions = true;
                behaviour.timeout_seconds = 1;
            }
            other => return Err(std::io::Error::other(format!("{other:?} is not known"))),
        }
    }
    let producer = Scripted::start(&World::real(), behaviour).await?;
    println!("{}", producer.base());
    tokio::signal::ctrl_c().await?;
    producer.stop().await;
    Ok(())
}
