//! Images that a model makes: kept as artifacts of the run, and named in its log.
//!
//! Only where the setting is on; otherwise they are dropped, and `turn.completed` says so. Look at [`ModelImages`]. It must
//! not know providers.

use bytes::Bytes;
use recount_engine::Keep;
use recount_event::family::assistant::ImageBlock;
use recount_event::{Draft, Payload};

use crate::limits;
use crate::worker::Worker;

/// What a client without images shows.
const SUMMARY: &str = "an image that the model made";

/// The types of images that are kept.
const MIMES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/gif"];

/// The images of one turn.
#[derive(Default)]
pub(crate) struct ModelImages {
    is_on: bool,
    kept: Vec<(String, Bytes)>,
}

impl ModelImages {
    pub(crate) fn new(is_on: bool) -> Self {
        ModelImages { is_on, kept: Vec::new() }
    }

    /// Takes an image in. `false`: it is dropped.
    pub(crate) fn take(&mut self, mime: String, bytes: Bytes) -> bool {
        let fits = self.is_on
            && self.kept.len() < limits::MODEL_IMAGES_MAX
            && (1..=limits::PICTURE_BYTES_MAX).contains(&bytes.len())
            && MIMES.contains(&mime.as_str());
        if fits {
            self.kept.push((mime, bytes));
        }
        fits
    }
}

impl Worker {
    /// Keeps the images of a turn, and adds what names them. `false`: one could not be kept.
    pub(crate) async fn keep_model_images(
        &self,
        turn_index: u64,
        images: ModelImages,
        drafts: &mut Vec<Draft>,
    ) -> bool {
        let mut all = true;
        for (mime, bytes) in images.kept {
            let keep = Keep {
                kind: "image".to_owned(),
                mime: mime.clone(),
                summary: Some(SUMMARY.to_owned()),
                name: None,
                bytes,
                original_size_bytes: None,
                call: None,
                target: None,
            };
            match self.desk.write().keep(self.desk.run(), keep).await {
                Ok(kept) => {
                    drafts.push(kept.created);
                    let mut block = ImageBlock::new(turn_index, kept.id);
                    (block.mime, block.summary) = (Some(mime), Some(SUMMARY.to_owned()));
                    drafts.push(Payload::AssistantImageBlock(Box::new(block)).into());
                }
                Err(error) => {
                    tracing::warn!(run = %self.desk.run(), %error, "an image of the model could not be kept");
                    all = false;
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_images_of_known_types_are_kept_and_none_without_the_setting() {
        let take = |images: &mut ModelImages, mime: &str, bytes: usize| {
            images.take(mime.to_owned(), Bytes::from(vec![0; bytes]))
        };
        let mut images = ModelImages::new(true);
        assert!(!take(&mut images, "image/svg+xml", 9) && !take(&mut images, "image/png", 0));
        assert!(!take(&mut images, "image/png", limits::PICTURE_BYTES_MAX + 1));
        for _ in 0..limits::MODEL_IMAGES_MAX {
            assert!(take(&mut images, "image/png", 9));
        }
        assert!(!take(&mut images, "image/png", 9));
        assert!(!take(&mut ModelImages::new(false), "image/png", 9));
    }
}
