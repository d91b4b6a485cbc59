//! JSON as text, in all the ways it can be written.

use proptest::prelude::*;

/// A value as tokens, so that it can be written with and without white space.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Token(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// Without white space.
    pub(crate) fn tight(&self) -> String {
        self.spaced(&mut std::iter::repeat(""))
    }

    /// With white space wherever it may be.
    pub(crate) fn spaced<'a>(&self, spaces: &mut impl Iterator<Item = &'a str>) -> String {
        let mut text = String::new();
        self.write(spaces, &mut text);
        text
    }

    fn write<'a>(&self, spaces: &mut impl Iterator<Item = &'a str>, text: &mut String) {
        let mut space = |text: &mut String| text.push_str(spaces.next().unwrap_or(""));
        space(text);
        match self {
            Node::Token(token) => text.push_str(token),
            Node::List(items) => {
                text.push('[');
                space(text);
                for (index, item) in items.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { "," });
                    item.write(spaces, text);
                }
                text.push(']');
            }
            Node::Object(fields) => {
                text.push('{');
                space(text);
                for (index, (name, value)) in fields.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { "," });
                    text.push_str(spaces.next().unwrap_or(""));
                    text.push_str(name);
                    text.push_str(spaces.next().unwrap_or(""));
                    text.push(':');
                    value.write(spaces, text);
                }
                text.push('}');
            }
        }
        text.push_str(spaces.next().unwrap_or(""));
    }
}

/// White space, in turn.
pub(crate) fn spaces() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(vec!["", " ", "\n", "\t", "\r\n", "    "]), 1..40)
}

/// The inside of a string, in pieces that may or may not be escaped.
fn piece() -> impl Strategy<Value = String> {
    let escapes = vec![
        r#"\""#,
        r"\\",
        r"\/",
        r"\b",
        r"\f",
        r"\n",
        r"\r",
        r"\t",
        r"\u0000",
        r"\u00e9",
        r"\u00E9",
        r"\uD83D\uDE00",
        "/",
        "\u{7f}",
        "\u{2028}",
        "é",
        "😀",
        "\u{feff}",
    ];
    prop_oneof![3 => "[a-zA-Z0-9 .,:{}\\[\\]_-]{0,6}", 2 => prop::sample::select(escapes).prop_map(str::to_owned)]
}

fn string() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn number() -> impl Strategy<Value = String> {
    let odd = vec![
        "0",
        "-0",
        "1.0",
        "1e2",
        "1E+2",
        "1e-2",
        "0.10",
        "-0.0e0",
        "1.5E10",
        "9007199254740991",
        "-9007199254740991",
        "1e308",
        "1e-400",
        "123456789.123456789123456789",
    ];
    let whole = (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(|whole| whole.to_string());
    prop_oneof![prop::sample::select(odd).prop_map(str::to_owned), whole]
}

/// Any value that the door lets through.
pub(crate) fn node() -> impl Strategy<Value = Node> {
    let word = prop::sample::select(vec!["true", "false", "null"]).prop_map(str::to_owned);
    let leaf = prop_oneof![word, string(), number()].prop_map(Node::Token);
    leaf.prop_recursive(6, 48, 20, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..6).prop_map(Node::List);
        prop_oneof![list, fields(inner).prop_map(Node::Object)]
    })
}

/// An object that the door lets through.
pub(crate) fn object() -> impl Strategy<Value = Node> {
    fields(node()).prop_map(Node::Object)
}

/// Fields whose names differ by the number they begin with.
fn fields(value: impl Strategy<Value = Node>) -> impl Strategy<Value = Vec<(String, Node)>> {
    prop::collection::vec((prop::collection::vec(piece(), 0..2), value), 0..20).prop_map(|fields| {
        let numbered = fields.into_iter().enumerate();
        numbered.map(|(index, (name, value))| (format!("\"{index}_{}\"", name.concat()), value)).collect()
    })
}
