//! Models as the configuration has them: from settings to providers that can be asked.
//!
//! Look at [`Registry::build`]. Settings are plain data that a larger configuration may hold; whatever cannot be
//! meant is refused here, before anything is asked. It must never know where the configuration came from.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use recount_world::Clock;
use serde::Deserialize;

use super::pattern::{Pattern, most_exact};
use super::scripted::Scripted;
use super::scripted::script::ScriptError;
use super::{
    Capability, Endpoint, EndpointError, Model, Models, Patience, Price, Prices, Reply, Request, Rewrite,
    Rewrites, Secret, anthropic, openai,
};
use crate::model::limits;

/// All that is configured of models: `[models]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsSettings {
    /// The model of runs that name none.
    pub default: Option<ModelName>,
    pub providers: BTreeMap<String, ProviderSettings>,
    pub prices: Vec<Price>,
    pub rewrite: Vec<Rewrite>,
}

/// One provider: `[models.providers.NAME]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSettings {
    pub kind: ProviderKind,
    /// Where the protocol's paths begin; the protocol's inventor when nothing is said.
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
    /// The variable that holds the key.
    pub api_key_env: Option<String>,
    /// A file or a folder, relative to the configuration. Only for `scripted`.
    pub script: Option<PathBuf>,
    /// Sent with every request.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// What models can do, by name or its beginning with a `*`.
    #[serde(default)]
    pub models: BTreeMap<Pattern, Capabilities>,
    /// Only for `anthropic`.
    pub thinking_tokens: Option<u32>,
    /// Only for `anthropic`; yes when nothing is said.
    pub cache: Option<bool>,
    /// Only for `openai`; yes when nothing is said.
    pub ask_usage: Option<bool>,
    pub first_byte_timeout_ms: Option<u64>,
    pub silence_timeout_ms: Option<u64>,
    pub life_signs_timeout_ms: Option<u64>,
}

/// The protocol that a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    Anthropic,
    OpenAi,
    Scripted,
}

/// What a model can do; what is not said is assumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    pub tools: Option<bool>,
    pub images: Option<bool>,
    /// The most tokens of conversation that it is sent.
    pub context_tokens: Option<NonZeroU64>,
}

/// A model of a provider: `provider/model`. The model's own name may hold further slashes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct ModelName {
    pub provider: String,
    pub model: String,
}

/// Why models cannot be had as they are configured.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("models.providers.{provider}: {why}")]
    Endpoint { provider: String, why: EndpointError },
    #[error("models.providers.{provider}: {why}")]
    Script { provider: String, why: ScriptError },
    #[error("models.providers.{provider}: {key} {why}")]
    Key { provider: String, key: &'static str, why: String },
    #[error("models.providers: {name:?} is no name for a provider; use letters, digits, `-`, `_` and `.`")]
    Name { name: String },
    #[error("models.{key}: there is no provider {provider:?}; there are: {known}")]
    Unknown { key: &'static str, provider: String, known: String },
}

/// Models that can be asked, and what is known of them.
#[derive(Clone, Default)]
pub struct Registry {
    pub models: Models,
    pub default: Option<ModelName>,
    pub prices: Prices,
    pub rewrites: Rewrites,
    /// Keys, for who masks them in what others say.
    pub secrets: Vec<Secret>,
}

impl Registry {
    /// Makes providers of settings. `environment` is asked for keys; scripts lie relative to `folder`.
    pub fn build(
        settings: &ModelsSettings,
        environment: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
        clock: &Arc<dyn Clock>,
    ) -> Result<Registry, SettingsError> {
        let mut models = Models::default();
        let mut secrets = Vec::new();
        for (name, provider) in &settings.providers {
            let letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            if name.is_empty() || !name.chars().all(letter) {
                return Err(SettingsError::Name { name: name.clone() });
            }
            let door = Door { name, settings: provider, environment, folder, clock };
            let model = door.open(&mut secrets)?;
            let can = provider.models.clone();
            models.by_name.insert(name.clone(), Arc::new(ConfiguredModel { model, can }));
        }
        let check = |key: &'static str, name: &ModelName| {
            if models.by_name.contains_key(&name.provider) {
                return Ok(());
            }
            let known: Vec<&str> = models.by_name.keys().map(String::as_str).collect();
            let provider = name.provider.clone();
            Err(SettingsError::Unknown { key, provider, known: known.join(", ") })
        };
        for rule in &settings.rewrite {
            let to = rule.to.parse().map_err(|_| SettingsError::Unknown {
                key: "rewrite",
                provider: rule.to.clone(),
                known: models.by_name.keys().cloned().collect::<Vec<_>>().join(", "),
            })?;
            check("rewrite", &to)?;
        }
        if let Some(default) = &settings.default {
            check("default", default)?;
        }
        Ok(Registry {
            models,
            default: settings.default.clone(),
            prices: Prices::new(settings.prices.clone()),
            rewrites: Rewrites::new(settings.rewrite.clone()),
            secrets,
        })
    }
}

