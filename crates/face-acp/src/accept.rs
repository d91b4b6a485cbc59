//! Validates the parameters of an editor's requests: returns typed requests, or an error that names the field. Pure.
//!
//! Must not depend on sessions or the server. Start with [`initialize`]; there is one function for each method.

use std::path::Path;

use recount_client::aap::wire::{Block, Content};
use serde_json::Value;

use crate::error::{RpcError, shortened};
use crate::limits;

pub(crate) type Accepted<T> = Result<T, RpcError>;

/// `initialize`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EditorInfo {
    /// Whether it can show forms to its user.
    pub(crate) has_forms: bool,
}

/// `session/new`, and the same part of `session/load` and `session/resume`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SessionFolder {
    pub(crate) cwd: String,
    /// MCP servers of the editor that the session is opened without.
    pub(crate) left_out: Vec<String>,
}

/// `session/load` and `session/resume`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reopening {
    pub(crate) session: String,
    pub(crate) folder: SessionFolder,
}

/// `session/list`
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ListRequest {
    pub(crate) cwd: Option<String>,
    pub(crate) cursor: Option<String>,
}

/// `session/prompt`
#[derive(Debug, PartialEq)]
pub(crate) struct PromptRequest {
    pub(crate) session: String,
    pub(crate) content: Content,
    /// Its texts alone.
    pub(crate) text: String,
}

/// `session/set_mode` and `session/set_config_option`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SettingRequest {
    pub(crate) session: String,
    pub(crate) name: String,
    pub(crate) value: String,
}

fn field<'v>(params: &'v Value, name: &str) -> Accepted<&'v str> {
    match params.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(RpcError::params(format!("{name} is not a string"))),
        None => Err(RpcError::params(format!("{name} is missing"))),
    }
}

fn optional(params: &Value, name: &str) -> Accepted<Option<String>> {
    match params.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => field(params, name).map(|text| Some(text.to_owned())),
    }
}

fn items<'v>(params: &'v Value, name: &str) -> Accepted<&'v [Value]> {
    match params.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(RpcError::params(format!("{name} is not a list"))),
    }
}

/// The version in the response does not depend on the editor's; the editor decides whether to continue.
pub(crate) fn initialize(params: &Value) -> Accepted<EditorInfo> {
    match params.get("protocolVersion") {
        Some(version) if version.as_u64().is_some() => {}
        Some(version) => {
            return Err(RpcError::params(format!(
                "protocolVersion is {version}, which is not a version number"
            )));
        }
        None => return Err(RpcError::params("protocolVersion is missing")),
    }
    let form = params.pointer("/clientCapabilities/elicitation/form");
    Ok(EditorInfo { has_forms: form.is_some_and(Value::is_object) })
}

pub(crate) fn session(params: &Value) -> Accepted<String> {
    field(params, "sessionId").map(str::to_owned)
}

/// MCP servers of the editor are refused, or omitted if the agent was started so.
pub(crate) fn folder(params: &Value, without_mcp_servers: bool) -> Accepted<SessionFolder> {
    let cwd = absolute(field(params, "cwd")?)?;
    if !items(params, "additionalDirectories")?.is_empty() {
        return Err(RpcError::params(
            "additionalDirectories is not supported; a session of this agent works in one folder, cwd",
        ));
    }
    let servers = items(params, "mcpServers")?.iter();
    let name =
        |server: &Value| shortened(server.get("name").and_then(Value::as_str).unwrap_or("without a name"));
    let servers: Vec<String> = servers.map(name).collect();
    if let Some(name) = servers.first().filter(|_| !without_mcp_servers) {
        return Err(RpcError::params(format!(
            "mcpServers has {name:?}, but this agent uses only the MCP servers in the configuration of the \
             Recount server (mcp_servers of the agent); remove the server from the editor, or start the \
             agent with --without-mcp-servers"
        )));
    }
    Ok(SessionFolder { cwd, left_out: servers })
}

fn absolute(cwd: &str) -> Accepted<String> {
    if !Path::new(cwd).is_absolute() {
        return Err(RpcError::params(format!("cwd is {:?}; send an absolute path", shortened(cwd))));
    }
    Ok(trimmed(cwd).to_owned())
}

/// A path without trailing slashes.
pub(crate) fn trimmed(path: &str) -> &str {
    let short = path.trim_end_matches('/');
    if short.is_empty() { "/" } else { short }
}

