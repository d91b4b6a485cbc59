//! Configuration: flag over environment over file over default. Unknown keys are refused.

mod aap;
mod access;
mod agents;
mod runs;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recount_agent::model::ModelsSettings;
use recount_api::spelling;
use recount_engine::Policy;
use recount_log_sqlite::Durability;
use serde::Deserialize;

pub use self::aap::Aap;
use self::aap::AapSection;
pub use self::access::Access;
use self::access::origins;
pub use self::agents::Agents;
use self::agents::{AGENT_KEYS, AgentSection};
pub use self::runs::Runs;
use self::runs::{PolicySection, RunsSection, Said, SandboxSection, Sections, Usual, WorkspacesSection};
use crate::amounts::{bytes, duration};
use crate::limits::{SWEEP_EVERY_DEFAULT, SWEEP_EVERY_MIN};
use crate::redaction::Redaction;
use crate::settings::{Lookup, Setting};
use crate::{Home, StartError};

/// What was said on the command line, where the environment has been looked at already.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub bind: Option<String>,
    pub data: Option<PathBuf>,
    pub config: Option<PathBuf>,
    pub durability: Option<String>,
    /// Positions after which what was acknowledged may be missing. On the command line alone: it is about one loss.
    pub accept_loss_after: Vec<u64>,
    pub log: Option<String>,
    pub log_format: Option<String>,
    pub max_age: Option<String>,
    pub max_events: Option<String>,
    pub max_bytes: Option<String>,
    pub sweep_every: Option<String>,
    pub require_token: bool,
    pub allowed_origins: Vec<String>,
    pub sandbox: Option<String>,
    pub policy: Option<PathBuf>,
    /// Folders that runs may work in.
    pub workspaces: Vec<String>,
    /// Keeps events in memory, to be forgotten. Not for operators: shows what the disk costs.
    #[doc(hidden)]
    pub in_memory: bool,
}

/// Everything that can be configured, settled.
#[derive(Debug, Clone)]
pub struct Config {
    pub bind: SocketAddr,
    pub data: PathBuf,
    /// Whether nothing is kept. Not for operators: shows what the disk costs.
    pub in_memory: bool,
    pub durability: Durability,
    /// Positions after which what was acknowledged may be missing.
    pub accept_loss_after: Vec<u64>,
    /// How many events may be unsealed. Not for operators: for tests that want much sealing.
    pub hot_events_max: Option<u64>,
    /// What is pruned by itself, and how often it is looked for.
    pub retention: Policy,
    pub sweep_every: Duration,
    /// Who may come in.
    pub access: Access,
    /// What is masked before it is stored.
    pub redaction: Redaction,
    /// How our own runs are done.
    pub runs: Runs,
    /// Who there is to work with.
    pub agents: Agents,
    /// The face for applications.
    pub aap: Aap,
    pub log: tracing::level_filters::LevelFilter,
    pub log_format: LogFormat,
    /// The same once more, as it was said and where.
    pub settings: Vec<Setting>,
}

/// How the server's own log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

pub(crate) const BIND_DEFAULT: &str = "127.0.0.1:8765";

