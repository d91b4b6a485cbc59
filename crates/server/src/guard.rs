//! The guard before every face: who may talk to us at all, while there are no tokens.
//!
//! A page of another site can make a visitor's browser send requests here. So `Origin`, when present,
//! must be our own, and `Host` must name us by a loopback name, which also stops names that somebody
//! else points at this machine. Health checks are exempt.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Uri, header};
use recount_engine::{Caller, Engine};
use recount_event::Code;
use recount_face_aep::{Refusal, Visitor};

/// Refuses what may not come in.
pub(crate) async fn guard(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let exempt = matches!(request.uri().path(), "/healthz" | "/readyz");
    match check(request.headers(), request.uri(), gate.bound) {
        Err(refusal) if !exempt => refusal.into_response(),
        _ => {
            let visitor = Visitor { engine: gate.engine, caller: Caller::operator() };
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
    }
}

/// Where we listen, and what those find who come in.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) bound: SocketAddr,
    pub(crate) engine: Engine,
}

fn check(headers: &HeaderMap, uri: &Uri, bound: SocketAddr) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (uri.authority(), hosts.next()) {
        (Some(authority), _) => authority.as_str(),
        (None, Some(host)) => text(host, Code::HostRefused, "Host")?,
        (None, None) => return Err(Refusal::new(Code::HostRefused, "the Host header is missing; send it")),
    };
    if hosts.next().is_some() {
        return Err(Refusal::new(Code::HostRefused, "the Host header comes twice; send it once"));
    }
    if !names_us(host, bound) {
        return Err(Refusal::new(
            Code::HostRefused,
            format!("Host is {:?}; use {bound}", host.chars().take(80).collect::<String>()),
        ));
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(()) };
    let origin = text(origin, Code::OriginRefused, "Origin")?;
    let own = origin.strip_prefix("http://").is_some_and(|authority| authority.eq_ignore_ascii_case(host));
    if !own || origins.next().is_some() {
        return Err(Refusal::new(
            Code::OriginRefused,
            format!(
                "Origin is {:?}; only pages from http://{host} may use this server",
                origin.chars().take(80).collect::<String>()
            ),
        ));
    }
    Ok(())
}

fn text<'a>(value: &'a HeaderValue, code: Code, name: &str) -> Result<&'a str, Refusal> {
    value.to_str().map_err(|_| Refusal::new(code, format!("{name} is not plain text")))
}

/// A loopback name or address, with the port we listen on.
fn names_us(host: &str, bound: SocketAddr) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    let port_is_ours = match port {
        Some(port) => port.parse() == Ok(bound.port()),
        None => bound.port() == 80,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let name_is_ours = name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    port_is_ours && name_is_ours
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_with(host: Option<&str>, origin: Option<&str>) -> Result<(), Code> {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(header::HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        check(&headers, &Uri::from_static("/v1/runs"), "127.0.0.1:8765".parse().unwrap())
            .map_err(|refusal| refusal.code)
    }

    #[test]
    fn who_may_come_in() {
        for host in ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"] {
            assert_eq!(check_with(Some(host), None), Ok(()), "{host}");
        }
        for host in
            ["evil.example:8765", "127.0.0.1:80", "127.0.0.1", "localhost.evil.example:8765", "0.0.0.0:8765"]
        {
            assert_eq!(check_with(Some(host), None), Err(Code::HostRefused), "{host}");
        }
        assert_eq!(check_with(None, None), Err(Code::HostRefused));
    }

    #[test]
    fn which_pages_may_come_in() {
        let host = Some("localhost:8765");
        assert_eq!(check_with(host, Some("http://localhost:8765")), Ok(()));
        for origin in [
            "null",
            "http://evil.example",
            "https://localhost:8765",
            "http://localhost:9",
            "http://localhost:8765.evil.example",
            "http://127.0.0.1:8765",
        ] {
            assert_eq!(check_with(host, Some(origin)), Err(Code::OriginRefused), "{origin}");
        }
    }
}
