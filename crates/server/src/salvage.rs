//! Salvages a damaged data folder (`recount salvage`): writes everything readable into a new one, tenant by tenant.
//!
//! Runs that are proven whole keep ids, bytes, positions and heads. Of a damaged run the proven beginning is kept and
//! ends with a gap event that gives the reason; its other readable events are written as lines to `salvaged/`. The old
//! folder is never written to. It must not know how pages are read. Entry point: [`salvage`].

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use recount_engine::salvage::{self as engine, Closing, Damage, Reason};
use recount_event::{RunId, Stamp, codec};
use recount_log::{Fault, FaultKind};
use recount_log_sqlite::database_in;
use recount_salvage::{Damage as StoreDamage, Salvage, SalvagedRow, Stream};
use recount_world::World;
use recount_world::platform::{private_file, private_folder};

use crate::StartError;
use crate::stores::{database_of, missing_store, open_folder};
use crate::tenant_folder::{TENANT_DEFAULT, folder_within, lost_tenants, tenant_folders};

/// The folder for readable events that are in no run, within the new data folder.
const ASIDE: &str = "salvaged";
/// The folder of the keys that seal originals, within a data folder.
const KEYS: &str = "keys";

/// The result, store by store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvageReport {
    pub stores: Vec<StoreReport>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreReport {
    pub tenant: String,
    /// In order of their ids.
    pub runs: Vec<RunReport>,
    /// Records by kind, such as `tokens`.
    pub records: BTreeMap<String, u64>,
    pub blobs: u64,
    /// Names of blobs whose bytes were changed, and of missing ones that the saved log names.
    pub blobs_damaged: Vec<String>,
    pub blobs_missing: Vec<String>,
    pub damage: StoreDamage,
    /// Why the whole store could not be read.
    pub unreadable: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    pub run_id: String,
    pub outcome: Outcome,
    /// Events in the new store, without those that close the run.
    pub events: u64,
    /// The head of a whole run.
    pub head: Option<String>,
    /// Readable events that are kept as lines in this file.
    pub aside: Option<(PathBuf, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Whole,
    /// It was erased before; its tombstone is kept.
    Erased,
    Part(Damage),
    /// Nothing of it is in the new store. `events` is the number that it is known to have had.
    Lost {
        events: Option<u64>,
        why: String,
    },
}

impl SalvageReport {
    /// Whether everything that is known to have existed was saved.
    pub fn is_whole(&self) -> bool {
        self.stores.iter().all(StoreReport::is_whole)
    }
}

impl StoreReport {
    fn is_whole(&self) -> bool {
        let runs = self.runs.iter().all(|run| matches!(run.outcome, Outcome::Whole | Outcome::Erased));
        let blobs = self.blobs_damaged.is_empty() && self.blobs_missing.is_empty();
        runs && blobs && self.damage == StoreDamage::default() && self.unreadable.is_none()
    }
}

/// Writes a new data folder at `to`, which must not exist, from the readable content of `from`. Blocks.
pub fn salvage(from: &Path, to: &Path) -> Result<SalvageReport, StartError> {
    if to.symlink_metadata().is_ok() {
        return Err(StartError::usage(format!("{} already exists; name a new folder", to.display())));
    }
    if !database_in(from).is_file() && database_of(from).is_some() {
        let advice = "restore them with the tools of PostgreSQL: pg_restore, or pg_basebackup and point-in-time recovery";
        return Err(missing_store(from, advice));
    }
    let world = World::real();
    let unfinished = unfinished(to);
    if unfinished.symlink_metadata().is_ok() {
        let shown = unfinished.display();
        return Err(StartError::usage(format!("{shown} is left from an interrupted salvage; delete it")));
    }
    let result = salvage_all(from, &unfinished, &world);
    if result.is_err()
        && let Err(error) = std::fs::remove_dir_all(&unfinished)
    {
        tracing::debug!(
            %error,
            folder = %unfinished.display(),
            "cannot remove the folder of a failed salvage"
        );
    }
    let report = result?;
    std::fs::rename(&unfinished, to).map_err(|why| {
        StartError::failed(format!("cannot rename {} to {}: {why}", unfinished.display(), to.display()))
    })?;
    Ok(report)
}

fn unfinished(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".unfinished");
    name.into()
}

