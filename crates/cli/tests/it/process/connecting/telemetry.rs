//! `recount connect claude --telemetry`: variables in real settings files, next to those of the user.

use std::process::Command;

use serde_json::{Value, json};

use super::{Home, SETTINGS, URL, json_of, round_with, server_with_tokens};
use crate::server::CommandOutput;

/// What `--telemetry` adds to an `env` without variables.
fn variables() -> Value {
    json!({
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
        "OTEL_EXPORTER_OTLP_ENDPOINT": format!("{URL}/otlp"),
        "OTEL_LOGS_EXPORT_INTERVAL": "1000",
    })
}

/// [`variables`] with other values.
fn variables_with(others: &[(&str, &str)]) -> Value {
    let mut variables = variables();
    for (name, value) in others {
        variables[*name] = json!(value);
    }
    variables
}

#[test]
fn settings_with_telemetry_come_back_to_the_byte() {
    for content in [
        "{}",
        "{ \"env\": { } }",
        "{\r\n\t\"env\": {\"A\": \"b\"},\r\n\t\"model\": \"opus\"\r\n}\r\n",
        "{\n  \"env\": {\n    \"OTEL_LOGS_EXPORTER\": \"otlp\"\n  },\n  \"hooks\": {\"Stop\": []}\n}\n",
    ] {
        round_with("claude", &["--telemetry"], SETTINGS, content);
        round_with("claude", &["--telemetry", "--command", "--ask"], SETTINGS, content);
    }
}

#[test]
fn telemetry_is_on_request_and_replaced_like_hooks() {
    let home = Home::new();
    let hint = "tokens and cost are not recorded; repeat the command with --telemetry";
    let plain = home.connect(&["claude"]);
    assert!(plain.words.contains(hint), "{plain:?}");
    assert_eq!(json_of(&home.read(SETTINGS))["env"], Value::Null);
    let status = home.connect(&["claude", "--status"]).good();
    assert!(
        status.contains("tokens and cost are not recorded; repeat recount connect with --telemetry"),
        "{status}"
    );
    assert_eq!(json_of(&home.connect(&["claude", "--status", "--json"]).good())["telemetry"], Value::Null);

    let done = home.connect(&["claude", "--telemetry"]);
    assert!(!done.words.contains("not recorded"), "{done:?}");
    let settings = json_of(&home.read(SETTINGS));
    assert_eq!((&settings["env"], &settings["otelHeadersHelper"]), (&variables(), &Value::Null));
    let status = home.connect(&["claude", "--status"]).good();
    let words = format!("tokens and cost are recorded: telemetry is sent to {URL}/otlp\n");
    assert!(status.contains(&words), "{status}");
    let status = json_of(&home.connect(&["claude", "--status", "--json"]).good());
    assert_eq!(status["telemetry"], format!("{URL}/otlp"));

    // The address of another server replaces ours, and no option removes it.
    let other = "http://127.0.0.1:10";
    home.connect(&["claude", "--telemetry", "--url", other]).good();
    let endpoint = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:10/otlp")];
    assert_eq!(json_of(&home.read(SETTINGS))["env"], variables_with(&endpoint));
    home.connect(&["claude"]).good();
    assert_eq!(json_of(&home.read(SETTINGS))["env"], Value::Null);
    home.connect(&["claude", "--telemetry"]).good();
    home.connect(&["claude", "--remove"]).good();
    assert!(home.files().is_empty());
}

