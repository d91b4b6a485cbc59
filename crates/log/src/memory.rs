//! (being laid)
pub struct MemoryStore;
