//! `recount export RUN --patches`: the applied patches of a run as a series that `git am` takes.
//!
//! Look at [`Series::of`], which works out from the log which patches there are and in which order, and [`write`]. How a
//! message looks is in `crate::mailbox`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use recount_client::reply::Run;
use recount_client::{Client, Listing};
use recount_command_line::partial::Partial;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::limits;
use crate::mailbox::Mail;
use crate::output::{Output, note};
use crate::pages::gather;
use crate::place::Place;
use crate::render::clean;

/// A patch as its run recorded it.
#[derive(Debug, Clone)]
struct Patch {
    run: String,
    call: Option<String>,
    path: Option<String>,
    masked: bool,
    truncated: bool,
}

/// That a patch was applied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Application {
    at: String,
    run: String,
    sequence: u64,
    patch: String,
}

/// The patches in the events of the runs.
#[derive(Debug, Default)]
struct PatchLog {
    patches: BTreeMap<String, Patch>,
    applications: BTreeSet<Application>,
    /// An inverse, and the patch that it takes back.
    inverses: BTreeMap<String, String>,
}

/// What one run adds to it.
#[derive(Debug, Default)]
struct Reading {
    made: Vec<String>,
    reverted: Vec<String>,
    first: Option<u64>,
}

impl PatchLog {
    fn event(&mut self, run: &str, reading: &mut Reading, event: &Value) {
        let data = &event["data"];
        let text = |name: &str| data[name].as_str().map(str::to_owned);
        reading.first = reading.first.or(event["sequence"].as_u64());
        let Some(id) = text("artifact_id") else { return };
        match event["type"].as_str() {
            Some("artifact.created") if data["kind"] == "patch" => {
                reading.made.push(id.clone());
                let patch = Patch {
                    run: run.to_owned(),
                    call: text("tool_call_id"),
                    path: text("path"),
                    masked: data["masked"] == true,
                    truncated: data["truncated"] == true,
                };
                self.patches.insert(id, patch);
            }
            Some("artifact.updated") if data["field"] == "reverted_at" => reading.reverted.push(id),
            Some("artifact.updated") if data["field"] == "status" && data["new_value"] == "applied" => {
                self.applications.insert(Application {
                    at: event["occurred_at"].as_str().unwrap_or_default().to_owned(),
                    run: run.to_owned(),
                    sequence: event["sequence"].as_u64().unwrap_or_default(),
                    patch: id,
                });
            }
            _ => {}
        }
    }

    /// A run that reverts makes one inverse for each patch, in the order in which it takes them back.
    fn read(&mut self, reading: Reading) {
        self.inverses.extend(reading.made.into_iter().zip(reading.reverted));
    }

    /// The patches of the series in the order of their application, and those that are left out as taken back.
    fn series(&self, with_reverted: bool) -> (Vec<&Application>, Vec<&str>) {
        let known = self.applications.iter().filter(|applied| self.patches.contains_key(&applied.patch));
        if with_reverted {
            return (known.collect(), Vec::new());
        }
        let mut series: Vec<&Application> = Vec::new();
        let mut left_out = Vec::new();
        for applied in known {
            let original = self.inverses.get(&applied.patch);
            let at = original.and_then(|id| series.iter().position(|earlier| earlier.patch == *id));
            match at {
                // As if neither had been.
                Some(at) => {
                    series.remove(at);
                    left_out.extend(original.map(String::as_str));
                }
                // What takes back an inverse brings the first patch again.
                None => {
                    series.push(applied);
                    if let Some(first) = original.and_then(|inverse| self.inverses.get(inverse)) {
                        left_out.retain(|id| *id != first);
                    }
                }
            }
        }
        (series, left_out)
    }
}

/// The series of a run.
pub(super) struct Series {
    run: Run,
    log: PatchLog,
    with_reverted: bool,
}

/// A message with its file name.
type Written = (String, Vec<u8>);

