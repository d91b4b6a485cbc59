//! `recount-playback`: a scripted model provider to point a server at.
//!
//! It must never know more than the library: it loads recordings, prints its address, and waits.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use recount_playback::{Player, Shelf, limits, recordings};
use recount_world::World;

/// Plays recorded streams of model providers on this machine.
///
/// A provider of kind `anthropic` or `openai` with the base_url that is printed finds each recording as a model of
/// its file's name; a single file answers for every model. A file's answers are given one after the other, and the
/// last one again and again.
#[derive(Debug, Parser)]
#[command(name = "recount-playback", version)]
struct Arguments {
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Files or folders of recordings; or names of those that come with the source, such as `openai/text`.
    #[arg(required = true)]
    scenario: Vec<PathBuf>,
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "where it listens is what it is asked for")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let shelf = Shelf::load(&arguments.scenario.into_iter().map(find).collect::<Vec<_>>())?;
    let world = World::real();
    let count = shelf.by_model.len();
    let player = Player::start(&world, arguments.port, shelf)
        .await
        .with_context(|| format!("cannot listen on port {} of 127.0.0.1", arguments.port))?;
    println!("plays {count} recordings; base_url = \"{}/v1\"", player.url());
    tokio::signal::ctrl_c().await.context("cannot wait for Ctrl-C")?;
    world.tasks.end_all(limits::END_PATIENCE).await;
    Ok(())
}

/// A place as it is written, or else among the recordings that come with the source.
fn find(place: PathBuf) -> PathBuf {
    let ours = recordings().join(&place);
    let file = ours.with_extension("toml");
    match (place.exists(), ours.is_dir(), file.is_file()) {
        (false, true, _) => ours,
        (false, false, true) => file,
        _ => place,
    }
}
