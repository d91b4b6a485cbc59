//! The forms of values, as data: what the checker walks and what the JSON Schemas are made of, so that the two
//! cannot differ. Knows no event; [`crate::table`] says which field has which shape.

use std::ops::RangeInclusive;

use crate::json::{Node, Sort};
use crate::lex::Lex;
use crate::quote::quote;
use crate::rules::Rule;

/// The form of one value.
#[derive(Debug)]
pub enum Shape {
    /// A string of so many characters.
    Text {
        min: usize,
        max: usize,
    },
    Lex(&'static Lex),
    /// A string that everybody's schemas take when it has the loose form, and the text of the specification only when
    /// it has the strict one; `rule` says the difference.
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
    /// An integer out of a few.
    OneOfInts(&'static [i64]),
    /// An object with fields of its own.
    Closed(&'static Closed),
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
    /// A string of so many characters, a boolean or a number.
    Answer {
        max: usize,
    },
}

/// An object with known fields.
#[derive(Debug)]
pub struct Closed {
    pub name: &'static str,
    pub fields: &'static [Spec],
    /// Unknown fields are allowed when their values are objects.
    pub extensible: bool,
    /// At least so many fields.
    pub least: usize,
}

/// One field.
#[derive(Debug)]
pub struct Spec {
    pub name: &'static str,
    pub shape: Shape,
    pub required: bool,
}

impl Spec {
    pub const fn must(name: &'static str, shape: Shape) -> Spec {
        Spec { name, shape, required: true }
    }

    pub const fn may(name: &'static str, shape: Shape) -> Spec {
        Spec { name, shape, required: false }
    }
}

/// What is wrong with a value.
pub struct Misfit<'d> {
    /// The value itself, or one inside it.
    pub node: Node<'d>,
    pub kind: MisfitKind,
}

/// How a value does not fit.
#[derive(Debug)]
pub enum MisfitKind {
    /// Not what was expected; the words are a fragment.
    Wrong(String),
    /// A required field of an object inside is missing.
    Missing(&'static str),
    /// A field of an object inside is not known.
    Unknown,
    /// Good for schemas, not for the text of the specification.
    Graded(&'static Rule, &'static Lex),
}

impl Shape {
    /// Looks at a value; calls `amiss` for each thing that is wrong. Nothing is allocated while all is right.
    #[inline]
    pub fn check<'d>(&'static self, node: Node<'d>, amiss: &mut dyn FnMut(Misfit<'d>)) {
        let fits = match self {
            Shape::Text { min, max } => return self.check_text(node, *min, *max, amiss),
            Shape::Graded { loose, strict, rule } => match node.str() {
                Some(text) if (strict.test)(&text) => true,
                Some(text) if (loose.test)(&text) => {
                    return amiss(Misfit { node, kind: MisfitKind::Graded(rule, strict) });
                }
                _ => false,
            },
            Shape::Closed(closed) if node.sort() == Sort::Object => return closed.check(node, amiss),
            Shape::Objects if node.sort() == Sort::Object => {
                return node.members().for_each(|(_, value)| Shape::Object.check(value, amiss));
            }
            Shape::List { of, min, max, unique } if node.sort() == Sort::Array => {
                return self.check_list(node, of, *min..=*max, *unique, amiss);
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
            Shape::Answer { max } => match node.sort() {
                Sort::Text => (1..=*max).contains(&node.lengths().0),
                sort => matches!(sort, Sort::Bool | Sort::Number),
            },
        };
        if !fits {
            wrong(node, &self.expectation(), amiss);
        }
    }

    fn check_text<'d>(&self, node: Node<'d>, min: usize, max: usize, amiss: &mut dyn FnMut(Misfit<'d>)) {
        if node.sort() != Sort::Text {
            return wrong(node, &self.expectation(), amiss);
        }
        // There are never more characters than bytes, so long texts alone are counted.
        let bytes = node.raw().len();
        if bytes > max || bytes == 0 || min > 1 {
            let (characters, _) = node.lengths();
            if characters < min || characters > max {
                wrong(node, &format!("{} ({characters} characters)", self.expectation()), amiss);
            }
        }
    }

    fn check_list<'d>(
        &self,
        node: Node<'d>,
        of: &'static Shape,
        counts: RangeInclusive<usize>,
        unique: bool,
        amiss: &mut dyn FnMut(Misfit<'d>),
    ) {
        let count = node.items().count();
        if !counts.contains(&count) {
            return wrong(node, &format!("{} ({count} entries)", self.expectation()), amiss);
        }
        for (at, item) in node.items().enumerate() {
            of.check(item, amiss);
            if unique && node.items().take(at).any(|earlier| same(earlier, item)) {
                let message = format!("`{}` appears twice", quote(item.raw()));
                amiss(Misfit { node: item, kind: MisfitKind::Wrong(message) });
            }
        }
    }

    /// What is expected, with its article.
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
            Shape::Answer { .. } => "a string, a boolean or a number".into(),
        }
    }
}

#[cold]
fn wrong<'d>(node: Node<'d>, expected: &str, amiss: &mut dyn FnMut(Misfit<'d>)) {
    let found = match node.sort() {
        Sort::Text => format!("`{}`", quote(node.raw())),
        Sort::Number | Sort::Bool => node.raw().to_owned(),
        other => other.with_article().to_owned(),
    };
    amiss(Misfit { node, kind: MisfitKind::Wrong(format!("{found} is not {expected}")) });
}

impl Closed {
    /// Looks at the fields of an object.
    pub fn check<'d>(&'static self, node: Node<'d>, amiss: &mut dyn FnMut(Misfit<'d>)) {
        let mut seen = 0_u64;
        let mut known = 0;
        for (key, value) in node.members() {
            match self.fields.iter().position(|spec| key.is(spec.name)) {
                Some(at) => {
                    seen |= 1 << at;
                    known += 1;
                    self.fields[at].shape.check(value, amiss);
                }
                None if self.extensible && value.sort() == Sort::Object => {}
                None => amiss(Misfit { node: key, kind: MisfitKind::Unknown }),
            }
        }
        for (at, spec) in self.fields.iter().enumerate() {
            if spec.required && seen & (1 << at) == 0 {
                amiss(Misfit { node, kind: MisfitKind::Missing(spec.name) });
            }
        }
        if known < self.least {
            let message = format!("an object ({}) with less than {} of its fields", self.name, self.least);
            amiss(Misfit { node, kind: MisfitKind::Wrong(message) });
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
