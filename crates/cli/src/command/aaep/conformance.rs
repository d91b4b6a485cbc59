//! `recount aaep conformance`: producers and subscribers against the requirements of the protocol.

mod producer;
mod subscriber;

use clap::{Args, Subcommand};

use crate::command::Invocation;
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
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        match self.side {
            Side::Producer(producer) => producer.run(invocation),
            Side::Subscriber(subscriber) => subscriber.run(invocation),
        }
    }
}
