//! The parts of a run, one file for what belongs together. Each asks the stage for what it needs, does its scenarios and
//! notes what came out; a part that cannot go on answers why.

mod access;
mod delivery;
mod grave;
mod handshake;
mod leaving;
mod listening;
mod manifest;
mod plain;
mod prompt;
mod question;
mod readers;
mod renegotiate;
mod reply;
mod terms;

use super::specs::Part;
use super::stage::{Stage, Trouble};

pub(super) use grave::alike;

pub(super) async fn run(part: Part, stage: &Stage<'_>) -> Result<(), Trouble> {
    match part {
        Part::Grave => grave::run(stage).await,
        Part::Rejected => prompt::rejected(stage).await,
        Part::Race => prompt::race(stage).await,
        Part::TimedOut => prompt::timed_out(stage).await,
        Part::Modified => prompt::modified(stage).await,
        Part::Twice => prompt::twice(stage).await,
        Part::Question => question::run(stage).await,
        Part::Handoff => question::handoff(stage).await,
        Part::Leaving => leaving::run(stage).await,
        Part::Plain => plain::run(stage).await,
        Part::Delivery => delivery::run(stage).await,
        Part::Access => access::run(stage).await,
        Part::Handshake => handshake::run(stage).await,
        Part::Terms => terms::run(stage).await,
        Part::Renegotiate => renegotiate::run(stage).await,
        Part::Readers => readers::run(stage).await,
        Part::Manifest => manifest::run(stage).await,
        Part::Quiet => access::quiet(stage).await,
    }
}
