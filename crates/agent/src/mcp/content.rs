//! Converts the result of a tool call into the text and the picture for the model.
//!
//! Pure. Start at [`read`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;

use crate::limits::PICTURE_BYTES_MAX;
use crate::mcp::limits;

/// The converted result of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ToolResult {
    pub(crate) output: String,
    pub(crate) image: Option<(String, Bytes)>,
    /// Content that is neither text nor that image, which the run keeps.
    pub(crate) blobs: Vec<ResultBlob>,
    blobs_omitted: usize,
    /// Whether the tool reports a failure.
    pub(crate) is_error: bool,
}

/// Binary content of a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResultBlob {
    /// Such as `audio`, or the address of a resource.
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) bytes: Bytes,
}

/// Media types of pictures that models accept.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Returns `None` if the value is not the result of a call.
pub(crate) fn read(result: &Value) -> Option<ToolResult> {
    let result = result.as_object()?;
    let content = match result.get("content") {
        Some(content) => content.as_array()?.as_slice(),
        None => &[],
    };
    let mut read = ToolResult {
        is_error: result.get("isError").and_then(Value::as_bool).unwrap_or_default(),
        ..ToolResult::default()
    };
    for block in content.iter().take(limits::MCP_BLOCKS_MAX) {
        read.add(block);
    }
    if let Some(more) = content.len().checked_sub(limits::MCP_BLOCKS_MAX).filter(|more| *more > 0) {
        read.line(&format!("[{more} more parts of the result omitted]"));
    }
    if read.blobs_omitted > 0 {
        read.line(&format!("[{} more parts with data are not stored]", read.blobs_omitted));
    }
    if let Some(structured) = result.get("structuredContent")
        && read.output.is_empty()
    {
        read.line(&structured.to_string());
    }
    if read.output.len() > limits::MCP_OUTPUT_BYTES_MAX {
        let whole = read.output.len();
        let mut end = limits::MCP_OUTPUT_BYTES_MAX;
        while !read.output.is_char_boundary(end) {
            end -= 1;
        }
        read.output.truncate(end);
        read.line(&format!(
            "[the result had {whole} bytes; {} were omitted and are not stored]",
            whole - end
        ));
    }
    Some(read)
}

impl ToolResult {
    fn line(&mut self, text: &str) {
        if !self.output.is_empty() && !self.output.ends_with('\n') {
            self.output.push('\n');
        }
        self.output.push_str(text);
    }

    fn add(&mut self, block: &Value) {
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => self.line(text("text")),
            "image" => self.picture(text("mimeType"), text("data")),
            "audio" => {
                self.keep("audio", text("mimeType"), text("data"));
                self.line(&format!("[audio of type {}, not shown]", shown(text("mimeType"))));
            }
            "resource_link" => {
                let about = [text("title"), text("name"), text("description")];
                let about = about.into_iter().find(|about| !about.is_empty()).unwrap_or("a resource");
                self.line(&format!("[{}: {}]", shown(about), shown(text("uri"))));
            }
            "resource" => {
                let resource = block.get("resource").unwrap_or(&Value::Null);
                let text = |key: &str| resource.get(key).and_then(Value::as_str).unwrap_or_default();
                self.line(&format!("[{}]", shown(text("uri"))));
                match resource.get("text").and_then(Value::as_str) {
                    Some(text) => self.line(text),
                    None if IMAGES.contains(&text("mimeType")) => {
                        self.picture(text("mimeType"), text("blob"))
                    }
                    None => {
                        self.keep(text("uri"), text("mimeType"), text("blob"));
                        self.line(&format!("[data of type {}, not shown]", shown(text("mimeType"))));
                    }
                }
            }
            other => self.line(&format!("[content of the unknown type {:?}, not shown]", shown(other))),
        }
    }

    /// Keeps the first picture; others are only described in text.
    fn picture(&mut self, mime: &str, data: &str) {
        let why = if !IMAGES.contains(&mime) {
            "not shown".to_owned()
        } else if self.image.is_some() {
            "not shown: only the first image is shown".to_owned()
        } else if data.len() / 4 * 3 > PICTURE_BYTES_MAX {
            format!("not shown: larger than {PICTURE_BYTES_MAX} bytes")
        } else {
            match STANDARD.decode(data) {
                Ok(bytes) => {
                    self.image = Some((mime.to_owned(), bytes.into()));
                    return;
                }
                Err(_) => "cannot be read".to_owned(),
            }
        };
        self.keep("image", mime, data);
        self.line(&format!("[image of type {}, {why}]", shown(mime)));
    }

    /// Keeps binary content. What cannot be decoded is only in the text for the model.
    fn keep(&mut self, name: &str, mime: &str, data: &str) {
        match STANDARD.decode(data) {
            Ok(bytes) if !bytes.is_empty() && self.blobs.len() >= limits::MCP_BLOBS_MAX => {
                self.blobs_omitted += 1
            }
            Ok(bytes) if !bytes.is_empty() => {
                let mime = if mime.is_empty() { "application/octet-stream" } else { mime };
                self.blobs.push(ResultBlob { name: shown(name), mime: shown(mime), bytes: bytes.into() });
            }
            _ => {}
        }
    }
}

