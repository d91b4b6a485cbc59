//! `recount serve`: the server itself. All that it does is in its own crate.

use std::path::PathBuf;

use clap::Args;

use super::Invocation;
use crate::failure::Failure;

/// Start the server
#[derive(Args)]
pub(super) struct Serve {
    /// Address to listen on, such as 127.0.0.1:8765, or unix: with the path of a socket; repeatable, for one of each. Port 0
    /// picks a free port. Non-loopback addresses require a token
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<String>,
    /// Data folder
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keep the stores in this PostgreSQL database instead of the data folder, such as postgres://user@host/db
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Host and port at which other servers on the same database reach this one; default: the bound address
    #[arg(long, value_name = "HOST:PORT")]
    node_address: Option<String>,
    /// Let standbys own the stores of some tenants; set it on all servers of the database
    #[arg(long)]
    spread_tenants: bool,
    /// Certificate for TLS, a PEM file; a changed file is read again
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// strict: acknowledge after the disk confirms; relaxed: faster, but a power cut may lose the newest events
    #[arg(long, value_parser = ["strict", "relaxed"])]
    durability: Option<String>,
    /// Open a store that lost acknowledged events after this position; repeatable
    #[arg(long, value_name = "POSITION")]
    accept_loss_after: Vec<u64>,
    /// Prune runs that ended longer ago than this, such as 30d; default: off
    #[arg(long, value_name = "TIME")]
    max_age: Option<String>,
    /// Prune the runs that ended first while the store has more events than this
    #[arg(long, value_name = "EVENTS")]
    max_events: Option<String>,
    /// Prune the runs that ended first while events have more bytes than this, such as 5GiB
    #[arg(long, value_name = "SIZE")]
    max_bytes: Option<String>,
    /// Interval between pruning passes
    #[arg(long, value_name = "TIME")]
    sweep_every: Option<String>,
    /// Require a token for every request, even from this machine
    #[arg(long)]
    require_token: bool,
    /// Allow browser requests from this origin, such as https://app.example; repeatable
    #[arg(long, value_name = "ORIGIN")]
    allowed_origin: Vec<String>,
    /// Sandbox for commands of runs; off: commands have all rights of the server
    #[arg(long, value_parser = ["auto", "bubblewrap", "landlock", "off"])]
    sandbox: Option<String>,
    /// File of policy rules that allow, ask about or block tool calls
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Allow runs to use this folder and everything below it as a workspace; repeatable
    #[arg(long, value_name = "DIR")]
    allow_workspace: Vec<String>,
    /// Serve an agent that plays scripts at /aaep/legacy/conformance, for conformance suites
    #[arg(long, hide = true)]
    conformance_agent: bool,
    /// Send the id of each session before its first event, as the public conformance suite requires
    #[arg(long, hide = true, requires = "conformance_agent")]
    suite_compat: bool,
    /// Log level: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// Log format; --json implies json
    #[arg(long, value_parser = ["text", "json"])]
    log_format: Option<String>,
}

impl Serve {
    pub(super) fn run(mut self, invocation: Invocation) -> Result<(), Failure> {
        if invocation.json {
            self.log_format.get_or_insert_with(|| "json".to_owned());
        }
        Ok(recount_server::serve(self.options())?)
    }

    /// The options of the command line.
    pub(super) fn options(self) -> recount_server::Options {
        recount_server::Options {
            bind: (!self.bind.is_empty()).then(|| self.bind.join(", ")),
            data: self.data,
            config: self.config,
            store: self.store,
            node_address: self.node_address,
            spread_tenants: self.spread_tenants,
            tls_cert: self.tls_cert,
            tls_key: self.tls_key,
            durability: self.durability,
            accept_loss_after: self.accept_loss_after,
            log: self.log,
            log_format: self.log_format,
            max_age: self.max_age,
            max_events: self.max_events,
            max_bytes: self.max_bytes,
            sweep_every: self.sweep_every,
            require_token: self.require_token,
            allowed_origins: self.allowed_origin,
            sandbox: self.sandbox,
            policy: self.policy,
            workspaces: self.allow_workspace,
            conformance_agent: self.conformance_agent,
            suite_compat: self.suite_compat,
            ..recount_server::Options::default()
        }
    }
}
