//! `recount extend`: moves the deadline of an approval, a question or a handoff, for people who need more time to decide.

use clap::Args;
use recount_client::prompt::Prompt;
use recount_client::reply::{Approval, Clarification, Handoff};
use recount_client::request::ExtendPrompt;
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
            let found = extend::<Approval>(&mut asking, &prompt, &request).await?
                || extend::<Clarification>(&mut asking, &prompt, &request).await?
                || extend::<Handoff>(&mut asking, &prompt, &request).await?;
            let missing = || {
                let hint = "recount today lists those that wait";
                Failure::Usage(format!("no approval, question or handoff has the id {prompt:?}; {hint}"))
            };
            if found { Ok(()) } else { Err(missing()) }
        })
    }
}

/// Extends and prints the prompt, if it is of this kind. Ids of other producers do not show what they are of, so the kinds
/// are tried one after the other.
async fn extend<P: Prompt>(asking: &mut Asking, id: &str, request: &ExtendPrompt) -> Result<bool, Failure> {
    let extended = match asking.client.extend_prompt::<P>(id, request).await {
        Err(why) if why.code() == Some(P::KIND.not_found().as_str()) => return Ok(false),
        extended => extended?,
    };
    let head = extended.head();
    if asking.json {
        let json =
            serde_json::to_value(&extended).map_err(|why| Failure::Own(format!("{}: {why}", head.id)))?;
        asking.out.value(&json)?;
    } else {
        let until = head.expires_at.map_or("an unknown time".to_owned(), utc_time);
        asking.out.line(&clean::line(&format!("{} expires at {until}", head.id)))?;
    }
    Ok(true)
}
