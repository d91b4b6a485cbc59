//! A picture as part of a message: read, known by its first bytes, and written as text.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_client::aap::wire::Block;

use crate::failure::Failure;
use crate::limits;

pub(super) fn block(path: &Path) -> Result<Block, Failure> {
    let wrong = |why: String| Failure::Usage(format!("cannot send {}: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(|why| wrong(why.to_string()))?.len();
    if size > limits::IMAGE_BYTES_MAX {
        let most = limits::IMAGE_BYTES_MAX;
        return Err(wrong(format!("it has {size} bytes; the limit is {most} (IMAGE_BYTES_MAX)")));
    }
    let bytes = std::fs::read(path).map_err(|why| wrong(why.to_string()))?;
    let mime = mime(&bytes).ok_or_else(|| wrong("it is not a PNG, JPEG, GIF or WebP image".to_owned()))?;
    Ok(Block::Image { url: format!("data:{mime};base64,{}", STANDARD.encode(&bytes)) })
}

pub(super) fn not_taken(agent: &str) -> String {
    format!("the agent {agent} accepts no images as data; nothing was sent")
}

/// What a picture is, by how it begins; names lie.
fn mime(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_known_by_its_bytes_and_sent_as_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, b"\x89PNG\r\n\x1a\n").unwrap();
        let expected = Block::Image { url: "data:image/png;base64,iVBORw0KGgo=".into() };
        assert_eq!(block(&path).unwrap(), expected);
        std::fs::write(&path, "words").unwrap();
        assert!(block(&path).unwrap_err().to_string().contains("not a PNG"));
        assert!(block(&folder.path().join("gone")).unwrap_err().to_string().contains("gone"));
        let large = std::fs::File::create(&path).unwrap();
        large.set_len(limits::IMAGE_BYTES_MAX + 1).unwrap();
        assert!(block(&path).unwrap_err().to_string().contains("IMAGE_BYTES_MAX"));
        assert_eq!(mime(b"GIF89a"), Some("image/gif"));
        assert_eq!(mime(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(mime(&[0xff, 0xd8, 0xff, 0xe0]), Some("image/jpeg"));
        assert_eq!(mime(b""), None);
    }
}
