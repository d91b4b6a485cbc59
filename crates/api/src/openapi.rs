//! The published contract: OpenAPI 3.1, generated from the tables of routes and the types they name.
//!
//! [`document`] builds the whole contract; [`text`] is its JSON, as served and as stored in `docs/openapi.json`. Nothing
//! is written by hand here that a table or a type defines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use recount_event::code::CODES;
use recount_event::{Code, limits, schema};
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::problem::{self, Problem};
use crate::reply::Gap;
use crate::routes::{ROUTES, SERVER_ROUTES};
use crate::scope::Scope;
use crate::terms::{Body, Form, Parameter, ResponseKind, Route, Word};
use crate::{export, query, request};

/// The largest integer that is sent or taken.
const INTEGER_LAST: u64 = limits::INTEGER_MAX - 1;

const ABOUT: &str = "A durable, verifiable event log for AI agent runs. Every path under /v1 is also under /hecate/v1.\n\n\
    Clients ignore fields, event types, statuses and stream frames that they do not know: v1 may add such \
    things, and never removes or renames any. Treat an unknown error code by its HTTP status.\n\n\
    Lists and events are read with cursors, which are exclusive. Streams are text/event-stream: id is the cursor, \
    data is one envelope, with the same bytes as in a page. Frames without an id are caught_up (all history was \
    sent), gap (events were pruned or are damaged) and error (why the stream ends). The data of each event type \
    has a schema of its own (recount schema TYPE).\n\n\
    Where a token is required, send it as Authorization: Bearer; a browser's EventSource sends a ticket in the \
    query instead.";

/// What is served.
pub fn text() -> String {
    schema::print(&document())
}

/// The whole document.
pub fn document() -> Value {
    let mut builder = Builder::default();
    let mut paths = Map::new();
    for route in ROUTES {
        builder.add(&mut paths, "/v1", route);
    }
    for route in SERVER_ROUTES {
        builder.add(&mut paths, "", route);
    }
    let responses = std::mem::take(&mut builder.responses);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Recount",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": builder.schemas(),
            "responses": responses,
            "headers": headers(),
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "A token from recount token add." },
                "ticket": {
                    "type": "apiKey", "in": "query", "name": query::TICKET,
                    "description": "Created with a token by POST /v1/tickets, for one stream and a short time.",
                },
            },
        },
    })
}

/// What is gathered while operations are written.
struct Builder {
    /// Types as they are taken: fields that may be left out are not required.
    taken: SchemaGenerator,
    /// Types as they are given.
    given: SchemaGenerator,
    /// Problems, by status and codes.
    responses: BTreeMap<String, Value>,
}

impl Default for Builder {
    fn default() -> Self {
        let settings =
            || SchemaSettings::draft2020_12().with(|s| s.definitions_path = "/components/schemas".into());
        Builder {
            taken: settings().for_deserialize().into_generator(),
            given: settings().for_serialize().into_generator(),
            responses: BTreeMap::new(),
        }
    }
}

impl Builder {
    fn add<Name: Debug>(&mut self, paths: &mut Map<String, Value>, prefix: &str, route: &Route<Name>) {
        let operation = self.operation(route);
        let path = paths.entry(format!("{prefix}{}", route.path)).or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = operation;
    }

