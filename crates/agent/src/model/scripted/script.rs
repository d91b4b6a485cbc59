//! What a script says: scenes, their turns, and which of them answers a conversation.
//!
//! Look at [`Script::turn_for`]: the choice depends on the request and on nothing else, so it is the same after a
//! restart. It must never know time or tasks. The format is described in docs/scripted-models.md.

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

/// A whole script.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// How turns are said that do not say so themselves.
    #[serde(default)]
    pub pace: Pace,
    /// Tried in order; the first that fits the last user message is played.
    #[serde(default)]
    pub scene: Vec<ScriptedScene>,
    /// Played when no scene fits.
    #[serde(default)]
    pub turn: Vec<Turn>,
    /// Said when the turns are used up.
    #[serde(default = "the_end")]
    pub end: String,
    /// The largest request that is answered, in tokens as [`super::usage`] estimates them; a larger one fails with
    /// `model_context_full`.
    pub context_tokens: Option<u64>,
}

fn the_end() -> String {
    "The script ends here.".to_owned()
}

/// Turns for some conversations.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedScene {
    /// Stands somewhere in the text of the last user message.
    pub when: String,
    #[serde(default)]
    pub turn: Vec<Turn>,
    /// Instead of the script's own.
    pub end: Option<String>,
}

/// How text is cut and how fast it comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Words in a piece.
    pub words: Option<u32>,
    /// Bytes in a piece, or a few more so that no letter is cut. Goes before `words`.
    pub bytes: Option<u32>,
    /// A word is a token; of pieces cut by bytes, four bytes are.
    pub tokens_per_second: Option<f64>,
    /// Silence before the first piece.
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

/// One answer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Answers whenever this stands somewhere in the last tool results, before turns are counted.
    pub when: Option<String>,
    pub thinking: Option<String>,
    pub text: Option<String>,
    #[serde(default)]
    pub call: Vec<ScriptedCall>,
    /// Images that the model makes, after its text.
    #[serde(default)]
    pub image: Vec<ScriptedImage>,
    pub usage: Option<ScriptedUsage>,
    pub stop: Option<StopReason>,
    pub failure: Option<ScriptedFailure>,
    #[serde(default)]
    pub pace: Pace,
}

/// A call that the model makes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    pub name: String,
    pub input: Option<Value>,
    /// The input as the model writes it, which need not be JSON. Instead of `input`.
    pub raw: Option<String>,
    /// What the model calls this call; made up, and the same every time, when nothing is said.
    pub id: Option<String>,
}

/// An image that the model makes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedImage {
    pub mime: String,
    pub base64: String,
}

/// What an answer is said to have used; estimated when nothing is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedUsage {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    #[serde(default)]
    pub cached_input_tokens: u64,
}

/// An attempt that comes to nothing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedFailure {
    pub how: FailureKind,
    /// What the provider answers. Only for `status`.
    pub status: Option<u16>,
    pub message: Option<String>,
    pub retry_after_ms: Option<u64>,
    /// Instead of what the kind implies.
    pub retriable: Option<bool>,
    /// Pieces of the turn that are still said.
    #[serde(default)]
    pub after: u32,
    /// Attempts at the same conversation that fail, before one succeeds; all of them when nothing is said.
    pub times: Option<u32>,
}

/// The ways to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// An answer with a status that is not a good one.
    Status,
    /// The stream ends in the middle.
    Cut,
    /// Nothing more comes, until patience ends.
    Silent,
    /// Something comes that nobody can read.
    Malformed,
    /// Nobody listens there.
    Unreachable,
}

/// Why a script cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    #[error("cannot read the script {path}: {why}; give a TOML file or a folder of them", path = .path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("the script {path} is larger than {limit} bytes (SCRIPT_BYTES_MAX)", path = .path.display())]
    TooLarge { path: PathBuf, limit: usize },
    #[error("the folder {path} holds more than {limit} scripts (SCRIPTS_MAX)", path = .path.display())]
    TooMany { path: PathBuf, limit: usize },
    #[error("the folder {path} holds no script; put a file such as NAME.toml there", path = .path.display())]
    Empty { path: PathBuf },
    #[error("the script {path} is not as it should be: {why}", path = .path.display())]
    Wrong { path: PathBuf, why: String },
}