pub(crate) fn reopening(params: &Value, without_mcp_servers: bool) -> Accepted<Reopening> {
    Ok(Reopening { session: session(params)?, folder: folder(params, without_mcp_servers)? })
}

pub(crate) fn list(params: &Value) -> Accepted<ListRequest> {
    let cwd = optional(params, "cwd")?.map(|cwd| absolute(&cwd)).transpose()?;
    Ok(ListRequest { cwd, cursor: optional(params, "cursor")? })
}

pub(crate) fn mode(params: &Value) -> Accepted<SettingRequest> {
    let (name, value) = ("mode".to_owned(), field(params, "modeId")?.to_owned());
    Ok(SettingRequest { session: session(params)?, name, value })
}

pub(crate) fn config_option(params: &Value) -> Accepted<SettingRequest> {
    let (name, value) = (field(params, "configId")?.to_owned(), field(params, "value")?.to_owned());
    Ok(SettingRequest { session: session(params)?, name, value })
}

/// The id of the request that `$/cancel_request` is about.
pub(crate) fn cancelled_request(params: &Value) -> Option<&Value> {
    params.get("requestId").filter(|id| id.is_string() || id.is_number())
}

pub(crate) fn prompt(params: &Value, takes_images: bool) -> Accepted<PromptRequest> {
    let session = session(params)?;
    let content = items(params, "prompt")?;
    if content.is_empty() {
        return Err(RpcError::params("prompt is empty; send at least one content block"));
    }
    if content.len() > limits::BLOCKS_MAX {
        let many = content.len();
        return Err(RpcError::params(format!(
            "prompt has {many} blocks; send at most {}",
            limits::BLOCKS_MAX
        )));
    }
    let mut blocks = Vec::new();
    for (at, one) in content.iter().enumerate() {
        let no = |why: &str| RpcError::params(format!("prompt[{at}]: {why}"));
        blocks.push(match one.get("type").and_then(Value::as_str) {
            Some("text") => Block::text(field(one, "text").map_err(|why| no(&why.message))?.to_owned()),
            Some("image") if takes_images => image(one).map_err(|why| no(&why.message))?,
            Some("image") => {
                return Err(no("this agent does not accept images (images in the agent's configuration)"));
            }
            Some("resource_link") => Block::text(link(one).map_err(|why| no(&why.message))?),
            Some("resource") => Block::text(resource(one).map_err(|why| no(&why.message))?),
            Some(other) => {
                return Err(no(&format!(
                    "blocks of type {:?} are not supported; send text, image, resource_link or resource",
                    shortened(other)
                )));
            }
            None => return Err(no("type is missing")),
        });
    }
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let has_image = blocks.iter().any(|block| !matches!(block, Block::Text { .. }));
    if text.trim().is_empty() && !has_image {
        return Err(RpcError::params("prompt has no text"));
    }
    let content = if has_image { Content::Blocks(blocks) } else { Content::Text(text.clone()) };
    Ok(PromptRequest { session, content, text })
}

fn image(block: &Value) -> Accepted<Block> {
    let (data, mime) = (field(block, "data")?, field(block, "mimeType")?);
    Ok(Block::Image { url: format!("data:{mime};base64,{data}") })
}

/// A named file or URL, which the agent reads with its own tools.
fn link(block: &Value) -> Accepted<String> {
    let uri = field(block, "uri")?;
    let name = block.get("name").and_then(Value::as_str).unwrap_or(uri);
    Ok(format!("[@{name}]({})", place(uri)))
}

/// The text of a resource, in a marker.
fn resource(block: &Value) -> Accepted<String> {
    let resource = block.get("resource").ok_or_else(|| RpcError::params("resource is missing"))?;
    let uri = field(resource, "uri")?;
    let Some(Value::String(text)) = resource.get("text") else {
        return Err(RpcError::params(format!(
            "the resource {:?} is binary; send its text, an image, or a resource_link",
            shortened(uri)
        )));
    };
    let uri = place(uri).replace('"', "&quot;");
    Ok(format!("<context uri=\"{uri}\">\n{text}\n</context>"))
}

