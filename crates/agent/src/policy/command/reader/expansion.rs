//! Reads expansions: `$…`, backticks and arithmetic.
//!
//! Start at [`Reader::dollar`]. Commands inside are read as commands; syntax that shells interpret differently ends the
//! reading. The module must not depend on the meaning of commands.

use crate::policy::command::reader::Reader;
use crate::policy::command::{Command, is_installed};
use crate::policy::limits;

impl Reader<'_> {
    pub(super) fn dollar(&mut self, quoted: bool) {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                if self.peek() == Some('(') {
                    self.at += 1;
                    let expression = self.arithmetic(false);
                    self.line.computed(&expression);
                    self.number();
                } else {
                    let before = self.line.commands.len();
                    self.substitution();
                    if prints_number(self.line.commands.get(before..).unwrap_or_default()) {
                        self.line.counts = true;
                        self.number();
                    } else {
                        self.unknown(quoted);
                    }
                }
            }
            Some('{') => {
                self.at += 1;
                self.parameter(quoted);
            }
            Some('\'') if !quoted => {
                self.at += 1;
                self.ansi();
            }
            // Some shells translate the text that follows; all of them treat it as one quoted text.
            Some('"') if !quoted => self.unknown(true),
            Some('[') => self.stop("it uses arithmetic that only some shells support"),
            Some('#' | '?' | '$') => {
                self.at += 1;
                self.number();
            }
            Some(char) if char.is_ascii_alphabetic() || char == '_' => {
                let name = self.name();
                self.variable(&name, quoted);
            }
            Some(char) if char.is_ascii_digit() || matches!(char, '@' | '*' | '!' | '-') => {
                self.at += 1;
                self.unknown(quoted && char != '@');
            }
            _ => self.push_quoted('$'),
        }
    }

    pub(super) fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(char) = self.peek().filter(|char| char.is_ascii_alphanumeric() || *char == '_') {
            name.push(char);
            self.at += 1;
        }
        name
    }

    /// Reads `$'…'`, which some shells decode and others do not.
    pub(super) fn ansi(&mut self) {
        self.unknown(true);
        loop {
            match self.raw() {
                None => return self.stop("a quote is not closed"),
                Some('\'') => return,
                Some('\\') if self.chars.get(self.at) == Some(&'\'') => {
                    return self.stop("shells interpret a quote after `$'` differently");
                }
                Some('\n') if !self.heredocs.is_empty() => {
                    return self.stop("a quote spans lines with a here-document");
                }
                Some(char) => self.push_quoted(char),
            }
        }
    }

    /// Reads `${…}` after its brace. It may contain further expansions.
    fn parameter(&mut self, quoted: bool) {
        if self.depth >= limits::COMMAND_DEPTH_MAX {
            return self.stop("its expansions are nested too deeply");
        }
        self.depth += 1;
        self.parameter_inside(quoted);
        self.depth -= 1;
    }

    fn parameter_inside(&mut self, quoted: bool) {
        const UNKNOWN: &str = "it has an expansion that shells interpret differently";
        let length = self.peek() == Some('#') && self.chars.get(self.at + 1) != Some(&'}');
        self.at += usize::from(length);
        let name = match self.peek() {
            Some(char) if char.is_ascii_alphanumeric() || char == '_' => self.name(),
            Some(char @ ('@' | '*' | '#' | '?' | '$' | '-')) => {
                self.at += 1;
                char.to_string()
            }
            _ => return self.stop(UNKNOWN),
        };
        if self.skip('[') {
            let mut subscript = String::new();
            while let Some(char) = self.next().filter(|char| *char != ']') {
                subscript.push(char);
            }
            if !matches!(subscript.as_str(), "@" | "*")
                && (subscript.is_empty() || !subscript.bytes().all(|byte| byte.is_ascii_digit()))
            {
                return self.stop(UNKNOWN);
            }
            self.unknown(quoted && subscript != "@");
        } else if self.peek() == Some('}') {
            self.at += 1;
            if length || matches!(name.as_str(), "#" | "?" | "$") {
                self.number();
            } else {
                self.variable(&name, quoted);
            }
            return;
        } else {
            // `"${@-}"` has as many words as `"$@"`.
            self.unknown(quoted && name != "@");
        }
        match self.next() {
            Some('}') => return,
            Some(':') => match self.next() {
                Some('-' | '+' | '?') => {}
                Some(char) if char.is_ascii_digit() => {
                    while let Some(char) = self.next() {
                        match char {
                            '}' => return,
                            '0'..='9' | ':' => {}
                            _ => return self.stop(UNKNOWN),
                        }
                    }
                    return self.stop(UNKNOWN);
                }
                _ => return self.stop(UNKNOWN),
            },
            Some('-' | '+' | '?' | '#' | '%' | '/' | '^' | ',') => {}
            _ => return self.stop(UNKNOWN),
        }
        loop {
            match self.next() {
                Some('}') => return,
                Some('$') => self.dollar(true),
                None
                | Some('\'' | '"' | '\\' | '`' | '{' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')') => {
                    return self.stop(UNKNOWN);
                }
                Some(_) => {}
            }
        }
    }

    /// Reads the commands after an opening parenthesis, up to the closing one.
    pub(super) fn substitution(&mut self) {
        if self.depth >= limits::COMMAND_DEPTH_MAX {
            return self.stop("its commands are nested too deeply");
        }
        if !self.heredocs.is_empty() {
            return self.stop("a command substitution is on a line with a here-document");
        }
        let command = std::mem::take(&mut self.command);
        let word = self.word.take();
        let (open, inside, cases) = (self.open, self.inside, self.cases);
        (self.open, self.inside, self.cases) = (0, true, false);
        self.depth += 1;
        self.script();
        self.depth -= 1;
        if !self.heredocs.is_empty() {
            self.stop("a here-document has no end");
        }
        (self.open, self.inside, self.cases) = (open, inside, cases);
        self.command = command;
        self.word = word;
    }

    pub(super) fn backticks(&mut self) {
        self.backticks_quoted(false);
    }

    pub(super) fn backticks_quoted(&mut self, quoted: bool) {
        let mut inner = String::new();
        loop {
            match self.raw() {
                Some('`') => break,
                None => return self.stop("a backtick is not closed"),
                Some('\\' | '\'' | '"' | '$') => {
                    return self.stop("shells interpret quotes in backticks differently");
                }
                Some('\n') if !self.heredocs.is_empty() => {
                    return self.stop("backticks span lines with a here-document");
                }
                Some(char) => inner.push(char),
            }
        }
        self.line.add(&inner, self.depth + 1);
        self.unknown(quoted);
    }

    /// Reads an arithmetic expression after its two parentheses, and both closing ones.
    pub(super) fn arithmetic(&mut self, semicolons: bool) -> String {
        let mut expression = String::new();
        let mut open = 2;
        loop {
            let Some(char) = self.next() else {
                self.stop("a parenthesis is not closed");
                return expression;
            };
            match char {
                '(' => open += 1,
                ')' if open == 2 => {
                    if !self.skip(')') {
                        self.stop("shells interpret its parentheses differently");
                    }
                    return expression;
                }
                ')' => open -= 1,
                '$' if matches!(self.peek(), Some(char) if char.is_ascii_alphabetic() || char == '_') => {
                    // `a$b` is the variable whose name ends in the value of `b`.
                    if expression.ends_with(|char: char| char.is_ascii_alphanumeric() || char == '_') {
                        self.stop("it computes with a variable whose name is known only when it runs");
                        return expression;
                    }
                    continue;
                }
                ';' if semicolons => {}
                ' ' | '\t' | '_' | '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' | '!' | '&' | '|' | '^'
                | '~' | ',' | '?' | ':' => {}
                char if char.is_ascii_alphanumeric() => {}
                _ => {
                    self.stop("it computes with values other than numbers and variables");
                    return expression;
                }
            }
            expression.push(char);
        }
    }

    /// Reads a text in which only expansions are evaluated.
    pub(super) fn expansions(&mut self) {
        while let Some(char) = self.raw() {
            match char {
                '\\' => drop(self.raw()),
                '`' => self.backticks_quoted(true),
                '$' => self.dollar(true),
                _ => {}
            }
        }
    }
}

/// Whether the output of a pipeline can only be one number, as that of `ls | wc -l`.
fn prints_number(pipeline: &[Command]) -> bool {
    let Some((last, before)) = pipeline.split_last() else { return false };
    let is_one = pipeline.iter().skip(1).all(|command| command.piped);
    let Some((program, args)) = last.words.split_first().filter(|_| last.sets.is_empty()) else {
        return false;
    };
    let args: Vec<&str> = args.iter().filter(|arg| !arg.is_dynamic()).map(|arg| &**arg).collect();
    is_one
        && is_installed(program)
        && args.len() + 1 == last.words.len()
        && match super::super::base(program) {
            "wc" => matches!(args[..], ["-l" | "-c" | "-w" | "-m"]),
            "grep" => !before.is_empty() && matches!(args[..], ["-c" | "-ic" | "-vc" | "-cv" | "-ci", _]),
            "nproc" => args.is_empty(),
            "id" => args == ["-u"],
            "date" => args == ["+%s"],
            _ => false,
        }
}
