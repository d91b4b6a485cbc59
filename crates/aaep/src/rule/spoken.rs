//! Finds the texts of an event for people, and detects inaudible characters and markup in one text. It must not know
//! rules or findings. Start at [`for_each_text`].

use std::borrow::Cow;

use super::measure::is_localized;
use crate::field::Field;
use crate::json::Node;
use crate::limits;
use crate::reading::Reading;
use crate::shape::Shape;
use crate::table::{FOR_PEOPLE, SHAPES};

/// One text for people, with its field.
pub(super) struct SpokenText<'d> {
    pub(super) node: Node<'d>,
    place: SpokenField<'d>,
}

enum SpokenField<'d> {
    Top(Field),
    ProgressDescription,
    /// The label of this choice.
    Label(usize),
    /// The arguments in a prompt.
    Arguments,
    /// `summary_normal_yo`.
    Localized(Cow<'d, str>),
}

impl<'d> SpokenText<'d> {
    pub(super) fn path(&self) -> String {
        match &self.place {
            SpokenField::Top(field) => field.name().to_owned(),
            SpokenField::ProgressDescription => "progress.description".to_owned(),
            SpokenField::Label(at) => format!("choices[{at}].label"),
            SpokenField::Arguments => "extra_context.args_summary".to_owned(),
            SpokenField::Localized(name) => name.clone().into_owned(),
        }
    }

    /// Whether the protocol requires at least one character.
    pub(super) fn must_not_be_empty(&self) -> bool {
        match &self.place {
            SpokenField::Top(field) => matches!(SHAPES[*field as usize], Shape::Text { min: 1.., .. }),
            SpokenField::ProgressDescription | SpokenField::Label(_) | SpokenField::Localized(_) => true,
            SpokenField::Arguments => false,
        }
    }

    pub(super) fn is(&self, field: Field) -> bool {
        matches!(self.place, SpokenField::Top(this) if this == field)
    }

    /// The text; copied only if it contains escapes.
    pub(super) fn text(&self) -> Option<Cow<'d, str>> {
        self.node.str()
    }
}

/// Calls `look` for each text for people in an event: top-level texts, the description of progress, labels of choices,
/// arguments of prompts and localized texts.
pub(super) fn for_each_text<'d>(event: &Reading<'d>, mut look: impl FnMut(&SpokenText<'d>)) {
    let mut rest = event.set() & FOR_PEOPLE;
    while rest != 0 {
        let field = Field::ALL[rest.trailing_zeros() as usize];
        rest &= rest - 1;
        if let Some(node) = event.get(field) {
            look(&SpokenText { node, place: SpokenField::Top(field) });
        }
    }
    if let Some(node) = event.get(Field::Progress).and_then(|progress| progress.get("description")) {
        look(&SpokenText { node, place: SpokenField::ProgressDescription });
    }
    if let Some(node) = event.get(Field::ExtraContext).and_then(|context| context.get("args_summary")) {
        look(&SpokenText { node, place: SpokenField::Arguments });
    }
    if let Some(choices) = event.get(Field::Choices) {
        for (at, choice) in choices.items().enumerate() {
            if let Some(node) = choice.get("label") {
                look(&SpokenText { node, place: SpokenField::Label(at) });
            }
        }
    }
    for (key, node) in event.others() {
        if let Some(name) = key.str().filter(|name| is_localized(name)) {
            look(&SpokenText { node, place: SpokenField::Localized(name) });
        }
    }
}

/// Whether a character is neither spoken nor visible: white space, joiners, marks of direction, empty letters.
pub(super) fn is_silent(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c,
            '\u{AD}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{180E}' | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}' | '\u{FFA0}')
}

/// The first control or invisible character. Tabs and line ends are allowed, and so are tags after a black flag, which
/// form a flag.
pub(super) fn control(text: &str) -> Option<char> {
    let mut in_flag = false;
    text.chars().find(|c| {
        let tag = matches!(c, '\u{E0020}'..='\u{E007F}');
        let flagged = tag && in_flag;
        in_flag = *c == '\u{1F3F4}' || flagged;
        let silent = matches!(c, '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0001}');
        (c.is_control() && !matches!(c, '\t' | '\n' | '\r')) || silent || (tag && !flagged)
    })
}

