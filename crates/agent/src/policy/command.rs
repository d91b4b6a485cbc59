//! A command line of the shell, taken apart into the commands it runs, as far as its text says.
//!
//! Look at [`Line::read`]. Quoting is respected; what stands in a substitution, in `sh -c` or behind `sudo`, `env`
//! and their like is a command too. What cannot be told from the text makes the line *opaque*. Pure. It is no shell:
//! who means to hide something can, and nothing that must hold rests on it.

use crate::limits;

/// What a command line runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) commands: Vec<Command>,
    /// Files that output goes to, beside `/dev/null`.
    pub(crate) redirects: Vec<String>,
    /// Whether the text does not tell all that is run.
    pub(crate) opaque: bool,
}

/// One command with its words, quotes taken off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) words: Vec<String>,
    /// Variables set for it.
    pub(crate) sets: Vec<String>,
    /// Whether its input comes from the command before.
    pub(crate) piped: bool,
    /// Whether `sudo` or its like runs it.
    pub(crate) raised: bool,
    /// Whether all it does is run commands that were read too.
    pub(crate) wraps: bool,
}

impl Line {
    pub(crate) fn read(text: &str) -> Self {
        let mut line = Line::default();
        line.add(text, 0);
        line
    }

    fn add(&mut self, text: &str, depth: usize) {
        if depth > limits::COMMAND_DEPTH_MAX || self.commands.len() > limits::COMMANDS_MAX {
            self.opaque = true;
            return;
        }
        let mut reader = Reader {
            chars: text.chars().collect(),
            at: 0,
            line: self,
            depth,
            command: Command::default(),
            word: None,
        };
        reader.all();
    }

    fn finish(&mut self, command: Command, depth: usize) {
        let mut command = command;
        loop {
            while command.words.first().is_some_and(|word| is_setting(word)) {
                command.sets.push(command.words.remove(0));
            }
            let Some(name) = command.words.first().map(|word| base(word).to_owned()) else { break };
            match name.as_str() {
                "!" | "then" | "do" | "else" | "if" | "while" | "until" | "{" | "}" | "fi" | "done"
                | "elif" | "time" | "nohup" | "exec" | "command" | "builtin" => drop(command.words.remove(0)),
                "sudo" | "doas" | "pkexec" => {
                    command.raised = true;
                    command.words.remove(0);
                    leave_options(&mut command.words, &["-u", "-g", "-h", "-p", "-C"]);
                }
                "env" | "nice" | "ionice" | "setsid" | "stdbuf" | "xargs" if command.words.len() > 1 => {
                    command.words.remove(0);
                    leave_options(
                        &mut command.words,
                        &["-u", "-n", "-I", "-P", "-L", "-d", "-c", "-C", "-s"],
                    );
                }
                "timeout" if command.words.len() > 2 => {
                    command.words.remove(0);
                    leave_options(&mut command.words, &["-s", "-k"]);
                    if !command.words.is_empty() {
                        command.words.remove(0);
                    }
                }
                _ => break,
            }
        }
        let Some(name) = command.words.first().map(|word| base(word).to_owned()) else {
            if command.raised || !command.sets.is_empty() {
                self.commands.push(command);
            }
            return;
        };
        let rest = &command.words[1..];
        match name.as_str() {
            "sh" | "bash" | "dash" | "zsh" | "ksh" => {
                let script = rest.iter().position(|word| word.starts_with('-') && word.ends_with('c'));
                if let Some(script) = script.and_then(|at| rest.get(at + 1)).cloned() {
                    command.wraps = true;
                    self.add(&script, depth + 1);
                }
            }
            "eval" => {
                let script = rest.join(" ");
                command.wraps = true;
                self.add(&script, depth + 1);
            }
            "find" => {
                for (at, word) in rest.iter().enumerate() {
                    if matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") {
                        let words =
                            rest[at + 1..].iter().take_while(|word| !matches!(word.as_str(), ";" | "+"));
                        let inner = Command { words: words.cloned().collect(), ..Command::default() };
                        if depth < limits::COMMAND_DEPTH_MAX {
                            self.finish(inner, depth + 1);
                        }
                    }
                }
            }
            _ if name.contains('$') => self.opaque = true,
            _ => {}
        }
        self.commands.push(command);
    }
}

/// Words as a command line that says exactly these.
pub fn quoted(words: &[&str]) -> String {
    let plain = |word: &str| {
        !word.is_empty()
            && !is_setting(word)
            && word.chars().all(|char| char.is_alphanumeric() || "-_./,:=@%+^~".contains(char))
    };
    let quoted = |word: &&str| {
        if plain(word) { (*word).to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The name of a program without the folder it is in.
pub(crate) fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_setting(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|char: char| char.is_ascii_digit())
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    })
}

