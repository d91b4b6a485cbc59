//! Reads a Rust file for tidy: tokens without comments and string contents, names resolved through the file's own
//! imports, and the ranges of test code.
//!
//! It is not a parser and knows no types. Start at [`Source::paths`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// One file.
pub(crate) struct Source {
    pub(crate) tokens: Vec<Token>,
    /// Test code, as ranges of tokens.
    tests: Vec<Range<usize>>,
    whole_file_is_test: bool,
    /// Lines with a `// tidy: <reason>`, alone on the line before or after the code.
    excused: BTreeSet<usize>,
    imports: BTreeMap<String, Vec<String>>,
    paths: Vec<PathUse>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) kind: TokenKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Name(String),
    Number,
    Text(String),
    Lifetime,
    /// `::`
    Sep,
    Sign(char),
}

/// A path with its segments, as written in code (resolved) or imported by a `use`.
#[derive(Debug, Clone)]
pub(crate) struct PathUse {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
    /// The tokens of the path, including its turbofish.
    pub(crate) tokens: Range<usize>,
    pub(crate) in_use: bool,
    /// The name that a `use` gives to it in its file.
    pub(crate) alias: Option<String>,
}

impl PathUse {
    /// Whether the segments of `pattern` are adjacent in this path.
    pub(crate) fn has(&self, pattern: &str) -> bool {
        let wanted: Vec<&str> = pattern.split("::").collect();
        self.segments.windows(wanted.len()).any(|part| part.iter().zip(&wanted).all(|(is, want)| is == want))
    }

    /// Whether the path begins with this segment.
    pub(crate) fn begins(&self, first: &str) -> bool {
        self.segments.first().is_some_and(|is| is == first)
    }

    pub(crate) fn last(&self) -> &str {
        self.segments.last().map_or("", String::as_str)
    }
}

impl Source {
    pub(crate) fn read(path: &str, text: &str) -> Self {
        let (tokens, comments) = tokenize(text);
        let tests = test_ranges(&tokens);
        let code_lines: BTreeSet<usize> = tokens.iter().map(|token| token.line).collect();
        let mut excused = BTreeSet::new();
        for (line, comment) in comments {
            if comment.trim().strip_prefix("tidy:").is_some_and(|reason| !reason.trim().is_empty()) {
                excused.insert(if code_lines.contains(&line) { line } else { line + 1 });
            }
        }
        let mut source = Source {
            tokens,
            tests,
            whole_file_is_test: is_test_file(path),
            excused,
            imports: BTreeMap::new(),
            paths: Vec::new(),
        };
        source.collect_paths();
        source
    }

    pub(crate) fn paths(&self) -> &[PathUse] {
        &self.paths
    }

