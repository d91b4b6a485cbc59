//! The format of scripts: reads scenes and turns, and chooses the turn for a request.
//!
//! The choice depends only on the request, so it is the same after a restart. It must not use time or tasks.
//! docs/scripted-models.md describes the format. Start with [`Script::turn_for`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_event::family::turn::StopReason;
use serde::Deserialize;
use serde_json::Value;

use super::super::{Message, Part, Request};
use crate::model::limits;
use crate::toml_error::one_line;

/// A script.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The default pace of turns.
    #[serde(default)]
    pub pace: Pace,
    /// Tried in order; the first one that matches the last user message is used.
    #[serde(default)]
    pub scene: Vec<ScriptedScene>,
    /// Used when no scene matches.
    #[serde(default)]
    pub turn: Vec<Turn>,
    /// The text after the last turn.
    #[serde(default = "default_end")]
    pub end: String,
    /// The largest accepted request, in tokens as [`super::usage`] estimates them; a larger one fails with
    /// `model_context_full`.
    pub context_tokens: Option<u64>,
}

fn default_end() -> String {
    "The script ends here.".to_owned()
}

/// Turns for some conversations.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedScene {
    /// A text that the last user message must contain.
    pub when: String,
    #[serde(default)]
    pub turn: Vec<Turn>,
    /// Replaces the end of the script.
    pub end: Option<String>,
}

/// How text is divided into pieces, and how fast they are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Words in a piece.
    pub words: Option<u32>,
    /// Bytes in a piece, or a few more so that no character is cut. Overrides `words`.
    pub bytes: Option<u32>,
    /// A token is a word, or four bytes if pieces are in bytes.
    pub tokens_per_second: Option<f64>,
    /// The delay before the first piece.
    pub delay_ms: Option<u64>,
}

impl Pace {
    pub(super) fn or(self, other: Pace) -> Pace {
        let cut = if self.words.is_some() || self.bytes.is_some() { self } else { other };
        Pace {
            words: cut.words,
            bytes: cut.bytes,
            tokens_per_second: self.tokens_per_second.or(other.tokens_per_second),
            delay_ms: self.delay_ms.or(other.delay_ms),
        }
    }
}

/// One response.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Used whenever the last tool results contain this text, before turns are counted.
    pub when: Option<String>,
    pub thinking: Option<String>,
    pub text: Option<String>,
    #[serde(default)]
    pub call: Vec<ScriptedCall>,
    /// Generated images, after the text.
    #[serde(default)]
    pub image: Vec<ScriptedImage>,
    pub usage: Option<ScriptedUsage>,
    pub stop: Option<StopReason>,
    pub failure: Option<ScriptedFailure>,
    #[serde(default)]
    pub pace: Pace,
}

/// A call of the model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    pub name: String,
    pub input: Option<Value>,
    /// The input as text, which may not be JSON. Replaces `input`.
    pub raw: Option<String>,
    /// The id of the call; the default is generated and always the same.
    pub id: Option<String>,
}

/// A generated image.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedImage {
    pub mime: String,
    pub base64: String,
}

/// The usage of a response; missing figures are estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedUsage {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    #[serde(default)]
    pub cached_input_tokens: u64,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedFailure {
    pub how: FailureKind,
    /// The HTTP status. Only for `status`.
    pub status: Option<u16>,
    pub message: Option<String>,
    pub retry_after_ms: Option<u64>,
    /// Overrides the default of the kind.
    pub retriable: Option<bool>,
    /// Pieces of the turn that are sent before the failure.
    #[serde(default)]
    pub after: u32,
    /// Attempts at the same conversation that fail before one succeeds; by default all of them.
    pub times: Option<u32>,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A response with an error status.
    Status,
    /// The stream ends in the middle.
    Cut,
    /// No more data arrives until the timeout.
    Silent,
    /// Unreadable data.
    Malformed,
    /// The connection is refused.
    Unreachable,
}

/// Why a script cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    #[error("cannot read the script {path}: {why}; give a TOML file or a folder of TOML files", path = .path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("the script {path} is larger than {limit} bytes (SCRIPT_BYTES_MAX)", path = .path.display())]
    TooLarge { path: PathBuf, limit: usize },
    #[error("the folder {path} has more than {limit} scripts (SCRIPTS_MAX)", path = .path.display())]
    TooMany { path: PathBuf, limit: usize },
    #[error("the folder {path} has no scripts; add a file such as NAME.toml", path = .path.display())]
    Empty { path: PathBuf },
    #[error("the script {path} is invalid: {why}", path = .path.display())]
    Invalid { path: PathBuf, why: String },
}

/// The position of the turn for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ScriptPosition {
    Turn {
        scene: Option<usize>,
        turn: usize,
    },
    /// After the last turn.
    End {
        scene: Option<usize>,
    },
}

impl Script {
    /// Parses and validates a script.
    pub fn parse(text: &str) -> Result<Script, String> {
        let script: Script = toml::from_str(text).map_err(|why| one_line(&why, text))?;
        let scenes = script.scene.iter().map(|scene| (format!("scene {:?}", scene.when), &scene.turn));
        for (name, turns) in scenes.chain([("script".to_owned(), &script.turn)]) {
            for (at, turn) in turns.iter().enumerate() {
                turn.check().map_err(|why| format!("turn {} of the {name}: {why}", at + 1))?;
            }
        }
        script.pace.check()?;
        Ok(script)
    }

