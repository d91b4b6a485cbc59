//! Limits the size of values of other agents: JSON if the log accepts it, else text with a note.

use serde_json::{Map, Value};

use crate::draft::Fields;
use crate::limits;

/// The beginning of a text, at most so many bytes, and whether that is less than all.
pub fn cut(text: &str, max: usize) -> (&str, bool) {
    let end = text.floor_char_boundary(max.min(text.len()));
    (&text[..end], end < text.len())
}

/// A cut text of its own, where it does not matter that it is cut.
pub(crate) fn short(text: &str, max: usize) -> String {
    cut(text, max).0.to_owned()
}

/// A value as it may be kept, and whether something of it is missing: itself, if it fits the bound and the log would take it;
/// else `{"text": …, "size_bytes": …, "truncated": …}` with its JSON text, cut at the bound.
pub fn keep(value: &Value, bytes_max: usize) -> (Value, bool) {
    let text = value.to_string();
    if text.len() <= bytes_max && fits(value, limits::DEPTH_MAX) {
        return (value.clone(), false);
    }
    // Written down again, each quote and backslash takes two bytes, and a control character was escaped before.
    let (start, truncated) = cut(&text, bytes_max / 2);
    let kept =
        Fields::new().put("text", start).put("size_bytes", text.len()).put("truncated", truncated).done();
    (Value::Object(kept), truncated)
}

/// A raw body as fields of an extension event: `raw`, or `raw_text` where it may not be kept as JSON; `truncated` and
/// `size_bytes` where it is cut.
pub(crate) fn raw(value: &Value) -> Map<String, Value> {
    if fits(value, limits::DEPTH_MAX) {
        let text = value.to_string();
        if text.len() <= limits::RAW_BYTES_MAX {
            return Fields::new().put("raw", value.clone()).done();
        }
        return raw_text(&text);
    }
    raw_text(&value.to_string())
}

/// A raw body that is text.
pub(crate) fn raw_text(text: &str) -> Map<String, Value> {
    let (start, truncated) = cut(text, limits::RAW_BYTES_MAX);
    let fields = Fields::new().put("raw_text", start);
    if truncated { fields.put("truncated", true).put("size_bytes", text.len()).done() } else { fields.done() }
}

/// Whether the log takes a value as it is: not nested too deeply, and no integer that some readers would round.
fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => {
            let max = recount_event::limits::INTEGER_MAX;
            match (number.as_u64(), number.as_i64()) {
                (Some(size), _) => size < max,
                (None, Some(size)) => size.unsigned_abs() < max,
                // Written without a fraction, it would be read as an integer.
                (None, None) => {
                    number.as_f64().is_some_and(|real| real.is_finite() && real.abs() < max as f64)
                }
            }
        }
        Value::Array(items) => depth > 0 && items.iter().all(|item| fits(item, depth - 1)),
        Value::Object(fields) => depth > 0 && fields.values().all(|field| fits(field, depth - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recount_event::door;
    use serde_json::json;

    #[test]
    fn kept_values_are_accepted_by_the_log() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        for (value, as_it_is) in [
            (json!({"a": [1, 2.5, -3, null, true, "x"]}), true),
            (json!(u64::MAX), false),
            (json!(i64::MIN), false),
            (json!(1e300), false),
            (deep, false),
            (json!("\u{1}".repeat(70_000)), false),
            (json!("\"".repeat(70_000)), false),
        ] {
            let (kept, truncated) = keep(&value, limits::RAW_BYTES_MAX);
            assert_eq!(kept == value, as_it_is);
            assert!(kept.to_string().len() <= 2 * limits::RAW_BYTES_MAX);
            assert_eq!(truncated, kept["truncated"] == json!(true));
            let data = Value::Object(raw(&value)).to_string();
            let draft = door::draft("ext.a.b", &data);
            assert!(draft.is_ok(), "{draft:?}");
            assert!(door::compact(&kept.to_string()).is_ok());
        }
        assert_eq!(cut("aé", 2), ("a", true));
        assert_eq!(cut("aé", 3), ("aé", false));
    }
}
