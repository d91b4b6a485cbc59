//! JSON Schemas (draft 2020-12) of all messages, generated from the tables that the rules use. An event is valid here
//! if and only if it breaks no rule that is marked `in_schema`.
//!
//! [`all`] lists them with their export paths; [`resolve`] finds one by its own `$id` or by the protocol's, so that
//! schemas that refer to the protocol's work offline.

use serde_json::{Map, Value, json};

use crate::field::Field;
use crate::kind::{CONTEXT, Kind, TYPES_URI, VOCABULARY_URI};
use crate::shape::{FieldSpec, ObjectShape, Shape};
use crate::table::{self, LOCALIZED, MessageKind, SHAPES};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";
const OWN: &str = "urn:recount:aaep:v1:";
/// The base URL of the protocol's own schemas.
pub const OFFICIAL: &str = "https://aaep-protocol.org/schemas/v1/";

/// One schema.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportedSchema {
    /// The path, such as `schemas/core/agent.tool.invoked.schema.json`.
    pub path: String,
    pub id: String,
    pub schema: Value,
}

impl ExportedSchema {
    fn of(folder: &str, name: &str, mut schema: Map<String, Value>) -> Self {
        let id = format!("{OWN}{name}");
        let mut whole = Map::new();
        whole.insert("$schema".into(), DRAFT.into());
        whole.insert("$id".into(), id.clone().into());
        whole.append(&mut schema);
        ExportedSchema {
            path: format!("schemas/{folder}{name}.schema.json"),
            id,
            schema: Value::Object(whole),
        }
    }

    /// The exported text.
    pub fn text(&self) -> String {
        format!("{:#}\n", self.schema)
    }
}

/// All schemas.
pub fn all() -> Vec<ExportedSchema> {
    let mut all = vec![envelope(), any_event(), extension_event()];
    all.extend(Kind::ALL.map(core_event));
    all.extend(MessageKind::ALL.iter().copied().map(message));
    all
}

