//! Tools for prompts: list what waits for an answer, with everything that a person is shown, and answer it.

use recount_api::query::{AFTER, LIMIT, STATUS};
use recount_api::reply::{One, Page, Run};
use recount_event::Code;
use serde_json::{Map, Value, json};

use super::KINDS;
use crate::args::Args;
use crate::limits;
use crate::native::{Failure, Native};
use crate::project::{Pile, Reply, fields, quote};

/// The list of a kind, as its route names it.
fn list_of(kind: &str) -> &'static str {
    match kind {
        "approval" => "approvals",
        "clarification" => "clarifications",
        _ => "handoffs",
    }
}

/// Prompts that are collected for a result.
struct Listing {
    pile: Pile,
    prompts: Vec<Value>,
    /// The cursor after the last prompt, if more follow.
    next: Option<String>,
}

impl Listing {
    /// Adds a prompt whole. Returns false if it does not fit.
    fn add(&mut self, kind: &str, mut prompt: Value) -> bool {
        prompt["prompt_kind"] = kind.into();
        let fits = self.pile.push(&format!("{kind}:\n{}", quote(&fields(&prompt))));
        if fits {
            self.prompts.push(prompt);
        }
        fits
    }

    fn into_reply(self) -> Reply {
        let mut head = match self.prompts.len() {
            0 => "no open prompts".to_owned(),
            1 => "1 open prompt".to_owned(),
            count => format!("{count} open prompts"),
        };
        let mut structured = Map::new();
        structured.insert("prompts".to_owned(), self.prompts.into());
        structured.insert("has_more".to_owned(), self.next.is_some().into());
        if let Some(next) = self.next {
            head.push_str(&format!("; more follow: call list_prompts again with cursor {next:?}"));
            structured.insert("next".to_owned(), next.into());
        }
        Reply::quoting(&head, &self.pile.text, structured)
    }
}

pub(super) async fn list_prompts(native: &Native, args: &Args) -> Result<Reply, Failure> {
    let limit = args.number("limit").unwrap_or(limits::PROMPTS_DEFAULT) as usize;
    let only = args.text("kind");
    let mut listing = Listing { pile: Pile::new(limits::PROMPTS_BYTES_MAX), prompts: Vec::new(), next: None };
    let (first, mut after) = cursor(args.text("cursor"))?;
    let kinds = KINDS[first..].iter().filter(|kind| only.is_none_or(|only| only == **kind));
    if let Some(run) = args.text("run") {
        return of_run(native, run, kinds, after.as_deref(), limit, listing).await;
    }
    let mut reads = limits::PROMPT_READS_MAX;
    for kind in kinds {
        // One at a time, so that each has its own cursor.
        loop {
            match next_prompt(native, kind, after.as_deref(), &mut reads).await? {
                Next::Prompt(prompt, next)
                    if listing.prompts.len() < limit
                        && listing.add(kind, whole(native, kind, &prompt, &mut reads).await?) =>
                {
                    after = next;
                }
                Next::Prompt(..) => {
                    listing.next = Some(format!("{kind}:{}", after.unwrap_or_default()));
                    return Ok(listing.into_reply());
                }
                Next::After(next) => {
                    listing.next = Some(format!("{kind}:{}", next.unwrap_or_default()));
                    return Ok(listing.into_reply());
                }
                Next::End => break,
            }
        }
        after = None;
    }
    Ok(listing.into_reply())
}

/// The prompt kind and the cursor in its list.
fn cursor(text: Option<&str>) -> Result<(usize, Option<String>), String> {
    let Some(text) = text else { return Ok((0, None)) };
    let found = text
        .split_once(':')
        .and_then(|(kind, after)| Some((KINDS.iter().position(|known| *known == kind)?, after)));
    let (kind, after) =
        found.ok_or("cursor is not one of this tool; send `next` of the previous result".to_owned())?;
    Ok((kind, Some(after.to_owned()).filter(|after| !after.is_empty())))
}

/// What follows a cursor in a list.
enum Next {
    /// A prompt and the cursor after it.
    Prompt(Value, Option<String>),
    /// No more may be read; more follow after this cursor.
    After(Option<String>),
    End,
}

/// `reads` is how many more reads are allowed.
async fn next_prompt(
    native: &Native,
    kind: &str,
    after: Option<&str>,
    reads: &mut usize,
) -> Result<Next, Failure> {
    let mut after = after.map(str::to_owned);
    while *reads > 0 {
        *reads -= 1;
        let query =
            [(STATUS, Some("pending".to_owned())), (AFTER, after.clone()), (LIMIT, Some("1".to_owned()))];
        let mut page: Page<Value> = native.get(&[list_of(kind)], &query).await?;
        after = page.next.as_ref().and_then(Value::as_str).map(str::to_owned).or(after);
        // A page is empty if the client may not see its prompt.
        if let Some(prompt) = page.data.pop() {
            return Ok(Next::Prompt(prompt, after));
        }
        if !page.has_more {
            return Ok(Next::End);
        }
    }
    Ok(Next::After(after))
}

