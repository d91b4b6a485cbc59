//! Tests of configuration: sources of values, refusals, and the page `docs/configuration.md`.

use recount_agent::sandbox::{Mode, SandboxSettings};

use super::*;
use crate::settings::variable;

fn settle(options: Options, environment: &[(&str, &str)]) -> Result<Config, String> {
    let lookup =
        |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Config::settle(options, lookup).map_err(|why| why.to_string())
}

/// The bound TCP port.
fn port(config: &Config) -> u16 {
    config.bind.address.unwrap().port()
}

#[test]
fn flag_over_environment_over_file_over_default() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    std::fs::write(&file, "bind = \"127.0.0.1:1\"\ndata = \"/file\"\n[store]\ndurability = \"relaxed\"\n")
        .unwrap();
    let options = Options { config: Some(file), ..Options::default() };
    let from_file = settle(options.clone(), &[]).unwrap();
    assert_eq!((port(&from_file), from_file.data.as_path()), (1, Path::new("/file")));
    assert_eq!(from_file.durability, Durability::Relaxed);
    let from_environment = settle(options.clone(), &[("RECOUNT_BIND", "127.0.0.1:2")]).unwrap();
    assert_eq!(port(&from_environment), 2);
    let options = Options { bind: Some("localhost:3".into()), ..options };
    assert_eq!(port(&settle(options, &[("RECOUNT_BIND", "127.0.0.1:2")]).unwrap()), 3);
    let by_default = settle(Options::default(), &[("HOME", "/h")]).unwrap();
    assert_eq!(by_default.bind.address.unwrap().to_string(), "127.0.0.1:8765");
    assert_eq!(by_default.data, Path::new("/h/.local/share/recount"));
}

#[test]
fn a_server_binds_an_address_or_a_socket_or_both() {
    let bind = |text: &str| {
        let options = Options { bind: Some(text.to_owned()), ..Options::default() };
        settle(options, &[("HOME", "/h")]).map(|config| (config.bind, config.runs.workspaces.len()))
    };
    let address = Some("127.0.0.1:1".parse().unwrap());
    let socket = Some(PathBuf::from("/run/r.sock"));
    let expected = |address, socket: &Option<PathBuf>| (Bind { address, socket: socket.clone() }, 1);
    assert_eq!(bind("unix:/run/r.sock"), Ok(expected(None, &socket)));
    assert_eq!(bind("127.0.0.1:1, unix:/run/r.sock"), Ok(expected(address, &socket)));
    assert_eq!(bind("unix:/run/r.sock,localhost:1"), Ok(expected(address, &socket)));
    assert_eq!(bind("unix:/run/r.sock,0.0.0.0:1").unwrap().1, 0, "no usual workspace");
    let long = format!("unix:/{}", "x".repeat(200));
    for (bad, words) in [
        ("127.0.0.1:1,127.0.0.1:2", "one address and one socket at most"),
        ("unix:/a,unix:/b", "one address and one socket at most"),
        ("unix:a", "absolute path"),
        ("unix:/", "absolute path"),
        ("unix:/a:/b", "without a colon"),
        ("/run/r.sock", "unix:/run/recount/recount.sock"),
        (&long, "bytes after unix:"),
    ] {
        let why = bind(bad).unwrap_err();
        assert!(why.contains("for bind") && why.contains(words), "{why}");
    }
}

