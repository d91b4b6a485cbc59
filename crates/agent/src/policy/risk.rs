//! Assesses the harm that a command can do, by its words.
//!
//! Start at [`command_risk`]. The result is advice for approvers and policies, and **no security boundary**: a command
//! can hide what it does; the sandbox restricts commands. Pure. An unknown command is neither harmless nor grave.

mod git;

use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;

use std::path::{Component, Path};

use self::git::{git, git_folders};
use crate::policy::command::programs::is_reader;
use crate::policy::command::{Command, CommandLine, Word, base, is_installed, twists};
use crate::policy::{Setting, WorkspaceMode};

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
const OVERWRITES: Risk = (RiskLevel::High, Reversibility::Irreversible, "Overwrites files.");
const PERMITS: Risk =
    (RiskLevel::High, Reversibility::PartiallyReversible, "Changes the permissions of many files.");
const FORGETS: Risk =
    (RiskLevel::High, Reversibility::Irreversible, "Deletes commits or stashes of the git repository.");
const OUTSIDE: Risk =
    (RiskLevel::High, Reversibility::Irreversible, "Changes or deletes files outside of the folder.");
const PUBLISHES: Risk =
    (RiskLevel::High, Reversibility::Irreversible, "Publishes something or changes a remote service.");
const DESTROYS: Risk = (RiskLevel::High, Reversibility::Irreversible, "Overwrites data on a device.");
const DELETES: Risk =
    (RiskLevel::High, Reversibility::Irreversible, "Deletes containers, databases or resources.");
const RUNS_FOREIGN: Risk = (RiskLevel::High, Reversibility::Irreversible, "Downloads and runs a program.");
const RAISES: Risk = (RiskLevel::High, Reversibility::Irreversible, "Runs with the rights of another user.");
const CREDENTIALS: Risk = (RiskLevel::High, Reversibility::Irreversible, "Reads or changes credentials.");
const DROPS: Risk = (RiskLevel::High, Reversibility::Irreversible, "Deletes data from a database.");
const STOPS: Risk =
    (RiskLevel::High, Reversibility::PartiallyReversible, "Stops the machine or its services.");
const REMOTE: Risk = (RiskLevel::High, Reversibility::Irreversible, "Acts on another machine.");

/// The same in a copy, which confines it, so that it can be undone.
const IN_COPY: &[(Risk, &str)] = &[
    (REMOVES, "Deletes files of the copy. Your folder keeps its files."),
    (DISCARDS, "Discards changes in the copy. Your folder does not change."),
    (OVERWRITES, "Overwrites files of the copy. Your folder keeps its files."),
    (PERMITS, "Changes the permissions of many files of the copy."),
];

/// How far the effects of a command line reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// It only reads.
    Reading,
    /// It changes files of its folder.
    Folder,
    /// It runs programs whose effects are unknown.
    Programs,
    /// It leaves the folder, or cannot be judged.
    Outside,
}

impl Reach {
    fn of(risk: Risk) -> Reach {
        if risk == READS {
            Reach::Reading
        } else if risk == BUILDS || risk == UNKNOWN {
            Reach::Programs
        } else if risk == RECORDS || is_about_files(risk) {
            Reach::Folder
        } else {
            Reach::Outside
        }
    }
}

/// Whether the risk is what becomes of files.
fn is_about_files(risk: Risk) -> bool {
    risk == CHANGES || risk == REBUILT || IN_COPY.iter().any(|(known, _)| *known == risk)
}

/// Assesses a shell command line that runs in an unknown folder.
pub fn command_risk(text: &str) -> Risk {
    LineRisk::of(&CommandLine::read(text), None).worst
}

/// The risk of a command line: that of its most dangerous command.
pub(crate) struct LineRisk {
    pub(crate) worst: Risk,
    pub(crate) reach: Reach,
    /// The consequences of all commands that are as dangerous.
    pub(crate) consequences: Vec<&'static str>,
}

impl LineRisk {
    /// Assesses a command line in the setting of its run.
    pub(crate) fn of(line: &CommandLine, setting: Option<&Setting>) -> LineRisk {
        let mut risks = Vec::new();
        let (worst, reach) = line_risk(line, setting, &mut |risk| risks.push(risk));
        let mut consequences = vec![worst.2];
        for (level, _, consequence) in risks {
            if level == worst.0 && level > RiskLevel::Low && !consequences.contains(&consequence) {
                consequences.push(consequence);
            }
        }
        LineRisk { worst, reach, consequences }
    }
}

