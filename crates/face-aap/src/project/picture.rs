//! Content with stored pictures. Events name pictures by artifact and the protocol by URL, so the caller reads the
//! artifacts and resolves them. Pure.

use std::collections::BTreeMap;

use recount_event::{ForeignId, Json};
use serde::Deserialize;

use crate::wire::{Content, ContentBlock};

/// A reference to a picture by its artifact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageRef {
    pub artifact_id: ForeignId,
    pub mime: Option<String>,
}

/// Stored pictures as `data:` URLs. A missing one is replaced by text.
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

/// The content of a message or a result, with pictures unresolved.
#[derive(Debug, Clone, PartialEq)]
pub enum UnresolvedContent {
    Text(String),
    Blocks(Vec<UnresolvedBlock>),
}

/// One block of it.
#[derive(Debug, Clone, PartialEq)]
pub enum UnresolvedBlock {
    Block(ContentBlock),
    Picture(ImageRef),
}

/// A block as events hold it.
#[derive(Deserialize)]
struct StoredBlock {
    r#type: String,
    text: Option<String>,
    url: Option<String>,
    artifact_id: Option<ForeignId>,
    mime: Option<String>,
}

impl UnresolvedContent {
    /// An output as the model received it: a text, blocks, or other values as JSON.
    pub fn of(output: &Json) -> Self {
        let text = output.text();
        if text.starts_with('"')
            && let Ok(words) = serde_json::from_str(text)
        {
            return UnresolvedContent::Text(words);
        }
        let blocks = match text.starts_with('[') {
            true => serde_json::from_str::<Vec<Json>>(text).unwrap_or_default(),
            false => Vec::new(),
        };
        let pieces: Option<Vec<UnresolvedBlock>> = blocks.iter().map(UnresolvedBlock::of).collect();
        match pieces {
            Some(pieces) if !pieces.is_empty() => UnresolvedContent::Blocks(pieces),
            _ => UnresolvedContent::Text(text.to_owned()),
        }
    }

    /// The blocks of a message; kinds that the protocol does not have become text.
    pub fn of_blocks(blocks: &[Json]) -> Self {
        UnresolvedContent::Blocks(
            blocks
                .iter()
                .map(|block| UnresolvedBlock::of(block).unwrap_or_else(|| UnresolvedBlock::words(block)))
                .collect(),
        )
    }

    /// The unresolved pictures.
    pub fn pictures(&self) -> impl Iterator<Item = &ImageRef> {
        let pieces = match self {
            UnresolvedContent::Text(_) => &[],
            UnresolvedContent::Blocks(pieces) => pieces.as_slice(),
        };
        pieces.iter().filter_map(|piece| match piece {
            UnresolvedBlock::Block(_) => None,
            UnresolvedBlock::Picture(picture) => Some(picture),
        })
    }

    /// The content with its pictures.
    pub fn with(&self, pictures: &Pictures) -> Content {
        match self {
            UnresolvedContent::Text(text) => Content::Text(text.clone()),
            UnresolvedContent::Blocks(pieces) => {
                Content::Blocks(pieces.iter().map(|piece| piece.with(pictures)).collect())
            }
        }
    }
}

impl UnresolvedBlock {
    fn of(block: &Json) -> Option<UnresolvedBlock> {
        let kept: StoredBlock = serde_json::from_str(block.text()).ok()?;
        match kept.r#type.as_str() {
            "text" => kept.text.map(|text| UnresolvedBlock::Block(ContentBlock::text(text))),
            "image" => match (kept.artifact_id, kept.url) {
                (Some(artifact_id), _) => {
                    Some(UnresolvedBlock::Picture(ImageRef { artifact_id, mime: kept.mime }))
                }
                (None, Some(url)) => Some(UnresolvedBlock::Block(ContentBlock::Image { url })),
                (None, None) => None,
            },
            _ => None,
        }
    }

    fn words(block: &Json) -> UnresolvedBlock {
        let kept: Option<StoredBlock> = serde_json::from_str(block.text()).ok();
        let text = match kept {
            Some(StoredBlock { r#type, artifact_id: Some(artifact_id), mime, .. }) => {
                let mime = mime.map(|mime| format!(", {mime}")).unwrap_or_default();
                format!("[{} {artifact_id}{mime}]", r#type)
            }
            _ => block.text().to_owned(),
        };
        UnresolvedBlock::Block(ContentBlock::text(text))
    }

    fn with(&self, pictures: &Pictures) -> ContentBlock {
        match self {
            UnresolvedBlock::Block(block) => block.clone(),
            UnresolvedBlock::Picture(ImageRef { artifact_id, .. }) => match pictures.0.get(artifact_id) {
                Some(url) => ContentBlock::Image { url: url.clone() },
                None => ContentBlock::text(format!("[image {artifact_id} is no longer stored]")),
            },
        }
    }
}
