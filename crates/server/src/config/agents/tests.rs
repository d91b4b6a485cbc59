//! Tests of agents in the configuration: every key, the defaults, and the message of each refusal.

use super::super::{Config, Options};
use super::*;

const MODELS: &str =
    "[models]\ndefault='local/a'\n[models.providers.local]\nkind='openai'\nbase_url='http://h/v1'\n";

fn settle_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("words.md"), "From a file.\n").unwrap();
    std::fs::write(folder.path().join("c.toml"), text).unwrap();
    let options =
        Options { config: Some(folder.path().join("c.toml")), data: Some("/d".into()), ..Options::default() };
    let lookup = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned()).or_else(|| (name == "HOME").then(|| "/h".to_owned()))
    };
    Config::settle(options, lookup).map_err(|why| why.to_string())
}

fn settle(agents: &str) -> Result<Agents, String> {
    settle_with(&format!("{MODELS}{agents}"), &[]).map(|config| config.agents)
}

fn profiles(agents: &Agents) -> Vec<Profile> {
    agents.profiles(&Tools::standard()).0.iter().cloned().collect()
}

#[test]
fn every_agent_key_is_read() {
    let agents = settle(
        "[agents.clerk]\ntitle='The clerk'\nversion='1.2.0-rc.1'\ndescription='Files things.'\nmodel='local/b'\n\
         system_file='words.md'\ntools=['read_file','grep']\nhidden_tools=['todo_write']\nhistory=['full']\n\
         client_tools=false\nimages=['https']\nthinking=true\nmax_turns=7\nmax_output_tokens=900\n\
         compact_above=5000\nworkspace='~/code'\nworkspace_mode='clone'\nnetwork=true\n\
         [[agents.clerk.options]]\nname='language'\ntype='text'\ntitle='Language'\ndescription='To speak'\ndefault='English'\n\
         [[agents.clerk.options]]\nname='model'\ntype='select'\nvalues=['local/b','local/c']\nsets='model'\n\
         [[agents.clerk.options]]\nname='key'\ntype='secret'\nsets='api_key'\n\
         [[agents.clerk.options]]\nname='turns'\ntype='text'\ndefault='3'\nsets='max_turns'\n",
    )
    .unwrap();
    let [clerk] = profiles(&agents).try_into().unwrap();
    assert_eq!((clerk.name.as_str(), clerk.version.as_str()), ("clerk", "1.2.0-rc.1"));
    assert_eq!((clerk.title.as_deref(), clerk.system.as_deref()), (Some("The clerk"), Some("From a file.")));
    let tools: Vec<_> = clerk.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["read_file", "grep"]);
    assert!(
        clerk.tools[0].parameters.text().contains("\"type\":\"object\""),
        "{}",
        clerk.tools[0].parameters.text()
    );
    assert!(!clerk.tools[0].description.is_empty());
    assert_eq!(clerk.hidden, ["todo_write"]);
    assert_eq!(
        clerk.capabilities,
        Capabilities {
            history_full: true,
            history_compacted: false,
            client_tools: false,
            images_http: true,
            images_data: false,
        }
    );
    assert_eq!(
        (clerk.max_turns, clerk.max_output_tokens, clerk.compact_above),
        (Some(7), Some(900), Some(5000))
    );
    assert_eq!(
        (clerk.workspace_source.as_deref(), clerk.workspace_mode.as_deref()),
        (Some("/h/code"), Some("clone"))
    );
    assert!(clerk.thinking && clerk.network);
    // A select without a default has its first value.
    let defaults: Vec<_> =
        clerk.options.iter().map(|option| (option.default.as_str(), option.sets)).collect();
    assert_eq!(
        defaults,
        [
            ("English", None),
            ("local/b", Some(OptionTarget::Model)),
            ("", Some(OptionTarget::ApiKey)),
            ("3", Some(OptionTarget::MaxTurns))
        ]
    );
}

#[test]
fn an_agent_without_keys_has_minimal_defaults() {
    let [clerk] = profiles(&settle("[agents.clerk]\n").unwrap()).try_into().unwrap();
    let least = Profile { name: "clerk".into(), version: "0.1.0".into(), ..Profile::default() };
    assert_eq!(clerk, least);
}

#[test]
fn a_default_model_without_agents_gives_the_assistant() {
    let [assistant] = profiles(&settle("").unwrap()).try_into().unwrap();
    assert_eq!(assistant.name, AGENT_DEFAULT);
    let tools: Vec<_> = assistant.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, Tools::standard().names().collect::<Vec<_>>());
    assert!(profiles(&settle("[agents]\n").unwrap()).is_empty());
    assert!(profiles(&settle_with("", &[]).unwrap().agents).is_empty());
}

