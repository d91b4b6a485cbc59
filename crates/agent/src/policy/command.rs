//! Splits a shell command line into the commands that it runs, and reports where that cannot be done completely.
//!
//! Start at [`CommandLine::read`]. It accepts a subset of the shell language that `bash` and `dash` interpret alike.
//! Everything outside of the subset, and every limit, sets [`CommandLine::unjudged`]: a caller must then assume the
//! worst. Pure. The module must not depend on rules or risks. Programs can run other programs on their own; the sandbox
//! restricts those, this module does not.

#[cfg(test)]
mod bounds;
mod inner;
mod numbers;
pub(super) mod programs;
mod reader;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trace;

use std::ops::Deref;

use crate::limits::COMMAND_BYTES_MAX;
use crate::policy::command::numbers::Numbers;
use crate::policy::command::reader::Reader;
use crate::policy::limits;

/// The commands that a command line runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) commands: Vec<Command>,
    /// Files that output is redirected to, except `/dev/null`.
    pub(crate) redirects: Vec<String>,
    /// Files that input is redirected from.
    pub(crate) inputs: Vec<String>,
    /// Why the text does not show everything that the shell would run; `None` if it does.
    pub(crate) unjudged: Option<&'static str>,
    /// Whether it sets a variable that changes what later commands are, such as `PATH`.
    pub(crate) twisted: bool,
    /// Whether an interpreter is given code in the line, which is not read.
    pub(crate) has_code: bool,
    /// Values of variables that select a program.
    named: Vec<String>,
    /// Whether a condition relies on the output of a program that prints only numbers.
    counts: bool,
    numbers: Numbers,
    /// The depth of the commands whose `[[` is not closed yet.
    condition: Option<usize>,
    /// Bytes of text and words processed, counted each time.
    steps: usize,
}

/// One command with its words, without quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) words: Vec<Word>,
    /// Variables that are set for it.
    pub(crate) sets: Vec<String>,
    /// Whether its input comes from the command before.
    pub(crate) piped: bool,
    /// Whether `sudo` or a similar program runs it.
    pub(crate) raised: bool,
    /// Whether it only runs commands that are listed too.
    pub(crate) wraps: bool,
    /// Whether it was found among the arguments of another program.
    is_named: bool,
}

/// One word. A part that is only known when the shell runs is a `$` in `text`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    certainty: Certainty,
    expansions: Vec<Expansion>,
    /// Each at most once.
    patterns: Vec<WordPattern>,
    /// Whether a part of it is in quotes or after a backslash.
    is_quoted: bool,
    /// Whether it begins with an unquoted `name=`.
    assigns: bool,
}

/// How much of a word is visible in its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Certainty {
    #[default]
    Known,
    /// The shell may expand it to another word, several words, or none.
    Dynamic,
    /// Dynamic, and its first character is unknown, so that it may be an option.
    DynamicFromStart,
}

/// An expansion in a word.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expansion {
    /// A simple variable.
    Variable { name: String, is_quoted: bool },
    /// A value that can only be a number, with the length of the text after it, to see whether it is the whole value.
    Number { end: usize },
    /// Any other expansion. If it splits, it may become several words.
    Other { splits: bool },
}

/// Patterns that the shell replaces by file names or alternatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordPattern {
    Tilde,
    Brace,
    Glob,
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl Word {
    /// Arguments that a command receives from elsewhere, or that contain such text.
    fn unknown(text: String) -> Self {
        Word {
            text,
            certainty: Certainty::DynamicFromStart,
            expansions: vec![Expansion::Other { splits: true }],
            ..Word::default()
        }
    }

    /// Whether the shell may expand it to another word, several words, or none.
    pub(crate) fn is_dynamic(&self) -> bool {
        self.certainty > Certainty::Known
    }

    /// Whether its first character is unknown, so that it may be an option.
    pub(crate) fn has_unknown_start(&self) -> bool {
        self.certainty == Certainty::DynamicFromStart
    }

    /// Whether it has no quotes and expansions: only such a word can be a keyword of the shell's grammar.
    fn is_plain(&self) -> bool {
        !self.is_quoted && self.expansions.is_empty()
    }

    fn has(&self, pattern: WordPattern) -> bool {
        self.patterns.contains(&pattern)
    }

    /// Simple variables in it.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.expansions.iter().filter_map(|expansion| match expansion {
            Expansion::Variable { name, .. } => Some(&**name),
            Expansion::Number { .. } | Expansion::Other { .. } => None,
        })
    }

    /// Whether a simple variable in it is unquoted.
    fn has_bare_variable(&self) -> bool {
        self.expansions
            .iter()
            .any(|expansion| matches!(expansion, Expansion::Variable { is_quoted: false, .. }))
    }

    /// Whether it has an expansion that is not a simple variable or a number.
    fn is_unsure(&self) -> bool {
        self.expansions.iter().any(|expansion| matches!(expansion, Expansion::Other { .. }))
    }

    /// Whether an expansion other than a simple variable may become several words.
    fn splits(&self) -> bool {
        self.expansions.contains(&Expansion::Other { splits: true })
    }

    /// Whether its text ends in a number.
    fn ends_in_number(&self) -> bool {
        self.expansions.contains(&Expansion::Number { end: self.text.len() })
    }

    /// Appends a part that is known only when the shell runs.
    fn expand(&mut self, expansion: impl FnOnce(usize) -> Expansion) {
        let is_start = self.text.is_empty();
        self.certainty =
            self.certainty.max(if is_start { Certainty::DynamicFromStart } else { Certainty::Dynamic });
        self.text.push('$');
        self.expansions.push(expansion(self.text.len()));
    }

    fn add_pattern(&mut self, pattern: WordPattern) {
        if !self.has(pattern) {
            self.patterns.push(pattern);
        }
    }

    /// Whether blanks in its expansions create further words, which may begin with anything.
    fn breaks(&self) -> bool {
        self.has_bare_variable() || self.splits()
    }

    /// Whether it is an option whose name is known only when the shell runs.
    fn is_unknown_option(&self) -> bool {
        self.is_dynamic() && self.starts_with('-')
    }

    /// Whether patterns or braces expand it to other words.
    fn is_several_but_for_blanks(&self) -> bool {
        self.is_dynamic() && (self.has(WordPattern::Glob) || self.has(WordPattern::Brace))
    }

    /// Whether it may be an option whose name is known only when the shell runs. `--name="$X"` has a known name.
    pub(crate) fn hides_option(&self) -> bool {
        let known = |(name, _): (&str, &str)| {
            name.starts_with("--") && !name.contains(['$', '*', '?', '[', '{']) && !self.is_several()
        };
        self.is_unknown_option() && !self.split_once('=').is_some_and(known)
    }

    /// Whether the shell may expand it to another number of words.
    fn is_several(&self) -> bool {
        self.breaks() || self.is_several_but_for_blanks()
    }
}

