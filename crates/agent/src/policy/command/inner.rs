//! Finds the command that a command runs: after variables, `sudo`, `env`, `xargs`, in `sh -c`, `eval`, `find -exec`.
//!
//! Start at [`CommandLine::finish`]. Unknown options, and builtins that change how later text is read, make the line
//! one that cannot be judged. Pure. The module must not depend on risks.

use crate::policy::command::programs::has_inline_code;
use crate::policy::command::reader::is_reserved;
use crate::policy::command::{
    Command, CommandLine, Word, WordPattern, base, is_installed, is_name, is_setting, twists,
};
use crate::policy::limits;

/// Programs that run a program named by their arguments, in forms that are not read here.
const RUNNERS: &[&str] = &[
    "ash",
    "at",
    "batch",
    "busybox",
    "bwrap",
    "cgexec",
    "chroot",
    "chrt",
    "csh",
    "dbus-run-session",
    "eatmydata",
    "elvish",
    "entr",
    "expect",
    "faketime",
    "fakeroot",
    "firejail",
    "fish",
    "flock",
    "gdb",
    "linux32",
    "linux64",
    "ksh",
    "ltrace",
    "mksh",
    "nsenter",
    "nu",
    "numactl",
    "parallel",
    "perf",
    "prlimit",
    "proot",
    "proxychains",
    "pwsh",
    "rbash",
    "rlwrap",
    "run-parts",
    "runuser",
    "screen",
    "script",
    "setarch",
    "start-stop-daemon",
    "strace",
    "su",
    "systemd-run",
    "taskset",
    "tcsh",
    "tmux",
    "torsocks",
    "toybox",
    "unbuffer",
    "unshare",
    "valgrind",
    "watch",
    "xonsh",
    "xvfb-run",
    "yash",
    "zsh",
];

/// Builtins of `bash`, `dash` and `busybox sh` that never evaluate their arguments. Each other builtin has an arm in
/// [`CommandLine::look_into`], is a [`wrapper`], or is in [`UNSAFE`].
const HARMLESS: &[&str] = &[
    ":", "bg", "break", "cd", "chdir", "continue", "dirs", "disown", "echo", "exit", "false", "fg", "kill",
    "logout", "popd", "pushd", "pwd", "return", "shift", "times", "true", "type", "ulimit", "umask",
];

/// Builtins that evaluate their arguments, change the meaning of later text, or are unknown. They need approval.
const UNSAFE: &[&str] = &[
    ".", "alias", "bind", "caller", "compgen", "complete", "compopt", "coproc", "enable", "fc", "function",
    "hash", "help", "history", "let", "select", "shopt", "source", "suspend", "unalias",
];

/// Whether a builtin is handled in some form.
#[cfg(test)]
pub(super) fn is_known_builtin(name: &str) -> bool {
    const READ: &[&str] = &[
        "[",
        "[[",
        "]]",
        "case",
        "declare",
        "eval",
        "export",
        "for",
        "getopts",
        "in",
        "jobs",
        "local",
        "mapfile",
        "printf",
        "read",
        "readarray",
        "readonly",
        "set",
        "test",
        "trap",
        "typeset",
        "unset",
        "wait",
    ];
    let word = Word { text: name.to_owned(), ..Word::default() };
    HARMLESS.contains(&name)
        || UNSAFE.contains(&name)
        || READ.contains(&name)
        || wrapper(name).is_some()
        || is_reserved(&word)
}

/// A program that runs the command after its options.
struct Wrapper {
    /// Options that take a value, as the next word or joined.
    valued: &'static [&'static str],
    /// Options without a value; single letters may be joined.
    bare: &'static [&'static str],
    /// Words between the options and the command.
    words: usize,
}

