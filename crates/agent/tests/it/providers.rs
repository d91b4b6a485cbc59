//! Providers of models, asked over real sockets: what they say, how they fail, and what they are sent.
//!
//! Every scenario is a recording of `lab/playback`, and most are played in both protocols.

mod answers;
mod bad_days;
mod requests;
mod stage;
