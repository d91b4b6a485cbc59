//! Settings that build providers, and settings that are rejected.

use recount_world::ManualClock;

use super::*;

fn build(text: &str) -> Result<Registry, String> {
    let settings: ModelsSettings = toml::from_str(text).map_err(|why| why.to_string())?;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("demo.toml"), "[[turn]]\ntext = \"hello\"").unwrap();
    let environment = |name: &str| (name == "KEY").then(|| "the-key".to_owned());
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(0));
    Registry::build(&settings, &environment, folder.path(), &clock).map_err(|why| why.to_string())
}

#[test]
fn providers_are_built_with_the_capabilities_of_their_models() {
    let registry = build(
        r#"
        default = "local/qwen/qwen3"

        [providers.real]
        kind = "anthropic"
        api_key_env = "KEY"
        thinking_tokens = 4096
        headers = { anthropic-beta = "some" }

        [providers.local]
        kind = "openai"
        base_url = "http://127.0.0.1:11434/v1/"
        silence_timeout_ms = 1000
        [providers.local.models]
        "*" = { images = false }
        "qwen/*" = { tools = false }
        "qwen/qwen3" = { tools = true }

        [providers.demo]
        kind = "scripted"
        script = "demo.toml"

        [[prices]]
        model = "real/*"
        input_micros_usd = 5
        output_micros_usd = 6

        [[rewrite]]
        from = "old/*"
        to = "local/*"
        reason = "moved"
        "#,
    )
    .unwrap();
    assert_eq!(registry.models.by_name.keys().collect::<Vec<_>>(), ["demo", "local", "real"]);
    let default = registry.default.unwrap();
    assert_eq!((default.provider.as_str(), default.model.as_str()), ("local", "qwen/qwen3"));
    let local = &registry.models.by_name["local"];
    for (model, capability, can) in [
        ("qwen/qwen3", Capability::Tools, true),
        ("qwen/qwen2", Capability::Tools, false),
        ("llama", Capability::Tools, true),
        ("llama", Capability::Images, false),
        // The most specific pattern does not set images, so the capability is assumed.
        ("qwen/qwen3", Capability::Images, true),
    ] {
        assert_eq!(local.can(model, capability), can, "{model} {capability:?}");
    }
    assert!(registry.secrets.contains(&Secret::new("the-key")));
    assert_eq!(registry.rewrites.apply("old/x").unwrap().to, "local/x");
    assert_eq!(registry.prices.of("real/x").unwrap().output_micros_usd, 6);
}

#[test]
fn invalid_settings_are_rejected_with_their_key() {
    let provider = |settings: &str| format!("[providers.p]\n{settings}");
    for (text, why) in [
        (provider("kind = \"ollama\""), "unknown variant `ollama`"),
        (provider("kind = \"openai\"\nkey = \"x\""), "unknown field `key`"),
        (
            provider("kind = \"openai\"\nscript = \"x\""),
            "p: script does not apply to providers of kind openai",
        ),
        (provider("kind = \"scripted\""), "p: script is missing"),
        (provider("kind = \"scripted\"\nscript = \"none.toml\""), "p: cannot read the script"),
        (provider("kind = \"scripted\"\nscript = \"x\"\napi_key = \"k\""), "p: api_key does not apply"),
        (provider("kind = \"openai\"\nbase_url = \"ftp://x\""), "is not a valid provider URL"),
        (
            provider("kind = \"openai\"\nbase_url = \"http://u:secret@x?q\""),
            "\"http://***@x?q\" is not a valid",
        ),
        (provider("kind = \"openai\"\napi_key = \"a\\nb\""), "header \"authorization\" cannot be sent"),
        (provider("kind = \"openai\"\napi_key_env = \"NONE\""), "variable NONE, which is not set"),
        (provider("kind = \"openai\"\napi_key_env = \"KEY\"\napi_key = \"k\""), "remove one"),
        ("[providers.\"a/b\"]\nkind = \"openai\"".into(), "\"a/b\" is not a valid provider name"),
        ("default = \"gpt\"".into(), "\"gpt\" is not a model name"),
        ("default = \"none/gpt\"".into(), "models.default: unknown provider \"none\""),
        ("[[rewrite]]\nfrom = \"*\"\nto = \"none/*\"\nreason = \"\"".into(), "unknown provider \"none\""),
        (
            "[[prices]]\nmodel = \"a*b\"\ninput_micros_usd = 1\noutput_micros_usd = 1".into(),
            "is not a model pattern",
        ),
    ] {
        let refused = build(&text).err().unwrap_or_else(|| panic!("{text} was accepted"));
        assert!(refused.contains(why), "{text}: {refused}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let settings: ModelsSettings = toml::from_str(
        "[providers.p]\nkind = \"openai\"\napi_key = \"hush\"\nheaders = { x-key = \"hush\" }",
    )
    .unwrap();
    assert!(!format!("{settings:?}").contains("hush"));
}

/// The limit of a model is found although a more specific pattern has other settings.
#[test]
fn the_most_specific_pattern_with_the_setting_limits_the_context() {
    let registry = build(
        r#"
        [providers.p]
        kind = "scripted"
        script = "demo.toml"
        models = { "*" = { context_tokens = 9 }, "a*" = { images = false }, "ab" = { context_tokens = 5 } }
        "#,
    )
    .unwrap();
    let model = &registry.models.by_name["p"];
    for (name, tokens) in [("x", 9), ("a", 9), ("ab", 5), ("abc", 9)] {
        assert_eq!(model.context_tokens(name), Some(tokens), "{name}");
    }
}
