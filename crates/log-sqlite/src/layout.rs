//! The tables of records, in SQL. The rows of spaces, which are not records, are in `rows.rs`.
//!
//! The hot part: `groups`, one row per commit. The sealed part: `chunks`, rows of one
//! stream each, and `feed`, which maps positions to records. A row of `streams` describes the sealed part only.
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