fn wrapper(name: &str) -> Option<Wrapper> {
    let (valued, bare, words): (&[&str], &[&str], usize) = match name {
        "sudo" => (
            &["-u", "-g", "-h", "-p", "-C", "-D", "-T", "--user", "--group", "--host", "--prompt", "--chdir"],
            &["-n", "-E", "-H", "-S", "-k", "-b", "-P"],
            0,
        ),
        "doas" => (&["-u"], &["-n"], 0),
        "pkexec" => (&["--user"], &[], 0),
        "env" => (
            &["-u", "-C", "--unset", "--chdir"],
            &["-i", "-0", "-v", "--ignore-environment", "--null", "--debug"],
            0,
        ),
        "nice" => (&["-n", "--adjustment"], &["-1", "-2", "-3", "-4", "-5", "-6", "-7", "-8", "-9", "-0"], 0),
        "ionice" => (&["-c", "-n", "--class", "--classdata"], &["-t"], 0),
        "setsid" => (&[], &["-c", "-f", "-w", "--ctty", "--fork", "--wait"], 0),
        "stdbuf" => (&["-i", "-o", "-e", "--input", "--output", "--error"], &[], 0),
        "nohup" | "builtin" => (&[], &[], 0),
        "timeout" => (
            &["-s", "-k", "--signal", "--kill-after"],
            &["-v", "--preserve-status", "--foreground", "--verbose"],
            1,
        ),
        "xargs" => (
            &[
                "-n",
                "-I",
                "-P",
                "-L",
                "-d",
                "-s",
                "-a",
                "-E",
                "--max-args",
                "--max-procs",
                "--delimiter",
                "--arg-file",
            ],
            &["-0", "-r", "-t", "-x", "--null", "--no-run-if-empty", "--verbose", "--exit"],
            0,
        ),
        "command" => (&[], &["-p"], 0),
        "exec" => (&["-a"], &["-c", "-l"], 0),
        "time" => (&["-f", "-o"], &["-p", "-v", "-a"], 0),
        _ => return None,
    };
    Some(Wrapper { valued, bare, words })
}

impl Wrapper {
    /// The number of words that are options; `None` if one is unknown.
    fn options(&self, words: &[Word]) -> Option<usize> {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let text = word.text.as_str();
            // Even a word that does not split may be another option than its text shows: `"-u$E"`.
            if word.has_unknown_start() || (word.is_dynamic() && text.starts_with('-')) {
                return None;
            }
            if text == "--" {
                return Some(at + 1);
            }
            if !text.starts_with('-') {
                return Some(at);
            }
            at += if self.valued.contains(&text) {
                // If the value became several words, the second would be the command.
                words.get(at + 1).filter(|value| !value.has_unknown_start() && !value.is_several())?;
                2
            } else if self.is_joined(text) || self.bare.contains(&text) || self.is_cluster(text) {
                1
            } else {
                return None;
            };
        }
        Some(at)
    }

    fn is_joined(&self, text: &str) -> bool {
        self.valued.iter().any(|option| {
            let rest = text.strip_prefix(option).filter(|rest| !rest.is_empty());
            rest.is_some_and(|rest| if option.starts_with("--") { rest.starts_with('=') } else { true })
        })
    }

    fn is_cluster(&self, text: &str) -> bool {
        let letters = text.strip_prefix('-').unwrap_or_default();
        let known = |letter: char| {
            self.bare
                .iter()
                .any(|option| option.strip_prefix('-').is_some_and(|rest| rest.chars().eq([letter])))
        };
        !letters.is_empty() && letters.chars().all(known)
    }
}

/// The texts that `xargs` replaces in the arguments of its command. An unknown text is part of every word.
fn replaced(options: &[Word]) -> Vec<String> {
    let mut texts = Vec::new();
    for (at, word) in options.iter().enumerate() {
        let text = match word.strip_prefix("-I") {
            Some("") => options.get(at + 1),
            Some(_) => Some(word),
            None => None,
        };
        if let Some(text) = text {
            let joined = text.strip_prefix("-I").unwrap_or(text);
            texts.push(if text.is_dynamic() { String::new() } else { joined.to_owned() });
        }
    }
    texts
}

