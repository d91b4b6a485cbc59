//! `user.*`: what a person put into the conversation.

use crate::family::payload;
use crate::{ForeignId, Json};

payload! {
    /// A person wrote something.
    Message { text: String } {
        turn_index: u64,
        message_id: ForeignId,
        /// Content blocks: texts, and images by artifact.
        blocks: Vec<Json>,
    }

    /// A person attached a file or a picture.
    Attachment {
        /// What it is, such as `image` or `file`.
        kind: String,
        mime: String,
        artifact_id: ForeignId,
    } { turn_index: u64 }
}
