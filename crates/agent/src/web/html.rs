//! Converts HTML to readable text: drops scripts and styles, puts blocks on lines, keeps the targets of links.
//!
//! Pure. Start at [`text_of`]. It works on tokens without a tree, so time and memory are linear in the page size, and
//! the text is limited.

use std::convert::Infallible;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use reqwest::Url;

use crate::tools::cut_bytes;
use crate::web::limits;

/// Elements whose content is omitted.
const OMITTED: &[&str] =
    &["script", "style", "iframe", "noembed", "noframes", "noscript", "template", "svg", "math", "object"];

/// Elements on their own lines.
const LINE_ELEMENTS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hgroup",
    "legend",
    "main",
    "nav",
    "option",
    "ol",
    "section",
    "summary",
    "table",
    "tbody",
    "tfoot",
    "thead",
    "tr",
    "ul",
];

/// Elements that are separated by an empty line.
const PARAGRAPH_ELEMENTS: &[&str] = &["p", "pre", "h1", "h2", "h3", "h4", "h5", "h6"];

/// The prefix of a list item.
const LIST_MARK: &str = "- ";

/// Converts a page; `from` is its URL.
pub(crate) fn text_of(html: &str, from: &Url) -> ReadableText {
    let mut page = PageText::new(from);
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
        page.take(event);
        None
    });
    emitter.naively_switch_states(true);
    // Reading from a string cannot fail.
    let Ok(()) = Tokenizer::new_with_emitter(html, emitter).finish();
    page.finish()
}

/// A body as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReadableText {
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    /// Whether the text was extracted from HTML.
    pub(crate) is_extracted: bool,
    /// Whether the text was cut at its limit.
    pub(crate) is_cut: bool,
}

struct PageText {
    out: String,
    title: String,
    base: Url,
    tag: OpenTag,
    /// The omitted element that is open, and its nesting depth.
    omitted: Option<(String, usize)>,
    in_title: bool,
    /// The number of open elements that preserve white space.
    pre: usize,
    /// Line breaks before the next word.
    breaks: usize,
    /// Whether a space comes before the next word.
    space: bool,
    /// The prefix of the next word's line, such as a list mark.
    mark: &'static str,
    /// The target of the open link, and the offset of its text.
    link: Option<(String, usize)>,
    is_cut: bool,
}

/// The start tag that is being parsed.
#[derive(Default)]
struct OpenTag {
    name: String,
    attribute: String,
    href: Option<String>,
    alt: Option<String>,
}

impl PageText {
    fn new(from: &Url) -> Self {
        PageText {
            out: String::new(),
            title: String::new(),
            base: from.clone(),
            tag: OpenTag::default(),
            omitted: None,
            in_title: false,
            pre: 0,
            breaks: 0,
            space: false,
            mark: "",
            link: None,
            is_cut: false,
        }
    }

    fn take(&mut self, event: CallbackEvent<'_>) {
        let text = String::from_utf8_lossy;
        match event {
            CallbackEvent::OpenStartTag { name } => {
                self.tag = OpenTag { name: text(name).into_owned(), ..OpenTag::default() };
            }
            CallbackEvent::AttributeName { name } => self.tag.attribute = text(name).into_owned(),
            CallbackEvent::AttributeValue { value } => {
                let value = || Some(text(value).into_owned());
                match self.tag.attribute.as_str() {
                    "href" if self.tag.href.is_none() => self.tag.href = value(),
                    "alt" if self.tag.alt.is_none() => self.tag.alt = value(),
                    _ => {}
                }
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                let tag = std::mem::take(&mut self.tag);
                self.open_element(tag, self_closing);
            }
            CallbackEvent::EndTag { name } => self.close_element(&text(name)),
            CallbackEvent::String { value } => self.add_text(&text(value)),
            CallbackEvent::Comment { .. } | CallbackEvent::Doctype { .. } | CallbackEvent::Error(_) => {}
        }
    }