impl CommandLine {
    /// Lists a command that the shell runs, and the commands that it runs.
    pub(super) fn finish(&mut self, mut command: Command, depth: usize) {
        if self.condition == Some(depth) {
            // `[[ a && b ]]`: some shells continue the condition, others run `b`.
            self.condition(&command.words);
            if command.words.last().is_some_and(|word| &**word == "]]") {
                self.condition = None;
            }
        }
        let mut at = 0;
        while let Some(word) = command.words.get(at) {
            if word.assigns {
                command.sets.push(word.text.clone());
                at += 1;
            } else if command.sets.is_empty() && is_reserved(word) {
                let times = word.text == "time";
                at += 1;
                if times && command.words.get(at).is_some_and(|next| next.text == "-p") {
                    at += 1;
                }
                if times
                    && command
                        .words
                        .get(at)
                        .is_some_and(|next| next.text.starts_with('-') || next.has_unknown_start())
                {
                    self.cannot_judge("shells interpret the options of `time` differently");
                }
            } else {
                break;
            }
        }
        // A variable that is set for one command does not apply to the words of that command.
        let alone = at == command.words.len();
        for word in command.words[..at].iter().filter(|word| word.assigns) {
            self.assigned(word, alone);
        }
        command.words.drain(..at);
        if command.words.is_empty() {
            if !command.sets.is_empty() {
                self.twisted |= command.sets.iter().any(|set| twists(set));
                self.push(command);
            }
            return;
        }
        self.run(command, depth);
    }

    /// Lists a command whose words are not expanded by a shell any more.
    pub(super) fn run(&mut self, mut command: Command, depth: usize) {
        let mut wrappers = 0;
        while let Some(first) = command.words.first() {
            if first.is_dynamic()
                || first.has(WordPattern::Brace)
                || (first.has(WordPattern::Glob) && !matches!(first.text.as_str(), "[" | "[["))
            {
                self.cannot_judge("the name of a command is known only when it runs");
                break;
            }
            let name = base(first).to_owned();
            let Some(wrapper) = wrapper(&name) else { break };
            if name == "command" && command.words.get(1).is_some_and(|word| matches!(&**word, "-v" | "-V")) {
                break;
            }
            wrappers += 1;
            if wrappers > limits::COMMAND_WRAPPERS_MAX {
                self.cannot_judge("too many programs run other programs");
                break;
            }
            if !self.may_take_words(&command.words) {
                break;
            }
            if !is_installed(first) {
                self.push(Command { words: command.words.clone(), ..Command::default() });
            }
            if !self.unwrap(&name, &wrapper, &mut command) {
                break;
            }
        }
        let Some(name) = command.words.first().map(|word| base(word).to_owned()) else {
            if command.raised || !command.sets.is_empty() {
                self.push(command);
            }
            return;
        };
        self.look_into(&name, &mut command, depth);
        self.push(command);
    }

    /// Removes a wrapper and its options. Returns whether a command remains that may be another wrapper.
    fn unwrap(&mut self, name: &str, wrapper: &Wrapper, command: &mut Command) -> bool {
        let options = wrapper.options(&command.words[1..]).map(|options| 1 + options);
        let Some(mut end) =
            options.filter(|end| wrapper.words == 0 || end + wrapper.words <= command.words.len())
        else {
            self.cannot_judge("a program that runs another program has unknown options");
            return false;
        };
        let mut replaced = replaced(&command.words[1..end]);
        if replaced.len() > 1 {
            self.cannot_judge("a program that runs another program has unknown options");
            replaced.truncate(1);
        }
        if command.words[end..]
            .iter()
            .take(wrapper.words)
            .any(|word| word.has_unknown_start() || word.is_several())
        {
            self.cannot_judge("a program that runs another program has unknown options");
            return false;
        }
        end += wrapper.words;
        if matches!(name, "env" | "sudo" | "doas") {
            while let Some(word) = command.words.get(end).filter(|word| word.contains('=')) {
                let (text, breaks) = (word.text.clone(), word.breaks());
                if breaks {
                    self.cannot_judge("a variable for a program is set to a value that may be several words");
                }
                if is_setting(&text) {
                    self.set_by_name(&text, false);
                } else {
                    // Some names export functions to a shell.
                    self.cannot_judge("it sets a variable with an unusual name");
                }
                command.sets.push(text);
                end += 1;
            }
        }
        command.raised |= matches!(name, "sudo" | "doas" | "pkexec");
        let own = command.words[0].clone();
        command.words.drain(..end);
        if command.words.is_empty() {
            if matches!(name, "env" | "nice" | "xargs" | "ionice") {
                command.words.push(own);
            }
            return false;
        }
        if name == "xargs" {
            for word in &mut command.words {
                if replaced.iter().any(|part| word.contains(part.as_str())) {
                    *word = Word::unknown(word.text.clone());
                }
            }
            command.words.push(Word::unknown("$".to_owned()));
        }
        true
    }