impl Series {
    /// Reads the log of the run, and of the runs that applied or reverted its patches later.
    pub(super) async fn of(client: &Client, run: &str, with_reverted: bool) -> Result<Self, Failure> {
        let place = Place::server(client.clone());
        let run = client.get_run(run).await?;
        let mut log = PatchLog::default();
        let made = read(&place, &run.id, &mut log).await?;
        if made.first != Some(0) {
            let why = "its first events were pruned and may have contained patches";
            return Err(Failure::Refused(format!(
                "cannot export a complete patch series of {}: {why}",
                run.id
            )));
        }
        let mut chain = BTreeSet::from([run.id.clone()]);
        for later in later_runs(client, &run).await? {
            // A patch is changed by a run that follows the run of the patch.
            if later.prior_run_id.is_some_and(|prior| chain.contains(&prior)) {
                chain.insert(later.id.clone());
                let reading = read(&place, &later.id, &mut log).await?;
                log.read(reading);
            }
        }
        Ok(Series { run, log, with_reverted })
    }

    /// All messages of the series; nothing where one of its patches cannot be written.
    async fn messages(&self, client: &Client, series: &[&Application]) -> Result<Vec<Written>, Failure> {
        let count = series.len();
        if count > limits::SERIES_PATCHES_MAX {
            let most = limits::SERIES_PATCHES_MAX;
            return Err(Failure::Refused(format!("the series has {count} patches; the limit is {most}")));
        }
        let refused: Vec<String> = series.iter().filter_map(|applied| self.refusal(&applied.patch)).collect();
        if !refused.is_empty() {
            return Err(Failure::Refused(format!("nothing was written: {}", refused.join("; "))));
        }
        let author = match &self.run.model {
            Some(model) => format!("Recount {model}"),
            None => "Recount".to_owned(),
        };
        let (mut messages, mut held) = (Vec::with_capacity(count), 0);
        for (at, applied) in series.iter().enumerate() {
            let patch = &self.log.patches[&applied.patch];
            let diff = client.read_artifact(&applied.patch).await?;
            let mut trailers =
                vec![("Recount-Run", patch.run.as_str()), ("Recount-Patch", applied.patch.as_str())];
            trailers.extend(patch.call.iter().map(|call| ("Recount-Call", call.as_str())));
            if let Some(original) = self.log.inverses.get(&applied.patch) {
                trailers.push(("Recount-Reverts", original.as_str()));
            }
            let path = clean::line(patch.path.as_deref().unwrap_or(&applied.patch));
            let mail = Mail {
                number: at + 1,
                count,
                author: &author,
                at: &applied.at,
                path: &path,
                trailers: &trailers,
                diff: &diff,
            };
            let written = mail.written();
            held += written.len();
            if held > limits::SERIES_BYTES_MAX {
                let most = limits::SERIES_BYTES_MAX;
                return Err(Failure::Refused(format!("the series is larger than {most} bytes")));
            }
            messages.push((mail.file_name(), written));
        }
        Ok(messages)
    }

    /// Why a patch cannot be part of a series.
    fn refusal(&self, id: &str) -> Option<String> {
        let patch = &self.log.patches[id];
        let why = if patch.masked {
            "contains a masked secret, so it differs from what was applied"
        } else if patch.truncated {
            "is stored only in part"
        } else {
            return None;
        };
        let of = patch.path.as_ref().map(|path| format!(" of {path}")).unwrap_or_default();
        Some(clean::line(&format!("patch {id}{of} {why}; use recount apply instead")))
    }

    /// Writes the series to a folder, or to standard output.
    pub(super) async fn write(&self, client: &Client, to: Option<&Path>, json: bool) -> Result<(), Failure> {
        let (series, left_out) = self.log.series(self.with_reverted);
        if let Some(folder) = to {
            has_no_patches(folder)?;
        }
        let messages = self.messages(client, &series).await?;
        let mut out = Output::new();
        let mut files = Vec::new();
        match to {
            None => messages.iter().try_for_each(|(_, message)| out.bytes(message))?,
            Some(folder) => {
                let failed = |why: std::io::Error| {
                    Failure::Usage(format!("{} cannot be created: {why}", folder.display()))
                };
                std::fs::create_dir_all(folder).map_err(failed)?;
                for (name, message) in messages {
                    let path = folder.join(name);
                    let mut file = Partial::begin(&path).map_err(Failure::Usage)?;
                    std::io::Write::write_all(&mut file, &message)?;
                    file.finish()?;
                    files.push(path);
                }
            }
        }
        let unapplied = self.unapplied();
        if json && to.is_some() {
            let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            out.value(&json!({
                "run_id": self.run.id, "files": files, "reverted": left_out, "not_applied": unapplied,
            }))?;
        } else {
            files
                .iter()
                .try_for_each(|file: &PathBuf| out.line(&clean::line(&file.display().to_string())))?;
        }
        self.print_summary(series.len(), &left_out, &unapplied, to);
        Ok(())
    }

