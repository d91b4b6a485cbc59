//! Finds programs that a command names in its arguments, options or variables, and that it probably runs.
//!
//! General rules replace long lists: the arguments of a program that is not known to leave them alone are searched for
//! programs that do harm, and so are the values of options and variables that name a program. Start at
//! [`CommandLine::find_named`]. Pure. The module must not depend on rules or risks.

use crate::policy::command::{Command, CommandLine, Word, base};
use crate::policy::limits;

/// Programs that remove, overwrite or stop something, even if another program supplies their arguments.
const REMOVERS: &[&str] = &[
    "rm",
    "rmdir",
    "unlink",
    "shred",
    "truncate",
    "dd",
    "wipefs",
    "blkdiscard",
    "mkswap",
    "shutdown",
    "reboot",
    "poweroff",
];

/// Programs that do harm with arguments: they remove, leave the machine, publish, or run another program.
const HARMFUL: &[&str] = &[
    "sudo",
    "doas",
    "pkexec",
    "su",
    "runuser",
    "gosu",
    "ssh",
    "scp",
    "sftp",
    "telnet",
    "nc",
    "ncat",
    "netcat",
    "socat",
    "rsync",
    "curl",
    "wget",
    "chmod",
    "chown",
    "chgrp",
    "git",
    "find",
    "xargs",
    "eval",
    "dropdb",
    "kubectl",
    "helm",
    "terraform",
    "docker",
    "podman",
    "systemctl",
    "npm",
    "npx",
    "pnpm",
    "yarn",
    "cargo",
    "twine",
    "gem",
    "uvx",
    "pipx",
];

/// Shells, which count if a script follows.
const SHELLS: &[&str] = &["sh", "bash", "dash"];

/// Programs that only read. The arguments of none are programs, apart from the options of [`names_program`].
pub(crate) fn is_reader(name: &str) -> bool {
    const READERS: &[&str] = &[
        "ls",
        "cat",
        "head",
        "tail",
        "wc",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "file",
        "stat",
        "du",
        "df",
        "pwd",
        "echo",
        "printf",
        "true",
        "false",
        "test",
        "which",
        "whereis",
        "type",
        "date",
        "uname",
        "whoami",
        "id",
        "nproc",
        "tree",
        "diff",
        "cmp",
        "cut",
        "tr",
        "uniq",
        "sort",
        "nl",
        "tac",
        "rev",
        "fold",
        "basename",
        "dirname",
        "realpath",
        "readlink",
        "sha256sum",
        "sha1sum",
        "md5sum",
        "cksum",
        "base64",
        "jq",
        "cd",
        "pushd",
        "popd",
        "ps",
        "printenv",
        "column",
        "paste",
        "join",
        "less",
        "more",
        "env",
        "seq",
        "sleep",
        "comm",
        "od",
        "xxd",
        "hexdump",
        "strings",
        ":",
        "[",
        "[[",
        "for",
        "case",
        "break",
        "continue",
        "exit",
        "return",
        "shift",
        "wait",
        "set",
        "read",
        "export",
        "local",
        "unset",
        "trap",
        "man",
    ];
    READERS.contains(&name)
}

/// Programs whose arguments are files, packages, tests or targets of a build.
const INERT: &[&str] = &[
    "rm",
    "rmdir",
    "unlink",
    "shred",
    "mv",
    "cp",
    "tee",
    "touch",
    "mkdir",
    "ln",
    "patch",
    "install",
    "chmod",
    "chown",
    "chgrp",
    "truncate",
    "apt",
    "apt-get",
    "apt-cache",
    "dnf",
    "yum",
    "apk",
    "pacman",
    "brew",
    "snap",
    "dpkg",
    "rpm",
    "pip",
    "pip3",
    "gem",
    "cargo",
    "npm",
    "pnpm",
    "yarn",
    "go",
    "make",
    "just",
    "pytest",
    "tox",
    "ctest",
    "rustc",
    "tsc",
    "eslint",
    "mypy",
    "ruff",
    "jest",
    "vitest",
    "kill",
    "pkill",
    "pgrep",
    "source",
    ".",
    "eval",
    "sh",
    "bash",
    "dash",
    "find",
    "git",
    "declare",
    "typeset",
    "readonly",
    "command",
    "unalias",
    "alias",
    "hash",
    "help",
];

/// Verbs of build tools and package managers after which a program follows.
const RUN_VERBS: &[&str] = &["exec", "x", "dlx", "watch"];

/// Whether the value of an option is a program.
fn names_program(option: &str) -> bool {
    const PARTS: &[&str] =
        &["prog", "command", "exec", "filter", "pager", "editor", "shell", "hostname-bin", "extcmd"];
    let name = option.split('=').next().unwrap_or(option);
    name.starts_with("--")
        && (name == "--pre"
            || name.starts_with("--co") && !name.starts_with("--col")
            || PARTS.iter().any(|part| name.contains(part)))
}

