//! A stream gives the same pieces however the network divides it.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use proptest::prelude::*;
use recount_playback::{Recording, recordings};
use recount_world::ManualClock;

use super::*;
use crate::model::anthropic::tests_only as anthropic;
use crate::model::openai::tests_only as openai;

type ReceivedPieces = (Vec<Piece>, Option<Failure>);

fn receive(api: &str, chunks: Vec<Bytes>) -> ReceivedPieces {
    let endpoint = Endpoint::new("p", "http://127.0.0.1:1/v1", Arc::new(ManualClock::at(0))).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let chunks: Chunks = stream::iter(chunks.into_iter().map(Ok)).boxed();
    runtime.block_on(async {
        let protocol: Box<dyn Protocol> = match api {
            "anthropic" => anthropic::events(),
            _ => openai::chunks(),
        };
        let mut reply = ModelStream::begin(&endpoint, "", Vec::new(), protocol);
        reply.stage = ConnectionStage::Reading(chunks);
        let mut pieces = Vec::new();
        loop {
            match reply.next().await {
                Ok(piece @ Piece::Finish { .. }) => {
                    pieces.push(piece);
                    return (pieces, None);
                }
                Ok(piece) => pieces.push(piece),
                Err(failure) => return (pieces, Some(failure)),
            }
        }
    })
}

impl Protocol for Box<dyn Protocol> {
    fn event(&mut self, frame: &Frame, out: &mut VecDeque<Piece>) -> Result<super::StreamProgress, Failure> {
        (**self).event(frame, out)
    }

    fn finish(&mut self, out: &mut VecDeque<Piece>) -> Option<Piece> {
        (**self).finish(out)
    }
}

fn stream_of(api: &str, name: &str) -> Bytes {
    let path = recordings().join(api).join(name).with_extension("toml");
    Bytes::from(Recording::load(&path).unwrap().answer.swap_remove(0).body)
}

fn cut(stream: &Bytes, cuts: &[prop::sample::Index]) -> Vec<Bytes> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    at.extend([0, stream.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| stream.slice(pair[0]..pair[1])).collect()
}

const NAMES: [&str; 8] = [
    "bytes",
    "calls",
    "thinking",
    "overloaded_in_stream",
    "malformed",
    "not_sse_unsaid",
    "no_last_word",
    "cut",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_division_gives_the_same_pieces(
        name in prop::sample::select(&NAMES[..]),
        api in prop::sample::select(&["anthropic", "openai"][..]),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        returns in any::<bool>(),
    ) {
        let stream = stream_of(api, name);
        let expected = receive(api, vec![stream.clone()]);
        let sent = if returns {
            Bytes::from(String::from_utf8(stream.to_vec()).unwrap().replace('\n', "\r\n"))
        } else {
            stream
        };
        prop_assert_eq!(receive(api, cut(&sent, &cuts)), expected);
    }

    #[test]
    fn noise_never_panics_and_never_finishes(noise in prop::collection::vec(any::<u8>(), 0..400), lines in any::<bool>()) {
        for api in ["anthropic", "openai"] {
            let mut sent = noise.clone();
            if lines {
                sent.splice(0..0, *b"data: ");
                sent.extend(b"\n\n");
            }
            let (_, failure) = receive(api, vec![Bytes::from(sent)]);
            prop_assert!(failure.is_some());
        }
    }
}

#[test]
fn single_bytes_give_the_same_pieces() {
    for api in ["anthropic", "openai"] {
        for name in ["bytes", "call"] {
            let whole = stream_of(api, name);
            let bytes = (0..whole.len()).map(|at| whole.slice(at..at + 1)).collect();
            assert_eq!(receive(api, bytes), receive(api, vec![whole.clone()]), "{api} {name}");
        }
    }
}
