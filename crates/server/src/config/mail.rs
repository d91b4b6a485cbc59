//! Configuration of a mail server and of addresses, for webhooks of the format `email`.
//!
//! Start at [`MailServer::parse`]. No error repeats the URL: it may have a password. It must not know how a mail is sent.

use std::fmt;
use std::net::IpAddr;

use recount_agent::model::Secret;

use crate::limits::MAIL_ADDRESS_BYTES_MAX;

/// How the connection to a mail server is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MailEncryption {
    /// From the first byte on: `smtps`.
    Tls,
    /// From the command STARTTLS on, which the server must offer: `smtp`.
    StartTls,
    /// Never; only on this machine.
    None,
}

/// A mail server and the account there.
#[derive(Clone)]
pub(crate) struct MailServer {
    /// A name or an address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) encryption: MailEncryption,
    pub(crate) account: Option<MailAccount>,
}

#[derive(Clone)]
pub(crate) struct MailAccount {
    pub(crate) user: String,
    pub(crate) password: Secret,
    /// The password as it is in the URL.
    encoded: Secret,
}

impl fmt::Debug for MailServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MailServer({}:{})", self.host, self.port)
    }
}

/// What a webhook of the format `email` needs besides its events.
#[derive(Debug, Clone)]
pub(crate) struct MailSettings {
    pub(crate) server: MailServer,
    pub(crate) from: String,
    pub(crate) to: String,
}

impl MailServer {
    pub(crate) fn parse(url: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "it is not the URL of a mail server; use smtps://USER:PASSWORD@HOST:465 or \
                             smtp://USER:PASSWORD@HOST:587";
        let url: reqwest::Url = url.parse().map_err(|_| WRONG)?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_plain = matches!(url.path(), "" | "/") && url.fragment().is_none();
        let is_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:_".contains(&byte));
        if host.is_empty() || !is_plain || !is_name {
            return Err(WRONG);
        }
        let (encryption, port) = match (url.scheme(), url.query()) {
            ("smtps", None) => (MailEncryption::Tls, 465),
            ("smtp", None) => (MailEncryption::StartTls, 587),
            ("smtp", Some("tls=none")) if is_loopback(&host) => (MailEncryption::None, 587),
            ("smtp", Some("tls=none")) => {
                return Err("tls=none is only for mail servers on this machine; remove it");
            }
            _ => return Err(WRONG),
        };
        let account = match (url.username(), url.password()) {
            ("", None) => None,
            ("", Some(_)) | (_, None) => {
                return Err("set both the user name and the password, or none of them");
            }
            (user, Some(password)) => Some(MailAccount {
                user: decoded(user),
                password: Secret::new(decoded(password)),
                encoded: Secret::new(password),
            }),
        };
        let is_sendable = |text: &str| !text.contains(char::is_control);
        if account
            .iter()
            .any(|account| !is_sendable(&account.user) || !is_sendable(account.password.reveal()))
        {
            return Err("the user name or the password has control characters");
        }
        Ok(MailServer { host, port: url.port().unwrap_or(port), encryption, account })
    }

    /// The password as given and decoded, so that other output can be masked.
    pub(crate) fn passwords(&self) -> Vec<Secret> {
        let both =
            self.account.iter().flat_map(|account| [account.encoded.clone(), account.password.clone()]);
        let mut both: Vec<Secret> = both.collect();
        both.dedup_by(|one, other| one.reveal() == other.reveal());
        both
    }
}

impl MailSettings {
    /// The error begins with the key.
    pub(crate) fn new(server: MailServer, from: Option<String>, to: Option<String>) -> Result<Self, String> {
        let address = |key: &str, given: Option<String>| {
            let given = given.ok_or_else(|| format!(".{key}: set a mail address such as ada@example.com"))?;
            match is_address(&given) {
                true => Ok(given),
                false => {
                    Err(format!(".{key}: {given:?} is not a mail address; use one such as ada@example.com"))
                }
            }
        };
        Ok(MailSettings { server, from: address("from", from)?, to: address("to", to)? })
    }
}

/// Whether this is one address that needs no quoting: nothing in it can end a header or a command.
fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let is_local = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    let is_domain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    text.len() <= MAIL_ADDRESS_BYTES_MAX
        && [(local, is_local as fn(char) -> bool), (domain, is_domain)].iter().all(|(part, allows)| {
            !part.is_empty() && part.chars().all(allows) && part.split('.').all(|label| !label.is_empty())
        })
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Text of a URL without percent encoding; `+` stays.
fn decoded(text: &str) -> String {
    let form = format!("x={}", text.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(form.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_mail_servers_name_host_port_encryption_and_account() {
        use MailEncryption::{None as Plain, StartTls, Tls};
        for (url, host, port, encryption, account) in [
            ("smtps://mail.example", "mail.example", 465, Tls, None),
            ("smtp://mail.example/", "mail.example", 587, StartTls, None),
            (
                "smtp://a%40b:p%2Fw+1&2@mail.example:2525",
                "mail.example",
                2525,
                StartTls,
                Some(("a@b", "p/w+1&2")),
            ),
            ("smtp://localhost:25?tls=none", "localhost", 25, Plain, None),
            ("smtp://[::1]?tls=none", "::1", 587, Plain, None),
        ] {
            let server = MailServer::parse(url).unwrap();
            let found = server.account.as_ref().map(|account| (&*account.user, account.password.reveal()));
            assert_eq!((&*server.host, server.port, server.encryption), (host, port, encryption), "{url}");
            assert_eq!(found, account, "{url}");
        }
        for url in [
            "",
            "mail.example",
            "https://mail.example",
            "smtp://",
            "smtp://mail.example/inbox",
            "smtp://mail.example?tls=none",
            "smtp://mail.example?tls=opportunistic",
            "smtps://localhost?tls=none",
            "smtp://ada@mail.example",
            "smtp://a:b%0d%0aRSET@mail.example",
        ] {
            assert!(MailServer::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn an_address_cannot_end_a_header_or_a_command() {
        for good in ["ada@example.com", "a.b+c@x-y.example", "root@localhost"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "ada",
            "@x",
            "a@",
            "a@b@c",
            "a b@c",
            "a@b\r\nBcc: c@d",
            "a@b>",
            "<a@b>",
            "a@b,c@d",
            "a..b@c",
            "\u{e4}@b",
            "a@\u{fc}.example",
        ] {
            assert!(!is_address(bad), "{bad:?}");
        }
    }
}
