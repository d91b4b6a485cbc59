//! Content that may hold pictures which the server keeps. Events name them by artifact; the protocol knows addresses
//! only, so whoever reads the artifacts puts them in.

use std::collections::BTreeMap;

use recount_event::{ForeignId, Json};
use serde::Deserialize;

use crate::wire::{Content, ContentBlock};

/// A picture by its artifact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageRef {
    pub artifact_id: ForeignId,
    pub mime: Option<String>,
}

/// Addresses of pictures that are kept, as `data:` URLs. One that is not here is told in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pictures(BTreeMap<ForeignId, String>);

impl Pictures {
    pub fn put(&mut self, artifact_id: ForeignId, url: String) {
        self.0.insert(artifact_id, url);
    }

    pub fn has(&self, artifact_id: &ForeignId) -> bool {
        self.0.contains_key(artifact_id)
    }
}

/// What a message or a result says, pictures not put in yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    Text(String),
    Blocks(Vec<Piece>),
}

/// One block of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Block(ContentBlock),
    Picture(ImageRef),
}

/// A block as events hold it.
#[derive(Deserialize)]
struct Kept {
    r#type: String,
    text: Option<String>,
    url: Option<String>,
    artifact_id: Option<ForeignId>,
    mime: Option<String>,
}

impl Shown {
    /// An output as the model was told it: a text, blocks, or anything else, which is told as the JSON that it is.
    pub fn of(output: &Json) -> Self {
        let text = output.text();
        if text.starts_with('"')
            && let Ok(words) = serde_json::from_str(text)
        {
            return Shown::Text(words);
        }
        let blocks = match text.starts_with('[') {
            true => serde_json::from_str::<Vec<Json>>(text).unwrap_or_default(),
            false => Vec::new(),
        };
        let pieces: Option<Vec<Piece>> = blocks.iter().map(Piece::of).collect();
        match pieces {
            Some(pieces) if !pieces.is_empty() => Shown::Blocks(pieces),
            _ => Shown::Text(text.to_owned()),
        }
    }

    /// Blocks of a message; one of a kind that the protocol does not have is told in words.
    pub fn of_blocks(blocks: &[Json]) -> Self {
        Shown::Blocks(
            blocks.iter().map(|block| Piece::of(block).unwrap_or_else(|| Piece::words(block))).collect(),
        )
    }

    /// The pictures that it needs.
    pub fn pictures(&self) -> impl Iterator<Item = &ImageRef> {
        let pieces = match self {
            Shown::Text(_) => &[],
            Shown::Blocks(pieces) => pieces.as_slice(),
        };
        pieces.iter().filter_map(|piece| match piece {
            Piece::Block(_) => None,
            Piece::Picture(picture) => Some(picture),
        })
    }

    /// As it goes out.
    pub fn with(&self, pictures: &Pictures) -> Content {
        match self {
            Shown::Text(text) => Content::Text(text.clone()),
            Shown::Blocks(pieces) => {
                Content::Blocks(pieces.iter().map(|piece| piece.with(pictures)).collect())
            }
        }
    }
}

impl Piece {
    fn of(block: &Json) -> Option<Piece> {
        let kept: Kept = serde_json::from_str(block.text()).ok()?;
        match kept.r#type.as_str() {
            "text" => kept.text.map(|text| Piece::Block(ContentBlock::text(text))),
            "image" => match (kept.artifact_id, kept.url) {
                (Some(artifact_id), _) => Some(Piece::Picture(ImageRef { artifact_id, mime: kept.mime })),
                (None, Some(url)) => Some(Piece::Block(ContentBlock::Image { url })),
                (None, None) => None,
            },
            _ => None,
        }
    }

    fn words(block: &Json) -> Piece {
        let kept: Option<Kept> = serde_json::from_str(block.text()).ok();
        let text = match kept {
            Some(Kept { r#type, artifact_id: Some(artifact_id), mime, .. }) => {
                let mime = mime.map(|mime| format!(", {mime}")).unwrap_or_default();
                format!("[{} {artifact_id}{mime}]", r#type)
            }
            _ => block.text().to_owned(),
        };
        Piece::Block(ContentBlock::text(text))
    }

    fn with(&self, pictures: &Pictures) -> ContentBlock {
        match self {
            Piece::Block(block) => block.clone(),
            Piece::Picture(ImageRef { artifact_id, .. }) => match pictures.0.get(artifact_id) {
                Some(url) => ContentBlock::Image { url: url.clone() },
                None => ContentBlock::text(format!("[the picture {artifact_id} is not kept any more]")),
            },
        }
    }
}
