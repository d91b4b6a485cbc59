//! Sentences for tool calls and the events of tools.

use serde_json::Value;

use super::{Data, Sentence, counted, duration, facts, left_open};
use crate::render::count;
use crate::render::sentence::call;

pub(super) fn of(type_name: &str, data: &Data) -> Option<Sentence> {
    Some(match type_name {
        "tool.refused" => {
            let line = format!("{} will not run ({})", named(data)?, data.text("code")?);
            Sentence::with(line, data.text("message"))
        }
        "tool.invoked" => {
            let facts = facts([
                data.text("executor")
                    .filter(|who| *who == "client")
                    .map(|_| "run by the application".to_owned()),
                data.text("risk_level").map(|risk| format!("{risk} risk")),
                data.is_true("irreversible").then(|| "cannot be undone".to_owned()),
                data.text("allowed_by").map(|by| allowed(by, data)),
            ]);
            Sentence::with(format!("{}{facts}", named(data)?), data.text("args_summary"))
        }
        "tool.started" => Sentence::line(named(data)?),
        "tool.completed" | "tool.failed" | "tool.cancelled" | "tool.timed_out" => ended(data)?,
        "tool.shell.command" => {
            let argv = data.texts("argv")?;
            let words: Vec<String> = argv.iter().map(|word| one_word(word)).collect();
            Sentence::text(format!("{} in {}", call(data)?, data.text("cwd")?), words.join(" "))
        }
        "tool.shell.output_chunk" => {
            let (stream, chunk) = (data.text("stream")?, data.text("data")?);
            if data.text("encoding").is_some() {
                return Some(Sentence::line(format!("{} {stream}, binary: {chunk}", call(data)?)));
            }
            Sentence::text(format!("{} {stream}", call(data)?), chunk)
        }
        "tool.shell.exited" => exited(data)?,
        "tool.glob.completed" | "tool.grep.completed" => found(data)?,
        "tool.todo_write.updated" => todos(data)?,
        "tool.file_read.completed" => {
            let facts = facts([counted(data, "size_bytes", "byte", ""), counted(data, "lines", "line", "")]);
            Sentence::line(format!("{}: read {}{facts}", call(data)?, data.text("path")?))
        }
        "tool.http.requested" | "tool.web_fetch.requested" | "tool.web_search.requested" => {
            let method = data.text("method").map_or(String::new(), |method| format!(" {method}"));
            let what = data.text("url").or_else(|| data.text("query"))?;
            Sentence::line(format!("{}:{method} {what}", call(data)?))
        }
        "tool.http.response" | "tool.web_fetch.response" | "tool.web_search.response" => {
            let status = data.number("status").map(|status| format!("status {status}"));
            let hits = data.value("hits").and_then(Value::as_array);
            let hits = hits.map(|hits| count(hits.len() as u64, "result"));
            let line = format!("{}{}", call(data)?, facts([status, hits, duration(data)]));
            Sentence::with(line, data.text("error"))
        }
        "artifact.created" => {
            let facts = facts([counted(data, "size_bytes", "byte", "")]);
            let line = format!("{} of kind {}{facts}", data.text("artifact_id")?, data.text("kind")?);
            Sentence::with(line, data.text("summary"))
        }
        "artifact.referenced" => {
            Sentence::line(format!("{} as {}", data.text("artifact_id")?, data.text("relation")?))
        }
        "artifact.updated" => {
            let (old, new) = (data.raw("old_value")?, data.raw("new_value")?);
            let (artifact, field) = (data.text("artifact_id")?, data.text("field")?);
            Sentence::line(format!("{artifact}: {field} changed from {old} to {new}"))
        }
        _ => patch(type_name, data)?,
    })
}

/// The allowance that made a prompt unnecessary.
fn allowed(by: &str, data: &Data) -> String {
    let scope = data.text("allowance_scope").unwrap_or("run");
    let id = data.text("allowance_id").map_or(String::new(), |id| format!(", {id}"));
    format!("always allowed in this {scope} by {by}{id}")
}

