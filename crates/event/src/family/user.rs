//! `user.*`: messages of a person.

use crate::family::payload;
use crate::{ForeignId, Json};

payload! {
    /// A person sent a message.
    Message { text: String } {
        turn_index: u64,
        message_id: ForeignId,
        /// Content blocks: texts, and images as artifacts.
        blocks: Vec<Json>,
    }

    /// A person attached a file or an image.
    Attachment {
        /// The kind of attachment, such as `image` or `file`.
        kind: String,
        mime: String,
        artifact_id: ForeignId,
    } { turn_index: u64 }
}
