//! Parsers for the values of settings: one function for each type. An error names the accepted values.
//!
//! It must not know a key. [`wrong`] builds the message.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use recount_agent::model::ModelName;
use recount_agent::sandbox::Mode;
use recount_agent::web::{InvalidPrivateHost, PrivateHost};
use recount_otel::Endpoint;
use tracing::level_filters::LevelFilter;

use super::options::LogFormat;
use super::rooms::RoomAccess;
use crate::StartError;
use crate::amounts;
use crate::database_url::{DatabaseUrl, without_password};
use crate::limits::SWEEP_EVERY_MIN;
use crate::stores::Durability;

/// The error for a setting with an invalid value.
pub(super) fn wrong(key: &str, value: &str, accepted: &str) -> StartError {
    let value = without_password(value);
    StartError::usage(format!("invalid value {value:?} for {key}; use {accepted}"))
}

fn some<T>(value: Option<T>, accepted: &str) -> Result<T, String> {
    value.ok_or_else(|| accepted.to_owned())
}

fn or_off<T>(text: &str, value: impl Fn(&str) -> Option<T>, accepted: &str) -> Result<Option<T>, String> {
    if text == "off" { Ok(None) } else { some(value(text), &format!("off, or {accepted}")).map(Some) }
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// The base URL of an endpoint of OpenTelemetry, or none.
pub(super) fn otel_endpoint(text: &str) -> Result<Option<Endpoint>, String> {
    endpoint_or_none(text, Endpoint::parse, "http://127.0.0.1:4318")
}

/// The whole URL that takes logs, or none.
pub(super) fn otel_logs_endpoint(text: &str) -> Result<Option<Endpoint>, String> {
    endpoint_or_none(text, Endpoint::parse_whole, "http://127.0.0.1:3100/otlp/v1/logs")
}

fn endpoint_or_none(
    text: &str,
    parse: fn(&str) -> Option<Endpoint>,
    example: &str,
) -> Result<Option<Endpoint>, String> {
    if text == "none" {
        return Ok(None);
    }
    let accepted = format!(
        "a URL such as {example} without a login, which belongs into the variable of otel.headers_env, or none"
    );
    some(parse(text), &accepted).map(Some)
}

/// Pairs of names and values.
pub(super) fn resource_attributes(text: &str) -> Result<Vec<(String, String)>, String> {
    match text {
        "none" => Ok(Vec::new()),
        pairs => recount_otel::pairs(pairs)
            .map_err(|why| format!("pairs such as deployment.environment.name=production ({why})")),
    }
}

/// The name of a variable, or none.
pub(super) fn name_or_none(text: &str) -> Result<Option<String>, String> {
    Ok((text != "none").then(|| text.to_owned()))
}

pub(super) fn yes_or_no(text: &str) -> Result<bool, String> {
    some(parsed(text), "true or false")
}

/// An address with a port, or `localhost` with one.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let address = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}").parse().ok(),
        None => parsed(text),
    };
    some(address, "an address with a port, such as 127.0.0.1:8765")
}

/// The same, or none.
pub(super) fn address_or_off(text: &str) -> Result<Option<SocketAddr>, String> {
    or_off(text, |text| address(text).ok(), "an address with a port, such as 127.0.0.1:8080")
}

/// A host with a port, or nothing.
pub(super) fn host_or_auto(text: &str) -> Result<Option<String>, String> {
    let is_host = |text: &str| {
        let (host, port) = text.rsplit_once(':')?;
        let named = !host.is_empty() && !host.contains(['/', '@', ' ']);
        (named && port.parse::<u16>().is_ok_and(|port| port > 0)).then(|| text.to_owned())
    };
    match text {
        "auto" => Ok(None),
        text => some(is_host(text), "a host with a port, such as 10.0.0.7:8765, or auto").map(Some),
    }
}

/// The URL of this server for other machines, without a slash at the end.
pub(super) fn public_url(text: &str) -> Result<Option<String>, String> {
    if text == "none" {
        return Ok(None);
    }
    let url = text.trim_end_matches('/');
    let accepted = "none, or a URL such as https://recount.example";
    let uri: http::Uri = url.parse().map_err(|_| accepted.to_owned())?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    let is_host = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    match is_web && is_host && uri.query().is_none() && !url.contains(['#', ',']) {
        true => Ok(Some(url.to_owned())),
        false => Err(accepted.to_owned()),
    }
}

pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    match DatabaseUrl::parse(text) {
        Some(_) => Err("a folder; --store names a database".to_owned()),
        None => Ok(text.into()),
    }
}

/// The URL of a database, or none.
pub(super) fn database(text: &str) -> Result<Option<DatabaseUrl>, String> {
    match text {
        "none" => Ok(None),
        url => some(DatabaseUrl::parse(url), "postgres://USER@HOST/DATABASE, or none").map(Some),
    }
}

pub(super) fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "strict" => Ok(Durability::Strict),
        "relaxed" => Ok(Durability::Relaxed),
        _ => Err("strict or relaxed".to_owned()),
    }
}

pub(super) fn rooms(text: &str) -> Result<RoomAccess, String> {
    match text {
        "loopback" => Ok(RoomAccess::Loopback),
        "everywhere" => Ok(RoomAccess::Everywhere),
        "off" => Ok(RoomAccess::Off),
        _ => Err("loopback, everywhere or off".to_owned()),
    }
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("text or json".to_owned()),
    }
}

pub(super) fn level(text: &str) -> Result<LevelFilter, String> {
    some(parsed(text), "off, error, warn, info, debug or trace")
}

pub(super) fn sandbox_mode(text: &str) -> Result<Mode, String> {
    some(parsed(text), "auto, bubblewrap, landlock or off")
}

/// A number from 1 to `most`.
pub(super) fn number(text: &str, most: usize) -> Result<usize, String> {
    let number = parsed(text).filter(|number| (1..=most).contains(number));
    some(number, &format!("a number from 1 to {most}"))
}

pub(super) fn from_one(text: &str) -> Result<u32, String> {
    some(parsed(text).filter(|count| *count > 0), "a number of at least 1")
}

pub(super) fn rate(text: &str) -> Result<Option<u32>, String> {
    or_off(text, |text| parsed(text).filter(|rate| *rate > 0), "a number of at least 1")
}

pub(super) fn count(text: &str) -> Result<Option<u64>, String> {
    or_off(text, parsed, "a number")
}

pub(super) fn time(text: &str) -> Result<Option<Duration>, String> {
    or_off(text, amounts::duration, "a time such as 30d or 12h")
}

pub(super) fn sweep(text: &str) -> Result<Duration, String> {
    let every = amounts::duration(text).filter(|every| *every >= SWEEP_EVERY_MIN);
    some(every, "a time such as 10m, at least 1s")
}

pub(super) fn size(text: &str) -> Result<u64, String> {
    some(amounts::bytes(text).filter(|size| *size > 0), "a size such as 2GiB")
}

pub(super) fn size_or_off(text: &str) -> Result<Option<u64>, String> {
    or_off(text, amounts::bytes, "a size such as 5GiB")
}

pub(super) fn model(text: &str) -> Result<Option<ModelName>, String> {
    match text {
        "none" => Ok(None),
        name => some(parsed(name), "PROVIDER/MODEL, or none").map(Some),
    }
}

pub(super) fn optional_path(text: &str) -> Result<Option<PathBuf>, String> {
    Ok((text != "none").then(|| text.into()))
}

/// Values with commas between them, or none.
pub(super) fn list(text: &str) -> Result<Vec<String>, String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty() && text != "none");
    Ok(words.map(str::to_owned).collect())
}

pub(super) fn paths(text: &str) -> Result<Vec<PathBuf>, String> {
    Ok(list(text)?.into_iter().map(PathBuf::from).collect())
}

/// Hosts of the web that are not public.
pub(super) fn private_hosts(text: &str) -> Result<Vec<PrivateHost>, String> {
    list(text)?.iter().map(|host| host.parse().map_err(|why: InvalidPrivateHost| why.to_string())).collect()
}

/// Origins exactly as browsers send them.
pub(super) fn origins(text: &str) -> Result<Vec<String>, String> {
    let origins = match text {
        "none" | "" => Vec::new(),
        some => some.split(',').map(|origin| origin.trim().to_owned()).collect(),
    };
    match origins.iter().find(|origin| !is_origin(origin)) {
        Some(other) => Err(format!(
            "origins such as https://app.example, without * or a path; {other:?} is not an origin"
        )),
        None => Ok(origins),
    }
}

/// Whether a browser could send this origin: a scheme, a host in lower case, a port unless it is the default one.
fn is_origin(text: &str) -> bool {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let plain =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | ':' | '[' | ']');
    authority.is_some_and(|authority| !authority.is_empty() && authority.chars().all(plain))
}