/// What is at hand to make one provider.
struct Door<'a> {
    name: &'a str,
    settings: &'a ProviderSettings,
    environment: &'a dyn Fn(&str) -> Option<String>,
    folder: &'a Path,
    clock: &'a Arc<dyn Clock>,
}

impl Door<'_> {
    fn open(&self, secrets: &mut Vec<Secret>) -> Result<Arc<dyn Model>, SettingsError> {
        self.check_keys()?;
        let settings = self.settings;
        if settings.kind == ProviderKind::Scripted {
            let Some(script) = &settings.script else {
                return Err(self.wrong("script", "is missing; name a TOML file or a folder of them".into()));
            };
            let model = Scripted::load(&self.folder.join(script))
                .map_err(|why| SettingsError::Script { provider: self.name.to_owned(), why })?;
            return Ok(Arc::new(model.with_patience(self.patience())));
        }
        let key = self.key()?;
        secrets.extend(key.iter().cloned());
        let hidden = settings.headers.iter().filter(|(name, _)| sounds_secret(name));
        secrets.extend(hidden.map(|(_, value)| value.token()));
        let inventor = match settings.kind {
            ProviderKind::Anthropic => anthropic::BASE_URL,
            ProviderKind::OpenAi | ProviderKind::Scripted => openai::BASE_URL,
        };
        let base = settings.base_url.as_deref().unwrap_or(inventor);
        let wrong = |why| SettingsError::Endpoint { provider: self.name.to_owned(), why };
        let endpoint = Endpoint::new(self.name, base, self.clock.clone()).map_err(wrong)?;
        let mut endpoint = endpoint.with_patience(self.patience());
        for (name, value) in &settings.headers {
            endpoint = endpoint.with_header(name, value, sounds_secret(name)).map_err(wrong)?;
        }
        Ok(match settings.kind {
            ProviderKind::Anthropic => {
                let options = anthropic::AnthropicOptions {
                    thinking_tokens: settings.thinking_tokens,
                    cache: settings.cache.unwrap_or(true),
                };
                Arc::new(anthropic::Anthropic::new(endpoint, key.as_ref(), options).map_err(wrong)?)
            }
            ProviderKind::OpenAi | ProviderKind::Scripted => {
                let ask_usage = settings.ask_usage.unwrap_or(true);
                Arc::new(openai::OpenAi::new(endpoint, key.as_ref(), ask_usage).map_err(wrong)?)
            }
        })
    }

    /// A key that means nothing to a kind is a mistake worth telling.
    fn check_keys(&self) -> Result<(), SettingsError> {
        use ProviderKind::{Anthropic, OpenAi, Scripted};
        let settings = self.settings;
        let said: [(&'static str, bool, &[ProviderKind]); 8] = [
            ("base_url", settings.base_url.is_some(), &[Anthropic, OpenAi]),
            ("api_key", settings.api_key.is_some(), &[Anthropic, OpenAi]),
            ("api_key_env", settings.api_key_env.is_some(), &[Anthropic, OpenAi]),
            ("headers", !settings.headers.is_empty(), &[Anthropic, OpenAi]),
            ("script", settings.script.is_some(), &[Scripted]),
            ("thinking_tokens", settings.thinking_tokens.is_some(), &[Anthropic]),
            ("cache", settings.cache.is_some(), &[Anthropic]),
            ("ask_usage", settings.ask_usage.is_some(), &[OpenAi]),
        ];
        for (key, is_said, kinds) in said {
            if is_said && !kinds.contains(&settings.kind) {
                return Err(self.wrong(key, format!("means nothing to the kind {}", settings.kind)));
            }
        }
        if settings.api_key.is_some() && settings.api_key_env.is_some() {
            return Err(self.wrong("api_key", "and api_key_env both give the key; leave one out".into()));
        }
        Ok(())
    }

    fn key(&self) -> Result<Option<Secret>, SettingsError> {
        let Some(variable) = &self.settings.api_key_env else {
            return Ok(self.settings.api_key.clone());
        };
        let value = (self.environment)(variable).map(|value| value.trim().to_owned());
        match value.filter(|value| !value.is_empty()) {
            Some(value) => Ok(Some(Secret::new(value))),
            None => {
                let why = format!(
                    "names the variable {variable}, which is not set; set it, or leave the provider out"
                );
                Err(self.wrong("api_key_env", why))
            }
        }
    }

    fn patience(&self) -> Patience {
        let usual = Patience::default();
        let pick = |said: Option<u64>, usual: Duration| {
            said.map_or(usual, |ms| Duration::from_millis(ms.max(1)).min(limits::MODEL_PATIENCE_MAX))
        };
        Patience {
            first: pick(self.settings.first_byte_timeout_ms, usual.first),
            between: pick(self.settings.silence_timeout_ms, usual.between),
            between_words: pick(self.settings.life_signs_timeout_ms, usual.between_words),
        }
    }

    fn wrong(&self, key: &'static str, why: String) -> SettingsError {
        SettingsError::Key { provider: self.name.to_owned(), key, why }
    }
}

