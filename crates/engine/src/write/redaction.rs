//! Masks secrets in everything before it is checked and appended.
//!
//! The rules check what is stored, so they and the readers see the same. [`Redaction::drafts`] masks reports of
//! producers and performers, [`Redaction::command`] texts of people. Texts in pieces are masked across pieces, with
//! the state in [`Texts`]. Identifiers are not masked, nor values that would become invalid for their type (a known
//! secret that equals a protocol value).
//!
//! Secrets are defined in `recount_redact`; see `docs/decisions/0013-redaction.md`.

mod commands;
pub(crate) mod texts;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use recount_event::digest::{CALL_DIGEST_PREFIX, call_digest};
use recount_event::family::approval::Requested;
use recount_event::family::assistant::TextComplete;
use recount_event::{Code, Draft, ForeignId, Json, Payload, limits as event_limits};
use recount_redact::{JsonField, MaskedJson, Online, Redactor, Secret, with_paths};
use recount_run::{Call, Rejection, State};

use crate::Error;
use texts::{Piece, TextName, Texts};

/// Masks data before it is appended. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Redaction {
    pub(crate) redactor: Arc<Redactor>,
}

/// The result of masking a batch or a command.
#[derive(Default)]
pub(crate) struct Masking {
    /// Whether anything was masked.
    pub(crate) masked: bool,
    /// The new state of unfinished texts, if the batch is accepted.
    texts: Vec<(TextName, Online)>,
    /// The masked texts of a command.
    masked_texts: Vec<String>,
}

/// A text in a batch.
struct GrownText {
    name: TextName,
    bytes: Vec<u8>,
    /// The bytes of each event.
    parts: Vec<(usize, Range<usize>)>,
    /// Whether the batch completes it.
    ended: bool,
}

impl Redaction {
    pub(crate) fn new(redactor: Arc<Redactor>) -> Self {
        Redaction { redactor }
    }

