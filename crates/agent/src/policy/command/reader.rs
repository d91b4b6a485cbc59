//! Reads the text of a command line, character by character, as a shell does.
//!
//! Start at [`Reader::all`]. Where shells differ, or where the result depends on the output of a command, the line is
//! marked as one that cannot be judged. The module must not depend on the meaning of commands: that is `inner`.

mod expansion;
mod heredoc;

use crate::policy::command::reader::heredoc::Heredoc;
use crate::policy::command::{Certainty, Command, CommandLine, Expansion, Word, WordPattern, is_name};
use crate::policy::limits;

pub(super) struct Reader<'a> {
    chars: Vec<char>,
    at: usize,
    line: &'a mut CommandLine,
    depth: usize,
    command: Command,
    word: Option<Word>,
    /// Open `(` of this level.
    open: usize,
    /// Whether this is inside a substitution, which a `)` ends.
    inside: bool,
    /// Whether a `case` was seen, whose patterns end in `)`.
    cases: bool,
    /// Here-documents whose bodies come after the next line break.
    heredocs: Vec<Heredoc>,
}

/// Keywords of the shell's grammar after which a command begins.
const RESERVED: &[&str] =
    &["!", "then", "do", "else", "if", "while", "until", "{", "}", "fi", "done", "elif", "time", "esac"];