#[test]
fn values_of_the_user_stay_before_and_after() {
    let env = |variables: &[(&str, &str)]| json!({"env": variables_with(variables)}).to_string();
    let endpoint = format!("{URL}/otlp/");
    // In the settings, in the environment, and the variables after connect.
    for (before, environment, after) in [
        (
            json!({}),
            vec![("OTEL_LOGS_EXPORT_INTERVAL", "5000")],
            env(&[("OTEL_LOGS_EXPORT_INTERVAL", "5000")]),
        ),
        (json!({}), vec![("OTEL_EXPORTER_OTLP_PROTOCOL", "")], env(&[])),
        (
            json!({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}),
            vec![("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            env(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")]),
        ),
        (
            json!({
                "CLAUDE_CODE_ENABLE_TELEMETRY": "true",
                "OTEL_LOGS_EXPORTER": "console, otlp",
                "OTEL_EXPORTER_OTLP_ENDPOINT": &endpoint,
                "A": "b",
            }),
            vec![("OTEL_METRICS_EXPORTER", "prometheus")],
            env(&[
                ("CLAUDE_CODE_ENABLE_TELEMETRY", "true"),
                ("OTEL_LOGS_EXPORTER", "console, otlp"),
                ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
                ("OTEL_METRICS_EXPORTER", "prometheus"),
                ("A", "b"),
            ]),
        ),
        (
            json!({"OTEL_EXPORTER_OTLP_ENDPOINT": &endpoint}),
            vec![],
            env(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]),
        ),
    ] {
        let content = json!({"env": before}).to_string();
        let home = Home::with(SETTINGS, &content);
        let mut command = home.command(&["claude", "--telemetry"]);
        CommandOutput::of(command.envs(environment)).good();
        assert_eq!(json_of(&home.read(SETTINGS))["env"], json_of(&after)["env"], "{content}");
        // Something else changes, so the copy is not what is restored.
        let changed = home.read(SETTINGS).replacen('{', "{\"new\": 1, ", 1);
        home.write(SETTINGS, &changed);
        home.connect(&["claude", "--remove"]).good();
        assert_eq!(json_of(&home.read(SETTINGS)), json!({"new": 1, "env": before}));
    }
}

