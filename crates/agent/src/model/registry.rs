//! The registry of models: validates the settings of `[models]` and builds the providers.
//!
//! Settings are plain data that can be part of a larger configuration. Invalid settings are rejected here, before any
//! request. It must not know the source of the configuration. Start with [`Registry::build`].

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use recount_world::Clock;
use serde::Deserialize;

use super::pattern::{Pattern, most_specific};
use super::scripted::Scripted;
use super::scripted::script::ScriptError;
use super::{
    Capability, Endpoint, EndpointError, Model, Models, Patience, Price, Prices, Reply, Request, Rewrite,
    Rewrites, Secret, anthropic, openai,
};
use crate::model::limits;

/// The settings of all models: `[models]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsSettings {
    /// The model of runs that request none.
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
    /// The URL before the paths of the protocol; the default is the vendor of the protocol.
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
    /// The environment variable with the API key.
    pub api_key_env: Option<String>,
    /// A file or a folder, relative to the configuration. Only for `scripted`.
    pub script: Option<PathBuf>,
    /// Sent with every request.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// The capabilities of models, by name or by a prefix followed by `*`.
    #[serde(default)]
    pub models: BTreeMap<Pattern, Capabilities>,
    /// Only for `anthropic`.
    pub thinking_tokens: Option<u32>,
    /// Only for `anthropic`; the default is true.
    pub cache: Option<bool>,
    /// Only for `openai`; the default is true.
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

/// The capabilities of a model; an unset one is assumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    pub tools: Option<bool>,
    pub images: Option<bool>,
    /// The maximum of conversation tokens in a request.
    pub context_tokens: Option<NonZeroU64>,
}

/// A model of a provider: `provider/model`. The name of the model may contain further slashes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct ModelName {
    pub provider: String,
    pub model: String,
}

