//! `recount narrate`: runs by ear. Speaks what runs do over AAEP, and takes keys that answer prompts.
//!
//! Here are the options and the subscription. The loop is in `stage`, speech in `voice`, keys in `keyboard`.

mod bell;
mod keyboard;
mod stage;
mod voice;

use clap::{Args, ValueEnum};
use recount_aaep::VERSION;
use recount_aaep::wire::{Boundary, Capabilities, SubscriptionRequest};
use recount_aaep_client::link::{Dial, Surface, Target};
use recount_client::is_socket;
use recount_narrate::listener::EventListener;
use recount_narrate::ssip::{SsipClient, VoiceSettings};
use recount_narrate::{Narrator, NarratorOptions, Phrases, SpeechLevel};
use recount_world::World;
use serde_json::{Map, Value};

use self::stage::Stage;
use self::voice::Voice;
use super::Invocation;
use super::ids::{self, IdKind};
use super::invocation::block_on_threads;
use crate::failure::Failure;
use crate::output::note;

/// Speak the events of runs, and answer prompts from the keyboard
#[derive(Args)]
#[command(after_help = KEYS, group(clap::ArgGroup::new("subject").required(true).args(["run", "all"])))]
pub(super) struct Narrate {
    /// Id of the run
    run: Option<String>,
    /// Narrate all runs
    #[arg(long)]
    all: bool,
    /// Print lines instead of speaking them
    #[arg(long)]
    text: bool,
    /// Speak only prompts, errors, and the start and end of runs
    #[arg(long, conflicts_with = "verbosity")]
    brief: bool,
    /// Speak only prompts and errors while a run works, and its answer when it ends
    #[arg(long)]
    at_end: bool,
    /// Ring the terminal bell: twice when a run needs you, once when it finishes, three times when it fails
    #[arg(long)]
    bell: bool,
    /// Level of detail to speak; default: normal, with --at-end brief
    #[arg(long, value_enum)]
    verbosity: Option<Amount>,
    /// Languages to speak, such as ar or en-GB; the preferred one first, separated by commas
    #[arg(long, value_name = "TAGS", value_delimiter = ',', default_value = "en-US")]
    language: Vec<String>,
    /// Speech rate, from -100 to 100; default: the rate set in speech-dispatcher
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, value_parser = clap::value_parser!(i8).range(-100..=100))]
    rate: Option<i8>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Amount {
    Brief,
    Terse,
    Normal,
    Detailed,
}

/// What the help adds.
const KEYS: &str = "\
Keys at a terminal:
  space, s  silence                     y, n   approve or reject; yes or no
  r         repeat the last, 3r three   a      type an answer, then Enter
  w         where am I                  1 ...  choose an answer, then Enter
  p         read the next prompt        c      cancel the run, after Enter
  +, -      more or less detail         e      ask for more time
  ?         speak the keys              q      quit";

impl Narrate {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        block_on_threads(self.narrate(invocation))
    }

    async fn narrate(mut self, invocation: Invocation) -> Result<(), Failure> {
        let mut options =
            NarratorOptions { is_history: false, is_at_end: self.at_end, has_signals: self.bell };
        if let Some(run) = &mut self.run {
            let client = invocation.client()?;
            *run = ids::full(&client, IdKind::Run, run).await?;
            // An unknown run is reported by the subscription.
            options.is_history = client.get_run(run).await.is_ok_and(|run| run.ended_at.is_some());
        }
        let level = self.level();
        let dial = self.dial(&invocation, level)?;
        let world = World::real();
        let voice = self.voice(invocation.json).await;
        let (mut listener, ends) = EventListener::new(&world, dial);
        let narrator = Narrator::new(level, self.all, Phrases::of(&self.language)).with_options(options);
        let mut stage = Stage::new(world, narrator, voice, ends, !self.all)?;
        if options.is_history {
            stage.read_history();
        }
        let outcome = stage.run(listener.run()).await;
        // The terminal is restored before anything else is waited for.
        drop(stage);
        listener.close().await;
        outcome
    }

    fn level(&self) -> SpeechLevel {
        match self.verbosity {
            None if self.brief || self.at_end => SpeechLevel::Brief,
            Some(Amount::Brief) => SpeechLevel::Brief,
            Some(Amount::Terse) => SpeechLevel::Terse,
            None | Some(Amount::Normal) => SpeechLevel::Normal,
            Some(Amount::Detailed) => SpeechLevel::Detailed,
        }
    }

    fn dial(&self, invocation: &Invocation, level: SpeechLevel) -> Result<Dial, Failure> {
        if is_socket(&invocation.url) {
            let why = "narrate cannot use a socket; use --url with the address of a server, such as \
                       http://127.0.0.1:8765";
            return Err(Failure::Usage(why.to_owned()));
        }
        let base = invocation.url.trim_end_matches('/');
        let base = base.strip_suffix(SURFACE).unwrap_or(base);
        let target = Target::Http { base: format!("{base}{SURFACE}"), surface: Surface::Versioned };
        let capabilities = Capabilities {
            preferred_verbosity: Some(level.verbosity()),
            cognitive_load: Some(level.load()),
            languages: Some(self.language.clone()),
            supports_confirmation_reply: Some(true),
            supports_clarification_reply: Some(true),
            coalesce_boundaries: Some(vec![Boundary::Sentence, Boundary::Completion]),
            supported_conformance_levels: Some(vec![1, 2, 3]),
            ..Capabilities::default()
        };
        let mut request = SubscriptionRequest::new(VERSION.to_owned(), SUBSCRIBER.to_owned(), capabilities);
        request.subscriber_name = Some("Recount narrator".to_owned());
        request.subscriber_version = Some(env!("CARGO_PKG_VERSION").to_owned());
        if let Some(run) = &self.run {
            let own = Map::from_iter([("run_id".to_owned(), Value::from(run.as_str()))]);
            request.extensions = Some([("recount".to_owned(), own)].into());
        }
        let request = serde_json::to_string(&request).map_err(|why| Failure::Own(why.to_string()))?;
        Ok(Dial {
            token: invocation.token_of_server().map(str::to_owned),
            request: Some(request),
            ..Dial::to(target)
        })
    }

    /// Speech, or text where there is none.
    async fn voice(&self, as_json: bool) -> Voice {
        if self.text || as_json {
            return Voice::text(as_json);
        }
        let variable = |name: &str| std::env::var(name).ok();
        match SsipClient::find(variable, VoiceSettings { rate: self.rate }).await {
            Ok(client) => Voice::speech(client),
            Err(why) => {
                note(&format!(
                    "{why}. Lines are printed instead. For speech, install speech-dispatcher and a voice (on \
                     Debian: apt-get install speech-dispatcher speech-dispatcher-espeak-ng). --text hides \
                     this message."
                ));
                Voice::text(false)
            }
        }
    }
}

/// Where the versioned surface of AAEP is on a server.
const SURFACE: &str = "/aaep/v1";

/// The name of this subscriber.
const SUBSCRIBER: &str = "recount-narrate";
