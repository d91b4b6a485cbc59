//! The methods of a store that wraps another one: each call of a listed method goes on to the wrapped store.
//!
//! It must not decide anything about a call. Entry point: [`forward_store!`](crate::forward_store).

/// Writes the listed methods inside an `impl Store`. The closure says how a call reaches the wrapped store:
///
/// ```ignore
/// impl Store for Counted {
///     fn append(&self, append: Append) -> Answer<Committed, AppendError> { /* … */ }
///
///     forward_store!(self, |call| call(&self.store); observe, read, read_feed, tail);
/// }
/// ```
#[macro_export]
macro_rules! forward_store {
    ($self:ident, |$call:ident| $body:expr; $($method:ident),+ $(,)?) => {
        $($crate::forward_store! { $method [$self $call $body] })+
    };
    (observe $w:tt) => { $crate::forward_store! { $w observe(observer: std::sync::Arc<dyn $crate::Observer>) -> () } };
    (append $w:tt) => {
        $crate::forward_store! { $w append(append: $crate::Append) -> $crate::Answer<$crate::Committed, $crate::AppendError> }
    };
    (read $w:tt) => {
        $crate::forward_store! {
            $w read(stream: &$crate::StreamKey, from: u64, bound: $crate::ReadBound) -> $crate::Answer<Vec<$crate::Record>>
        }
    };
    (read_feed $w:tt) => {
        $crate::forward_store! { $w read_feed(from: u64, bound: $crate::ReadBound) -> $crate::Answer<Vec<$crate::FeedRecord>> }
    };
    (tail $w:tt) => {
        $crate::forward_store! { $w tail(stream: &$crate::StreamKey) -> $crate::Answer<Option<$crate::Tail>> }
    };
    (last_position $w:tt) => { $crate::forward_store! { $w last_position() -> $crate::Answer<u64> } };
    (streams $w:tt) => {
        $crate::forward_store! {
            $w streams(after: Option<$crate::StreamKey>, limit: usize) -> $crate::Answer<Vec<$crate::StreamKey>>
        }
    };
    (row $w:tt) => { $crate::forward_store! { $w row(space: &str, key: &str) -> $crate::Answer<Option<$crate::Row>> } };
    (rows $w:tt) => { $crate::forward_store! { $w rows(range: $crate::RowRange) -> $crate::Answer<Vec<$crate::Row>> } };
    (put_blob $w:tt) => { $crate::forward_store! { $w put_blob(bytes: $crate::Bytes) -> $crate::Answer<String> } };
    (blob $w:tt) => { $crate::forward_store! { $w blob(hash: &str) -> $crate::Answer<Option<$crate::Bytes>> } };
    (remove_blob $w:tt) => { $crate::forward_store! { $w remove_blob(hash: &str) -> $crate::Answer<()> } };
    (blobs $w:tt) => {
        $crate::forward_store! { $w blobs(after: Option<String>, limit: usize) -> $crate::Answer<Vec<String>> }
    };
    (integrity $w:tt) => { $crate::forward_store! { $w integrity() -> $crate::Answer<$crate::Integrity> } };
    (backup $w:tt) => { $crate::forward_store! { $w backup(to: std::path::PathBuf) -> $crate::Answer<()> } };
    (stats $w:tt) => { $crate::forward_store! { $w stats() -> $crate::Answer<$crate::Stats> } };
    (is_owner $w:tt) => { $crate::forward_store! { $w is_owner() -> bool } };
    (close $w:tt) => { $crate::forward_store! { $w close() -> $crate::Answer<()> } };
    ([$self:ident $call:ident $body:expr] $method:ident($($name:ident: $type:ty),*) -> $answer:ty) => {
        fn $method(&$self, $($name: $type),*) -> $answer {
            let $call = |store: &dyn $crate::Store| store.$method($($name),*);
            $body
        }
    };
}