fn named(data: &Data) -> Option<String> {
    Some(format!("{} {}", data.text("tool_name")?, call(data)?))
}

fn ended(data: &Data) -> Option<Sentence> {
    let code = data.text("code").map(|code| format!("code {code}"));
    let missing = data.is_true("output_incomplete").then(|| "output may be missing".to_owned());
    let line = format!("{}{}", named(data)?, facts([code, duration(data), missing]));
    let words = data.text("error").or_else(|| data.text("summary")).map(str::to_owned);
    Some(Sentence::with(line, words.or_else(|| data.readable("output"))))
}

/// An argument so that one sees where it ends.
fn one_word(argument: &str) -> String {
    if argument.is_empty() || argument.contains([' ', '\t', '\n', '\'', '"']) {
        format!("'{}'", argument.replace('\'', r"'\''"))
    } else {
        argument.to_owned()
    }
}

fn exited(data: &Data) -> Option<Sentence> {
    let how = match (data.0.get("exit_code").and_then(Value::as_i64), data.text("signal")) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("terminated by {signal}"),
        (None, None) => "no exit status".to_owned(),
    };
    let facts = facts([
        counted(data, "stdout_bytes", "byte", " on stdout"),
        counted(data, "stderr_bytes", "byte", " on stderr"),
        data.is_true("truncated").then(|| "truncated".to_owned()),
        left_open(data),
    ]);
    Some(Sentence::line(format!("{}: {how}{facts}", call(data)?)))
}

fn found(data: &Data) -> Option<Sentence> {
    let (count, pattern) = (data.number("match_count")?, data.text("pattern")?);
    let cut = data.is_true("truncated").then(|| "truncated".to_owned());
    let matches: Option<Vec<String>> = data
        .value("matches")?
        .as_array()?
        .iter()
        .map(|found| match found {
            Value::String(path) => Some(path.clone()),
            found => {
                let (path, line) = (found.get("path")?.as_str()?, found.get("line")?.as_u64()?);
                Some(format!("{path} line {line}: {}", found.get("text")?.as_str()?))
            }
        })
        .collect();
    let matches_word = if count == 1 { "match" } else { "matches" };
    let line = format!("{}: {count} {matches_word} of {pattern}{}", call(data)?, facts([cut]));
    Some(Sentence::with(line, Some(matches?.join("\n"))))
}

fn todos(data: &Data) -> Option<Sentence> {
    let todos: Option<Vec<String>> = data
        .value("todos")?
        .as_array()?
        .iter()
        .map(|todo| {
            let status = todo.get("status")?.as_str()?.replace('_', " ");
            Some(format!("{status}: {}", todo.get("content")?.as_str()?))
        })
        .collect();
    Some(Sentence::with(format!("{}: to-do list", call(data)?), Some(todos?.join("\n"))))
}

/// Changes of files, by every tool that makes them.
fn patch(type_name: &str, data: &Data) -> Option<Sentence> {
    let artifacts = match data.text("patch_artifact_id").or_else(|| data.text("artifact_id")) {
        Some(artifact) => artifact.to_owned(),
        None => data.texts("patch_artifact_ids").unwrap_or_default().join(" and "),
    };
    let paths = match data.text("path") {
        Some(path) => path.to_owned(),
        None => data.texts("paths").unwrap_or_default().join(" and "),
    };
    if !matches!(type_name.rsplit('.').next()?, "proposed" | "patch" | "applied" | "reverted") {
        return None;
    }
    let objects = match (paths.is_empty(), artifacts.is_empty()) {
        (true, true) => return None,
        (false, true) => paths,
        (true, false) => format!("patch {artifacts}"),
        (false, false) => format!("{paths}, patch {artifacts}"),
    };
    let by = data.text("reverted_by").map_or(String::new(), |by| format!(", by {by}"));
    let line = format!("{objects}{by}");
    Some(Sentence::with(line, data.text("summary").or_else(|| data.text("reason"))))
}
