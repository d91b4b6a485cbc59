//! Connections to PostgreSQL: [`Target`] is the address, [`Session`] is one connection, [`Link`] connects again after a loss.
//!
//! It must not know tables.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use recount_log::{Fault, FaultKind, Retry};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use crate::fault::QueryError;
use crate::limits;
use crate::tls::Tls;

/// The values of the parameters of a statement.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Where the database is, and how to connect to it.
pub(crate) struct Target {
    config: Config,
    tls: Option<Tls>,
    /// Host, port and database, for messages.
    shown: String,
}

impl Target {
    /// Reads a URL. Its `sslmode` may be `disable`, `prefer`, `require`, `verify-ca` or `verify-full`; all but the first
    /// check the certificate.
    pub(crate) fn parse(url: &str) -> Result<Self, Fault> {
        let refused = |why: &dyn std::fmt::Display| {
            let message = format!(
                "cannot read the URL of the database: {why}; write postgres://user:password@host/database"
            );
            Fault::new(FaultKind::Io, Retry::Never, message)
        };
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(refused(&"it does not begin with postgres://"));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut authorities, mut rest) = (None, None, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value.to_owned()),
                Some(("sslrootcert", value)) => authorities = Some(PathBuf::from(value.replace("%2F", "/"))),
                _ => rest.push(parameter),
            }
        }
        let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config = Config::from_str(&plain).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            refused(&cause.unwrap_or_else(|| error.to_string()))
        })?;
        let mode = match mode.as_deref() {
            Some("disable") => SslMode::Disable,
            Some("prefer" | "allow") => SslMode::Prefer,
            Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some(other) => return Err(refused(&format!("sslmode={other} is unknown"))),
            None if config.get_hosts().iter().all(is_this_machine)
                && config.get_hostaddrs().iter().all(IpAddr::is_loopback) =>
            {
                SslMode::Disable
            }
            None => SslMode::Require,
        };
        config.ssl_mode(mode);
        if config.get_application_name().is_none() {
            config.application_name("recount");
        }
        if config.get_hosts().len() > 1 {
            // Of several, the one that is the primary now.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        config.connect_timeout(limits::CONNECT_WAIT);
        config.keepalives_idle(limits::KEEPALIVE_IDLE).keepalives_interval(limits::KEEPALIVE_EVERY);
        config.keepalives_retries(limits::KEEPALIVE_RETRIES).tcp_user_timeout(limits::STATEMENT_WAIT);
        let tls = match mode {
            SslMode::Disable => None,
            _ => Some(Tls::new(authorities.as_deref())?),
        };
        let shown = shown(&config);
        Ok(Target { config, tls, shown })
    }

    /// Host, port and database.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        #[cfg(unix)]
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