/// The turn that answers a request, and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ScriptPosition {
    Turn {
        scene: Option<usize>,
        turn: usize,
    },
    /// The turns are used up.
    End {
        scene: Option<usize>,
    },
}

impl Script {
    /// Reads a script and checks what the types do not.
    pub fn parse(text: &str) -> Result<Script, String> {
        let script: Script = toml::from_str(text).map_err(|why| why.to_string())?;
        let scenes = script.scene.iter().map(|scene| (format!("scene {:?}", scene.when), &scene.turn));
        for (name, turns) in scenes.chain([("script".to_owned(), &script.turn)]) {
            for (at, turn) in turns.iter().enumerate() {
                turn.check().map_err(|why| format!("turn {} of the {name}: {why}", at + 1))?;
            }
        }
        script.pace.check()?;
        Ok(script)
    }

    /// Which turn answers. The n-th answer since the user last spoke is the n-th turn that waits for nothing.
    pub(super) fn turn_for(&self, request: &Request) -> ScriptPosition {
        let said = last_user_text(request);
        let scene = self.scene.iter().position(|scene| said.contains(&scene.when));
        let turns = scene.map_or(&self.turn, |scene| &self.scene[scene].turn);
        let results = last_results(request);
        let waiting = turns
            .iter()
            .position(|turn| turn.when.as_ref().is_some_and(|when| results.iter().any(|r| r.contains(when))));
        let turn = waiting.or_else(|| {
            let answered = answers_since_user(request);
            turns.iter().enumerate().filter(|(_, turn)| turn.when.is_none()).map(|(at, _)| at).nth(answered)
        });
        turn.map_or(ScriptPosition::End { scene }, |turn| ScriptPosition::Turn { scene, turn })
    }

    /// What stands at a place. The end is a turn that says the last words.
    pub(super) fn at(&self, place: ScriptPosition) -> Turn {
        match place {
            ScriptPosition::Turn { scene: None, turn } => self.turn[turn].clone(),
            ScriptPosition::Turn { scene: Some(scene), turn } => self.scene[scene].turn[turn].clone(),
            ScriptPosition::End { scene } => {
                let own = scene.and_then(|scene| self.scene[scene].end.as_ref());
                Turn { text: Some(own.unwrap_or(&self.end).clone()), ..Turn::default() }
            }
        }
    }
}

impl Turn {
    fn check(&self) -> Result<(), String> {
        self.pace.check()?;
        for call in &self.call {
            if call.input.is_some() && call.raw.is_some() {
                return Err(format!("the call of {:?} has both input and raw; leave one out", call.name));
            }
        }
        if self.image.iter().any(|image| STANDARD.decode(&image.base64).is_err()) {
            return Err("an image has bytes in base64".into());
        }
        if let Some(failure) = &self.failure {
            let has_status = failure.status.is_some();
            if has_status != (failure.how == FailureKind::Status) {
                return Err("a failure has a status when, and only when, how = \"status\"".into());
            }
            if failure.status.is_some_and(|status| !(400..600).contains(&status)) {
                return Err("the status of a failure is 400 to 599".into());
            }
        }
        Ok(())
    }
}

impl Pace {
    fn check(&self) -> Result<(), String> {
        if self.words == Some(0) || self.bytes == Some(0) {
            return Err("a piece has at least one word or byte".into());
        }
        let most = limits::SCRIPT_DELAY_MAX;
        if self.delay_ms.is_some_and(|delay| Duration::from_millis(delay) > most) {
            return Err(format!("delay_ms is at most {}", most.as_millis()));
        }
        match self.tokens_per_second {
            Some(rate) if !(limits::SCRIPT_TOKENS_PER_SECOND_MIN..=1e6).contains(&rate) => Err(format!(
                "tokens_per_second is {} to 1000000, not {rate}",
                limits::SCRIPT_TOKENS_PER_SECOND_MIN
            )),
            _ => Ok(()),
        }
    }
}

/// Reads one script, or all of a folder by name. A script alone has no name.
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
    Script::parse(&text).map_err(|why| ScriptError::Wrong { path: path.into(), why })
}

/// Answers given since the user last spoke.
fn answers_since_user(request: &Request) -> usize {
    let since = request.messages.iter().rev().take_while(|message| !matches!(message, Message::User(_)));
    since.filter(|message| matches!(message, Message::Assistant { .. })).count()
}

/// What the user said last, which may be several messages in a row.
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

/// What tools gave since the last answer.
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
