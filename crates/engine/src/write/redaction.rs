//! Nothing secret is appended: what comes in is masked before it is judged.
//!
//! Judged is what is stored, so the rules and the readers of the log see the same: [`Redaction::drafts`] masks
//! what producers and performers report, [`Redaction::command`] the words of people. Texts that come in pieces
//! are masked across their pieces; what is known of them is in [`Texts`]. Identifiers stay, and so does what
//! would no longer be what its type says (a known secret that is a word of the protocol).
//!
//! What is a secret is not known here but in `recount_redact`; the choices are in
//! `docs/decisions/0013-redaction.md`.

pub(crate) mod session;
pub(crate) mod texts;
mod words;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use recount_event::digest::{CALL_DIGEST_PREFIX, call_digest};
use recount_event::family::approval::Requested;
use recount_event::family::assistant::TextComplete;
use recount_event::{Code, Draft, ForeignId, Json, Payload, limits as event_limits};
use recount_redact::{JsonField, MaskedJson, Online, Redactor, with_paths};
use recount_run::{Call, Rejection, State};

use crate::Error;
use texts::{Name, Piece, Texts};

/// Masks what is about to be appended. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Redaction {
    pub(crate) redactor: Arc<Redactor>,
}

/// What masking a batch or a command came to.
#[derive(Default)]
pub(crate) struct Masking {
    /// Whether anything was changed.
    pub(crate) masked: bool,
    /// What is to be known of the texts that go on, once the batch is taken.
    texts: Vec<(Name, Online)>,
    /// Words of a command that were masked.
    words: Vec<String>,
}

/// One text in a batch.
struct Grown {
    name: Name,
    bytes: Vec<u8>,
    /// Which event brought which bytes.
    parts: Vec<(usize, Range<usize>)>,
    /// Whether the batch ends it.
    ended: bool,
}

impl Redaction {
    pub(crate) fn new(redactor: Arc<Redactor>) -> Self {
        Redaction { redactor }
    }

    /// Masks what is reported. An event that was touched names the places in its `redacted_paths`.
    pub(crate) fn drafts(
        &self,
        texts: &Texts,
        state: &State,
        drafts: &mut [Draft],
    ) -> Result<Masking, Error> {
        let mut masking = Masking::default();
        if self.redactor.is_off() {
            return Ok(masking);
        }
        let grown = grown(drafts);
        let replaced = self.pieces(texts, drafts, &grown, &mut masking);
        let mut calls = BTreeSet::new();
        for index in 0..drafts.len() {
            let draft = &drafts[index];
            let replacement;
            let field = match &draft.payload {
                Payload::AssistantTextComplete(whole) | Payload::AssistantThinkingComplete(whole) => {
                    match told_before(texts, state, drafts, &grown, &replaced, index, whole) {
                        Before::Nothing => None,
                        Before::Same => Some(JsonField { name: "text", value: None }),
                        Before::Told(told) => {
                            replacement = told;
                            Some(JsonField { name: "text", value: Some(&replacement) })
                        }
                    }
                }
                Payload::ApprovalRequested(asked) => {
                    let masked = calls.contains(&asked.tool_call_id)
                        || state.call(&asked.tool_call_id).is_some_and(Call::is_masked);
                    match masked.then(|| right_digest(state, &drafts[..index], asked)).flatten() {
                        Some(right) => {
                            replacement = right;
                            Some(JsonField { name: "call_digest", value: Some(&replacement) })
                        }
                        None => None,
                    }
                }
                payload => match Piece::of(payload) {
                    Some(piece) if replaced[index].is_none() && piece.is_all_of(draft) => continue,
                    Some(piece) => Some(JsonField { name: piece.field, value: replaced[index].as_deref() }),
                    None => None,
                },
            };
            let masked = self.masked(draft, field).map_err(|no| Rejection { index: Some(index), ..no })?;
            if let Some((draft, _)) = masked {
                if let Payload::AssistantToolCallProposed(proposed) = &draft.payload {
                    calls.insert(proposed.tool_call_id.clone());
                }
                drafts[index] = draft;
                masking.masked = true;
            }
        }
        Ok(masking)
    }

