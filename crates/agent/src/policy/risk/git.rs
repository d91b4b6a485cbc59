//! Assesses commands of git.
//!
//! Must not know where a command runs. Start at [`git`].

use std::path::Path;

use recount_event::family::tool::RiskLevel;

use super::{
    CREDENTIALS, DISCARDS, FORGETS, PUBLISHES, READS, RECORDS, Risk, UNJUDGED, UNKNOWN, flag, is_short_for,
};

/// Assesses a command of git.
pub(super) fn git(args: &[&str]) -> Risk {
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
            option
                if option.starts_with("--") && option.contains('=')
                    || option.starts_with("-c")
                    || takes_no_value(option) =>
            {
                twisted |=
                    ["--exec-path=", "--config-env=", "-c"].iter().any(|start| option.starts_with(start));
                rest = after;
            }
            // Which word is the verb is not known.
            option if option.starts_with('-') => return UNJUDGED,
            _ => break,
        }
    }
    let Some((verb, args)) = rest.split_first() else { return READS };
    let has = |word: &str| args.contains(&word);
    let starts = |start: &str| args.iter().any(|arg| arg.starts_with(start));
    let long = |option: &str| args.iter().any(|arg| is_short_for(arg, option));
    let names = args.iter().any(|arg| !arg.starts_with('-'));
    let sends = |arg: &&str| matches!(*arg, "push" | "submit" | "dcommit");
    let risk = match *verb {
        "push" | "send-email" | "request-pull" | "send-pack" | "http-push" => PUBLISHES,
        "svn" | "p4" | "lfs" | "subtree" | "annex" if args.iter().take(2).any(sends) => PUBLISHES,
        "credential" => CREDENTIALS,
        "reset" if long("--hard") || long("--merge") || long("--keep") => DISCARDS,
        "clean" if cleans_nothing(args) => READS,
        "clean" => DISCARDS,
        "filter-branch" | "filter-repo" | "update-ref" | "prune" => FORGETS,
        "checkout" if discards_files(args) => DISCARDS,
        "checkout-index" if flag(args, 'f', "--force") => DISCARDS,
        "read-tree" if has("-u") || long("--reset") => DISCARDS,
        "switch" if has("-f") || long("--force") || long("--discard-changes") => DISCARDS,
        "restore" if !has("--staged") || long("--worktree") => DISCARDS,
        "rm" if flag(args, 'f', "--force") => DISCARDS,
        "merge" | "rebase" | "cherry-pick" | "revert" | "am" if has("--abort") || has("--skip") => DISCARDS,
        "submodule" if has("deinit") => DISCARDS,
        "branch" if has("-D") || has("-f") || has("-M") || has("-C") || long("--force") => FORGETS,
        "tag" if has("-d") || has("-f") || long("--delete") || long("--force") => FORGETS,
        "stash" if has("drop") || has("clear") => FORGETS,
        "reflog" if has("expire") || has("delete") => FORGETS,
        "gc" if starts("--pr") => FORGETS,
        "worktree" if has("remove") && (has("-f") || long("--force")) => DISCARDS,
        "status" | "log" | "show" | "diff" | "blame" | "rev-parse" | "rev-list" | "ls-files" | "ls-tree"
        | "grep" | "describe" | "shortlog" | "cat-file" | "version" | "help" | "merge-base" | "name-rev"
        | "check-ignore" => {
            let runs =
                starts("--ou") || starts("--ext") || starts("--textc") || starts("--op") || starts("-O");
            if runs { UNKNOWN } else { READS }
        }
        "branch" | "tag" | "remote" | "stash" | "config" if !names && *verb != "stash" => READS,
        "stash" if matches!(args.first(), Some(&("list" | "show"))) => READS,
        "config" if starts("--get") || has("--list") || has("-l") => READS,
        "add" | "commit" | "branch" | "tag" | "stash" | "switch" | "checkout" | "merge" | "rebase"
        | "cherry-pick" | "revert" | "restore" | "reset" | "mv" | "rm" | "init" | "notes" => RECORDS,
        _ => UNKNOWN,
    };
    if twisted && risk.0 == RiskLevel::Low { UNKNOWN } else { risk }
}

/// The folders that options of git select.
pub(super) fn git_folders<'a>(args: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let joined = ["--git-dir=", "--work-tree="];
    args.iter().enumerate().filter_map(move |(at, arg)| match *arg {
        "-C" | "--git-dir" | "--work-tree" => args.get(at + 1).copied(),
        arg => joined.iter().find_map(|start| arg.strip_prefix(start)),
    })
}

/// Whether a global option of git takes no value.
fn takes_no_value(option: &str) -> bool {
    const NAMES: &[&str] = &[
        "-p",
        "-P",
        "-v",
        "-h",
        "--paginate",
        "--no-pager",
        "--bare",
        "--version",
        "--help",
        "--exec-path",
        "--html-path",
        "--man-path",
        "--info-path",
        "--no-replace-objects",
        "--no-lazy-fetch",
        "--no-optional-locks",
        "--no-advice",
        "--literal-pathspecs",
        "--glob-pathspecs",
        "--noglob-pathspecs",
        "--icase-pathspecs",
    ];
    NAMES.contains(&option)
}

/// Whether `git clean` only lists. Any option that may hide or undo the dry run counts as deleting.
fn cleans_nothing(args: &[&str]) -> bool {
    let letters = |arg: &str| arg.strip_prefix('-').filter(|rest| !rest.starts_with('-')).map(str::to_owned);
    let is_known = |arg: &&str| {
        *arg == "--dry-run"
            || !arg.starts_with('-')
            || letters(arg).is_some_and(|letters| letters.chars().all(|char| "ndxXqf".contains(char)))
    };
    let is_dry =
        |arg: &&str| *arg == "--dry-run" || letters(arg).is_some_and(|letters| letters.contains('n'));
    args.iter().all(is_known) && args.iter().any(is_dry)
}

/// Whether `git checkout` replaces files: with a path, or a revision and paths. A single word with an extension is
/// probably a file.
fn discards_files(args: &[&str]) -> bool {
    let creates = args.iter().any(|arg| matches!(*arg, "-b" | "-B" | "-t" | "--track" | "--orphan"));
    let is_file = |arg: &&str| {
        let extension = Path::new(arg).extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| extension.chars().all(|char| char.is_ascii_alphabetic()))
    };
    let words: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with('-')).collect();
    args.iter().any(|arg| matches!(*arg, "--" | "-f" | ".") || is_short_for(arg, "--force"))
        || args.iter().any(|arg| arg.starts_with("--pathspec-from-file"))
        || !creates && (words.len() > 1 || words.iter().any(is_file))
}