/// Whether a setting of git names a program.
fn is_program_setting(key: &str) -> bool {
    const LAST: &[&str] = &[
        "pager",
        "editor",
        "sshcommand",
        "helper",
        "external",
        "textconv",
        "cmd",
        "command",
        "driver",
        "clean",
        "smudge",
        "process",
        "program",
        "fsmonitor",
        "askpass",
        "uploadpack",
        "receivepack",
        "gitproxy",
    ];
    let key = key.to_ascii_lowercase();
    let last = key.rsplit('.').next().unwrap_or(&key);
    LAST.contains(&last) || key.starts_with("alias.") || key.starts_with("pager.") || key.starts_with("hook.")
}

/// The parts of a text that could be words of a command.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let ends = |char: char| char.is_whitespace() || "'\"`;|&,()[]{}<>!\\#".contains(char);
    text.split(ends).filter(|token| !token.is_empty())
}

/// The programs that a token may name: as it is, after `=`, or joined to an option of one letter.
pub(crate) fn programs_of(token: &str) -> impl Iterator<Item = &str> {
    let value = token.rsplit_once('=').map(|(_, value)| value);
    let option = token.strip_prefix('-').filter(|option| !option.starts_with('-'));
    let joined = option.and_then(|option| option.get(1..)).filter(|joined| !joined.is_empty());
    [Some(token), value, joined].into_iter().flatten()
}

/// The program that a token names, if it does harm with the token after it. A part of a token, such as `ssh` in
/// `--rsh=ssh` or `-lssh`, is often no program, so it counts only if it removes something, or has arguments.
fn harmful<'a>(token: &'a str, next: Option<&str>, has_text: bool) -> Option<&'a str> {
    programs_of(token).find(|program| {
        let (name, is_whole) = (base(program), program.len() == token.len());
        let is_given = is_whole || has_text && token.contains('=');
        REMOVERS.contains(&name)
            || name.starts_with("mkfs.")
            || HARMFUL.contains(&name) && next.is_some() && is_given
            || SHELLS.contains(&name) && next.is_some_and(|next| next.starts_with('-') && next.contains('c'))
    })
}

impl CommandLine {
    /// Lists the programs that the arguments of a command name and that do harm.
    pub(super) fn find_named(&mut self, name: &str, rest: &[Word], depth: usize) {
        if name == "git" {
            return self.find_named_by_git(rest, depth);
        }
        let tool = rest.iter().find(|word| !word.starts_with('-'));
        if matches!(name, "npx" | "bunx" | "pnpx" | "uvx")
            && tool.is_some_and(|tool| INERT.contains(&&**tool))
        {
            return;
        }
        let runs = rest.iter().any(|word| RUN_VERBS.contains(&&**word));
        let is_make = matches!(name, "make" | "gmake" | "just");
        if !is_reader(name) && (!INERT.contains(&name) || runs) {
            for (at, word) in rest.iter().enumerate() {
                self.find_in_word(word, &rest[at + 1..], depth);
            }
            return;
        }
        for (at, word) in rest.iter().enumerate() {
            let is_jump = matches!(name, "less" | "more") && word.starts_with('+');
            let is_pager = name == "man" && word.starts_with("-P");
            if is_jump || is_pager || (is_make && word.contains('=')) || names_program(word) {
                self.find_in_word(word, &rest[at + 1..], depth);
            }
            if (is_pager && word.len() == 2 || names_program(word) && !word.contains('='))
                && let Some(value) = rest.get(at + 1)
            {
                self.find_in_word(value, &[], depth);
            }
        }
    }

    /// Lists the programs that a text names, such as the value of a variable.
    pub(super) fn find_in_text(&mut self, text: &str, depth: usize) {
        self.find_in_word(&Word { text: format!("={text}"), ..Word::default() }, &[], depth);
    }

