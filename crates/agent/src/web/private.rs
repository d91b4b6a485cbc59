//! Parses `web.private_hosts`: hosts that an operator allows although they are not public.
//!
//! Pure. Start at [`PrivateHost`]. A name admits the addresses that it resolves to; an address or a network admits
//! every name that resolves into it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

use super::addresses::{is_within, plain};

/// A host or a network, with an optional port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateHost {
    pattern: HostPattern,
    port: Option<u16>,
    /// The original text.
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    Name(String),
    /// All subdomains of a name.
    Below(String),
    Network(IpAddr, u32),
}

impl PrivateHost {
    /// Whether this entry admits a host, one of its addresses, and the port.
    pub(crate) fn admits(&self, host: &str, address: IpAddr, port: u16) -> bool {
        let is_named = match &self.pattern {
            HostPattern::Name(name) => name == host,
            HostPattern::Below(domain) => host.strip_suffix(domain).is_some_and(|sub| sub.ends_with('.')),
            HostPattern::Network(network, prefix) => is_within(plain(address), *network, *prefix),
        };
        is_named && self.has_port(port)
    }

    /// Whether this entry names the port explicitly.
    pub(crate) fn names_port(&self, host: &str, address: IpAddr, port: u16) -> bool {
        self.port.is_some() && self.admits(host, address, port)
    }

    fn has_port(&self, port: u16) -> bool {
        self.port.is_none_or(|only| only == port)
    }
}

impl fmt::Display for PrivateHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text is neither a host nor a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a host, `*.` and a host, an address or a network, with or without a port: wiki.example, *.corp.example, 10.1.2.3:8080, [fd00::1]:80, 10.1.0.0/16"
)]
pub struct InvalidPrivateHost;

impl FromStr for PrivateHost {
    type Err = InvalidPrivateHost;

    fn from_str(text: &str) -> Result<Self, InvalidPrivateHost> {
        let (pattern, port) = read(text.trim()).ok_or(InvalidPrivateHost)?;
        Ok(PrivateHost { pattern, port, text: text.trim().to_owned() })
    }
}

fn read(text: &str) -> Option<(HostPattern, Option<u16>)> {
    if let Some((network, prefix)) = text.split_once('/') {
        let network: IpAddr = network.parse().ok()?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= most)?;
        return Some((HostPattern::Network(network, prefix), None));
    }
    let lone: Option<IpAddr> = text.parse().ok();
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if lone.is_none() && !text.ends_with(']') => {
            (host, Some(port.parse().ok().filter(|port| *port > 0)?))
        }
        _ => (text, None),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        let address = plain(address);
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        return Some((HostPattern::Network(address, prefix), port));
    }
    let (name, is_below) = host.strip_prefix("*.").map_or((host, false), |name| (name, true));
    let name = normalize(name)?;
    Some((if is_below { HostPattern::Below(name) } else { HostPattern::Name(name) }, port))
}

/// A normalised name: lower case, punycode, without a final dot.
fn normalize(name: &str) -> Option<String> {
    let is_plain = !name.is_empty() && !name.contains(['/', '@', '?', '#', '\\', ':', '*', ' ']);
    let url = Url::parse(&format!("http://{name}/")).ok().filter(|_| is_plain)?;
    let name = url.domain()?.trim_end_matches('.');
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(entry: &str, host: &str, address: &str, port: u16) -> bool {
        entry.parse::<PrivateHost>().unwrap().admits(host, address.parse().unwrap(), port)
    }

    #[test]
    fn names_addresses_and_networks_admit_matching_hosts() {
        for (entry, host, address, port, expected) in [
            ("wiki.corp", "wiki.corp", "10.0.0.1", 80, true),
            ("WIKI.corp.", "wiki.corp", "10.0.0.1", 8080, true),
            ("wiki.corp", "a.wiki.corp", "10.0.0.1", 80, false),
            ("wiki.corp:8080", "wiki.corp", "10.0.0.1", 8080, true),
            ("wiki.corp:8080", "wiki.corp", "10.0.0.1", 80, false),
            ("*.corp", "a.wiki.corp", "10.0.0.1", 80, true),
            ("*.corp", "corp", "10.0.0.1", 80, false),
            ("*.corp", "evilcorp", "10.0.0.1", 80, false),
            ("10.0.0.1", "anything", "10.0.0.1", 80, true),
            ("10.0.0.1", "anything", "::ffff:10.0.0.1", 80, true),
            ("10.0.0.1:81", "10.0.0.1", "10.0.0.1", 80, false),
            ("10.1.0.0/16", "x", "10.1.255.1", 80, true),
            ("10.1.0.0/16", "x", "10.2.0.1", 80, false),
            ("[fd00::1]:80", "x", "fd00::1", 80, true),
            ("fd00::1", "x", "fd00::1", 9, true),
            ("fd00::/8", "x", "fd12::1", 9, true),
            ("bücher.example", "xn--bcher-kva.example", "10.0.0.1", 80, true),
        ] {
            assert_eq!(admits(entry, host, address, port), expected, "{entry}: {host} {address} {port}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "a b",
            "http://x",
            "x/y",
            "10.0.0.0/33",
            "x:0",
            "x:99999",
            "x:y",
            "u@x",
            "fd00::/129",
        ] {
            assert!(text.parse::<PrivateHost>().is_err(), "{text:?}");
        }
    }
}
