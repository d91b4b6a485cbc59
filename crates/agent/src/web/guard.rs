//! Checks what a request may reach: the URL before its host is resolved, and each resolved address before a connection.
//!
//! Pure. Start at [`WebGuard`]. Whatever it cannot judge is refused. The module must not depend on how names are
//! resolved or requests are sent.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;

use super::addresses::{not_public, plain};
use super::private::PrivateHost;
use crate::limits::NAMED_CHARS_MAX;
use crate::tools::cut_bytes;
use crate::web::limits;

/// Ports from 1024 on that browsers refuse, because a request could harm their non-HTTP services. Below 1024 only the
/// ports of HTTP are allowed.
const OTHER_SERVICES: &[u16] = &[
    1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679,
    6697, 10080,
];

/// The first port that needs no privileges to listen on.
const FIRST_FREE_PORT: u16 = 1024;

/// The allowed targets: the public internet, and hosts that the operator configured.
#[derive(Debug, Clone, Default)]
pub(crate) struct WebGuard {
    private: Arc<[PrivateHost]>,
    /// Why this machine is forbidden even if the operator configured it.
    no_loopback: Option<Arc<str>>,
}

/// Why a target is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    #[error("{address:?} is not a valid URL: {why}")]
    Address { address: String, why: String },
    #[error("the scheme {scheme:?} is not supported; use http or https")]
    Scheme { scheme: String },
    #[error("the URL contains a user name or password; remove the part before the @")]
    Login,
    #[error("port {port} of {host} is blocked because it is not used for web services")]
    Port { host: String, port: u16 },
    #[error("{host} is blocked: {address} is {what}; an operator can allow it in web.private_hosts")]
    Private { host: String, address: IpAddr, what: &'static str },
    #[error("{host} is blocked: {address} is a loopback address, and {why}")]
    Loopback { host: String, address: IpAddr, why: String },
}

impl GuardError {
    /// The error code of the call.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            GuardError::Address { .. } | GuardError::Scheme { .. } | GuardError::Login => "url_refused",
            GuardError::Port { .. } | GuardError::Private { .. } | GuardError::Loopback { .. } => {
                "address_refused"
            }
        }
    }
}

/// A checked URL without its fragment. The addresses of its host are checked later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebUrl(Url);

impl WebUrl {
    /// Parses a URL from a model.
    pub(crate) fn read(text: &str) -> Result<WebUrl, GuardError> {
        if text.len() > limits::WEB_URL_BYTES_MAX {
            let why = format!("it has {} bytes; the limit is {}", text.len(), limits::WEB_URL_BYTES_MAX);
            return Err(invalid(text, &why));
        }
        let url = Url::parse(text).map_err(|why| invalid(text, &why.to_string()))?;
        WebUrl::of(url)
    }

    /// Resolves the target of a redirect.
    pub(crate) fn join(&self, location: &str) -> Result<WebUrl, GuardError> {
        if location.len() > limits::WEB_URL_BYTES_MAX {
            return WebUrl::read(location);
        }
        WebUrl::of(self.0.join(location).map_err(|why| invalid(location, &why.to_string()))?)
    }

    fn of(mut url: Url) -> Result<WebUrl, GuardError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(GuardError::Scheme { scheme: cut_bytes(url.scheme().to_owned(), NAMED_CHARS_MAX) });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(GuardError::Login);
        }
        if url.host_str().is_none_or(|host| host.trim_end_matches('.').is_empty()) {
            return Err(invalid(url.as_str(), "it has no host"));
        }
        url.set_fragment(None);
        Ok(WebUrl(url))
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// The URL without its query.
    pub(crate) fn without_query(&self) -> String {
        let mut url = self.0.clone();
        url.set_query(None);
        url.to_string()
    }

    /// The host as in a URL: an IPv6 address is in brackets.
    pub(crate) fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// The host in the form in which names are compared.
    fn name(&self) -> &str {
        self.host().trim_end_matches('.')
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Whether both have the same scheme, host and port.
    pub(crate) fn is_same_origin(&self, other: &WebUrl) -> bool {
        self.0.scheme() == other.0.scheme() && self.name() == other.name() && self.port() == other.port()
    }

    /// The IP address, if the host is one.
    pub(crate) fn literal(&self) -> Option<IpAddr> {
        let host = self.host();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        bare.parse().ok()
    }
}

