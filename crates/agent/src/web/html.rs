//! HTML as text that people read: scripts and styles are left out, blocks are lines, links keep where they lead.
//!
//! Pure. Look at [`text_of`]. It reads tokens and makes no tree, so that time and memory grow with the page and with
//! nothing in it, and the text is bounded.

use std::convert::Infallible;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use reqwest::Url;

use crate::tools::cut_bytes;
use crate::web::limits;

/// What is in these is not for reading.
const LEFT_OUT: &[&str] =
    &["script", "style", "iframe", "noembed", "noframes", "noscript", "template", "svg", "math", "object"];

/// These are lines of their own.
const LINES: &[&str] = &[
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

/// These are set apart by an empty line.
const PARAGRAPHS: &[&str] = &["p", "pre", "h1", "h2", "h3", "h4", "h5", "h6"];

/// What precedes an item of a list.
const ITEM: &str = "- ";

/// The text of a page; `from` is its address.
pub(crate) fn text_of(html: &str, from: &Url) -> ReadableText {
    let mut page = PageText::new(from);
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
        page.take(event);
        None
    });
    emitter.naively_switch_states(true);
    // Reading a string cannot fail.
    let Ok(()) = Tokenizer::new_with_emitter(html, emitter).finish();
    page.finish()
}

/// A body as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReadableText {
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    /// Whether it is what was left of HTML.
    pub(crate) is_extracted: bool,
    /// Whether there was more than may be read.
    pub(crate) is_cut: bool,
}

struct PageText {
    out: String,
    title: String,
    base: Url,
    tag: OpenTag,
    /// What is left out until its end, and how deep it is in itself.
    left_out: Option<(String, usize)>,
    in_title: bool,
    /// How many elements are open whose white space counts.
    pre: usize,
    /// Line breaks that precede the next word.
    breaks: usize,
    /// Whether a space precedes it.
    space: bool,
    /// What precedes it in its line, such as the mark of a list.
    mark: &'static str,
    /// Where an open link leads, and where its text begins.
    link: Option<(String, usize)>,
    is_cut: bool,
}

/// A start tag that is being read.
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
            left_out: None,
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
                self.opens(tag, self_closing);
            }
            CallbackEvent::EndTag { name } => self.closes(&text(name)),
            CallbackEvent::String { value } => self.says(&text(value)),
            CallbackEvent::Comment { .. } | CallbackEvent::Doctype { .. } | CallbackEvent::Error(_) => {}
        }
    }

    fn opens(&mut self, tag: OpenTag, self_closing: bool) {
        let name = tag.name.as_str();
        if let Some((left_out, depth)) = &mut self.left_out {
            *depth += usize::from(left_out == name && !self_closing);
            return;
        }
        if LEFT_OUT.contains(&name) {
            // Only drawings and formulas end where they say so.
            if !(self_closing && matches!(name, "svg" | "math")) {
                self.left_out = Some((name.to_owned(), 1));
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
                self.words("---");
                self.new_lines(1);
            }
            "img" => {
                if let Some(alt) = tag.alt.filter(|alt| !alt.trim().is_empty()) {
                    self.says(&format!("[image: {}]", alt.trim()));
                }
            }
            "a" => {
                self.end_link();
                self.link = tag.href.and_then(|href| self.leads_to(&href)).map(|href| (href, usize::MAX));
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
                self.mark = ITEM;
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

    fn closes(&mut self, name: &str) {
        if let Some((left_out, depth)) = &mut self.left_out {
            *depth -= usize::from(left_out == name);
            if *depth == 0 {
                self.left_out = None;
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

    /// Begins a line before and after a block.
    fn block(&mut self, name: &str) {
        if PARAGRAPHS.contains(&name) {
            self.new_lines(2);
        } else if LINES.contains(&name) {
            self.new_lines(1);
        }
    }

    fn new_lines(&mut self, count: usize) {
        if self.mark == ITEM {
            // The first block of an item is in the item's line.
            return;
        }
        self.breaks = self.breaks.max(count);
        self.space = false;
        self.mark = "";
    }

    fn says(&mut self, text: &str) {
        if self.left_out.is_some() {
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
                    self.words(line.trim_end());
                }
            }
            return;
        }
        self.space |= text.starts_with(|char: char| char.is_ascii_whitespace());
        for word in text.split_ascii_whitespace() {
            self.words(word);
            self.space = true;
        }
        self.space &= text.ends_with(|char: char| char.is_ascii_whitespace());
    }

    /// Adds what is no white space, and what has to precede it.
    fn words(&mut self, words: &str) {
        if self.out.len() + words.len() > limits::WEB_TEXT_BYTES_MAX {
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
        self.out.extend(words.chars().filter(|char| !char.is_control() || *char == '\t'));
    }

    /// Where a link leads, if it leads to another page.
    fn leads_to(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') {
            return None;
        }
        let url = self.base.join(href).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        (url.as_str().len() <= limits::WEB_LINK_BYTES_MAX).then(|| url.to_string())
    }

    /// Marks the text of a link, `[text](address)`.
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
    fn a_page_becomes_what_people_read() {
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
    fn what_is_no_good_html_is_read_all_the_same() {
        for (html, wanted) in [
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
            assert_eq!(read(html).text, wanted, "{html}");
        }
    }

    #[test]
    fn hostile_pages_are_read_in_bounded_space() {
        // Deep nesting, many open elements, many attributes, and more text than may be read.
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