    /// Masks the pieces of texts across each other. Answers for each event what its piece became.
    fn pieces(
        &self,
        texts: &Texts,
        drafts: &[Draft],
        grown: &[Grown],
        masking: &mut Masking,
    ) -> Vec<Option<String>> {
        let mut replaced = vec![None; drafts.len()];
        let nothing = Online::default();
        for text in grown {
            let before = texts.get(&text.name).unwrap_or(&nothing);
            let (spans, next) = self.redactor.online(before, &text.bytes, text.ended);
            if !text.ended {
                masking.texts.push((text.name.clone(), next));
            }
            for (index, part) in &text.parts {
                let within: Vec<Range<usize>> = spans
                    .iter()
                    .map(|span| span.start.max(part.start)..span.end.min(part.end))
                    .filter(|span| span.start < span.end)
                    .map(|span| span.start - part.start..span.end - part.start)
                    .collect();
                if !within.is_empty() {
                    let piece = Piece::of(&drafts[*index].payload);
                    replaced[*index] = piece.map(|piece| piece.masked(&within));
                }
            }
        }
        replaced
    }

    /// The draft with everything masked that is to be, and where; `None` when nothing is.
    fn masked(
        &self,
        draft: &Draft,
        field: Option<JsonField<'_>>,
    ) -> Result<Option<(Draft, Vec<String>)>, Rejection> {
        let written;
        let text: &str = match &draft.verbatim {
            Some(text) => text,
            None => {
                written = draft.payload.write();
                &written
            }
        };
        let Some(masked) = self.redactor.json(text, field, &|_| false) else { return Ok(None) };
        let type_name = draft.payload.type_name();
        let masked = match fits(type_name, &masked.text) {
            true => masked,
            false => match self.masked_but_words(type_name, text, field, &masked.paths)? {
                Some(masked) => masked,
                None => return Ok(None),
            },
        };
        let named = with_paths(&masked.text, &masked.paths);
        let verbatim = if named.len() > event_limits::DATA_BYTES_MAX { masked.text } else { named };
        let payload = Payload::read(type_name, &verbatim).map_err(|why| unmaskable(type_name, &why))?;
        Ok(Some((Draft { payload, verbatim: Some(verbatim.into()) }, masked.paths)))
    }

    /// Leaves alone what must be an identifier or a word of the protocol.
    fn masked_but_words(
        &self,
        type_name: &str,
        text: &str,
        field: Option<JsonField<'_>>,
        paths: &[String],
    ) -> Result<Option<MaskedJson>, Rejection> {
        let breaks = |path: &&String| {
            let alone = self.redactor.json(text, field, &|other| other != path.as_str());
            alone.is_some_and(|alone| !fits(type_name, &alone.text))
        };
        let stays: Vec<&String> = paths.iter().filter(breaks).collect();
        let masked = self.redactor.json(text, field, &|path| stays.iter().any(|stays| *stays == path));
        match masked {
            Some(masked) if !fits(type_name, &masked.text) => {
                Err(unmaskable(type_name, &"the masked data is not valid for its type"))
            }
            masked => Ok(masked),
        }
    }

    /// The payload of one of our own events, masked, and where.
    pub(crate) fn payload(&self, payload: Payload) -> Result<(Payload, Vec<String>), Error> {
        let draft = Draft::from(payload);
        match self.masked(&draft, None)? {
            Some((masked, paths)) => Ok((masked.payload, paths)),
            None => Ok((draft.payload, Vec::new())),
        }
    }
}

impl Masking {
    /// What it came to for the texts, to be kept when the events were taken.
    pub(crate) fn into_texts(self) -> Vec<(Name, Online)> {
        self.texts
    }
}

fn fits(type_name: &str, text: &str) -> bool {
    Payload::read(type_name, text).is_ok_and(|payload| payload.breach().is_none())
}