/// Assesses a command line, and passes on the risk of each part of it.
fn line_risk(line: &CommandLine, setting: Option<&Setting>, each: &mut dyn FnMut(Risk)) -> (Risk, Reach) {
    let mut worst: Option<Risk> = None;
    let mut reach = Reach::Reading;
    let is_copy =
        setting.is_some_and(|setting| setting.workspace_mode == WorkspaceMode::Clone && setting.sandboxed);
    let root = setting.map(|setting| setting.root.as_path());
    let mut take = |risk: Risk| {
        reach = reach.max(Reach::of(risk));
        let confined = IN_COPY.iter().find(|(known, _)| is_copy && *known == risk);
        let risk = confined.map_or(risk, |(_, consequence)| {
            (RiskLevel::Medium, Reversibility::PartiallyReversible, consequence)
        });
        each(risk);
        // Of two equal risks the first is returned, unless it is unspecific.
        if worst
            .is_none_or(|worst| (risk.0, risk.1) > (worst.0, worst.1) || worst == READS && risk.0 == worst.0)
        {
            worst = Some(risk);
        }
    };
    let fetches = line.commands.iter().any(|command| matches!(name(command), "curl" | "wget"));
    let mut folder = String::new();
    for command in &line.commands {
        if fetches && runs_its_input(command) {
            take(RUNS_FOREIGN);
        } else if !command.wraps || command.raised {
            take(of(command, &folder, root));
        }
        if matches!(name(command), "cd" | "pushd") {
            folder = within(&folder, folder_argument(command));
        }
    }
    for target in &line.redirects {
        take(if is_device(target) {
            DESTROYS
        } else if leaves(target, root) || leaves(&within(&folder, target), root) {
            OUTSIDE
        } else {
            CHANGES
        });
    }
    for input in &line.inputs {
        if names_credentials(&[input, &within(&folder, input)], root) {
            take(CREDENTIALS);
        }
    }
    if line.twisted {
        take(UNKNOWN);
    }
    if line.unjudged.is_some() {
        take(UNJUDGED);
    }
    let risk = worst.unwrap_or(UNKNOWN);
    (risk, if worst.is_none() { Reach::Programs } else { reach })
}

/// Whether a path is outside of the folder `root`, of the private `/tmp` of a command, and of `/dev`.
fn leaves(text: &str, root: Option<&Path>) -> bool {
    let path = Path::new(text);
    let own = [root.unwrap_or(Path::new("")), Path::new("/tmp"), Path::new("/dev")];
    let below =
        own.iter().filter(|folder| folder.is_absolute()).find_map(|folder| path.strip_prefix(folder).ok());
    let mut depth = 0_i32;
    text.starts_with('~')
        || path.is_absolute() && below.is_none_or(|below| below == Path::new(""))
        || below.unwrap_or(path).components().any(|part| {
            depth += match part {
                Component::Normal(_) => 1,
                Component::ParentDir => -1,
                Component::Prefix(_) | Component::RootDir | Component::CurDir => 0,
            };
            depth < 0
        })
}

/// The files that a program changes, of its arguments.
fn changed<'a>(name: &str, args: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let names_target = args.iter().any(|arg| arg.starts_with("-t") || arg.starts_with("--target"));
    let only_last = matches!(name, "cp" | "install" | "ln") && !names_target;
    let value =
        |arg: &&'a str| ["of=", "--target-directory="].iter().find_map(|start| arg.strip_prefix(start));
    let files = args.iter().map(move |arg| value(arg).unwrap_or(arg)).filter(|arg| !arg.starts_with('-'));
    let skipped = if only_last { files.clone().count().saturating_sub(1) } else { 0 };
    files.skip(skipped)
}