/// Masking every header's value would take common words out of what others say.
fn sounds_secret(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    ["key", "token", "auth", "secret", "cookie"].iter().any(|word| header.contains(word))
}

/// A provider with what the configuration knows of its models.
struct ConfiguredModel {
    model: Arc<dyn Model>,
    can: BTreeMap<Pattern, Capabilities>,
}

impl Model for ConfiguredModel {
    fn begin(&self, request: Arc<Request>) -> Box<dyn Reply> {
        self.model.begin(request)
    }

    fn can(&self, model: &str, capability: Capability) -> bool {
        let said = most_exact(self.can.iter(), model).and_then(|can| match capability {
            Capability::Tools => can.tools,
            Capability::Images => can.images,
        });
        said.unwrap_or_else(|| self.model.can(model, capability))
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        // A name that says nothing of it does not hide a wider one that does.
        let said = self.can.iter().filter(|(_, can)| can.context_tokens.is_some());
        most_exact(said, model).and_then(|can| can.context_tokens).map(NonZeroU64::get)
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProviderKind::Anthropic => "anthropic",
            ProviderKind::OpenAi => "openai",
            ProviderKind::Scripted => "scripted",
        })
    }
}

impl FromStr for ModelName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(ModelName { provider: provider.into(), model: model.into() })
            }
            _ => {
                Err(format!("{name:?} is no model; write PROVIDER/MODEL, as in anthropic/claude-sonnet-4-5"))
            }
        }
    }
}

impl TryFrom<String> for ModelName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

#[cfg(test)]
mod tests;
