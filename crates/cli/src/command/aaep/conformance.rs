//! `recount aaep conformance`: producers and subscribers against the requirements of the protocol.

mod subscriber;

use clap::{Args, Subcommand};

use crate::exit::Failure;

#[derive(Args)]
pub(super) struct Conformance {
    #[command(subcommand)]
    side: Side,
}

#[derive(Subcommand)]
enum Side {
    /// Try a subscriber: serve a producer for it, and look at what it does
    Subscriber(subscriber::Subscriber),
}

impl Conformance {
    pub(super) fn run(self, json: bool) -> Result<(), Failure> {
        match self.side {
            // A line that somebody types may still be waited for at the end.
            Side::Subscriber(subscriber) => crate::command::staying(subscriber.run(json)),
        }
    }
}