/// Takes options off the beginning; those named take the word after them.
fn leave_options(words: &mut Vec<String>, with_value: &[&str]) {
    while let Some(word) = words.first() {
        if !word.starts_with('-') {
            return;
        }
        let takes = with_value.contains(&word.as_str());
        words.remove(0);
        if takes && !words.is_empty() {
            words.remove(0);
        }
    }
}

struct Reader<'a> {
    chars: Vec<char>,
    at: usize,
    line: &'a mut Line,
    depth: usize,
    command: Command,
    word: Option<String>,
}

impl Reader<'_> {
    fn all(&mut self) {
        while let Some(char) = self.take() {
            match char {
                '\'' => {
                    let text = self.until('\'');
                    self.word.get_or_insert_default().push_str(&text);
                }
                '"' => self.quoted(),
                '\\' => match self.take() {
                    Some('\n') | None => {}
                    Some(char) => self.push(char),
                },
                ' ' | '\t' => self.end_word(),
                '#' if self.word.is_none() => {
                    while self.peek().is_some_and(|char| char != '\n') {
                        self.at += 1
                    }
                }
                ';' | '\n' | ')' => self.end_command(false),
                '(' => {
                    // A word right before it declares a function, whose body is read as commands.
                    self.line.opaque |= self.word.is_some();
                    self.end_command(false);
                }
                '&' if self.peek() == Some('>') => {}
                '&' => {
                    self.skip('&');
                    self.end_command(false);
                }
                '|' => {
                    let or = self.skip('|');
                    self.skip('&');
                    self.end_command(!or);
                }
                '`' => {
                    let inner = self.until('`');
                    self.substitute(&inner);
                }
                '$' if self.peek() == Some('(') => self.in_parentheses(),
                '<' | '>' if self.peek() == Some('(') => self.in_parentheses(),
                '<' => self.input(),
                '>' => self.output(),
                char => self.push(char),
            }
        }
        self.end_command(false);
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let char = self.peek()?;
        self.at += 1;
        Some(char)
    }

    fn skip(&mut self, wanted: char) -> bool {
        let there = self.peek() == Some(wanted);
        self.at += usize::from(there);
        there
    }

    fn push(&mut self, char: char) {
        self.word.get_or_insert_default().push(char);
    }

    fn until(&mut self, end: char) -> String {
        let mut text = String::new();
        loop {
            match self.take() {
                None => {
                    self.line.opaque = true;
                    return text;
                }
                Some(char) if char == end => return text,
                Some(char) => text.push(char),
            }
        }
    }

    fn quoted(&mut self) {
        self.word.get_or_insert_default();
        loop {
            match self.take() {
                None => {
                    self.line.opaque = true;
                    return;
                }
                Some('"') => return,
                Some('\\') => match self.take() {
                    Some(char @ ('"' | '\\' | '$' | '`')) => self.push(char),
                    Some('\n') | None => {}
                    Some(char) => {
                        self.push('\\');
                        self.push(char);
                    }
                },
                Some('`') => {
                    let inner = self.until('`');
                    self.substitute(&inner);
                }
                Some('$') if self.peek() == Some('(') => self.in_parentheses(),
                Some(char) => self.push(char),
            }
        }
    }

    /// What stands between the parenthesis that comes next and the one that closes it.
    fn in_parentheses(&mut self) {
        self.at += 1;
        let (mut open, mut inner, mut quote) = (1, String::new(), None);
        loop {
            let Some(char) = self.take() else {
                self.line.opaque = true;
                break;
            };
            match (quote, char) {
                (Some(end), char) if char == end => quote = None,
                (None, '\'' | '"') => quote = Some(char),
                (None, '(') => open += 1,
                (None, ')') => open -= 1,
                _ => {}
            }
            if open == 0 {
                break;
            }
            inner.push(char);
        }
        self.substitute(&inner);
    }

    /// A word whose text is only known when its command has run.
    fn substitute(&mut self, inner: &str) {
        self.push('$');
        self.line.add(inner, self.depth + 1);
    }

    fn input(&mut self) {
        if self.skip('<') {
            // What follows is a text and not a command; where it ends is not looked for.
            self.line.opaque |= !self.skip('<');
        }
        self.end_word();
        self.skip('&');
        self.blanks();
    }

    fn output(&mut self) {
        // A number right before it is the stream's.
        if self.word.as_ref().is_some_and(|word| word.chars().all(|char| char.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        self.skip('>');
        self.skip('|');
        if self.skip('&') && self.peek().is_some_and(|char| char.is_ascii_digit() || char == '-') {
            self.at += 1;
            return;
        }
        self.blanks();
        let before = std::mem::take(&mut self.command.words);
        while let Some(char) = self.peek() {
            match char {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' | '(' | '<' | '>' => break,
                '\'' => {
                    self.at += 1;
                    let text = self.until('\'');
                    self.word.get_or_insert_default().push_str(&text);
                }
                '"' => {
                    self.at += 1;
                    self.quoted();
                }
                char => {
                    self.at += 1;
                    self.push(char);
                }
            }
        }
        self.command.words = before;
        if let Some(target) = self.word.take()
            && target != "/dev/null"
        {
            self.line.redirects.push(target);
        }
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take() {
            self.command.words.push(word);
        }
    }

    fn end_command(&mut self, pipes: bool) {
        self.end_word();
        let next = Command { piped: pipes, ..Command::default() };
        let command = std::mem::replace(&mut self.command, next);
        if self.line.commands.len() > limits::COMMANDS_MAX {
            self.line.opaque = true;
        } else {
            self.line.finish(command, self.depth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<String> {
        Line::read(text).commands.iter().map(|command| command.words.join("·")).collect()
    }

    #[test]
    fn a_line_comes_apart_into_what_it_runs() {
        for (text, wanted) in [
            ("ls -l 'a b' \"c d\" e\\ f", &["ls·-l·a b·c d·e f"][..]),
            ("a; b && c || d | e & f\ng", &["a", "b", "c", "d", "e", "f", "g"]),
            ("echo 'rm -rf /; b'", &["echo·rm -rf /; b"]),
            ("echo \"$(rm -rf x)\" `b c`", &["rm·-rf·x", "b·c", "echo·$·$"]),
            ("sh -c 'rm x; ls'", &["rm·x", "ls", "sh·-c·rm x; ls"]),
            ("bash -lc \"git push\"", &["git·push", "bash·-lc·git push"]),
            ("A=1 B=2 env -u X C=3 nice -n 5 cargo test", &["cargo·test"]),
            ("timeout -k 1 5 make", &["make"]),
            ("sudo -u root rm x", &["rm·x"]),
            ("find . -name '*.o' -exec rm {} \\;", &["rm·{}", "find·.·-name·*.o·-exec·rm·{}·;"]),
            ("echo x | xargs -n 1 rm", &["echo·x", "rm"]),
            ("if a; then b; fi", &["a", "b"]),
            ("(cd x && ls)", &["cd·x", "ls"]),
            ("ls # ; rm x", &["ls"]),
            ("ls 2>&1 >/dev/null", &["ls"]),
            ("diff <(a) <(b c)", &["a", "b·c", "diff·$·$"]),
            ("cat < in", &["cat·in"]),
            ("", &[]),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn where_output_goes_and_what_is_not_told_is_seen() {
        for (text, redirects, opaque) in [
            ("a > x 2>> 'y z'", &["x", "y z"][..], false),
            ("a 2>&1 > /dev/null", &[], false),
            ("a &> out", &["out"], false),
            ("a 'b", &[], true),
            ("a \"b", &[], true),
            ("$CMD x", &[], true),
            ("f() { a; }", &[], true),
            ("cat <<E\nrm\nE", &[], true),
        ] {
            let line = Line::read(text);
            assert_eq!(
                (line.redirects, line.opaque),
                (redirects.iter().map(|&x| x.to_owned()).collect(), opaque),
                "{text}"
            );
        }
        assert!(Line::read(&"$(".repeat(10_000)).opaque);
        assert!(Line::read(&"a;".repeat(100_000)).commands.len() <= limits::COMMANDS_MAX + 1);
        assert!(Line::read("a | b").commands[1].piped && !Line::read("a || b").commands[1].piped);
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_read_more() {
        for (words, wanted) in [
            (&["git", "log", "--format=%h", "HEAD~1"][..], "git log --format=%h HEAD~1"),
            (&["git", "commit", "-m", "a; b's", ""], "git commit -m 'a; b'\\''s' ''"),
        ] {
            assert_eq!(quoted(words), wanted);
        }
    }

    proptest! {
        #[test]
        fn quoted_words_are_read_as_they_are(words in prop::collection::vec("[a$()`'\"\\\\;|&<> \n#{}=~-]{0,8}", 0..5)) {
            let mut line = vec!["git"];
            line.extend(words.iter().map(String::as_str));
            let read = Line::read(&quoted(&line));
            prop_assert_eq!(&read.commands[0].words, &line);
            prop_assert_eq!((read.commands.len(), read.opaque, read.redirects.len()), (1, false, 0));
        }

        #[test]
        fn nothing_breaks_it(text in "[a$()`'\"\\\\;|&<> \n#{}=-]{0,60}") {
            Line::read(&text);
        }
    }
}
