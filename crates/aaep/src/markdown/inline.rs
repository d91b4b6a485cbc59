//! Text within a line of Markdown, without code marks, emphasis, addresses of links, escapes and entities: [`inline`].
//!
//! Must not depend on blocks. A mark without a partner stays, because it may be part of a file pattern or a product.

/// Named characters that models write.
const ENTITIES: [(&str, char); 6] =
    [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&#39;", '\''), ("&nbsp;", ' ')];

pub(super) fn inline(text: &str) -> String {
    let mut reader =
        InlineReader { text: text.chars().collect(), at: 0, closings: Vec::new(), out: String::new() };
    while reader.at < reader.text.len() {
        reader.step();
    }
    reader.out
}

struct InlineReader {
    text: Vec<char>,
    at: usize,
    /// Where emphasis that was opened ends.
    closings: Vec<usize>,
    out: String,
}

impl InlineReader {
    fn step(&mut self) {
        let character = self.text[self.at];
        let taken = match character {
            '\\' => self.escape(),
            '`' => self.code(),
            '!' if self.text.get(self.at + 1) == Some(&'[') => self.link(self.at + 1),
            '[' => self.link(self.at),
            '<' => self.angle(),
            '&' => self.entity(),
            '*' | '_' | '~' => self.emphasis(character),
            _ => None,
        };
        match taken {
            Some(next) => self.at = next,
            None => {
                self.out.push(character);
                self.at += 1;
            }
        }
    }

    fn escape(&mut self) -> Option<usize> {
        let escaped = self.text.get(self.at + 1).filter(|next| next.is_ascii_punctuation())?;
        self.out.push(*escaped);
        Some(self.at + 2)
    }

    fn run(&self, from: usize) -> usize {
        self.text[from..].iter().take_while(|c| **c == self.text[from]).count()
    }

    fn code(&mut self) -> Option<usize> {
        let length = self.run(self.at);
        let begin = self.at + length;
        let mut at = begin;
        while at < self.text.len() {
            if self.text[at] != '`' {
                at += 1;
                continue;
            }
            let closing = self.run(at);
            if closing == length {
                let code: String = self.text[begin..at].iter().collect();
                self.out.push_str(if code.trim().is_empty() { &code } else { code.trim() });
                return Some(at + length);
            }
            at += closing;
        }
        // Without a partner, all marks of the run stay.
        self.out.extend(std::iter::repeat_n('`', length));
        Some(begin)
    }

    /// `[text](address)` and `[text][name]`: the text. Without a text, the address.
    fn link(&mut self, bracket: usize) -> Option<usize> {
        let end = self.closing(bracket, '[', ']')?;
        let (open, close) = match self.text.get(end + 1) {
            Some('(') => ('(', ')'),
            Some('[') => ('[', ']'),
            _ => return None,
        };
        let last = self.closing(end + 1, open, close)?;
        let label: String = self.text[bracket + 1..end].iter().collect();
        let address: String = self.text[end + 2..last].iter().collect();
        let label = inline(&label);
        self.out.push_str(if label.trim().is_empty() { &address } else { &label });
        Some(last + 1)
    }

    fn closing(&self, from: usize, open: char, close: char) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, character) in self.text.iter().enumerate().skip(from) {
            if *character == open {
                depth += 1;
            } else if *character == close {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        None
    }

    /// An address in angle brackets, or a line break.
    fn angle(&mut self) -> Option<usize> {
        let end = self.closing(self.at, '<', '>')?;
        let inner: String = self.text[self.at + 1..end].iter().collect();
        if matches!(inner.trim_end_matches([' ', '/']), "br" | "BR") {
            self.out.push(' ');
        } else if inner.contains([':', '@']) && !inner.contains(char::is_whitespace) {
            self.out.push_str(&inner);
        } else {
            return None;
        }
        Some(end + 1)
    }

    fn entity(&mut self) -> Option<usize> {
        let (name, character) = ENTITIES.iter().find(|(name, _)| {
            let rest = &self.text[self.at..];
            rest.len() >= name.len() && rest.iter().zip(name.chars()).all(|(one, other)| *one == other)
        })?;
        self.out.push(*character);
        Some(self.at + name.len())
    }

    /// Marks of emphasis. Two stars may end in another piece of the text, so they need no partner next to a letter.
    fn emphasis(&mut self, mark: char) -> Option<usize> {
        let length = self.run(self.at);
        let after = Some(self.at + length);
        if self.closings.contains(&self.at) {
            return after;
        }
        if length <= 3 && self.opens(self.at, length) && (mark != '~' || length == 2) {
            let mut at = self.at + length;
            while at < self.text.len() {
                if self.text[at] != mark {
                    at += 1;
                    continue;
                }
                let other = self.run(at);
                if other == length && self.closes(at, length) && at > self.at + length {
                    self.closings.push(at);
                    return after;
                }
                at += other;
            }
            let next = self.text.get(self.at + length).copied().unwrap_or(' ');
            if mark == '*' && length == 2 && next.is_alphanumeric() {
                return after;
            }
        }
        if mark == '*' && length == 2 && self.closes(self.at, length) {
            return after;
        }
        self.out.extend(std::iter::repeat_n(mark, length));
        after
    }

    fn opens(&self, at: usize, length: usize) -> bool {
        let before = at.checked_sub(1).map(|at| self.text[at]);
        let after = self.text.get(at + length);
        before.is_none_or(|c| !c.is_alphanumeric()) && after.is_some_and(|c| touches(*c, "\"'`([<*_~"))
    }

    fn closes(&self, at: usize, length: usize) -> bool {
        let before = at.checked_sub(1).map(|at| self.text[at]);
        let after = self.text.get(at + length);
        before.is_some_and(|c| touches(c, ".!?:;,)]>\"'`*_~%")) && after.is_none_or(|c| !c.is_alphanumeric())
    }
}

/// Whether emphasis begins or ends next to this character: a letter, a digit, or one of these marks.
fn touches(character: char, marks: &str) -> bool {
    character.is_alphanumeric()
        || marks.contains(character)
        || !(character.is_ascii() || character.is_whitespace())
}
