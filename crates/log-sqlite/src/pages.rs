//! A pool of buffers for large pages of history.
//!
//! A page of some hundred kilobytes lives until it is written to a socket. The C library returns so much memory
//! to the system each time, and takes a page fault for every 4 KiB of the next page: half of the cost of reading a
//! sealed run. So the few buffers in use at a time are kept. It must not know their content.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

use crate::limits::{PAGE_KEPT_BYTES_MAX, PAGE_KEPT_BYTES_MIN, PAGES_KEPT_MAX};

/// Empty buffers that wait for their next page.
#[derive(Default)]
pub(crate) struct Pages(Mutex<Vec<BytesMut>>);

impl Pages {
    /// An empty buffer for so many bytes.
    pub(crate) fn buffer(&self, bytes: usize) -> BytesMut {
        let kept = if bytes < PAGE_KEPT_BYTES_MIN { None } else { self.kept().pop() };
        let mut buffer = kept.unwrap_or_default();
        buffer.reserve(bytes);
        buffer
    }

    /// A page that returns its buffer to the pool when the last handle is dropped.
    pub(crate) fn page(self: &Arc<Self>, buffer: BytesMut) -> Bytes {
        if buffer.capacity() < PAGE_KEPT_BYTES_MIN {
            return buffer.freeze();
        }
        Bytes::from_owner(LentPage { buffer, pool: self.clone() })
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<BytesMut>> {
        // After a panic, the buffers are still usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct LentPage {
    buffer: BytesMut,
    pool: Arc<Pages>,
}

impl AsRef<[u8]> for LentPage {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for LentPage {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let mut kept = self.pool.kept();
        if buffer.capacity() <= PAGE_KEPT_BYTES_MAX && kept.len() < PAGES_KEPT_MAX {
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(pages: &Arc<Pages>, bytes: usize) -> Bytes {
        let mut buffer = pages.buffer(bytes);
        assert!(buffer.is_empty(), "the buffer is empty");
        buffer.resize(bytes, 7);
        pages.page(buffer)
    }

    #[test]
    fn the_last_handle_of_a_large_page_returns_its_buffer() {
        let pages = Arc::new(Pages::default());
        let page = page_of(&pages, PAGE_KEPT_BYTES_MIN);
        let (address, part) = (page.as_ptr(), page.slice(1..9));
        drop(page);
        assert_eq!((pages.kept().len(), &part[..]), (0, &[7; 8][..]), "a part of it is still in use");
        drop(part);
        assert_eq!(page_of(&pages, PAGE_KEPT_BYTES_MIN).as_ptr(), address);
    }

    #[test]
    fn kept_buffers_are_bounded() {
        let pages = Arc::new(Pages::default());
        drop(page_of(&pages, PAGE_KEPT_BYTES_MIN - 1));
        drop(page_of(&pages, PAGE_KEPT_BYTES_MAX + 1));
        assert_eq!(pages.kept().len(), 0, "too small to matter, or too large to keep");
        let held: Vec<_> = (0..=PAGES_KEPT_MAX).map(|_| page_of(&pages, PAGE_KEPT_BYTES_MIN)).collect();
        drop(held);
        assert_eq!(pages.kept().len(), PAGES_KEPT_MAX);
    }
}