    fn open_element(&mut self, tag: OpenTag, self_closing: bool) {
        let name = tag.name.as_str();
        if let Some((omitted, depth)) = &mut self.omitted {
            *depth += usize::from(omitted == name && !self_closing);
            return;
        }
        if OMITTED.contains(&name) {
            // Only SVG and MathML elements can be self-closing.
            if !(self_closing && matches!(name, "svg" | "math")) {
                self.omitted = Some((name.to_owned(), 1));
            }
            return;
        }
        match name {
            "title" => self.in_title = true,
            "base" => {
                if let Some(base) = tag.href.and_then(|href| self.base.join(&href).ok()) {
                    self.base = base;
                }
            }
            "br" => self.breaks = self.breaks.saturating_add(1).min(2),
            "hr" => {
                self.new_lines(1);
                self.add_words("---");
                self.new_lines(1);
            }
            "img" => {
                if let Some(alt) = tag.alt.filter(|alt| !alt.trim().is_empty()) {
                    self.add_text(&format!("[image: {}]", alt.trim()));
                }
            }
            "a" => {
                self.end_link();
                self.link = tag.href.and_then(|href| self.link_target(&href)).map(|href| (href, usize::MAX));
            }
            "td" | "th" => {
                if !self.out.is_empty() && self.breaks == 0 {
                    self.mark = " | ";
                    self.space = false;
                }
            }
            "li" => {
                self.mark = "";
                self.new_lines(1);
                self.mark = LIST_MARK;
            }
            _ => self.block(name),
        }
        match name {
            "h1" => self.mark = "# ",
            "h2" => self.mark = "## ",
            "h3" => self.mark = "### ",
            "h4" | "h5" | "h6" => self.mark = "#### ",
            "pre" | "textarea" => self.pre += 1,
            _ => {}
        }
    }

    fn close_element(&mut self, name: &str) {
        if let Some((omitted, depth)) = &mut self.omitted {
            *depth -= usize::from(omitted == name);
            if *depth == 0 {
                self.omitted = None;
            }
            return;
        }
        match name {
            "title" => self.in_title = false,
            "a" => self.end_link(),
            "li" => {
                self.mark = "";
                self.new_lines(1);
            }
            "pre" | "textarea" => self.pre = self.pre.saturating_sub(1),
            _ => {}
        }
        self.block(name);
    }

    /// Starts a new line before and after a block.
    fn block(&mut self, name: &str) {
        if PARAGRAPH_ELEMENTS.contains(&name) {
            self.new_lines(2);
        } else if LINE_ELEMENTS.contains(&name) {
            self.new_lines(1);
        }
    }

    fn new_lines(&mut self, count: usize) {
        if self.mark == LIST_MARK {
            // The first block of a list item stays on the item's line.
            return;
        }
        self.breaks = self.breaks.max(count);
        self.space = false;
        self.mark = "";
    }

    fn add_text(&mut self, text: &str) {
        if self.omitted.is_some() {
            return;
        }
        if self.in_title {
            let room = limits::WEB_TITLE_BYTES_MAX.saturating_sub(self.title.len());
            self.title.push_str(&text.chars().take(room).collect::<String>());
            return;
        }
        if self.pre > 0 {
            for (at, line) in text.split('\n').enumerate() {
                if at > 0 {
                    self.breaks += 1;
                }
                if !line.trim().is_empty() {
                    self.add_words(line.trim_end());
                }
            }
            return;
        }
        self.space |= text.starts_with(|char: char| char.is_ascii_whitespace());
        for word in text.split_ascii_whitespace() {
            self.add_words(word);
            self.space = true;
        }
        self.space &= text.ends_with(|char: char| char.is_ascii_whitespace());
    }

    /// Adds words, with pending line breaks, marks and spaces.
    fn add_words(&mut self, add_words: &str) {
        if self.out.len() + add_words.len() > limits::WEB_TEXT_BYTES_MAX {
            self.is_cut = true;
        }
        if self.is_cut {
            return;
        }
        if self.breaks > 0 && !self.out.is_empty() {
            self.out.push_str(if self.breaks > 1 { "\n\n" } else { "\n" });
        } else if self.space && !self.out.is_empty() && self.mark.is_empty() {
            self.out.push(' ');
        }
        self.out.push_str(self.mark);
        (self.breaks, self.space, self.mark) = (0, false, "");
        if let Some((_, start)) = self.link.as_mut().filter(|(_, start)| *start == usize::MAX) {
            *start = self.out.len();
        }
        self.out.extend(add_words.chars().filter(|char| !char.is_control() || *char == '\t'));
    }

