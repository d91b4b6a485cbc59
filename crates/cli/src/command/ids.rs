//! Finds the id that a person means: a whole id, its end, or `last` for the newest. Start at [`full`].

use recount_client::prompt::Prompt;
use recount_client::reply::{Approval, Clarification, Handoff};
use recount_client::{Client, ClientError, Listing};

use crate::failure::Failure;
use crate::limits;
use crate::pages::{gather, open_prompts};
use crate::render::clean;

/// What an id is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdKind {
    Run,
    Task,
    Session,
    Artifact,
    /// Open approvals, questions and handoffs; ended ones only by their whole id.
    Approval,
    Question,
    Handoff,
}

impl IdKind {
    fn prefix(self) -> &'static str {
        match self {
            IdKind::Run => "run_",
            IdKind::Task => "task_",
            IdKind::Session => "chat_",
            IdKind::Artifact => "art_",
            IdKind::Approval => "appr_",
            IdKind::Question => "clar_",
            IdKind::Handoff => "hand_",
        }
    }

    /// The newest ids first, up to a bound.
    async fn list(self, client: &Client, count_max: usize) -> Result<Vec<String>, Failure> {
        let ids = match self {
            IdKind::Run => {
                let fetch = async |listing: Listing| client.list_runs(&listing).await;
                gather(fetch, count_max, None).await?.into_iter().map(|one| one.id).collect()
            }
            IdKind::Task => {
                let fetch = async |listing: Listing| client.list_tasks(&listing).await;
                gather(fetch, count_max, None).await?.into_iter().map(|one| one.id).collect()
            }
            IdKind::Session => {
                let fetch = async |listing: Listing| client.list_sessions(&listing).await;
                gather(fetch, count_max, None).await?.into_iter().map(|one| one.id).collect()
            }
            IdKind::Artifact => {
                let fetch = async |listing: Listing| client.list_artifacts(&listing, None, None).await;
                gather(fetch, count_max, None).await?.into_iter().map(|one| one.id).collect()
            }
            IdKind::Approval => ids_of(open_prompts::<Approval>(client, count_max).await?),
            IdKind::Question => ids_of(open_prompts::<Clarification>(client, count_max).await?),
            IdKind::Handoff => ids_of(open_prompts::<Handoff>(client, count_max).await?),
        };
        Ok(ids)
    }

    /// Whether a text is a whole id. Ids of prompts and artifacts may have any form, so the server decides.
    async fn is_known(self, client: &Client, text: &str) -> Result<bool, ClientError> {
        let found = match self {
            IdKind::Run | IdKind::Task | IdKind::Session => return Ok(is_own(self.prefix(), text)),
            _ if is_own(self.prefix(), text) => return Ok(true),
            IdKind::Artifact => client.get_artifact(text).await.map(drop),
            IdKind::Approval => client.get_prompt::<Approval>(text).await.map(drop),
            IdKind::Question => client.get_prompt::<Clarification>(text).await.map(drop),
            IdKind::Handoff => client.get_prompt::<Handoff>(text).await.map(drop),
        };
        match found {
            Err(why) if why.code().is_some_and(|code| code.ends_with("_not_found")) => Ok(false),
            Err(ClientError::Problem(_)) | Ok(()) => Ok(true),
            Err(why) => Err(why),
        }
    }
}

fn ids_of<P: Prompt>(prompts: Vec<P>) -> Vec<String> {
    prompts.iter().map(|prompt| prompt.head().id.to_owned()).collect()
}

/// Whether a text is a whole id of this server: the prefix and a ULID.
fn is_own(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix)
        .is_some_and(|body| body.len() == 26 && body.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// The whole id. A text that is the end of none stays as it is, and the server reports it.
pub(super) async fn full(client: &Client, kind: IdKind, text: &str) -> Result<String, Failure> {
    if text == "last" {
        let newest = kind.list(client, 1).await?.into_iter().next();
        return newest.ok_or_else(|| {
            let name = kind.prefix().trim_end_matches('_');
            Failure::Missing(format!("\"last\" is the newest id that begins with {name}_, and there is none"))
        });
    }
    let Some(end) = ending(kind.prefix(), text) else { return Ok(text.to_owned()) };
    if kind.is_known(client, text).await? {
        return Ok(text.to_owned());
    }
    let known = kind.list(client, limits::IDS_SEARCHED_MAX).await?;
    one(text, known.iter().filter(|id| id.to_ascii_uppercase().ends_with(&end)))
}

/// Refuses `last` where nothing is shown before it is acted on: it may have become another one in the meantime.
pub(super) fn named(text: &str, is_confirmed: bool) -> Result<(), Failure> {
    if is_confirmed && text == "last" {
        return Err(Failure::Usage("\"last\" cannot be confirmed with --yes; give the id".to_owned()));
    }
    Ok(())
}

/// What an id may end with, if the text is long enough to be an end. `…` is as lists shorten ids.
fn ending(prefix: &str, text: &str) -> Option<String> {
    let end = text.strip_prefix(prefix).unwrap_or(text).trim_start_matches('…');
    (end.len() >= limits::ID_END_MIN && end.is_ascii()).then(|| end.to_ascii_uppercase())
}

fn one<'a>(text: &str, found: impl Iterator<Item = &'a String>) -> Result<String, Failure> {
    let found: Vec<&str> = found.map(String::as_str).collect();
    match found[..] {
        [] => Ok(text.to_owned()),
        [id] => Ok(id.to_owned()),
        _ => {
            let shown = found.iter().take(limits::IDS_NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
            let more = if found.len() > limits::IDS_NAMED_MAX { ", …" } else { "" };
            Err(Failure::Usage(format!(
                "{:?} is the end of {} ids: {shown}{more}; give more of it",
                clean::line(text),
                found.len()
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_id_is_found_if_it_is_unique() {
        let ids = ["run_01KQPVTMD3J3EQPNZXHCZRNBX8", "run_01KQPVTMD3RHAXZKBRCSTGA6X8", "gate:17"]
            .map(str::to_owned);
        let find = |text: &str| -> Result<String, String> {
            let Some(end) = ending("run_", text) else { return Ok(text.to_owned()) };
            one(text, ids.iter().filter(|id| id.to_ascii_uppercase().ends_with(&end)))
                .map_err(|why| why.to_string())
        };
        for text in ["ZRNBX8", "zrnbx8", "run_…ZRNBX8", "…ZRNBX8", "run_ZRNBX8"] {
            assert_eq!(find(text).unwrap(), ids[0], "{text}");
        }
        assert_eq!(find("e:17").unwrap(), ids[2]);
        for text in ["X8", "", "nothing", "1KQP", "ä…ZRNBX8"] {
            assert_eq!(find(text).unwrap(), text, "it stays as it is");
        }
        let twice = [ids[0].clone(), ids[0].replace("01K", "02K")];
        let why = one("ZRNBX8", twice.iter()).unwrap_err().to_string();
        assert!(why.contains("2 ids") && why.contains(&twice[1]), "{why}");
    }

    #[test]
    fn a_whole_id_needs_no_look_at_a_list() {
        assert!(is_own("run_", "run_01KQPVTMD3J3EQPNZXHCZRNBX8"));
        for text in
            ["run_01KQPVTMD3J3EQPNZXHCZRNBX", "01KQPVTMD3J3EQPNZXHCZRNBX8", "task_01KQPVTMD3J3EQPNZXHCZRNBX8"]
        {
            assert!(!is_own("run_", text), "{text}");
        }
    }
}