/// The file, as it stands.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    bind: Option<String>,
    data: Option<PathBuf>,
    #[serde(default)]
    store: StoreSection,
    #[serde(default)]
    retention: RetentionSection,
    #[serde(default)]
    access: AccessSection,
    #[serde(default)]
    redaction: RedactionSection,
    #[serde(default)]
    runs: RunsSection,
    #[serde(default)]
    workspaces: WorkspacesSection,
    #[serde(default)]
    sandbox: SandboxSection,
    #[serde(default)]
    policy: PolicySection,
    #[serde(default)]
    models: ModelsSettings,
    agents: Option<BTreeMap<String, AgentSection>>,
    #[serde(default)]
    aap: AapSection,
    #[serde(default)]
    log: LogSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoreSection {
    durability: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetentionSection {
    max_age: Option<String>,
    max_events: Option<u64>,
    max_bytes: Option<String>,
    sweep_every: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessSection {
    require_token: Option<bool>,
    allowed_origins: Option<Vec<String>>,
    requests_per_second: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RedactionSection {
    detectors: Option<bool>,
    environment: Option<bool>,
    secret_env: Option<Vec<String>>,
    secret_files: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogSection {
    level: Option<String>,
    format: Option<String>,
}

const KEYS: [&str; 45] = [
    "bind",
    "data",
    "store",
    "durability",
    "retention",
    "max_age",
    "max_events",
    "max_bytes",
    "sweep_every",
    "access",
    "require_token",
    "allowed_origins",
    "requests_per_second",
    "redaction",
    "detectors",
    "environment",
    "secret_env",
    "secret_files",
    "log",
    "level",
    "format",
    "runs",
    "at_once",
    "tools_at_once",
    "workspaces",
    "allow",
    "keep",
    "instructions",
    "sandbox",
    "mode",
    "strict",
    "readable",
    "hidden",
    "memory_bytes",
    "processes",
    "file_bytes",
    "tmp_bytes",
    "workspace_bytes",
    "policy",
    "file",
    "models",
    "default",
    "aap",
    "base_paths",
    "public_meta",
];

/// Keys below `[models]`, which `docs/models.md` tells of.
const MODEL_KEYS: [&str; 21] = [
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
    "model",
    "input_micros_usd",
    "output_micros_usd",
    "cached_input_micros_usd",
];

impl Config {
    /// Settles what counts. `environment` looks a variable up.
    pub fn settle(
        options: Options,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Config, StartError> {
        let (file, path) = read_file(options.config.as_deref(), &environment)?;
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let folder = user_folder("XDG_DATA_HOME", ".local/share", &environment).map(text).unwrap_or_default();
        let home = environment("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let beside = path.parent().map(Path::to_owned).unwrap_or_default();
        let mut look = Lookup::new(environment, path);
        let bind = look.pick("bind", options.bind, "RECOUNT_BIND", file.bind, BIND_DEFAULT);
        let data = look.pick("data", options.data.map(text), "RECOUNT_DATA", file.data.map(text), folder);
        let durability = look.pick(
            "store.durability",
            options.durability,
            "RECOUNT_STORE__DURABILITY",
            file.store.durability,
            "strict",
        );
        let hot_events_max =
            look.pick("store.hot_events_max", None, "RECOUNT_STORE__HOT_EVENTS_MAX", None, "off");
        let kept = file.retention;
        let max_age = look.pick(
            "retention.max_age",
            options.max_age,
            "RECOUNT_RETENTION__MAX_AGE",
            kept.max_age,
            "off",
        );
        let max_events = look.pick(
            "retention.max_events",
            options.max_events,
            "RECOUNT_RETENTION__MAX_EVENTS",
            kept.max_events.map(|events| events.to_string()),
            "off",
        );
        let max_bytes = look.pick(
            "retention.max_bytes",
            options.max_bytes,
            "RECOUNT_RETENTION__MAX_BYTES",
            kept.max_bytes,
            "off",
        );
        let sweep_every = look.pick(
            "retention.sweep_every",
            options.sweep_every,
            "RECOUNT_RETENTION__SWEEP_EVERY",
            kept.sweep_every,
            format!("{}m", SWEEP_EVERY_DEFAULT.as_secs() / 60),
        );
        let file_access = file.access;
        let require_token = look.pick(
            "access.require_token",
            options.require_token.then(|| "true".to_owned()),
            "RECOUNT_ACCESS__REQUIRE_TOKEN",
            file_access.require_token.map(|required| required.to_string()),
            "false",
        );
        let allowed_origins = look.pick(
            "access.allowed_origins",
            (!options.allowed_origins.is_empty()).then(|| options.allowed_origins.join(", ")),
            "RECOUNT_ACCESS__ALLOWED_ORIGINS",
            file_access.allowed_origins.map(|origins| origins.join(", ")),
            "none",
        );
        let requests_per_second = look.pick(
            "access.requests_per_second",
            None,
            "RECOUNT_ACCESS__REQUESTS_PER_SECOND",
            file_access.requests_per_second.map(|rate| rate.to_string()),
            "off",
        );
        let file_redaction = file.redaction;
        let detectors = look.pick(
            "redaction.detectors",
            None,
            "RECOUNT_REDACTION__DETECTORS",
            file_redaction.detectors.map(|on| on.to_string()),
            "true",
        );
        let of_environment = look.pick(
            "redaction.environment",
            None,
            "RECOUNT_REDACTION__ENVIRONMENT",
            file_redaction.environment.map(|on| on.to_string()),
            "true",
        );
        let secret_env = look.pick(
            "redaction.secret_env",
            None,
            "RECOUNT_REDACTION__SECRET_ENV",
            file_redaction.secret_env.map(|names| names.join(", ")),
            "none",
        );
        let secret_files = look.pick(
            "redaction.secret_files",
            None,
            "RECOUNT_REDACTION__SECRET_FILES",
            file_redaction.secret_files.map(|paths| paths.join(", ")),
            "none",
        );
        let level = look.pick("log.level", options.log, "RECOUNT_LOG", file.log.level, "info");
        let format =
            look.pick("log.format", options.log_format, "RECOUNT_LOG__FORMAT", file.log.format, "text");
        let (bind, require_token) = (bind_address(&bind)?, yes_or_no("require_token", &require_token)?);
        let usual = Usual {
            home,
            is_personal: bind.ip().to_canonical().is_loopback() && !require_token,
            folder: &beside,
        };
        let home = usual.home.clone();
        let said = Said { workspaces: options.workspaces, sandbox: options.sandbox, policy: options.policy };
        let sections = Sections {
            runs: file.runs,
            workspaces: file.workspaces,
            sandbox: file.sandbox,
            policy: file.policy,
            models: file.models,
        };
        let runs = runs::settle(&mut look, said, sections, &usual)?;
        let agents = agents::settle(&mut look, file.agents, &runs.models, &beside, home.as_deref())?;
        let aap = aap::settle(&mut look, file.aap)?;
        if data.is_empty() {
            return Err(StartError::usage("no data folder is known: HOME is not set; say --data FOLDER"));
        }
        Ok(Config {
            bind,
            data: data.into(),
            in_memory: options.in_memory,
            durability: match durability.as_str() {
                "strict" => Durability::Strict,
                "relaxed" => Durability::Relaxed,
                other => return Err(wrong("durability", other, "strict or relaxed")),
            },
            accept_loss_after: options.accept_loss_after,
            hot_events_max: amount("hot_events_max", &hot_events_max, "off, or a number", count)?,
            retention: Policy {
                max_age: amount("max_age", &max_age, "off, or one such as 30d or 12h", duration)?,
                max_events: amount("max_events", &max_events, "off, or a number", count)?,
                max_bytes: amount("max_bytes", &max_bytes, "off, or one such as 5GiB", bytes)?,
            },
            sweep_every: duration(&sweep_every)
                .filter(|every| *every >= SWEEP_EVERY_MIN)
                .ok_or_else(|| wrong("sweep_every", &sweep_every, "one such as 10m, and at least 1s"))?,
            access: Access {
                require_token,
                allowed_origins: origins(&allowed_origins)?,
                requests_per_second: amount(
                    "requests_per_second",
                    &requests_per_second,
                    "off, or a number from 1",
                    |text| text.parse().ok().filter(|rate| *rate > 0),
                )?,
            },
            redaction: Redaction {
                detectors: yes_or_no("detectors", &detectors)?,
                environment: yes_or_no("environment", &of_environment)?,
                secret_env: several(&secret_env),
                secret_files: several(&secret_files).into_iter().map(PathBuf::from).collect(),
            },
            runs,
            agents,
            aap,
            log: level
                .parse()
                .map_err(|_| wrong("the log level", &level, "off, error, warn, info, debug or trace"))?,
            log_format: match format.as_str() {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                other => return Err(wrong("the log format", other, "text or json")),
            },
            settings: look.settings(),
        })
    }

    pub(crate) fn home(&self) -> Home {
        Home {
            data: self.data.clone(),
            durability: self.durability,
            accept_loss_after: self.accept_loss_after.clone(),
            hot_events_max: self.hot_events_max,
        }
    }
}

/// An amount of what is kept, or none.
fn amount<T>(
    what: &str,
    text: &str,
    wanted: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, StartError> {
    if text == "off" { Ok(None) } else { read(text).map(Some).ok_or_else(|| wrong(what, text, wanted)) }
}

fn yes_or_no(what: &str, text: &str) -> Result<bool, StartError> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(wrong(what, other, "true or false")),
    }
}

/// Several things with commas between them, or none.
fn several(text: &str) -> Vec<String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty() && text != "none");
    words.map(str::to_owned).collect()
}

fn count(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn wrong(what: &str, value: &str, wanted: &str) -> StartError {
    StartError::usage(format!("{what} is {value:?}; say {wanted}"))
}

/// Where tokens must be shown anything may be bound.
fn bind_address(text: &str) -> Result<SocketAddr, StartError> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| wrong("the address to bind", text, "one such as 127.0.0.1:8765"))
}

fn read_file(
    named: Option<&Path>,
    environment: &impl Fn(&str) -> Option<String>,
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
        Err(why) => return Err(StartError::usage(format!("{} cannot be read: {why}", path.display()))),
    };
    match parse_file(&text) {
        Ok(file) => Ok((file, path)),
        Err(why) => Err(StartError::usage(format!("{}: {why}", path.display()))),
    }
}

fn parse_file(text: &str) -> Result<File, String> {
    let deserializer = toml::Deserializer::parse(text).map_err(|why| unparsed(&why, text))?;
    serde_path_to_error::deserialize(deserializer).map_err(|why| {
        let message = why.inner().message().to_owned();
        let path = why.path().to_string();
        let key = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        match key.and_then(nearest) {
            Some(nearest) => format!("{path}: {message}; did you mean `{nearest}`?"),
            None => format!("{path}: {message}"),
        }
    })
}

/// Where something is no TOML, without the line itself: it may hold a secret.
fn unparsed(why: &toml::de::Error, text: &str) -> String {
    let before = why.span().and_then(|span| text.get(..span.start));
    let line = before.map(|before| before.matches('\n').count() + 1);
    line.map_or_else(|| why.message().to_owned(), |line| format!("line {line}: {}", why.message()))
}

/// The known key that is spelt most like this one, if any is near.
fn nearest(key: &str) -> Option<&'static str> {
    spelling::nearest(key, KEYS.into_iter().chain(MODEL_KEYS).chain(AGENT_KEYS))
}

