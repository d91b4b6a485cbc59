//! Tests of help texts, completion scripts and manual pages.

use crate::aaep;
use crate::program::CommandOutput;

/// Appends the help of a command and of its subcommands.
fn add_help(help: &mut String, command: &[&str]) {
    let arguments = [&["help"], command].concat();
    let page = CommandOutput::of(aaep().args(&arguments)).good();
    help.push_str(&format!("$ aaep {}\n{page}\n", arguments.join(" ")));
    let listed = page.lines().skip_while(|line| *line != "Commands:").skip(1);
    // A long description continues on indented lines.
    let names = listed.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| *name != "help") {
        add_help(help, &[command, &[name]].concat());
    }
}

/// `RECOUNT_BLESS=1` rewrites the expected help.
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
}

#[test]
fn shells_and_readers_of_manual_pages_get_every_verb() {
    for (shell, part) in
        [("bash", "complete -F _aaep"), ("zsh", "#compdef aaep"), ("fish", "complete -c aaep")]
    {
        let script = CommandOutput::of(aaep().args(["completion", shell])).good();
        assert!(script.contains(part) && script.contains("validate"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    CommandOutput::of(aaep().arg("man").arg("--out").arg(folder.path())).good();
    for page in ["aaep", "aaep-capture", "aaep-conformance-producer", "aaep-validate"] {
        let text = std::fs::read_to_string(folder.path().join(format!("{page}.1"))).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
}
