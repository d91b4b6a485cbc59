//! `workspace.*`: the folder that an own run works in. That it was taken away stands in `gap`.

use crate::family::payload;

payload! {
    /// The folder that the run works in is ready.
    Provisioned {
        /// How it was made: `clone`, a copy of its own, or `in_place`.
        mode: String,
        /// The folder that the run works in.
        path: String,
        /// How many files there are in it.
        files: u64,
        /// How many bytes these have.
        bytes: u64,
        duration_ms: u64,
    } {
        /// The folder that it was made of.
        source: String,
    }

    /// The folder that the run was to work in could not be made ready.
    Failed {
        /// How it was to be made: `clone` or `in_place`.
        mode: String,
        code: String,
        message: String,
    } {
        /// The folder that the run was to work in.
        path: String,
        /// The folder that it was to be made of.
        source: String,
    }
}
