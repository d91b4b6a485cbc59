//! Replays a recording to any subscriber: over HTTP with event streams and over WebSockets, on the de-facto surface
//! and on the specification's. Entry: [`Replay::start`].
//!
//! It sends the recorded lines unchanged and does nothing else: no tool runs, and replies do not affect later lines.
//! It does not depend on the origin of a recording.

mod feed;
mod fresh;
mod listener;
mod lock;
mod messages;
mod pacing;
mod playback;
mod player;
mod prompts;
mod script;
mod subscriptions;
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

use self::listener::BoundedListener;
use self::playback::Playback;
use self::player::Player;
use crate::limits;

/// The speed of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// With the recorded pauses divided by `speed`, which is greater than 0.
    Recorded {
        speed: f64,
    },
    AtOnce,
}

/// How to replay a recording.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the options are independent and all come from the command line"
)]
pub struct ReplayOptions {
    pub bind: IpAddr,
    /// 0 picks a free port.
    pub port: u16,
    pub pace: Pace,
    /// Start when the first listener connects.
    pub wait: bool,
    /// With new ids, tokens and times. Later rounds always have them.
    pub fresh: bool,
    /// Start again from the beginning until stopped.
    pub repeat: bool,
    /// Keep the streams open at the end.
    pub stay: bool,
    /// Wait at each prompt for a reply, up to the prompt's timeout.
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

/// An event of a replay.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayNotice<'t> {
    /// A round starts; rounds count from 0.
    RoundStarted { round: u32 },
    /// A line is sent to all listeners: its number in the file and its text.
    Line { line: u32, text: &'t [u8], at_ms: u64 },
    /// A listener connected; `after` is the event it resumes after.
    ListenerJoined { listeners: usize, after: Option<&'t str> },
    /// A listener left after this many lines.
    ListenerLeft { lines: u64, of: u64, listeners: usize },
    /// Waiting for a reply to the prompt of this line.
    WaitingForReply { line: u32, until: Duration },
    /// No reply arrived.
    ReplyTimedOut { line: u32 },
    /// Everything was sent, but a listener left early and may return.
    WaitingForListener,
    /// A subscriber sent a reply.
    Reply { text: &'t str, outcome: &'t ReplyOutcome },
    /// A test driver sent an input.
    Input { text: &'t str },
}

/// Receives the notices. Called from the replay's own tasks; must not block.
pub type NoticeSink = Arc<dyn Fn(ReplayNotice<'_>) + Send + Sync>;

/// A running replay.
pub struct Replay {
    address: SocketAddr,
    /// Set to end it.
    close: watch::Sender<bool>,
    /// Becomes true when the last connection is closed.
    ended: watch::Receiver<bool>,
}

impl Replay {
    /// Listens and replays the recording with these options. It ends when everything was sent and read, unless `stay`
    /// is set. Dropping it ends it too.
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

    /// The base URL, such as `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns when it has ended. May be dropped while it waits.
    pub async fn ended(&self) {
        // An error means that the sender was dropped, so the replay has ended.
        self.ended.clone().wait_for(|ended| *ended).await.ok();
    }

    /// Ends it; lines already sent are still delivered.
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
    let (remove_listener, mut leaving) = watch::channel(false);
    let serving = axum::serve(BoundedListener::new(listener), surfaces::routes(playback.clone()))
        .with_graceful_shutdown(
            async move { drop(leaving.wait_for(|remove_listener| *remove_listener).await) },
        );
    let playing = async move {
        tokio::select! {
            () = Player::new(playback.clone()).play() => {}
            // If the sender was dropped, close as well.
            _ = closing.wait_for(|close| *close) => {}
            () = shutdown.requested() => {}
        }
        playback.finish();
        remove_listener.send_replace(true);
        tokio::time::sleep(limits::REPLAY_CLOSING).await;
    };
    tokio::select! {
        _ = serving.into_future() => {}
        () = playing => {}
    }
}
