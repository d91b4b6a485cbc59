//! The configuration file: TOML, checked key by key against the table of settings.
//!
//! It must not know the values of a setting. Entry point: [`read`]. An unknown key is refused with the nearest known
//! one; a line that is not TOML is not repeated, because it may contain a secret.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use recount_agent::hooks::HookSettings;
use recount_agent::mcp::McpSettings;
use recount_agent::model::ModelsSettings;
use recount_agent::toml_error::one_line;
use recount_agent::web::{HostSettings, SearchSettings};
use recount_api::spelling;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};

use super::access::{UNIX_USER_KEYS, UnixUserSection};
use super::agents::{AGENT_KEYS, AgentSection};
use super::sign_in::{SIGN_IN_KEYS, SignInSection};
use super::table::{Row, SettingKind, rows};
use super::user_folder;
use super::webhooks::{WEBHOOK_KEYS, WebhookSection};
use crate::StartError;
use crate::settings::Environment;

/// The parsed file.
#[derive(Debug, Default)]
pub(super) struct File {
    /// The settings of the table, by key, as the text that a variable would have.
    pub(super) values: BTreeMap<&'static str, String>,
    pub(super) sandbox_environment: BTreeMap<String, String>,
    pub(super) models: ModelsSettings,
    pub(super) mcp: McpSettings,
    pub(super) hooks: BTreeMap<String, HookSettings>,
    pub(super) web_hosts: BTreeMap<String, HostSettings>,
    pub(super) web_search: Option<SearchSettings>,
    pub(super) agents: Option<BTreeMap<String, AgentSection>>,
    pub(super) webhooks: BTreeMap<String, WebhookSection>,
    pub(super) unix_users: BTreeMap<String, UnixUserSection>,
    pub(super) sign_in: Option<SignInSection>,
}

/// Keys of structures, which are not in the table.
const STRUCTURES: [&str; 10] = [
    "agents",
    "models",
    "environment",
    "mcp",
    "hooks",
    "hosts",
    "search",
    "sign_in",
    "unix_users",
    "webhooks",
];

/// Keys below `[models]`: `docs/models.md`.
const MODEL_KEYS: [&str; 22] = [
    "providers",
    "prices",
    "rewrite",
    "kind",
    "base_url",
    "api_key",
    "api_key_env",
    "script",
    "headers",
    "thinking_tokens",
    "cache",
    "ask_usage",
    "first_byte_timeout_ms",
    "silence_timeout_ms",
    "life_signs_timeout_ms",
    "tools",
    "images",
    "context_tokens",
    "model",
    "input_micros_usd",
    "output_micros_usd",
    "cached_input_micros_usd",
];

/// Keys below `[mcp]`: `docs/tools.md`.
const MCP_KEYS: [&str; 12] = [
    "servers",
    "command",
    "env",
    "env_from",
    "network",
    "url",
    "headers",
    "headers_env",
    "headers_file",
    "approval",
    "start_timeout_ms",
    "call_timeout_ms",
];

/// Keys below `[web.search]`, besides those of headers: `docs/tools.md`.
const SEARCH_KEYS: [&str; 5] = ["body", "results", "title", "link", "snippet"];

/// Keys below `[hooks]`: `docs/hooks.md`.
const HOOK_KEYS: [&str; 8] =
    ["event", "command", "matcher", "style", "on_failure", "timeout_ms", "env", "env_from"];

/// Reads the named file, or the user's own if it exists. Also returns its path.
pub(super) fn read(
    named: Option<&Path>,
    environment: &Environment<'_>,
) -> Result<(File, PathBuf), StartError> {
    let (path, must_exist) = match named {
        Some(path) => (path.to_owned(), true),
        None => match user_folder("XDG_CONFIG_HOME", ".config", environment) {
            Some(folder) => (folder.join("config.toml"), false),
            None => return Ok((File::default(), PathBuf::new())),
        },
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound && !must_exist => {
            return Ok((File::default(), path));
        }
        Err(why) => return Err(StartError::usage(format!("cannot read {}: {why}", path.display()))),
    };
    let mut file = parse(&text).map_err(|why| StartError::usage(format!("{}: {why}", path.display())))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for row in rows().iter().filter(|row| row.kind == SettingKind::PathBeside) {
        if let Some(value) = file.values.get_mut(row.key) {
            *value = folder.join(&*value).to_string_lossy().into_owned();
        }
    }
    Ok((file, path))
}