/// An invalid setting of a model or provider.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("models.providers.{provider}: {why}")]
    Endpoint { provider: String, why: EndpointError },
    #[error("models.providers.{provider}: {why}")]
    Script { provider: String, why: ScriptError },
    #[error("models.providers.{provider}: {key} {why}")]
    Key { provider: String, key: &'static str, why: String },
    #[error("models.providers: {name:?} is not a valid provider name; use letters, digits, `-`, `_` and `.`")]
    Name { name: String },
    #[error("models.{key}: unknown provider {provider:?}; configured providers: {known}")]
    Unknown { key: &'static str, provider: String, known: String },
}

/// The configured models, with their prices and rewrite rules.
#[derive(Clone, Default)]
pub struct Registry {
    pub models: Models,
    pub default: Option<ModelName>,
    pub prices: Prices,
    pub rewrites: Rewrites,
    /// API keys that must be masked in texts.
    pub secrets: Vec<Secret>,
}

impl Registry {
    /// Builds the providers from settings. `environment` looks up variables; scripts are relative to `folder`.
    pub fn build(
        settings: &ModelsSettings,
        environment: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
        clock: &Arc<dyn Clock>,
    ) -> Result<Registry, SettingsError> {
        let mut models = Models::default();
        let mut secrets = Vec::new();
        for (name, provider) in &settings.providers {
            let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            if name.is_empty() || !name.chars().all(is_valid) {
                return Err(SettingsError::Name { name: name.clone() });
            }
            let builder = ProviderBuilder { name, settings: provider, environment, folder, clock };
            let model = builder.build(&mut secrets)?;
            let capabilities = provider.models.clone();
            models.by_name.insert(name.clone(), Arc::new(ConfiguredModel { model, capabilities }));
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

/// Builds one provider.
struct ProviderBuilder<'a> {
    name: &'a str,
    settings: &'a ProviderSettings,
    environment: &'a dyn Fn(&str) -> Option<String>,
    folder: &'a Path,
    clock: &'a Arc<dyn Clock>,
}

impl ProviderBuilder<'_> {
    fn build(&self, secrets: &mut Vec<Secret>) -> Result<Arc<dyn Model>, SettingsError> {
        self.check_keys()?;
        let settings = self.settings;
        if settings.kind == ProviderKind::Scripted {
            let Some(script) = &settings.script else {
                return Err(
                    self.invalid("script", "is missing; give a TOML file or a folder of TOML files".into())
                );
            };
            let model = Scripted::load(&self.folder.join(script))
                .map_err(|why| SettingsError::Script { provider: self.name.to_owned(), why })?;
            return Ok(Arc::new(model.with_patience(self.patience())));
        }
        let key = self.key()?;
        secrets.extend(key.iter().cloned());
        let hidden = settings.headers.iter().filter(|(name, _)| is_secret_header(name));
        secrets.extend(hidden.map(|(_, value)| value.token()));
        let default_url = match settings.kind {
            ProviderKind::Anthropic => anthropic::BASE_URL,
            ProviderKind::OpenAi | ProviderKind::Scripted => openai::BASE_URL,
        };
        let base = settings.base_url.as_deref().unwrap_or(default_url);
        let invalid = |why| SettingsError::Endpoint { provider: self.name.to_owned(), why };
        let endpoint = Endpoint::new(self.name, base, self.clock.clone()).map_err(invalid)?;
        let mut endpoint = endpoint.with_patience(self.patience());
        for (name, value) in &settings.headers {
            endpoint = endpoint.with_header(name, value, is_secret_header(name)).map_err(invalid)?;
        }
        Ok(match settings.kind {
            ProviderKind::Anthropic => {
                let options = anthropic::AnthropicOptions {
                    thinking_tokens: settings.thinking_tokens,
                    cache: settings.cache.unwrap_or(true),
                };
                Arc::new(anthropic::Anthropic::new(endpoint, key.as_ref(), options).map_err(invalid)?)
            }
            ProviderKind::OpenAi | ProviderKind::Scripted => {
                let ask_usage = settings.ask_usage.unwrap_or(true);
                Arc::new(openai::OpenAi::new(endpoint, key.as_ref(), ask_usage).map_err(invalid)?)
            }
        })
    }

    /// Rejects settings that do not apply to the kind of the provider.
    fn check_keys(&self) -> Result<(), SettingsError> {
        use ProviderKind::{Anthropic, OpenAi, Scripted};
        let settings = self.settings;
        let given: [(&'static str, bool, &[ProviderKind]); 8] = [
            ("base_url", settings.base_url.is_some(), &[Anthropic, OpenAi]),
            ("api_key", settings.api_key.is_some(), &[Anthropic, OpenAi]),
            ("api_key_env", settings.api_key_env.is_some(), &[Anthropic, OpenAi]),
            ("headers", !settings.headers.is_empty(), &[Anthropic, OpenAi]),
            ("script", settings.script.is_some(), &[Scripted]),
            ("thinking_tokens", settings.thinking_tokens.is_some(), &[Anthropic]),
            ("cache", settings.cache.is_some(), &[Anthropic]),
            ("ask_usage", settings.ask_usage.is_some(), &[OpenAi]),
        ];
        for (key, is_given, kinds) in given {
            if is_given && !kinds.contains(&settings.kind) {
                return Err(
                    self.invalid(key, format!("does not apply to providers of kind {}", settings.kind))
                );
            }
        }
        if settings.api_key.is_some() && settings.api_key_env.is_some() {
            return Err(self.invalid("api_key", "and api_key_env are both set; remove one".into()));
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
                    "names the environment variable {variable}, which is not set; set it or remove the \
                     provider"
                );
                Err(self.invalid("api_key_env", why))
            }
        }
    }

    fn patience(&self) -> Patience {
        let default = Patience::default();
        let timeout = |setting: Option<u64>, default: Duration| {
            setting.map_or(default, |ms| Duration::from_millis(ms.max(1)).min(limits::MODEL_PATIENCE_MAX))
        };
        Patience {
            first: timeout(self.settings.first_byte_timeout_ms, default.first),
            between: timeout(self.settings.silence_timeout_ms, default.between),
            between_content: timeout(self.settings.life_signs_timeout_ms, default.between_content),
        }
    }

    fn invalid(&self, key: &'static str, why: String) -> SettingsError {
        SettingsError::Key { provider: self.name.to_owned(), key, why }
    }
}

/// Whether the value of a header is masked in texts. Masking all values would mask common words.
fn is_secret_header(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    ["key", "token", "auth", "secret", "cookie"].iter().any(|word| header.contains(word))
}

/// A provider with the configured capabilities of its models.
struct ConfiguredModel {
    model: Arc<dyn Model>,
    capabilities: BTreeMap<Pattern, Capabilities>,
}

impl Model for ConfiguredModel {
    fn begin(&self, request: Arc<Request>) -> Box<dyn Reply> {
        self.model.begin(request)
    }

    fn can(&self, model: &str, capability: Capability) -> bool {
        let configured = most_specific(self.capabilities.iter(), model).and_then(|entry| match capability {
            Capability::Tools => entry.tools,
            Capability::Images => entry.images,
        });
        configured.unwrap_or_else(|| self.model.can(model, capability))
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        // A specific pattern without this setting does not hide a more general one with it.
        let configured = self.capabilities.iter().filter(|(_, entry)| entry.context_tokens.is_some());
        most_specific(configured, model).and_then(|entry| entry.context_tokens).map(NonZeroU64::get)
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
            _ => Err(format!(
                "{name:?} is not a model name; write PROVIDER/MODEL, for example \
                             anthropic/claude-sonnet-4-5"
            )),
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