    /// The target of a link to another page.
    fn link_target(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') {
            return None;
        }
        let url = self.base.join(href).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        (url.as_str().len() <= limits::WEB_LINK_BYTES_MAX).then(|| url.to_string())
    }

    /// Formats a link as `[text](url)`.
    fn end_link(&mut self) {
        let Some((href, start)) = self.link.take() else { return };
        let Some(text) = self.out.get(start..).filter(|text| !text.is_empty()) else { return };
        if text == href || self.is_cut {
            return;
        }
        if self.out.len() + href.len() > limits::WEB_TEXT_BYTES_MAX {
            self.is_cut = true;
            return;
        }
        self.out.insert(start, '[');
        self.out.push_str("](");
        self.out.push_str(&href);
        self.out.push(')');
    }

    fn finish(mut self) -> ReadableText {
        self.end_link();
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let title = cut_bytes(title, limits::WEB_TITLE_BYTES_MAX);
        ReadableText {
            title: (!title.is_empty()).then_some(title),
            text: self.out,
            is_extracted: true,
            is_cut: self.is_cut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(html: &str) -> ReadableText {
        text_of(html, &Url::parse("https://a.example/b/page").unwrap())
    }

    #[test]
    fn a_page_becomes_readable_text() {
        let page = read(
            "<!doctype html><html><head><title> The\n page </title><style>p { color: red }</style>\
             <script>if (a < b) document.write('<p>no</p>')</script></head><body>\
             <!-- not this --><nav><a href=/>Home</a> <a href='c?d=1&amp;e=2#f'>Next</a></nav>\
             <h1>A &amp; B</h1><p>One <b>two</b>, th<i>r</i>ee.<br>Four</p><p>Five</p>\
             <ul><li>six<li><p>seven</p></ul><pre>  let x = 1;\n\n  x</pre>\
             <table><tr><th>k<th>v<tr><td>a<td>1</table>\
             <noscript>no</noscript><svg><title>no</title><text>no</text></svg><template><p>no</p></template>\
             <img alt='a cat' src=x><img src=y><a href='javascript:alert(1)'>click</a> <a href='#top'>up</a> \
             <a href='http://b.example/'>http://b.example/</a><hr><p>caf&eacute; &#x1F600; 1&lt;2</body></html>",
        );
        assert_eq!(page.title.as_deref(), Some("The page"));
        assert_eq!(
            page.text,
            "[Home](https://a.example/) [Next](https://a.example/b/c?d=1&e=2#f)\n\n# A & B\n\nOne two, three.\nFour\n\n\
             Five\n\n- six\n- seven\n\n  let x = 1;\n\n  x\n\nk | v\na | 1\n\
             [image: a cat]click up http://b.example/\n---\n\ncafé 😀 1<2"
        );
        assert!(page.is_extracted && !page.is_cut);
    }

    #[test]
    fn malformed_html_is_read() {
        for (html, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("a <b", "a"),
            ("<p>a</div></p></p>b", "a\n\nb"),
            ("<a href=/x>one<a href=/y>two", "[one](https://a.example/x)[two](https://a.example/y)"),
            ("<script>never ended <p>x", ""),
            ("<template>never ended <p>x", ""),
            ("</script></svg>x", "x"),
            ("<svg/>x", "x"),
            ("<ul><li><li></li></ul><p>x", "x"),
            ("<svg><svg></svg>no</svg>x", "x"),
            ("<a href=/x><img></a>x", "x"),
            ("<base href='/z/'><a href=y>x</a>", "[x](https://a.example/z/y)"),
            ("a\0b\u{7}c<p>\u{1b}[31mred", "abc\n\n[31mred"),
            ("&nosuch; &amp", "&nosuch; &"),
        ] {
            assert_eq!(read(html).text, expected, "{html}");
        }
    }

    #[test]
    fn hostile_pages_use_limited_memory() {
        // Deep nesting, many open elements, many attributes, and more text than the limit.
        let deep = "<div><a href=x><b>".repeat(20_000) + "end";
        assert_eq!(read(&deep).text, "[end](https://a.example/b/x)");
        let attributes = format!("<p {}>end", "a=1 b ".repeat(40_000));
        assert_eq!(read(&attributes).text, "end");
        let long = read(&"word <p>".repeat(limits::WEB_TEXT_BYTES_MAX / 4));
        assert!(long.is_cut && long.text.len() <= limits::WEB_TEXT_BYTES_MAX, "{}", long.text.len());
        let links = read(&format!("<a href='/{}'>x</a>", "y".repeat(1_000)).repeat(5_000));
        assert!(links.is_cut && links.text.len() <= limits::WEB_TEXT_BYTES_MAX + 8, "{}", links.text.len());
        let title = read(&format!("<title>{}", "t".repeat(1 << 20)));
        assert!(title.title.unwrap().len() <= limits::WEB_TITLE_BYTES_MAX);
    }
}
