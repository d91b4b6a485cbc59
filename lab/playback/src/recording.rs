//! Loads recordings from files, and selects the one for a request.
//!
//! Start at [`Shelf`]. The module must not depend on sockets.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use crate::limits;

/// The responses of a provider in order; the last one is repeated.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// A description for people.
    pub about: String,
    pub api: Api,
    pub answer: Vec<RecordedResponse>,
}

/// The protocol of a recording, which decides its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    Anthropic,
    OpenAi,
}

/// One response.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedResponse {
    #[serde(default = "good")]
    pub status: u16,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body, sent unchanged. Each of its events is a chunk.
    #[serde(default)]
    pub body: String,
    /// The delay before each chunk except the first.
    #[serde(default)]
    pub pause_ms: u64,
    /// Bytes of a chunk, instead of events.
    pub chunk_bytes: Option<usize>,
    /// The number of letters that replace `{filler}` in the body, for texts that are too long for a file.
    #[serde(default)]
    pub filler_bytes: usize,
    #[serde(default)]
    pub end: End,
}

fn good() -> u16 {
    200
}

/// What happens after the last chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The response ends normally.
    #[default]
    Whole,
    /// The connection is closed in the middle.
    Cut,
    /// Nothing is sent until the client disconnects.
    Hang,
}

/// Why a recording cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("cannot read {path}: {why}", path = .path.display())]
    Unreadable { path: PathBuf, why: std::io::Error },
    #[error("{path} is no recording: {why}", path = .path.display())]
    Wrong { path: PathBuf, why: String },
    #[error("{path} holds no recording; put a file such as NAME.toml there", path = .path.display())]
    Empty { path: PathBuf },
}

/// Recordings by requested model. The model `""` matches all others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shelf {
    pub by_model: BTreeMap<String, Recording>,
}

impl Shelf {
    /// One recording for all models.
    pub fn of(recording: Recording) -> Self {
        Shelf { by_model: BTreeMap::from([(String::new(), recording)]) }
    }

    /// Loads recordings: each file is a model with its name; of a folder, each `NAME.toml` in it. A single file matches
    /// all models.
    pub fn load(places: &[PathBuf]) -> Result<Self, RecordingError> {
        let mut files = Vec::new();
        for place in places {
            if place.is_dir() {
                files.extend(files_of(place)?);
            } else {
                files.push(place.clone());
            }
        }
        if let [only] = files.as_slice()
            && places == [only.clone()]
        {
            return Ok(Shelf::of(Recording::load(only)?));
        }
        let mut shelf = Shelf::default();
        for file in files {
            let name = file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            shelf.by_model.insert(name, Recording::load(&file)?);
        }
        Ok(shelf)
    }

    pub(crate) fn find(&self, model: &str) -> Option<(&str, &Recording)> {
        let found = self.by_model.get_key_value(model).or_else(|| self.by_model.get_key_value(""));
        found.map(|(name, recording)| (name.as_str(), recording))
    }
}

impl Recording {
    /// Reads one file.
    pub fn load(path: &Path) -> Result<Self, RecordingError> {
        let unreadable = |why| RecordingError::Unreadable { path: path.into(), why };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(limits::RECORDING_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
        Recording::parse(&text).map_err(|why| RecordingError::Wrong { path: path.into(), why })
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let recording: Recording = toml::from_str(text).map_err(|why| why.to_string())?;
        if recording.answer.is_empty() {
            return Err("it has no answer; add [[answer]]".into());
        }
        for answer in &recording.answer {
            if !(200..600).contains(&answer.status) {
                return Err(format!("{} is no status of an answer", answer.status));
            }
            if answer.chunk_bytes == Some(0) || answer.filler_bytes > limits::FILLER_BYTES_MAX {
                return Err(format!("a chunk has bytes, and filler at most {}", limits::FILLER_BYTES_MAX));
            }
        }
        Ok(recording)
    }

    /// The response to the n-th request, from 0.
    pub(crate) fn answer(&self, number: usize) -> &RecordedResponse {
        &self.answer[number.min(self.answer.len() - 1)]
    }
}

impl RecordedResponse {
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_ms)
    }

    /// The body split into chunks.
    pub(crate) fn chunks(&self) -> Vec<Bytes> {
        let body = self.body.replace("{filler}", &"x".repeat(self.filler_bytes));
        match self.chunk_bytes {
            Some(bytes) => body.as_bytes().chunks(bytes).map(Bytes::copy_from_slice).collect(),
            None => body.split_inclusive("\n\n").map(|event| Bytes::from(event.to_owned())).collect(),
        }
    }
}

/// The folder of the recordings that come with the source.
pub fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings")
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, RecordingError> {
    let unreadable = |why| RecordingError::Unreadable { path: folder.into(), why };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|end| end == "toml") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(RecordingError::Empty { path: folder.into() }) } else { Ok(files) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recording_that_comes_with_the_source_can_be_played() {
        let mut names = Vec::new();
        for api in ["anthropic", "openai"] {
            let shelf = Shelf::load(&[recordings().join(api)]).unwrap();
            names.push(shelf.by_model.into_keys().collect::<Vec<_>>());
        }
        let missing: Vec<&String> = names[0].iter().filter(|name| !names[1].contains(name)).collect();
        assert!(missing.is_empty(), "only one protocol has {missing:?}");
    }

    #[test]
    fn invalid_recordings_are_refused() {
        let head = "about = \"\"\napi = \"openai\"\n";
        for (text, why) in [
            ("", "missing field"),
            ("answer = []", "no answer"),
            ("[[answer]]\nstatus = 99", "99 is no status"),
            ("[[answer]]\nchunk_bytes = 0", "a chunk has bytes"),
            ("[[answer]]\nend = \"maybe\"", "unknown variant"),
        ] {
            let refused = Recording::parse(&format!("{head}{text}")).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn bodies_are_cut_at_events_or_bytes() {
        let answer = |text: &str| {
            let text = format!("about = \"\"\napi = \"openai\"\n[[answer]]\n{text}");
            Recording::parse(&text).unwrap().answer[0].chunks()
        };
        assert_eq!(answer(r#"body = "a\n\nb{filler}\n\n""#), ["a\n\n", "b\n\n"]);
        assert_eq!(answer("body = \"abc{filler}\"\nchunk_bytes = 2\nfiller_bytes = 2"), ["ab", "cx", "x"]);
        assert_eq!(answer(""), Vec::<Bytes>::new());
    }
}
