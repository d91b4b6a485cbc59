//! `recount extend`: moves the deadline of an approval, a question or a handoff, for people who need more time to decide.

use clap::Args;
use recount_client::request::ExtendPrompt;
use recount_client::{Client, ClientError};
use recount_server::amounts;

use super::Invocation;
use super::ids::{self, IdKind};
use super::invocation::Asking;
use crate::failure::Failure;
use crate::render::{clean, utc_time};

/// Move the deadline of an approval, question or handoff
#[derive(Args)]
pub(super) struct Extend {
    /// Id of the approval, question or handoff
    #[arg(value_name = "ID")]
    prompt: String,
    /// Time to add, such as 90s, 10m or 1h; at most a day in total
    #[arg(value_name = "TIME", value_parser = seconds)]
    time: u64,
}

fn seconds(text: &str) -> Result<u64, String> {
    let time = amounts::duration(text).map(|time| time.as_secs()).filter(|seconds| *seconds > 0);
    time.ok_or_else(|| "use a duration such as 90s, 10m or 1h".into())
}

/// The fields that all three have in common, and all of them as JSON.
struct Extended {
    id: String,
    expires_at: Option<String>,
    json: serde_json::Value,
}

impl Extend {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(async |mut asking: Asking| {
            let request = ExtendPrompt { seconds: self.time };
            let mut prompt = self.prompt;
            for kind in [IdKind::Approval, IdKind::Question, IdKind::Handoff] {
                match ids::full(&asking.client, kind, &prompt).await {
                    Ok(id) if id != prompt => {
                        prompt = id;
                        break;
                    }
                    // None of this kind is open.
                    Ok(_) | Err(Failure::Missing(_)) => {}
                    Err(why) => return Err(why),
                }
            }
            let extended = extend(&asking.client, &prompt, request).await?;
            if asking.json {
                return asking.out.value(&extended.json);
            }
            let until = extended.expires_at.as_deref().map_or("an unknown time".to_owned(), utc_time);
            asking.out.line(&clean::line(&format!("{} expires at {until}", extended.id)))
        })
    }
}

/// Ids of other producers do not show what they are of, so the kinds are tried one after the other.
async fn extend(client: &Client, id: &str, request: ExtendPrompt) -> Result<Extended, Failure> {
    let missing = |why: &ClientError, code: &str| why.code() == Some(code);
    match client.extend_approval(id, &request).await {
        Ok(one) => return of(one.id.clone(), one.expires_at.clone(), &one),
        Err(why) if missing(&why, "approval_not_found") => {}
        Err(why) => return Err(why.into()),
    }
    match client.extend_clarification(id, &request).await {
        Ok(one) => return of(one.id.clone(), one.expires_at.clone(), &one),
        Err(why) if missing(&why, "clarification_not_found") => {}
        Err(why) => return Err(why.into()),
    }
    match client.extend_handoff(id, &request).await {
        Ok(one) => of(one.id.clone(), one.expires_at.clone(), &one),
        Err(why) if missing(&why, "handoff_not_found") => Err(Failure::Usage(format!(
            "no approval, question or handoff has the id {id:?}; recount today lists those that wait"
        ))),
        Err(why) => Err(why.into()),
    }
}

fn of(id: String, expires_at: Option<String>, whole: &impl serde::Serialize) -> Result<Extended, Failure> {
    let json = serde_json::to_value(whole).map_err(|why| Failure::Own(format!("{id}: {why}")))?;
    Ok(Extended { id, expires_at, json })
}
