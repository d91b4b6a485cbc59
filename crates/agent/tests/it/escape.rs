//! Attempts to get out of the sandbox: on both layers, as root and as an ordinary user, every one is held.
//!
//! The attempts are those of `recount-escapes`; the table in `docs/sandbox.md` is made from what came of them
//! (`RECOUNT_BLESS=1` writes it). Look at [`ground::attempts`].

mod ground;
mod programs;
mod table;
