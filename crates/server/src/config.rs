//! Configuration: flag over environment over file over default. Unknown keys are refused.
//!
//! A setting is a row of `table.rs`. This file gives the checked values to the parts that use them.

mod aaep;
mod aap;
mod accepts;
mod access;
mod agents;
mod bind;
mod file;
mod mail;
mod options;
mod otel;
mod rooms;
mod runs;
mod sign_in;
mod table;
mod webhooks;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use recount_agent::web::WebSettings;
use recount_engine::{ArtifactQuota, Policy};
use recount_world::platform;

pub use self::aaep::Aaep;
pub use self::aap::Aap;
pub use self::access::{Access, UnixUser};
pub use self::agents::Agents;
pub use self::bind::Bind;
pub(crate) use self::mail::{MailAccount, MailEncryption, MailServer, MailSettings};
pub(crate) use self::options::LogFormat;
pub use self::options::Options;
pub(crate) use self::otel::TraceExport;
pub(crate) use self::rooms::{RoomAccess, Rooms};
pub use self::runs::Runs;
use self::runs::{ExternalSettings, Folders};
#[cfg(test)]
pub(crate) use self::sign_in::Grant;
use self::sign_in::SignInPlace;
pub(crate) use self::sign_in::{GrantedTo, SignInSettings, is_secure_url};
use self::table::{DefaultContext, Values};
#[cfg(test)]
pub(crate) use self::webhooks::WebhookSecret;
pub use self::webhooks::Webhooks;
pub(crate) use self::webhooks::{Webhook, WebhookFormat};
use crate::StartError;
use crate::database_url::DatabaseUrl;
#[cfg(unix)]
use crate::passed_sockets::PassedSockets;
use crate::redaction::Redaction;
use crate::settings::{Environment, Lookup, Setting};
use crate::stores::{Durability, SqliteSettings, Stores};
use crate::tls::TlsFiles;

/// The complete checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    pub bind: Bind,
    /// Sockets that the service manager opened; `bind` names them.
    #[cfg(unix)]
    pub(crate) passed: PassedSockets,
    pub data: PathBuf,
    /// The database that holds the stores; `None`: the data folder holds them.
    pub store: Option<DatabaseUrl>,
    /// The certificate and key for TLS; `None`: connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// Where other servers on the same database reach this one, if that is not the bound address.
    pub node_address: Option<String>,
    /// Whether tenants are spread over the servers of the database.
    pub spread_tenants: bool,
    /// The URL of this server for people on other machines.
    pub public_url: Option<String>,
    /// Where events are sent.
    pub webhooks: Webhooks,
    /// How people sign in; `None`: by tokens only.
    pub(crate) sign_in: Option<Arc<SignInSettings>>,
    /// Whether events are kept in memory only. Not for operators: measures the cost of the disk.
    pub in_memory: bool,
    pub durability: Durability,
    /// Positions after which acknowledged events may be missing.
    pub accept_loss_after: Vec<u64>,
    /// How many events may be unsealed. Not for operators: for tests that want much sealing.
    pub hot_events_max: Option<u64>,
    /// Automatic pruning, and its interval.
    pub retention: Policy,
    pub sweep_every: Duration,
    /// Tokens, origins and rates.
    pub access: Access,
    /// What is masked before it is stored.
    pub redaction: Redaction,
    /// How own runs are executed.
    pub runs: Runs,
    /// The configured agents.
    pub agents: Agents,
    /// How much runs and uploads may keep.
    pub artifacts: ArtifactQuota,
    /// The face for applications.
    pub aap: Aap,
    /// The face for accessibility tools.
    pub aaep: Aaep,
    /// Where traces are exported; `None`: nowhere.
    pub(crate) otel: Option<TraceExport>,
    pub log: tracing::level_filters::LevelFilter,
    pub log_format: LogFormat,
    /// The settings as given, each with its source.
    pub settings: Vec<Setting>,
}

