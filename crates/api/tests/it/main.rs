//! Integration tests of the published contract.

#![allow(clippy::unwrap_used, reason = "tests")]

mod contract;