    pub(crate) fn name(&self, at: usize) -> Option<&str> {
        match self.tokens.get(at).map(|token| &token.kind) {
            Some(TokenKind::Name(name)) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn is_sign(&self, at: usize, sign: char) -> bool {
        matches!(self.tokens.get(at), Some(Token { kind: TokenKind::Sign(is), .. }) if *is == sign)
    }

    pub(crate) fn is_number(&self, at: usize) -> bool {
        matches!(self.tokens.get(at), Some(Token { kind: TokenKind::Number, .. }))
    }

    pub(crate) fn is_test(&self, at: usize) -> bool {
        self.whole_file_is_test || self.tests.iter().any(|range| range.contains(&at))
    }

    pub(crate) fn is_excused(&self, line: usize) -> bool {
        self.excused.contains(&line)
    }

    /// Lines that declare a function of this name, with whether it has a test attribute.
    pub(crate) fn functions<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (usize, bool)> + 'a {
        (1..self.tokens.len())
            .filter(move |at| self.name(*at) == Some(name) && self.name(*at - 1) == Some("fn"))
            .map(|at| (self.tokens[at].line, self.has_test_attribute(at - 1)))
    }

    /// The name of the innermost function whose body contains this token.
    pub(crate) fn function_around(&self, at: usize) -> Option<&str> {
        (0..at).rev().filter(|head| self.name(*head) == Some("fn")).find_map(|head| {
            let open = self.body_of(head)?;
            (open < at && at < self.matching(open)).then(|| self.name(head + 1)).flatten()
        })
    }

    /// Every function with a body: its name and its lines, from `fn` to the closing brace.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        (0..self.tokens.len()).filter(|head| self.name(*head) == Some("fn")).filter_map(|head| {
            let (name, open) = (self.name(head + 1)?, self.body_of(head)?);
            let end = self.tokens.get(self.matching(open)).map_or(0, |token| token.line);
            Some((name, self.tokens[head].line..end + 1))
        })
    }

    /// Finds the start of the body of the function whose `fn` is here.
    fn body_of(&self, head: usize) -> Option<usize> {
        let mut depth = 0usize;
        for at in head..self.tokens.len() {
            match self.tokens[at].kind {
                TokenKind::Sign('(' | '[') => depth += 1,
                TokenKind::Sign(')' | ']') => depth = depth.saturating_sub(1),
                TokenKind::Sign('{') if depth == 0 => return Some(at),
                TokenKind::Sign(';') if depth == 0 => return None,
                _ => {}
            }
        }
        None
    }

    fn matching(&self, open: usize) -> usize {
        matching(&self.tokens, open)
    }

    fn has_test_attribute(&self, head: usize) -> bool {
        let mut at = head;
        while at > 0 && matches!(self.name(at - 1), Some("pub" | "async" | "unsafe" | "const")) {
            at -= 1;
        }
        while at > 0 && self.is_sign(at - 1, ']') {
            let mut depth = 0usize;
            let mut open = at - 1;
            loop {
                if self.is_sign(open, ']') {
                    depth += 1;
                } else if self.is_sign(open, '[') {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                if open == 0 {
                    return false;
                }
                open -= 1;
            }
            if (open..at).any(|inside| self.name(inside) == Some("test")) {
                return true;
            }
            at = open.saturating_sub(1);
        }
        false
    }

    fn collect_paths(&mut self) {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            if self.name(at) == Some("use") {
                let end =
                    (at..self.tokens.len()).find(|i| self.is_sign(*i, ';')).unwrap_or(self.tokens.len());
                let mut leaves = Vec::new();
                let mut cursor = at + 1;
                self.use_tree(&mut cursor, end, &[], &mut leaves);
                for (alias, segments, line, place) in leaves {
                    self.imports.insert(alias.clone(), segments.clone());
                    let (tokens, alias) = (place..place + 1, Some(alias));
                    found.push(PathUse { line, segments, tokens, in_use: true, alias });
                }
                at = end + 1;
            } else if let Some(first) = self.name(at) {
                let start = at;
                let mut segments = vec![first.to_owned()];
                at += 1;
                while matches!(self.tokens.get(at), Some(Token { kind: TokenKind::Sep, .. })) {
                    if let Some(next) = self.name(at + 1) {
                        segments.push(next.to_owned());
                        at += 2;
                    } else if self.is_sign(at + 1, '<') {
                        at = self.behind_angles(at + 1);
                    } else {
                        break;
                    }
                }
                found.push(PathUse {
                    line: self.tokens[start].line,
                    segments,
                    tokens: start..at,
                    in_use: false,
                    alias: None,
                });
            } else {
                at += 1;
            }
        }
        for path in &mut found {
            let is_method = path.tokens.start > 0 && self.is_sign(path.tokens.start - 1, '.');
            if path.in_use || is_method {
                continue;
            }
            if let Some(full) = self.imports.get(&path.segments[0]) {
                path.segments.splice(0..1, full.iter().cloned());
            }
        }
        self.paths = found;
    }

    fn behind_angles(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for at in open..self.tokens.len() {
            if self.is_sign(at, '<') {
                depth += 1;
            } else if self.is_sign(at, '>') && !self.is_sign(at.wrapping_sub(1), '-') {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
        }
        self.tokens.len()
    }

    fn use_tree(
        &self,
        at: &mut usize,
        end: usize,
        prefix: &[String],
        leaves: &mut Vec<(String, Vec<String>, usize, usize)>,
    ) {
        let mut segments = prefix.to_vec();
        while *at < end {
            if let Some(name) = self.name(*at) {
                let line = self.tokens[*at].line;
                if name == "as" {
                    let alias = self.name(*at + 1).unwrap_or("_").to_owned();
                    leaves.push((alias, segments, line, *at));
                    *at += 2;
                    return;
                }
                if name != "self" || segments.is_empty() {
                    segments.push(name.to_owned());
                }
                *at += 1;
                let goes_on = matches!(self.tokens.get(*at), Some(Token { kind: TokenKind::Sep, .. }))
                    || self.name(*at) == Some("as");
                if !goes_on {
                    let alias = segments.last().cloned().unwrap_or_default();
                    leaves.push((alias, segments, line, *at - 1));
                    return;
                }
            } else if self.is_sign(*at, '{') {
                *at += 1;
                while *at < end && !self.is_sign(*at, '}') {
                    let before = *at;
                    self.use_tree(at, end, &segments, leaves);
                    if self.is_sign(*at, ',') || *at == before {
                        *at += 1;
                    }
                }
                *at += 1;
                return;
            } else if self.is_sign(*at, '*') {
                let line = self.tokens[*at].line;
                segments.push("*".into());
                leaves.push(("*".into(), segments, line, *at));
                *at += 1;
                return;
            } else if matches!(self.tokens[*at].kind, TokenKind::Sep) {
                *at += 1;
            } else {
                return;
            }
        }
    }
}