impl Config {
    /// Reads the configuration from flags, environment and file. `environment` looks a variable up.
    pub fn settle(
        options: Options,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Config, StartError> {
        Config::settle_with(options, &environment)
    }

    /// The configuration for offline work on the stores in a database.
    pub(crate) fn of_database(url: &str) -> Result<Config, StartError> {
        let options = Options { store: Some(url.to_owned()), without_sign_in: true, ..Options::default() };
        let config = Config::settle(options, |name| std::env::var(name).ok())?;
        match config.store {
            Some(_) => Ok(config),
            None => Err(StartError::usage("--store names no database; use postgres://USER@HOST/DATABASE")),
        }
    }

    fn settle_with(options: Options, environment: &Environment<'_>) -> Result<Config, StartError> {
        let (file, path) = file::read(options.config.as_deref(), environment)?;
        let data = user_folder("XDG_DATA_HOME", ".local/share", environment).unwrap_or_default();
        let home = environment(platform::HOME).map(PathBuf::from).filter(|home| home.is_absolute());
        let beside = path.parent().map(Path::to_owned).unwrap_or_default();
        let mut lookup = Lookup::new(environment, path, file.values);
        let place = DefaultContext {
            data: data.to_string_lossy().into_owned(),
            has_home: home.is_some(),
            passed: passed_addresses(&options),
        };
        let values = Values::read(&mut lookup, &options, &place)?;
        let folders = Folders { home, beside: &beside };
        let web = WebSettings { hosts: file.web_hosts, search: file.web_search, ..WebSettings::default() };
        let external = ExternalSettings { mcp: &file.mcp, hooks: &file.hooks, web };
        let runs =
            runs::settle(&mut lookup, &values, file.sandbox_environment, file.models, external, &folders)?;
        let agents = agents::settle(&mut lookup, file.agents, &runs, folders.home.as_deref())?;
        let unix_users = access::settle_users(&mut lookup, file.unix_users, values.require_token)?;
        let webhooks = webhooks::settle(&mut lookup, file.webhooks, values.public_url.is_some())?;
        let bind = values.bind.replaced_by(&place.passed);
        let sign_in_place = SignInPlace {
            public_url: values.public_url.as_deref(),
            is_local: bind.is_local(),
            require_token: values.require_token,
        };
        let section = file.sign_in.filter(|_| !options.without_sign_in);
        let sign_in = sign_in::settle(&mut lookup, section, &sign_in_place)?;
        if sign_in.is_some() && options.in_memory {
            return Err(StartError::usage(
                "sign_in needs a data folder or a database, but events are kept in memory only; omit one",
            ));
        }
        if values.data.as_os_str().is_empty() {
            return Err(StartError::usage(
                "cannot determine the data folder, because HOME is not set; use --data FOLDER",
            ));
        }
        check_database(values.store.as_ref(), values.spread_tenants, &options)?;
        let otel = otel::settle(&values, &lookup);
        Ok(Config {
            bind,
            #[cfg(unix)]
            passed: options.passed,
            data: values.data,
            store: values.store,
            node_address: values.node_address,
            spread_tenants: values.spread_tenants,
            tls: tls_files(values.tls_cert, values.tls_key)?,
            public_url: values.public_url,
            webhooks,
            sign_in,
            in_memory: options.in_memory,
            durability: values.durability,
            accept_loss_after: options.accept_loss_after,
            hot_events_max: values.hot_events_max,
            retention: Policy {
                max_age: values.max_age,
                max_events: values.max_events,
                max_bytes: values.max_bytes,
            },
            sweep_every: values.sweep_every,
            artifacts: ArtifactQuota {
                task_bytes: values.artifact_task_bytes,
                task_count: values.artifact_task_count,
                upload_bytes: values.artifact_upload_bytes,
            },
            access: Access {
                require_token: values.require_token,
                allowed_origins: values.allowed_origins,
                requests_per_second: values.requests_per_second,
                unix_users,
            },
            redaction: Redaction {
                detectors: values.detectors,
                environment: values.redact_environment,
                secret_env: values.secret_env,
                secret_files: values.secret_files,
            },
            runs,
            agents,
            aap: aap::settle(&values.base_paths, values.public_meta)?,
            aaep: Aaep {
                subscriptions_max: usize::try_from(values.subscriptions_max).unwrap_or(usize::MAX),
                rooms: Rooms {
                    access: values.rooms,
                    bind: values.room_bind,
                    agent: options.conformance_agent,
                    announces_sessions: options.suite_compat,
                },
            },
            otel,
            log: values.log,
            log_format: values.log_format,
            settings: lookup.settings(),
        })
    }

    /// The URL of a server with this configuration.
    pub(crate) fn url_of(&self, address: impl std::fmt::Display) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }

    /// The stores that are configured, for a server that listens at `address`. Blocks until a database responds.
    pub(crate) fn stores(&self, address: Option<SocketAddr>) -> Result<Stores, StartError> {
        if let Some(url) = &self.store {
            let address = self.node_address.clone().or_else(|| address.map(reachable));
            let address = address.map(|address| self.url_of(address));
            return Stores::in_database(&self.data, url, address.as_deref());
        }
        let sqlite = SqliteSettings {
            durability: self.durability,
            accept_loss_after: self.accept_loss_after.clone(),
            hot_events_max: self.hot_events_max,
        };
        Ok(Stores::in_folder(&self.data, sqlite))
    }
}

/// Where the sockets of the service manager listen.
fn passed_addresses(
    #[cfg_attr(not(unix), expect(unused_variables, reason = "no sockets are passed there"))]
    options: &Options,
) -> Bind {
    #[cfg(unix)]
    let found = Bind {
        address: options.passed.tcp().and_then(|listener| listener.local_addr().ok()),
        socket: options.passed.path(),
    };
    #[cfg(not(unix))]
    let found = Bind::default();
    found
}

/// Both files or none.
fn tls_files(cert: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<TlsFiles>, StartError> {
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
        (Some(_), None) => {
            Err(StartError::usage("TLS needs the private key of the certificate; set --tls-key"))
        }
        (None, Some(_)) => {
            Err(StartError::usage("TLS needs a certificate for the private key; set --tls-cert"))
        }
    }
}

/// A bound address as other machines may reach it.
fn reachable(bound: SocketAddr) -> String {
    if !bound.ip().is_unspecified() {
        return bound.to_string();
    }
    format!("{}:{}", platform::machine_name(), bound.port())
}

/// Refuses options that contradict a database.
fn check_database(store: Option<&DatabaseUrl>, spreads: bool, options: &Options) -> Result<(), StartError> {
    let Some(url) = store else {
        if spreads {
            let message = "store.spread_tenants needs a database that servers share; name one with --store";
            return Err(StartError::usage(message));
        }
        return Ok(());
    };
    if options.in_memory {
        let message =
            format!("events are kept in memory only, so the database {url} would not be used; omit one");
        return Err(StartError::usage(message));
    }
    if !options.accept_loss_after.is_empty() {
        return Err(StartError::usage(format!(
            "--accept-loss-after is for stores in a data folder; to go back, restore the database {url} to a \
             point in time"
        )));
    }
    Ok(())
}

fn user_folder(variable: &str, below_home: &str, environment: &Environment<'_>) -> Option<PathBuf> {
    let base = environment(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| environment(platform::HOME).map(|home| PathBuf::from(home).join(below_home)))?;
    Some(base.join("recount"))
}

#[cfg(test)]
mod tests;
