//! The guard in front of every face: checks `Origin`, `Host` and the token of each request.
//!
//! A page of another site can make a browser send requests here. So `Origin`, when present, must be that of this server
//! or allowed by name. Where a client needs no token, `Host` must be a loopback name, which also stops foreign names
//! that resolve to this machine. Health checks are exempt, and so are decision links, which are checked by themselves: browsers
//! send their form without an origin.

use std::net::{IpAddr, SocketAddr};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use recount_engine::RequestContext;
use recount_event::Code;
use recount_face_aep::Refusal;

use crate::access::{Gate, IdentifiedClient, VouchedClient, without_ticket};
use crate::peer::{ArrivedAt, Encrypted, Peer};
use crate::spread::ForwardedRequest;
use crate::tenants::TenantPlace;
use crate::{audit, decide, limits, sign_in, web};

/// Refuses requests that are not allowed, and identifies the client of the others.
pub(crate) async fn guard(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if matches!(path, "/healthz" | "/readyz") || decide::is_link(path) {
        return next.run(request).await;
    }
    if let Some(client) = request.extensions_mut().remove::<VouchedClient>() {
        return match gate.vouched(client) {
            Ok(client) => {
                add_client(client, &mut request);
                next.run(request).await
            }
            Err(refusal) => refusal.into_response(),
        };
    }
    let peer = request.extensions().get::<Peer>();
    let arrived_at = request.extensions().get::<ArrivedAt>().map(|ArrivedAt(address)| *address);
    let rules = OriginRules {
        bound: match peer {
            Some(Peer::User(_)) => None,
            Some(Peer::Address(_)) | None => arrived_at.or(gate.bound),
        },
        allows_anonymous: match peer {
            Some(Peer::User(_)) => !gate.access.require_token,
            Some(Peer::Address(_)) | None => gate.allows_anonymous(),
        },
        is_encrypted: request.extensions().get::<Encrypted>().is_some(),
        allowed_origins: &gate.access.allowed_origins,
    };
    let peer = peer.map(Peer::id);
    let refused = |refusal: Refusal| {
        if let Some(audit) = gate.tenants.audit() {
            audit.refused(refusal.code.as_str(), peer);
        }
        refusal.into_response()
    };
    let page = match rules.check_page(request.headers(), request.uri()) {
        Ok(page) => page,
        Err(refusal) => return refused(refusal),
    };
    let mut response = match (&page, is_preflight(&request)) {
        // The browser sends this by itself, without a token.
        (PageAccess::Allowed(_), true) => preflight(request.headers()),
        _ => match admit(&gate, &mut request) {
            Ok(()) => next.run(request).await,
            Err(refusal) => refused(refusal),
        },
    };
    if let PageAccess::Allowed(origin) = page {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
    if !gate.access.allowed_origins.is_empty() {
        response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// Keeps browsers from reading a reply as anything but what it is declared as, and from embedding it in a page of
/// another origin. A page that is allowed by name reads replies by CORS, which this does not touch.
pub(crate) async fn forbid_sniffing_and_embedding(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

/// Response headers that pages may read.
const EXPOSED: &str = "aap-turn-id, etag, idempotency-replayed, location, retry-after, x-request-id";

/// Request headers that pages may send.
const SENDABLE: &str = "accept, authorization, content-type, idempotency-key, if-match, if-none-match, \
                        last-event-id, mcp-method, mcp-name, mcp-protocol-version, traceparent, x-request-id";

/// The origin of a request.
enum PageAccess {
    /// No page, or one of this server.
    Own,
    /// A page of another origin that is allowed.
    Allowed(HeaderValue),
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Public pages send this before they use a machine in a private network.
const PRIVATE_REQUESTED: &str = "access-control-request-private-network";
const PRIVATE_ALLOWED: &str = "access-control-allow-private-network";

fn preflight(requested: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(SENDABLE));
    if requested.get(PRIVATE_REQUESTED).is_some_and(|value| value == "true") {
        headers.insert(PRIVATE_ALLOWED, HeaderValue::from_static("true"));
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(limits::PREFLIGHT_AGE.as_secs()));
    response
}

/// Identifies the client and adds it to the request. Public paths need no client.
fn admit(gate: &Gate, request: &mut Request) -> Result<(), Refusal> {
    let path = request.uri().path();
    if web::is_open(path) || sign_in::is_page(path) || path == recount_face_aaep::MANIFEST {
        return Ok(());
    }
    let peer = request.extensions().get::<Peer>();
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let mut client = match gate.aap.below(uri.path()) {
        Some(below) => gate.identify_application(below, method, uri, headers, peer)?,
        None => gate.identify(method, uri, headers, peer)?,
    };
    if is_audit(request.uri().path()) {
        let RequestContext { engine, caller } = gate.audit_context(&client)?;
        client = IdentifiedClient { caller, place: TenantPlace::Here(engine), ..client };
    }
    if let Some(uri) = without_ticket(request.uri()) {
        *request.uri_mut() = uri;
    }
    add_client(client, request);
    Ok(())
}

fn add_client(client: IdentifiedClient, request: &mut Request) {
    let IdentifiedClient { caller, place, admitted } = client;
    let extensions = request.extensions_mut();
    match place {
        TenantPlace::Here(engine) => {
            extensions.insert(RequestContext { engine, caller: caller.clone() });
        }
        TenantPlace::Elsewhere(_) => {
            extensions.insert(ForwardedRequest);
        }
    }
    extensions.insert(caller);
    extensions.insert(admitted);
}

/// Whether a path belongs to the audit trail.
fn is_audit(path: &str) -> bool {
    path.strip_prefix(audit::PREFIX).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// The values that `Host` and `Origin` are checked against.
struct OriginRules<'a> {
    /// Where the request arrived; `None` for the Unix socket.
    bound: Option<SocketAddr>,
    /// Whether requests without a token are allowed.
    allows_anonymous: bool,
    /// Whether the request arrived encrypted: then a page of this server did, too.
    is_encrypted: bool,
    allowed_origins: &'a [String],
}

impl OriginRules<'_> {
    fn check_page(&self, headers: &HeaderMap, uri: &Uri) -> Result<PageAccess, Refusal> {
        let host = host(headers, uri)?;
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let origin = origins.next();
        if origins.next().is_some() {
            return Err(Refusal::new(Code::OriginRefused, "the Origin header is repeated; send it once"));
        }
        // If a token is required, any host name may be used.
        if self.allows_anonymous && !is_loopback_host(host, self.bound) {
            let shown: String = host.chars().take(80).collect();
            let bound = self.bound.map_or_else(|| "localhost".to_owned(), |bound| bound.to_string());
            return Err(Refusal::new(
                Code::HostRefused,
                format!("the Host {shown:?} is not served here; use {bound}"),
            ));
        }
        let Some(origin) = origin else {
            check_fetch_site(headers)?;
            return Ok(PageAccess::Own);
        };
        let named = text(origin, Code::OriginRefused, "Origin")?;
        let authority = match named.strip_prefix("http://") {
            _ if self.is_encrypted => named.strip_prefix("https://"),
            // A proxy may have encrypted it.
            None if !self.allows_anonymous => named.strip_prefix("https://"),
            authority => authority,
        };
        if authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
            return Ok(PageAccess::Own);
        }
        if self.allowed_origins.iter().any(|allowed| allowed == named) {
            return Ok(PageAccess::Allowed(origin.clone()));
        }
        let shown: String = named.chars().take(80).collect();
        Err(Refusal::new(
            Code::OriginRefused,
            origin_refused(&shown, &self.own_origin(host), self.allowed_origins),
        ))
    }
}

impl OriginRules<'_> {
    fn own_origin(&self, host: &str) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        format!("{scheme}://{host}")
    }
}

