//! `recount policy`: what is always allowed, listed and taken back, and what the rules say about a tool. What is always
//! allowed is given with `recount approve --always`.

use clap::{Args, Subcommand};
use recount_client::Listing;
use recount_client::query::LIST_LIMIT_DEFAULT;
use recount_client::reply::{Allowance, PolicyVerdict};
use recount_client::request::AllowanceScope;

use super::approve::scope;
use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::pages::gather;
use crate::render::{clean, utc_time};

/// Manage allowances (calls that need no further approval), and check rules
#[derive(Args)]
pub(super) struct Policy {
    #[command(subcommand)]
    verb: PolicyVerb,
}

#[derive(Subcommand)]
enum PolicyVerb {
    /// List allowances, newest first
    #[command(alias = "list")]
    Ls {
        /// Only allowances with this scope: run, session or workspace
        #[arg(long, value_parser = scope)]
        scope: Option<AllowanceScope>,
        /// Only allowances given in this run
        #[arg(long)]
        run: Option<String>,
        /// Only allowances given in a run of this session
        #[arg(long)]
        session: Option<String>,
        /// List at most N
        #[arg(long, value_name = "N", default_value_t = LIST_LIMIT_DEFAULT)]
        limit: usize,
    },
    /// Revoke an allowance
    Forget {
        /// Id of the allowance, which begins with allow_
        allowance: String,
    },
    /// Show what the policy says about calls of an MCP server's tool
    Check {
        /// Name of the server
        server: String,
        /// Name of the tool
        tool: String,
        /// Check the tool as one that its server marks as destructive
        #[arg(long)]
        destructive: bool,
    },
}

impl Policy {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let client = asking.client.clone();
        match self.verb {
            PolicyVerb::Ls { scope, mut run, mut session, limit } => {
                if let Some(run) = &mut run {
                    *run = ids::full(&client, IdKind::Run, run).await?;
                }
                if let Some(session) = &mut session {
                    *session = ids::full(&client, IdKind::Session, session).await?;
                }
                let scope = scope.map(AllowanceScope::as_str);
                let fetch = async |listing: Listing| {
                    client.list_allowances(&listing, scope, run.as_deref(), session.as_deref()).await
                };
                let found = gather(fetch, limit, None).await?;
                asking.print_items(&found, lines, "no allowances found; recount approve --always creates one")
            }
            PolicyVerb::Forget { allowance } => {
                let revoked = client.take_back_allowance(&allowance).await?;
                if asking.json {
                    return asking.out.value(&revoked);
                }
                asking.out.line(&clean::line(&format!("{} revoked", revoked.id)))
            }
            PolicyVerb::Check { server, tool, destructive } => {
                let verdict = client.judge_mcp_call(&server, &tool, destructive).await?;
                if asking.json {
                    return asking.out.value(&verdict);
                }
                asking.out.line(&clean::line(&judged(&verdict)))
            }
        }
    }
}

/// `block by no-secrets: secrets are not for agents (medium risk)`.
fn judged(verdict: &PolicyVerdict) -> String {
    let PolicyVerdict { verdict, risk_level, irreversible, policy_id, reason, .. } = verdict;
    let rule = policy_id.as_ref().map_or(String::new(), |id| format!(" by {id}"));
    let reason = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    let irreversible = if *irreversible { ", cannot be undone" } else { "" };
    format!("{verdict}{rule}{reason} ({risk_level} risk{irreversible})")
}

/// One line an allowance, which makes sense by itself.
fn lines(allowances: &[Allowance]) -> Vec<String> {
    allowances.iter().map(|allowance| clean::line(&render_allowance(allowance))).collect()
}

fn render_allowance(allowance: &Allowance) -> String {
    let reach = match (allowance.scope.as_str(), &allowance.workspace, &allowance.session_id) {
        ("workspace", Some(folder), _) => format!("in the folder {folder}"),
        ("session", _, Some(session)) => format!("in {session}"),
        ("run", _, _) => format!("in {}", allowance.run_id),
        (other, _, _) => format!("in this {other}"),
    };
    let Allowance { id, kind, summary, given_by, given_at, .. } = allowance;
    format!("{id} always {reach}: {kind} {summary} (by {given_by}, {})", utc_time(given_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_line_shows_call_scope_owner_and_time() {
        let allowance = |scope: &str, more: &str| {
            let json = format!(
                r#"{{"id":"allow_1","scope":"{scope}","run_id":"run_1","approval_id":"appr_1","kind":"shell_exec",
                "summary":"make test","given_by":"ann","given_at":"2026-05-03T10:23:53.206Z"{more}}}"#
            );
            lines(&[serde_json::from_str(&json).unwrap()]).concat()
        };
        let rest = ": shell_exec make test (by ann, 2026-05-03 10:23:53 UTC)";
        assert_eq!(allowance("run", ""), format!("allow_1 always in run_1{rest}"));
        let session = r#","session_id":"chat_1""#;
        assert_eq!(allowance("session", session), format!("allow_1 always in chat_1{rest}"));
        let folder = r#","workspace":"/src/it""#;
        assert_eq!(allowance("workspace", folder), format!("allow_1 always in the folder /src/it{rest}"));
        // A scope of a later server is printed unchanged.
        assert_eq!(allowance("galaxy", ""), format!("allow_1 always in this galaxy{rest}"));
    }
}