impl std::fmt::Display for WebUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_str())
    }
}

fn invalid(address: &str, why: &str) -> GuardError {
    // Invalid text may contain a password.
    let address = if address.contains('@') { "***".to_owned() } else { address.to_owned() };
    GuardError::Address { address: cut_bytes(address, NAMED_CHARS_MAX), why: why.to_owned() }
}

impl WebGuard {
    pub(crate) fn new(private: Vec<PrivateHost>) -> Self {
        WebGuard { private: private.into(), no_loopback: None }
    }

    /// Forbids requests to this machine.
    pub(crate) fn without_loopback(self, why: &str) -> Self {
        WebGuard { no_loopback: Some(why.into()), ..self }
    }

    /// Checks all addresses of a host. One forbidden address refuses the host, because a connection may use any of
    /// them.
    pub(crate) fn check(&self, url: &WebUrl, addresses: &[SocketAddr]) -> Result<(), GuardError> {
        addresses.iter().try_for_each(|address| self.check_one(url, plain(address.ip())))
    }

    fn check_one(&self, url: &WebUrl, address: IpAddr) -> Result<(), GuardError> {
        let (name, port) = (url.name(), url.port());
        let host = || cut_bytes(url.host().to_owned(), NAMED_CHARS_MAX);
        let is_free =
            matches!(port, 80 | 443) || (port >= FIRST_FREE_PORT && !OTHER_SERVICES.contains(&port));
        if !is_free && !self.private.iter().any(|private| private.names_port(name, address, port)) {
            return Err(GuardError::Port { host: host(), port });
        }
        let Some(what) = not_public(address) else { return Ok(()) };
        if let Some(why) = self.no_loopback.as_ref().filter(|_| is_this_machine(address)) {
            return Err(GuardError::Loopback { host: host(), address, why: why.to_string() });
        }
        if self.private.iter().any(|private| private.admits(name, address, port)) {
            return Ok(());
        }
        Err(GuardError::Private { host: host(), address, what })
    }
}

