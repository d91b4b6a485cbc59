//! Tests that attempts to escape from the sandbox fail: on both layers, as root and as an ordinary user.
//!
//! The attempts are those of `recount-escapes`. Their results make the table in `docs/sandbox.md` (`RECOUNT_BLESS=1`
//! writes it). Start at [`fixture::attempts`].

mod fixture;
mod programs;
mod table;
