//! A JSON value kept as the text it arrived in.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Any JSON, unread: tool inputs, outputs, configurations. Two are equal when their texts are.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Takes JSON text; refuses what is not.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text).map(Json)
    }

    /// Writes a value down.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Json)
    }

    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Its text: that of a string, the texts of a list of content blocks, else the JSON as it is.
    pub fn texts(&self) -> String {
        let field = |block: &Value, key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
        let is_block = |block: &Value| matches!(field(block, "type").as_deref(), Some("text" | "image"));
        match serde_json::from_str(self.text()) {
            Ok(Value::String(text)) => text,
            Ok(Value::Array(blocks)) if !blocks.is_empty() && blocks.iter().all(is_block) => {
                let texts: Vec<String> = blocks.iter().filter_map(|block| field(block, "text")).collect();
                texts.join("\n")
            }
            _ => self.text().to_owned(),
        }
    }
}

impl Default for Json {
    fn default() -> Self {
        Json(RawValue::NULL.to_owned())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Json)
    }
}

/// The text of what must be an object.
pub(crate) fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
    let json = Json::deserialize(deserializer)?;
    if json.text().starts_with('{') {
        Ok(json)
    } else {
        Err(serde::de::Error::custom("an object is expected"))
    }
}

impl JsonSchema for Json {
    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!(true)
    }
}