/// Whether an argument is a file outside of the folder that usually has credentials.
fn names_credentials(args: &[&str], root: Option<&Path>) -> bool {
    const PARTS: &[&str] = &[
        ".ssh",
        ".aws",
        ".gnupg",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".kube",
        ".docker",
        ".git-credentials",
        "gcloud",
        "credentials",
        "credentials.toml",
        "shadow",
        "id_rsa",
        "id_ed25519",
        "environ",
    ];
    args.iter().any(|arg| {
        let path = arg.rsplit(['=', '@']).next().unwrap_or(arg);
        path.contains('/')
            && path.split('/').any(|part| PARTS.contains(&part))
            && (path.starts_with('$') || leaves(path, root))
    })
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

/// The argument of `cd`; without one it goes to the home folder. A folder that is known only when it runs counts as the
/// same one.
fn folder_argument(command: &Command) -> &str {
    let mut folders = command.words.iter().skip(1).filter(|word| !word.starts_with('-'));
    match folders.next() {
        Some(folder) if folder.starts_with('~') || folder.starts_with("$HOME") => "~",
        Some(folder) if folder.is_dynamic() => ".",
        Some(folder) => folder,
        None if command.words.len() > 1 => ".",
        None => "~",
    }
}

/// A path as seen from the folder in which the line started.
fn within(folder: &str, path: &str) -> String {
    if folder.is_empty() || path.starts_with(['/', '~']) {
        path.to_owned()
    } else {
        format!("{folder}/{path}")
    }
}

/// Assesses one command, which runs in `folder` as seen from the start of the line.
fn of(command: &Command, folder: &str, root: Option<&Path>) -> Risk {
    if command.raised {
        return RAISES;
    }
    let Some((_, args)) = command.words.split_first() else { return READS };
    let args: Vec<&str> = args.iter().map(|word| &**word).collect();
    let name = name(command);
    let mut risk =
        if depends_on_dynamic_word(name, &command.words[1..]) { UNJUDGED } else { by_name(name, &args) };
    let is_outside = |path: &str| leaves(&within(folder, path), root);
    let acts_outside = match name {
        "git" => is_outside(".") || git_folders(&args).any(is_outside),
        _ if is_about_files(risk) => changed(name, &args).any(is_outside),
        _ => is_outside("."),
    };
    let paths: Vec<String> = args.iter().map(|arg| within(folder, arg)).collect();
    if names_credentials(&args, root)
        || names_credentials(&paths.iter().map(String::as_str).collect::<Vec<_>>(), root)
    {
        risk = CREDENTIALS;
    } else if acts_outside && risk.0 != RiskLevel::Low && risk != UNJUDGED {
        risk = OUTSIDE;
    }
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
        return if name == "sqlite3" { OVERWRITES } else { DROPS };
    }
    let is_query = name == "command" && has("-v");
    if is_query || args.len() == 1 && matches!(args[0], "--version" | "--help") {
        return READS;
    }
    if let Some(package) = package(name, args) {
        return package_risk(package);
    }
    let risk = system_program_risk(name, args, first);
    let risk = risk.or_else(|| build_program_risk(name, args, first));
    let risk = risk.or_else(|| remote_program_risk(name, args, first)).unwrap_or(UNKNOWN);
    if risk == UNKNOWN && name != "git" { by_verb(name, args) } else { risk }
}

