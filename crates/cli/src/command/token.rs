//! `recount token`: creates, lists and revokes tokens of a server, or of a data folder or a database that none uses.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use recount_client::admin::{AddToken, Token};
use recount_client::reply;
use recount_client::scope::Scope;
use recount_server::access::OfflineTokens;

use super::invocation::{self, Invocation};
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::render::{clean, count, utc_time};

/// Create, list and revoke tokens
#[derive(Args)]
pub(super) struct Tokens {
    /// Use this data folder, which no server may be using, for example to create the first token
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
    /// Use the stores in this PostgreSQL database, which no server may be using
    #[arg(long, value_name = "URL", global = true, conflicts_with = "data")]
    store: Option<String>,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Create a token and print its secret, which is not shown again
    Add(Add),
    /// List tokens, without their secrets
    Ls,
    /// Revoke a token and close the streams opened with it
    Rm {
        /// Id of the token, which begins with tok_
        id: String,
    },
}

#[derive(Args)]
struct Add {
    /// Name to record for requests that use the token
    name: String,
    /// Scopes: read, run, approve, ingest, admin; separated by commas
    #[arg(long, value_delimiter = ',', required = true, value_parser = scope)]
    scope: Vec<Scope>,
    /// Tenant whose data the token gives access to; created if missing
    #[arg(long)]
    tenant: Option<String>,
    /// Restrict the token to this task; repeatable
    #[arg(long, value_name = "TASK")]
    task: Vec<String>,
    /// Restrict the token to this session; repeatable
    #[arg(long, value_name = "SESSION")]
    session: Vec<String>,
    /// Lifetime, such as 90d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    expires_in: Option<Duration>,
    /// Limit of requests per second
    #[arg(long, value_name = "TIMES")]
    rate: Option<u32>,
}

fn scope(text: &str) -> Result<Scope, String> {
    match text {
        "read" => Ok(Scope::Read),
        "run" => Ok(Scope::Run),
        "approve" => Ok(Scope::Approve),
        "ingest" => Ok(Scope::Ingest),
        "admin" => Ok(Scope::Admin),
        _ => Err("use read, run, approve, ingest or admin".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    recount_server::amounts::duration(text).ok_or_else(|| "use a duration such as 12h or 90d".to_owned())
}

impl Add {
    fn request(self) -> AddToken {
        AddToken {
            name: self.name,
            scopes: self.scope,
            tenant: self.tenant,
            tasks: self.task,
            sessions: self.session,
            expires_in_seconds: self.expires_in.map(|time| time.as_secs()),
            requests_per_second: self.rate,
        }
    }
}

impl Tokens {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation::block_on(self.manage(invocation))
    }

    async fn manage(self, invocation: Invocation) -> Result<(), Failure> {
        let mut out = Output::new();
        let tokens = match (&self.data, &self.store) {
            (Some(data), _) => OfflineTokens::open(data)?,
            (None, Some(url)) => OfflineTokens::in_database(url)?,
            (None, None) => return of_server(&invocation, self.what, &mut out).await,
        };
        let done = offline(&tokens, self.what, invocation.json, &mut out).await;
        tokens.close().await?;
        done
    }
}

async fn offline(tokens: &OfflineTokens, what: What, as_json: bool, out: &mut Output) -> Result<(), Failure> {
    match what {
        What::Add(add) => show_added(&tokens.add(add.request()).await?, as_json, out),
        What::Ls => list(&tokens.list().await?, as_json, out),
        What::Rm { id } if tokens.remove(&id).await? => removed(&id, as_json, out),
        What::Rm { id } => Err(Failure::Refused(format!("token {id:?} not found (token_not_found)"))),
    }
}

async fn of_server(invocation: &Invocation, what: What, out: &mut Output) -> Result<(), Failure> {
    let client = invocation.client()?;
    match what {
        What::Add(add) => show_added(&client.add_token(&add.request()).await?, invocation.json, out),
        What::Ls => list(&client.list_tokens().await?, invocation.json, out),
        What::Rm { id } => {
            let revoked = client.remove_token(&id).await?;
            removed(&revoked.id, invocation.json, out)
        }
    }
}

/// The secret alone on stdout, so that a script can keep it; the rest goes to stderr.
fn show_added(
    added: &recount_client::admin::AddedToken,
    as_json: bool,
    out: &mut Output,
) -> Result<(), Failure> {
    if as_json {
        return out.value(added);
    }
    note(&clean::line(&format!("{}; the secret is not shown again:", render_token(&added.token))));
    out.line(&added.secret)
}

fn list(tokens: &reply::Page<Token>, as_json: bool, out: &mut Output) -> Result<(), Failure> {
    for row in &tokens.damaged {
        note(&clean::line(&format!("a token record is damaged, and the token is rejected: {row}")));
    }
    if tokens.data.is_empty() && !as_json {
        note("no tokens; recount token add creates one");
    }
    for token in &tokens.data {
        if as_json {
            out.value(token)?;
        } else {
            out.line(&clean::line(&render_token(token)))?;
        }
    }
    Ok(())
}

fn removed(token: &str, as_json: bool, out: &mut Output) -> Result<(), Failure> {
    if as_json {
        return out.value(&serde_json::json!({ "id": token }));
    }
    out.line(&clean::line(&format!("{token} revoked")))
}

/// One line a token, which makes sense by itself.
fn render_token(token: &Token) -> String {
    let scopes: Vec<String> = token.scopes.iter().map(|scope| format!("{scope:?}").to_lowercase()).collect();
    let mut line =
        format!("{} {} of tenant {}, scopes {}", token.id, token.name, token.tenant, scopes.join(" "));
    let within: Vec<&str> = token.tasks.iter().chain(&token.sessions).map(String::as_str).collect();
    if !within.is_empty() {
        line.push_str(&format!(", restricted to {}", within.join(" ")));
    }
    if let Some(until) = &token.expires_at {
        line.push_str(&format!(", expires {}", utc_time(until)));
    }
    if let Some(rate) = token.requests_per_second {
        line.push_str(&format!(", {} per second", count(rate.into(), "request")));
    }
    line.push_str(&format!(", created {} by {}", utc_time(&token.created_at), token.created_by));
    line
}
