//! Configuration of webhooks: the keys of `[webhooks.NAME]`.
//!
//! Start at [`Webhooks`]. URLs and secrets are checked here and never shown: the URL of a chat program is a secret, too. It
//! must not know how events are delivered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_agent::model::Secret;
use recount_engine::TypePattern;
use serde::Deserialize;

use super::mail::{MailServer, MailSettings};
use crate::StartError;
use crate::limits::{WEBHOOK_NAME_CHARS_MAX, WEBHOOK_SECRET_BYTES, WEBHOOKS_MAX};
use crate::settings::{Lookup, join_names};
use crate::tenant_folder::TENANT_DEFAULT;

/// Keys below `[webhooks.NAME]`, for messages about an unknown one.
pub(super) const WEBHOOK_KEYS: [&str; 9] =
    ["url", "url_env", "secret_env", "events", "format", "tenant", "approver", "from", "to"];

/// The types that are sent if none are named.
const EVENTS_DEFAULT: [&str; 6] = [
    "approval.requested",
    "clarification.requested",
    "handoff.requested",
    "run.finished",
    "run.failed",
    "run.cancelled",
];

/// The form of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WebhookFormat {
    #[default]
    Recount,
    CloudEvents,
    Slack,
    Discord,
    Ntfy,
    Telegram,
    Email,
}