impl CommandLine {
    pub(crate) fn read(text: &str) -> Self {
        let mut line = CommandLine::default();
        if text.len() > COMMAND_BYTES_MAX {
            line.cannot_judge("it exceeds the length limit of a command line");
            return line;
        }
        if text.chars().any(hides) {
            line.cannot_judge("it has characters that may be invisible or displayed differently");
        }
        line.add(text, 0);
        for value in std::mem::take(&mut line.named) {
            line.find_in_text(&value, 1);
        }
        if line.counts && line.twisted {
            line.cannot_judge("a condition has words that are known only when it runs");
        }
        if line.condition.is_some() {
            line.cannot_judge("a condition is not closed");
        }
        if !line.numbers.are_known() {
            line.cannot_judge("it computes with a value that is known only when it runs");
        }
        line
    }

    /// Keeps the first reason.
    fn cannot_judge(&mut self, why: &'static str) {
        self.unjudged.get_or_insert(why);
    }

    /// Counts work before it is done. Returns whether the limit allows it.
    fn may_take(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_add(steps);
        let may = self.steps <= limits::COMMAND_STEPS_MAX;
        if !may {
            self.cannot_judge("it is too complex to analyse");
        }
        may
    }

    fn may_take_words(&mut self, words: &[Word]) -> bool {
        self.may_take(words.iter().map(|word| 1 + word.text.len()).sum())
    }

    fn add(&mut self, text: &str, depth: usize) {
        if depth > limits::COMMAND_DEPTH_MAX {
            self.cannot_judge("its commands are nested too deeply");
        } else if self.may_take(text.len()) {
            Reader::new(text, self, depth).all();
        }
    }

    fn push(&mut self, command: Command) {
        if self.commands.len() < limits::COMMANDS_MAX {
            self.commands.push(command);
        } else {
            self.cannot_judge("it has too many commands");
        }
    }
}

/// Whether it is a control character, or a character that invisibly changes how a text looks.
fn hides(char: char) -> bool {
    (char.is_control() && !matches!(char, '\n' | '\t'))
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Quotes words to a command line that contains exactly these.
pub fn quoted(words: &[&str]) -> String {
    let plain = |word: &str| {
        !word.is_empty()
            && !is_setting(word)
            && !word.starts_with('~')
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

/// Whether a word is the bare name of a program, or a path in a system folder. `./ls` is another program.
pub(crate) fn is_installed(word: &str) -> bool {
    const FOLDERS: &[&str] = &["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"];
    word.rsplit_once('/').is_none_or(|(folder, _)| FOLDERS.contains(&folder))
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|char: char| char.is_ascii_digit())
        && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

fn is_setting(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Whether setting this variable may select another program to run.
pub(crate) fn twists(set: &str) -> bool {
    const NAMES: &[&str] = &[
        "PATH=",
        "LD_",
        "DYLD_",
        "BASH",
        "ENV=",
        "IFS=",
        "GIT_",
        "NODE_OPTIONS=",
        "RUSTC",
        "CARGO_",
        // Programs read there which other programs they run.
        "HOME=",
        "XDG_CONFIG_HOME=",
        "PAGER=",
        "LESSOPEN=",
        "RIPGREP_CONFIG_PATH=",
    ];
    /// Ends of the names of variables that hold a program, such as `GIT_PAGER` and `RUSTC_WRAPPER`.
    const ENDS: &[&str] = &[
        "PAGER", "EDITOR", "VISUAL", "COMMAND", "CMD", "WRAPPER", "SHELL", "BROWSER", "ASKPASS", "_RSH",
        "PROGRAM",
    ];
    let (name, _) = set.split_once('=').unwrap_or((set, ""));
    NAMES.iter().any(|start| set.starts_with(start)) || ENDS.iter().any(|end| name.ends_with(end))
}