#[test]
fn users_of_the_socket_are_checked_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    let settle_text = |text: &str| {
        std::fs::write(&file, text).unwrap();
        settle(Options { config: Some(file.clone()), data: Some("/d".into()), ..Options::default() }, &[])
    };
    let ada = "[access.unix_users.ada]\nscopes=['read', 'approve']\n";
    let config =
        settle_text(&format!("{ada}[access.unix_users.1001]\nscopes=['run']\ntenant='acme'\n")).unwrap();
    let setting = config.settings.iter().find(|setting| setting.key == "access.unix_users").unwrap();
    assert_eq!(setting.value, "1001 (run of acme), ada (read approve of default)");
    for (wrong, words) in [
        (format!("{ada}scope=['run']\n"), "did you mean `scopes`"),
        ("[access.unix_users.ada]\nscopes=[]\n".to_owned(), "ada.scopes is empty"),
        ("[access.unix_users.ada]\nscopes=['write']\n".to_owned(), "unix_users.ada"),
        (format!("{ada}tenant='A/B'\n"), "ada.tenant"),
        (ada.replace("ada", "65534"), "65534: many users can have this number"),
        (ada.replace("ada", "01000"), "01000: invalid number"),
        (ada.replace("ada", "5000000000"), "invalid number"),
        (format!("[access]\nrequire_token=true\n{ada}"), "has no effect"),
    ] {
        let why = settle_text(&wrong).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn every_setting_has_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    std::fs::write(&file, "bind = \"127.0.0.1:1\"\n[store]\ndurability = \"relaxed\"\n").unwrap();
    let options =
        Options { config: Some(file.clone()), bind: Some("127.0.0.1:2".into()), ..Options::default() };
    let environment = [("RECOUNT_LOG", "warn"), ("RECOUNT_BIND", "127.0.0.1:3"), ("RECOUNT_LOG__FORMAT", "")];
    let config = settle(Options { data: Some("/d".into()), ..options }, &environment).unwrap();
    let setting = |key: &str| {
        let setting = config.settings.iter().find(|setting| setting.key == key).unwrap();
        (setting.value.clone(), setting.source.to_string())
    };
    let expected = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    assert_eq!(setting("bind"), expected("127.0.0.1:2", "flag"));
    assert_eq!(setting("log.level"), expected("warn", "environment RECOUNT_LOG"));
    assert_eq!(setting("store.durability"), expected("relaxed", &format!("file {}", file.display())));
    assert_eq!(setting("log.format"), expected("text", "default"));
    assert_eq!(setting("retention.sweep_every"), expected("10m", "default"));
    // No setting is left out, and none comes twice.
    for row in table::rows() {
        assert_eq!(config.settings.iter().filter(|setting| setting.key == row.key).count(), 1, "{}", row.key);
    }
    assert_eq!(config.settings.len(), table::rows().len() + 12, "settings that only the file has");
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
fn web_keys_are_never_shown_and_errors_name_the_setting() {
    let with = |text: &str, environment: &[(&str, &str)]| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, text).unwrap();
        settle(Options { config: Some(file), data: Some("/d".into()), ..Options::default() }, environment)
    };
    let text = "[web]\nprivate_hosts=['wiki.corp', '10.1.0.0/16']\n\
                [web.hosts.'api.example.com']\nheaders={X-Key='hidden-from-all'}\n\
                [web.search]\nurl='https://s.example/?key=also-hidden&q={query}'\nheaders_env={X-Token='TOKEN'}\n";
    let config = with(text, &[("TOKEN", "hidden-in-a-variable")]).unwrap();
    let setting =
        |key: &str| config.settings.iter().find(|setting| setting.key == key).unwrap().value.clone();
    assert_eq!(setting("web.private_hosts"), "wiki.corp, 10.1.0.0/16");
    assert_eq!(
        (setting("web.hosts"), setting("web.search")),
        ("api.example.com".to_owned(), "s.example".to_owned())
    );
    assert!(!format!("{config:?}").contains("hidden-"), "{config:?}");
    let secrets = config.runs.web.secrets();
    let known: Vec<&str> = secrets.iter().map(recount_agent::model::Secret::reveal).collect();
    assert_eq!(known, ["hidden-from-all", "hidden-in-a-variable"]);
    for (text, words) in [
        (
            "[web]\nprivate_hosts=['http://x/']",
            "invalid value \"http://x/\" for web.private_hosts; use a host",
        ),
        ("[web]\nprivate_host=['x']", "did you mean `private_hosts`"),
        ("[web.search]\nurl='https://s.example/{query}'\nsnipet='/x'", "did you mean `snippet`"),
        ("[web.search]\nurl='https://s.example/'", "web.search.url"),
        (
            "[web.search]\nurl='https://s.example/{query}'\nheaders_env={X='NONE'}",
            "the variable NONE is not set",
        ),
        ("[web.hosts.'a/b']\nheaders={X='y'}", "web.hosts.\"a/b\": it is not a valid host"),
    ] {
        let why = with(text, &[]).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn a_database_is_configured_like_other_settings_and_its_password_is_never_shown() {
    let url = "postgres://u:unseen@db.example/recount?sslmode=require";
    let setting = |config: &Config| {
        config.settings.iter().find(|setting| setting.key == "store.url").unwrap().value.clone()
    };
    let by_variable = settle(Options::default(), &[("HOME", "/h"), ("RECOUNT_STORE", url)]).unwrap();
    let options = Options { store: Some(url.into()), ..Options::default() };
    let by_flag = settle(options.clone(), &[("HOME", "/h"), ("RECOUNT_STORE", "none")]).unwrap();
    for config in [&by_variable, &by_flag] {
        assert_eq!(config.store.as_ref().unwrap().reveal(), url);
        assert_eq!(setting(config), "postgres://u:***@db.example/recount?sslmode=require");
        assert!(!format!("{config:?}").contains("unseen"), "{config:?}");
    }
    let embedded = settle(Options::default(), &[("HOME", "/h")]).unwrap();
    assert_eq!((embedded.store.as_ref(), setting(&embedded).as_str()), (None, "none"));
    let refused = |options: Options, words: &str| {
        let why = settle(options, &[("HOME", "/h")]).unwrap_err();
        assert!(why.contains(words) && !why.contains("unseen"), "{why}");
    };
    for wrong in ["mysql://u:unseen@h/db", "host=h password=unseen", "postgres://u:unseen @h/db"] {
        let options = Options { store: Some(wrong.into()), ..Options::default() };
        refused(options, "for store.url; use postgres://USER@HOST/DATABASE");
    }
    refused(Options { in_memory: true, ..options.clone() }, "in memory only");
    refused(Options { accept_loss_after: vec![1], ..options }, "to a point in time");
    refused(Options { data: Some(url.into()), ..Options::default() }, "--store names a database");
}

#[test]
fn sign_in_needs_a_store_that_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    let text = "public_url='https://r.example'\n[access]\nrequire_token=true\n[sign_in]\nissuer='https://id.example'\n\
                client_id='r'\n[[sign_in.grants]]\ngroup='g'\nscopes=['read']\n";
    std::fs::write(&file, text).unwrap();
    let options = Options { config: Some(file), data: Some("/d".into()), ..Options::default() };
    assert!(settle(options.clone(), &[]).unwrap().sign_in.is_some());
    let why = settle(Options { data: None, in_memory: true, ..options }, &[("HOME", "/h")]).unwrap_err();
    assert!(why.contains("sign_in needs a data folder"), "{why}");
}

