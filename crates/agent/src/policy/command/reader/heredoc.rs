//! Reads here-documents: their words at once, their bodies after the line.
//!
//! Start at [`Reader::bodies`]. Where shells find the end of a body in different places, the reading ends. The module
//! must not depend on the meaning of commands.

use crate::policy::command::reader::Reader;
use crate::policy::limits;

pub(super) struct Heredoc {
    end: String,
    /// Whether expansions in the body are not evaluated.
    literal: bool,
    tabs: bool,
}

impl Reader<'_> {
    pub(super) fn heredoc(&mut self, tabs: bool) {
        const UNKNOWN: &str = "shells interpret the end of a here-document differently";
        self.blanks();
        let quote = self.chars.get(self.at).copied().filter(|char| matches!(char, '\'' | '"' | '\\'));
        self.at += usize::from(quote.is_some());
        let mut end = String::new();
        while let Some(char) =
            self.chars.get(self.at).filter(|char| char.is_ascii_alphanumeric() || **char == '_')
        {
            end.push(*char);
            self.at += 1;
        }
        let closed = match quote {
            Some(quote @ ('\'' | '"')) => self.raw() == Some(quote),
            _ => true,
        };
        let after = self.chars.get(self.at);
        if end.is_empty()
            || !closed
            || !matches!(after, None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | ')' | '<' | '>'))
        {
            return self.stop(UNKNOWN);
        }
        self.heredocs.push(Heredoc { end, literal: quote.is_some(), tabs });
    }

    /// Reads the bodies of the here-documents of a finished line.
    pub(super) fn bodies(&mut self) {
        for heredoc in std::mem::take(&mut self.heredocs) {
            let mut body = String::new();
            loop {
                if self.at >= self.chars.len() {
                    return self.stop("a here-document has no end");
                }
                let mut line = String::new();
                while let Some(char) = self.raw().filter(|char| *char != '\n') {
                    line.push(char);
                }
                let shown = if heredoc.tabs { line.trim_start_matches('\t') } else { &line };
                if shown == heredoc.end {
                    break;
                }
                let nearly = (self.inside || self.open > 0) && shown.starts_with(&heredoc.end);
                if nearly || (!heredoc.literal && line.ends_with('\\')) {
                    return self.stop("shells interpret the end of a here-document differently");
                }
                body.push_str(&line);
                body.push('\n');
            }
            if !heredoc.literal {
                if self.depth >= limits::COMMAND_DEPTH_MAX {
                    return self.stop("its commands are nested too deeply");
                }
                if !self.line.may_take(body.len()) {
                    return self.stop("it is too complex to analyse");
                }
                Reader::new(&body, self.line, self.depth + 1).expansions();
            }
        }
    }
}
