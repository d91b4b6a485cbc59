//! The page's template: named parts of `page.html` and `drawing.svg`, with holes as `{name}`. [`fill`] writes a part
//! with values in its holes. The type of a value determines its escaping, so that foreign text never becomes markup.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::LazyLock;

use super::escape::{push, push_message, push_plain, push_sentence};
use crate::trace::sentence::{Languages, Sentence};
use crate::trace::time::write_when;

/// A value for a hole.
pub(super) trait Fill {
    fn fill(&self, out: &mut String);
}

/// A foreign name or message in an element.
pub(super) struct Escaped<'t>(pub(super) &'t str);
/// The same in an attribute or a `title`, which cannot contain elements.
pub(super) struct Plain<'t>(pub(super) &'t str);
/// The message of a rule, with values between backticks.
pub(super) struct RuleText<'t>(pub(super) &'t str);
/// A sentence of an entry.
pub(super) struct SentenceMarkup<'t>(pub(super) &'t Sentence, pub(super) &'t Languages);
/// The time of an entry in words.
pub(super) struct When(pub(super) Option<i64>);
/// Filled parts.
pub(super) struct Markup<'t>(pub(super) &'t str);

/// Own words.
impl Fill for &'static str {
    fn fill(&self, out: &mut String) {
        out.push_str(self);
    }
}

impl Fill for usize {
    fn fill(&self, out: &mut String) {
        write!(out, "{self}").expect("writing to a string cannot fail");
    }
}

/// Units of the drawing.
impl Fill for f64 {
    fn fill(&self, out: &mut String) {
        write!(out, "{self:.1}").expect("writing to a string cannot fail");
    }
}

impl Fill for Escaped<'_> {
    fn fill(&self, out: &mut String) {
        push(out, self.0);
    }
}

impl Fill for Plain<'_> {
    fn fill(&self, out: &mut String) {
        push_plain(out, self.0);
    }
}

impl Fill for RuleText<'_> {
    fn fill(&self, out: &mut String) {
        push_message(out, self.0);
    }
}

impl Fill for SentenceMarkup<'_> {
    fn fill(&self, out: &mut String) {
        push_sentence(out, self.0, self.1);
    }
}

impl Fill for When {
    fn fill(&self, out: &mut String) {
        write_when(out, self.0);
    }
}

impl Fill for Markup<'_> {
    fn fill(&self, out: &mut String) {
        out.push_str(self.0);
    }
}

/// Text and the hole after it, if there is one.
type Segment = (&'static str, Option<&'static str>);

static PARTS: LazyLock<HashMap<&'static str, Vec<Segment>>> = LazyLock::new(|| {
    let files = [include_str!("page.html"), include_str!("drawing.svg")];
    files.into_iter().flat_map(parts).collect()
});

/// The parts of a file. A marker is on its own line; text before the first one is a comment.
fn parts(file: &'static str) -> impl Iterator<Item = (&'static str, Vec<Segment>)> {
    let marked = file.split("<!-- ").filter_map(|part| part.split_once(" -->\n"));
    marked.filter_map(|(marker, text)| match marker.split_once(": ")? {
        ("block", name) => Some((name, segments(text))),
        ("piece", name) => Some((name, segments(text.strip_suffix('\n').unwrap_or(text)))),
        _ => None,
    })
}

fn segments(mut text: &'static str) -> Vec<Segment> {
    let mut segments = Vec::new();
    while let Some((before, (hole, after))) =
        text.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        segments.push((before, Some(hole)));
        text = after;
    }
    segments.push((text, None));
    segments
}

/// Writes a part of the template with these values.
pub(super) fn fill(out: &mut String, part: &str, values: &[(&str, &dyn Fill)]) {
    let segments = PARTS.get(part).unwrap_or_else(|| unreachable!("the template has no part `{part}`"));
    for (text, hole) in segments {
        out.push_str(text);
        let Some(hole) = hole else { continue };
        let value = values.iter().find(|(name, _)| name == hole);
        let (_, value) = value.unwrap_or_else(|| unreachable!("nothing is given for `{hole}` of `{part}`"));
        value.fill(out);
    }
}

/// Returns a filled part.
pub(super) fn filled(part: &str, values: &[(&str, &dyn Fill)]) -> String {
    let mut out = String::new();
    fill(&mut out, part, values);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_named_once_and_each_hole_has_a_name() {
        let files = [include_str!("page.html"), include_str!("drawing.svg")];
        let marked: usize = files
            .iter()
            .map(|file| file.matches("<!-- block: ").count() + file.matches("<!-- piece: ").count())
            .sum();
        assert_eq!(PARTS.len(), marked);
        let is_name = |hole: &str| !hole.is_empty() && hole.bytes().all(|byte| byte.is_ascii_lowercase());
        for (part, segments) in PARTS.iter() {
            assert!(segments.iter().filter_map(|(_, hole)| *hole).all(is_name), "{part}");
            assert!(segments.iter().all(|(text, _)| !text.contains(['{', '}'])), "{part}");
        }
    }

    #[test]
    fn values_are_escaped_by_what_they_are() {
        let stranger = "<i>\u{202e}";
        assert_eq!(
            filled("paragraph", &[("text", &Escaped(stranger))]),
            "<p>&lt;i&gt;<span class=\"sign\">U+202E</span></p>"
        );
        assert_eq!(filled("paragraph", &[("text", &Plain(stranger))]), "<p>&lt;i&gt;U+202E</p>");
        assert_eq!(filled("paragraph", &[("text", &Markup("<i>"))]), "<p><i></p>");
        assert_eq!(
            filled("dot", &[("x", &2.0), ("y", &1.25)]),
            "<circle class=\"dot\" cx=\"2.0\" cy=\"1.2\" r=\"4\"/>"
        );
    }
}