    fn operation<Name: Debug>(&mut self, route: &Route<Name>) -> Value {
        let mut parameters: Vec<Value> = route.path_names().map(in_path).collect();
        parameters.extend(route.query.iter().map(in_query));
        if route.streams() {
            parameters.push(last_event_id());
        }
        if route.takes_key() {
            parameters.push(idempotency_key());
        }
        if route.is_tagged() || route.gives_bytes() {
            parameters.push(if_none_match());
        }
        if route.gives_bytes() {
            parameters.extend([range(), if_range()]);
        }
        let mut operation = json!({
            "operationId": operation_id(&format!("{:?}", route.name)),
            "tags": [tag(route.path)],
            "summary": route.does,
            "parameters": parameters,
            "responses": self.answers(route),
            "security": security(route.scopes, route.streams()),
        });
        match route.body {
            Body::None => {}
            Body::Json { shape, required } => {
                let schema = shape(&mut self.taken);
                operation["requestBody"] =
                    json!({ "required": required, "content": { "application/json": { "schema": schema } } });
            }
            Body::Lines => {
                let about = "One run as recount export writes it: its header on a line, then its envelopes, one a line.";
                operation["requestBody"] = json!({
                    "required": true,
                    "content": { export::MEDIA_TYPE: { "schema": { "type": "string", "description": about } } },
                });
            }
            Body::Bytes => {
                let about = "Any bytes; their Content-Type is kept with them.";
                let any = json!({ "schema": { "description": about } });
                let form = json!({ "schema": form_schema() });
                operation["requestBody"] = json!({
                    "required": true,
                    "content": { "*/*": any, "multipart/form-data": form },
                });
            }
        }
        operation
    }

    fn answers<Name>(&mut self, route: &Route<Name>) -> Value {
        let mut answers: BTreeMap<String, Value> = BTreeMap::new();
        for gives in route.gives {
            let answer = answers.entry(gives.status().to_string()).or_insert_with(
                || json!({ "description": "", "headers": { "x-request-id": header_ref("x-request-id") } }),
            );
            let (about, media_type, schema) = self.given(gives);
            let before = answer["description"].as_str().unwrap_or_default();
            let about = if before.is_empty() { about } else { format!("{before} {about}") };
            answer["description"] = about.into();
            if let Some(schema) = schema {
                answer["content"][media_type] = json!({ "schema": schema });
            }
            if matches!(gives, ResponseKind::Thing { located: true, .. }) {
                answer["headers"]["location"] = header_ref("location");
            }
        }
        if route.gives_bytes() {
            answers.insert("206".to_owned(), part());
            for status in ["200", "206"] {
                answers.entry(status.to_owned()).and_modify(|answer| {
                    answer["headers"]["etag"] = header_ref("etag");
                    answer["headers"]["accept-ranges"] = header_ref("accept-ranges");
                });
            }
        }
        if route.is_tagged() || route.gives_bytes() {
            answers.insert("304".to_owned(), unchanged());
            answers
                .entry("200".to_owned())
                .and_modify(|answer| answer["headers"]["etag"] = header_ref("etag"));
        }
        let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
        for code in route.codes() {
            by_status.entry(code.row().status).or_default().push(code);
        }
        for (status, codes) in by_status {
            let name = self.problem(status, &codes);
            let refused = json!({ "$ref": format!("#/components/responses/{name}") });
            match answers.get_mut(&status.to_string()) {
                None => drop(answers.insert(status.to_string(), refused)),
                // A status with a body of its own that may also be a problem.
                Some(answer) => {
                    answer["content"][problem::MEDIA_TYPE] =
                        self.responses[&name]["content"][problem::MEDIA_TYPE].clone();
                }
            }
        }
        json!(answers)
    }

