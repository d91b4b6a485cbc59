//! `recount completion SHELL`: what a shell needs to complete command lines, with the ids of runs and of open prompts, for
//! which it asks the server.

use std::fmt::Write as _;

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use super::{CommandLine, Invocation};
use crate::failure::Failure;

/// Print a shell completion script
#[derive(Args)]
pub(super) struct Completion {
    /// Shell to print the script for
    shell: Shell,
}

impl Completion {
    pub(super) fn run(self, _: Invocation) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut CommandLine::command(), "recount", &mut script);
        let script = String::from_utf8(script).map_err(|why| Failure::Own(why.to_string()))?;
        let script = with_ids(self.shell, &script, &verbs(&CommandLine::command()));
        Ok(std::io::Write::write_all(&mut std::io::stdout().lock(), script.as_bytes())?)
    }
}

/// Ids that a shell can complete, by the beginning of an argument's help.
const IDS: [(&str, &str); 6] = [
    ("Id of the run", "runs"),
    ("Ids of the runs", "runs"),
    ("Id of the task or the run", "runs"),
    ("Id of the approval", "prompts"),
    ("Id of the question", "prompts"),
    ("Id of the handoff", "prompts"),
];

/// Prints ids of a kind, one a line. Lists begin with them. It queries a named server, so that completion never opens the
/// data folder itself.
const FUNCTION: &str = r#"    local url="${RECOUNT_URL:-http://127.0.0.1:8765}"
    case $1 in
        runs) recount --url "$url" ls --limit 50 2>/dev/null | cut -d ' ' -f 1 ;;
        prompts) recount --url "$url" today 2>/dev/null | sed -n 's/^ *To answer: recount \(approve\|answer\|handoff ack\) \([^ ]*\).*/\2/p' ;;
    esac
"#;

/// The verbs that take an id, with its kind.
fn verbs(command: &Command) -> Vec<(String, &'static str)> {
    let kind_of = |command: &Command| {
        let helps = command.get_positionals().filter_map(|argument| argument.get_help());
        let mut helps = helps.map(ToString::to_string);
        helps.find_map(|help| IDS.iter().find(|(begin, _)| help.starts_with(begin)).map(|(_, kind)| *kind))
    };
    let mut found = Vec::new();
    for verb in command.get_subcommands() {
        let name = verb.get_name();
        found.extend(kind_of(verb).map(|kind| (name.to_owned(), kind)));
        for inner in verb.get_subcommands() {
            found.extend(kind_of(inner).map(|kind| (format!("{name} {}", inner.get_name()), kind)));
        }
    }
    found
}

/// The generated script with the ids added. Other shells complete all but ids.
fn with_ids(shell: Shell, script: &str, verbs: &[(String, &'static str)]) -> String {
    match shell {
        Shell::Bash => format!("{script}{}", for_bash(verbs)),
        Shell::Fish => format!("{script}{}", for_fish(verbs)),
        Shell::Zsh => for_zsh(script),
        _ => script.to_owned(),
    }
}

fn for_bash(verbs: &[(String, &'static str)]) -> String {
    let mut cases = String::new();
    for (verb, kind) in verbs {
        let pattern = if verb.contains(' ') { format!("'{verb}'") } else { format!("{verb}' '*") };
        writeln!(cases, "        {pattern}) kind={kind} ;;").expect("a string takes everything");
    }
    format!(
        r#"
_recount_ids() {{
{FUNCTION}}}

_recount_with_ids() {{
    _recount "$@"
    local word kind= words=() current="${{COMP_WORDS[COMP_CWORD]}}"
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [[ $word == -* ]] || words+=("$word")
    done
    [[ $current == -* ]] && return
    case "${{words[0]}} ${{words[1]}}" in
{cases}    esac
    [[ -z $kind ]] || COMPREPLY+=($(compgen -W "$(_recount_ids $kind)" -- "$current"))
}}

complete -F _recount_with_ids -o bashdefault -o default recount
"#
    )
}

fn for_fish(verbs: &[(String, &'static str)]) -> String {
    let mut lines = String::from(
        "\nfunction __recount_ids\n    set -l url (set -q RECOUNT_URL; and echo $RECOUNT_URL; or echo http://127.0.0.1:8765)\n    switch $argv[1]\n",
    );
    lines.push_str(
        "        case runs\n            recount --url $url ls --limit 50 2>/dev/null | cut -d ' ' -f 1\n",
    );
    lines.push_str("        case prompts\n            recount --url $url today 2>/dev/null | string match -rg '^ *To answer: recount (?:approve|answer|handoff ack) (\\S+)'\n");
    lines.push_str("    end\nend\n");
    for (verb, kind) in verbs {
        let seen: Vec<String> =
            verb.split(' ').map(|word| format!("__fish_seen_subcommand_from {word}")).collect();
        let seen = seen.join("; and ");
        writeln!(lines, "complete -c recount -n '{seen}' -f -a '(__recount_ids {kind})'")
            .expect("a string takes everything");
    }
    lines
}

/// The generated script completes files for every argument.
fn for_zsh(script: &str) -> String {
    let mut out = String::with_capacity(script.len() + 1024);
    for line in script.lines() {
        let kind =
            IDS.iter().find(|(begin, _)| line.contains(&format!(" -- {begin}"))).map(|(_, kind)| *kind);
        match kind {
            Some(kind) => out.push_str(&line.replace(":_default'", &format!(":_recount_{kind}'"))),
            None => out.push_str(line),
        }
        out.push('\n');
        if line.starts_with("#compdef") {
            let functions = format!(
                "\n_recount_ids() {{\n{FUNCTION}}}\n\
                 _recount_runs() {{ compadd -- $(_recount_ids runs) }}\n\
                 _recount_prompts() {{ compadd -- $(_recount_ids prompts) }}\n"
            );
            out.push_str(&functions);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_that_take_an_id_are_found_by_their_help() {
        let found = verbs(&CommandLine::command());
        let kind = |verb: &str| found.iter().find(|(name, _)| name == verb).map(|(_, kind)| *kind);
        for verb in
            ["show", "tail", "verify", "digest", "export", "cancel", "resume", "apply", "delete", "narrate"]
        {
            assert_eq!(kind(verb), Some("runs"), "{verb}");
        }
        for verb in ["approve", "deny", "extend", "answer", "handoff ack"] {
            assert_eq!(kind(verb), Some("prompts"), "{verb}");
        }
        assert_eq!((kind("serve"), kind("ls")), (None, None));
    }
}
