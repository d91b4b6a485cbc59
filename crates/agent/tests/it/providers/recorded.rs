//! A provider that plays a recording, and a model that uses it.

use std::path::Path;
use std::sync::Arc;

use recount_agent::model::{
    Failure, Message, Model, ModelsSettings, Part, Piece, Registry, Reply, Request, Usage,
};
use recount_event::family::turn::StopReason;
use recount_playback::{Player, Recording, Shelf, recordings};
use recount_world::{Clock, ManualClock, World};

pub(crate) const APIS: [&str; 2] = ["anthropic", "openai"];
pub(crate) const KEY: &str = "key-of-the-test";

pub(crate) struct RecordedProvider {
    pub(crate) player: Player,
    pub(crate) model: Arc<dyn Model>,
    _world: World,
}

/// Plays a recording for a provider with additional settings.
pub(crate) async fn play(api: &str, recording: &str, settings: &str) -> RecordedProvider {
    let path = recordings().join(api).join(recording).with_extension("toml");
    let world = World::real();
    let shelf = Shelf::of(Recording::load(&path).unwrap());
    let player = Player::start(&world, 0, shelf).await.unwrap();
    let model = model(api, &format!("{}/v1", player.url()), settings);
    RecordedProvider { player, model, _world: world }
}

pub(crate) fn model(api: &str, base_url: &str, settings: &str) -> Arc<dyn Model> {
    let text = format!(
        "[providers.p]\nkind = \"{api}\"\nbase_url = \"{base_url}\"\napi_key = \"{KEY}\"\n{settings}"
    );
    let settings: ModelsSettings = toml::from_str(&text).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(0));
    let registry = Registry::build(&settings, &|_| None, Path::new("."), &clock).unwrap();
    registry.models.by_name["p"].clone()
}

pub(crate) fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "recorded-1".into(),
        system: None,
        messages,
        tools: vec![],
        max_output_tokens: 1000,
        streams_call_inputs: false,
        key: None,
    }
}

pub(crate) fn user(text: &str) -> Message {
    Message::User(vec![Part::Text(text.into())])
}

impl RecordedProvider {
    pub(crate) fn begin(&self) -> Box<dyn Reply> {
        self.model.begin(Arc::new(request(vec![user("hello")])))
    }

    /// All pieces of one attempt.
    pub(crate) async fn receive(&self) -> (Vec<Piece>, Option<Failure>) {
        drain(self.begin()).await
    }
}

pub(crate) async fn drain(mut reply: Box<dyn Reply>) -> (Vec<Piece>, Option<Failure>) {
    let mut pieces = Vec::new();
    loop {
        match reply.next().await {
            // Sent in case the response is cut off; the finish has the same figures.
            Ok(Piece::Usage(_)) => {}
            Ok(piece) => {
                let is_end = matches!(piece, Piece::Finish { .. });
                pieces.push(piece);
                if is_end {
                    return (pieces, None);
                }
            }
            Err(failure) => return (pieces, Some(failure)),
        }
    }
}

pub(crate) fn text(text: &str) -> Piece {
    Piece::Text(text.into())
}

pub(crate) fn call(id: &str, name: &str, input: &str) -> Piece {
    Piece::Call { provider_call_id: id.into(), name: name.into(), input: input.into() }
}

/// The end of a response with the usage of the recordings.
pub(crate) fn finish(stop: StopReason) -> Piece {
    finish_with(stop, 25, 12, 0)
}

pub(crate) fn finish_with(stop: StopReason, input: u64, output: u64, cached: u64) -> Piece {
    let usage = Usage { input_tokens: input, output_tokens: output, cached_input_tokens: cached };
    Piece::Finish { stop, usage }
}