    /// The description, media type and schema of a response.
    fn given(&mut self, gives: &ResponseKind) -> (String, &'static str, Option<Value>) {
        let json_type = "application/json";
        match gives {
            ResponseKind::Thing { object, data, status, .. } => {
                let about = if *status == 201 { "Created." } else { "Success." };
                let data = data(&mut self.given);
                let fields = json!({ "object": { "const": object }, "data": data });
                (about.to_owned(), json_type, Some(closed(fields, &["object", "data"])))
            }
            ResponseKind::Page(of) => {
                let next = json!({
                    "type": ["string", "null"],
                    "description": "The cursor to continue with; it never moves back, and is null only if nothing was ever returned.",
                });
                let mut schema = page_schema(of(&mut self.given), next);
                schema["properties"]["damaged"] = json!({
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "Rows, as space and key, that belong or may belong to the list, and are omitted because their stored bytes are damaged.",
                });
                (page_about().to_owned(), json_type, Some(schema))
            }
            ResponseKind::EventsPage => {
                let next = json!({
                    "type": "integer", "minimum": -1, "maximum": INTEGER_LAST,
                    "description": "The cursor to continue with; -1 if there is no event yet.",
                });
                let mut schema = page_schema(reference("Envelope"), next);
                schema["properties"]["gap"] = self.given.subschema_for::<Gap>().to_value();
                (page_about().to_owned(), json_type, Some(schema))
            }
            ResponseKind::EventStream => {
                let about = "Frames of server-sent events. A frame with an id is one event: id is the cursor, data the \
                             envelope. Frames without an id: caught_up, when all history has been sent; gap, when \
                             requested events were pruned or are damaged; error, with a problem, before the stream ends. \
                             A position frame has an id and no event: the filter hid all events up to there. Comment \
                             lines keep a quiet stream open. Ignore other frames.";
                let schema = json!({ "type": "string", "description": about });
                (
                    "Or a stream of events, if the client prefers text/event-stream.".to_owned(),
                    "text/event-stream",
                    Some(schema),
                )
            }
            ResponseKind::Over => {
                ("A client has reconnected, and no more events can follow.".to_owned(), "", None)
            }
            ResponseKind::Bare { status, data } => {
                let about = if *status < 400 { "Yes." } else { "No; the body has the reason." };
                (about.to_owned(), json_type, Some(data(&mut self.given).to_value()))
            }
            ResponseKind::Bytes => {
                let about = "All bytes, with the type that was stored.";
                (about.to_owned(), "*/*", Some(json!({ "description": about })))
            }
            ResponseKind::Document { media_type, about } => {
                let form = if media_type.starts_with(json_type) { "object" } else { "string" };
                ((*about).to_owned(), media_type, Some(json!({ "type": form })))
            }
        }
    }

    /// The name of the response for problems with one of these codes.
    fn problem(&mut self, status: u16, codes: &[Code]) -> String {
        let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
        let name = format!("{status}.{}", names.join("."));
        let problem = self.given.subschema_for::<Problem>();
        let mut headers = json!({ "x-request-id": header_ref("x-request-id") });
        if codes.iter().any(|code| code.row().retryable) {
            headers["retry-after"] = header_ref("retry-after");
        }
        let types: Vec<String> = names.iter().map(|name| problem::type_of(name)).collect();
        let meanings: Vec<String> =
            codes.iter().map(|code| format!("{}: {}", code.as_str(), code.row().meaning)).collect();
        let narrowed = json!({
            "properties": { "code": { "enum": names }, "type": { "enum": types }, "status": { "const": status } },
        });
        let response = json!({
            "description": meanings.join(" "),
            "headers": headers,
            "content": { problem::MEDIA_TYPE: { "schema": { "allOf": [problem, narrowed] } } },
        });
        self.responses.entry(name.clone()).or_insert(response);
        name
    }

    /// Every type that was named.
    fn schemas(mut self) -> Value {
        let mut schemas = self.taken.take_definitions(true);
        for (name, schema) in self.given.take_definitions(true) {
            // One name for two forms would be a lie to one of them.
            if let Some(taken) = schemas.get(&name) {
                assert_eq!(taken, &schema, "{name} is taken in one form and given in another");
            }
            schemas.insert(name, schema);
        }
        for schema in schemas.values_mut() {
            bound(schema);
        }
        let codes: BTreeSet<&str> = CODES.iter().map(|row| row.name).collect();
        schemas["Problem"]["properties"]["code"]["enum"] = json!(codes);
        let mut envelope = schema::envelope();
        let own = envelope.as_object_mut().expect("the envelope's schema is an object");
        own.retain(|name, _| !matches!(name.as_str(), "$schema" | "$id"));
        schemas.insert("Envelope".to_owned(), envelope);
        Value::Object(schemas)
    }
}

