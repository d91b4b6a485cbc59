//! How verbs fail on invalid requests, and the text of the help.

use crate::server::{CommandOutput, Server, recount};

fn ask(arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(recount().args(arguments))
}

#[test]
fn every_status_has_its_cause() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let unknown = "run_01KQPNV2ZVNJX2AM9103W0PNQW";
    for verb in [&["show"][..], &["digest"], &["cancel"], &["tail"], &["tail", "-f"], &["verify"]] {
        server.ask(&[verb, &[unknown]].concat()).bad(1, "run_not_found");
    }
    server.ask(&["approve", "appr_nobody"]).bad(1, "approval_not_found");
    server.ask(&["approve", "appr_nobody", "--always", "ever"]).bad(2, "use run, session or workspace");
    server.ask(&["policy", "forget", "allow_nobody"]).bad(1, "allowance_not_found");
    server.ask(&["show"]).bad(2, "Usage");
    server.ask(&["tail"]).bad(2, "Usage");
    server.ask(&["tail", unknown, "--all"]).bad(2, "Usage");
    server.ask(&["verify"]).bad(2, "Usage");
    server.ask(&["ls", "--limit", "many"]).bad(2, "many");
    server.ask(&["nothing"]).bad(2, "nothing");
    // A second server on the same folder, and a reader of a folder in use.
    let folder = data.path().to_str().unwrap();
    ask(&["serve", "--bind", "127.0.0.1:0", "--data", folder]).bad(5, "is in use by process");
    ask(&["verify", "--data", folder]).bad(5, "is in use by process");
    let closed_url = server.url();
    drop(server);
    ask(&["ls", "--url", &closed_url]).bad(3, "no response from");
    ask(&["tail", "-f", "--all", "--url", &closed_url]).bad(3, "no response from");
    ask(&["ls", "--url", &closed_url.replace("http:", "https:")]).bad(3, "no response from https://");
    ask(&["ls", "--url", "foo"]).bad(2, "http://");
    for verb in ["show", "tail", "verify", "digest", "cancel", "approve", "deny"] {
        for id in ["", ".", ".."] {
            ask(&[verb, id]).bad(2, "is not a valid id");
        }
    }
}

#[test]
fn only_loopback_is_served_without_tokens() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let answer = ask(&["serve", "--bind", "0.0.0.0:0", "--data", folder]);
    assert!(answer.words.contains("loopback") && answer.status == 2, "{answer:?}");
    ask(&["serve", "--durability", "none", "--data", folder]).bad(2, "strict");
    let database = "postgres://u:hidden@127.0.0.1:1/d";
    let unreachable = ask(&["serve", "--bind", "127.0.0.1:0", "--data", folder, "--store", database]);
    unreachable.bad(5, "cannot use the database postgres://u:***@127.0.0.1:1/d");
    ask(&["migrate", "--from", folder, "--to", database]).bad(2, "sqlite:DIR");
    ask(&["migrate", "--from", "sqlite:/missing", "--to", database]).bad(2, "contains no store");
}

#[test]
fn an_address_in_use_leaves_no_folder_behind() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    ask(&["serve", "--bind", &address, "--data", data.to_str().unwrap()]).bad(5, "another --bind");
    assert!(!data.exists());
}

#[test]
fn a_data_folder_that_lets_others_in_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let server = Server::start(&data);
    assert!(!server.words.iter().any(|line| line.contains("mode")), "{:?}", server.words);
    drop(server);
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(&data);
    let expected =
        format!("other users of this machine can access {} (mode 0755); run chmod 700 on it", data.display());
    assert!(server.words.contains(&expected), "{:?}", server.words);
}

#[test]
fn the_verb_aaep_names_the_program_that_has_its_tools() {
    for (arguments, command) in [
        (&["aaep", "validate", "--profile", "compat", "x.jsonl"][..], "run aaep validate;"),
        (&["aaep", "--help"][..], "run aaep help;"),
        (&["aaep"][..], "run aaep help;"),
        (&["--json", "aaep", "conformance", "producer"][..], "run aaep conformance;"),
    ] {
        ask(arguments).bad(2, command);
        ask(arguments).bad(2, "cargo install --locked --path crates/aaep-cli");
    }
}

/// The help of a command and of all below it.
fn add_help(help: &mut String, command: &[&str]) {
    let arguments = [&["help"], command].concat();
    let page = ask(&arguments).good();
    help.push_str(&format!("$ recount {}\n{page}\n", arguments.join(" ")));
    let listed = page.lines().skip_while(|line| *line != "Commands:").skip(1);
    // A description that is long goes on in lines further in.
    let names = listed.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| *name != "help") {
        add_help(help, &[command, &[name]].concat());
    }
}

/// `RECOUNT_BLESS=1` writes it anew.
#[test]
fn help_is_as_it_was() {
    let mut help = String::new();
    add_help(&mut help, &[]);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help.txt");
    if std::env::var_os("RECOUNT_BLESS").is_some() {
        std::fs::write(&path, &help).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        help == expected,
        "{} differs; look at this, then run with RECOUNT_BLESS=1:\n{help}",
        path.display()
    );
    let page = std::fs::read_to_string(path.ancestors().nth(4).unwrap().join("docs/cli.md")).unwrap();
    let statuses = help.lines().skip_while(|line| *line != "Exit status:").skip(1);
    for status in statuses.take_while(|line| !line.is_empty()) {
        let meaning = status.trim().split_once("  ").unwrap().1.trim();
        assert!(page.contains(meaning), "docs/cli.md does not say: {meaning}");
    }
}
