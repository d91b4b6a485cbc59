//! Shapes of values, as data: the checker and the JSON Schemas both use them, so they cannot differ. It must not know
//! events; [`crate::table`] assigns shapes to fields. Start at [`Shape`].

use std::ops::RangeInclusive;

use crate::json::{Node, Sort};
use crate::lex::Lex;
use crate::quote::quote;
use crate::rules::Rule;

/// The shape of one value.
#[derive(Debug)]
pub enum Shape {
    /// A string with a length in characters.
    Text {
        min: usize,
        max: usize,
    },
    Lex(&'static Lex),
    /// A string with two formats: the published schemas accept the loose one, the text of the specification only the
    /// strict one. `rule` is the rule for the difference.
    Graded {
        loose: &'static Lex,
        strict: &'static Lex,
        rule: &'static Rule,
    },
    Bool,
    Int {
        min: i64,
        max: i64,
    },
    Number {
        min: f64,
        max: f64,
    },
    OneOf(&'static [&'static str]),
    /// One of several integers.
    OneOfInts(&'static [i64]),
    /// An object with known fields.
    Closed(&'static ObjectShape),
    /// Any object.
    Object,
    /// An object whose values are objects.
    Objects,
    List {
        of: &'static Shape,
        min: usize,
        max: usize,
        unique: bool,
    },
    /// `@context`: a string, or an array of strings that begins with it.
    Context,
    /// A string of limited length, a boolean or a number.
    Response {
        max: usize,
    },
}

/// An object with known fields.
#[derive(Debug)]
pub struct ObjectShape {
    pub name: &'static str,
    pub fields: &'static [FieldSpec],
    /// Unknown fields are allowed when their values are objects.
    pub extensible: bool,
    /// Minimum number of known fields.
    pub min_fields: usize,
}

/// One field.
#[derive(Debug)]
pub struct FieldSpec {
    pub name: &'static str,
    pub shape: Shape,
    pub required: bool,
}

impl FieldSpec {
    pub const fn required(name: &'static str, shape: Shape) -> FieldSpec {
        FieldSpec { name, shape, required: true }
    }

    pub const fn optional(name: &'static str, shape: Shape) -> FieldSpec {
        FieldSpec { name, shape, required: false }
    }
}

/// A mismatch between a value and its shape.
pub struct Mismatch<'d> {
    /// The value itself, or one inside it.
    pub node: Node<'d>,
    pub kind: MismatchKind,
}

/// How a value does not fit.
#[derive(Debug)]
pub enum MismatchKind {
    /// An unexpected value; the text is a sentence fragment.
    Wrong(String),
    /// A required field of an inner object is missing.
    Missing(&'static str),
    /// A field of an inner object is unknown.
    Unknown,
    /// Valid by the schemas, but not by the text of the specification.
    Graded(&'static Rule, &'static Lex),
}

impl Shape {
    /// Checks a value and calls `report` for each mismatch. A valid value causes no allocation.
    #[inline]
    pub fn check<'d>(&'static self, node: Node<'d>, report: &mut dyn FnMut(Mismatch<'d>)) {
        let fits = match self {
            Shape::Text { min, max } => return self.check_text(node, *min, *max, report),
            Shape::Graded { loose, strict, rule } => match node.str() {
                Some(text) if (strict.test)(&text) => true,
                Some(text) if (loose.test)(&text) => {
                    return report(Mismatch { node, kind: MismatchKind::Graded(rule, strict) });
                }
                _ => false,
            },
            Shape::Closed(closed) if node.sort() == Sort::Object => return closed.check(node, report),
            Shape::Objects if node.sort() == Sort::Object => {
                return node.members().for_each(|(_, value)| Shape::Object.check(value, report));
            }
            Shape::List { of, min, max, unique } if node.sort() == Sort::Array => {
                return self.check_list(node, of, *min..=*max, *unique, report);
            }
            Shape::Lex(lex) => node.str().is_some_and(|text| (lex.test)(&text)),
            Shape::Bool => node.sort() == Sort::Bool,
            Shape::Int { min, max } => node.int().is_some_and(|int| (*min..=*max).contains(&int)),
            Shape::Number { min, max } => node.number().is_some_and(|number| (*min..=*max).contains(&number)),
            Shape::OneOf(words) => words.iter().any(|word| node.is(word)),
            Shape::OneOfInts(ints) => node.int().is_some_and(|int| ints.contains(&int)),
            Shape::Object => node.sort() == Sort::Object,
            Shape::Closed(_) | Shape::Objects | Shape::List { .. } => false,
            Shape::Context => match node.sort() {
                Sort::Text => node.is(crate::kind::CONTEXT),
                Sort::Array => {
                    node.items().next().is_some_and(|first| first.is(crate::kind::CONTEXT))
                        && node.items().all(|item| item.sort() == Sort::Text)
                }
                _ => false,
            },
            Shape::Response { max } => match node.sort() {
                Sort::Text => (1..=*max).contains(&node.lengths().0),
                sort => matches!(sort, Sort::Bool | Sort::Number),
            },
        };
        if !fits {
            wrong(node, &self.expectation(), report);
        }
    }

