//! A parsed event that borrows from its text: [`Reading`] indexes the fields without copying or checking. Rules use it;
//! applications use [`crate::Event`].

use std::borrow::Cow;

use crate::field::Field;
use crate::json::{Doc, Node, Sort};
use crate::kind::{Kind, TypeClass, classify};

/// The fields of one event.
pub struct Reading<'d> {
    doc: Doc<'d>,
    node: Node<'d>,
    type_class: TypeClass,
    /// The fields that are present, as a bit set.
    set: u128,
    places: [u32; Field::COUNT],
    /// Number of unknown fields.
    others: usize,
    /// Number of all fields.
    count: usize,
}

impl<'d> Reading<'d> {
    /// Indexes the object at the root of the text; `None` if the root is not an object.
    pub fn of(doc: Doc<'d>) -> Option<Self> {
        Self::at(doc, doc.root())
    }

    /// Indexes an object inside a text.
    pub fn at(doc: Doc<'d>, node: Node<'d>) -> Option<Self> {
        if node.sort() != Sort::Object {
            return None;
        }
        let mut reading = Reading {
            doc,
            node,
            type_class: TypeClass::Malformed,
            set: 0,
            places: [0; Field::COUNT],
            others: 0,
            count: 0,
        };
        for (key, value) in node.members() {
            reading.count += 1;
            let field = match key.plain() {
                Some(name) => Field::of_name(name),
                None => key.str().and_then(|name| Field::of_name(&name)),
            };
            match field {
                Some(field) => {
                    reading.set |= field.bit();
                    reading.places[field as usize] = value.index();
                }
                None => reading.others += 1,
            }
        }
        reading.type_class = reading.text(Field::Type).map_or(TypeClass::Malformed, |name| classify(&name));
        Some(reading)
    }

    pub fn doc(&self) -> Doc<'d> {
        self.doc
    }

    pub fn node(&self) -> Node<'d> {
        self.node
    }

    pub fn type_class(&self) -> TypeClass {
        self.type_class
    }

    /// The kind of a core event.
    pub fn kind(&self) -> Option<Kind> {
        match self.type_class {
            TypeClass::Core(kind) => Some(kind),
            _ => None,
        }
    }

    pub fn set(&self) -> u128 {
        self.set
    }

    /// The number of all fields and of unknown fields.
    pub fn counts(&self) -> (usize, usize) {
        (self.count, self.others)
    }

    pub fn has(&self, field: Field) -> bool {
        self.set & field.bit() != 0
    }

    #[inline]
    pub fn get(&self, field: Field) -> Option<Node<'d>> {
        self.has(field).then(|| self.doc.node(self.places[field as usize]))
    }

    /// The text of a field that is a string.
    #[inline]
    pub fn text(&self, field: Field) -> Option<Cow<'d, str>> {
        self.get(field)?.str()
    }

    pub fn is(&self, field: Field, what: &str) -> bool {
        self.get(field).is_some_and(|node| node.is(what))
    }

    pub fn bool(&self, field: Field) -> Option<bool> {
        self.get(field)?.bool()
    }

    pub fn int(&self, field: Field) -> Option<i64> {
        self.get(field)?.int()
    }

    /// The `agent_id` of the producer.
    pub fn agent(&self) -> Option<Cow<'d, str>> {
        self.get(Field::Producer)?.get("agent_id")?.str()
    }

    /// Unknown fields with their values.
    pub fn others(&self) -> impl Iterator<Item = (Node<'d>, Node<'d>)> {
        let some = self.others > 0;
        self.node
            .members()
            .filter(move |(key, _)| some && key.str().is_some_and(|name| Field::of_name(&name).is_none()))
    }
}