/// Refuses what a browser sends on behalf of a foreign page without naming it, as for an image or a frame. Opening an
/// address of ours from a link is allowed: the page that has the link cannot read it.
fn check_fetch_site(headers: &HeaderMap) -> Result<(), Refusal> {
    let foreign = headers.get_all(FETCH_SITE).iter().find(|site| *site != "same-origin" && *site != "none");
    let Some(site) = foreign else { return Ok(()) };
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
    if is(FETCH_MODE, "navigate") && is(FETCH_DESTINATION, "document") {
        return Ok(());
    }
    let shown: String = String::from_utf8_lossy(site.as_bytes()).chars().take(80).collect();
    let detail = format!(
        "a page of another site sent this request without an Origin header (Sec-Fetch-Site: {shown:?}); use \
         fetch in CORS mode from an origin in access.allowed_origins, or open the address directly"
    );
    Err(Refusal::new(Code::OriginRefused, detail))
}

/// Sent by browsers, and not changeable by pages: how the origin of the page relates to ours, and what the request is for.
const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";
const FETCH_DESTINATION: &str = "sec-fetch-dest";

/// The detail of a refused origin, with the setting that allows it. It is for the developer of the page.
fn origin_refused(shown: &str, own: &str, allowed: &[String]) -> String {
    let mut names: Vec<&str> = allowed.iter().take(limits::ORIGINS_SHOWN_MAX).map(String::as_str).collect();
    names.insert(0, own);
    let more = match allowed.len().saturating_sub(limits::ORIGINS_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "the Origin {shown:?} is not allowed; allowed origins: {}{more}; to allow it, add it to \
         access.allowed_origins (--allowed-origin) and restart the server",
        names.join(", ")
    )
}

fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Result<&'a str, Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (uri.authority(), hosts.next()) {
        (Some(authority), _) => authority.as_str(),
        (None, Some(host)) => text(host, Code::HostRefused, "Host")?,
        (None, None) => return Err(Refusal::new(Code::HostRefused, "the Host header is missing; send it")),
    };
    if hosts.next().is_some() {
        return Err(Refusal::new(Code::HostRefused, "the Host header is repeated; send it once"));
    }
    Ok(host)
}

fn text<'a>(value: &'a HeaderValue, code: Code, name: &str) -> Result<&'a str, Refusal> {
    value.to_str().map_err(|_| Refusal::new(code, format!("the {name} header is not plain text")))
}

/// Whether a host is a loopback name or address with the port of this server. For a Unix socket any port will do, because it may
/// be forwarded from a port.
fn is_loopback_host(host: &str, bound: Option<SocketAddr>) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    let port_matches = match (port, bound) {
        (_, None) => true,
        (Some(port), Some(bound)) => port.parse() == Ok(bound.port()),
        (None, Some(bound)) => bound.port() == 80,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let name_is_loopback = name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    port_matches && name_is_loopback
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `Ok(true)` for a page of another origin that is allowed.
    fn check(allows_anonymous: bool, host: Option<&str>, origin: Option<&str>) -> Result<bool, Code> {
        check_with(allows_anonymous, host, origin, &[])
    }

    fn check_with(
        allows_anonymous: bool,
        host: Option<&str>,
        origin: Option<&str>,
        more: &[(&'static str, &str)],
    ) -> Result<bool, Code> {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(header::HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        for (name, value) in more {
            headers.append(*name, value.parse().unwrap());
        }
        let allowed = ["https://app.example".to_owned()];
        let rules = OriginRules {
            bound: "127.0.0.1:8765".parse().ok(),
            allows_anonymous,
            is_encrypted: false,
            allowed_origins: &allowed,
        };
        let page = rules.check_page(&headers, &Uri::from_static("/v1/runs"));
        page.map(|page| matches!(page, PageAccess::Allowed(_))).map_err(|refusal| refusal.code)
    }

    #[test]
    fn only_loopback_hosts_pass_without_tokens() {
        for host in ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"] {
            assert_eq!(check(true, Some(host), None), Ok(false), "{host}");
        }
        for host in
            ["evil.example:8765", "127.0.0.1:80", "127.0.0.1", "localhost.evil.example:8765", "0.0.0.0:8765"]
        {
            assert_eq!(check(true, Some(host), None), Err(Code::HostRefused), "{host}");
            assert_eq!(check(false, Some(host), None), Ok(false), "{host}, with a token");
        }
        assert_eq!(check(true, None, None), Err(Code::HostRefused));
        assert_eq!(check(false, None, None), Err(Code::HostRefused));
    }

    #[test]
    fn a_refused_origin_error_lists_allowed_origins_and_the_setting() {
        let headers = |name: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "localhost:8765".parse().unwrap());
            headers.insert(header::ORIGIN, name.parse().unwrap());
            headers
        };
        let refused = |allowed: &[String]| {
            let rules = OriginRules {
                bound: "127.0.0.1:8765".parse().ok(),
                allows_anonymous: true,
                is_encrypted: false,
                allowed_origins: allowed,
            };
            rules
                .check_page(&headers("http://localhost:3000"), &Uri::from_static("/v1/runs"))
                .err()
                .unwrap()
                .detail
        };
        for words in [
            "\"http://localhost:3000\"",
            "http://localhost:8765",
            "access.allowed_origins",
            "--allowed-origin",
        ] {
            assert!(refused(&[]).contains(words), "{}", refused(&[]));
        }
        let many: Vec<String> = (0..40).map(|number| format!("https://app{number}.example")).collect();
        let detail = refused(&many);
        let hidden = many.len() - limits::ORIGINS_SHOWN_MAX;
        assert!(
            detail.contains("https://app0.example, ") && detail.contains(&format!(" and {hidden} more;")),
            "{detail}"
        );
        assert!(!detail.contains("https://app39.example"), "{detail}");
    }

    #[test]
    fn only_encrypted_pages_are_own_pages_of_an_encrypted_server() {
        let allowed = [];
        let rules = OriginRules {
            bound: "127.0.0.1:8765".parse().ok(),
            allows_anonymous: true,
            is_encrypted: true,
            allowed_origins: &allowed,
        };
        let check = |origin: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "localhost:8765".parse().unwrap());
            headers.insert(header::ORIGIN, origin.parse().unwrap());
            rules
                .check_page(&headers, &Uri::from_static("/v1/runs"))
                .map(drop)
                .map_err(|refusal| refusal.detail)
        };
        assert_eq!(check("https://localhost:8765"), Ok(()));
        let refused = check("http://localhost:8765").unwrap_err();
        assert!(refused.contains("allowed origins: https://localhost:8765"), "{refused}");
    }

    /// Someone may forward a port of another machine to the socket, and a page may then have that port's name.
    #[test]
    fn a_socket_without_tokens_serves_loopback_names_with_any_port() {
        let rules = |allows_anonymous| OriginRules {
            bound: None,
            allows_anonymous,
            is_encrypted: false,
            allowed_origins: &[],
        };
        let check = |allows_anonymous, host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            let page = rules(allows_anonymous).check_page(&headers, &Uri::from_static("/v1/runs"));
            page.map(drop).map_err(|refusal| refusal.code)
        };
        for host in ["localhost", "localhost:9999", "127.0.0.1", "[::1]:1"] {
            assert_eq!(check(true, host, None), Ok(()), "{host}");
        }
        assert_eq!(check(true, "evil.example:9999", None), Err(Code::HostRefused));
        assert_eq!(check(false, "recount.example", None), Ok(()), "a proxy, whose clients have tokens");
        assert_eq!(check(true, "localhost:9999", Some("http://localhost:9999")), Ok(()));
        assert_eq!(check(true, "localhost:9999", Some("http://evil.example")), Err(Code::OriginRefused));
    }

    #[test]
    fn only_own_and_allowed_origins_pass() {
        let host = Some("localhost:8765");
        for allows_anonymous in [true, false] {
            assert_eq!(check(allows_anonymous, host, Some("http://localhost:8765")), Ok(false));
            assert_eq!(check(allows_anonymous, host, Some("https://app.example")), Ok(true));
            for origin in [
                "null",
                "*",
                "http://evil.example",
                "http://app.example",
                "https://app.example.evil.example",
                "https://app.example:444",
                "http://localhost:9",
                "http://localhost:8765.evil.example",
                "http://127.0.0.1:8765",
            ] {
                assert_eq!(check(allows_anonymous, host, Some(origin)), Err(Code::OriginRefused), "{origin}");
            }
        }
        // A proxy in front may speak TLS; without tokens there is no proxy.
        let secure = Some("https://localhost:8765");
        assert_eq!(check(false, host, secure), Ok(false));
        assert_eq!(check(true, host, secure), Err(Code::OriginRefused));
    }

    #[test]
    fn a_request_of_a_foreign_page_without_an_origin_is_refused() {
        let host = Some("localhost:8765");
        let navigation = ("sec-fetch-mode", "navigate");
        let document = ("sec-fetch-dest", "document");
        for anybody in [true, false] {
            for site in ["cross-site", "same-site", "anything"] {
                let site = ("sec-fetch-site", site);
                for more in [
                    vec![site],
                    vec![site, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
                    vec![site, navigation, ("sec-fetch-dest", "iframe")],
                    vec![("sec-fetch-site", "same-origin"), site],
                ] {
                    assert_eq!(check_with(anybody, host, None, &more), Err(Code::OriginRefused), "{more:?}");
                }
                // A link to the console, in a tab of its own.
                assert_eq!(check_with(anybody, host, None, &[site, navigation, document]), Ok(false));
                // The origin decides where there is one.
                let allowed = check_with(anybody, host, Some("https://app.example"), &[site]);
                assert_eq!(allowed, Ok(true));
            }
            for site in ["same-origin", "none"] {
                assert_eq!(check_with(anybody, host, None, &[("sec-fetch-site", site)]), Ok(false), "{site}");
            }
        }
    }
}
