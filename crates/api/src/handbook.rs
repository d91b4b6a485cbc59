//! The published contract as a page for people: plain HTML with headings and lists, and no script.
//!
//! It is generated from the same document that programs get, so both agree. Look at [`page`].

use std::collections::BTreeMap;
use std::fmt::Write as _;

use recount_event::code::CODES;
use serde_json::{Map, Value};

use crate::openapi;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <title>Recount: API reference</title>\n<link rel=\"stylesheet\" href=\"/docs.css\">\n</head>\n<body>\n\
    <a class=\"skip\" href=\"#content\">Skip to the content</a>\n<header><h1>API reference</h1></header>\n";

/// Why writing to a page cannot fail.
const TAKES_ALL: &str = "a text takes whatever is written to it";

/// The methods of operations, in the order of the page.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The whole page.
pub fn page() -> String {
    let document = openapi::document();
    let mut page = String::from(HEAD);
    let mut by_tag: BTreeMap<&str, Vec<(&str, &str, &Value)>> = BTreeMap::new();
    for (path, operations) in object(&document["paths"]) {
        for method in METHODS {
            if let Some(operation) = operations.get(method) {
                by_tag.entry(text(&operation["tags"][0])).or_default().push((method, path, operation));
            }
        }
    }
    page += "<nav aria-label=\"Parts of this page\"><ul>\n";
    for tag in by_tag.keys() {
        writeln!(page, "<li><a href=\"#part-{tag}\">{tag}</a></li>").expect(TAKES_ALL);
    }
    page += "<li><a href=\"#types\">Types</a></li>\n<li><a href=\"#codes\">Codes</a></li>\n</ul></nav>\n";
    page += "<main id=\"content\" tabindex=\"-1\">\n";
    for paragraph in text(&document["info"]["description"]).split("\n\n") {
        writeln!(page, "<p>{}</p>", escaped(paragraph)).expect(TAKES_ALL);
    }
    page += "<p>The same for programs: <a href=\"/openapi.json\">openapi.json</a>.</p>\n";
    for (tag, operations) in &by_tag {
        writeln!(page, "<h2 id=\"part-{tag}\">{tag}</h2>").expect(TAKES_ALL);
        for (method, path, operation) in operations {
            write_operation(&mut page, &document, method, path, operation);
        }
    }
    page += "<h2 id=\"types\">Types</h2>\n";
    for (name, schema) in object(&document["components"]["schemas"]) {
        write_type(&mut page, name, schema);
    }
    write_codes(&mut page);
    page += "</main>\n</body>\n</html>\n";
    page
}

fn write_operation(page: &mut String, document: &Value, method: &str, path: &str, operation: &Value) {
    let id = text(&operation["operationId"]);
    let name = format!("{} {path}", method.to_uppercase());
    writeln!(page, "<h3 id=\"{id}\"><code>{}</code></h3>", escaped(&name)).expect(TAKES_ALL);
    writeln!(page, "<p>{}{}</p>", escaped(text(&operation["summary"])), scopes(&operation["security"]))
        .expect(TAKES_ALL);
    let parameters = list(&operation["parameters"]);
    if !parameters.is_empty() {
        page.push_str("<h4>Parameters</h4>\n<ul>\n");
        for parameter in parameters {
            writeln!(
                page,
                "<li><code>{}</code> in the {}, {}. {}</li>",
                escaped(text(&parameter["name"])),
                escaped(text(&parameter["in"])),
                words(&parameter["schema"]),
                escaped(text(&parameter["description"]))
            )
            .expect(TAKES_ALL);
        }
        page.push_str("</ul>\n");
    }
    if let Some(body) = operation.get("requestBody") {
        let needed = if body["required"] == true { "" } else { " (optional)" };
        for (media_type, content) in object(&body["content"]) {
            let what = words(&content["schema"]);
            writeln!(page, "<h4>Body</h4>\n<p>{what}{needed}, as <code>{media_type}</code>.</p>")
                .expect(TAKES_ALL);
        }
    }
    page.push_str("<h4>Responses</h4>\n<ul>\n");
    for (status, response) in object(&operation["responses"]) {
        let response = resolved(document, response);
        let contents = object(&response["content"]);
        let formats: Vec<String> =
            contents.map(|(media_type, content)| content_words(media_type, content)).collect();
        let codes = response["content"]
            .as_object()
            .is_some_and(|content| content.keys().all(|media_type| media_type == crate::problem::MEDIA_TYPE));
        let about = if codes { String::new() } else { escaped(text(&response["description"])) };
        writeln!(page, "<li>{status}: {about} {}</li>", formats.join("; ")).expect(TAKES_ALL);
    }
    page.push_str("</ul>\n");
}