fn shown(text: &str) -> String {
    let plain = text.chars().filter(|letter| !letter.is_control());
    plain.take(limits::MCP_LINK_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_parts_of_a_result_are_converted() {
        let result = json!({ "content": [
            { "type": "text", "text": "one\n" },
            { "type": "image", "mimeType": "image/png", "data": "AQID" },
            { "type": "image", "mimeType": "image/png", "data": "AQID" },
            { "type": "image", "mimeType": "image/tiff", "data": "AQID" },
            { "type": "resource_link", "uri": "file:///a", "name": "a" },
            { "type": "resource", "resource": { "uri": "file:///b", "text": "two" } },
            { "type": "audio", "mimeType": "audio/wav", "data": "BAUG" },
            { "type": "audio", "mimeType": "audio/wav", "data": "no base64!" },
            { "type": "resource", "resource": { "uri": "file:///c", "mimeType": "application/zip", "blob": "Bw==" } },
            { "type": "hologram" },
        ], "isError": true });
        let read = read(&result).unwrap();
        assert_eq!(
            read.output.lines().collect::<Vec<_>>(),
            [
                "one",
                "[image of type image/png, not shown: only the first image is shown]",
                "[image of type image/tiff, not shown]",
                "[a: file:///a]",
                "[file:///b]",
                "two",
                "[audio of type audio/wav, not shown]",
                "[audio of type audio/wav, not shown]",
                "[file:///c]",
                "[data of type application/zip, not shown]",
                "[content of the unknown type \"hologram\", not shown]",
            ]
        );
        assert_eq!(read.image, Some(("image/png".to_owned(), Bytes::from_static(&[1, 2, 3]))));
        // What the model does not get is kept.
        let kept: Vec<(&str, &str, &[u8])> =
            read.blobs.iter().map(|blob| (&*blob.name, &*blob.mime, &*blob.bytes)).collect();
        assert_eq!(
            kept,
            [
                ("image", "image/png", &[1, 2, 3][..]),
                ("image", "image/tiff", &[1, 2, 3]),
                ("audio", "audio/wav", &[4, 5, 6]),
                ("file:///c", "application/zip", &[7]),
            ]
        );
        assert!(read.is_error);
    }

    #[test]
    fn a_result_without_parts_is_its_structured_content() {
        let result = read(&json!({ "structuredContent": { "degrees": 7 } })).unwrap();
        assert_eq!(result.output, "{\"degrees\":7}");
        assert_eq!(read(&json!([])), None);
        assert_eq!(read(&json!({ "content": 7 })), None);
    }

    #[test]
    fn long_results_are_cut_with_a_note() {
        let long = "é".repeat(limits::MCP_OUTPUT_BYTES_MAX);
        let result = read(&json!({ "content": [{ "type": "text", "text": long }] })).unwrap();
        assert!(
            result.output.ends_with("were omitted and are not stored]")
                && result.output.len() < limits::MCP_OUTPUT_BYTES_MAX + 100
        );
        let many: Vec<Value> =
            (0..=limits::MCP_BLOCKS_MAX).map(|_| json!({ "type": "text", "text": "x" })).collect();
        let result = read(&json!({ "content": many })).unwrap();
        assert!(result.output.ends_with("[1 more parts of the result omitted]"), "{}", result.output);
    }
}