#[test]
fn telemetry_that_goes_elsewhere_is_named_and_nothing_changes() {
    let elsewhere = "https://otel.example:4318";
    let ours = format!("{URL}/otlp");
    let all = |name: &str, value: &str| json!({"env": variables_with(&[(name, value)])});
    let one = |name: &str, value: &str| json!({"env": {name: value}});
    let none = || json!({});
    let goes = format!("forward it to {ours} as well");
    for (settings, environment, why) in [
        (
            one("OTEL_EXPORTER_OTLP_ENDPOINT", elsewhere),
            ("", ""),
            &*format!("is \"{elsewhere}\" in env: telemetry"),
        ),
        (one("OTEL_EXPORTER_OTLP_ENDPOINT", ""), ("", ""), "is \"\" in env: "),
        (all("OTEL_EXPORTER_OTLP_ENDPOINT", elsewhere), ("", ""), &*goes),
        (all("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", elsewhere), ("", ""), &*goes),
        (none(), ("OTEL_EXPORTER_OTLP_ENDPOINT", elsewhere), "in the environment of this command: telemetry"),
        (json!({"env": variables()}), ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", elsewhere), &*goes),
        (one("CLAUDE_CODE_ENABLE_TELEMETRY", "0"), ("", ""), "is \"0\" in env: telemetry is turned off"),
        (
            json!({"env": {"CLAUDE_CODE_ENABLE_TELEMETRY": 0}}),
            ("", ""),
            "is \"0\" in env: telemetry is turned off",
        ),
        (one("OTEL_LOGS_EXPORTER", "console"), ("", ""), "is \"console\" in env: log events"),
        (one("OTEL_METRICS_EXPORTER", "otlp"), ("", ""), "the server does not accept them"),
        (one("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("", ""), "only http/json and http/protobuf"),
        (none(), ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc"), "only http/json and http/protobuf"),
        (
            one("OTEL_EXPORTER_OTLP_HEADERS", "a=a-secret"),
            ("", ""),
            "OTEL_EXPORTER_OTLP_HEADERS is set in env: ",
        ),
        (
            none(),
            ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "a=a-secret"),
            &*format!("it would be sent to {ours}, too"),
        ),
        (
            one("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=a-secret"),
            ("", ""),
            &*format!("OTEL_EXPORTER_OTLP_TRACES_HEADERS is set in env: it would be sent to {ours}, too"),
        ),
        (
            none(),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "a=a-secret"),
            &*format!("it would be sent to {ours}, too"),
        ),
        (json!({"otelHeadersHelper": "print a-secret"}), ("", ""), "otelHeadersHelper is set: its headers"),
        (json!({"env": []}), ("", ""), "\"env\" is an array, not an object"),
    ] {
        let content = settings.to_string();
        let home = Home::with(SETTINGS, &content);
        for arguments in [&["claude", "--telemetry"][..], &["claude", "--telemetry", "--dry-run"]] {
            let mut command = home.command(arguments);
            if !environment.0.is_empty() {
                command.env(environment.0, environment.1);
            }
            let answer = CommandOutput::of(&mut command);
            assert_eq!(answer.status, 1, "{content} {environment:?}: {answer:?}");
            assert!(answer.words.contains(why), "{content} {environment:?}: {answer:?}");
            assert!(answer.words.contains("nothing was changed"), "{answer:?}");
            assert!(!answer.words.contains("a-secret"), "{answer:?}");
        }
        assert_eq!(home.files(), [(home.path(SETTINGS), content.clone().into_bytes())]);
        // Without the option, only hooks are added.
        if settings["env"].is_object() {
            home.connect(&["claude"]).good();
            assert_eq!(json_of(&home.read(SETTINGS))["env"], settings["env"]);
        }
    }
}

#[test]
fn telemetry_that_goes_to_the_default_address_is_not_diverted() {
    let on = |name: &str| json!({"env": {"CLAUDE_CODE_ENABLE_TELEMETRY": "1", name: "otlp"}});
    let with = |mut settings: Value, name: &str, value: &str| {
        settings["env"][name] = json!(value);
        settings
    };
    let logs = || on("OTEL_LOGS_EXPORTER");
    let traces = || on("OTEL_TRACES_EXPORTER");
    let of_traces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    for (settings, environment, why) in [
        (logs(), ("", ""), "OTEL_LOGS_EXPORTER is \"otlp\" in env: without OTEL_EXPORTER_OTLP_ENDPOINT"),
        (with(logs(), of_traces, "http://a.example"), ("", ""), "default address http://localhost:4318, and"),
        (with(logs(), "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("", ""), "address http://localhost:4317, and"),
        (traces(), ("", ""), "OTEL_TRACES_EXPORTER is \"otlp\" in env: without OTEL_EXPORTER_OTLP_ENDPOINT"),
        (
            json!({"env": {"OTEL_LOGS_EXPORTER": "otlp"}}),
            ("CLAUDE_CODE_ENABLE_TELEMETRY", "1"),
            "OTEL_LOGS_EXPORTER is \"otlp\" in env: without",
        ),
    ] {
        let content = settings.to_string();
        let home = Home::with(SETTINGS, &content);
        let mut command = home.command(&["claude", "--telemetry"]);
        if !environment.0.is_empty() {
            command.env(environment.0, environment.1);
        }
        CommandOutput::of(&mut command).bad(1, why);
        assert_eq!(home.files(), [(home.path(SETTINGS), content.into_bytes())]);
    }
    // Nothing of these goes to the default address.
    for settings in [
        with(logs(), "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", &format!("{URL}/otlp/v1/logs")),
        with(traces(), of_traces, "http://a.example"),
        with(traces(), "OTEL_EXPORTER_OTLP_ENDPOINT", &format!("{URL}/otlp")),
        json!({"env": {"OTEL_LOGS_EXPORTER": "otlp", "OTEL_TRACES_EXPORTER": "otlp"}}),
    ] {
        let home = Home::with(SETTINGS, &settings.to_string());
        home.connect(&["claude", "--telemetry"]).good();
        // Also when a person has changed what connect wrote.
        let changed = home.read(SETTINGS).replacen("\"1\"", "\"true\"", 1);
        let changed = changed.replacen("\"otlp\"", "\"otlp,console\"", 1);
        home.write(SETTINGS, &changed);
        home.connect(&["claude", "--telemetry", "--ask"]).good();
    }
}

#[test]
fn the_token_is_not_sent_to_the_address_of_traces() {
    let traces = [
        ("OTEL_TRACES_EXPORTER", "otlp"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a.example/v1/traces"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b"),
    ];
    let home = Home::with(SETTINGS, "{}");
    let mut command = home.command(&["claude", "--telemetry"]);
    command.envs(traces).env("RECOUNT_TOKEN", "rct_a-secret-of-a-test");
    CommandOutput::of(&mut command).bad(1, "the header with the server's token would be sent there, too");
    CommandOutput::of(home.command(&["claude", "--telemetry"]).envs(traces)).good();
}

#[test]
fn headers_that_were_added_after_connect_are_no_conflict() {
    let home = Home::new();
    home.connect(&["claude", "--telemetry"]).good();
    let mut settings = json_of(&home.read(SETTINGS));
    settings["env"]["OTEL_EXPORTER_OTLP_HEADERS"] = json!("Authorization=Bearer a-secret");
    settings["otelHeadersHelper"] = json!("print headers");
    home.write(SETTINGS, &settings.to_string());
    home.connect(&["claude", "--telemetry", "--ask"]).good();
    let after = json_of(&home.read(SETTINGS));
    assert_eq!(
        (&after["env"], &after["otelHeadersHelper"]),
        (&settings["env"], &settings["otelHeadersHelper"])
    );
    // They are not for another server.
    let other = home.connect(&["claude", "--telemetry", "--url", "http://127.0.0.1:10"]);
    assert!(other.words.contains("it would be sent to http://127.0.0.1:10/otlp, too"), "{other:?}");
}

#[test]
fn headers_for_the_server_stay_where_they_are() {
    let home = Home::new();
    let endpoint = format!("{URL}/otlp");
    let mut command = home.command(&["claude", "--telemetry"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    CommandOutput::of(command.env("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer a-secret")).good();
    assert_eq!(json_of(&home.read(SETTINGS))["env"], variables());
}

#[test]
fn telemetry_that_was_set_up_by_hand_stays() {
    let mut by_hand = variables();
    by_hand["OTEL_EXPORTER_OTLP_HEADERS"] = json!("Authorization=Bearer a-secret");
    let home = Home::with(SETTINGS, &json!({"env": by_hand}).to_string());
    home.connect(&["claude", "--telemetry"]).good();
    assert_eq!(json_of(&home.read(SETTINGS))["env"], by_hand);
    let removed = home.connect(&["claude", "--remove"]);
    let words = format!("still sends its telemetry to {URL}/otlp; connect did not write the variables");
    assert!(removed.words.contains(&words), "{removed:?}");
    assert_eq!(json_of(&home.read(SETTINGS)), json!({"env": by_hand}));
}

#[test]
fn what_a_person_changed_of_the_telemetry_stays() {
    let home = Home::with(SETTINGS, "{\n  \"model\": \"opus\"\n}\n");
    home.connect(&["claude", "--telemetry"]).good();
    let after = home.read(SETTINGS);
    home.write(SETTINGS, &after.replacen("\"1000\"", "\"2000\"", 1));
    home.connect(&["claude", "--remove"]).good();
    let left =
        "{\n  \"model\": \"opus\",\n  \"env\": {\n    \"OTEL_LOGS_EXPORT_INTERVAL\": \"2000\"\n  }\n}\n";
    assert_eq!(home.read(SETTINGS), left);
}

#[test]
fn the_token_for_telemetry_comes_from_a_command() {
    let home = Home::with("token of mine", "rct_a-secret-of-a-test\n");
    let file = home.path("token of mine").display().to_string();
    let with_file = home.command(&["claude", "--telemetry", "--token-file", &file]);
    let mut with_variable = home.command(&["claude", "--telemetry"]);
    with_variable.env("RECOUNT_TOKEN", "rct_a-secret-of-a-test");
    for (mut command, has_file) in [(with_file, true), (with_variable, false)] {
        CommandOutput::of(&mut command).good();
        let text = home.read(SETTINGS);
        assert!(!text.contains("a-secret"), "{text}");
        let helper = json_of(&text)["otelHeadersHelper"].as_str().unwrap().to_owned();
        assert_eq!(helper.contains("--token-file '"), has_file, "{helper}");
        let run = |token: &str| {
            CommandOutput::of(Command::new("sh").args(["-c", &helper]).env("RECOUNT_TOKEN", token))
        };
        let printed = run(if has_file { "" } else { "rct_a-secret-of-a-test" }).good();
        assert_eq!(json_of(&printed), json!({"Authorization": "Bearer rct_a-secret-of-a-test"}));
        if !has_file {
            run("").bad(2, "no token: set RECOUNT_TOKEN, or use --token-file FILE");
        }
    }
    home.connect(&["claude", "--remove"]).good();
    let theirs = json!({"otelHeadersHelper": "theirs"}).to_string();
    home.write(SETTINGS, &theirs);
    let answer = home.connect(&["claude", "--telemetry", "--token-file", &file]);
    assert!(answer.words.contains("otelHeadersHelper runs another command"), "{answer:?}");
    assert_eq!((answer.status, home.read(SETTINGS)), (1, theirs));
}

#[test]
fn telemetry_can_be_removed_after_a_failed_write() {
    // The copy of it may be written, and the file with hooks is too large.
    let content = format!("{{\n  \"env\": {{ }},\n  \"note\": \"{}\"\n}}\n", "a".repeat(64_900));
    let limited = "trap '' XFSZ; ulimit -f 127; exec \"$0\" \"$@\"";
    for options in [&["--ask"][..], &["--telemetry", "--url", "http://127.0.0.1:10"]] {
        let home = Home::with(SETTINGS, &content);
        home.connect(&["claude", "--telemetry"]).good();
        let connected = home.read(SETTINGS);
        let whole = home.command(&[&["claude"], options].concat());
        let mut command = Command::new("sh");
        command.args(["-c", limited]).arg(whole.get_program()).args(whole.get_args());
        for (name, value) in whole.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        CommandOutput::of(&mut command).bad(5, "cannot write");
        assert_eq!(home.read(SETTINGS), connected);
        let removed = home.connect(&["claude", "--remove"]);
        assert!(!removed.words.contains("still sends its telemetry"), "{removed:?}");
        assert_eq!(home.read(SETTINGS), content);
    }
}

#[test]
fn a_number_that_is_too_large_hides_no_variable() {
    let elsewhere = "https://otel.example:4318";
    for content in [
        format!("{{\"big\": 1e999, \"env\": {{\"OTEL_EXPORTER_OTLP_ENDPOINT\": \"{elsewhere}\"}}}}"),
        format!("{{\"env\": {{\"OTEL_EXPORTER_OTLP_ENDPOINT\": \"{elsewhere}\", \"big\": 1e999}}}}"),
    ] {
        let home = Home::with(SETTINGS, &content);
        home.connect(&["claude", "--telemetry"]).bad(1, "telemetry goes there");
        assert_eq!(home.read(SETTINGS), content);
    }
    round_with("claude", &["--telemetry"], SETTINGS, "{\"big\": 1e999, \"env\": {\"A\": 1e999}}");
    let home = Home::with(SETTINGS, "{\"big\": 1e999, \"disableAllHooks\": true}");
    assert!(home.connect(&["claude"]).words.contains("disableAllHooks disables all hooks"));
}

#[test]
fn a_login_or_key_in_an_address_is_not_shown() {
    for (address, shown) in [
        ("https://me:a-secret@a.example/otlp", "https://***@a.example/otlp"),
        ("https://a.example/otlp?key=a-secret", "https://a.example/otlp?***"),
        ("me:a-secret@a.example:4318", "***@a.example:4318"),
    ] {
        let settings = json!({"env": variables_with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", address)])});
        let home = Home::with(SETTINGS, &format!("{settings:#}"));
        let refused = home.connect(&["claude", "--telemetry"]);
        assert!(refused.words.contains(&format!("is \"{shown}\" in env: telemetry")), "{refused:?}");
        home.connect(&["claude"]).good();
        let status = home.connect(&["claude", "--status"]).good();
        assert!(status.contains(&format!("telemetry is sent to {shown}\n")), "{status}");
        let json = home.connect(&["claude", "--status", "--json"]).good();
        assert_eq!(json_of(&json)["telemetry"], shown);
        assert!(![refused.words, status, json].concat().contains("a-secret"));
    }
}

#[test]
fn the_status_names_what_keeps_telemetry_from_being_recorded() {
    let ours = format!("{URL}/otlp");
    for (others, address, words) in [
        (
            vec![("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            &*ours,
            "not recorded: OTEL_EXPORTER_OTLP_PROTOCOL is \"grpc\" in env: the server accepts only",
        ),
        (vec![("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc")], &ours, "LOGS_PROTOCOL is \"grpc\" in env: "),
        (
            vec![("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", &*ours)],
            &ours,
            &*format!("the server receives log events at {ours}/v1/logs"),
        ),
        (
            vec![("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "")],
            &ours,
            &*format!("are recorded: telemetry is sent to {ours}\n"),
        ),
        (
            vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
            "http://localhost:4318",
            "not recorded: telemetry is sent to http://localhost:4318\n",
        ),
    ] {
        let home = Home::with(SETTINGS, &json!({"env": variables_with(&others)}).to_string());
        home.connect(&["claude"]).good();
        let status = home.connect(&["claude", "--status"]).good();
        assert!(status.contains(words), "{others:?}: {status}");
        let status = json_of(&home.connect(&["claude", "--status", "--json"]).good());
        assert_eq!(status["telemetry"], address);
        assert_eq!(status["telemetry_problem"].is_null(), words.contains("telemetry is sent"), "{status}");
    }
}

#[test]
fn the_status_names_a_missing_token_of_telemetry() {
    let data = tempfile::tempdir().unwrap();
    let (server, token) = server_with_tokens(data.path());
    let home = Home::with("token", &token);
    home.connect(&["claude", "--telemetry", "--url", &server.url()]).good();
    let status = home.connect(&["claude", "--status"]).good();
    assert!(status.contains("not recorded: the server requires a token, and telemetry has none"), "{status}");
    let file = home.path("token").display().to_string();
    home.connect(&["claude", "--telemetry", "--url", &server.url(), "--token-file", &file]).good();
    let status = home.connect(&["claude", "--status"]).good();
    assert!(status.contains("tokens and cost are recorded: "), "{status}");
}

#[test]
fn telemetry_needs_claude_and_an_address_of_http() {
    let home = Home::new();
    for (arguments, why) in [
        (vec!["codex", "--telemetry"], "--telemetry configures only Claude Code"),
        (vec!["gemini", "--telemetry"], "--telemetry configures only Claude Code"),
        (vec!["claude", "--telemetry", "--remove"], "cannot be used with"),
        (vec!["claude", "--telemetry", "--status"], "cannot be used with"),
        (vec!["claude", "--telemetry", "--url", "unix:/run/recount.sock"], "cannot be sent to a Unix socket"),
    ] {
        home.connect(&arguments).bad(2, why);
    }
    assert!(home.files().is_empty());
    let answer = home.connect(&["claude", "--url", "unix:/run/recount.sock"]);
    assert!(!answer.words.contains("--telemetry"), "{answer:?}");
}