/// Whether a file contains only test code, by its folder or name.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "conformance"))
        || path.ends_with("/tests.rs")
        || path.ends_with("/conformance.rs")
}

/// Finds the end of the bracket that opens at `open`.
fn matching(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            TokenKind::Sign('{' | '(' | '[') => depth += 1,
            TokenKind::Sign('}' | ')' | ']') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Items under `#[cfg(test)]` and functions under `#[test]`, attribute included.
fn test_ranges(tokens: &[Token]) -> Vec<Range<usize>> {
    let is = |at: usize, sign: char| matches!(tokens.get(at), Some(Token { kind: TokenKind::Sign(s), .. }) if *s == sign);
    let mut ranges = Vec::new();
    for at in 0..tokens.len() {
        if !(is(at, '#') && is(at + 1, '[')) {
            continue;
        }
        let close = matching(tokens, at + 1);
        let names: Vec<&str> = tokens[at + 2..close.min(tokens.len())]
            .iter()
            .filter_map(|token| match &token.kind {
                TokenKind::Name(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let under_cfg = names.first() == Some(&"cfg")
            && names.contains(&"test")
            && !names.contains(&"not")
            && !names.contains(&"any");
        let is_test_fn = names == ["test"] || names.starts_with(&["tokio", "test"]);
        if !(under_cfg || is_test_fn) {
            continue;
        }
        let mut end = close + 1;
        let mut depth = 0usize;
        while end < tokens.len() {
            match tokens[end].kind {
                TokenKind::Sign('(' | '[') => depth += 1,
                TokenKind::Sign(')' | ']') => depth = depth.saturating_sub(1),
                TokenKind::Sign('{') if depth == 0 => {
                    end = matching(tokens, end);
                    break;
                }
                TokenKind::Sign(';') if depth == 0 => break,
                _ => {}
            }
            end += 1;
        }
        ranges.push(at..end + 1);
    }
    ranges
}

/// Splits a text into tokens, and line comments with their line.
fn tokenize(text: &str) -> (Vec<Token>, Vec<(usize, String)>) {
    let mut reader = Reader { chars: text.chars().collect(), at: 0, line: 1 };
    let mut tokens = Vec::new();
    let mut comments = Vec::new();
    while let Some(c) = reader.peek(0) {
        let line = reader.line;
        let next = reader.peek(1);
        let kind = if c.is_whitespace() {
            reader.step();
            continue;
        } else if c == '/' && next == Some('/') {
            let comment = reader.while_true(|c| c != '\n');
            comments.push((line, comment.trim_start_matches('/').to_owned()));
            continue;
        } else if c == '/' && next == Some('*') {
            reader.block_comment();
            continue;
        } else if let Some(text) = reader.string() {
            TokenKind::Text(text)
        } else if c.is_alphabetic() || c == '_' {
            TokenKind::Name(reader.while_true(|c| c.is_alphanumeric() || c == '_'))
        } else if c.is_ascii_digit() {
            reader.number();
            TokenKind::Number
        } else if c == '\'' {
            reader.quote()
        } else if c == ':' && next == Some(':') {
            reader.step();
            reader.step();
            TokenKind::Sep
        } else {
            reader.step();
            TokenKind::Sign(c)
        };
        tokens.push(Token { line, kind });
    }
    (tokens, comments)
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn step(&mut self) {
        if self.peek(0) == Some('\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    fn while_true(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(&wanted) {
            self.step();
        }
        self.chars[start..self.at].iter().collect()
    }

    fn block_comment(&mut self) {
        let mut depth = 0usize;
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) => {
                    depth += 1;
                    self.step();
                }
                ('*', Some('/')) => {
                    depth -= 1;
                    self.step();
                }
                _ => {}
            }
            self.step();
            if depth == 0 {
                return;
            }
        }
    }

    /// Reads a string of any sort with its prefix; `None` if none begins here.
    fn string(&mut self) -> Option<String> {
        let mut ahead = 0;
        while matches!(self.peek(ahead), Some('b' | 'c' | 'r')) && ahead < 2 {
            ahead += 1;
        }
        let raw = ahead > 0 && self.peek(ahead - 1) == Some('r');
        let mut hashes = 0;
        while raw && self.peek(ahead + hashes) == Some('#') {
            hashes += 1;
        }
        if self.peek(ahead + hashes) != Some('"') {
            return None;
        }
        for _ in 0..=ahead + hashes {
            self.step();
        }
        let start = self.at;
        while let Some(c) = self.peek(0) {
            if c == '\\' && !raw {
                self.step();
            } else if c == '"' && (1..=hashes).all(|n| self.peek(n) == Some('#')) {
                break;
            }
            self.step();
        }
        let text = self.chars[start..self.at.min(self.chars.len())].iter().collect();
        for _ in 0..=hashes {
            self.step();
        }
        Some(text)
    }

    fn number(&mut self) {
        loop {
            self.while_true(|c| c.is_alphanumeric() || c == '_');
            let fraction = self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit());
            if !fraction {
                return;
            }
            self.step();
        }
    }

    /// Reads a character or a lifetime.
    fn quote(&mut self) -> TokenKind {
        self.step();
        if self.peek(0) == Some('\\') {
            self.step();
            self.step();
            self.while_true(|c| c != '\'');
            self.step();
            return TokenKind::Text(String::new());
        }
        if self.peek(1) == Some('\'') {
            self.step();
            self.step();
            return TokenKind::Text(String::new());
        }
        self.while_true(|c| c.is_alphanumeric() || c == '_');
        TokenKind::Lifetime
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        Source::read("src/x.rs", text).paths().iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn comments_strings_characters_and_lifetimes_are_not_code() {
        let text = "// std::fs\n/* a /* b */ std::fs */ let a = \"std::fs \\\" std::fs\"; let b = 'x'; \
                    fn c<'a>(d: &'a u8) {} r#\"std::fs \" \"#; '\\u{1F600}'; b\"std::fs\" ;";
        assert!(paths(text).iter().all(|path| !path.contains("std")), "{:?}", paths(text));
        assert!(paths(text).contains(&"u8".to_owned()));
    }

    #[test]
    fn imports_are_followed() {
        let text = "use std::{fs::{self, read}, time::Instant as Moment};\n\
                    fn f() { fs::write(); read(); Moment::now(); x.read(); }";
        let found = paths(text);
        for wanted in ["std::fs", "std::fs::read", "std::fs::write", "std::time::Instant::now", "read"] {
            assert!(found.contains(&wanted.to_owned()), "{wanted} is not in {found:?}");
        }
    }

    #[test]
    fn a_turbofish_is_skipped() {
        let source = Source::read("src/x.rs", "mpsc::channel::<Box<dyn Fn() -> u8>>(16)");
        let path = &source.paths()[0];
        assert_eq!(path.segments, ["mpsc", "channel"]);
        assert!(source.is_sign(path.tokens.end, '(') && source.is_number(path.tokens.end + 1));
    }

    #[test]
    fn test_code_is_known() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}\n#[cfg(not(test))] fn d() {}";
        let source = Source::read("src/x.rs", text);
        let test_of = |name: &str| {
            let at = (0..source.tokens.len()).find(|at| source.name(*at) == Some(name)).expect("it is there");
            source.is_test(at)
        };
        assert_eq!([test_of("a"), test_of("b"), test_of("c"), test_of("d")], [false, true, false, false]);
        assert!(Source::read("crates/a/tests/x.rs", "fn a() {}").is_test(0));
    }

    #[test]
    fn a_reason_excuses_its_line_or_the_next() {
        let source = Source::read("x.rs", "a(); // tidy: because\n// tidy: so\nb();\nc(); // tidy:\n");
        assert_eq!([1, 2, 3, 4].map(|line| source.is_excused(line)), [true, false, true, false]);
    }

    #[test]
    fn functions_are_found_with_their_attributes_and_bodies() {
        let text = "#[tokio::test(start_paused = true)]\n#[should_panic]\nasync fn a() { b(1) }\nfn b(x: [u8; 2]) { c }";
        let source = Source::read("x.rs", text);
        assert_eq!(source.functions("a").collect::<Vec<_>>(), [(3, true)]);
        assert_eq!(source.functions("b").collect::<Vec<_>>(), [(4, false)]);
        let c = (0..source.tokens.len()).find(|at| source.name(*at) == Some("c")).expect("it is there");
        assert_eq!(source.function_around(c), Some("b"));
    }
}