fn parse(text: &str) -> Result<File, String> {
    let deserializer = toml::Deserializer::parse(text).map_err(|why| one_line(&why, text))?;
    let mut file = File::default();
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(deserializer, &mut track);
    let section = Section { name: "", rows: &rows(), file: &mut file };
    if let Err(why) = section.deserialize(tracked) {
        let (message, path) = (why.message().to_owned(), track.path().to_string());
        let key = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        return Err(match key.and_then(nearest) {
            Some(nearest) => format!("{path}: {message}; did you mean `{nearest}`"),
            None => format!("{path}: {message}"),
        });
    }
    Ok(file)
}

/// The known key with the nearest spelling, if any is near.
fn nearest(key: &str) -> Option<&'static str> {
    let settings = rows().into_iter().filter(|row| row.kind != SettingKind::Hidden);
    let settings = settings.flat_map(|row| row.key.split('.'));
    spelling::nearest(
        key,
        settings
            .chain(STRUCTURES)
            .chain(MODEL_KEYS)
            .chain(MCP_KEYS)
            .chain(HOOK_KEYS)
            .chain(SEARCH_KEYS)
            .chain(AGENT_KEYS)
            .chain(WEBHOOK_KEYS)
            .chain(SIGN_IN_KEYS)
            .chain(UNIX_USER_KEYS),
    )
}

/// One table of the file; the name of the whole file is empty.
struct Section<'a> {
    name: &'static str,
    rows: &'a [Row],
    file: &'a mut File,
}

impl<'a> Section<'a> {
    /// The settings of this table, by their last names.
    fn settings(&self) -> impl Iterator<Item = (&'static str, &'a Row)> {
        let rows = self.rows.iter().filter(|row| row.kind != SettingKind::Hidden);
        let (rows, name) = (rows, self.name);
        rows.filter_map(move |row| {
            let (section, last) = row.key.rsplit_once('.').unwrap_or(("", row.key));
            (section == name).then_some((last, row))
        })
    }

    /// The tables below this one.
    fn sections(&self) -> impl Iterator<Item = &'static str> {
        let is_whole = self.name.is_empty();
        let names = self.rows.iter().filter_map(|row| Some(row.key.rsplit_once('.')?.0));
        names.filter(move |_| is_whole)
    }

    fn unknown(&self, key: &str) -> String {
        let mut known: Vec<&str> = self.settings().map(|(name, _)| name).chain(self.sections()).collect();
        match self.name {
            "" => known.extend(["agents", "hooks", "mcp", "sign_in", "webhooks"]),
            "access" => known.push("unix_users"),
            "sandbox" => known.push("environment"),
            "web" => known.extend(["hosts", "search"]),
            _ => {}
        }
        known.dedup();
        format!("unknown field `{key}`, expected `{}`", known.join("`, `"))
    }
}