    fn find_in_word(&mut self, word: &Word, after: &[Word], depth: usize) {
        if !self.may_take(1 + word.text.len()) {
            return;
        }
        let parts: Vec<&str> = tokens(&word.text).collect();
        for (at, token) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            let next = parts.get(at + 1).copied();
            let next = next.or_else(|| after.first().filter(|_| is_last).map(|word| &**word));
            let Some(program) = harmful(token, next, !is_last) else { continue };
            let first = Word { text: program.to_owned(), ..Word::default() };
            let words: Vec<Word> = std::iter::once(first)
                .chain(
                    parts[at + 1..].iter().map(|part| Word { text: (*part).to_owned(), ..Word::default() }),
                )
                .chain(after.iter().filter(|_| is_last && parts.len() == 1).cloned())
                .take(limits::NAMED_WORDS_MAX)
                .collect();
            if base(program) == "git" && words.len() == limits::NAMED_WORDS_MAX && parts.len() == 1 {
                self.cannot_judge("git has too many arguments to find its verb");
            }
            if !self.may_take_words(&words) || depth >= limits::COMMAND_DEPTH_MAX {
                return self.cannot_judge("its commands are nested too deeply");
            }
            self.run(Command { words, is_named: true, ..Command::default() }, depth + 1);
        }
    }

    /// Settings, options and verbs of git that name a program. Git passes most of them to a shell.
    fn find_named_by_git(&mut self, rest: &[Word], depth: usize) {
        const AFTER: &[&str] = &[
            "--exec",
            "--extcmd",
            "--upload-pack",
            "--receive-pack",
            "--open-files-in-pager",
            "--tree-filter",
            "--index-filter",
            "--msg-filter",
            "--env-filter",
            "--commit-filter",
            "--tag-name-filter",
            "--parent-filter",
            "--to-cmd",
            "--cc-cmd",
            "--smtp-server",
            "--sendmail-cmd",
        ];
        const WHY: &str = "git runs a program that is known only when it runs";
        let verb = |at: usize| rest[..at].last().map_or("", |word| &**word);
        let has = |name: &str| rest.iter().any(|word| &**word == name);
        let (greps, sets, has_submodules) = (has("grep"), has("config"), has("submodule"));
        let has_exec = has("rebase") || has("difftool");
        for (at, word) in rest.iter().enumerate() {
            let next = rest.get(at + 1);
            let commands = self.commands.len();
            let (option, value) = word.split_once('=').unwrap_or((word, ""));
            if matches!(verb(at), "-c" | "--config") || word.starts_with("-c") && option.contains('.') {
                let key = option.strip_prefix("-c").unwrap_or(option);
                if is_program_setting(key) {
                    self.git_runs(key, value, depth);
                }
            } else if AFTER.contains(&option) || option == "-x" && has_exec {
                let value = if word.contains('=') { Some(value) } else { next.map(|word| &**word) };
                self.add(value.unwrap_or_default(), depth + 1);
            } else if let Some(pager) = word.strip_prefix("-O").filter(|_| greps) {
                self.add(pager, depth + 1);
            } else if let Some(program) = word.strip_prefix("ext::") {
                self.add(program, depth + 1);
            } else if sets && is_program_setting(word) {
                self.git_runs(word, next.map_or("", |word| word), depth);
            } else if (&**word == "run" && verb(at) == "bisect") || (&**word == "foreach" && has_submodules) {
                let words: Vec<Word> =
                    rest[at + 1..].iter().skip_while(|word| word.starts_with('-')).cloned().collect();
                match &words[..] {
                    [script] => self.add(script, depth + 1),
                    [] => {}
                    _ if depth >= limits::COMMAND_DEPTH_MAX => {
                        self.cannot_judge("its commands are nested too deeply");
                    }
                    _ => self.run(Command { words, ..Command::default() }, depth + 1),
                }
                return;
            }
            let is_dynamic = word.is_dynamic() || next.is_some_and(Word::is_dynamic);
            if self.commands.len() > commands && is_dynamic {
                self.cannot_judge(WHY);
            }
        }
    }

    /// The value of a setting of git that names a program. An alias without `!` is a verb of git.
    fn git_runs(&mut self, key: &str, value: &str, depth: usize) {
        match value.strip_prefix('!') {
            Some(script) => self.add(script, depth + 1),
            None if key.to_ascii_lowercase().starts_with("alias.") => {
                self.add(&format!("git {value}"), depth + 1)
            }
            None if matches!(value, "" | "true" | "false" | "cache" | "store" | "osxkeychain") => {}
            None => self.add(value, depth + 1),
        }
    }
}

/// Whether an interpreter is given code instead of a file.
pub(super) fn has_inline_code(name: &str, rest: &[Word]) -> bool {
    const INTERPRETERS: &[&str] = &[
        "python",
        "perl",
        "ruby",
        "node",
        "nodejs",
        "deno",
        "bun",
        "php",
        "lua",
        "awk",
        "gawk",
        "mawk",
        "sed",
        "osascript",
        "Rscript",
        "julia",
        "tclsh",
        "emacs",
        "vim",
        "vi",
        "ex",
        "ed",
    ];
    let stem = name.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.');
    if !INTERPRETERS.contains(&stem) {
        return false;
    }
    let is_text = matches!(stem, "awk" | "gawk" | "mawk" | "sed");
    let is_code = |word: &Word| word.contains(['(', ';', ' ', '\n']);
    let runs = |word: &Word| {
        word.contains("system") || word.contains('|') || word.ends_with('e') && word.contains('/')
    };
    if is_text {
        return rest.iter().any(runs);
    }
    rest.is_empty() || rest.iter().any(|word| &**word == "-" || is_code(word))
}