    /// Patches of the run that were never applied.
    fn unapplied(&self) -> Vec<&str> {
        let applied: BTreeSet<&str> = self.log.applications.iter().map(|one| &*one.patch).collect();
        self.log.patches.keys().map(String::as_str).filter(|id| !applied.contains(id)).collect()
    }

    fn print_summary(&self, count: usize, left_out: &[&str], unapplied: &[&str], to: Option<&Path>) {
        let patches =
            |count: usize| if count == 1 { "1 patch".to_owned() } else { format!("{count} patches") };
        let run = &self.run.id;
        note(&match (count, to) {
            (0, _) => format!("{run} has no applied patches to export"),
            (count, None) => format!("{} of {run} exported; apply with git am", patches(count)),
            (count, Some(folder)) => {
                let folder = clean::line(&folder.display().to_string());
                format!("{} of {run} exported; apply with git am {folder}/*.patch", patches(count))
            }
        });
        for id in left_out {
            note(&clean::line(&format!("{id} was reverted and is skipped; --with-reverted keeps it")));
        }
        for id in unapplied {
            note(&clean::line(&format!("{id} was not applied and is skipped")));
        }
    }
}

/// Reads a run from its first to its last event.
async fn read(place: &Place, run: &str, log: &mut PatchLog) -> Result<Reading, Failure> {
    let mut reading = Reading::default();
    let mut next = 0;
    loop {
        let read = place.events(run, next, |envelope| {
            let event: Value = serde_json::from_slice(envelope)
                .map_err(|why| Failure::Protocol(format!("an event of {run} is not JSON: {why}")))?;
            next = event["sequence"].as_u64().map_or(next, |sequence| sequence + 1);
            log.event(run, &mut reading, &event);
            Ok(())
        });
        if read.await? == 0 {
            return Ok(reading);
        }
    }
}

/// Runs that may have changed patches of the run, oldest first.
async fn later_runs(client: &Client, run: &Run) -> Result<Vec<Run>, Failure> {
    let mut later = match &run.task_id {
        Some(task) => {
            let fetch = async |listing: Listing| client.list_task_runs(task, &listing).await;
            gather(fetch, usize::MAX, None).await?
        }
        None => followers(client, run).await?,
    };
    later.retain(|later| later.kind == "file" && later.id != run.id);
    later.sort_by(|a, b| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
    Ok(later)
}

/// The runs of kind `file` that follow a run without a task, and those that follow them.
async fn followers(client: &Client, run: &Run) -> Result<Vec<Run>, Failure> {
    let (mut found, mut open) = (Vec::new(), vec![run.clone()]);
    while let Some(run) = open.pop() {
        if run.successor_run_ids.len() >= limits::SUCCESSORS_SHOWN {
            let why = "too many runs follow it to determine which patches were reverted";
            return Err(Failure::Refused(format!("{} has no task, and {why}", run.id)));
        }
        for id in &run.successor_run_ids {
            let next = client.get_run(id).await?;
            if next.kind == "file" {
                found.push(next.clone());
                open.push(next);
            }
        }
    }
    Ok(found)
}

/// A series is not written beside another: `git am *.patch` would take both.
fn has_no_patches(folder: &Path) -> Result<(), Failure> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let name = entry?.file_name();
        if Path::new(&name).extension().is_some_and(|end| end == "patch") {
            let (folder, name) = (folder.display(), name.display());
            return Err(Failure::Usage(format!(
                "{folder} already contains {name}; name an empty or a new folder"
            )));
        }
    }
    Ok(())
}
