//! Reads the JSON encoding of OTLP by the same tables as protobuf: unknown members are skipped, and what is read is counted,
//! because a small text can become a large tree.
//!
//! See [`read`].

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::protobuf::{Kind, Message};
use crate::limits;

/// `Err`: why the body is not such a message.
pub(super) fn read(bytes: &[u8], message: &'static Message) -> Result<Value, String> {
    let mut values = limits::OTLP_VALUES_MAX;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Reader { expected: Expected::Message(message), values: &mut values }.deserialize(&mut reader);
    match read.and_then(|value| reader.end().map(|()| value)) {
        Ok(Value::Object(fields)) => Ok(Value::Object(fields)),
        Ok(_) => Err("the body is not a JSON object".to_owned()),
        Err(why) if why.is_data() => Err(why.to_string()),
        Err(why) => Err(format!("the body is not JSON: {why}")),
    }
}

#[derive(Clone, Copy)]
enum Expected {
    Message(&'static Message),
    Messages(&'static Message),
    Scalar,
}

/// Reads one value. What is not as expected becomes null.
struct Reader<'a> {
    expected: Expected,
    /// How many more fields may be read.
    values: &'a mut usize,
}

impl Reader<'_> {
    fn scalar<E>(&self, value: impl Into<Value>) -> Result<Value, E> {
        Ok(if matches!(self.expected, Expected::Scalar) { value.into() } else { Value::Null })
    }

    fn count<E: Error>(&mut self) -> Result<(), E> {
        let rest = self.values.checked_sub(1);
        *self.values = rest.ok_or_else(|| {
            E::custom(format_args!("the body has more than {} fields", limits::OTLP_VALUES_MAX))
        })?;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of OTLP")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        self.scalar(flag)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        self.scalar(number)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        self.scalar(number)
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        self.scalar(number)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        self.scalar(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let Expected::Messages(message) = self.expected else {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        };
        let mut read = Vec::new();
        loop {
            let item = Reader { expected: Expected::Message(message), values: &mut *self.values };
            let Some(item) = items.next_element_seed(item)? else { return Ok(Value::Array(read)) };
            self.count()?;
            read.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let known = match self.expected {
                Expected::Message(message) => message.0.iter().find(|(_, known, _)| *known == name),
                Expected::Messages(_) | Expected::Scalar => None,
            };
            let Some((.., kind)) = known else {
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            self.count()?;
            let expected = match kind {
                Kind::One(message) => Expected::Message(message),
                Kind::Many(message) => Expected::Messages(message),
                _ => Expected::Scalar,
            };
            let value = members.next_value_seed(Reader { expected, values: &mut *self.values })?;
            fields.insert(name, value);
        }
        Ok(if matches!(self.expected, Expected::Message(_)) { Value::Object(fields) } else { Value::Null })
    }
}