impl WebhookFormat {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            WebhookFormat::Recount => "recount",
            WebhookFormat::CloudEvents => "cloudevents",
            WebhookFormat::Slack => "slack",
            WebhookFormat::Discord => "discord",
            WebhookFormat::Ntfy => "ntfy",
            WebhookFormat::Telegram => "telegram",
            WebhookFormat::Email => "email",
        }
    }

    /// Whether the receiver is a program that must check signatures, not a chat program.
    fn needs_secret(self) -> bool {
        matches!(self, WebhookFormat::Recount | WebhookFormat::CloudEvents)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookSection {
    url: Option<Secret>,
    url_env: Option<String>,
    secret_env: Option<String>,
    events: Option<Vec<String>>,
    #[serde(default)]
    format: WebhookFormat,
    tenant: Option<String>,
    approver: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

/// A checked webhook. The debug form holds no secret.
#[derive(Debug, Clone)]
pub(crate) struct Webhook {
    pub(crate) name: String,
    pub(crate) url: Secret,
    /// The decoded secret, and its text for masking.
    pub(crate) secret: Option<WebhookSecret>,
    pub(crate) events: Vec<TypePattern>,
    pub(crate) format: WebhookFormat,
    pub(crate) tenant: String,
    /// The person that links in its messages are for.
    pub(crate) approver: Option<String>,
    /// The mail server and the addresses, of the format `email`.
    pub(crate) mail: Option<MailSettings>,
}

#[derive(Clone)]
pub(crate) struct WebhookSecret {
    text: Secret,
    pub(crate) key: Vec<u8>,
}

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl WebhookSecret {
    /// Reads `whsec_` and base64.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let key = STANDARD.decode(text.strip_prefix("whsec_")?).ok()?;
        WEBHOOK_SECRET_BYTES.contains(&key.len()).then(|| WebhookSecret { text: Secret::new(text), key })
    }
}

/// The configured webhooks. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Webhooks(pub(crate) Arc<Vec<Arc<Webhook>>>);

impl Webhooks {
    /// The tenants that have webhooks.
    pub(crate) fn tenants(&self) -> BTreeSet<String> {
        self.0.iter().map(|webhook| webhook.tenant.clone()).collect()
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Webhook>> {
        self.0.iter().find(|webhook| webhook.name == name)
    }

    /// What is masked in logs and events: secrets, passwords, and the paths of URLs.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let mut found = Vec::new();
        for webhook in &*self.0 {
            found.extend(webhook.secret.iter().map(|secret| secret.text.clone()));
            found.extend(webhook.mail.iter().flat_map(|mail| mail.server.passwords()));
            if !webhook.format.needs_secret() {
                let path = webhook.url.reveal().splitn(4, '/').nth(3).unwrap_or_default();
                found.extend((path.len() >= URL_SECRET_BYTES_MIN).then(|| Secret::new(path)));
            }
        }
        found
    }
}

/// Bytes from which the path of a URL of a chat program counts as a secret.
const URL_SECRET_BYTES_MIN: usize = 20;

/// Checks all webhooks, and notes each without its secrets.
pub(super) fn settle(
    lookup: &mut Lookup<'_>,
    sections: BTreeMap<String, WebhookSection>,
    has_public_url: bool,
) -> Result<Webhooks, StartError> {
    if sections.len() > WEBHOOKS_MAX {
        let count = sections.len();
        return Err(StartError::usage(format!(
            "webhooks: {count} webhooks are configured; the limit is {WEBHOOKS_MAX}"
        )));
    }
    let (mut found, mut shown) = (Vec::new(), Vec::new());
    for (name, section) in sections {
        let webhook = one(lookup, &name, section, has_public_url)
            .map_err(|why| StartError::usage(format!("webhooks.{name}{why}")))?;
        let host = webhook.url.reveal().parse::<http::Uri>().ok();
        let host = host.and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
        shown.push(format!("{name} ({} at {host})", webhook.format.as_str()));
        found.push(Arc::new(webhook));
    }
    lookup.note("webhooks", "webhooks", join_names(&shown), !shown.is_empty());
    Ok(Webhooks(Arc::new(found)))
}

/// The error begins with the key.
fn one(
    lookup: &Lookup<'_>,
    name: &str,
    section: WebhookSection,
    has_public_url: bool,
) -> Result<Webhook, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > WEBHOOK_NAME_CHARS_MAX || !name.chars().all(is_plain) {
        return Err(format!(
            ": the name is not valid; use 1 to {WEBHOOK_NAME_CHARS_MAX} letters, digits, `-` and `_`"
        ));
    }
    let variable = |key: &str, name: &str| {
        lookup.variable(name).ok_or_else(|| format!(".{key}: the variable {name} is not set"))
    };
    let (key, url) = match (section.url, section.url_env) {
        (Some(url), None) => ("url", url.reveal().to_owned()),
        (None, Some(name)) => ("url_env", variable("url_env", &name)?),
        (Some(_), Some(_)) => return Err(": set url or url_env, not both".to_owned()),
        (None, None) => return Err(": set url or url_env".to_owned()),
    };
    let mail = match section.format {
        WebhookFormat::Email => {
            let server = MailServer::parse(&url).map_err(|why| format!(".{key}: {why}"))?;
            Some(MailSettings::new(server, section.from, section.to)?)
        }
        _ if section.from.is_some() || section.to.is_some() => {
            return Err(": from and to are of the format email".to_owned());
        }
        _ => {
            check_url(&url).map_err(|why| format!(".{key}: {why}"))?;
            None
        }
    };
    let secret = match section.secret_env {
        Some(name) => {
            let text = variable("secret_env", &name)?;
            let (least, most) = (WEBHOOK_SECRET_BYTES.start(), WEBHOOK_SECRET_BYTES.end());
            let wrong = format!(
                ".secret_env: {name} is not a secret of Standard Webhooks; use whsec_ and the base64 of {least} to \
                 {most} random bytes"
            );
            Some(WebhookSecret::parse(&text).ok_or(wrong)?)
        }
        None if section.format.needs_secret() => {
            let format = section.format.as_str();
            return Err(format!(
                ": the format {format} is signed; name the variable of its secret in secret_env"
            ));
        }
        None => None,
    };
    let words = section.events.unwrap_or_else(|| EVENTS_DEFAULT.map(str::to_owned).to_vec());
    if words.is_empty() {
        return Err(".events: the list is empty; name event types such as run.finished".to_owned());
    }
    let events = words.iter().map(|word| recount_face_aep::type_pattern(word));
    let events =
        events.collect::<Result<_, _>>().map_err(|refusal| format!(".events: {}", refusal.detail))?;
    if let Some(approver) = &section.approver {
        let count = approver.chars().count();
        let is_visible =
            approver.trim() == approver && !approver.chars().any(|c| c.is_control() || c == '\u{202e}');
        if count == 0 || count > WEBHOOK_NAME_CHARS_MAX || !is_visible {
            return Err(format!(
                ".approver: {approver:?} is not a name; use 1 to {WEBHOOK_NAME_CHARS_MAX} visible characters"
            ));
        }
        if !has_public_url {
            return Err(".approver: links need the URL of this server; set public_url".to_owned());
        }
    }
    Ok(Webhook {
        name: name.to_owned(),
        url: Secret::new(url),
        secret,
        events,
        format: section.format,
        tenant: section.tenant.unwrap_or_else(|| TENANT_DEFAULT.to_owned()),
        approver: section.approver,
        mail,
    })
}