/// The arguments after a verb that runs a program of a package, which is downloaded if it is not installed.
fn package<'a>(name: &str, args: &'a [&'a str]) -> Option<&'a [&'a str]> {
    let verbs: &[&str] = match name {
        "npx" | "bunx" | "pnpx" | "uvx" => return Some(args),
        "npm" => &["exec", "x"],
        "pnpm" | "yarn" | "bun" => &["dlx", "x"],
        "pipx" => &["run"],
        "uv" if args.first() == Some(&"tool") => &["run"],
        _ => return None,
    };
    let at = args.iter().position(|arg| !arg.starts_with('-') && *arg != "tool")?;
    verbs.contains(&args[at]).then(|| &args[at + 1..])
}

/// Common tools of projects have their own risk, because they are usually installed.
fn package_risk(args: &[&str]) -> Risk {
    const PROJECT_TOOLS: &[&str] = &[
        "playwright",
        "cypress",
        "prisma",
        "drizzle-kit",
        "nx",
        "esbuild",
        "stylelint",
        "vue-tsc",
        "astro",
        "nuxt",
        "tailwindcss",
        "nodemon",
        "storybook",
        "expo",
        "swc",
        "babel",
    ];
    let is_local = args.iter().any(|arg| matches!(*arg, "--no-install" | "--no" | "--offline"));
    let chooses = args.iter().any(|arg| {
        let option = arg.split('=').next().unwrap_or(arg);
        matches!(option, "-p" | "--package" | "--from" | "--spec" | "--with" | "-c" | "--call")
    });
    let Some(at) = args.iter().position(|arg| !arg.starts_with('-')) else { return RUNS_FOREIGN };
    if package(args[at], &args[at + 1..]).is_some() {
        return RUNS_FOREIGN;
    }
    if is_local || !chooses && (is_build_tool(args[at]) || PROJECT_TOOLS.contains(&args[at])) {
        return by_name(args[at], &args[at + 1..]);
    }
    RUNS_FOREIGN
}

fn is_build_tool(name: &str) -> bool {
    const TOOLS: &[&str] = &[
        "pytest", "tox", "ctest", "rustc", "tsc", "eslint", "mypy", "ruff", "jest", "vitest", "mocha",
        "prettier", "black", "flake8", "pylint", "biome", "webpack", "vite", "rollup", "turbo", "next",
        "tsx", "ts-node", "pyright",
    ];
    TOOLS.contains(&name)
}

/// The risk of an unknown program by its verbs: the first words that are no options, and its own name.
fn by_verb(name: &str, args: &[&str]) -> Risk {
    const VERBS_MAX: usize = 3;
    const PUBLISHING: &[&str] = &[
        "publish",
        "deploy",
        "release",
        "upload",
        "push",
        "submit",
        "unpublish",
        "yank",
        "promote",
        "dcommit",
    ];
    const DELETING: &[&str] = &[
        "destroy",
        "drop",
        "flush",
        "purge",
        "wipe",
        "nuke",
        "terminate",
        "teardown",
        "delete",
        "flushall",
        "flushdb",
    ];
    const INSTALLING: &[&str] = &["install", "add", "i", "run", "get", "require", "exec", "use"];
    const LOGIN: &[&str] =
        &["login", "logout", "auth", "adduser", "credential", "credentials", "secret", "secrets", "token"];
    let stem = |word: &str| base(word).split('.').next().unwrap_or_default().to_owned();
    let is_script =
        matches!(name, "sh" | "bash" | "dash" | "node" | "ruby" | "perl") || name.starts_with("python");
    // A script is a program. Of `db:drop`, both parts may be the verb that deletes, the first one verbs of other kinds.
    let mut verbs = vec![stem(name)];
    let plain = args.iter().filter(|arg| !arg.starts_with('-')).take(VERBS_MAX);
    for arg in plain.clone() {
        verbs.extend(if is_script { vec![stem(arg)] } else { arg.split(':').map(str::to_owned).collect() });
    }
    let firsts: Vec<&str> = plain.filter_map(|arg| arg.split(':').next()).collect();
    let any = |known: &[&str]| {
        known.contains(&verbs[0].as_str())
            || is_script && verbs.iter().any(|verb| known.contains(&verb.as_str()))
            || firsts.iter().any(|verb| known.contains(verb))
    };
    let deletes = verbs.iter().any(|verb| DELETING.contains(&verb.as_str()));
    let pair = |first: &str, second: &str| verbs.windows(2).any(|pair| pair[0] == first && pair[1] == second);
    let is_url = |arg: &&str| {
        arg.contains("://")
            || ["git+", "git@", "github:", "gitlab:"].iter().any(|start| arg.starts_with(start))
    };
    let is_pinned =
        |arg: &&str| arg.contains('/') && arg.contains('@') && !arg.starts_with(['-', '@', '.', '/']);
    if any(INSTALLING)
        && args.iter().any(|arg| is_url(arg) || name == "go" && args[0] != "get" && is_pinned(arg))
    {
        RUNS_FOREIGN
    } else if deletes || pair("db", "reset") || pair("migrate", "reset") || pair("migrate", "fresh") {
        DELETES
    } else if any(PUBLISHING)
        || verbs.iter().any(|verb| verb.starts_with("publish") && !verb.contains("Local"))
    {
        PUBLISHES
    } else if any(LOGIN) {
        CREDENTIALS
    } else {
        UNKNOWN
    }
}

/// Programs for files, devices, users and the machine.
fn system_program_risk(name: &str, args: &[&str], first: &str) -> Option<Risk> {
    let has = |word: &str| args.contains(&word);
    let starts = |start: &str| args.iter().any(|arg| arg.starts_with(start));
    Some(match name {
        "rm" | "rmdir" | "unlink" => REMOVES,
        "find" => {
            if has("-delete") {
                REMOVES
            } else if starts("-fp") || starts("-fls") {
                OVERWRITES
            } else if args.iter().any(|arg| matches!(*arg, "-exec" | "-execdir" | "-ok" | "-okdir")) {
                // The command that it runs is assessed separately.
                CHANGES
            } else {
                READS
            }
        }
        "git" => git(args),
        "dd" | "shred" | "truncate" if args.iter().any(|arg| is_device(arg.trim_start_matches("of="))) => {
            DESTROYS
        }
        "dd" | "shred" | "truncate" => OVERWRITES,
        "wipefs" | "fdisk" | "sfdisk" | "parted" | "mkswap" | "blkdiscard" => DESTROYS,
        "svn" | "hg" | "bzr" | "fossil" | "jj"
            if matches!(first, "revert" | "purge" | "strip" | "abandon" | "restore") =>
        {
            DISCARDS
        }
        "svn" if matches!(first, "commit" | "ci" | "import") => PUBLISHES,
        "cmake" if has("-E") && (has("rm") || starts("remove")) => REMOVES,
        _ if name.starts_with("mkfs") => DESTROYS,
        "shutdown" | "reboot" | "halt" | "poweroff" | "init" | "telinit" => STOPS,
        "systemctl" | "service" | "launchctl" => {
            if matches!(first, "status" | "list-units" | "is-active") {
                READS
            } else {
                STOPS
            }
        }
        "su" | "runuser" | "gosu" | "su-exec" => RAISES,
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
                DELETES
            } else {
                UNKNOWN
            }
        }
        "gpg" if starts("--verify") || starts("--list") => READS,
        "ssh-add" | "ssh-keygen" | "gpg" | "pass" | "op" | "vault" | "security" => CREDENTIALS,
        "ssh" | "scp" | "sftp" | "telnet" | "ftp" | "lftp" | "tftp" | "mosh" | "autossh" | "ssh-copy-id"
        | "gsutil" | "rclone" | "mail" | "sendmail" | "swaks" => REMOTE,
        "nc" | "ncat" | "netcat" | "socat" if !is_local(args) || sends(name, args) => REMOTE,
        "curl" | "wget" | "http" | "https" | "xh" if sends(name, args) && !is_local(args) => REMOTE,
        "rsync" if args.iter().any(|arg| arg.contains(':')) => REMOTE,
        "rsync" if starts("--del") => REMOVES,
        "dropdb" => DROPS,
        "mv" | "cp" | "tee" | "touch" | "mkdir" | "ln" | "patch" | "install" => CHANGES,
        _ => return None,
    })
}

