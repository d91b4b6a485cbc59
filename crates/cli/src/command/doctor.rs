//! `recount doctor`: checks a running server, or a data folder or a database without one.

use std::path::PathBuf;

use clap::Args;
use recount_client::ClientError;
use recount_client::admin::{Check, Status};
use recount_server::doctor;

use super::invocation::{self, Invocation};
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::render::{clean, count};

/// Check the server and its store, and suggest fixes
#[derive(Args)]
pub(super) struct Doctor {
    /// Check this data folder, which no server may be using
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Check the stores in this PostgreSQL database, which no server may be using
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    store: Option<String>,
    /// Read every event, which can take a long time
    #[arg(long)]
    full: bool,
}

impl Doctor {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation::block_on(self.check(invocation))
    }

    async fn check(self, invocation: Invocation) -> Result<(), Failure> {
        let checks = match (&self.data, &self.store) {
            (Some(data), _) => doctor::offline(data, self.full),
            (None, Some(url)) => doctor::offline_database(url, self.full).await?,
            (None, None) => match invocation.client()?.check_up(self.full).await {
                Ok(checkup) => checkup.checks,
                Err(why @ ClientError::Unreachable { .. }) if invocation.names_server() => {
                    vec![Check::problem(
                        "server",
                        why.to_string(),
                        "start it, or correct --url or RECOUNT_URL",
                    )]
                }
                Err(why @ ClientError::Unreachable { .. }) => {
                    // Then the stores that a server would use are checked instead.
                    let mut checks = vec![Check::problem(
                        "server",
                        why.to_string(),
                        "start one with recount serve, or use --url or --data",
                    )];
                    match doctor::offline_default(self.full).await {
                        Ok(found) => checks.extend(found),
                        Err(why) => {
                            checks.push(Check::note("store", why.to_string(), "name a folder with --data"))
                        }
                    }
                    checks
                }
                Err(why) => return Err(why.into()),
            },
        };
        let mut out = Output::new();
        out.go_on_unread();
        for check in &checks {
            print_check(&mut out, invocation.json, check)?;
        }
        let problems = checks.iter().filter(|check| check.status == Status::Problem).count();
        match problems {
            0 => note("no problems found"),
            found => note(&count(found as u64, "problem")),
        }
        if problems == 0 { Ok(()) } else { Err(Failure::No) }
    }
}

/// One line a check, which makes sense by itself.
fn print_check(out: &mut Output, as_json: bool, check: &Check) -> Result<(), Failure> {
    if as_json {
        return out.value(check);
    }
    let status = match check.status {
        Status::Fine => "fine",
        Status::Note => "note",
        Status::Problem => "problem",
        Status::Other => "other",
    };
    let advice = check.advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
    out.line(&clean::line(&format!("{}: {status}: {}{advice}", check.name, check.value)))
}