/// The error does not repeat the URL: it may be a secret.
fn check_url(url: &str) -> Result<(), &'static str> {
    const WRONG: &str = "it is not a valid URL; use one such as https://hooks.example/recount";
    let uri: http::Uri = url.parse().map_err(|_| WRONG)?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if !is_web || authority.is_empty() {
        return Err(WRONG);
    }
    if authority.contains('@') {
        return Err("it has a user name or password, which are not sent; omit them");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Options};

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn settle(text: &str) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, text).unwrap();
        let options = Options { config: Some(file), data: Some("/d".into()), ..Options::default() };
        let environment = |name: &str| match name {
            "SECRET" => Some(SECRET.to_owned()),
            "SHORT" => Some("whsec_c2hvcnQ=".to_owned()),
            "CHAT" => Some("https://hooks.slack.com/services/T0/B0/hushhushhush".to_owned()),
            _ => None,
        };
        Config::settle(options, environment).map_err(|why| why.to_string())
    }

    #[test]
    fn webhooks_are_read_and_their_secrets_never_shown() {
        let config = settle(
            "public_url='https://r.example/'\n[webhooks.ci]\nurl='https://ci.example/in'\nsecret_env='SECRET'\n\
             events=['run.*']\ntenant='acme'\n[webhooks.chat]\nurl_env='CHAT'\nformat='slack'\napprover='Ada L.'\n",
        )
        .unwrap();
        assert_eq!(config.public_url.as_deref(), Some("https://r.example"));
        let shown = config.settings.iter().find(|setting| setting.key == "webhooks").unwrap();
        assert_eq!(shown.value, "chat (slack at hooks.slack.com), ci (recount at ci.example)");
        let debug = format!("{config:?}");
        assert!(!debug.contains("hushhush") && !debug.contains("MfKQ9r8G"), "{debug}");
        let secrets = config.webhooks.secrets();
        let secrets: Vec<&str> = secrets.iter().map(|secret| secret.reveal()).collect();
        assert_eq!(secrets, ["services/T0/B0/hushhushhush", SECRET]);
        let (chat, ci) = (&config.webhooks.0[0], &config.webhooks.0[1]);
        assert_eq!((chat.tenant.as_str(), chat.approver.as_deref()), ("default", Some("Ada L.")));
        assert_eq!((ci.tenant.as_str(), ci.secret.as_ref().unwrap().key.len()), ("acme", 24));
        assert!(chat.events.iter().any(|pattern| pattern.takes("approval.requested")));
        assert!(!ci.events.iter().any(|pattern| pattern.takes("approval.requested")));
    }

    #[test]
    fn a_mail_server_is_shown_by_its_host_and_its_password_is_masked() {
        let config = settle(
            "[webhooks.mail]\nurl='smtps://ada:p%40ss%2Bhush@mail.example'\nformat='email'\n\
             from='recount@b.example'\nto='ada@b.example'\n",
        )
        .unwrap();
        let shown = config.settings.iter().find(|setting| setting.key == "webhooks").unwrap();
        assert_eq!(shown.value, "mail (email at mail.example)");
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
        let secrets = config.webhooks.secrets();
        let secrets: Vec<&str> = secrets.iter().map(|secret| secret.reveal()).collect();
        assert_eq!(secrets, ["p%40ss%2Bhush", "p@ss+hush"]);
    }

    #[test]
    fn an_invalid_webhook_is_refused_with_its_key_and_without_its_url() {
        let base = "[webhooks.a]\nurl='https://hush.example/x'\n";
        for (text, words) in [
            (base.to_owned(), "webhooks.a: the format recount is signed"),
            (format!("{base}secret_env='NONE'"), "webhooks.a.secret_env: the variable NONE is not set"),
            (format!("{base}secret_env='SHORT'"), "webhooks.a.secret_env: SHORT is not a secret"),
            (format!("{base}format='slack'\nurl_env='CHAT'"), "set url or url_env, not both"),
            (format!("{base}format='slack'\nevents=['Run']"), "webhooks.a.events: "),
            (format!("{base}format='slack'\nevents=[]"), "webhooks.a.events: the list is empty"),
            (format!("{base}format='slack'\napprover='x'"), "set public_url"),
            (format!("{base}format='irc'"), "irc"),
            (
                format!("{base}format='slack'\nto='a@b.example'"),
                "webhooks.a: from and to are of the format email",
            ),
            (
                format!("{base}format='email'\nfrom='a@b.example'\nto='c@d.example'"),
                "webhooks.a.url: it is not",
            ),
            (
                "[webhooks.a]\nurl='smtp://u:hush@mail.example?tls=none'\nformat='email'".to_owned(),
                "webhooks.a.url: tls=none is only",
            ),
            (
                "[webhooks.a]\nurl='smtp://mail.example'\nformat='email'\nfrom='a@b.example'".to_owned(),
                "webhooks.a.to: set",
            ),
            (
                "[webhooks.a]\nurl='smtp://mail.example'\nformat='email'\nfrom='a b@c.example'\nto='x@y'"
                    .to_owned(),
                "webhooks.a.from: \"a b@c.example\" is not",
            ),
            (format!("{base}evnts=[]"), "did you mean `events`"),
            ("[webhooks.a]\nurl='ftp://hush.example'\nformat='ntfy'".to_owned(), "webhooks.a.url: it is not"),
            ("[webhooks.a]\nformat='ntfy'".to_owned(), "set url or url_env"),
            ("[webhooks.'a b']\nurl='https://x.example'\nformat='ntfy'".to_owned(), "the name is not valid"),
            ("public_url='recount.example'".to_owned(), "public_url"),
            ("public_url='https://a@b.example'".to_owned(), "public_url"),
        ] {
            let why = settle(&text).unwrap_err();
            assert!(why.contains(words) && !why.contains("hush"), "{text}: {why}");
        }
    }
}
