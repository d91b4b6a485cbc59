//! Names every invalid field of a payload, where the derived reader stops at the first one.
//!
//! Runs only after a payload was refused, so it may be slow. Must not decide whether a payload is valid: the derived
//! reader does. See [`explain`].

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::limits;

/// A payload that can name its invalid fields.
pub(crate) trait Faults {
    fn faults(data: &Fields<'_>) -> Vec<String>;
}

/// The fields of `data` as they came, by name.
pub(crate) struct Fields<'a>(BTreeMap<&'a str, &'a RawValue>);

/// Reads one field the way the derived reader does: one that is absent fits only where its type is an option.
#[derive(Deserialize)]
struct One<T> {
    #[serde(rename = "field")]
    _field: T,
}

impl Fields<'_> {
    pub(crate) fn fault<T: DeserializeOwned>(&self, field: &str) -> Option<String> {
        let name = wire_name(field);
        let given = self.0.get(name);
        let text = given.map_or_else(|| "{}".to_owned(), |value| format!("{{\"field\":{}}}", value.get()));
        let why = serde_json::from_str::<One<T>>(&text).err()?;
        Some(match given {
            None => format!("missing field `{name}`"),
            Some(_) => format!("field `{name}`: {}", without_place(&why)),
        })
    }
}

/// Why the payload was refused: every field that does not fit, or what the reader met first where that is all there is.
pub(crate) fn explain<T: Faults>(data: &str, why: &serde_json::Error) -> String {
    let first = without_place(why);
    let Ok(fields) = serde_json::from_str(data) else { return first };
    let faults = T::faults(&Fields(fields));
    if faults.len() < 2 {
        return first;
    }
    let more = faults.len().saturating_sub(limits::FAULTS_NAMED_MAX);
    let mut named = faults.into_iter().take(limits::FAULTS_NAMED_MAX).collect::<Vec<_>>().join("; ");
    if more > 0 {
        named.push_str(&format!("; and {more} more"));
    }
    named
}

/// The name on the wire, where Rust does not allow it for a field.
fn wire_name(field: &str) -> &str {
    match field {
        "waits_for" => "for",
        same => same,
    }
}

/// The reason without "at line 1 column 17", which means nothing to a client that sent a tree.
fn without_place(why: &serde_json::Error) -> String {
    let text = why.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{run, tool};

    fn explained<T: Faults + DeserializeOwned + std::fmt::Debug>(data: &str) -> String {
        explain::<T>(data, &serde_json::from_str::<T>(data).expect_err("it does not fit"))
    }

    #[test]
    fn one_fault_keeps_the_message_of_the_reader() {
        assert_eq!(explained::<run::Failed>(r#"{"code":"x","message":"y"}"#), "missing field `retriable`");
        assert_eq!(explained::<run::Waiting>("{}"), "missing field `for`");
    }

    #[test]
    fn several_faults_are_reported_together() {
        let message = explained::<run::Failed>(r#"{"code":1,"turns":"many"}"#);
        for part in
            ["field `code`: ", "missing field `message`", "missing field `retriable`", "field `turns`: "]
        {
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[test]
    fn a_field_that_fits_is_not_accused() {
        let message = explained::<tool::Invoked>(r#"{"tool_name":"shell_exec","executor":5,"extra":{}}"#);
        assert!(!message.contains("tool_name") && !message.contains("extra"), "{message}");
    }
}