fn salvage_all(from: &Path, to: &Path, world: &World) -> Result<SalvageReport, StartError> {
    let mut stores = vec![salvage_store(TENANT_DEFAULT, from, to, world)?];
    let tenants = tenant_folders(from)
        .map_err(|why| StartError::failed(format!("cannot read the folder of tenants: {why}")))?;
    for (name, folder) in tenants {
        stores.push(salvage_store(&name, &folder, &folder_within(to, &name), world)?);
    }
    for tenant in lost_tenants(from).map_err(|why| StartError::failed(why.to_string()))? {
        stores.retain(|store| store.tenant != tenant);
        let unreadable = Some("the backup lists this tenant, but its store is missing".to_owned());
        stores.push(StoreReport { tenant, unreadable, ..StoreReport::default() });
    }
    if let Some(why) = stores.iter().find_map(|store| store.unreadable.clone())
        && stores.iter().all(|store| store.unreadable.is_some())
    {
        return Err(StartError::usage(why));
    }
    copy_keys(from, to).map_err(|why| StartError::failed(format!("cannot copy the folder {KEYS}: {why}")))?;
    Ok(SalvageReport { stores })
}

/// Salvages one store into a new folder.
fn salvage_store(tenant: &str, from: &Path, to: &Path, world: &World) -> Result<StoreReport, StartError> {
    let mut report = StoreReport { tenant: tenant.to_owned(), ..StoreReport::default() };
    let mut salvage = match read(from) {
        Ok(salvage) => salvage,
        Err(fault) if fault.kind == FaultKind::Locked => return Err(StartError::usage(fault.message)),
        Err(fault) => {
            // The other tenants may be readable, and a server needs a store here.
            open_folder(to).map_err(|fault| failed(&fault))?;
            report.unreadable = Some(fault.message);
            return Ok(report);
        }
    };
    report.damage = salvage.damage.clone();
    let listed = listed(&salvage);
    let mut plans = Vec::new();
    for stream in salvage.streams().to_vec() {
        plans.push(plan(&mut salvage, stream, &listed, world)?);
    }
    let continues: BTreeSet<&str> =
        plans.iter().filter(|plan| plan.continues).map(|plan| &*plan.stream.key).collect();
    let kept: BTreeSet<&str> =
        plans.iter().filter(|plan| plan.is_kept()).map(|plan| &*plan.stream.key).collect();
    let keeps_row =
        |row: SalvagedRow<'_>| engine::keeps_row(row.space, row.value, &|run| continues.contains(run));
    let mut records: BTreeMap<String, u64> = BTreeMap::new();
    for row in salvage.rows().filter(|row| keeps_row(*row)) {
        let kind = engine::kind_of_record(row.space).unwrap_or(row.space);
        *records.entry(kind.to_owned()).or_default() += 1;
    }
    report.records = records;
    let blobs = salvage
        .write(to, &|stream| kept.contains(&*stream.key), &keeps_row)
        .map_err(|fault| failed(&fault))?;
    (report.blobs, report.blobs_damaged) = (blobs.copied, blobs.damaged);
    report.blobs_missing = close_runs(to, &plans)?;
    report.blobs_missing.retain(|name| !report.blobs_damaged.contains(name));
    for plan in plans {
        report.runs.push(put_aside(&mut salvage, plan, to)?);
    }
    let found: BTreeSet<String> = report.runs.iter().map(|run| run.run_id.clone()).collect();
    let only_listed = listed.into_keys().filter(|run| !found.contains(run));
    report.runs.extend(only_listed.map(|run_id| RunReport {
        run_id,
        outcome: Outcome::Lost { events: None, why: "none of its events can be read".to_owned() },
        events: 0,
        head: None,
        aside: None,
    }));
    report.runs.sort_by(|one, other| one.run_id.cmp(&other.run_id));
    Ok(report)
}

