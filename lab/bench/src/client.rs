//! The load client, which runs in its own process: `recount-bench client <plan as JSON>`.
//!
//! It prints `ready` when everything is connected, starts when its standard input ends, and writes its results as one
//! line of JSON. It uses only the wire protocol.

use std::io::{Read as _, Write as _};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

pub(crate) mod ingest;
pub(crate) mod listen;
pub(crate) mod read;
pub(crate) mod replay;
pub(crate) mod sse;
pub(crate) mod turns;

/// The plan of a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Plan {
    Read(read::ReadPlan),
    Ingest(ingest::IngestPlan),
    Replay(replay::ReplayPlan),
    Turns(turns::TurnsPlan),
    Listen(listen::ListenPlan),
}

pub(crate) fn run(words: &[String]) -> Result<()> {
    let text = words.first().context("the client takes a plan")?;
    let plan: Plan = serde_json::from_str(text).context("the plan cannot be read")?;
    let found = match plan {
        Plan::Read(plan) => serde_json::to_string(&read::run(&plan)?)?,
        Plan::Ingest(plan) => serde_json::to_string(&ingest::run(&plan)?)?,
        Plan::Replay(plan) => serde_json::to_string(&replay::run(&plan)?)?,
        Plan::Turns(plan) => serde_json::to_string(&turns::run(&plan)?)?,
        Plan::Listen(plan) => serde_json::to_string(&listen::run(&plan)?)?,
    };
    writeln!(std::io::stdout().lock(), "{found}")?;
    Ok(())
}

/// Reports that the first part is done, and waits for the line that requests the rest.
fn wait_for_more() -> Result<()> {
    report_ready()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(())
}

fn report_ready() -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "ready")?;
    output.flush()?;
    Ok(())
}

/// Reports that everything is connected, and waits for the start signal.
fn wait_for_start() -> Result<()> {
    report_ready()?;
    let mut nothing = Vec::new();
    std::io::stdin().read_to_end(&mut nothing)?;
    Ok(())
}
