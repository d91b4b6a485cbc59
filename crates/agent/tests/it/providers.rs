//! Providers of models over real sockets: responses, failures, and the requests they receive.
//!
//! Every scenario is a recording of `lab/playback`, and most are played in both protocols.

mod failures;
mod recorded;
mod requests;
mod responses;
