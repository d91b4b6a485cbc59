//! Serves a recording again to any subscriber: over HTTP with event streams and over WebSockets, on the de-facto
//! surface and on the specification's. Entry: [`Replay::start`].
//!
//! It sends what was recorded, byte for byte, and does nothing else: no tool runs, and replies do not change what
//! follows. It must not know where a recording is from.

mod feed;
mod fresh;
mod hearing;
mod listen;
mod lock;
mod pacing;
mod playback;
mod player;
mod prompts;
mod room;
mod script;
mod surfaces;
mod times;

use std::future::IntoFuture as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use recount_world::{Kind, Shutdown, World};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use prompts::ReplyOutcome;
pub use script::{ReplayScript, ScriptError};

use self::listen::Bounded;
use self::playback::Playback;
use self::player::Player;
use crate::limits;

/// How fast it goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// With the pauses of the recording, so many times faster; more than 0.
    Recorded {
        speed: f64,
    },
    AtOnce,
}

/// How a recording is said.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a wish of its own, and all go together")]
pub struct ReplayOptions {
    pub bind: IpAddr,
    /// 0 takes a free one.
    pub port: u16,
    pub pace: Pace,
    /// Start when the first listener connects.
    pub wait: bool,
    /// With ids, tokens and times of its own. A second round always has them.
    pub fresh: bool,
    /// From the beginning again, until it is stopped.
    pub repeat: bool,
    /// Keep the streams open when all was said.
    pub stay: bool,
    /// Wait at a prompt for its answer, as long as the prompt says.
    pub hold: bool,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        ReplayOptions {
            bind: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            pace: Pace::Recorded { speed: 1.0 },
            wait: true,
            fresh: false,
            repeat: false,
            stay: false,
            hold: false,
        }
    }
}

/// What happens, as it happens.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayNotice<'t> {
    /// The recording begins; rounds count from 0.
    Begins { round: u32 },
    /// A line is said, to all who listen: which of the file, and as it goes out.
    Line { line: u32, text: &'t [u8], at_ms: u64 },
    /// A listener connected; after an event that it heard before, if so.
    Comes { listeners: usize, after: Option<&'t str> },
    /// A listener left, after so many of the lines.
    Left { lines: u64, of: u64, listeners: usize },
    /// It waits for an answer to the prompt of this line.
    Waits { line: u32, until: Duration },
    /// No answer came.
    TimedOut { line: u32 },
    /// Everything was sent, but a listener left early and may come back.
    Lingers,
    /// A subscriber answered something.
    Reply { text: &'t str, outcome: &'t ReplyOutcome },
    /// A driver of tests asked for something.
    Input { text: &'t str },
}

/// Who is told. It is called from the replay's own tasks and must not wait.
pub type NoticeSink = Arc<dyn Fn(ReplayNotice<'_>) + Send + Sync>;

/// A recording that is being said.
pub struct Replay {
    address: SocketAddr,
    /// Set to end it.
    close: watch::Sender<bool>,
    /// Becomes true when the last connection is done with.
    ended: watch::Receiver<bool>,
}

impl Replay {
    /// Listens, and says the recording as the options want it. It ends by itself when all was said and taken, unless
    /// they want it to stay; dropping it ends it, too.
    pub async fn start(
        world: &World,
        script: ReplayScript,
        mut options: ReplayOptions,
        notify: NoticeSink,
    ) -> std::io::Result<Replay> {
        options.fresh |= options.repeat;
        let listener = TcpListener::bind((options.bind, options.port)).await?;
        let address = listener.local_addr()?;
        let playback = Playback::new(world, script, options, notify);
        let (close, closing) = watch::channel(false);
        let (end, ended) = watch::channel(false);
        world.tasks.spawn(Kind::Service, |shutdown| async move {
            run(listener, playback, closing, shutdown).await;
            end.send_replace(true);
        });
        Ok(Replay { address, close, ended })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Such as `http://127.0.0.1:40123`: where paths begin.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns when it has ended. May be dropped while it waits.
    pub async fn ended(&self) {
        // Who is gone has ended.
        self.ended.clone().wait_for(|ended| *ended).await.ok();
    }

    /// Ends it: what was said is still given to who listens.
    pub async fn stop(self) {
        self.close.send_replace(true);
        self.ended().await;
    }
}

async fn run(
    listener: TcpListener,
    playback: Arc<Playback>,
    mut closing: watch::Receiver<bool>,
    mut shutdown: Shutdown,
) {
    let (leave, mut leaving) = watch::channel(false);
    let serving = axum::serve(Bounded::new(listener), surfaces::routes(playback.clone()))
        .with_graceful_shutdown(async move { drop(leaving.wait_for(|leave| *leave).await) });
    let playing = async move {
        tokio::select! {
            () = Player::new(playback.clone()).play() => {}
            // Nobody to be told by means the same as being told.
            _ = closing.wait_for(|close| *close) => {}
            () = shutdown.requested() => {}
        }
        playback.finish();
        leave.send_replace(true);
        tokio::time::sleep(limits::REPLAY_CLOSING).await;
    };
    tokio::select! {
        _ = serving.into_future() => {}
        () = playing => {}
    }
}