    /// Adds secret values, except those that [`Secret::new`] refuses.
    pub(crate) fn with_secrets<'a>(&self, values: impl IntoIterator<Item = &'a String>) -> Redaction {
        let secrets: Vec<Secret> = values.into_iter().filter_map(|value| Secret::new(value).ok()).collect();
        match secrets.is_empty() || self.redactor.is_off() {
            true => self.clone(),
            false => Redaction::new(Arc::new(self.redactor.knowing(secrets))),
        }
    }

    /// Masks reported events. A masked event lists the paths in its `redacted_paths`.
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
        let grown = grown_texts(drafts);
        let replaced = self.pieces(texts, drafts, &grown, &mut masking);
        let mut calls = BTreeSet::new();
        for index in 0..drafts.len() {
            let draft = &drafts[index];
            let replacement;
            let field = match &draft.payload {
                Payload::AssistantTextComplete(whole) | Payload::AssistantThinkingComplete(whole) => {
                    match logged_text(texts, state, drafts, &grown, &replaced, index, whole) {
                        LoggedText::None => None,
                        LoggedText::Unmasked => Some(JsonField { name: "text", value: None }),
                        LoggedText::Masked(logged) => {
                            replacement = logged;
                            Some(JsonField { name: "text", value: Some(&replacement) })
                        }
                    }
                }
                Payload::ApprovalRequested(request) => {
                    let masked = calls.contains(&request.tool_call_id)
                        || state.call(&request.tool_call_id).is_some_and(Call::is_masked);
                    match masked.then(|| corrected_digest(state, &drafts[..index], request)).flatten() {
                        Some(corrected) => {
                            replacement = corrected;
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

    /// Masks pieces of texts across events. Returns the masked piece of each event.
    fn pieces(
        &self,
        texts: &Texts,
        drafts: &[Draft],
        grown: &[GrownText],
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

    /// The masked draft and the masked paths; `None` if nothing is masked.
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
            false => match self.masked_where_valid(type_name, text, field, &masked.paths)? {
                Some(masked) => masked,
                None => return Ok(None),
            },
        };
        let named = with_paths(&masked.text, &masked.paths);
        let verbatim = if named.len() > event_limits::DATA_BYTES_MAX { masked.text } else { named };
        let payload = Payload::read(type_name, &verbatim).map_err(|why| unmaskable(type_name, &why))?;
        Ok(Some((Draft { payload, verbatim: Some(verbatim.into()) }, masked.paths)))
    }

    /// Does not mask identifiers and protocol values.
    fn masked_where_valid(
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

    /// The payload of an own event, masked, and the masked paths.
    pub(crate) fn payload(&self, payload: Payload) -> Result<(Payload, Vec<String>), Error> {
        let draft = Draft::from(payload);
        match self.masked(&draft, None)? {
            Some((masked, paths)) => Ok((masked.payload, paths)),
            None => Ok((draft.payload, Vec::new())),
        }
    }
}

impl Masking {
    /// The new state of the texts, for accepted events.
    pub(crate) fn into_texts(self) -> Vec<(TextName, Online)> {
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

/// The texts that a batch extends.
fn grown_texts(drafts: &[Draft]) -> Vec<GrownText> {
    let mut grown: Vec<GrownText> = Vec::new();
    for (index, draft) in drafts.iter().enumerate() {
        if let Some(piece) = Piece::of(&draft.payload) {
            let place = grown.iter().rposition(|text| piece.is_of(&text.name)).unwrap_or_else(|| {
                grown.push(GrownText {
                    name: piece.name(),
                    bytes: Vec::new(),
                    parts: Vec::new(),
                    ended: false,
                });
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

/// What the log has of a text that is reported as complete.
enum LoggedText {
    /// No pieces: it is masked like any other text.
    None,
    /// No masked piece, or the text differs: the rules decide.
    Unmasked,
    Masked(String),
}

/// Compares a complete text with its logged pieces, because both must be equal.
fn logged_text(
    texts: &Texts,
    state: &State,
    drafts: &[Draft],
    grown: &[GrownText],
    replaced: &[Option<String>],
    index: usize,
    whole: &TextComplete,
) -> LoggedText {
    let name = TextName::Block(whole.turn_index, whole.block_index);
    let parts = || {
        let text = grown.iter().find(|text| text.name == name).into_iter();
        text.flat_map(|text| &text.parts).map(|(part, _)| *part).filter(|part| *part < index)
    };
    let before = texts.get(&name);
    if before.is_none() && parts().next().is_none() {
        return LoggedText::None;
    }
    let starred = before.is_some_and(Online::is_starred) || parts().any(|part| replaced[part].is_some());
    if !starred {
        return LoggedText::Unmasked;
    }
    let mut logged = state.open_text(whole.turn_index, whole.block_index).unwrap_or_default();
    for part in parts() {
        match (&replaced[part], &drafts[part].payload) {
            (Some(masked), _) => logged.push_str(masked),
            (None, Payload::AssistantTextDelta(delta) | Payload::AssistantThinkingDelta(delta)) => {
                logged.push_str(&delta.delta);
            }
            _ => {}
        }
    }
    let matches_log = logged.len() == whole.text.len()
        && logged
            .bytes()
            .zip(whole.text.bytes())
            .all(|(logged, sent)| logged == sent || logged == recount_redact::MASK);
    if matches_log && logged != whole.text { LoggedText::Masked(logged) } else { LoggedText::Unmasked }
}

/// The corrected digest of a call with masked input, if the approval request has another one: its producer knows only
/// the unmasked input.
fn corrected_digest(state: &State, before: &[Draft], request: &Requested) -> Option<String> {
    let sent = request.call_digest.as_deref().filter(|digest| digest.starts_with(CALL_DIGEST_PREFIX))?;
    let in_batch = before.iter().rev().find_map(|draft| match &draft.payload {
        Payload::AssistantToolCallProposed(proposed) if proposed.tool_call_id == request.tool_call_id => {
            Some((proposed.tool_name.as_str(), &proposed.input))
        }
        _ => None,
    });
    let (tool_name, input) = in_batch.or_else(|| proposal(state, &request.tool_call_id))?;
    let corrected = call_digest(tool_name, input.text());
    (sent != corrected).then_some(corrected)
}

fn proposal<'a>(state: &'a State, call: &ForeignId) -> Option<(&'a str, &'a Json)> {
    let call = state.call(call)?;
    Some((call.tool_name.as_deref()?, call.input.as_deref()?))
}