    fn check_text<'d>(&self, node: Node<'d>, min: usize, max: usize, report: &mut dyn FnMut(Mismatch<'d>)) {
        if node.sort() != Sort::Text {
            return wrong(node, &self.expectation(), report);
        }
        // A string has at most as many characters as bytes, so only long ones are counted.
        let bytes = node.raw().len();
        if bytes > max || bytes == 0 || min > 1 {
            let (characters, _) = node.lengths();
            if characters < min || characters > max {
                wrong(node, &format!("{} ({characters} characters)", self.expectation()), report);
            }
        }
    }

    fn check_list<'d>(
        &self,
        node: Node<'d>,
        of: &'static Shape,
        counts: RangeInclusive<usize>,
        unique: bool,
        report: &mut dyn FnMut(Mismatch<'d>),
    ) {
        let count = node.items().count();
        if !counts.contains(&count) {
            return wrong(node, &format!("{} ({count} entries)", self.expectation()), report);
        }
        for (at, item) in node.items().enumerate() {
            of.check(item, report);
            if unique && node.items().take(at).any(|earlier| same(earlier, item)) {
                let message = format!("`{}` appears twice", quote(item.raw()));
                report(Mismatch { node: item, kind: MismatchKind::Wrong(message) });
            }
        }
    }

    /// The expected value, with its article.
    fn expectation(&self) -> String {
        match self {
            Shape::Text { min: 0, max } => format!("a string of at most {max} characters"),
            Shape::Text { min, max } => format!("a string of {min} to {max} characters"),
            Shape::Lex(lex) => format!("{}, as `{}`", lex.name, lex.example),
            Shape::Graded { loose, .. } => format!("{}, as `{}`", loose.name, loose.example),
            Shape::Bool => "true or false".into(),
            Shape::Int { min, max: i64::MAX } => format!("an integer from {min}"),
            Shape::Int { min, max } => format!("an integer from {min} to {max}"),
            Shape::Number { min, max } => format!("a number from {min} to {max}"),
            Shape::OneOf(words) => format!("one of `{}`", words.join("`, `")),
            Shape::OneOfInts(ints) => format!("one of {ints:?}"),
            Shape::Closed(closed) => format!("an object ({})", closed.name),
            Shape::Object => "an object".into(),
            Shape::Objects => "an object of objects".into(),
            Shape::List { min, max, .. } => format!("an array of {min} to {max} entries"),
            Shape::Context => {
                format!("`{}`, or an array of strings that begins with it", crate::kind::CONTEXT)
            }
            Shape::Response { .. } => "a string, a boolean or a number".into(),
        }
    }
}

#[cold]
fn wrong<'d>(node: Node<'d>, expected: &str, report: &mut dyn FnMut(Mismatch<'d>)) {
    let found = match node.sort() {
        Sort::Text => format!("`{}`", quote(node.raw())),
        Sort::Number | Sort::Bool => node.raw().to_owned(),
        other => other.with_article().to_owned(),
    };
    report(Mismatch { node, kind: MismatchKind::Wrong(format!("{found} is not {expected}")) });
}

impl ObjectShape {
    /// Checks the fields of an object.
    pub fn check<'d>(&'static self, node: Node<'d>, report: &mut dyn FnMut(Mismatch<'d>)) {
        let mut seen = 0_u64;
        let mut known = 0;
        for (key, value) in node.members() {
            match self.fields.iter().position(|spec| key.is(spec.name)) {
                Some(at) => {
                    seen |= 1 << at;
                    known += 1;
                    self.fields[at].shape.check(value, report);
                }
                None if self.extensible && value.sort() == Sort::Object => {}
                None => report(Mismatch { node: key, kind: MismatchKind::Unknown }),
            }
        }
        for (at, spec) in self.fields.iter().enumerate() {
            if spec.required && seen & (1 << at) == 0 {
                report(Mismatch { node, kind: MismatchKind::Missing(spec.name) });
            }
        }
        if known < self.min_fields {
            let message =
                format!("an object ({}) with less than {} of its fields", self.name, self.min_fields);
            report(Mismatch { node, kind: MismatchKind::Wrong(message) });
        }
    }
}

/// Whether two values are the same to JSON Schema's `uniqueItems`.
fn same(one: Node<'_>, two: Node<'_>) -> bool {
    match (one.sort(), two.sort()) {
        (Sort::Text, Sort::Text) => match (one.plain(), two.plain()) {
            (Some(one), Some(two)) => one == two,
            _ => one.str() == two.str(),
        },
        (Sort::Number, Sort::Number) => one.number() == two.number(),
        (first, second) => first == second && one.raw() == two.raw(),
    }
}