/// Reads everything readable of one store.
pub(crate) fn read(data: &Path) -> Result<Salvage, Fault> {
    Salvage::read(data, &claim)
}

/// The whole runs, including erased ones, and the names of the damaged ones.
pub(crate) fn whole_runs(salvage: &mut Salvage) -> Result<(Vec<Stream>, Vec<String>), StartError> {
    let listed = listed(salvage);
    let world = World::real();
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    for stream in salvage.streams().to_vec() {
        let plan = plan(salvage, stream, &listed, &world)?;
        match plan.outcome {
            Outcome::Whole | Outcome::Erased => whole.push(plan.stream),
            Outcome::Part(_) | Outcome::Lost { .. } => damaged.push(plan.stream.key.to_string()),
        }
    }
    let unread = |run: &&String| !salvage.streams().iter().any(|stream| *stream.key == ***run);
    damaged.extend(listed.keys().filter(unread).cloned());
    Ok((whole, damaged))
}

/// The runs in the catalogue, and whether they had ended.
fn listed(salvage: &Salvage) -> BTreeMap<String, bool> {
    salvage.rows().filter_map(|row| engine::listed_run(row.space, row.value)).collect()
}

/// The stream and sequence that a record itself names.
fn claim(record: &[u8]) -> Option<(String, u64)> {
    let event = codec::decode(record).ok()?;
    Some((event.run_id.to_string(), event.sequence))
}

/// The outcome of one run, and the records that close it.
struct RunPlan {
    stream: Stream,
    outcome: Outcome,
    closing: Vec<Bytes>,
    continues: bool,
}

impl RunPlan {
    fn is_kept(&self) -> bool {
        !matches!(self.outcome, Outcome::Lost { .. })
    }
}

fn plan(
    salvage: &mut Salvage,
    stream: Stream,
    listed: &BTreeMap<String, bool>,
    world: &World,
) -> Result<RunPlan, StartError> {
    let mut plan = RunPlan { outcome: Outcome::Whole, closing: Vec::new(), continues: false, stream };
    let stream = &plan.stream;
    if stream.erased {
        plan.outcome = Outcome::Erased;
        return Ok(plan);
    }
    let known = (stream.known_end > 0).then_some(stream.known_end);
    if stream.is_lost() {
        let why = "its beginning cannot be read".to_owned();
        plan.outcome = Outcome::Lost { events: known, why };
        return Ok(plan);
    }
    let mut closing = Closing::beginning_at(stream.first_sequence);
    salvage.kept(stream, &mut |_, bytes| closing.event(bytes)).map_err(|fault| failed(&fault))?;
    if stream.lost_beginning && closing.begins_in_the_middle() {
        // A kept run would look as if its first events had been pruned.
        let why = "its beginning cannot be read, and no marker shows that it was pruned".to_owned();
        plan.outcome = Outcome::Lost { events: known, why };
        return Ok(plan);
    }
    let ended = closing.has_ended();
    let had_ended = listed.get(&*stream.key).copied().unwrap_or(false);
    let last = (stream.known_end > stream.end).then(|| stream.known_end - 1);
    let reason = match () {
        () if last.is_some() || (had_ended && !ended) => Reason::Damaged,
        () if stream.proven_end < stream.end || stream.lost_beginning => Reason::Unproven,
        () if stream.may_continue && !ended => Reason::MayBeMissing,
        () => {
            plan.continues = !ended;
            return Ok(plan);
        }
    };
    let damage = Damage { first: stream.proven_end, last, reason, readable: stream.beyond };
    let stamp = Stamp { now_ms: world.clock.now_ms(), entropy: world.entropy.draw() };
    match closing.finish(&damage, stamp) {
        Ok(records) => (plan.closing, plan.outcome) = (records, Outcome::Part(damage)),
        Err(error) => {
            let why = format!("the rest of the run cannot be closed: {error}");
            plan.outcome = Outcome::Lost { events: known, why };
        }
    }
    Ok(plan)
}