#[tokio::test]
async fn agents_lose_command_tools_without_a_sandbox() {
    let agents =
        settle("[agents.clerk]\ntools=['shell_exec','read_file']\nhidden_tools=['git_diff']\n").unwrap();
    let (profiles, without) = agents.profiles(&Tools::standard());
    let clerk = profiles.get("clerk").unwrap();
    assert_eq!((clerk.tools.len(), clerk.hidden.len()), (1, 0));
    assert!(without[0].contains("clerk") && without[0].contains("shell_exec, git_diff"), "{without:?}");
}

#[test]
fn the_tools_that_run_commands_are_known() {
    use recount_agent::sandbox::{Layer, Sandbox, SandboxContext, SandboxSettings};
    let settings = SandboxSettings { mode: "off".parse().unwrap(), ..SandboxSettings::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sandbox = runtime.block_on(Sandbox::probe(settings, SandboxContext::default())).unwrap();
    assert_eq!(sandbox.layer(), Layer::Off);
    let mut tools = Tools::default();
    tools.add_commands(&std::sync::Arc::new(sandbox));
    assert_eq!(tools.names().collect::<Vec<_>>(), COMMAND_TOOLS);
}

#[test]
fn invalid_agent_keys_are_named() {
    let long = format!("[agents.{}]", "a".repeat(65));
    for (text, words) in [
        ("[agents.'a b']", ["agents", "a b", "letters"]),
        (&long, ["agents", "aaa", "64"]),
        ("[agents.'..']", ["agents", "..", "letters"]),
        ("[agents.a]\nversion='1.2'", ["agents.a.version", "\"1.2\"", "1.2.0"]),
        ("[agents.a]\ntools=['read_fil']", ["agents.a.tools", "read_fil", "did you mean `read_file`"]),
        ("[agents.a]\nmcp_servers=['x']", ["agents.a.mcp_servers", "\"x\"", "no MCP servers are configured"]),
        (
            "[agents.a]\nmcp_servers=['s','s']\n[mcp.servers.s]\ncommand=['x']",
            ["agents.a.mcp_servers", "\"s\"", "twice"],
        ),
        ("[agents.a]\nhidden_tools=['x']", ["agents.a.hidden_tools", "\"x\"", "available tools"]),
        ("[agents.a]\ntools=['grep','grep']", ["agents.a.tools", "grep", "twice"]),
        (
            "[agents.a]\ntools=['grep']\nhidden_tools=['grep']",
            ["agents.a.hidden_tools", "grep", "one of the two"],
        ),
        ("[agents.a]\nmodel='b'", ["agents.a.model", "\"b\"", "PROVIDER/MODEL"]),
        ("[agents.a]\nmodel='far/b'", ["agents.a.model", "\"far\"", "known providers: local"]),
        ("[agents.a]\nhistory=['all']", ["agents.a.history", "\"all\"", "full, compacted"]),
        ("[agents.a]\nimages=['file']", ["agents.a.images", "\"file\"", "data, https"]),
        ("[agents.a]\nmax_turns=0", ["agents.a.max_turns", "0", "at least 1"]),
        ("[agents.a]\nworkspace='code'", ["agents.a.workspace", "code", "absolute"]),
        ("[agents.a]\nworkspace_mode='copy'", ["agents.a.workspace_mode", "copy", "clone or in_place"]),
        ("[agents.a]\nworkspace_mode='in_place'", ["agents.a.workspace", "in_place", "folder"]),
        (
            "[agents.a]\nsystem='x'\nsystem_file='words.md'",
            ["agents.a.system_file", "system", "one of the two"],
        ),
        ("[agents.a]\nsystem_file='gone.md'", ["agents.a.system_file", "gone.md", "cannot be read"]),
        ("[agents.a]\nnetwrk=true", ["agents.a", "netwrk", "did you mean `network`"]),
        (
            "[[agents.a.options]]\nname='o'\ntype='text'\nvalu=['a']",
            ["agents.a.options", "valu", "did you mean `values`"],
        ),
        (
            "[[agents.a.options]]\nname='o'\ntype='number'",
            ["agents.a.options.o.type", "number", "text, secret or select"],
        ),
        ("[[agents.a.options]]\nname='o o'\ntype='text'", ["agents.a.options", "o o", "letters"]),
        (
            "[[agents.a.options]]\nname='o'\ntype='select'",
            ["agents.a.options.o.values", "select", "at least one"],
        ),
        (
            "[[agents.a.options]]\nname='o'\ntype='text'\nvalues=['a']",
            ["agents.a.options.o.values", "select", "remove it"],
        ),
        (
            "[[agents.a.options]]\nname='o'\ntype='select'\nvalues=['a','b']\ndefault='c'",
            ["agents.a.options.o.default", "\"c\"", "a, b"],
        ),
        (
            "[[agents.a.options]]\nname='o'\ntype='text'\n[[agents.a.options]]\nname='o'\ntype='text'",
            ["agents.a.options", "\"o\"", "twice"],
        ),
        (
            "[[agents.a.options]]\nname='o'\ntype='text'\nsets='api_key'",
            ["agents.a.options.o.sets", "secret", "api_key"],
        ),
        (
            "[[agents.a.options]]\nname='o'\ntype='secret'\nsets='model'",
            ["agents.a.options.o.sets", "secret", "api_key"],
        ),
        (
            "[[agents.a.options]]\nname='o'\ntype='text'\nsets='x'",
            ["agents.a.options.o.sets", "\"x\"", "max_turns"],
        ),
        (
            "[[agents.a.options]]\nname='o'\ntype='select'\nvalues=['local/a','far/b']\nsets='model'",
            ["agents.a.options.o.values", "far/b", "known providers: local"],
        ),
        (
            "[[agents.a.options]]\nname='o'\ntype='text'\ndefault='many'\nsets='max_turns'",
            ["agents.a.options.o.default", "many", "whole number"],
        ),
        (
            "[[agents.a.options]]\nname='o'\ntype='text'\nsets='max_turns'\n\
             [[agents.a.options]]\nname='p'\ntype='text'\nsets='max_turns'",
            ["agents.a.options.p.sets", "o", "one of the two"],
        ),
        (
            "[[agents.a.options]]\nname='o'\ntype='secret'\ndefault_env='GONE'",
            ["agents.a.options.o.default_env", "GONE", "not set"],
        ),
    ] {
        let why = settle(text).unwrap_err();
        assert!(words.iter().all(|word| why.contains(word)), "{text}: {why}");
    }
    let why = settle_with("[agents.a]\n", &[]).unwrap_err();
    assert!(why.contains("agents.a.model") && why.contains("models.default"), "{why}");
}

#[test]
fn defaults_of_secret_options_are_masked_and_never_shown() {
    let text = format!(
        "{MODELS}[[agents.a.options]]\nname='key'\ntype='secret'\ndefault='hush-from-all-of-us'\nsets='api_key'\n\
         [[agents.a.options]]\nname='other'\ntype='secret'\ndefault_env='OTHER'\n"
    );
    let config = settle_with(&text, &[("OTHER", "hush-as-well-as-that")]).unwrap();
    let known: Vec<_> = config.agents.secrets().iter().map(|secret| secret.reveal().to_owned()).collect();
    assert_eq!(known, ["hush-from-all-of-us", "hush-as-well-as-that"]);
    let debug_text = format!("{config:?}");
    assert!(debug_text.contains("agents") && !debug_text.contains("hush"), "{debug_text}");
    let setting = config.settings.iter().find(|setting| setting.key == "agents").unwrap();
    assert_eq!(setting.value, "a");
    // Messages about a neighbouring key must not repeat it either.
    for bad in [
        text.replace("'hush-from-all-of-us'", "73737373"),
        text.replace("'hush-from-all-of-us'", "'hush-from-all-of-us"),
        text.replace("sets='api_key'", "sets='model'"),
    ] {
        let why = settle_with(&bad, &[("OTHER", "hush-as-well-as-that")]).unwrap_err();
        assert!(!why.contains("hush") && !why.contains("7373"), "{why}");
    }
}

#[test]
fn an_agent_has_the_servers_it_names() {
    let text = "[agents.clerk]\ntools=['grep']\nhidden_tools=['todo_write']\nmcp_servers=['wiki']\n\
                [mcp.servers.wiki]\nurl='http://h/mcp'\n[mcp.servers.other]\ncommand=['x']\n";
    let [clerk] = profiles(&settle(text).unwrap()).try_into().unwrap();
    assert_eq!(clerk.hidden, ["todo_write", "mcp__wiki__*"]);
    assert_eq!(clerk.tools.len(), 1);
}
