//! The tables of records, in SQL. The rows of spaces, which are no records, have `rows.rs`.
//!
//! What comes next, the hot part: `groups`, one row a commit. What came before, the sealed part: `chunks`, rows of one
//! stream each, with `feed` to say which record is at which position. A row of `streams` tells of the sealed part only.
//! `packing.rs` packs the values; these files know neither transactions nor threads.

mod chunks;
mod columns;
mod feed;
mod groups;
mod streams;
mod whole;

pub(crate) use self::chunks::*;
pub(crate) use self::columns::{bytes, int, limit, number};
pub(crate) use self::feed::*;
pub(crate) use self::groups::*;
pub(crate) use self::streams::*;
pub(crate) use self::whole::*;