pub(super) fn is_reserved(word: &Word) -> bool {
    word.is_plain() && RESERVED.contains(&word.text.as_str())
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &str, line: &'a mut CommandLine, depth: usize) -> Self {
        Reader {
            chars: text.chars().collect(),
            at: 0,
            line,
            depth,
            command: Command::default(),
            word: None,
            open: 0,
            inside: false,
            cases: false,
            heredocs: Vec::new(),
        }
    }

    pub(super) fn all(&mut self) {
        self.script();
        if !self.heredocs.is_empty() {
            self.stop("a here-document has no end");
        }
    }

    /// Reads commands up to the end of the text, or up to the `)` that ends a substitution.
    fn script(&mut self) {
        while let Some(char) = self.next() {
            match char {
                '\'' => self.single(),
                '"' => self.double(),
                '\\' => match self.raw() {
                    Some(char) => self.push_quoted(char),
                    None => self.stop("it ends in a backslash"),
                },
                ' ' | '\t' => self.end_word(),
                '#' if self.word.is_none() => {
                    while self.chars.get(self.at).is_some_and(|char| *char != '\n') {
                        self.at += 1;
                    }
                }
                '\n' => {
                    self.end_command(false);
                    self.bodies();
                }
                ';' => self.end_command(false),
                ')' if self.open > 0 => {
                    self.end_command(false);
                    self.open -= 1;
                }
                ')' if self.inside => {
                    self.end_command(false);
                    self.inside = false;
                    return;
                }
                ')' if self.cases => self.end_pattern(),
                ')' => self.stop("a closing parenthesis has no opening parenthesis"),
                '(' => self.parenthesis(),
                '&' if self.peek() == Some('>') => {
                    // Some shells read `a &>b` as one command, others as `a &` and `>b`.
                    self.end_command(false);
                    self.next();
                    self.output();
                    self.blanks();
                    if !matches!(self.peek(), None | Some('\n' | ';' | ')' | '|' | '&' | '}')) {
                        self.stop("shells interpret `&>` differently");
                    }
                }
                '&' => {
                    self.skip('&');
                    self.end_command(false);
                }
                '|' => {
                    let or = self.skip('|');
                    self.skip('&');
                    self.end_command(!or);
                }
                '`' => self.backticks(),
                '$' => self.dollar(false),
                '<' | '>' if self.peek() == Some('(') => {
                    self.next();
                    self.substitution();
                    self.unknown(false);
                }
                '<' => self.input(),
                '>' => self.output(),
                char => self.push(char),
            }
        }
        self.end_command(false);
        if self.inside || self.open > 0 {
            self.stop("a parenthesis is not closed");
        }
    }

    /// Marks the line as one that cannot be judged, and stops reading.
    fn stop(&mut self, why: &'static str) {
        self.line.cannot_judge(why);
        self.at = self.chars.len();
    }

    // ---- characters --------------------------------------------------------------------------

    /// The next character. A backslash followed by a line break is skipped.
    fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.at) == Some(&'\\') && self.chars.get(self.at + 1) == Some(&'\n') {
            if !self.heredocs.is_empty() {
                self.stop("a line with a here-document continues on the next line");
                return None;
            }
            self.at += 2;
        }
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek()?;
        self.at += 1;
        Some(char)
    }

    /// The next character where a backslash has no meaning.
    fn raw(&mut self) -> Option<char> {
        let char = *self.chars.get(self.at)?;
        self.at += 1;
        Some(char)
    }

    fn skip(&mut self, expected: char) -> bool {
        let is_next = self.peek() == Some(expected);
        self.at += usize::from(is_next);
        is_next
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    // ---- words -------------------------------------------------------------------------------

    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_with(Word::default)
    }

    fn push(&mut self, char: char) {
        if char.is_whitespace() {
            self.stop("it has a whitespace character that shells interpret differently");
            return;
        }
        let word = self.word();
        match char {
            '*' | '?' | '[' => word.add_pattern(WordPattern::Glob),
            '{' | '}' => word.add_pattern(WordPattern::Brace),
            '~' if word.text.is_empty() && word.is_plain() => word.add_pattern(WordPattern::Tilde),
            '=' if word.is_plain() => {
                word.assigns |= is_name(word.text.strip_suffix('+').unwrap_or(&word.text));
            }
            _ => {}
        }
        word.text.push(char);
    }

    fn push_quoted(&mut self, char: char) {
        let word = self.word();
        word.is_quoted = true;
        word.text.push(char);
    }

    /// Appends a part of the word that is known only when the shell runs.
    fn unknown(&mut self, quoted: bool) {
        self.word().expand(|_| Expansion::Other { splits: !quoted });
    }

    /// Appends a simple variable.
    fn variable(&mut self, name: &str, quoted: bool) {
        self.word().expand(|_| {
            if is_name(name) {
                Expansion::Variable { name: name.to_owned(), is_quoted: quoted }
            } else {
                Expansion::Other { splits: !quoted || name == "@" }
            }
        });
    }

    /// Appends a value that can only be a number.
    fn number(&mut self) {
        self.word().expand(|end| Expansion::Number { end });
    }

    fn end_word(&mut self) {
        let Some(mut word) = self.word.take() else { return };
        // Braces without alternatives stay unchanged: `{}`, `-I{}`.
        let chooses = word.has(WordPattern::Brace)
            && (word.is_dynamic() || word.text.contains(',') || word.text.contains(".."));
        let tilde = word.has(WordPattern::Tilde) && !word.text.contains('/');
        let bracket = matches!(word.text.as_str(), "[" | "[[");
        if (word.has(WordPattern::Glob) || tilde || chooses) && !bracket {
            let is_start = word.text.starts_with(['*', '?', '[', '{', '~']);
            word.certainty =
                word.certainty.max(if is_start { Certainty::DynamicFromStart } else { Certainty::Dynamic });
        }
        if word.is_plain() && word.text == "case" {
            if self.inside || self.open > 0 {
                self.stop("a `case` is inside parentheses");
            }
            self.cases = true;
        }
        self.command.words.push(word);
    }

    fn end_command(&mut self, pipes: bool) {
        self.end_word();
        let next = Command { piped: pipes, ..Command::default() };
        let command = std::mem::replace(&mut self.command, next);
        if self.line.commands.len() >= limits::COMMANDS_MAX && !command.words.is_empty() {
            self.stop("it has too many commands");
        } else {
            self.line.finish(command, self.depth);
        }
    }

    /// Handles the `)` after a pattern of a `case`: the text before it is no command.
    fn end_pattern(&mut self) {
        self.end_word();
        if self.command.words.len() == 1 {
            self.command = Command::default();
        } else {
            self.end_command(false);
        }
    }

    // ---- quotes ------------------------------------------------------------------------------

    fn single(&mut self) {
        self.word().is_quoted = true;
        loop {
            match self.raw() {
                None => return self.stop("a quote is not closed"),
                Some('\'') => return,
                Some('\n') if !self.heredocs.is_empty() => {
                    return self.stop("a quote spans lines with a here-document");
                }
                Some(char) => self.push_quoted(char),
            }
        }
    }

    fn double(&mut self) {
        self.word().is_quoted = true;
        loop {
            match self.next() {
                None => return self.stop("a quote is not closed"),
                Some('"') => return,
                Some('\n') if !self.heredocs.is_empty() => {
                    return self.stop("a quote spans lines with a here-document");
                }
                Some('\\') => match self.raw() {
                    Some(char @ ('"' | '\\' | '$' | '`')) => self.push_quoted(char),
                    None => return self.stop("a quote is not closed"),
                    Some(char) => {
                        self.push_quoted('\\');
                        self.push_quoted(char);
                    }
                },
                Some('`') => self.backticks_quoted(true),
                Some('$') => self.dollar(true),
                Some(char) => self.push_quoted(char),
            }
        }
    }

    /// Handles a `(` where no expansion begins.
    fn parenthesis(&mut self) {
        let words = &self.command.words;
        let begins = self.word.is_none() && words.iter().all(is_reserved) && self.command.sets.is_empty();
        let counts =
            self.word.is_none() && matches!(&words[..], [word] if word.is_plain() && word.text == "for");
        let pattern =
            self.word.is_none() && words.first().is_some_and(|word| word.is_plain() && word.text == "case");
        if (begins || counts) && self.peek() == Some('(') {
            self.at += 1;
            let expression = self.arithmetic(counts);
            self.line.computed(&expression);
            if !counts {
                // Shells without arithmetic commands read two subshells.
                self.line.add(&expression, self.depth + 1);
            }
            self.end_command(false);
        } else if begins || pattern {
            self.end_command(false);
            self.open += 1;
        } else {
            self.stop("it defines a function or an array");
        }
    }

    // ---- redirections ------------------------------------------------------------------------

    /// A number directly before a redirection is its file descriptor.
    fn end_stream(&mut self) {
        let number = |word: &Word| {
            word.is_plain() && !word.text.is_empty() && word.text.chars().all(|char| char.is_ascii_digit())
        };
        let variable = |word: &Word| word.text.starts_with('{') && word.text.ends_with('}');
        if self.word.as_ref().is_some_and(|word| number(word) && word.text.len() > 1) {
            // Of `10>f` some shells take `10` as the number, others as a word, or only the `0`.
            self.stop("shells interpret the file descriptor of a redirection differently");
        } else if self.word.as_ref().is_some_and(number) {
            self.word = None;
        } else if self.word.as_ref().is_some_and(variable) {
            // `{name}>file` sets a variable, and evaluates its subscript.
            self.stop("a redirection sets a variable");
        }
        self.end_word();
    }

    /// Reads the target word of a redirection.
    fn target(&mut self) -> Option<Word> {
        self.blanks();
        while let Some(char) = self.peek() {
            match char {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' | '(' | '<' | '>' => break,
                _ => {}
            }
            self.at += 1;
            match char {
                '\'' => self.single(),
                '"' => self.double(),
                '\\' => match self.raw() {
                    Some(char) => self.push_quoted(char),
                    None => self.stop("it ends in a backslash"),
                },
                '`' => self.backticks(),
                '$' => self.dollar(false),
                char => self.push(char),
            }
        }
        let target = self.word.take();
        if target.is_none() && !matches!(self.peek(), Some('<' | '>')) {
            self.stop("a redirection has no target");
        }
        target
    }

    fn input(&mut self) {
        self.end_stream();
        if self.skip('<') {
            if self.skip('<') {
                self.target();
            } else {
                let tabs = self.skip('-');
                self.heredoc(tabs);
            }
            return;
        }
        let both = self.skip('>');
        self.skip('&');
        if self.peek_after_blanks() == Some('(') {
            self.blanks();
            self.input_from_commands();
            return;
        }
        let Some(target) = self.target() else { return };
        if target.starts_with("/dev/tcp") || target.starts_with("/dev/udp") {
            self.stop("it opens a network connection");
        } else if both {
            self.line.redirects.push(target.text);
        } else {
            self.line.inputs.push(target.text);
        }
    }

    fn peek_after_blanks(&mut self) -> Option<char> {
        self.blanks();
        self.peek().filter(|char| *char == '<').and_then(|_| self.chars.get(self.at + 1).copied())
    }

    /// Reads `< <(…)`, as `while read` uses it.
    fn input_from_commands(&mut self) {
        self.at += 2;
        self.substitution();
        if !matches!(self.peek(), None | Some(' ' | '\t' | '\n' | ';' | ')' | '|' | '&')) {
            self.stop("a redirection stays in effect for later commands");
        }
    }

    fn output(&mut self) {
        self.end_stream();
        self.skip('>');
        self.skip('|');
        let copies = self.skip('&');
        let Some(target) = self.target() else { return };
        let stream =
            |text: &str| text == "-" || text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let named = |text: &str| {
            text.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '.' | '/' | '_' | '-'))
        };
        if target.starts_with("/dev/tcp") || target.starts_with("/dev/udp") {
            self.stop("it opens a network connection");
        } else if copies && !named(&target) {
            // `>&'$(b)'` runs `b` in `bash`.
            self.stop("some shells expand a file name twice");
        } else if !(copies && stream(&target)) && target.text != "/dev/null" {
            self.line.redirects.push(target.text);
        }
    }
}
