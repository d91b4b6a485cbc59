//! Assesses the harm that a command can do, by its words.
//!
//! Start at [`command_risk`]. The result is advice for approvers and policies, and **no security boundary**: a command
//! can hide what it does; the sandbox restricts commands. Pure. An unknown command is neither harmless nor grave.

use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;

use crate::policy::command::{Command, CommandLine, Word, base, is_installed, twists};

/// The risk level, the reversibility, and the consequence in a sentence.
pub type Risk = (RiskLevel, Reversibility, &'static str);

const READS: Risk = (RiskLevel::Low, Reversibility::Reversible, "Reads only. Changes nothing.");
const BUILDS: Risk = (RiskLevel::Low, Reversibility::Reversible, "Builds or tests the workspace.");
const UNKNOWN: Risk =
    (RiskLevel::Medium, Reversibility::PartiallyReversible, "May change files. Its effects are unknown.");
/// The risk of a command that cannot be judged completely: as if it did harm.
const UNJUDGED: Risk = (
    RiskLevel::High,
    Reversibility::PartiallyReversible,
    "May run anything: not all of the command can be analysed.",
);
const CHANGES: Risk = (RiskLevel::Medium, Reversibility::PartiallyReversible, "Changes files.");
const RECORDS: Risk =
    (RiskLevel::Medium, Reversibility::Reversible, "Changes the git repository. Earlier commits are kept.");
const REBUILT: Risk = (RiskLevel::Medium, Reversibility::PartiallyReversible, "Deletes build output.");

const REMOVES: Risk = (RiskLevel::High, Reversibility::Irreversible, "Deletes files.");
const DISCARDS: Risk =
    (RiskLevel::High, Reversibility::Irreversible, "Discards uncommitted or unpublished work.");
const PUBLISHES: Risk =
    (RiskLevel::High, Reversibility::Irreversible, "Publishes something or changes a remote service.");
const DESTROYS: Risk =
    (RiskLevel::High, Reversibility::Irreversible, "Overwrites data on a device or in a file.");
const RUNS_FOREIGN: Risk = (RiskLevel::High, Reversibility::Irreversible, "Downloads and runs a program.");
const RAISES: Risk = (RiskLevel::High, Reversibility::Irreversible, "Runs with the rights of another user.");
const DROPS: Risk = (RiskLevel::High, Reversibility::Irreversible, "Deletes data from a database.");
const STOPS: Risk =
    (RiskLevel::High, Reversibility::PartiallyReversible, "Stops the machine or its services.");
const PERMITS: Risk =
    (RiskLevel::High, Reversibility::PartiallyReversible, "Changes the permissions of many files.");
const REMOTE: Risk = (RiskLevel::High, Reversibility::Irreversible, "Acts on another machine.");

/// Assesses a shell command line.
pub fn command_risk(text: &str) -> Risk {
    let line = CommandLine::read(text);
    let mut worst: Option<Risk> = None;
    let mut take = |risk: Risk| {
        // Of two equal risks the first is returned, unless it is unspecific.
        if worst
            .is_none_or(|worst| (risk.0, risk.1) > (worst.0, worst.1) || worst == READS && risk.0 == worst.0)
        {
            worst = Some(risk);
        }
    };
    let fetches = line.commands.iter().any(|command| matches!(name(command), "curl" | "wget"));
    for command in &line.commands {
        if fetches && runs_its_input(command) {
            take(RUNS_FOREIGN);
        } else if !command.wraps || command.raised {
            take(of(command));
        }
    }
    for target in &line.redirects {
        take(if is_device(target) { DESTROYS } else { CHANGES });
    }
    if line.twisted {
        take(UNKNOWN);
    }
    if line.unjudged.is_some() {
        take(UNJUDGED);
    }
    worst.unwrap_or(UNKNOWN)
}

fn name(command: &Command) -> &str {
    command.words.first().map_or("", |word| base(word))
}

/// Whether an interpreter runs its input, or a text that is not in the command.
fn runs_its_input(command: &Command) -> bool {
    const INTERPRETERS: &[&str] = &[
        "sh", "bash", "dash", "zsh", "ksh", "python", "python3", "perl", "ruby", "node", "php", "eval",
        "source", ".",
    ];
    let given = command.words[1.min(command.words.len())..].iter().any(|word| word.is_dynamic());
    INTERPRETERS.contains(&name(command)) && (command.piped || given)
}

fn is_device(path: &str) -> bool {
    path.starts_with("/dev/") && !matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty")
}

fn of(command: &Command) -> Risk {
    if command.raised {
        return RAISES;
    }
    let Some((_, args)) = command.words.split_first() else { return READS };
    let args: Vec<&str> = args.iter().map(|word| &**word).collect();
    let name = name(command);
    let risk =
        if depends_on_dynamic_word(name, &command.words[1..]) { UNJUDGED } else { by_name(name, &args) };
    // A variable may select another program, and another program may have a known name.
    let other = command.sets.iter().any(|set| twists(set)) || !is_installed(&command.words[0]);
    if risk.0 == RiskLevel::Low && other { UNKNOWN } else { risk }
}

/// Whether a dynamic word may make the command grave.
fn depends_on_dynamic_word(name: &str, args: &[Word]) -> bool {
    const VERBS: &[&str] = &[
        "npm",
        "pnpm",
        "yarn",
        "bun",
        "cargo",
        "make",
        "just",
        "docker",
        "podman",
        "systemctl",
        "service",
        "gem",
        "twine",
        "crontab",
        "chmod",
        "chown",
        "chgrp",
        "rsync",
    ];
    /// Their arguments are modes, users and files, not verbs.
    const CHANGERS: &[&str] = &["chmod", "chown", "chgrp", "rsync", "crontab"];
    /// Programs that are grave only because of their options.
    const OPTIONS: &[&str] =
        &["rm", "chmod", "chown", "chgrp", "rsync", "crontab", "find", "sort", "rg", "date", "file", "tree"];
    let may_be_option =
        |words: &[Word]| words.iter().any(|word| word.has_unknown_start() || word.hides_option());
    match name {
        "git" => {
            let verb = args.iter().position(|word| !word.starts_with('-') || word.is_dynamic());
            let (before, after) = args.split_at(verb.unwrap_or(args.len()));
            let grave = |verb: &str| {
                matches!(
                    verb,
                    "reset"
                        | "clean"
                        | "checkout"
                        | "switch"
                        | "restore"
                        | "branch"
                        | "stash"
                        | "reflog"
                        | "gc"
                        | "worktree"
                )
            };
            may_be_option(before)
                || after
                    .first()
                    .is_some_and(|verb| verb.is_dynamic() || (grave(verb) && may_be_option(&after[1..])))
        }
        _ if OPTIONS.contains(&name) && args.iter().any(Word::hides_option) => true,
        _ if VERBS.contains(&name) => {
            let verb = args.iter().position(|word| !word.starts_with('-'));
            let first = &args[..verb.map_or(args.len(), |verb| verb + 1)];
            args.iter().take(2).any(|word| word.has_unknown_start())
                || first.iter().any(Word::hides_option)
                || (!CHANGERS.contains(&name) && verb.is_some_and(|verb| args[verb].is_dynamic()))
        }
        _ => false,
    }
}

fn by_name(name: &str, args: &[&str]) -> Risk {
    let first = args.iter().copied().find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let has = |word: &str| args.contains(&word);
    if is_reader(name) && !database(args, name) {
        return if reader_writes(name, args) { UNKNOWN } else { READS };
    }
    if database(args, name) {
        return DROPS;
    }
    let is_query = name == "command" && has("-v");
    if is_query || args.len() == 1 && matches!(args[0], "--version" | "--help") {
        return READS;
    }
    let risk = system_program_risk(name, args, first);
    let risk = risk.or_else(|| build_program_risk(name, args, first));
    risk.or_else(|| remote_program_risk(name, args, first)).unwrap_or(UNKNOWN)
}

/// Programs for files, devices, users and the machine.
fn system_program_risk(name: &str, args: &[&str], first: &str) -> Option<Risk> {
    let has = |word: &str| args.contains(&word);
    let starts = |start: &str| args.iter().any(|arg| arg.starts_with(start));
    Some(match name {
        "rm" | "rmdir" | "unlink" => remove(args),
        "find" => {
            if has("-delete") {
                REMOVES
            } else if args.iter().any(|arg| matches!(*arg, "-exec" | "-execdir" | "-ok" | "-okdir"))
                || starts("-fp")
                || starts("-fls")
            {
                // The command that it runs is assessed separately.
                CHANGES
            } else {
                READS
            }
        }
        "git" => git(args),
        "dd" | "shred" | "wipefs" | "fdisk" | "sfdisk" | "parted" | "mkswap" | "blkdiscard" => DESTROYS,
        _ if name.starts_with("mkfs") => DESTROYS,
        "shutdown" | "reboot" | "halt" | "poweroff" | "init" | "telinit" => STOPS,
        "systemctl" | "service" | "launchctl" => {
            if matches!(first, "status" | "list-units" | "is-active") {
                READS
            } else {
                STOPS
            }
        }
        "su" | "runuser" => RAISES,
        "chmod" | "chown" | "chgrp" => {
            if flag(args, 'R', "--recursive") {
                PERMITS
            } else {
                CHANGES
            }
        }
        "crontab" => {
            if has("-l") {
                READS
            } else if has("-r") {
                REMOVES
            } else {
                UNKNOWN
            }
        }
        "ssh" | "scp" | "sftp" | "telnet" => REMOTE,
        "rsync" if args.iter().any(|arg| arg.contains(':')) => REMOTE,
        "rsync" if starts("--del") => REMOVES,
        "dropdb" => DROPS,
        "truncate" => DESTROYS,
        "mv" | "cp" | "tee" | "touch" | "mkdir" | "ln" | "patch" | "install" => CHANGES,
        _ => return None,
    })
}

/// Programs that build, test and publish a workspace.
fn build_program_risk(name: &str, args: &[&str], first: &str) -> Option<Risk> {
    let has = |word: &str| args.contains(&word);
    let starts = |start: &str| args.iter().any(|arg| arg.starts_with(start));
    Some(match name {
        "npm" | "pnpm" | "yarn" | "bun" => match first {
            "publish" | "unpublish" | "deprecate" => PUBLISHES,
            "test" | "t" | "ls" | "list" | "outdated" | "audit" if !has("fix") => BUILDS,
            "run"
                if args
                    .iter()
                    .any(|arg| matches!(*arg, "test" | "build" | "lint" | "check" | "typecheck")) =>
            {
                BUILDS
            }
            _ => UNKNOWN,
        },
        "cargo" => match first.trim_start_matches('+') {
            "publish" | "yank" | "owner" => PUBLISHES,
            "test" | "build" | "check" | "clippy" | "doc" | "tree" | "metadata" | "bench" | "nextest" => {
                if has("--fix") || starts("--config") {
                    UNKNOWN
                } else {
                    BUILDS
                }
            }
            "fmt" => {
                if has("--check") {
                    READS
                } else {
                    CHANGES
                }
            }
            "clean" => REBUILT,
            _ => UNKNOWN,
        },
        "go" => match first {
            "test" | "build" | "vet" | "list" | "version" | "env" => BUILDS,
            _ => UNKNOWN,
        },
        "pytest" | "tox" | "ctest" | "rustc" | "tsc" | "eslint" | "mypy" | "ruff" => {
            if starts("--fix") {
                CHANGES
            } else {
                BUILDS
            }
        }
        "make" | "just" => match first {
            "test" | "check" | "build" | "all" | "lint" => BUILDS,
            "clean" => REBUILT,
            "publish" | "release" | "deploy" => PUBLISHES,
            _ => UNKNOWN,
        },
        "twine" if first == "upload" => PUBLISHES,
        "gem" if matches!(first, "push" | "yank") => PUBLISHES,
        _ => return None,
    })
}

/// Programs that change containers, clusters and remote services.
fn remote_program_risk(name: &str, args: &[&str], first: &str) -> Option<Risk> {
    let has = |word: &str| args.contains(&word);
    Some(match name {
        "docker" | "podman" => match first {
            "push" => PUBLISHES,
            "rm" | "rmi" | "prune" => REMOVES,
            _ if has("prune") || has("rm") => REMOVES,
            "ps" | "images" | "logs" | "inspect" | "version" => READS,
            _ => UNKNOWN,
        },
        "kubectl" | "helm" | "oc" => match first {
            "get" | "describe" | "logs" | "version" | "list" | "status" => READS,
            _ => PUBLISHES,
        },
        "terraform" | "tofu" | "pulumi" => match first {
            "plan" | "validate" | "show" | "fmt" | "version" => BUILDS,
            _ => PUBLISHES,
        },
        "gh" | "glab" => {
            if has("view") || has("list") || has("status") || has("diff") {
                READS
            } else {
                PUBLISHES
            }
        }
        "aws" | "gcloud" | "az" | "doctl" | "fly" | "heroku" | "vercel" | "netlify" => PUBLISHES,
        _ => return None,
    })
}

fn is_reader(name: &str) -> bool {
    matches!(
        name,
        "ls" | "cat"
            | "head"
            | "tail"
            | "wc"
            | "grep"
            | "egrep"
            | "fgrep"
            | "rg"
            | "file"
            | "stat"
            | "du"
            | "df"
            | "pwd"
            | "echo"
            | "printf"
            | "true"
            | "false"
            | "test"
            | "which"
            | "type"
            | "date"
            | "uname"
            | "whoami"
            | "id"
            | "tree"
            | "diff"
            | "cmp"
            | "cut"
            | "tr"
            | "uniq"
            | "sort"
            | "nl"
            | "basename"
            | "dirname"
            | "realpath"
            | "readlink"
            | "sha256sum"
            | "md5sum"
            | "jq"
            | "cd"
            | "ps"
            | "printenv"
            | "column"
            | "less"
            | "more"
            | "env"
            | "seq"
            | "sleep"
            | "comm"
            | "od"
            | "hexdump"
            | "strings"
            | ":"
            | "["
            | "[["
            | "for"
            | "case"
            | "break"
            | "continue"
            | "exit"
            | "return"
            | "shift"
            | "wait"
            | "set"
            | "read"
            | "export"
            | "local"
            | "unset"
            | "trap"
    )
}

/// Options that make a reading program write or run something.
fn reader_writes(name: &str, args: &[&str]) -> bool {
    let starts = |start: &str| args.iter().any(|arg| arg.starts_with(start));
    match name {
        "rg" => starts("--pre") || starts("--hostname-bin"),
        // Long options may be abbreviated, and short ones joined.
        "sort" => starts("--o") || starts("--co") || flag(args, 'o', "--output"),
        "tree" => starts("-o") || starts("--output"),
        "uniq" => args.iter().filter(|arg| !arg.starts_with('-')).count() > 1,
        "date" => starts("-s") || starts("--set"),
        "file" => starts("-C"),
        _ => false,
    }
}

fn flag(args: &[&str], short: char, long: &str) -> bool {
    args.iter().any(|arg| {
        is_short_for(arg, long) || (arg.starts_with('-') && !arg.starts_with("--") && arg.contains(short))
    })
}

/// Whether an argument is a long option or its abbreviation, which most programs accept.
fn is_short_for(arg: &str, long: &str) -> bool {
    arg.len() > 2 && arg.starts_with("--") && long.starts_with(arg)
}

/// Folders of build output, which can be rebuilt.
const BUILD_FOLDERS: &[&str] = &[
    "target",
    "node_modules",
    "dist",
    "build",
    "out",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".next",
    "coverage",
    ".turbo",
    ".cache",
];

fn remove(args: &[&str]) -> Risk {
    let targets = || args.iter().filter(|arg| !arg.starts_with('-'));
    let wide = targets().any(|arg| {
        arg.contains(['*', '?', '$']) || arg.starts_with(['/', '~']) || matches!(*arg, "." | "..")
    });
    let in_builds = targets().next().is_some()
        && targets().all(|arg| {
            let path = arg.trim_start_matches("./");
            let first = path.split('/').find(|part| BUILD_FOLDERS.contains(part));
            first.is_some() && !path.starts_with(['/', '~']) && !path.contains("..") && !path.contains('$')
        });
    if in_builds {
        REBUILT
    } else if wide || flag(args, 'r', "--recursive") || flag(args, 'R', "--recursive") {
        REMOVES
    } else {
        CHANGES
    }
}

fn git(args: &[&str]) -> Risk {
    // Global options of git; some of them select a program to run.
    let mut rest = args;
    let mut twisted = false;
    while let Some((first, after)) = rest.split_first() {
        match *first {
            "-C" | "--git-dir" | "--work-tree" | "--namespace" => rest = after.get(1..).unwrap_or_default(),
            "-c" | "--config-env" => {
                twisted = true;
                rest = after.get(1..).unwrap_or_default();
            }
            option if option.starts_with('-') => {
                twisted |= option.starts_with("--exec-path=");
                rest = after;
            }
            _ => break,
        }
    }
    let Some((verb, args)) = rest.split_first() else { return READS };
    let has = |word: &str| args.contains(&word);
    let starts = |start: &str| args.iter().any(|arg| arg.starts_with(start));
    let long = |option: &str| args.iter().any(|arg| is_short_for(arg, option));
    let names = args.iter().any(|arg| !arg.starts_with('-'));
    let risk = match *verb {
        "push" | "send-email" | "request-pull" => PUBLISHES,
        "reset" if long("--hard") || long("--merge") || long("--keep") => DISCARDS,
        "clean" if flag(args, 'n', "--dry-run") => READS,
        "clean" | "filter-branch" | "filter-repo" | "update-ref" => DISCARDS,
        "checkout" if has("--") || has("-f") || long("--force") || has(".") => DISCARDS,
        "switch" if has("-f") || long("--force") || long("--discard-changes") => DISCARDS,
        "restore" if !has("--staged") || long("--worktree") => DISCARDS,
        "branch" if has("-D") || ((has("-d") || long("--delete")) && (has("-f") || long("--force"))) => {
            DISCARDS
        }
        "stash" if has("drop") || has("clear") => DISCARDS,
        "reflog" if has("expire") || has("delete") => DISCARDS,
        "gc" if starts("--pr") => DISCARDS,
        "worktree" if has("remove") && (has("-f") || long("--force")) => DISCARDS,
        "status" | "log" | "show" | "diff" | "blame" | "rev-parse" | "rev-list" | "ls-files" | "ls-tree"
        | "grep" | "describe" | "shortlog" | "cat-file" | "version" | "help" | "merge-base" | "name-rev"
        | "check-ignore" => {
            let runs =
                starts("--ou") || starts("--ext") || starts("--textc") || starts("--op") || starts("-O");
            if runs { UNKNOWN } else { READS }
        }
        "branch" | "tag" | "remote" | "stash" | "config" if !names && *verb != "stash" => READS,
        "stash" if has("list") || has("show") => READS,
        "add" | "commit" | "branch" | "tag" | "stash" | "switch" | "checkout" | "merge" | "rebase"
        | "cherry-pick" | "revert" | "restore" | "reset" | "mv" | "init" | "notes" => RECORDS,
        _ => UNKNOWN,
    };
    if twisted && risk.0 == RiskLevel::Low { UNKNOWN } else { risk }
}

/// Whether arguments of a program that does not only read delete data of a database.
fn database(args: &[&str], name: &str) -> bool {
    if is_reader(name) {
        return false;
    }
    args.iter().any(|arg| {
        let words: Vec<String> = arg
            .split(|char: char| !char.is_alphanumeric() && char != '_')
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_uppercase)
            .collect();
        let chosen = words.iter().any(|word| word == "WHERE");
        words.windows(2).any(|pair| match (pair[0].as_str(), pair[1].as_str()) {
            ("DROP", "TABLE" | "DATABASE" | "SCHEMA" | "VIEW" | "INDEX" | "USER") => true,
            ("TRUNCATE", "TABLE") => true,
            ("DELETE", "FROM") => !chosen,
            _ => false,
        })
    })
}

#[cfg(test)]
mod tests;