    /// Handles what a command does with its arguments.
    fn look_into(&mut self, name: &str, command: &mut Command, depth: usize) {
        if !self.may_take_words(&command.words) {
            return;
        }
        let rest = command.words[1..].to_vec();
        match name {
            "sh" | "bash" | "dash" => self.shell(&rest, command, depth),
            "eval" => {
                // Some shells remove `--` before they run the rest.
                if rest.iter().any(|word| word.is_dynamic())
                    || rest.first().is_some_and(|word| word.starts_with('-'))
                {
                    self.cannot_judge("`eval` runs text that is known only when it runs");
                }
                let script: Vec<&str> = rest.iter().map(|word| &**word).collect();
                command.wraps = true;
                self.add(&script.join(" "), depth + 1);
            }
            // `-x` runs what follows, and `-p` evaluates the name that follows.
            "jobs" | "wait" if rest.iter().any(|word| word.has_unknown_start() || word.starts_with('-')) => {
                self.cannot_judge("`jobs` or `wait` has options that may run commands");
            }
            "trap" => self.trap(&rest, depth),
            "find" => self.find(&rest, depth),
            "set" => {
                let known = |word: &Word| {
                    !word.has_unknown_start()
                        && (matches!(&**word, "pipefail" | "errexit" | "nounset" | "xtrace")
                            || word.trim_start_matches(['-', '+']).chars().all(|char| "euxo".contains(char)))
                };
                let end = rest.iter().position(|word| &**word == "--").unwrap_or(rest.len());
                if !rest[..end].iter().all(known) {
                    self.cannot_judge("`set` changes how the shell reads the rest of the text");
                }
            }
            "read" | "export" | "declare" | "typeset" | "local" | "readonly" | "unset" | "getopts"
            | "mapfile" | "readarray" => self.assigning(name, &rest),
            "printf" => {
                let several = rest
                    .first()
                    .is_some_and(|word| word.has_unknown_start() && (rest.len() > 1 || word.breaks()));
                let option = rest.first().is_some_and(Word::is_unknown_option);
                if several || option || rest.iter().any(|word| word.starts_with("-v")) {
                    self.cannot_judge("`printf` may set a variable");
                }
            }
            "for" => self.for_each(&rest),
            "[" | "test" => self.test(&rest),
            "[[" => {
                self.condition(&rest);
                if rest.last().is_none_or(|word| &**word != "]]") {
                    if self.condition.is_some() {
                        self.cannot_judge("a condition is inside another condition");
                    }
                    self.condition = Some(depth);
                }
            }
            _ if HARMLESS.contains(&name) => {}
            // It sets variables such as `PATH`, and runs a file of the folder as `sh FILE` does.
            "." | "source" if matches!(&rest[..], [script] if activates(script)) => self.twisted = true,
            _ if UNSAFE.contains(&name) => {
                self.cannot_judge("it changes the meaning of later commands");
            }
            _ if RUNNERS.contains(&name) => {
                self.cannot_judge("it runs a program that runs other programs in unknown ways");
            }
            _ => {}
        }
        self.has_code |= has_inline_code(name, &rest);
        if name == "git" || !command.is_named {
            self.find_named(name, &rest, depth);
        }
    }