    /// The turn for a request. The n-th response since the last user message is the n-th turn without `when`.
    pub(super) fn turn_for(&self, request: &Request) -> ScriptPosition {
        let user_text = last_user_text(request);
        let scene = self.scene.iter().position(|scene| user_text.contains(&scene.when));
        let turns = scene.map_or(&self.turn, |scene| &self.scene[scene].turn);
        let results = last_results(request);
        let matching = turns
            .iter()
            .position(|turn| turn.when.as_ref().is_some_and(|when| results.iter().any(|r| r.contains(when))));
        let turn = matching.or_else(|| {
            let sent = responses_since_user(request);
            turns.iter().enumerate().filter(|(_, turn)| turn.when.is_none()).map(|(at, _)| at).nth(sent)
        });
        turn.map_or(ScriptPosition::End { scene }, |turn| ScriptPosition::Turn { scene, turn })
    }

    /// The turn at a position. The end is a turn with the end text.
    pub(super) fn at(&self, position: ScriptPosition) -> Turn {
        match position {
            ScriptPosition::Turn { scene: None, turn } => self.turn[turn].clone(),
            ScriptPosition::Turn { scene: Some(scene), turn } => self.scene[scene].turn[turn].clone(),
            ScriptPosition::End { scene } => {
                let scene_end = scene.and_then(|scene| self.scene[scene].end.as_ref());
                Turn { text: Some(scene_end.unwrap_or(&self.end).clone()), ..Turn::default() }
            }
        }
    }
}

impl Turn {
    fn check(&self) -> Result<(), String> {
        self.pace.check()?;
        for call in &self.call {
            if call.input.is_some() && call.raw.is_some() {
                return Err(format!("the call of {:?} has both input and raw; remove one", call.name));
            }
        }
        if self.image.iter().any(|image| STANDARD.decode(&image.base64).is_err()) {
            return Err("the bytes of an image must be base64".into());
        }
        if let Some(failure) = &self.failure {
            let has_status = failure.status.is_some();
            if has_status != (failure.how == FailureKind::Status) {
                return Err("a failure needs a status if, and only if, how = \"status\"".into());
            }
            if failure.status.is_some_and(|status| !(400..600).contains(&status)) {
                return Err("the status of a failure must be 400 to 599".into());
            }
        }
        Ok(())
    }
}

impl Pace {
    fn check(&self) -> Result<(), String> {
        if self.words == Some(0) || self.bytes == Some(0) {
            return Err("a piece must have at least one word or byte".into());
        }
        let most = limits::SCRIPT_DELAY_MAX;
        if self.delay_ms.is_some_and(|delay| Duration::from_millis(delay) > most) {
            return Err(format!("delay_ms must be at most {}", most.as_millis()));
        }
        match self.tokens_per_second {
            Some(rate) if !(limits::SCRIPT_TOKENS_PER_SECOND_MIN..=1e6).contains(&rate) => Err(format!(
                "tokens_per_second is {rate}; it must be {} to 1000000",
                limits::SCRIPT_TOKENS_PER_SECOND_MIN
            )),
            _ => Ok(()),
        }
    }
}

/// Reads one script without a name, or all scripts of a folder by name.
pub(super) fn load(path: &Path) -> Result<BTreeMap<Option<String>, Script>, ScriptError> {
    let unreadable = |path: &Path, why: std::io::Error| ScriptError::Unreadable {
        path: path.into(),
        why: why.to_string(),
    };
    let mut scripts = BTreeMap::new();
    if !path.is_dir() {
        scripts.insert(None, read(path)?);
        return Ok(scripts);
    }
    for entry in std::fs::read_dir(path).map_err(|why| unreadable(path, why))? {
        let file = entry.map_err(|why| unreadable(path, why))?.path();
        let name = file.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
        let (Some(name), Some("toml")) = (name, file.extension().and_then(|end| end.to_str())) else {
            continue;
        };
        if scripts.len() == limits::SCRIPTS_MAX {
            return Err(ScriptError::TooMany { path: path.into(), limit: limits::SCRIPTS_MAX });
        }
        scripts.insert(Some(name), read(&file)?);
    }
    if scripts.is_empty() { Err(ScriptError::Empty { path: path.into() }) } else { Ok(scripts) }
}

fn read(path: &Path) -> Result<Script, ScriptError> {
    use std::io::Read as _;
    let unreadable =
        |why: std::io::Error| ScriptError::Unreadable { path: path.into(), why: why.to_string() };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    let limit = limits::SCRIPT_BYTES_MAX;
    file.take(limit as u64 + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() > limit {
        return Err(ScriptError::TooLarge { path: path.into(), limit });
    }
    Script::parse(&text).map_err(|why| ScriptError::Invalid { path: path.into(), why })
}

/// The number of responses since the last user message.
fn responses_since_user(request: &Request) -> usize {
    let since = request.messages.iter().rev().take_while(|message| !matches!(message, Message::User(_)));
    since.filter(|message| matches!(message, Message::Assistant { .. })).count()
}

/// The text of the last user messages, which may be several in a row.
fn last_user_text(request: &Request) -> String {
    let mut messages =
        request.messages.iter().rev().skip_while(|message| !matches!(message, Message::User(_)));
    let mut texts = Vec::new();
    while let Some(Message::User(parts)) = messages.next() {
        texts.push(text_of(parts));
    }
    texts.reverse();
    texts.join("\n")
}

/// The tool results since the last response.
fn last_results(request: &Request) -> Vec<String> {
    match request.messages.last() {
        Some(Message::Results(results)) => results.iter().map(|result| text_of(&result.parts)).collect(),
        _ => Vec::new(),
    }
}

fn text_of(parts: &[Part]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Image { .. } | Part::ImageUrl(_) => None,
        })
        .collect();
    texts.join("\n")
}