/// Whether a command of the network only reaches this machine, which in a sandbox is its own.
fn is_local(args: &[&str]) -> bool {
    let is_here = |address: &str| {
        let host = address.split('/').next().and_then(|host| host.rsplit('@').next()).unwrap_or_default();
        let host = host.split(':').next().unwrap_or_default();
        matches!(host, "localhost" | "127.0.0.1" | "0.0.0.0" | "[")
    };
    let addresses: Vec<&str> = args.iter().filter_map(|arg| Some(arg.split_once("://")?.1)).collect();
    match addresses[..] {
        [] => args.iter().any(|arg| is_here(arg)),
        _ => addresses.iter().all(|address| is_here(address)),
    }
}

/// Whether a client of the network sends more than a request for a file, or runs a program for the other side.
fn sends(name: &str, args: &[&str]) -> bool {
    const LONG: &[&str] =
        &["--upload", "--data", "--form", "--json", "--post", "--body", "--method", "--exec", "--sh-exec"];
    const METHODS: &[&str] = &["POST", "PUT", "PATCH", "DELETE", "post", "put", "patch", "delete"];
    let letters = match name {
        "curl" => "TdF",
        "nc" | "ncat" | "netcat" => "ec",
        _ => "",
    };
    let is_short = |arg: &str| {
        arg.starts_with('-') && !arg.starts_with("--") && arg.contains(|char: char| letters.contains(char))
    };
    args.iter().any(|arg| {
        is_short(arg)
            || LONG.iter().any(|long| arg.starts_with(long))
            || METHODS.contains(&arg.trim_start_matches("-X").trim_start_matches("--request="))
            || name == "socat" && (arg.starts_with("EXEC") || arg.starts_with("SYSTEM"))
    })
}