/// Closes the partly saved runs, rebuilds the catalogue, and returns the missing blobs.
fn close_runs(to: &Path, plans: &[RunPlan]) -> Result<Vec<String>, StartError> {
    let store = open_folder(to).map_err(|fault| failed(&fault))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|why| StartError::failed(format!("cannot start the runtime: {why}")))?;
    let wrong = |error: recount_engine::Error| StartError::failed(error.to_string());
    runtime.block_on(async {
        for plan in plans.iter().filter(|plan| !plan.closing.is_empty()) {
            let run: RunId =
                plan.stream.key.parse().map_err(|why| {
                    StartError::failed(format!("{} is not a run id: {why}", plan.stream.key))
                })?;
            engine::append(&*store, run, plan.stream.end, plan.closing.clone()).await.map_err(wrong)?;
        }
        engine::finish(&*store).await.map_err(wrong)?;
        let missing = recount_engine::missing_blobs(&*store).await.map_err(wrong)?;
        store.close().await.map_err(|fault| failed(&fault))?;
        Ok(missing.into_iter().map(|blob| blob.hash).collect())
    })
}

/// Writes the readable events of a run that are not in the new store, one per line.
fn put_aside(salvage: &mut Salvage, plan: RunPlan, to: &Path) -> Result<RunReport, StartError> {
    let RunPlan { stream, outcome, .. } = plan;
    let is_lost = matches!(outcome, Outcome::Lost { .. });
    let mut lines: Vec<u8> = Vec::new();
    let mut count = 0;
    let mut line = |_: u64, bytes: &[u8]| {
        lines.extend_from_slice(bytes);
        lines.push(b'\n');
        count += 1;
    };
    if is_lost {
        salvage.kept(&stream, &mut line).map_err(|fault| failed(&fault))?;
    }
    salvage.beyond(&stream, &mut line).map_err(|fault| failed(&fault))?;
    let aside = match count {
        0 => None,
        count => {
            let name = Path::new(ASIDE).join(format!("{}.jsonl", stream.key));
            write_lines(&to.join(&name), &lines)
                .map_err(|why| StartError::failed(format!("cannot write {}: {why}", name.display())))?;
            Some((name, count))
        }
    };
    let head = (outcome == Outcome::Whole).then(|| stream.head.to_string());
    let events = if is_lost || stream.erased { 0 } else { stream.end - stream.first_sequence };
    Ok(RunReport { run_id: stream.key.to_string(), outcome, events, head, aside })
}

fn write_lines(path: &Path, lines: &[u8]) -> std::io::Result<()> {
    make_private(path.parent().unwrap_or(path))?;
    let mut file = private_file(std::fs::OpenOptions::new().write(true).create_new(true)).open(path)?;
    file.write_all(lines)?;
    file.sync_all()
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    private_folder(std::fs::DirBuilder::new().recursive(true)).create(folder)
}

/// Copies the keys: without them sealed originals cannot be opened.
fn copy_keys(from: &Path, to: &Path) -> std::io::Result<()> {
    let keys = from.join(KEYS);
    if !keys.is_dir() {
        return Ok(());
    }
    make_private(&to.join(KEYS))?;
    for file in std::fs::read_dir(keys)? {
        let file = file?;
        // The copy has the permissions of the original, which are private.
        if file.file_type()?.is_file() {
            std::fs::copy(file.path(), to.join(KEYS).join(file.file_name()))?;
        }
    }
    Ok(())
}

fn failed(fault: &Fault) -> StartError {
    StartError::failed(fault.message.clone())
}