    // ---- variables ---------------------------------------------------------------------------

    /// Handles an assignment.
    fn assigned(&mut self, word: &Word, alone: bool) {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let numeric = if word.is_dynamic() {
            value == "$" && word.ends_in_number()
        } else {
            word.is_plain() && !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
        };
        if name.ends_with('+') {
            self.cannot_judge("shells interpret `+=` differently");
        }
        self.set_by_name(&word.text, numeric && alone);
    }

    /// Handles arithmetic, which evaluates and sets variables.
    pub(super) fn computed(&mut self, expression: &str) {
        // Variables after `&&`, `||` and `?` may not be set at all.
        let all_are_set = !expression.contains(['&', '|', '?']);
        for name in self.numbers.used_in(expression) {
            self.twisted |= twists(&format!("{name}="));
            self.set_by_name(&name, all_are_set);
        }
    }

    fn set_by_name(&mut self, set: &str, numeric: bool) {
        let (name, _) = set.split_once('=').unwrap_or((set, ""));
        if matches!(name, "PS0" | "PS1" | "PS2" | "PS3" | "PS4" | "ENV" | "PROMPT_COMMAND" | "SHELLOPTS")
            || name.starts_with("BASH")
        {
            self.cannot_judge("it sets a variable that the shell executes");
        }
        // The shell evaluates the values of these variables, which may run commands.
        if !numeric && is_evaluated(name) {
            self.cannot_judge("it sets a variable that the shell evaluates");
        }
        if twists(set) && name != "PATH" {
            self.named.extend(set.split_once('=').map(|(_, value)| value.to_owned()));
        }
        self.numbers.set(name, numeric);
    }

    /// Handles builtins that set the variables that they name.
    fn assigning(&mut self, name: &str, rest: &[Word]) {
        let letters = match name {
            "read" => "rsetdnpu",
            "mapfile" | "readarray" => "t",
            "export" | "readonly" => "p",
            "unset" => "fv",
            _ => "rxgp",
        };
        for word in rest {
            let option = word.strip_prefix('-').filter(|option| !option.is_empty());
            let known = match option {
                Some(option) => option.chars().all(|char| letters.contains(char) || char.is_ascii_digit()),
                None => {
                    let (set, _) = word.split_once('=').unwrap_or((&**word, ""));
                    if is_name(set) {
                        self.set_by_name(word, false);
                        // Some shells split `x=$y` into several words here.
                        self.twisted |= twists(&format!("{set}=")) || word.breaks();
                    }
                    !set.contains(['[', '$']) && (is_name(set) || !word.is_dynamic())
                }
            };
            if !known || (word.has_unknown_start() && name != "getopts") {
                self.cannot_judge("it sets variables that the command does not name");
            }
        }
    }

    fn for_each(&mut self, rest: &[Word]) {
        let Some((name, values)) = rest.split_first() else { return };
        if values.first().is_some_and(|word| &**word != "in") {
            // `for x do rm y` needs no separator.
            self.cannot_judge("a loop has commands on the line that names its variable");
        }
        let range = |text: &str| {
            let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
            let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            number(text)
                || inner.and_then(|inner| inner.split_once("..")).is_some_and(|(a, b)| number(a) && number(b))
        };
        let numeric = values.len() > 1 && values[1..].iter().all(|word| range(word));
        self.twisted |= twists(&format!("{}=", name.text));
        self.set_by_name(name, numeric);
    }

    // ---- conditions --------------------------------------------------------------------------

