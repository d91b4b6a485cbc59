//! `recount-playback`: a scripted model provider for a server.
//!
//! The program loads recordings, prints its URL, and waits. It must not depend on more than the library.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use recount_playback::{Player, Shelf, limits, recordings};
use recount_world::World;

/// Plays recorded responses of model providers on this machine.
///
/// Set the base_url of a provider of kind `anthropic` or `openai` to the printed URL. Each recording is a model with
/// the file's name; a single file matches every model. The responses of a file are played in order, and the last one is
/// repeated.
#[derive(Debug, Parser)]
#[command(name = "recount-playback", version)]
struct Arguments {
    /// The port to listen on; 0 chooses a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Files or folders of recordings, or names of those that come with the source, such as `openai/text`.
    #[arg(required = true)]
    scenario: Vec<PathBuf>,
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the URL is the output of the program")]
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

/// Finds a path, or a recording that comes with the source.
fn find(place: PathBuf) -> PathBuf {
    let ours = recordings().join(&place);
    let file = ours.with_extension("toml");
    match (place.exists(), ours.is_dir(), file.is_file()) {
        (false, true, _) => ours,
        (false, false, true) => file,
        _ => place,
    }
}