impl<'de> DeserializeSeed<'de> for Section<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Section<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match (self.name, key.as_str()) {
                ("", "agents") => self.file.agents = Some(map.next_value()?),
                ("", "hooks") => self.file.hooks = map.next_value()?,
                ("", "mcp") => self.file.mcp = map.next_value()?,
                ("", "models") => self.file.models = map.next_value()?,
                ("", "sign_in") => self.file.sign_in = Some(map.next_value()?),
                ("", "webhooks") => self.file.webhooks = map.next_value()?,
                ("access", "unix_users") => self.file.unix_users = map.next_value()?,
                ("web", "hosts") => self.file.web_hosts = map.next_value()?,
                ("web", "search") => self.file.web_search = Some(map.next_value()?),
                ("sandbox", "environment") => self.file.sandbox_environment = map.next_value()?,
                _ => {
                    let setting = self.settings().find(|(name, _)| *name == key);
                    let section = self.sections().find(|name| *name == key);
                    match (setting, section) {
                        (Some((_, row)), _) => {
                            self.file.values.insert(row.key, value(row.kind, &mut map)?);
                        }
                        (None, Some(name)) => {
                            map.next_value_seed(Section { name, rows: self.rows, file: self.file })?;
                        }
                        (None, None) => map.next_value_seed(Unknown(self.unknown(&key)))?,
                    }
                }
            }
        }
        if let ("", Some(model)) = (self.name, &self.file.models.default) {
            self.file.values.insert("models.default", model.to_string());
        }
        Ok(())
    }
}

/// The value of an unknown key: refused here, so that the error has the path of the key.
struct Unknown(String);

impl<'de> DeserializeSeed<'de> for Unknown {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, _from: D) -> Result<(), D::Error> {
        Err(D::Error::custom(self.0))
    }
}

/// A value as the text that a variable would have.
fn value<'de, A: MapAccess<'de>>(kind: SettingKind, map: &mut A) -> Result<String, A::Error> {
    Ok(match kind {
        SettingKind::Text | SettingKind::PathBeside | SettingKind::Hidden => map.next_value()?,
        SettingKind::Number => map.next_value::<u64>()?.to_string(),
        SettingKind::Bool => map.next_value::<bool>()?.to_string(),
        SettingKind::List => map.next_value::<Vec<String>>()?.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_refused_with_the_nearest() {
        let why = parse("[store]\ndurabilty = \"strict\"\n").unwrap_err();
        assert!(why.contains("store.durabilty") && why.contains("did you mean `durability`"), "{why}");
        let why = parse("bnd = 1\n").unwrap_err();
        assert!(why.contains("did you mean `bind`"), "{why}");
        assert!(parse("bind = 1\n").unwrap_err().contains("bind"));
        let why = parse("[models.providers.x]\nkind = \"openai\"\nbase_ur = \"x\"\n").unwrap_err();
        assert!(why.contains("models.providers.x") && why.contains("did you mean `base_url`"), "{why}");
        let why = parse("[store]\nhot_events_max = \"1\"\n").unwrap_err();
        assert!(why.contains("unknown field"), "{why}");
        assert!(parse("store = 1\n").unwrap_err().contains("store"));
    }

    #[test]
    fn every_key_of_the_file_is_read_and_known_to_the_speller() {
        let mut text = String::new();
        let mut expected = BTreeMap::new();
        let mut section = "";
        for (number, row) in (0..).zip(rows()).filter(|(_, row)| row.kind != SettingKind::Hidden) {
            let (table, last) = row.key.rsplit_once('.').unwrap_or(("", row.key));
            if table != section {
                text += &format!("[{table}]\n");
                section = table;
            }
            let (toml, value) = match row.kind {
                _ if row.key == "models.default" => ("'a/b'".to_owned(), "a/b".to_owned()),
                SettingKind::Number => (number.to_string(), number.to_string()),
                SettingKind::Bool => ("true".to_owned(), "true".to_owned()),
                SettingKind::List => (format!("['a{number}', 'b']"), format!("a{number}, b")),
                _ => (format!("'t{number}'"), format!("t{number}")),
            };
            text += &format!("{last} = {toml}\n");
            expected.insert(row.key, value);
            for word in row.key.split('.') {
                assert_eq!(nearest(word), Some(word));
            }
        }
        text += "[sandbox.environment]\nQ = 'r'\n";
        let file = parse(&text).unwrap();
        assert_eq!(file.values, expected);
        assert_eq!(file.sandbox_environment["Q"], "r");
        for word in STRUCTURES {
            assert_eq!(nearest(word), Some(word));
        }
    }
}