    /// `[ -v x ]` evaluates its operand, so operators have to be known.
    fn test(&mut self, rest: &[Word]) {
        const WHY: &str = "a condition has words that are known only when it runs";
        let end = rest.iter().rposition(|word| &**word == "]").unwrap_or(rest.len());
        let mut words = &rest[..end];
        for word in words {
            if word.splits()
                || (word.is_dynamic() && word.has(WordPattern::Glob))
                || word.has(WordPattern::Brace)
            {
                self.cannot_judge(WHY);
            }
            if word.has_bare_variable() {
                for name in word.names() {
                    self.numbers.used(name);
                }
            }
        }
        while words.first().is_some_and(|word| &**word == "!") {
            words = &words[1..];
        }
        let literal = |word: &Word| !word.is_dynamic() && !matches!(&**word, "-a" | "-o" | "-v" | "-R");
        let known = words.iter().all(|word| !word.is_dynamic() && !matches!(&**word, "-v" | "-R"))
            || match words {
                [_] => true,
                [operator, _] => literal(operator),
                [_, operator, _] => literal(operator),
                _ => false,
            };
        if !known {
            self.cannot_judge(WHY);
        }
    }

    /// `[[ a -eq b ]]` evaluates both sides.
    fn condition(&mut self, rest: &[Word]) {
        let counts = |word: &&Word| matches!(&***word, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge");
        if rest.iter().any(|word| counts(&word)) {
            for word in rest.iter().filter(|word| !counts(word)) {
                let alone = &**word == "$" && !word.is_unsure() && !word.is_several_but_for_blanks();
                let number = word.strip_prefix('-').unwrap_or(word);
                let number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
                let literal = word.is_plain() && (is_name(word) || number || matches!(&**word, "]]" | "!"));
                if !(alone || !word.is_dynamic() && literal) {
                    self.cannot_judge("it computes with a value that is known only when it runs");
                }
                for name in word.names() {
                    self.numbers.used(name);
                }
                if word.text != "]]" && !word.is_dynamic() {
                    self.computed(word);
                }
            }
        }
        if rest.iter().any(|word| matches!(&**word, "-v" | "-R")) {
            self.cannot_judge("it computes with a value that is known only when it runs");
        }
    }

    // ---- commands in words -------------------------------------------------------------------

    fn shell(&mut self, rest: &[Word], command: &mut Command, depth: usize) {
        let (mut at, mut text, mut known) = (0, false, true);
        // A login shell runs files of the home folder, which earlier commands may have written.
        let first = depth == 0
            && self.commands.is_empty()
            && self.redirects.is_empty()
            && !command.sets.iter().any(|set| set.starts_with("HOME="));
        while let Some(word) = rest.get(at) {
            known &= !word.has_unknown_start();
            let letters = word.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty());
            // Both end the options, and `+c` means `-c`.
            known &= !matches!(&**word, "-" | "+");
            known &= !word.starts_with('+') || !word.contains('c');
            match letters {
                _ if &**word == "--" => {
                    at += 1;
                    break;
                }
                Some(_) if matches!(&**word, "--norc" | "--noprofile" | "--posix") => {}
                // Some shells still treat the following words as options.
                Some(_) if matches!(&**word, "--version" | "--help") && rest.len() == 1 => return,
                Some(letters) => {
                    known &= letters.chars().all(|char| "cefhlnuvxo".contains(char)) && !word.is_dynamic();
                    text |= letters.contains('c') && word.starts_with('-');
                    known &= first || !letters.contains('l');
                    known &= !(letters.contains('o') && letters.contains('c'));
                    if letters.contains('o') {
                        at += 1;
                        known &= letters.matches('o').count() == 1;
                        known &= rest.get(at).is_some_and(|option| !option.is_dynamic());
                    }
                }
                None => break,
            }
            at += 1;
        }
        let script = rest.get(at);
        if !known || script.is_none() || script.is_some_and(|script| text && script.is_dynamic()) {
            self.cannot_judge("a shell runs text that is known only when it runs");
        }
        if let Some(script) = script.filter(|_| text) {
            command.wraps = true;
            self.add(script, depth + 1);
        }
    }