/// Puts in what the derive cannot know: no integer is beyond what every reader counts alike.
fn bound(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let integer = match object.get("type") {
                Some(Value::String(one)) => one == "integer",
                Some(Value::Array(several)) => several.iter().any(|one| one == "integer"),
                _ => false,
            };
            if integer {
                object.remove("format");
                object.entry("maximum").or_insert_with(|| INTEGER_LAST.into());
            }
            if object.get("default") == Some(&Value::Null) {
                object.remove("default");
            }
            object.values_mut().for_each(bound);
        }
        Value::Array(items) => items.iter_mut().for_each(bound),
        _ => {}
    }
}

fn reference(name: &str) -> Schema {
    Schema::new_ref(format!("#/components/schemas/{name}"))
}

fn header_ref(name: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{name}") })
}

fn headers() -> Value {
    json!({
        "x-request-id": {
            "description": "The id of this request in the server's log.",
            "required": true, "schema": { "type": "string" },
        },
        "location": {
            "description": "The address of the created resource.",
            "required": true, "schema": { "type": "string" },
        },
        "etag": {
            "description": "Identifies this version of the resource.",
            "required": true, "schema": { "type": "string" },
        },
        "accept-ranges": {
            "description": "Shows that ranges are supported.",
            "required": true, "schema": { "const": "bytes" },
        },
        "content-range": {
            "description": "Which bytes these are, and the total size.",
            "required": true, "schema": { "type": "string" },
        },
        "retry-after": {
            "description": "The number of seconds to wait before the next attempt.",
            "schema": { "type": "integer", "minimum": 1 },
        },
    })
}

/// An object with these fields, all of which a reply of this release has.
fn closed(fields: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "required": required, "properties": fields })
}

fn page_about() -> &'static str {
    "One page."
}

fn page_schema(item: Schema, next: Value) -> Value {
    let fields = json!({
        "object": { "const": "list" },
        "data": { "type": "array", "items": item },
        "next": next,
        "has_more": { "type": "boolean" },
    });
    closed(fields, &["object", "data", "next", "has_more"])
}

/// `CreateTask` as `createTask`.
fn operation_id(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    format!("{}{rest}", first.to_ascii_lowercase())
}

/// What routes are grouped by: the thing that they are about.
fn tag(path: &str) -> &str {
    path.split('/').find(|part| !part.is_empty()).unwrap_or("server")
}

fn in_path(name: &str) -> Value {
    if let query::MCP_SERVER | query::MCP_TOOL = name {
        let about =
            if name == query::MCP_SERVER { "The name of an MCP server." } else { "The name of its tool." };
        let schema = json!({ "type": "string", "minLength": 1, "maxLength": query::MCP_NAME_MAX });
        return json!({ "name": name, "in": "path", "required": true, "description": about, "schema": schema });
    }
    let (prefix, about) = match name {
        "run" => ("run_", "The id of a run."),
        "task" => ("task_", "The id of a task."),
        "session" => ("chat_", "The id of a session."),
        "approval" => ("", "The id of an approval."),
        "allowance" => ("", "The id of an allowance."),
        "clarification" => ("", "The id of a question."),
        "handoff" => ("", "The id of a handoff."),
        "artifact" => ("", "The id of an artifact."),
        other => ("", if other == "token" { "The id of a token." } else { "An id." }),
    };
    json!({ "name": name, "in": "path", "required": true, "description": about, "schema": form(Form::Id(prefix)) })
}

fn in_query(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name,
        "in": "query",
        "description": parameter.about,
        "schema": form(parameter.form),
    })
}

/// A form with one file, as browsers and curl send it.
fn form_schema() -> Value {
    json!({
        "type": "object",
        "required": [query::FILE],
        "additionalProperties": false,
        "properties": {
            query::FILE: {
                "type": "string",
                "contentMediaType": "application/octet-stream",
                "description": "The bytes; the Content-Type and the file name of this part are kept with them.",
            },
            query::KIND: { "enum": query::UPLOAD_KINDS, "description": "As in the query." },
            query::NAME: { "type": "string", "maxLength": query::NAME_MAX, "description": "As in the query." },
        },
    })
}

