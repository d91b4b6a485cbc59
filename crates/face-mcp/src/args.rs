//! Arguments of tools: one table per tool gives its JSON Schema and checks what a model sends. Start at [`Args::parse`].
//!
//! Pure. The module must not know what a tool does.

use recount_api::spelling;
use serde_json::{Map, Value, json};

use crate::accept::shortened;
use crate::limits;

/// One argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) is_required: bool,
    /// For the model.
    pub(crate) about: &'static str,
}

/// The values that an argument may have.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// Up to so many characters.
    Text(usize),
    Word(&'static [&'static str]),
    Number {
        min: u64,
        max: u64,
    },
    YesNo,
    AnyJson,
}

pub(crate) const fn required(name: &'static str, form: Form, about: &'static str) -> Param {
    Param { name, form, is_required: true, about }
}

pub(crate) const fn optional(name: &'static str, form: Form, about: &'static str) -> Param {
    Param { name, form, is_required: false, about }
}

/// The JSON Schema of an object with these properties and no others.
pub(crate) fn schema(params: &[Param]) -> Value {
    let property = |param: &Param| {
        let mut schema = match param.form {
            Form::Text(most) => json!({ "type": "string", "maxLength": most }),
            Form::Word(words) => json!({ "type": "string", "enum": words }),
            Form::Number { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Form::YesNo => json!({ "type": "boolean" }),
            Form::AnyJson => json!({}),
        };
        schema["description"] = param.about.into();
        (param.name.to_owned(), schema)
    };
    let properties: Map<String, Value> = params.iter().map(property).collect();
    let required: Vec<&str> =
        params.iter().filter(|param| param.is_required).map(|param| param.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Checked arguments.
#[derive(Debug, PartialEq)]
pub(crate) struct Args(Map<String, Value>);

impl Args {
    /// The error states what is wrong with which argument and what to send.
    pub(crate) fn parse(params: &[Param], arguments: Option<Value>) -> Result<Args, String> {
        let mut given = match arguments {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(given)) => given,
            Some(_) => return Err("arguments is not an object; send an object".to_owned()),
        };
        // Models send null for what they leave out.
        given.retain(|name, value| {
            !value.is_null()
                || params.iter().any(|param| param.name == name && matches!(param.form, Form::AnyJson))
        });
        for (name, value) in &given {
            match params.iter().find(|param| param.name == name) {
                Some(param) => check(param, value)?,
                None => return Err(unknown(name, params)),
            }
        }
        match params.iter().find(|param| param.is_required && !given.contains_key(param.name)) {
            Some(param) => Err(format!("{} is missing: {}", param.name, param.about)),
            None => Ok(Args(given)),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// A required text.
    pub(crate) fn needed(&self, name: &str) -> Result<&str, String> {
        self.text(name).ok_or_else(|| format!("{name} is empty; send a value"))
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    pub(crate) fn is_set(&self, name: &str) -> Option<bool> {
        self.0.get(name).and_then(Value::as_bool)
    }

    pub(crate) fn json(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

fn check(param: &Param, value: &Value) -> Result<(), String> {
    let name = param.name;
    match param.form {
        Form::Text(most) => match value.as_str() {
            Some(text) if text.chars().count() <= most => Ok(()),
            Some(text) => {
                let chars = text.chars().count();
                Err(format!("{name} has {chars} characters; send at most {most}"))
            }
            None => Err(format!("{name} is not a string")),
        },
        Form::Word(words) => match value.as_str().filter(|word| words.contains(word)) {
            Some(_) => Ok(()),
            None => Err(format!("{name} is {}; send one of: {}", shown(value), words.join(", "))),
        },
        Form::Number { min, max } => match value.as_u64().filter(|number| (min..=max).contains(number)) {
            Some(_) => Ok(()),
            None => Err(format!("{name} is {}; send a whole number from {min} to {max}", shown(value))),
        },
        Form::YesNo if value.is_boolean() => Ok(()),
        Form::YesNo => Err(format!("{name} is {}; send true or false", shown(value))),
        Form::AnyJson => Ok(()),
    }
}

fn unknown(name: &str, params: &[Param]) -> String {
    let known: Vec<&str> = params.iter().map(|param| param.name).collect();
    let meant = spelling::nearest(name, known.iter().copied());
    let meant = meant.map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
    format!("unknown argument {:?}; {meant}known arguments: {}", shortened(name), known.join(", "))
}

fn shown(value: &Value) -> String {
    shortened(&value.to_string()).to_owned()
}

/// An id or a cursor.
pub(crate) const ID: Form = Form::Text(limits::ID_CHARS_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: &[Param] = &[
        required("run", ID, "The run."),
        optional("status", Form::Word(&["a", "b"]), "The status."),
        optional("limit", Form::Number { min: 1, max: 50 }, "How many."),
        optional("raw", Form::YesNo, "Whole events."),
        optional("response", Form::AnyJson, "Any JSON."),
    ];

    #[test]
    fn valid_arguments_are_accepted_and_others_are_refused() {
        let args = json!({ "run": "r", "status": "b", "limit": 50, "raw": null, "response": null });
        let args = Args::parse(PARAMS, Some(args)).unwrap();
        assert_eq!((args.text("run"), args.number("limit"), args.is_set("raw")), (Some("r"), Some(50), None));
        assert_eq!(args.json("response"), Some(&Value::Null));
        for (arguments, part) in [
            (json!([]), "not an object"),
            (json!("x"), "not an object"),
            (json!({}), "run is missing: The run."),
            (json!({ "run": null }), "run is missing"),
            (json!({ "run": 7 }), "run is not a string"),
            (json!({ "run": "x".repeat(limits::ID_CHARS_MAX + 1) }), "send at most 300"),
            (json!({ "run": "r", "status": "c" }), "send one of: a, b"),
            (json!({ "run": "r", "status": ["a"] }), "send one of"),
            (json!({ "run": "r", "limit": 0 }), "from 1 to 50"),
            (json!({ "run": "r", "limit": "5" }), "from 1 to 50"),
            (json!({ "run": "r", "limit": 1.5 }), "from 1 to 50"),
            (json!({ "run": "r", "limit": 1e300 }), "from 1 to 50"),
            (json!({ "run": "r", "raw": "yes" }), "true or false"),
            (json!({ "run": "r", "runs": 1 }), "did you mean run?"),
            (json!({ "run": "r", "x".repeat(500): 1 }), "known arguments: run, status"),
        ] {
            let why = Args::parse(PARAMS, Some(arguments.clone())).expect_err(&arguments.to_string());
            assert!(why.contains(part) && why.len() < 500, "{arguments}: {why}");
        }
        assert!(Args::parse(&PARAMS[1..], None).is_ok());
    }

    #[test]
    fn the_schema_accepts_what_the_parser_accepts() {
        let validator = jsonschema::validator_for(&schema(PARAMS)).unwrap();
        for arguments in [
            json!({ "run": "r" }),
            json!({ "run": "r", "status": "a", "limit": 1, "raw": true, "response": [1] }),
            json!({ "run": "r", "status": "c" }),
            json!({ "run": "r", "limit": 51 }),
            json!({ "run": "r", "limit": "5" }),
            json!({ "run": "r", "raw": 1 }),
            json!({ "run": "r", "more": 1 }),
            json!({ "status": "a" }),
        ] {
            let is_parsed = Args::parse(PARAMS, Some(arguments.clone())).is_ok();
            assert_eq!(validator.is_valid(&arguments), is_parsed, "{arguments}");
        }
    }
}