/// Programs that build, test and publish a workspace.
fn build_program_risk(name: &str, args: &[&str], first: &str) -> Option<Risk> {
    let has = |word: &str| args.contains(&word);
    let starts = |start: &str| args.iter().any(|arg| arg.starts_with(start));
    Some(match name {
        "npm" | "pnpm" | "yarn" | "bun" => match first {
            "publish" | "unpublish" | "deprecate" | "dist-tag" | "owner" | "access" => PUBLISHES,
            "create" => RUNS_FOREIGN,
            "init" if args.iter().filter(|arg| !arg.starts_with('-')).count() > 1 => RUNS_FOREIGN,
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
        _ if is_build_tool(name) => {
            if starts("--fix") || starts("--write") || name == "black" && !has("--check") {
                CHANGES
            } else {
                BUILDS
            }
        }
        "make" | "gmake" | "just"
            if starts("SHELL=") || starts("--eval") || args.iter().any(|arg| twists(arg)) =>
        {
            UNKNOWN
        }
        "make" | "gmake" | "just" => match first {
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
        "dotnet" if first == "publish" => BUILDS,
        "docker" | "podman" | "nerdctl" => match first {
            "push" => PUBLISHES,
            "rm" | "rmi" | "prune" => DELETES,
            // Parts of the machine, or the rights of its administrator.
            "run" | "create" | "compose" if !has("down") && args.iter().any(|arg| is_mount(arg)) => RAISES,
            _ if args.iter().take(2).any(|arg| matches!(*arg, "prune" | "rm" | "down"))
                && has_volumes(args) =>
            {
                DELETES
            }
            "ps" | "images" | "logs" | "inspect" | "version" => READS,
            _ => UNKNOWN,
        },
        "kubectl" | "helm" | "oc" => match first {
            "get" | "describe" | "logs" | "version" | "list" | "status" | "template" | "lint" => READS,
            _ => PUBLISHES,
        },
        "terraform" | "tofu" | "pulumi" => match first {
            "init" | "plan" | "validate" | "show" | "fmt" | "version" => BUILDS,
            _ => PUBLISHES,
        },
        "gh" | "glab" => {
            let words: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with('-')).collect();
            let reads = matches!(words[..], [_, "view" | "list" | "status" | "diff" | "checks", ..]);
            if reads || matches!(words[..], ["status", ..]) { READS } else { PUBLISHES }
        }
        "aws" | "gcloud" | "az" | "doctl" | "fly" | "heroku" | "vercel" | "netlify" => PUBLISHES,
        _ => return None,
    })
}

/// Whether an option gives a container a part of the machine.
fn is_mount(arg: &str) -> bool {
    arg.starts_with("-v")
        || [
            "--volume",
            "--mount",
            "--privileged",
            "--device",
            "--cap-add",
            "--pid=",
            "--net=host",
            "--network=host",
        ]
        .iter()
        .any(|option| arg.starts_with(option))
}

/// Whether a command of containers deletes more than containers that are created again.
fn has_volumes(args: &[&str]) -> bool {
    !args.contains(&"compose") || args.iter().any(|arg| matches!(*arg, "-v" | "--volumes" | "rm"))
}

/// Options that make a reading program write or run something.
fn reader_writes(name: &str, args: &[&str]) -> bool {
    let starts = |start: &str| args.iter().any(|arg| arg.starts_with(start));
    match name {
        "rg" => starts("--pre") || starts("--hostname-bin"),
        // Long options may be abbreviated, and short ones joined.
        "sort" => starts("--o") || starts("--co") || flag(args, 'o', "--output"),
        "tree" => flag(args, 'o', "--output"),
        "uniq" => args.iter().filter(|arg| is_operand(arg)).count() > 1,
        "xxd" => args.iter().filter(|arg| is_operand(arg)).count() > 1 || flag(args, 'r', "-revert"),
        "date" => starts("-s") || starts("--set"),
        "file" => starts("-C"),
        "less" | "more" => {
            args.iter().any(|arg| arg.starts_with('+') && arg.contains(['!', '|']))
                || flag(args, 'o', "--log-file")
                || flag(args, 'O', "--LOG-FILE")
        }
        "man" => starts("-P") || starts("--pag") || starts("-H") || starts("--html"),
        _ => false,
    }
}

/// Whether an argument is no option. A single dash is standard input or output.
fn is_operand(arg: &str) -> bool {
    !arg.starts_with('-') || arg == "-"
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