/// Whether an address is a loopback or unspecified address of this machine.
fn is_this_machine(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(private: &[&str]) -> WebGuard {
        WebGuard::new(private.iter().map(|text| text.parse().unwrap()).collect())
    }

    /// The result for a URL whose host resolves to these addresses.
    fn reach(guard: &WebGuard, url: &str, resolved: &[&str]) -> Result<String, &'static str> {
        let url = WebUrl::read(url).map_err(|why| why.code())?;
        let addresses: Vec<SocketAddr> = match url.literal() {
            Some(address) => vec![SocketAddr::new(address, url.port())],
            None => resolved.iter().map(|text| SocketAddr::new(text.parse().unwrap(), url.port())).collect(),
        };
        guard.check(&url, &addresses).map_err(|why| why.code())?;
        Ok(url.to_string())
    }

    #[test]
    fn invalid_urls_are_refused() {
        for url in [
            "",
            "example.com",
            "/etc/passwd",
            "file:///etc/passwd",
            "ftp://example.com/",
            "gopher://example.com/",
            "data:text/html,x",
            "javascript:alert(1)",
            "ws://example.com/",
            "http://",
            "http://./",
            "http://user@example.com/",
            "http://user:secret@example.com/",
            "http://:secret@example.com/",
            "http://exa mple.com/",
            "http://[fe80::1%25eth0]/",
            "http://256.256.256.256/",
            "http://example.com:99999/",
            &format!("http://example.com/{}", "a".repeat(limits::WEB_URL_BYTES_MAX)),
        ] {
            assert_eq!(reach(&guard(&[]), url, &["1.1.1.1"]), Err("url_refused"), "{url}");
        }
    }

    #[test]
    fn no_spelling_of_a_private_address_is_reached() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0/",
            "http://127.0.0.1./",
            "http://１２７.0.0.1/",
            "http://127。0。0。1/",
            "http://①②⑦.0.0.1/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:7f00:1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[2001::1]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://0xa9fea9fe/",
            "http://2852039166/",
            "http://[fd00:ec2::254]/",
            "https://10.0.0.1/",
            "http://192.168.0.1:8080/",
        ] {
            assert_eq!(reach(&guard(&[]), url, &[]), Err("address_refused"), "{url}");
        }
    }

    #[test]
    fn one_private_address_of_a_name_refuses_it() {
        let open = guard(&[]);
        assert_eq!(
            reach(&open, "http://a.example/", &["1.1.1.1", "2606:4700::1"]),
            Ok("http://a.example/".into())
        );
        assert_eq!(reach(&open, "http://a.example/", &["1.1.1.1", "127.0.0.1"]), Err("address_refused"));
        assert_eq!(reach(&open, "http://a.example/", &["::ffff:10.0.0.1"]), Err("address_refused"));
    }

    #[test]
    fn only_ports_of_the_web_are_reached() {
        let open = guard(&["redis.corp:22", "mail.corp"]);
        for (url, expected) in [
            ("http://a.example:80/", true),
            ("http://a.example:443/", true),
            ("http://a.example:8080/", true),
            ("http://a.example:22/", false),
            ("http://a.example:25/", false),
            ("http://a.example:0/", false),
            ("http://a.example:6667/", false),
            ("http://a.example:10080/", false),
            // A port that the operator configured is allowed; other ports are not.
            ("http://redis.corp:22/", true),
            ("http://mail.corp:25/", false),
        ] {
            assert_eq!(reach(&open, url, &["1.1.1.1"]).is_ok(), expected, "{url}");
        }
    }

    #[test]
    fn only_hosts_that_the_operator_configured_are_reached() {
        let open = guard(&["wiki.corp", "10.1.0.0/16", "127.0.0.1:8080"]);
        for (url, resolved, expected) in [
            ("http://wiki.corp/", &["10.9.9.9"][..], true),
            ("http://wiki.corp./", &["10.9.9.9"], true),
            ("http://WIKI.corp/", &["127.0.0.1"], true),
            ("http://other.corp/", &["10.9.9.9"], false),
            ("http://other.corp/", &["10.1.2.3"], true),
            ("http://other.corp/", &["10.1.2.3", "10.2.0.1"], false),
            ("http://10.1.0.1/", &[], true),
            ("http://127.0.0.1:8080/", &[], true),
            ("http://127.0.0.1:8081/", &[], false),
            ("http://[::ffff:127.0.0.1]:8080/", &[], true),
        ] {
            assert_eq!(reach(&open, url, resolved).is_ok(), expected, "{url} {resolved:?}");
        }
        // If this server accepts any local client, its machine is not reached even by name.
        let closed = open.without_loopback("this server requires no token");
        for (url, resolved, expected) in [
            ("http://wiki.corp/", &["127.0.0.1"][..], false),
            ("http://wiki.corp/", &["::1"], false),
            ("http://wiki.corp/", &["10.9.9.9"], true),
            ("http://127.0.0.1:8080/", &[], false),
        ] {
            assert_eq!(reach(&closed, url, resolved).is_ok(), expected, "{url} {resolved:?}");
        }
    }

    #[test]
    fn redirects_are_relative_to_their_page() {
        let from = WebUrl::read("https://a.example/b/c?d#e").unwrap();
        assert_eq!(from.to_string(), "https://a.example/b/c?d");
        for (location, expected) in [
            ("/x", Ok("https://a.example/x")),
            ("x#y", Ok("https://a.example/b/x")),
            ("//b.example/", Ok("https://b.example/")),
            ("http://a.example:80/", Ok("http://a.example/")),
            ("file:///etc/passwd", Err("url_refused")),
            ("//user@b.example/", Err("url_refused")),
        ] {
            let joined = from.join(location).map(|url| url.to_string()).map_err(|why| why.code());
            assert_eq!(joined, expected.map(str::to_owned), "{location}");
        }
        let same = |a: &str, b: &str| WebUrl::read(a).unwrap().is_same_origin(&WebUrl::read(b).unwrap());
        assert!(
            same("http://a.example/x", "http://A.example:80/y")
                && same("http://a.example/", "http://a.example./")
        );
        assert!(
            !same("http://a.example/", "https://a.example/")
                && !same("http://a.example/", "http://a.example:81/")
        );
        assert!(!same("http://a.example/", "http://b.example/"));
    }

    #[test]
    fn a_password_is_not_quoted() {
        for url in ["http://ann:canary@exa mple.com/", "http://ann:canary@example.com/"] {
            assert!(!WebUrl::read(url).unwrap_err().to_string().contains("canary"), "{url}");
        }
    }
}
