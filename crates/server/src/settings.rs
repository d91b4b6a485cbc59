//! Where each configured value comes from. See [`Setting`].
//!
//! It knows no key: whoever looks a value up says its key, and is remembered for `recount config`.

use std::fmt;
use std::path::PathBuf;

/// One value that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// As the file has it, with its section.
    pub key: &'static str,
    pub value: String,
    pub source: Source,
}

/// Where a value was found; the first of these that says something counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Flag,
    Environment(&'static str),
    File(PathBuf),
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag => f.write_str("flag"),
            Source::Environment(name) => write!(f, "environment {name}"),
            Source::File(path) => write!(f, "file {}", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

/// Looks values up, and remembers each.
pub(crate) struct Lookup<E> {
    environment: E,
    /// The configuration file, where there is one.
    file: PathBuf,
    settings: Vec<Setting>,
}

impl<E: Fn(&str) -> Option<String>> Lookup<E> {
    pub(crate) fn new(environment: E, file: PathBuf) -> Self {
        Lookup { environment, file, settings: Vec::new() }
    }

    /// What counts for this key: the flag, the variable of this name, what the file says, or the default. An empty
    /// variable is none.
    pub(crate) fn pick(
        &mut self,
        key: &'static str,
        flag: Option<String>,
        name: &'static str,
        file: Option<String>,
        default: impl Into<String>,
    ) -> String {
        let variable = (self.environment)(name).filter(|value| !value.is_empty());
        let (value, source) = match (flag, variable, file) {
            (Some(value), _, _) => (value, Source::Flag),
            (None, Some(value), _) => (value, Source::Environment(name)),
            (None, None, Some(value)) => (value, Source::File(self.file.clone())),
            (None, None, None) => (default.into(), Source::Default),
        };
        self.settings.push(Setting { key, value: value.clone(), source });
        value
    }

    /// A variable that the configuration names; what it holds is not remembered.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|value| !value.is_empty())
    }

    /// Remembers what only the file can say.
    pub(crate) fn note(&mut self, key: &'static str, value: String, is_said: bool) {
        let source = if is_said { Source::File(self.file.clone()) } else { Source::Default };
        self.settings.push(Setting { key, value, source });
    }

    /// All that was looked up, in that order.
    pub(crate) fn settings(self) -> Vec<Setting> {
        self.settings
    }
}
