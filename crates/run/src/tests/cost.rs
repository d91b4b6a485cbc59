//! next
