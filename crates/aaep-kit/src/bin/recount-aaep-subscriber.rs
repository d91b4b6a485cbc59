//! `recount-aaep-subscriber`: the scripted subscriber as a program, for testing a producer or as the command of `aaep
//! conformance subscriber`. It contains no logic beyond the library.

use std::process::ExitCode;
use std::time::Duration;

use recount_aaep_kit::World;
use recount_aaep_kit::scripted_subscriber::{Fault, Replies, SubscriberBehaviour, SubscriberSurface, run};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "\
Usage: recount-aaep-subscriber URL [--answers accept|reject|nobody] [--surface versioned|legacy|legacy-bare|socket]
           [--level 1|2|3] [--thinks-ms N] [--token TOKEN] [--fault NAME]
       recount-aaep-subscriber --faults";

#[tokio::main]
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a short program that prints its usage")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--faults"] {
        for fault in Fault::ALL {
            println!("{:26} {} {}", fault.name(), fault.requirement(), fault.description());
        }
        return ExitCode::SUCCESS;
    }
    let Some((url, behaviour)) = read(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (Ok(mut interrupted), Ok(mut terminated)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        eprintln!("recount-aaep-subscriber: signals cannot be listened to");
        return ExitCode::FAILURE;
    };
    let stop = async {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    };
    match run(&World::real(), &url, behaviour, stop).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("recount-aaep-subscriber: {why}");
            ExitCode::FAILURE
        }
    }
}

fn read(arguments: &[String]) -> Option<(String, SubscriberBehaviour)> {
    let (url, options) = arguments.split_first().filter(|(url, _)| !url.starts_with('-'))?;
    let mut behaviour = SubscriberBehaviour::right();
    for pair in options.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--answers" => {
                behaviour.replies = match value.as_str() {
                    "accept" => Replies::Accept,
                    "reject" => Replies::Reject,
                    "nobody" => Replies::Never,
                    _ => return None,
                }
            }
            "--surface" => {
                behaviour.surface =
                    SubscriberSurface::ALL.into_iter().find(|surface| surface.name() == value)?;
            }
            "--level" => behaviour.level = value.parse().ok().filter(|level| (1..=3).contains(level))?,
            "--thinks-ms" => behaviour.reply_delay = Duration::from_millis(value.parse().ok()?),
            "--token" => behaviour.token = Some(value.clone()),
            "--fault" => behaviour.fault = Some(Fault::named(value)?),
            _ => return None,
        }
    }
    Some((url.clone(), behaviour))
}