fn idempotency_key() -> Value {
    json!({
        "name": "idempotency-key",
        "in": "header",
        "description": "Chosen by the client for one operation. If the request is resent within a day with \
                        the same body, it gets the first response, with idempotency-replayed: true, and is \
                        not executed again.",
        "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
    })
}

fn if_none_match() -> Value {
    json!({
        "name": "if-none-match",
        "in": "header",
        "description": "The ETag of the version that the client has; the response is 304 if it is still \
                        current.",
        "schema": { "type": "string" },
    })
}

fn range() -> Value {
    json!({
        "name": "range",
        "in": "header",
        "description": "The requested bytes, as bytes=0-99, bytes=100- or bytes=-100. One range only; for \
                        several the response has all bytes.",
        "schema": { "type": "string" },
    })
}

fn if_range() -> Value {
    json!({
        "name": "if-range",
        "in": "header",
        "description": "The ETag that the range belongs to; for any other version the response has all bytes.",
        "schema": { "type": "string" },
    })
}

fn part() -> Value {
    json!({
        "description": "The requested bytes.",
        "headers": { "x-request-id": header_ref("x-request-id"), "content-range": header_ref("content-range") },
        "content": { "*/*": { "schema": { "description": "A part of the bytes." } } },
    })
}

fn unchanged() -> Value {
    json!({
        "description": "Not modified: the client has the current version.",
        "headers": { "x-request-id": header_ref("x-request-id"), "etag": header_ref("etag") },
    })
}

fn last_event_id() -> Value {
    json!({
        "name": "last-event-id",
        "in": "header",
        "description": "The last id that the client received; browsers send it when they reconnect. It overrides the query.",
        "schema": form(Form::NumberOr { min: -1, max: INTEGER_LAST, word: "" }),
    })
}

fn form(form: Form) -> Value {
    match form {
        Form::Number { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Form::NumberOr { min, max, word } => {
            json!({ "anyOf": [{ "type": "integer", "minimum": min, "maximum": max }, { "const": word }] })
        }
        Form::Word(words) => json!({ "type": "string", "enum": words }),
        Form::Id("") => request::foreign_id(),
        Form::Cursor(prefix) => {
            let most = limits::FOREIGN_ID_BYTES_MAX;
            json!({ "type": "string", "pattern": format!("^({prefix}[A-Za-z0-9._:-]*)?$"), "maxLength": most })
        }
        Form::Place => {
            json!({ "type": "string", "pattern": format!("^({}:(0|[1-9][0-9]{{0,14}}))?$", id_pattern("run_")) })
        }
        Form::Id(prefix) => {
            json!({ "type": "string", "pattern": format!("^{}$", id_pattern(prefix)) })
        }
        Form::Words(word) => {
            let word = match word {
                Word::Type => "([a-z0-9_.]+|([a-z0-9_.]*[.])?[*])".to_owned(),
                Word::Id(prefix) => id_pattern(prefix),
                Word::One(words) => format!("({})", words.join("|")),
            };
            let more = query::WORDS_MAX - 1;
            json!({ "type": "string", "pattern": format!("^{word}(,{word}){{0,{more}}}$") })
        }
        Form::Text(most) => json!({ "type": "string", "maxLength": most }),
        Form::YesNo => json!({ "type": "boolean" }),
    }
}

/// One of our ids, as text that ends and begins with it.
fn id_pattern(prefix: &str) -> String {
    format!("{prefix}[0-7][0-9A-HJKMNP-TV-Z]{{25}}")
}

/// One of the scopes, or a ticket on streams; or nothing, while a server was made no tokens.
fn security(scopes: &[Scope], streams: bool) -> Value {
    if scopes.is_empty() {
        return json!([]);
    }
    let mut ways = vec![json!({})];
    ways.extend(scopes.iter().map(|scope| json!({ "bearer": [scope] })));
    if streams {
        ways.push(json!({ "ticket": scopes }));
    }
    json!(ways)
}