fn shown(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| {
        let ports = config.get_ports();
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    format!("{hosts}/{}", config.get_dbname().or(config.get_user()).unwrap_or_default())
}

/// Compiling a statement takes longer than each of these statements does. A statement that waits for a lock, or whose client
/// has left, must not keep its connection for ever.
const SETTINGS: &str = "SET jit = off; SET lock_timeout = '10s'; SET client_connection_check_interval = '5s'";

/// One connection, with the statements that were prepared on it.
pub(crate) struct Session {
    client: Client,
    prepared: Mutex<HashMap<Arc<str>, Statement>>,
    /// Moves the bytes; ends with the session.
    driver: AbortHandle,
}

impl Session {
    pub(crate) async fn connect(target: &Target) -> Result<Self, Fault> {
        let context = format!("cannot connect to PostgreSQL at {}", target.shown);
        let connecting = async {
            let driven = |driver: Result<(), tokio_postgres::Error>| {
                if let Err(error) = driver {
                    tracing::debug!(%error, "a connection to PostgreSQL ended");
                }
            };
            match &target.tls {
                Some(tls) => {
                    let (client, connection) = target.config.connect(tls.clone()).await?;
                    Ok((client, Handle::current().spawn(async move { driven(connection.await) })))
                }
                None => {
                    let (client, connection) = target.config.connect(NoTls).await?;
                    Ok((client, Handle::current().spawn(async move { driven(connection.await) })))
                }
            }
        };
        let connected = tokio::time::timeout(2 * limits::CONNECT_WAIT, connecting);
        let (client, driver) = match connected.await {
            Ok(connected) => connected.map_err(|error| QueryError::of(&context, &error).into_fault())?,
            Err(_) => return Err(QueryError::timed_out(&context, 2 * limits::CONNECT_WAIT).into_fault()),
        };
        let session = Session { client, prepared: Mutex::default(), driver: driver.abort_handle() };
        session.execute(&context, SETTINGS).await.map_err(QueryError::into_fault)?;
        Ok(session)
    }

    /// Executes a statement, which is prepared the first time.
    pub(crate) async fn query(
        &self,
        context: &str,
        sql: &Arc<str>,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, QueryError> {
        let work = async {
            let known = self.statements().get(sql).cloned();
            let statement = match known {
                Some(statement) => statement,
                None => {
                    let statement = self.client.prepare(sql).await?;
                    self.statements().insert(sql.clone(), statement.clone());
                    statement
                }
            };
            self.client.query(&statement, parameters).await
        };
        bounded(context, work).await
    }

    /// Executes statements that return nothing. Without `BEGIN` they are one transaction.
    pub(crate) async fn execute(&self, context: &str, sql: &str) -> Result<(), QueryError> {
        bounded(context, self.client.batch_execute(sql)).await
    }

    fn statements(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Statement>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

async fn bounded<T>(
    context: &str,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, QueryError> {
    match tokio::time::timeout(limits::STATEMENT_WAIT, work).await {
        Ok(done) => done.map_err(|error| QueryError::of(context, &error)),
        Err(_) => Err(QueryError::timed_out(context, limits::STATEMENT_WAIT)),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A connection whose other end is silent would otherwise stay.
        self.driver.abort();
    }
}

/// A connection that is established when it is needed, and again after a loss.
pub(crate) struct Link {
    target: Arc<Target>,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
}

impl Link {
    pub(crate) fn new(target: Arc<Target>) -> Self {
        Link { target, session: tokio::sync::Mutex::default() }
    }

    pub(crate) async fn session(&self) -> Result<Arc<Session>, Fault> {
        let mut session = self.session.lock().await;
        if let Some(open) = session.as_ref().filter(|open| !open.is_closed()) {
            return Ok(open.clone());
        }
        *session = None;
        let opened = Arc::new(Session::connect(&self.target).await?);
        *session = Some(opened.clone());
        Ok(opened)
    }

    /// Gives a session up that does not respond.
    pub(crate) async fn forget(&self, lost: &Arc<Session>) {
        let mut session = self.session.lock().await;
        if session.as_ref().is_some_and(|open| Arc::ptr_eq(open, lost)) {
            *session = None;
        }
    }

    /// Gives the present session up, whatever its state.
    pub(crate) async fn reset(&self) {
        *self.session.lock().await = None;
    }

    /// Executes a statement once, on the present connection or a new one.
    pub(crate) async fn query(
        &self,
        context: &str,
        sql: &Arc<str>,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, QueryError> {
        let session = self.session().await.map_err(QueryError::Lost)?;
        let result = session.query(context, sql, parameters).await;
        if let Err(QueryError::Lost(_)) = &result {
            self.forget(&session).await;
        }
        result
    }
}

/// The connections for reads.
pub(crate) struct Readers {
    links: Vec<Link>,
    next: AtomicUsize,
}

impl Readers {
    pub(crate) fn new(target: &Arc<Target>) -> Self {
        let links = (0..limits::READERS).map(|_| Link::new(target.clone())).collect();
        Readers { links, next: AtomicUsize::new(0) }
    }

    /// Executes a statement that changes nothing; once more if the connection is lost.
    pub(crate) async fn query(
        &self,
        context: &str,
        sql: &Arc<str>,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        let link = &self.links[self.next.fetch_add(1, Ordering::Relaxed) % self.links.len()];
        match link.query(context, sql, parameters).await {
            Err(QueryError::Lost(fault)) => {
                tracing::debug!(%fault, "a read is repeated on a new connection");
                link.query(context, sql, parameters).await.map_err(QueryError::into_fault)
            }
            result => result.map_err(QueryError::into_fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_to_other_machines_use_tls_unless_it_is_disabled() {
        let mode = |url: &str| Target::parse(url).map(|target| target.config.get_ssl_mode()).unwrap();
        for (url, expected) in [
            ("postgres://u:p@localhost/d", SslMode::Disable),
            ("postgres://u@127.0.0.1:5433/d", SslMode::Disable),
            ("postgres://u@[::1]/d", SslMode::Disable),
            ("postgres:///d?host=/run/postgresql", SslMode::Disable),
            ("postgres://u@db.example/d", SslMode::Require),
            ("postgres://u@localhost/d?hostaddr=10.0.0.5", SslMode::Require),
            ("postgres://u@localhost,db.example/d", SslMode::Require),
            ("postgres://u@db.example/d?sslmode=disable", SslMode::Disable),
            ("postgres://u@localhost/d?sslmode=verify-full", SslMode::Require),
            ("postgresql://u@localhost/d?application_name=x&sslmode=prefer", SslMode::Prefer),
        ] {
            assert_eq!(mode(url), expected, "{url}");
        }
    }

    #[test]
    fn a_wrong_url_is_refused_and_no_message_shows_the_password() {
        for url in [
            "mysql://u:secret@h/d",
            "host=h password=secret",
            "postgres://u:secret@h/d?sslmode=maybe",
            "postgres://u:secret@h:port/d",
            "postgres://u:secret@h/d?colour=red",
            "postgres://u:secret@localhost/d?sslmode=require&sslrootcert=/missing.pem",
        ] {
            let fault = Target::parse(url).err().unwrap();
            assert!(!fault.message.contains("secret"), "{fault}");
        }
        let target = Target::parse("postgres://u:secret@localhost:5555/runs").unwrap();
        assert_eq!(target.shown(), "localhost:5555/runs");
    }
}