/// Finds the schema with this `$id`, our own or the protocol's.
///
/// ```
/// use recount_aaep::schema::resolve;
/// let official = "https://aaep-protocol.org/schemas/v1/core/agent.tool.invoked.schema.json";
/// assert_eq!(resolve(official).unwrap()["$id"], "urn:recount:aaep:v1:agent.tool.invoked");
/// ```
pub fn resolve(id: &str) -> Option<Value> {
    let name = match id.strip_prefix(OFFICIAL) {
        Some(path) => path.rsplit('/').next()?.strip_suffix(".schema.json")?,
        None => id.strip_prefix(OWN)?,
    };
    let own = format!("{OWN}{name}");
    all().into_iter().find(|exported| exported.id == own).map(|exported| exported.schema)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn shape(shape: &Shape) -> Value {
    match shape {
        Shape::Text { min, max } => {
            let mut schema = object(json!({"type": "string"}));
            if *min > 0 {
                schema.insert("minLength".into(), (*min).into());
            }
            if *max < usize::MAX {
                schema.insert("maxLength".into(), (*max).into());
            }
            Value::Object(schema)
        }
        Shape::Lex(lex) => json!({"type": "string", "pattern": lex.pattern}),
        Shape::Graded { strict, .. } => json!({"type": "string", "pattern": strict.pattern}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Int { min, max: i64::MAX } => json!({"type": "integer", "minimum": min}),
        Shape::Int { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Shape::Number { min, max } => json!({"type": "number", "minimum": min, "maximum": max}),
        Shape::OneOf(words) => json!({"enum": words}),
        Shape::OneOfInts(ints) => json!({"enum": ints}),
        Shape::Closed(fields) => Value::Object(closed(fields)),
        Shape::Object => json!({"type": "object"}),
        Shape::Objects => json!({"type": "object", "additionalProperties": {"type": "object"}}),
        Shape::List { of, min, max, unique } => {
            let mut schema = object(json!({"type": "array", "items": self::shape(of)}));
            if *min > 0 {
                schema.insert("minItems".into(), (*min).into());
            }
            if *max < usize::MAX {
                schema.insert("maxItems".into(), (*max).into());
            }
            if *unique {
                schema.insert("uniqueItems".into(), true.into());
            }
            Value::Object(schema)
        }
        Shape::Context => json!({"anyOf": [
            {"const": CONTEXT},
            {"type": "array", "prefixItems": [{"const": CONTEXT}], "items": {"type": "string"}, "minItems": 1},
        ]}),
        Shape::Response { max } => json!({"anyOf": [
            {"type": "string", "minLength": 1, "maxLength": max},
            {"type": "boolean"},
            {"type": "number"},
        ]}),
    }
}

fn closed(fields: &ObjectShape) -> Map<String, Value> {
    let properties: Map<String, Value> = fields
        .fields
        .iter()
        .map(|FieldSpec { name, shape: form, .. }| ((*name).into(), shape(form)))
        .collect();
    let required: Vec<&str> =
        fields.fields.iter().filter(|spec| spec.required).map(|spec| spec.name).collect();
    let others = if fields.extensible { json!({"type": "object"}) } else { json!(false) };
    let mut schema =
        object(json!({"type": "object", "properties": properties, "additionalProperties": others}));
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    if fields.min_fields > 0 {
        schema.insert("minProperties".into(), fields.min_fields.into());
    }
    schema
}

fn properties(fields: impl Iterator<Item = Field>) -> Map<String, Value> {
    fields.map(|field| (field.name().to_owned(), shape(&SHAPES[field as usize]))).collect()
}

fn envelope_fields() -> impl Iterator<Item = Field> {
    Field::ALL.iter().copied().filter(|field| field.is_envelope())
}

fn names(fields: &[Field]) -> Vec<&'static str> {
    fields.iter().map(|field| field.name()).collect()
}

/// Adds the pattern for prefixes of extensions.
fn prefixes(properties: &mut Map<String, Value>) {
    if let Some(extensions) = properties.get_mut("extensions").and_then(Value::as_object_mut) {
        extensions.insert("propertyNames".into(), json!({"pattern": crate::lex::EXTENSION_PREFIX.pattern}));
    }
}

/// The condition that prefixes are declared: with extensions, `@context` has a second entry besides the core one.
fn declared() -> Value {
    json!({
        "if": {"properties": {"extensions": {"type": "object", "minProperties": 1}}, "required": ["extensions"]},
        "then": {"properties": {"@context": {"type": "array", "contains": {"not": {"const": CONTEXT}}}}},
    })
}

/// The envelope with any payload, for references from other schemas.
fn envelope() -> ExportedSchema {
    let schema = json!({
        "title": "The envelope of an AAEP event",
        "description": "What every event carries. Open: the payload is its type's matter.",
        "type": "object",
        "required": names(table::ENVELOPE_REQUIRED),
        "properties": properties(envelope_fields()),
    });
    ExportedSchema::of("", "envelope", object(schema))
}

/// Any event: one of the twelve, or one of an extension.
fn any_event() -> ExportedSchema {
    let mut choices: Vec<Value> =
        Kind::ALL.iter().map(|kind| json!({"$ref": format!("{OWN}{}", kind.name())})).collect();
    choices.push(json!({"$ref": format!("{OWN}extension-event")}));
    let schema = json!({"title": "An AAEP event", "type": "object", "anyOf": choices});
    ExportedSchema::of("", "event", object(schema))
}

/// An event of an extension's type: any fields, except reserved ones.
fn extension_event() -> ExportedSchema {
    let mut fields = properties(envelope_fields());
    prefixes(&mut fields);
    let namespaces = "^(?!aaep:|https://aaep-protocol\\.org/types/|https://aaep-protocol\\.org/vocab/v1#)";
    fields.insert(
        "type".into(),
        json!({"type": "string", "pattern": format!("{namespaces}[A-Za-z][A-Za-z0-9+._-]*:[!-~]+$")}),
    );
    let schema = json!({
        "title": "An event of an extension",
        "description": "Its own type may carry its own fields beside the envelope.",
        "type": "object",
        "required": names(table::ENVELOPE_REQUIRED),
        "properties": fields,
        "patternProperties": {"^aaep_(?!version$)": false, "^@(?!context$)": false},
        "allOf": [declared()],
    });
    ExportedSchema::of("", "extension-event", object(schema))
}

/// A core event, as strict as the text of the specification.
fn core_event(kind: Kind) -> ExportedSchema {
    let (must, may) = table::payload(kind);
    let own = must.iter().chain(may).chain(table::summaries(kind)).copied();
    let mut fields = properties(envelope_fields().chain(own));
    prefixes(&mut fields);
    let name = kind.name();
    fields.insert(
        "type".into(),
        json!({"enum": [kind.compact(), format!("{TYPES_URI}{name}"), format!("{VOCABULARY_URI}{name}")]}),
    );
    let mut required = names(table::ENVELOPE_REQUIRED);
    required.extend(names(must));
    let mut all = vec![declared()];
    if kind.is_critical() {
        fields.insert("urgency".into(), json!({"const": "critical"}));
        required.push("urgency");
    }
    if kind == Kind::AwaitingConfirmation {
        confirmation(&mut fields, &mut all);
    }
    all.push(language(kind));
    let localized = format!("^(?:{})_[a-z]{{2,8}}(?:[_-][A-Za-z0-9]{{1,8}})*$", LOCALIZED.join("|"));
    let schema = json!({
        "title": format!("AAEP event {name}"),
        "description": format!("`{name}` as the specification words it: closed but for texts in other languages, \
            values beside their formatted form, and `extensions`."),
        "type": "object",
        "required": required,
        "properties": fields,
        "patternProperties": {
            (localized): {"type": "string", "minLength": 1},
            "^(?!aaep_)[a-z][a-z0-9_]*_(?:raw|formatted)$": true,
        },
        "additionalProperties": false,
        "allOf": all,
    });
    ExportedSchema::of("core/", name, object(schema))
}

fn confirmation(fields: &mut Map<String, Value>, all: &mut Vec<Value>) {
    if let Some(replies) = fields.get_mut("allowed_replies").and_then(Value::as_object_mut) {
        replies.insert("items".into(), json!({"enum": ["accept", "reject"]}));
    }
    for decision in ["accept", "reject"] {
        all.push(json!({
            "if": {
                "properties": {"default_decision": {"const": decision}},
                "required": ["default_decision", "allowed_replies"],
            },
            "then": {"properties": {"allowed_replies": {"contains": {"const": decision}}}},
        }));
    }
    all.push(json!({
        "$comment": "What cannot be undone may be done without an answer only when its risk is said to be low.",
        "if": {
            "properties": {"default_decision": {"const": "accept"}},
            "required": ["default_decision"],
            "anyOf": [
                {"properties": {"irreversible": {"const": true}}, "required": ["irreversible"]},
                {"properties": {"reversibility": {"const": "irreversible"}}, "required": ["reversibility"]},
            ],
        },
        "then": {"properties": {"risk_level": {"const": "low"}}, "required": ["risk_level"]},
    }));
}

/// The condition that text for people declares its language.
fn language(kind: Kind) -> Value {
    let (must, may) = table::payload(kind);
    let own = must.iter().chain(may).chain(table::summaries(kind));
    let mut texts: Vec<Value> = own
        .filter(|field| Field::FOR_PEOPLE.contains(field) && **field != Field::Chunk)
        .map(|field| json!({"required": [field.name()]}))
        .collect();
    match kind {
        Kind::ProgressUpdated => texts.push(json!({
            "properties": {"progress": {"type": "object", "required": ["description"]}},
            "required": ["progress"],
        })),
        Kind::OutputStreaming => {
            texts.push(json!({"required": ["chunk"], "not": {"required": ["language"]}}))
        }
        _ => {}
    }
    json!({
        "if": {"anyOf": texts},
        "then": {
            "required": ["localization_hints"],
            "properties": {"localization_hints": {"type": "object", "required": ["primary_language"]}},
        },
    })
}

fn message(kind: MessageKind) -> ExportedSchema {
    let name = kind.name();
    let mut schema = closed(kind.fields());
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        fields.insert("type".into(), json!({"enum": [name, format!("aaep:{name}")]}));
    }
    schema.insert("title".into(), format!("AAEP message {name}").into());
    let folder = match kind {
        MessageKind::ConfirmationReply | MessageKind::ClarificationReply => "reply/",
        MessageKind::ProducerManifest => "manifest/",
        _ => "handshake/",
    };
    ExportedSchema::of(folder, name, schema)
}