#[test]
fn provider_keys_are_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    let text = "[models.providers.a]\nkind='openai'\napi_key='sk-hidden-from-all'\nbase_url='http://h/v1'\n\
                headers={x-api-key='also-hidden'}\n";
    std::fs::write(&file, text).unwrap();
    let options = Options { config: Some(file), data: Some("/d".into()), ..Options::default() };
    let config = settle(options, &[]).unwrap();
    let setting =
        |key: &str| config.settings.iter().find(|setting| setting.key == key).unwrap().value.clone();
    assert_eq!(setting("models.providers"), "a (openai at http://h/v1)");
    let looked_at = format!("{config:?}");
    assert!(!looked_at.contains("sk-hidden") && !looked_at.contains("also-hidden"), "{looked_at}");
    let why = settle(Options::default(), &[("HOME", "/h"), ("RECOUNT_MODELS__DEFAULT", "x")]).unwrap_err();
    assert!(why.contains("models.default"), "{why}");
}

#[test]
fn allowed_workspaces_depend_on_access() {
    let home = ("HOME", "/h");
    let allowed = |options: Options, environment: &[(&str, &str)]| {
        let environment = [&[home], environment].concat();
        settle(options, &environment).map(|config| config.runs.workspaces)
    };
    assert_eq!(allowed(Options::default(), &[]).unwrap(), [Path::new("/h")]);
    let none: [&Path; 0] = [];
    // If clients of other machines have access, local defaults are off unless configured.
    let locked = Options { require_token: true, ..Options::default() };
    assert_eq!(allowed(locked, &[]).unwrap(), none);
    let open = Options { bind: Some("0.0.0.0:1".into()), ..Options::default() };
    assert_eq!(allowed(open, &[]).unwrap(), none);
    let named = [("RECOUNT_WORKSPACES__ALLOW", "~/code, /srv")];
    assert_eq!(allowed(Options::default(), &named).unwrap(), [Path::new("/h/code"), Path::new("/srv")]);
    let flag = Options { workspaces: vec!["/a".into(), "/b".into()], ..Options::default() };
    assert_eq!(allowed(flag, &named).unwrap(), [Path::new("/a"), Path::new("/b")]);
    for bad in ["a", "./a", "~other"] {
        let why = allowed(Options { workspaces: vec![bad.into()], ..Options::default() }, &[]).unwrap_err();
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

/// The typed values, each as debug text.
fn values(config: Option<&Path>, environment: &[(&str, &str)]) -> Vec<String> {
    let lookup =
        |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let (file, path) = file::read(config, &lookup).unwrap();
    let mut lookup = Lookup::new(&lookup, path, file.values);
    let place = DefaultContext { data: "/d".to_owned(), has_home: false, passed: Bind::default() };
    Values::read(&mut lookup, &Options::default(), &place).unwrap().debug_texts()
}

/// The example of the page differs from the default of each setting, and a variable means the same as the file.
#[test]
fn the_example_of_the_page_sets_every_setting() {
    let page = include_str!("../../../../docs/configuration.md");
    let (_, example) = page.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    std::fs::write(&path, example).unwrap();
    let options = Options { config: Some(path.clone()), ..Options::default() };
    let config = settle(options, &[]).unwrap();
    let (default, from_file) = (values(None, &[]), values(Some(&path), &[]));
    for (place, row) in table::rows().iter().enumerate() {
        let setting = config.settings.iter().find(|setting| setting.key == row.key).unwrap();
        if row.kind == table::SettingKind::Hidden {
            assert_eq!(setting.source, crate::Source::Default);
            continue;
        }
        assert_eq!(setting.source, crate::Source::File(path.clone()), "{}", row.key);
        assert_ne!(from_file[place], default[place], "{}", row.key);
        let by_variable = values(None, &[(&variable(row.key), &setting.value)]);
        assert_eq!(by_variable[place], from_file[place], "{}", row.key);
    }
    assert_eq!((port(&config), config.data.as_path()), (9000, Path::new("/var/lib/recount")));
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let retention = Policy { max_age: Some(days(30)), max_events: Some(5_000_000), max_bytes: Some(5 << 30) };
    assert_eq!((config.durability, config.retention), (Durability::Relaxed, retention));
    assert_eq!(config.sweep_every, Duration::from_secs(30 * 60));
    let artifacts = ArtifactQuota { task_bytes: 1 << 30, task_count: 50_000, upload_bytes: 256 << 20 };
    assert_eq!(config.artifacts, artifacts);
    let access = Access {
        require_token: true,
        allowed_origins: vec!["https://app.example".into()],
        requests_per_second: Some(200),
        ..Access::default()
    };
    assert_eq!(config.access, access);
    let redaction = Redaction {
        detectors: false,
        environment: false,
        secret_env: vec!["BILLING_LOGIN".into()],
        secret_files: vec!["/run/secrets/database".into()],
    };
    assert_eq!(config.redaction, redaction);
    assert_eq!((config.log.to_string().as_str(), config.log_format), ("warn", LogFormat::Json));
    let runs = &config.runs;
    assert_eq!((runs.at_once, runs.tools_at_once, runs.mcp_at_once), (8, 4, 2));
    assert_eq!(runs.keep, Some(days(30)));
    assert_eq!((&*runs.workspaces, runs.workspace_instructions), (&["/srv/projects".into()][..], false));
    let sandbox = SandboxSettings {
        mode: Mode::Landlock,
        strict: true,
        readable: vec!["~/.cargo".into()],
        hidden: vec!["/srv/projects/secret".into()],
        environment: [("CARGO_TERM_COLOR".into(), "never".into())].into(),
        memory_bytes: 2 << 30,
        processes: 256,
        file_bytes: 1 << 30,
        tmp_bytes: 512 << 20,
        workspace_bytes: 20 << 30,
    };
    assert_eq!(runs.sandbox, sandbox);
    assert_eq!(runs.policy.as_deref(), Some(Path::new("/etc/recount/policy.toml")));
    assert_eq!(runs.models.default.as_ref().unwrap().to_string(), "local/qwen3:8b");
    assert_eq!(
        (config.aap.base_paths.last().unwrap().as_str(), config.aap.public_meta),
        ("/acme/agents", true)
    );
}

#[test]
fn the_variables_of_opentelemetry_apply_if_nothing_else_is_set() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
    let home = ("HOME", "/h");
    let shown = |environment: &[(&str, &str)]| {
        let config = settle(Options::default(), &[environment, &[home]].concat()).unwrap();
        let setting = config.settings.iter().find(|setting| setting.key == "otel.endpoint").unwrap();
        let endpoint = config.otel.and_then(|export| export.endpoint);
        (endpoint.map(|endpoint| endpoint.shown()), setting.source.to_string())
    };
    let off = (None, "default".to_owned());
    assert_eq!(shown(&[]), off);
    let collector = Some("http://collector:4318/v1/traces".to_owned());
    let source = "environment OTEL_EXPORTER_OTLP_ENDPOINT".to_owned();
    assert_eq!(shown(&[endpoint]), (collector.clone(), source.clone()));
    assert_eq!(shown(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")]), (collector, source));
    assert_eq!(shown(&[endpoint, ("RECOUNT_OTEL__ENDPOINT", "none")]).0, None);
    // These are for other programs, or switch them off.
    for other in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
    ] {
        assert_eq!(shown(&[other, endpoint]), off, "{other:?}");
    }
    assert_eq!(shown(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")]), off, "no reason not to start");
    let why = settle(Options::default(), &[home, ("RECOUNT_OTEL__ENDPOINT", "collector:4317")]).unwrap_err();
    assert!(why.contains("otel.endpoint") && why.contains("collector:4317"), "{why}");
}

#[test]
fn logs_go_beside_the_traces_or_to_an_address_of_their_own() {
    let home = ("HOME", "/h");
    let shown = |environment: &[(&str, &str)]| {
        let config = settle(Options::default(), &[environment, &[home]].concat()).unwrap();
        let export = config.otel?;
        let shown = |endpoint: Option<recount_otel::Endpoint>| endpoint.map(|endpoint| endpoint.shown());
        Some((
            shown(export.endpoint.clone()),
            shown(export.logs.clone()),
            export.lines().into_iter().flatten().count(),
        ))
    };
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
    let traces = Some("http://collector:4318/v1/traces".to_owned());
    let beside = Some("http://collector:4318/v1/logs".to_owned());
    let loki = Some("http://loki:3100/otlp/v1/logs".to_owned());
    let own = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://loki:3100/otlp/v1/logs");
    let on = ("OTEL_LOGS_EXPORTER", "console,otlp");
    assert_eq!(shown(&[endpoint]), Some((traces.clone(), None, 1)));
    assert_eq!(shown(&[endpoint, own]), Some((traces.clone(), None, 1)), "not without otel.logs");
    assert_eq!(shown(&[endpoint, on]), Some((traces.clone(), beside.clone(), 2)));
    assert_eq!(shown(&[endpoint, ("RECOUNT_OTEL__LOGS", "true")]), Some((traces.clone(), beside, 2)));
    assert_eq!(shown(&[endpoint, on, own]), Some((traces.clone(), loki.clone(), 2)));
    assert_eq!(shown(&[on, own]), Some((None, loki.clone(), 1)), "logs alone");
    let metrics = ("RECOUNT_OTEL__METRICS", "true");
    assert_eq!(shown(&[on, own, metrics]), Some((None, loki, 2)), "metrics have no address of their own");
    assert_eq!(shown(&[on]), Some((None, None, 1)), "the line names the missing endpoint");
    for off in [
        ("OTEL_LOGS_EXPORTER", "console"),
        ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc"),
        ("RECOUNT_OTEL__LOGS", "false"),
    ] {
        assert_eq!(shown(&[off, endpoint, on, own]), Some((traces.clone(), None, 1)), "{off:?}");
    }
}

#[test]
fn headers_of_the_export_come_from_a_variable() {
    let environment = [("HOME", "/h"), ("RECOUNT_OTEL__ENDPOINT", "http://collector:4318")];
    let export = |more: &[(&str, &str)]| {
        let all = [&environment, more].concat();
        let lookup =
            |name: &str| all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let config = Config::settle(Options::default(), lookup).unwrap();
        let settings = config.otel.unwrap().settings(&lookup).map_err(|why| why.to_string());
        settings.map(|export| export.headers.secrets().map(str::to_owned).collect::<Vec<_>>())
    };
    assert_eq!(export(&[]), Ok(vec![]));
    let standard = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc");
    assert_eq!(export(&[standard]), Ok(vec!["abc".to_owned()]));
    assert_eq!(export(&[standard, ("RECOUNT_OTEL__HEADERS_ENV", "none")]), Ok(vec![]));
    let named = ("RECOUNT_OTEL__HEADERS_ENV", "MINE");
    assert_eq!(export(&[standard, named, ("MINE", "x=def")]), Ok(vec!["def".to_owned()]));
    assert!(
        export(&[standard, named]).unwrap_err().contains("the variable MINE of otel.headers_env is not set")
    );
    let why = export(&[named, ("MINE", "secret-without-a-name")]).unwrap_err();
    assert!(why.contains("MINE") && !why.contains("secret-without"), "{why}");
}

#[test]
fn logs_never_go_to_another_address_than_the_named_one() {
    let shown = |environment: &[(&str, &str)]| {
        let config = settle(Options::default(), &[environment, &[("HOME", "/h")]].concat()).unwrap();
        let export = config.otel.unwrap();
        let logs = export.logs.clone().map(|endpoint| endpoint.shown());
        (logs, export.lines()[1].clone().unwrap_or_default())
    };
    let vendor = ("RECOUNT_OTEL__ENDPOINT", "https://vendor.example/otlp");
    let on = ("RECOUNT_OTEL__LOGS", "true");
    let loki = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://loki:3100/otlp/v1/logs");
    let grpc = ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc");
    let login = (loki.0, "http://user:word@loki:3100/otlp/v1/logs");
    for unusable in [&[vendor, on, login][..], &[vendor, on, loki, grpc], &[on, login]] {
        let (logs, line) = shown(unusable);
        assert_eq!(logs, None, "{unusable:?}");
        assert!(line.contains("exports nothing: OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"), "{line}");
        assert!(!line.contains("word"), "{line}");
    }
    let own = ("RECOUNT_OTEL__LOGS_ENDPOINT", "http://own:3100/v1/logs");
    assert_eq!(shown(&[vendor, on, login, own]).0.as_deref(), Some(own.1), "a setting replaces it");
    assert_eq!(shown(&[vendor, login]).1, "", "logs are off");
}

#[test]
fn the_standard_variables_can_export_only_logs() {
    let shown = |environment: &[(&str, &str)]| {
        let export = settle(Options::default(), &[environment, &[("HOME", "/h")]].concat()).unwrap().otel?;
        Some((export.endpoint.is_some(), export.logs?.shown()))
    };
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base");
    let on = ("OTEL_LOGS_EXPORTER", "otlp");
    let only_logs = Some((false, "http://collector:4318/base/v1/logs".to_owned()));
    let no_traces = ("OTEL_TRACES_EXPORTER", "none");
    assert_eq!(shown(&[endpoint, on, no_traces]), only_logs);
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let http = ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf");
    assert_eq!(shown(&[endpoint, on, grpc, http]), only_logs);
    assert_eq!(shown(&[endpoint, on, no_traces, ("RECOUNT_OTEL__ENDPOINT", "none")]), None);
    assert_eq!(shown(&[endpoint, no_traces]), None, "logs are off");
    assert_eq!(shown(&[endpoint, on, no_traces, ("OTEL_SDK_DISABLED", "true")]), None);
}

#[test]
fn headers_of_traces_are_not_sent_to_another_server() {
    let logs_headers = |more: &[(&str, &str)]| {
        let all = [&[("HOME", "/h"), ("RECOUNT_OTEL__LOGS", "true")], more].concat();
        let lookup =
            |name: &str| all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let export = Config::settle(Options::default(), lookup).unwrap().otel.unwrap();
        let settings = export.settings(&lookup).map_err(|why| why.to_string())?;
        let secrets = settings.logs_headers.secrets().map(str::to_owned).collect::<Vec<_>>();
        Ok::<_, String>((
            secrets.join(","),
            export.lines()[1].clone().unwrap_or_default().contains("not sent"),
        ))
    };
    let vendor = ("RECOUNT_OTEL__ENDPOINT", "https://vendor.example/otlp");
    let shared = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc");
    let loki = ("RECOUNT_OTEL__LOGS_ENDPOINT", "http://loki:3100/otlp/v1/logs");
    let same = ("RECOUNT_OTEL__LOGS_ENDPOINT", "https://vendor.example:443/logs");
    let plain = ("RECOUNT_OTEL__LOGS_ENDPOINT", "http://vendor.example/logs");
    let own = ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "x=own");
    assert_eq!(logs_headers(&[vendor, shared]), Ok(("abc".to_owned(), false)));
    assert_eq!(logs_headers(&[vendor, shared, same]), Ok(("abc".to_owned(), false)));
    assert_eq!(logs_headers(&[shared, loki]), Ok(("abc".to_owned(), false)), "no other server has them");
    for other in [loki, plain] {
        assert_eq!(logs_headers(&[vendor, shared, other]), Ok((String::new(), true)), "{other:?}");
        assert_eq!(logs_headers(&[vendor, shared, other, own]).unwrap().0, "own");
    }
    assert_eq!(logs_headers(&[vendor, shared, own]).unwrap().0, "own", "they replace the shared ones");
    let named = ("RECOUNT_OTEL__LOGS_HEADERS_ENV", "MINE");
    assert_eq!(logs_headers(&[vendor, shared, loki, named, ("MINE", "x=def")]).unwrap().0, "def");
    let why = logs_headers(&[vendor, shared, loki, named]).unwrap_err();
    assert!(why.contains("the variable MINE of otel.logs_headers_env is not set"), "{why}");
    assert_eq!(logs_headers(&[vendor, own, ("RECOUNT_OTEL__LOGS_HEADERS_ENV", "none")]).unwrap().0, "");
}

/// The table of the page is made of the rows; `RECOUNT_BLESS=1` writes it again.
#[test]
fn the_configuration_page_matches_the_settings() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(path).unwrap();
    let code = |text: &str| format!("`{text}`");
    let shown = |default: &str| match default {
        "none" => default.to_owned(),
        text if text.contains('`') => text.to_owned(),
        text => code(text),
    };
    let rows = table::rows().into_iter().filter(|row| row.kind != table::SettingKind::Hidden);
    let rows = rows.map(|row| {
        let flag = row.flag.map(|flag| format!(" {}", code(flag))).unwrap_or_default();
        let (key, variable, default) = (code(row.key), code(&variable(row.key)), shown(&row.default));
        format!("| {key} |{flag} | {variable} | {default} | {} |\n", row.values)
    });
    let table: String = rows.collect();
    let (before, rest) = page.split_once("\n| `").unwrap();
    let after = rest.rsplit_once("\n| `").and_then(|(_, last)| last.split_once('\n')).unwrap().1;
    let expected = format!("{before}\n{table}{after}");
    if std::env::var_os("RECOUNT_BLESS").is_some() {
        std::fs::write(path, expected).unwrap();
        return;
    }
    assert!(page == expected, "docs/configuration.md is not as the settings are; run with RECOUNT_BLESS=1");
}

#[test]
fn hooks_are_checked_and_their_variables_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    let text = "[hooks.guard]\nevent='PreToolUse'\ncommand=['./guard']\nenv={KEY='hush-from-all-of-us'}\n";
    std::fs::write(&file, text).unwrap();
    let options = || Options { config: Some(file.clone()), data: Some("/d".into()), ..Options::default() };
    let config = settle(options(), &[]).unwrap();
    let setting = config.settings.iter().find(|setting| setting.key == "hooks").unwrap();
    let program = folder.path().join("guard");
    assert_eq!(setting.value, format!("guard (PreToolUse: {})", program.display()));
    let known: Vec<&str> = config.runs.hooks.secrets().iter().map(|secret| secret.reveal()).collect();
    assert_eq!(known, ["hush-from-all-of-us"]);
    assert!(!format!("{config:?}").contains("hush"));
    for (wrong, words) in [
        ("on_failur='open'", ["hooks.guard", "did you mean `on_failure`"]),
        ("matcher='Bash'", ["hooks.guard.matcher", "shell_exec"]),
    ] {
        std::fs::write(&file, format!("{text}{wrong}\n")).unwrap();
        let why = settle(options(), &[]).unwrap_err();
        assert!(words.iter().all(|word| why.contains(word)) && !why.contains("hush"), "{why}");
    }
}