/// What a body of an answer is: a type, or the codes of a problem.
fn content_words(media_type: &str, content: &Value) -> String {
    if media_type != crate::problem::MEDIA_TYPE {
        return format!("{} as <code>{}</code>", words(&content["schema"]), escaped(media_type));
    }
    let codes = list(&content["schema"]["allOf"][1]["properties"]["code"]["enum"]);
    let links: Vec<String> =
        codes.iter().map(|code| format!("<a href=\"#code-{0}\"><code>{0}</code></a>", text(code))).collect();
    links.join(", ")
}

/// The required scopes, if any.
fn scopes(security: &Value) -> String {
    let mut scopes: Vec<&str> =
        list(security).iter().flat_map(|way| list(&way["bearer"])).map(text).collect();
    scopes.dedup();
    match scopes.as_slice() {
        [] => " No token required.".to_owned(),
        scopes => format!(" Requires the scope <code>{}</code>.", scopes.join("</code> or <code>")),
    }
}

fn write_type(page: &mut String, name: &str, schema: &Value) {
    writeln!(page, "<h3 id=\"type-{name}\">{name}</h3>").expect(TAKES_ALL);
    let about = text(&schema["description"]);
    if !about.is_empty() {
        writeln!(page, "<p>{}</p>", escaped(about)).expect(TAKES_ALL);
    }
    let mut fields = object(&schema["properties"]).peekable();
    if fields.peek().is_none() {
        writeln!(page, "<p>It is {}.</p>", words(schema)).expect(TAKES_ALL);
        return;
    }
    page.push_str("<ul>\n");
    for (field, schema_of_field) in fields {
        let always = list(&schema["required"]).iter().any(|name| name == field);
        let always = if always { "" } else { ", may be absent" };
        let about = escaped(text(&schema_of_field["description"]));
        writeln!(page, "<li><code>{field}</code>: {}{always}. {about}</li>", words(schema_of_field))
            .expect(TAKES_ALL);
    }
    page.push_str("</ul>\n");
}

fn write_codes(page: &mut String) {
    page.push_str("<h2 id=\"codes\">Codes</h2>\n<p>Of problems: <code>type</code> is urn:recount:error: and the code.</p>\n");
    for row in CODES {
        let again = if row.retryable { " The same request may succeed later." } else { "" };
        writeln!(
            page,
            "<h3 id=\"code-{0}\"><code>{0}</code>, {1}</h3>\n<p>{2}{again} {3}</p>",
            row.name,
            row.status,
            escaped(row.meaning),
            escaped(row.remedy)
        )
        .expect(TAKES_ALL);
    }
}

/// A short description of a schema.
fn words(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        return format!("<a href=\"#type-{name}\">{name}</a>");
    }
    if let Some(constant) = schema.get("const") {
        return format!("<code>{}</code>", escaped(&constant.to_string()));
    }
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<String> =
            choices.iter().map(|choice| format!("<code>{}</code>", escaped(&choice.to_string()))).collect();
        return format!("one of {}", choices.join(", "));
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let (Some(choices), None) = (schema[key].as_array(), schema.get("properties")) {
            return choices.iter().map(words).collect::<Vec<_>>().join(" or ");
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().map(text).collect(),
        _ => return "anything".to_owned(),
    };
    types.iter().map(|kind| kind_words(kind, schema)).collect::<Vec<_>>().join(" or ")
}

fn kind_words(kind: &str, schema: &Value) -> String {
    match kind {
        "array" => format!("a list of {}", words(&schema["items"])),
        "object" => match object(&schema["properties"])
            .map(|(name, of)| format!("{name}: {}", words(of)))
            .collect::<Vec<_>>()
        {
            fields if fields.is_empty() => "an object".to_owned(),
            fields => format!("an object ({})", fields.join(", ")),
        },
        "integer" => match (&schema["minimum"], &schema["maximum"]) {
            (Value::Number(least), Value::Number(most)) => format!("a whole number from {least} to {most}"),
            _ => "a whole number".to_owned(),
        },
        "string" => "a text".to_owned(),
        "boolean" => "true or false".to_owned(),
        other => other.to_owned(),
    }
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
