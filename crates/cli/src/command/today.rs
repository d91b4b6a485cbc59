//! `recount today`: what all agents did since yesterday, what it cost where that is known, and what waits for a person.

use clap::Args;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use recount_client::reply::{Approval, Clarification, Handoff, Run};
use recount_client::{Client, Listing};
use recount_server::amounts;
use recount_world::World;

use super::invocation::{Asking, Invocation};
use super::reach;
use crate::failure::Failure;
use crate::limits;
use crate::pages::{collect, open_prompts};
use crate::render::today::{self, Today, WaitingPrompt};

/// Show what agents did since yesterday, what it cost, and what waits for you
#[derive(Args)]
pub(super) struct TodayVerb {
    /// Start of the report: a duration such as 12h or 7d, a date, or a time such as 2026-11-25T08:00Z [default:
    /// yesterday at 00:00 UTC]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only agents whose name begins with this, such as claude
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

impl TodayVerb {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        reach::ask(invocation, |asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let now = now()?;
        let since = match &self.since {
            None => yesterday(now),
            Some(text) => beginning(text, now).map_err(Failure::Usage)?,
        };
        let client = asking.client.clone();
        let (runs, is_complete) = runs_since(&client, since, self.agent.as_deref()).await?;
        let waiting = waiting(&client).await?;
        let asking_runs = runs_of(&client, &waiting, &runs).await?;
        let waiting = match &self.agent {
            None => waiting,
            // Of these agents only.
            Some(agent) => {
                let known = |id: &str| runs.iter().chain(&asking_runs).find(|run| run.id == id);
                let begins = |run: &Run| {
                    let name = run.agent_name.as_deref().unwrap_or_default().to_lowercase();
                    name.starts_with(&agent.to_lowercase())
                };
                waiting.into_iter().filter(|prompt| known(prompt.run_id()).is_some_and(begins)).collect()
            }
        };
        let today = Today::of(written(since), &runs, is_complete, waiting, &asking_runs);
        if asking.json { asking.out.value(&today) } else { asking.out.lines(&today::lines(&today)) }
    }
}

pub(super) fn now() -> Result<Timestamp, Failure> {
    let now = i64::try_from(World::real().clock.now_ms()).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(now).map_err(|why| Failure::Own(format!("cannot read the clock: {why}")))
}

pub(super) fn written(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// Yesterday at 00:00 UTC.
fn yesterday(now: Timestamp) -> Timestamp {
    let day = now.to_zoned(TimeZone::UTC).date().yesterday();
    day.and_then(start_of).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn start_of(day: Date) -> Result<Timestamp, jiff::Error> {
    Ok(day.to_zoned(TimeZone::UTC)?.timestamp())
}

/// Reads a duration before now, a date, or a time; without an offset it is in UTC.
pub(super) fn beginning(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let is_amount = text.ends_with(['s', 'm', 'h', 'd']);
    let read = match amounts::duration(text).filter(|_| is_amount) {
        Some(time) => SignedDuration::try_from(time).ok().and_then(|time| now.checked_sub(time).ok()),
        None => text
            .parse::<Timestamp>()
            .ok()
            .or_else(|| {
                text.parse::<Date>().ok().filter(|_| text.len() == 10).and_then(|day| start_of(day).ok())
            })
            .or_else(|| {
                let time = text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?;
                Some(time.timestamp())
            }),
    };
    let read = read.ok_or_else(|| {
        format!("--since is {text:?}; use a duration such as 12h, a date such as 2026-11-25, or a time such as 2026-11-25T08:00Z")
    })?;
    if read > now {
        return Err(format!("--since is {text:?}, which is in the future; use an earlier time"));
    }
    Ok(read)
}

/// The runs that were created or ended since, or have not ended, newest first, and whether these are all. Runs that were
/// created more than [`limits::TODAY_LOOKBACK`] earlier are not looked at.
async fn runs_since(
    client: &Client,
    since: Timestamp,
    agent: Option<&str>,
) -> Result<(Vec<Run>, bool), Failure> {
    let earliest = SignedDuration::try_from(limits::TODAY_LOOKBACK)
        .ok()
        .and_then(|time| since.checked_sub(time).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH);
    let filter = Listing { agent: agent.map(str::to_owned), ..Listing::default() };
    let fetch = async |listing: Listing| client.list_runs(&listing).await;
    let is_from = |at: &str, bound: Timestamp| at.parse::<Timestamp>().is_ok_and(|at| at >= bound);
    let (mut found, mut after, mut read) = (Vec::new(), None, 0);
    loop {
        let part = collect(fetch, after, limits::TODAY_PAGE, &filter).await?;
        read += part.items.len();
        for run in part.items {
            if !is_from(&run.created_at, earliest) {
                return Ok((found, true));
            }
            let ended = run.ended_at.as_deref();
            if is_from(&run.created_at, since) || ended.is_none_or(|at| is_from(at, since)) {
                found.push(run);
            }
        }
        if part.next.is_none() {
            return Ok((found, true));
        }
        if read >= limits::TODAY_RUNS_MAX {
            return Ok((found, false));
        }
        after = part.next;
    }
}

/// Every pending prompt, whenever it was created.
async fn waiting(client: &Client) -> Result<Vec<WaitingPrompt>, Failure> {
    let most = limits::TODAY_WAITING_MAX;
    let mut all = WaitingPrompt::all(&open_prompts::<Approval>(client, most).await?);
    all.extend(WaitingPrompt::all(&open_prompts::<Clarification>(client, most).await?));
    all.extend(WaitingPrompt::all(&open_prompts::<Handoff>(client, most).await?));
    Ok(all)
}

/// The runs of what waits, but for those that are known.
async fn runs_of(client: &Client, waiting: &[WaitingPrompt], known: &[Run]) -> Result<Vec<Run>, Failure> {
    let mut runs: Vec<Run> = Vec::new();
    for prompt in waiting {
        let id = prompt.run_id();
        if known.iter().chain(&runs).any(|run| run.id == id) {
            continue;
        }
        match client.get_run(id).await {
            Ok(run) => runs.push(run),
            // Deleted since the list was read.
            Err(why) if matches!(why.code(), Some("run_not_found" | "run_erased")) => {}
            Err(why) => return Err(why.into()),
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_a_duration_a_date_or_a_time() {
        let now: Timestamp = "2026-11-26T09:30:00Z".parse().unwrap();
        let read = |text: &str| beginning(text, now).map(written);
        assert_eq!(written(yesterday(now)), "2026-11-25T00:00:00.000Z");
        for (text, expected) in [
            ("12h", "2026-11-25T21:30:00.000Z"),
            ("7d", "2026-11-19T09:30:00.000Z"),
            ("2026-11-24", "2026-11-24T00:00:00.000Z"),
            ("2026-11-24T08:00Z", "2026-11-24T08:00:00.000Z"),
            ("2026-11-24T08:00:00+01:00", "2026-11-24T07:00:00.000Z"),
            ("2026-11-24T08:00", "2026-11-24T08:00:00.000Z"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
        for bad in ["", "yesterday", "12", "h", "2026-13-01", "99999999999999999d", "2026-11-27"] {
            let refused = read(bad).unwrap_err();
            assert!(refused.contains(&format!("{bad:?}")), "{refused}");
        }
    }
}