/// The first bidirectional control that can mislead readers: any override, and in a complete text an unclosed embedding
/// or isolate, or a closing without an opening.
pub(super) fn bidirectional(text: &str, whole: bool) -> Option<char> {
    let mut open = Vec::new();
    for c in text.chars() {
        match c {
            '\u{202D}' | '\u{202E}' => return Some(c),
            '\u{202A}' | '\u{202B}' | '\u{2066}'..='\u{2068}' if open.len() >= limits::EMBEDDED_DEPTH_MAX => {
                return Some(c);
            }
            '\u{202A}' | '\u{202B}' | '\u{2066}'..='\u{2068}' => open.push(c),
            '\u{202C}' | '\u{2069}' if whole => {
                let closes = |opened: &char| (c == '\u{2069}') == (*opened >= '\u{2066}');
                match open.pop() {
                    Some(opened) if closes(&opened) => {}
                    _ => return Some(c),
                }
            }
            _ => {}
        }
    }
    open.pop().filter(|_| whole)
}

/// Names of HTML and SSML elements that occur in texts.
const ELEMENTS: &str = "a audio b blockquote body br break button code div em emphasis font h1 h2 h3 h4 h5 h6 hr html i \
    iframe img li ol p phoneme pre prosody s say-as script small span speak strong style sub sup svg \
    table td th tr u ul voice";

/// The first markup in a text, described by kind. Characters that also occur in prose and code (a star, one backtick,
/// `#` before a number) do not count.
pub(super) fn markup(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().find_map(|(at, byte)| {
        if !b"<&*`[#|".contains(byte) {
            return None;
        }
        let rest = &text[at + 1..];
        let rest = &rest[..rest.floor_char_boundary(limits::MARKUP_BYTES_MAX)];
        match byte {
            b'<' if is_element(rest) => Some("an HTML or SSML element"),
            b'&' if is_entity(rest) => Some("an HTML entity"),
            b'*' if is_bold(&text[..at], rest) => Some("Markdown bold"),
            b'`' if rest.starts_with("``") => Some("a Markdown code fence"),
            b'[' if is_link(rest) => Some("a Markdown link"),
            b'#' if starts_line(&text[..at]) && is_heading(rest) => Some("a Markdown heading"),
            b'|' if starts_line(&text[..at])
                && rest.trim_start().trim_start_matches(':').starts_with("---") =>
            {
                Some("a Markdown table")
            }
            _ => None,
        }
    })
}

fn starts_line(head: &str) -> bool {
    head.is_empty() || head.ends_with('\n')
}

/// Whether a known element name follows `<`, then its end or attributes. `a <b and c> d` is a comparison.
fn is_element(rest: &str) -> bool {
    let closing = rest.starts_with('/');
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    if !ELEMENTS.split(' ').any(|known| name.eq_ignore_ascii_case(known)) {
        return false;
    }
    let Some((inside, _)) = after.split_once('>') else { return false };
    let trimmed = inside.trim();
    trimmed.is_empty()
        || (!closing && (trimmed == "/" || (inside.starts_with([' ', '\n']) && trimmed.contains('='))))
}

fn is_entity(rest: &str) -> bool {
    let Some((name, _)) = rest.split_once(';') else { return false };
    let number = name.strip_prefix('#').is_some_and(|number| {
        let digits = number.strip_prefix(['x', 'X']).unwrap_or(number);
        (1..=6).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    number || ["amp", "apos", "gt", "hellip", "lt", "mdash", "nbsp", "ndash", "quot"].contains(&name)
}

/// Whether a text is bold, as `**so**`; not `2**3`, `src/**/a` or `**options`.
fn is_bold(head: &str, rest: &str) -> bool {
    let Some(inside) = rest.strip_prefix('*') else { return false };
    if head.ends_with(|c: char| c.is_alphanumeric() || c == '/' || c == '*') {
        return false;
    }
    let line = inside.lines().next().unwrap_or_default();
    let Some((words, _)) = line.split_once("**") else { return false };
    let last = |c: char| c.is_alphanumeric() || ".!?:;)".contains(c);
    words.starts_with(char::is_alphanumeric) && words.ends_with(last)
}

fn is_heading(rest: &str) -> bool {
    let after = rest.trim_start_matches('#');
    (1..=5).contains(&(rest.len() - after.len())) && after.starts_with(' ')
}

/// Whether a text is a link, as `[words](address)`.
fn is_link(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default();
    let Some((words, address)) = line.split_once("](") else { return false };
    let leads =
        ["http://", "https://", "mailto:", "/", "./", "#"].iter().any(|begin| address.starts_with(begin));
    !words.contains(']') && leads && address.contains(')')
}
