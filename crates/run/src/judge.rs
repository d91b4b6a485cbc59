//! laid next
