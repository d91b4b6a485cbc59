//! Configuration of sign-in by OpenID Connect: the keys of `[sign_in]`.
//!
//! Start at [`SignInSettings`]. It must not know the protocol.

use std::sync::Arc;
use std::time::Duration;

use recount_agent::model::Secret;
use recount_api::scope::Scope;
use serde::Deserialize;

use crate::limits::{
    SIGN_IN_GRANTS_MAX, SIGN_IN_SESSION_DEFAULT, SIGN_IN_SESSION_MAX, SIGN_IN_SESSION_MIN,
    SIGN_IN_TEXT_CHARS_MAX,
};
use crate::settings::Lookup;
use crate::tenant_folder::{TENANT_DEFAULT, is_tenant_name};
use crate::{StartError, amounts, audit};

/// Keys below `[sign_in]`, for messages about an unknown one.
pub(super) const SIGN_IN_KEYS: [&str; 10] = [
    "issuer",
    "client_id",
    "client_secret_env",
    "scopes",
    "groups_claim",
    "session",
    "grants",
    "group",
    "email",
    "tenant",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignInSection {
    issuer: String,
    client_id: String,
    client_secret_env: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
    groups_claim: Option<String>,
    session: Option<String>,
    #[serde(default)]
    grants: Vec<GrantSection>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantSection {
    group: Option<String>,
    email: Option<String>,
    tenant: Option<String>,
    scopes: Vec<Scope>,
}

/// The checked settings. The debug form holds no secret.
#[derive(Debug, Clone)]
pub(crate) struct SignInSettings {
    /// Exactly as ID tokens name it.
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<Secret>,
    /// Scopes of the provider that are requested besides `openid profile email`.
    pub(crate) scopes: Vec<String>,
    /// The claim with the groups of a person.
    pub(crate) groups_claim: String,
    /// How long a person stays signed in.
    pub(crate) session: Duration,
    pub(crate) grants: Vec<Grant>,
    /// The URL of this server for browsers.
    pub(crate) public_url: String,
}

/// What the members of a group may do in a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) to: GrantedTo,
    pub(crate) tenant: String,
    pub(crate) scopes: Vec<Scope>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GrantedTo {
    Group(String),
    /// A verified address in lower case, or `*@` and a domain.
    Email(String),
}

/// Where this server is, as far as sign-in depends on it.
pub(super) struct SignInPlace<'a> {
    pub(super) public_url: Option<&'a str>,
    /// Whether only programs of this machine can connect.
    pub(super) is_local: bool,
    pub(super) require_token: bool,
}

/// Checks the section and notes it without its secret.
pub(super) fn settle(
    lookup: &mut Lookup<'_>,
    section: Option<SignInSection>,
    place: &SignInPlace<'_>,
) -> Result<Option<Arc<SignInSettings>>, StartError> {
    let is_configured = section.is_some();
    let settings = section.map(|section| one(lookup, section, place)).transpose();
    let settings = settings.map_err(|why| StartError::usage(format!("sign_in{why}")))?;
    let shown = settings.as_ref().map(|settings| settings.issuer.clone());
    lookup.note("sign_in", "sign_in", shown.unwrap_or_else(|| "none".to_owned()), is_configured);
    Ok(settings.map(Arc::new))
}

/// The error begins with the key.
fn one(
    lookup: &Lookup<'_>,
    section: SignInSection,
    place: &SignInPlace<'_>,
) -> Result<SignInSettings, String> {
    let SignInSection { issuer, client_id, client_secret_env, scopes, groups_claim, session, grants } =
        section;
    if !is_secure_url(&issuer) || issuer.contains(['?', '#']) {
        let why =
            "use the URL of the provider as its ID tokens name it, with https, or with http on this machine";
        return Err(format!(".issuer: invalid value {issuer:?}; {why}"));
    }
    let is_plain = |text: &str| {
        let count = text.chars().count();
        (1..=SIGN_IN_TEXT_CHARS_MAX).contains(&count)
            && text.trim() == text
            && !text.chars().any(char::is_control)
    };
    if !is_plain(&client_id) {
        return Err(format!(".client_id: invalid value {client_id:?}"));
    }
    if let Some(scope) = scopes.iter().find(|scope| !is_plain(scope) || scope.contains(char::is_whitespace)) {
        return Err(format!(".scopes: invalid value {scope:?}; list scopes of the provider, such as groups"));
    }
    let client_secret = match client_secret_env {
        None => None,
        Some(name) => match lookup.variable(&name) {
            Some(secret) => Some(Secret::new(secret)),
            None => return Err(format!(".client_secret_env: the variable {name} is not set")),
        },
    };
    let session = match &session {
        None => SIGN_IN_SESSION_DEFAULT,
        Some(text) => amounts::duration(text)
            .filter(|session| (SIGN_IN_SESSION_MIN..=SIGN_IN_SESSION_MAX).contains(session))
            .ok_or_else(|| {
                format!(".session: invalid value {text:?}; use a time from 5m to 30d, such as 12h")
            })?,
    };
    let Some(public_url) = place.public_url else {
        return Err(": browsers return to this server at public_url; set public_url".to_owned());
    };
    if !is_secure_url(public_url) {
        return Err(format!(": public_url is {public_url:?}; use https, or http on this machine"));
    }
    if place.is_local && !place.require_token {
        let why = "requests from this machine need no token, so no one would have to sign in";
        return Err(format!(": {why}; set access.require_token = true"));
    }
    if grants.is_empty() {
        return Err(
            ".grants: no one could sign in; add [[sign_in.grants]] with a group or an email, and scopes"
                .to_owned(),
        );
    }
    if grants.len() > SIGN_IN_GRANTS_MAX {
        return Err(format!(
            ".grants: {} grants are configured; the limit is {SIGN_IN_GRANTS_MAX}",
            grants.len()
        ));
    }
    let grants = (1..).zip(grants).map(|(number, section)| {
        grant(section, is_plain).map_err(|why| format!(".grants: number {number}: {why}"))
    });
    Ok(SignInSettings {
        grants: grants.collect::<Result<_, _>>()?,
        issuer,
        client_id,
        client_secret,
        scopes,
        groups_claim: groups_claim.unwrap_or_else(|| "groups".to_owned()),
        session,
        public_url: public_url.to_owned(),
    })
}

fn grant(section: GrantSection, is_plain: impl Fn(&str) -> bool) -> Result<Grant, String> {
    let to = match (section.group, section.email) {
        (Some(group), None) if is_plain(&group) => GrantedTo::Group(group),
        (None, Some(email)) if is_plain(&email) => {
            let mailbox = email.split_once('@').filter(|(name, domain)| {
                let is_name = *name == "*" || !name.contains('*');
                !name.is_empty() && is_name && !domain.is_empty() && !domain.contains(['*', '@'])
            });
            if mailbox.is_none() {
                return Err(format!(
                    "invalid email {email:?}; use ada@example.org, or *@example.org for a domain"
                ));
            }
            GrantedTo::Email(email.to_lowercase())
        }
        (Some(group), None) => return Err(format!("invalid group {group:?}")),
        (None, Some(email)) => return Err(format!("invalid email {email:?}")),
        _ => return Err("set group or email, and not both".to_owned()),
    };
    let tenant = section.tenant.unwrap_or_else(|| TENANT_DEFAULT.to_owned());
    if !is_tenant_name(&tenant) || tenant == audit::TENANT {
        return Err(format!("invalid tenant {tenant:?}; use characters of a-z, 0-9 and -"));
    }
    if section.scopes.is_empty() {
        return Err("scopes is empty; list scopes such as read and approve".to_owned());
    }
    Ok(Grant { to, tenant, scopes: section.scopes })
}

/// Whether a URL is encrypted, or of this machine.
pub(crate) fn is_secure_url(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else { return false };
    let Some(host) = uri.host().filter(|_| !url.contains('@')) else { return false };
    match uri.scheme_str() {
        Some("https") => true,
        Some("http") => is_loopback(host),
        _ => false,
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

impl SignInSettings {
    /// What is masked in logs and events.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        self.client_secret.iter().cloned().collect()
    }

    /// Whether the provider is on this machine, so that it needs no encryption.
    pub(crate) fn is_local(&self) -> bool {
        self.issuer.starts_with("http://")
    }
}

#[cfg(test)]
mod tests {
    use crate::Options;
    use crate::config::Config;

    fn settle(text: &str) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, text).unwrap();
        let options = Options { config: Some(file), data: Some("/d".into()), ..Options::default() };
        let variable = |name: &str| match name {
            "HOME" => Some("/h".to_owned()),
            "SECRET" => Some("hush-hush".to_owned()),
            _ => None,
        };
        Config::settle(options, variable).map_err(|why| why.to_string())
    }

    #[test]
    fn a_server_of_a_verb_ignores_the_section() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, "[sign_in]\nissuer = 'no URL'\nclient_id = ''\n").unwrap();
        let settle = |without_sign_in| {
            let (config, data) = (Some(file.clone()), Some("/d".into()));
            let options = Options { config, data, without_sign_in, ..Options::default() };
            Config::settle(options, |name| (name == "HOME").then(|| "/h".to_owned()))
        };
        assert!(settle(false).is_err());
        assert!(settle(true).unwrap().sign_in.is_none());
    }

    const BASE: &str = "public_url = 'https://r.example'\n[access]\nrequire_token = true\n\
                        [sign_in]\nissuer = 'https://id.example'\nclient_id = 'recount'\n";
    const GRANT: &str = "[[sign_in.grants]]\ngroup = 'staff'\nscopes = ['read', 'approve']\n";

    #[test]
    fn a_complete_section_is_read() {
        let config = settle(&format!("{BASE}client_secret_env = 'SECRET'\nsession = '1h'\n{GRANT}")).unwrap();
        let settings = config.sign_in.unwrap();
        assert_eq!((settings.session.as_secs(), settings.grants.len()), (3_600, 1));
        assert_eq!((&*settings.groups_claim, &*settings.grants[0].tenant), ("groups", "default"));
        assert!(!format!("{settings:?}").contains("hush"));
        let setting = config.settings.iter().find(|setting| setting.key == "sign_in").unwrap();
        assert_eq!(setting.value, "https://id.example");
    }

    #[test]
    fn a_bad_section_is_refused_with_its_key() {
        for (text, words) in [
            (BASE.to_owned(), "sign_in.grants: no one could sign in"),
            (BASE.replace("https://id", "http://id") + GRANT, "sign_in.issuer: "),
            (BASE.replace("https://id.example", "https://id.example/?a=b") + GRANT, "sign_in.issuer: "),
            (BASE.replace("require_token = true", "") + GRANT, "set access.require_token = true"),
            (BASE.replace("https://r", "http://r") + GRANT, "sign_in: public_url"),
            (BASE.replace("public_url = 'https://r.example'", "") + GRANT, "set public_url"),
            (format!("{BASE}client_secret_env = 'NONE'\n{GRANT}"), "the variable NONE is not set"),
            (format!("{BASE}session = '1m'\n{GRANT}"), "sign_in.session: "),
            (format!("{BASE}scopes = ['a b']\n{GRANT}"), "sign_in.scopes: "),
            (format!("{BASE}isuer = 'x'\n{GRANT}"), "did you mean `issuer`"),
            (format!("{BASE}{}", GRANT.replace("['read', 'approve']", "[]")), "number 1: scopes is empty"),
            (format!("{BASE}{}", GRANT.replace("approve", "aprove")), "aprove"),
            (format!("{BASE}{GRANT}email = 'a@b'"), "set group or email"),
            (format!("{BASE}{}", GRANT.replace("group = 'staff'", "email = '*'")), "invalid email"),
            (format!("{BASE}{GRANT}tenant = 'recount-audit'"), "invalid tenant"),
        ] {
            let why = settle(&text).unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}