/// The path of a local file, or the URL unchanged.
fn place(uri: &str) -> &str {
    match uri.strip_prefix("file://") {
        Some(path) if path.starts_with('/') && !path.contains('%') => path,
        _ => uri,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forms_need_the_capability_of_the_editor() {
        let of = |capabilities: Value| {
            initialize(&json!({"protocolVersion": 2, "clientCapabilities": capabilities})).unwrap().has_forms
        };
        assert!(of(json!({"elicitation": {"form": {}}})));
        for without in
            [json!({}), json!({"elicitation": {}}), json!({"elicitation": {"form": null}}), json!(3)]
        {
            assert!(!of(without));
        }
    }

    #[test]
    fn a_prompt_keeps_its_texts_files_and_images() {
        let params = json!({"sessionId": "s", "prompt": [
            {"type": "text", "text": "Look at"},
            {"type": "resource_link", "name": "a.rs", "uri": "file:///w/a.rs"},
            {"type": "resource", "resource": {"uri": "file:///w/b\".rs", "text": "fn b() {}"}},
        ]});
        let accepted = prompt(&params, false).unwrap();
        let text = "Look at\n[@a.rs](/w/a.rs)\n<context uri=\"/w/b&quot;.rs\">\nfn b() {}\n</context>";
        let content = Content::Text(text.into());
        assert_eq!(accepted, PromptRequest { session: "s".into(), content, text: text.into() });

        let params = json!({"sessionId": "s", "prompt": [
            {"type": "image", "mimeType": "image/png", "data": "AAAA"}, {"type": "text", "text": "What is it?"},
        ]});
        let Content::Blocks(blocks) = prompt(&params, true).unwrap().content else { panic!("blocks") };
        assert_eq!(blocks[0], Block::Image { url: "data:image/png;base64,AAAA".into() });
    }

    #[test]
    fn refusals_name_the_field() {
        let one = |block: Value| json!({"sessionId": "s", "prompt": [block]});
        let blob = json!({"type": "resource", "resource": {"uri": "file:///x", "blob": "AA"}});
        let session = |more: Value| {
            let mut params = json!({"cwd": "/w", "mcpServers": []});
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            folder(&params, false).unwrap_err()
        };
        let cases = [
            (prompt(&json!({"sessionId": "s"}), true).unwrap_err(), "prompt is empty"),
            (prompt(&json!({"prompt": []}), true).unwrap_err(), "sessionId is missing"),
            (prompt(&one(json!({"type": "audio"})), true).unwrap_err(), "type \"audio\""),
            (
                prompt(&one(json!({"type": "image", "data": "", "mimeType": ""})), false).unwrap_err(),
                "does not accept images",
            ),
            (
                prompt(&one(json!({"type": "text", "text": 1})), true).unwrap_err(),
                "prompt[0]: text is not a string",
            ),
            (prompt(&one(json!({"type": "text", "text": " "})), true).unwrap_err(), "no text"),
            (prompt(&one(blob), true).unwrap_err(), "is binary"),
            (session(json!({"cwd": "w"})), "cwd is \"w\""),
            (session(json!({"cwd": null})), "cwd is not a string"),
            (session(json!({"additionalDirectories": ["/x"]})), "additionalDirectories"),
            (session(json!({"mcpServers": [{"name": "files"}]})), "mcpServers has \"files\""),
            (session(json!({"mcpServers": {}})), "mcpServers is not a list"),
            (initialize(&json!({})).unwrap_err(), "protocolVersion is missing"),
            (initialize(&json!({"protocolVersion": "1"})).unwrap_err(), "protocolVersion is \"1\""),
            (mode(&json!({"sessionId": "s"})).unwrap_err(), "modeId is missing"),
            (
                config_option(&json!({"sessionId": "s", "configId": "a", "value": true})).unwrap_err(),
                "value is not",
            ),
            (list(&json!({"cwd": "x"})).unwrap_err(), "absolute"),
        ];
        for (why, words) in cases {
            assert_eq!(why.code, crate::error::INVALID_PARAMS, "{why:?}");
            assert!(why.message.contains(words), "{words}: {}", why.message);
        }
    }

    #[test]
    fn slashes_at_the_end_of_a_folder_mean_nothing() {
        let of = |cwd: &str| folder(&json!({"cwd": cwd}), false).unwrap().cwd;
        let left_out =
            folder(&json!({"cwd": "/", "mcpServers": [{"name": "files"}, {}]}), true).unwrap().left_out;
        assert_eq!(left_out, ["files", "without a name"]);
        assert_eq!([of("/w/"), of("/w"), of("/"), of("//")], ["/w", "/w", "/", "/"]);
    }
}