    fn trap(&mut self, rest: &[Word], depth: usize) {
        let ended = rest.first().is_some_and(|word| &**word == "--");
        match rest.get(usize::from(ended)) {
            Some(word) if word.is_dynamic() => {
                self.cannot_judge("`trap` runs text that is known only when it runs")
            }
            Some(word) if &**word == "-" => {}
            Some(word) if !ended && matches!(&**word, "-l" | "-p") => {}
            Some(word) if !ended && word.starts_with('-') => {
                self.cannot_judge("`trap` has unknown options");
            }
            Some(word) => self.add(word, depth + 1),
            None => {}
        }
    }

    fn find(&mut self, rest: &[Word], depth: usize) {
        const VALUED: &[&str] = &[
            "-name",
            "-iname",
            "-path",
            "-ipath",
            "-wholename",
            "-regex",
            "-iregex",
            "-newer",
            "-maxdepth",
            "-mtime",
        ];
        const WHY: &str = "`find` has options that are known only when it runs";
        /// After these, and after a word that is no option, an option can follow.
        const BARE: &[&str] = &[
            "-not", "-a", "-o", "-and", "-or", "-print", "-print0", "-depth", "-xdev", "-mount", "-empty",
            "-L",
        ];
        let mut at = 0;
        let mut begins = true;
        while let Some(word) = rest.get(at) {
            at += 1;
            if word.has_unknown_start()
                || word.breaks()
                || word.is_unknown_option()
                || word.starts_with("-files0")
                || word.starts_with("-fprintf")
            {
                self.cannot_judge(WHY);
            }
            let option = word.starts_with('-');
            if VALUED.contains(&&**word) {
                if let Some(value) = rest.get(at) {
                    let number = value
                        .strip_prefix('-')
                        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
                    // A word that looks like an option may be one, if the word before was the value of another option.
                    let strange = value.starts_with('-') && (!number || value.is_dynamic());
                    // File patterns such as `*.rs` are no options.
                    let names =
                        !value.has(WordPattern::Brace) && value.has(WordPattern::Glob) && value.contains('.');
                    if strange
                        || value.breaks()
                        || (value.is_several() && !names)
                        || (value.has_unknown_start() && !begins)
                    {
                        self.cannot_judge(WHY);
                    }
                    at += 1;
                }
                begins = true;
                continue;
            }
            begins = !option || BARE.contains(&&**word);
            if !matches!(&**word, "-exec" | "-execdir" | "-ok" | "-okdir") {
                continue;
            }
            begins = true;
            // It may have been the value of an unknown option.
            if rest.get(at).is_some_and(|word| word.starts_with(['-', '(', ')', '!', ','])) {
                self.cannot_judge(WHY);
            }
            let ends = |at: usize, word: &Word| &**word == ";" || (&**word == "+" && &*rest[at - 1] == "{}");
            let end = (at..rest.len()).find(|&at| ends(at, &rest[at])).unwrap_or(rest.len());
            let mut words = rest[at..end].to_vec();
            for word in words.iter_mut().filter(|word| word.contains("{}")) {
                *word = Word::unknown(word.text.clone());
            }
            if depth >= limits::COMMAND_DEPTH_MAX || self.commands.len() >= limits::COMMANDS_MAX {
                return self.cannot_judge("it has too many commands");
            }
            if !words.is_empty() {
                self.run(Command { words, ..Command::default() }, depth + 1);
            }
            at = end;
        }
    }
}

/// Whether a script activates a virtual environment of Python.
fn activates(script: &Word) -> bool {
    !script.is_dynamic() && script.ends_with("bin/activate") && !script.contains("..")
}

/// Whether the shell stores a variable as a number, so that it evaluates the values set to it.
fn is_evaluated(name: &str) -> bool {
    matches!(
        name,
        "RANDOM"
            | "SRANDOM"
            | "SECONDS"
            | "LINENO"
            | "HISTCMD"
            | "OPTIND"
            | "OPTERR"
            | "UID"
            | "EUID"
            | "PPID"
    ) || name.starts_with("EPOCH")
}
