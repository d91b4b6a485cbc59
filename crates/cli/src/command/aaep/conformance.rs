//! `recount aaep conformance`: producers and subscribers against the requirements of the protocol.

mod producer;
mod subscriber;

use clap::{Args, Subcommand};

use crate::command::Common;
use crate::exit::Failure;

#[derive(Args)]
pub(super) struct Conformance {
    #[command(subcommand)]
    side: Side,
}

#[derive(Subcommand)]
enum Side {
    /// Try a producer: drive it, listen to it, answer it rightly and wrongly
    Producer(Box<producer::Producer>),
    /// Try a subscriber: serve a producer for it, and look at what it does
    Subscriber(subscriber::Subscriber),
}

impl Conformance {
    /// `token_is_typed`: the token was said for this very call, not in the environment for the usual server.
    pub(super) fn run(self, common: &Common, token_is_typed: bool) -> Result<(), Failure> {
        match self.side {
            // What still listens at the end is left behind.
            Side::Producer(producer) => crate::command::staying(producer.run(common, token_is_typed)),
            // A line that somebody types may still be waited for at the end.
            Side::Subscriber(subscriber) => crate::command::staying(subscriber.run(common.json)),
        }
    }
}