/// A prompt with the context of a handoff, which lists leave out with the digest of what is shown.
async fn whole(native: &Native, kind: &str, listed: &Value, reads: &mut usize) -> Result<Value, Failure> {
    match (kind, listed["id"].as_str()) {
        ("handoff", Some(id)) => {
            *reads = reads.saturating_sub(1);
            get(native, kind, id).await
        }
        _ => Ok(listed.clone()),
    }
}

async fn get(native: &Native, kind: &str, id: &str) -> Result<Value, Failure> {
    let One { data, .. }: One<Value> = native.get(&[list_of(kind), id], &[]).await?;
    Ok(data)
}

async fn of_run(
    native: &Native,
    run: &str,
    kinds: impl Iterator<Item = &&'static str>,
    after: Option<&str>,
    limit: usize,
    mut listing: Listing,
) -> Result<Reply, Failure> {
    let One { data: row, .. }: One<Run> = native.get(&["runs", run], &[]).await?;
    let mut after = after;
    for kind in kinds {
        let ids = match *kind {
            "approval" => &row.pending_approvals,
            "clarification" => &row.pending_clarifications,
            _ => &row.pending_handoffs,
        };
        let first =
            after.take().and_then(|after| ids.iter().position(|id| id == after)).map_or(0, |at| at + 1);
        for (at, id) in ids.iter().enumerate().skip(first) {
            let is_full = listing.prompts.len() == limit;
            if is_full || !listing.add(kind, get(native, kind, id).await?) {
                let before = at.checked_sub(1).map_or("", |at| &*ids[at]);
                listing.next = Some(format!("{kind}:{before}"));
                return Ok(listing.into_reply());
            }
        }
    }
    Ok(listing.into_reply())
}

pub(super) async fn answer_prompt(native: &Native, args: &Args) -> Result<Reply, Failure> {
    let (kind, id) = (args.needed("kind")?, args.needed("id")?);
    let shown_digest = args.needed("shown_digest")?;
    let (decision, comment) = (args.text("decision"), args.text("comment"));
    let (verb, body) = match (kind, decision, args.json("response")) {
        ("clarification", None, Some(response)) if comment.is_none() => {
            ("answer", json!({ "response": response, "shown_digest": shown_digest }))
        }
        ("clarification", ..) => {
            return Err("a clarification takes response, and no decision or comment".to_owned().into());
        }
        (_, None, _) | (_, _, Some(_)) => {
            return Err(format!("{kind} takes decision, approve or reject, and no response").into());
        }
        ("approval", Some(decision), None) => {
            check_whole(native, id, decision).await?;
            ("resolve", json!({ "decision": decision, "comment": comment, "shown_digest": shown_digest }))
        }
        (_, Some("approve"), None) => {
            ("acknowledge", json!({ "comment": comment, "shown_digest": shown_digest }))
        }
        (_, Some(_), None) => ("reject", json!({ "reason": comment, "shown_digest": shown_digest })),
    };
    let One { data, .. }: One<Value> = native.post(&[list_of(kind), id, verb], &body).await?;
    let mut structured = Map::new();
    structured.insert("prompt".to_owned(), data.clone());
    Ok(Reply::quoting(&format!("{kind} answered"), &quote(&fields(&data)), structured))
}

/// Refuses to approve a call of which only the beginning is shown here.
async fn check_whole(native: &Native, id: &str, decision: &str) -> Result<(), Failure> {
    if decision != "approve" {
        return Ok(());
    }
    let approval = get(native, "approval", id).await?;
    match approval["preview_size_bytes"].as_u64() {
        None => Ok(()),
        Some(size) => Err(Failure::new(
            Code::OrderRefused,
            format!(
                "the call has {size} bytes, and only their beginning is shown here; a person has to approve it, in the \
                 console or with `recount approve {id}`"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_cursors_are_accepted() {
        assert_eq!(cursor(None), Ok((0, None)));
        assert_eq!(cursor(Some("handoff:")), Ok((2, None)));
        assert_eq!(cursor(Some("clarification:a:b")), Ok((1, Some("a:b".to_owned()))));
        for bad in ["", "x", "approvals:1", ":"] {
            assert!(cursor(Some(bad)).is_err(), "{bad}");
        }
    }
}