fn user_folder(
    variable: &str,
    below_home: &str,
    environment: &impl Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    let base = environment(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| environment("HOME").map(|home| PathBuf::from(home).join(below_home)))?;
    Some(base.join("recount"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amounts::sized;

    fn settle(options: Options, environment: &[(&str, &str)]) -> Result<Config, String> {
        let lookup = |name: &str| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        Config::settle(options, lookup).map_err(|why| why.to_string())
    }

    const SECTIONS: [&str; 11] = [
        "models",
        "store",
        "retention",
        "access",
        "redaction",
        "log",
        "runs",
        "workspaces",
        "sandbox",
        "policy",
        "aap",
    ];

    #[test]
    fn flag_over_environment_over_file_over_default() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(
            &file,
            "bind = \"127.0.0.1:1\"\ndata = \"/file\"\n[store]\ndurability = \"relaxed\"\n",
        )
        .unwrap();
        let options = Options { config: Some(file), ..Options::default() };
        let from_file = settle(options.clone(), &[]).unwrap();
        assert_eq!((from_file.bind.port(), from_file.data.as_path()), (1, Path::new("/file")));
        assert_eq!(from_file.durability, Durability::Relaxed);
        let from_environment = settle(options.clone(), &[("RECOUNT_BIND", "127.0.0.1:2")]).unwrap();
        assert_eq!(from_environment.bind.port(), 2);
        let options = Options { bind: Some("localhost:3".into()), ..options };
        assert_eq!(settle(options, &[("RECOUNT_BIND", "127.0.0.1:2")]).unwrap().bind.port(), 3);
        let by_default = settle(Options::default(), &[("HOME", "/h")]).unwrap();
        assert_eq!(by_default.bind.to_string(), BIND_DEFAULT);
        assert_eq!(by_default.data, Path::new("/h/.local/share/recount"));
    }

    #[test]
    fn every_value_says_where_it_comes_from() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, "bind = \"127.0.0.1:1\"\n[store]\ndurability = \"relaxed\"\n").unwrap();
        let options =
            Options { config: Some(file.clone()), bind: Some("127.0.0.1:2".into()), ..Options::default() };
        let environment =
            [("RECOUNT_LOG", "warn"), ("RECOUNT_BIND", "127.0.0.1:3"), ("RECOUNT_LOG__FORMAT", "")];
        let config = settle(Options { data: Some("/d".into()), ..options }, &environment).unwrap();
        let told = |key: &str| {
            let setting = config.settings.iter().find(|setting| setting.key == key).unwrap();
            (setting.value.clone(), setting.source.to_string())
        };
        let said = |value: &str, source: &str| (value.to_owned(), source.to_owned());
        assert_eq!(told("bind"), said("127.0.0.1:2", "flag"));
        assert_eq!(told("log.level"), said("warn", "environment RECOUNT_LOG"));
        assert_eq!(told("store.durability"), said("relaxed", &format!("file {}", file.display())));
        assert_eq!(told("log.format"), said("text", "default"));
        assert_eq!(told("retention.sweep_every"), said("10m", "default"));
        // No key of the file is left out.
        for key in KEYS.iter().filter(|key| !SECTIONS.contains(key)) {
            // Commands have an environment, and so has the server.
            let expected = if *key == "environment" { 2 } else { 1 };
            let ends = |setting: &&Setting| setting.key.rsplit('.').next() == Some(key);
            assert_eq!(config.settings.iter().filter(ends).count(), expected, "{key}");
        }
    }

    #[test]
    fn who_may_come_in() {
        let home = ("HOME", "/h");
        assert_eq!(settle(Options::default(), &[home]).unwrap().access, Access::default());
        let named = [
            home,
            ("RECOUNT_ACCESS__REQUIRE_TOKEN", "true"),
            ("RECOUNT_ACCESS__ALLOWED_ORIGINS", "https://a.example, http://localhost:3000"),
            ("RECOUNT_ACCESS__REQUESTS_PER_SECOND", "50"),
        ];
        let access = settle(Options::default(), &named).unwrap().access;
        assert!(access.require_token && access.requests_per_second == Some(50));
        assert_eq!(access.allowed_origins, ["https://a.example", "http://localhost:3000"]);
        for bad in ["*", "https://", "https://a.example/", "a.example", "https://A.example", "null"] {
            let options = Options { allowed_origins: vec![bad.into()], ..Options::default() };
            let why = settle(options, &[home]).unwrap_err();
            assert!(why.contains("allowed_origins") && why.contains(bad), "{why}");
        }
    }

    #[test]
    fn keys_of_providers_are_never_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        let text = "[models.providers.a]\nkind='openai'\napi_key='sk-hidden-from-all'\nbase_url='http://h/v1'\n\
                    headers={x-api-key='also-hidden'}\n";
        std::fs::write(&file, text).unwrap();
        let options = Options { config: Some(file), data: Some("/d".into()), ..Options::default() };
        let config = settle(options, &[]).unwrap();
        let told =
            |key: &str| config.settings.iter().find(|setting| setting.key == key).unwrap().value.clone();
        assert_eq!(told("models.providers"), "a (openai at http://h/v1)");
        let looked_at = format!("{config:?}");
        assert!(!looked_at.contains("sk-hidden") && !looked_at.contains("also-hidden"), "{looked_at}");
        let why =
            settle(Options::default(), &[("HOME", "/h"), ("RECOUNT_MODELS__DEFAULT", "x")]).unwrap_err();
        assert!(why.contains("models.default"), "{why}");
    }

    #[test]
    fn where_runs_may_work() {
        let home = ("HOME", "/h");
        let allowed = |options: Options, environment: &[(&str, &str)]| {
            let environment = [&[home], environment].concat();
            settle(options, &environment).map(|config| config.runs.workspaces)
        };
        assert_eq!(allowed(Options::default(), &[]).unwrap(), [Path::new("/h")]);
        let none: [&Path; 0] = [];
        // Where people come in whom this machine does not know, nothing of it is theirs unless it is said.
        let locked = Options { require_token: true, ..Options::default() };
        assert_eq!(allowed(locked, &[]).unwrap(), none);
        let open = Options { bind: Some("0.0.0.0:1".into()), ..Options::default() };
        assert_eq!(allowed(open, &[]).unwrap(), none);
        let named = [("RECOUNT_WORKSPACES__ALLOW", "~/code, /srv")];
        assert_eq!(allowed(Options::default(), &named).unwrap(), [Path::new("/h/code"), Path::new("/srv")]);
        let flag = Options { workspaces: vec!["/a".into(), "/b".into()], ..Options::default() };
        assert_eq!(allowed(flag, &named).unwrap(), [Path::new("/a"), Path::new("/b")]);
        for bad in ["a", "./a", "~other"] {
            let why =
                allowed(Options { workspaces: vec![bad.into()], ..Options::default() }, &[]).unwrap_err();
            assert!(why.contains("workspaces.allow") && why.contains(bad), "{why}");
        }
        for (name, bad) in [
            ("RECOUNT_RUNS__AT_ONCE", "0"),
            ("RECOUNT_WORKSPACES__KEEP", "soon"),
            ("RECOUNT_SANDBOX__MODE", "chroot"),
            ("RECOUNT_SANDBOX__STRICT", "perhaps"),
            ("RECOUNT_SANDBOX__MEMORY_BYTES", "0"),
            ("RECOUNT_SANDBOX__PROCESSES", "none"),
        ] {
            let why = settle(Options::default(), &[home, (name, bad)]).unwrap_err();
            let key = name.trim_start_matches("RECOUNT_").replace("__", ".").to_lowercase();
            assert!(why.contains(&key) && why.contains(bad), "{why}");
        }
    }

    #[test]
    fn unknown_keys_are_refused_with_the_nearest() {
        let why = parse_file("[store]\ndurabilty = \"strict\"\n").unwrap_err();
        assert!(why.contains("store") && why.contains("did you mean `durability`"), "{why}");
        let why = parse_file("bnd = 1\n").unwrap_err();
        assert!(why.contains("did you mean `bind`"), "{why}");
        assert!(parse_file("bind = 1\n").unwrap_err().contains("bind"));
        let why = parse_file("[models.providers.x]\nkind = \"openai\"\nbase_ur = \"x\"\n").unwrap_err();
        assert!(why.contains("models.providers.x") && why.contains("did you mean `base_url`"), "{why}");
    }

    /// The page and the code agree: each key, variable, default and the example.
    #[test]
    fn the_page_about_configuration_says_what_is_so() {
        let page = include_str!("../../../docs/configuration.md");
        let (_, example) = page.split_once("```toml\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, example).unwrap();
        let options = Options { config: Some(file), ..Options::default() };
        let told = |config: &Config| {
            [
                config.bind.to_string(),
                config.data.display().to_string(),
                format!("{:?}", config.durability).to_lowercase(),
                config.retention.max_age.map_or("off".into(), |age| format!("{}d", age.as_secs() / 86_400)),
                config.retention.max_events.map_or("off".into(), |events| events.to_string()),
                config.retention.max_bytes.map_or("off".into(), |bytes| format!("{}GiB", bytes >> 30)),
                format!("{}m", config.sweep_every.as_secs() / 60),
                config.access.require_token.to_string(),
                config.access.allowed_origins.first().map_or("none".into(), String::clone),
                config.access.requests_per_second.map_or("off".into(), |rate| rate.to_string()),
                config.redaction.detectors.to_string(),
                config.redaction.environment.to_string(),
                config.redaction.secret_env.first().map_or("none".into(), String::clone),
                config
                    .redaction
                    .secret_files
                    .first()
                    .map_or("none".into(), |path| path.display().to_string()),
                config.log.to_string(),
                format!("{:?}", config.log_format).to_lowercase(),
                config.runs.at_once.to_string(),
                config.runs.tools_at_once.to_string(),
                config.runs.workspaces.first().map_or("none".into(), |path| path.display().to_string()),
                config.runs.keep.map_or("off".into(), |age| format!("{}d", age.as_secs() / 86_400)),
                config.runs.workspace_instructions.to_string(),
                format!("{:?}", config.runs.sandbox.mode).to_lowercase(),
                config.runs.sandbox.strict.to_string(),
                config.runs.sandbox.readable.first().map_or("none".into(), |path| path.display().to_string()),
                config.runs.sandbox.hidden.first().map_or("none".into(), |path| path.display().to_string()),
                sized(config.runs.sandbox.memory_bytes),
                config.runs.sandbox.processes.to_string(),
                sized(config.runs.sandbox.file_bytes),
                sized(config.runs.sandbox.tmp_bytes),
                sized(config.runs.sandbox.workspace_bytes),
                config.runs.policy.as_ref().map_or("none".into(), |path| path.display().to_string()),
                config.runs.models.default.as_ref().map_or("none".into(), |name| name.to_string()),
                config.aap.base_paths.last().map_or("none".into(), String::clone),
                config.aap.public_meta.to_string(),
            ]
        };
        let from_example = settle(options, &[]).unwrap();
        assert_eq!(
            told(&from_example),
            [
                "127.0.0.1:9000",
                "/var/lib/recount",
                "relaxed",
                "30d",
                "5000000",
                "5GiB",
                "30m",
                "true",
                "https://app.example",
                "200",
                "false",
                "false",
                "BILLING_LOGIN",
                "/run/secrets/database",
                "warn",
                "json",
                "8",
                "4",
                "/srv/projects",
                "30d",
                "false",
                "landlock",
                "true",
                "~/.cargo",
                "/srv/projects/secret",
                "2GiB",
                "256",
                "1GiB",
                "512MiB",
                "20GiB",
                "/etc/recount/policy.toml",
                "local/qwen3:8b",
                "/acme/agents",
                "true"
            ]
        );

        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let rows: Vec<Vec<&str>> =
            rows.map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect()).collect();
        let last = |row: &Vec<&'static str>| row[1].rsplit('.').next().unwrap();
        let mut keys: Vec<&str> = rows.iter().map(last).collect();
        // Sections are keys to the speller.
        keys.extend(SECTIONS);
        keys.sort_unstable();
        let mut known = KEYS.to_vec();
        known.sort_unstable();
        assert_eq!(keys, known);
        let default = told(&settle(Options::default(), &[("HOME", "~")]).unwrap());
        assert_eq!(default[18], "none", "a home that is no path is none");
        for (place, row) in rows.iter().enumerate() {
            let value = &told(&from_example)[place];
            let by_variable = settle(Options::default(), &[("HOME", "~"), (row[3], value)]).unwrap();
            assert_eq!(&told(&by_variable)[place], value, "{}", row[3]);
            assert!(row[4].contains(&default[place]), "{} is not the default of {}", row[4], row[1]);
        }
    }

    #[test]
    fn every_key_of_the_file_is_read_and_known_to_the_speller() {
        let text = "bind='a'\ndata='b'\n[store]\ndurability='c'\n\
                    [retention]\nmax_age='f'\nmax_events=10\nmax_bytes='g'\nsweep_every='h'\n[access]\nrequire_token=true\n\
                    allowed_origins=['i']\nrequests_per_second=11\n[redaction]\ndetectors=true\nenvironment=true\n\
                    secret_env=['j']\nsecret_files=['k']\n[log]\nlevel='d'\nformat='e'\n[runs]\nat_once=12\ntools_at_once=14\n\
                    [workspaces]\nallow=['l']\nkeep='m'\ninstructions=false\n[sandbox]\nmode='n'\nstrict=true\nreadable=['o']\nhidden=['p']\n\
                    environment={Q='r'}\nmemory_bytes='s'\nprocesses=13\nfile_bytes='t'\ntmp_bytes='u'\nworkspace_bytes='x'\n[policy]\nfile='v'\n\
                    [aap]\nbase_paths=['w']\npublic_meta=true";
        let file = parse_file(text).unwrap();
        let kept = file.retention;
        let read = [file.bind, file.store.durability, file.log.level, file.log.format];
        assert_eq!(read.map(Option::unwrap), ["a", "c", "d", "e"]);
        assert_eq!([kept.max_age, kept.max_bytes, kept.sweep_every].map(Option::unwrap), ["f", "g", "h"]);
        assert_eq!(kept.max_events, Some(10));
        let masked = file.redaction;
        assert_eq!((masked.detectors, masked.environment), (Some(true), Some(true)));
        assert_eq!([masked.secret_env, masked.secret_files].map(Option::unwrap), [["j"], ["k"]]);
        let access = file.access;
        assert_eq!(
            (access.require_token, access.allowed_origins, access.requests_per_second),
            (Some(true), Some(vec!["i".to_owned()]), Some(11))
        );
        assert_eq!((file.runs.at_once, file.sandbox.processes), (Some(12), Some(13)));
        assert_eq!(file.sandbox.strict, Some(true));
        assert_eq!(file.runs.tools_at_once, Some(14));
        assert_eq!(file.workspaces.allow.unwrap(), ["l"]);
        assert_eq!(file.workspaces.instructions, Some(false));
        assert_eq!(file.sandbox.environment.unwrap()["Q"], "r");
        assert_eq!(file.policy.file.unwrap(), Path::new("v"));
        assert_eq!((file.aap.base_paths.unwrap(), file.aap.public_meta), (vec!["w".to_owned()], Some(true)));
        for key in text
            .split(['\n', '=', '[', ']', '\''])
            .filter(|word| word.len() > 2 && !["true", "false"].contains(word))
        {
            assert_eq!(nearest(key), Some(key));
        }
    }
}
