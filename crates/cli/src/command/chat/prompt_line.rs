//! Parses the lines that a person types in a chat. Pure; see [`PromptLine::read`].

use std::path::PathBuf;

/// A line at the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PromptLine {
    Message(String),
    Image(PathBuf),
    Tools,
    Session,
    History,
    Cancel,
    Quit,
    Help,
    Nothing,
    /// What is wrong with it.
    Unclear(String),
}

pub(super) const HELP: &str = "/image FILE attaches an image to the next message, /tools lists the tools, /session shows the session \
     id, /history shows earlier messages, /cancel cancels the turn, /quit quits; // starts a message with a \
     slash";

impl PromptLine {
    pub(super) fn read(line: &str) -> PromptLine {
        let line = line.trim();
        if line.is_empty() {
            return PromptLine::Nothing;
        }
        let Some(command) = line.strip_prefix('/') else { return PromptLine::Message(line.to_owned()) };
        if command.starts_with('/') {
            return PromptLine::Message(command.to_owned());
        }
        let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match (word, rest.trim()) {
            ("image", "") => PromptLine::Unclear("/image: name a file".to_owned()),
            ("image", path) => PromptLine::Image(PathBuf::from(path)),
            ("tools", "") => PromptLine::Tools,
            ("session", "") => PromptLine::Session,
            ("history", "") => PromptLine::History,
            ("cancel", "") => PromptLine::Cancel,
            ("quit" | "exit", "") => PromptLine::Quit,
            ("help", "") => PromptLine::Help,
            _ => PromptLine::Unclear(format!("unknown command /{word}, not sent: {HELP}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_unless_they_begin_with_a_slash() {
        let message = |text: &str| PromptLine::Message(text.to_owned());
        assert_eq!(PromptLine::read("  hi there \n"), message("hi there"));
        assert_eq!(PromptLine::read("//etc is a folder"), message("/etc is a folder"));
        assert_eq!(PromptLine::read(" \n"), PromptLine::Nothing);
        assert_eq!(PromptLine::read("/image a b.png\n"), PromptLine::Image("a b.png".into()));
        assert_eq!(PromptLine::read("/tools"), PromptLine::Tools);
        assert_eq!(PromptLine::read("/quit"), PromptLine::Quit);
        assert_eq!(PromptLine::read("/cancel "), PromptLine::Cancel);
        for line in ["/image", "/nothing", "/", "/quit now", "/etc/passwd"] {
            assert!(matches!(PromptLine::read(line), PromptLine::Unclear(_)), "{line:?}");
        }
    }
}
