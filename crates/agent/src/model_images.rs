//! Stores images that a model generates as artifacts of the run, and names them in its log.
//!
//! Without the setting they are dropped, and `turn.completed` reports it. It must not know providers. Start with
//! [`ModelImages`].

use bytes::Bytes;
use recount_engine::ArtifactInput;
use recount_event::family::assistant::ImageBlock;
use recount_event::{Draft, Payload};

use crate::limits;
use crate::worker::Worker;

/// The text for clients that do not show images.
const SUMMARY: &str = "an image from the model";

/// The accepted image types.
const MIMES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/gif"];

/// The images of one turn.
#[derive(Default)]
pub(crate) struct ModelImages {
    is_on: bool,
    accepted: Vec<(String, Bytes)>,
}

impl ModelImages {
    pub(crate) fn new(is_on: bool) -> Self {
        ModelImages { is_on, accepted: Vec::new() }
    }

    /// Adds an image. `false`: it is dropped.
    pub(crate) fn add(&mut self, mime: String, bytes: Bytes) -> bool {
        let fits = self.is_on
            && self.accepted.len() < limits::MODEL_IMAGES_MAX
            && (1..=limits::PICTURE_BYTES_MAX).contains(&bytes.len())
            && MIMES.contains(&mime.as_str());
        if fits {
            self.accepted.push((mime, bytes));
        }
        fits
    }
}

impl Worker {
    /// Stores the images of a turn and adds their events. `false`: at least one could not be stored.
    pub(crate) async fn store_model_images(
        &self,
        turn_index: u64,
        images: ModelImages,
        drafts: &mut Vec<Draft>,
    ) -> bool {
        let mut all_stored = true;
        for (mime, bytes) in images.accepted {
            let keep = ArtifactInput {
                kind: "image".to_owned(),
                mime: mime.clone(),
                summary: Some(SUMMARY.to_owned()),
                name: None,
                bytes,
                original_size_bytes: None,
                call: None,
                target: None,
            };
            match self.worker_session.write().store_artifact(self.worker_session.run(), keep).await {
                Ok(stored) => {
                    drafts.push(stored.created);
                    let mut block = ImageBlock::new(turn_index, stored.id);
                    (block.mime, block.summary) = (Some(mime), Some(SUMMARY.to_owned()));
                    drafts.push(Payload::AssistantImageBlock(Box::new(block)).into());
                }
                Err(error) => {
                    tracing::warn!(
                        run = %self.worker_session.run(), %error,
                        "an image from the model could not be stored"
                    );
                    all_stored = false;
                }
            }
        }
        all_stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_beyond_the_limit_or_of_unknown_types_are_dropped() {
        let add = |images: &mut ModelImages, mime: &str, bytes: usize| {
            images.add(mime.to_owned(), Bytes::from(vec![0; bytes]))
        };
        let mut images = ModelImages::new(true);
        assert!(!add(&mut images, "image/svg+xml", 9) && !add(&mut images, "image/png", 0));
        assert!(!add(&mut images, "image/png", limits::PICTURE_BYTES_MAX + 1));
        for _ in 0..limits::MODEL_IMAGES_MAX {
            assert!(add(&mut images, "image/png", 9));
        }
        assert!(!add(&mut images, "image/png", 9));
        assert!(!add(&mut ModelImages::new(false), "image/png", 9));
    }
}