fn unmaskable(type_name: &str, why: &dyn std::fmt::Display) -> Rejection {
    Rejection {
        code: Code::EventRefused,
        message: format!("{type_name} contains secrets that cannot be masked: {why}"),
        index: None,
        type_name: Some(type_name.to_owned()),
        rule: None,
    }
}

/// The texts that a batch makes longer.
fn grown(drafts: &[Draft]) -> Vec<Grown> {
    let mut grown: Vec<Grown> = Vec::new();
    for (index, draft) in drafts.iter().enumerate() {
        if let Some(piece) = Piece::of(&draft.payload) {
            let place = grown.iter().rposition(|text| piece.is_of(&text.name)).unwrap_or_else(|| {
                grown.push(Grown { name: piece.name(), bytes: Vec::new(), parts: Vec::new(), ended: false });
                grown.len() - 1
            });
            let text = &mut grown[place];
            let begin = text.bytes.len();
            piece.push_to(&mut text.bytes);
            text.parts.push((index, begin..text.bytes.len()));
        } else if texts::may_close(&draft.payload) {
            for text in &mut grown {
                text.ended |= texts::closes(&draft.payload, &text.name);
            }
        }
    }
    grown
}

/// What the log holds of a text that is reported as complete.
enum Before {
    /// It had no pieces: it is looked at like any other.
    Nothing,
    /// Nothing of it was masked, or it is not what was told: the rules say what becomes of it.
    Same,
    Told(String),
}

/// A complete text must be its pieces, joined, as they stand in the log.
fn told_before(
    texts: &Texts,
    state: &State,
    drafts: &[Draft],
    grown: &[Grown],
    replaced: &[Option<String>],
    index: usize,
    whole: &TextComplete,
) -> Before {
    let name = Name::Block(whole.turn_index, whole.block_index);
    let parts = || {
        let text = grown.iter().find(|text| text.name == name).into_iter();
        text.flat_map(|text| &text.parts).map(|(part, _)| *part).filter(|part| *part < index)
    };
    let before = texts.get(&name);
    if before.is_none() && parts().next().is_none() {
        return Before::Nothing;
    }
    let starred = before.is_some_and(Online::is_starred) || parts().any(|part| replaced[part].is_some());
    if !starred {
        return Before::Same;
    }
    let mut told = state.open_text(whole.turn_index, whole.block_index).unwrap_or_default();
    for part in parts() {
        match (&replaced[part], &drafts[part].payload) {
            (Some(masked), _) => told.push_str(masked),
            (None, Payload::AssistantTextDelta(delta) | Payload::AssistantThinkingDelta(delta)) => {
                told.push_str(&delta.delta);
            }
            _ => {}
        }
    }
    let is_told = told.len() == whole.text.len()
        && told
            .bytes()
            .zip(whole.text.bytes())
            .all(|(told, said)| told == said || told == recount_redact::MASK);
    if is_told && told != whole.text { Before::Told(told) } else { Before::Same }
}

/// The digest of a call whose input was masked, when the request for permission names another one: its producer
/// knows only the input as it was.
fn right_digest(state: &State, before: &[Draft], asked: &Requested) -> Option<String> {
    let said = asked.call_digest.as_deref().filter(|digest| digest.starts_with(CALL_DIGEST_PREFIX))?;
    let in_batch = before.iter().rev().find_map(|draft| match &draft.payload {
        Payload::AssistantToolCallProposed(proposed) if proposed.tool_call_id == asked.tool_call_id => {
            Some((proposed.tool_name.as_str(), &proposed.input))
        }
        _ => None,
    });
    let (tool_name, input) = in_batch.or_else(|| proposal(state, &asked.tool_call_id))?;
    let right = call_digest(tool_name, input.text());
    (said != right).then_some(right)
}

fn proposal<'a>(state: &'a State, call: &ForeignId) -> Option<(&'a str, &'a Json)> {
    let call = state.call(call)?;
    Some((call.tool_name.as_deref()?, call.input.as_deref()?))
}
