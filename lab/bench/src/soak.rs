//! The soak: runs a real server under mixed load, kills it sometimes, and checks the guarantees.
//!
//! [`load`] generates the load and records it, [`watch`] observes the server from outside, [`million`] runs one
//! large store through every operation, [`bits`] damages a store bit by bit, [`log_damage`] damages
//! the write-ahead logs of killed stores, [`disks`] runs agents on slow and failing disks, [`salvage`] damages whole
//! folders and salvages them, [`nodes`] has two servers on one PostgreSQL. A broken guarantee is reported as a sentence, and the
//! program exits with status 1.

mod bits;
mod disks;
mod load;
mod log_damage;
mod million;
mod nodes;
mod salvage;
mod watch;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use recount_client::Client;
use recount_world::{Entropy as _, SeededEntropy};
use tokio::sync::{oneshot, watch as signal};

use self::load::Book;
use self::nodes::NodesPlan;
use self::watch::{Minute, Watcher};
use crate::clock;
use crate::process::Server;

const HELP: &str = "\
recount-bench soak [--minutes N] [--events N] [--seed N] [--folder DIR]
recount-bench soak --million [--events N] [--folder DIR]
recount-bench soak --bits [--minutes N] [--seed N] [--folder DIR]
recount-bench soak --log-damage [--minutes N] [--seed N] [--folder DIR]
recount-bench soak --disks [--minutes N] [--seed N] [--folder DIR]
recount-bench soak --salvage [--minutes N] [--seed N] [--folder DIR]
recount-bench soak --nodes [--sequences N] [--first N] [--faults NAME,NAME] [--spread]
                           [--seed N] [--folder DIR]

  --minutes  how long the load lasts (10)
  --events   ends it earlier, when so many events were acknowledged; with --million the size of the store
  --seed     another course of kills and choices
  --folder   where stores are made
  --million  makes a store of a million events, reads it in every way, seals, backs up, verifies and restarts
  --bits     flips bits of a store's database and reads everything each time
  --log-damage  damages the write-ahead logs of killed stores, and checks that every loss is named
  --disks    runs agents on stores whose SQLite writes and syncs are slow and fail, and checks that no output is lost
             without a report
  --salvage  damages data folders, salvages them, and checks that every loss is reported
  --nodes    kills, freezes, stops and disconnects two servers on one PostgreSQL in random sequences, and PostgreSQL too, and
             checks that nothing acknowledged is lost or doubled, and that no command runs twice
  --sequences  how many sequences (10)
  --first    the number of the first sequence, to repeat one of a seed (1)
  --faults   the faults of each sequence in place of random ones
  --spread   with three tenants, which the servers spread
";

/// The number of kills and of backups in the whole time; never more often than [`PAUSE_SECONDS_MIN`].
const KILLS: f64 = 8.0;
const BACKUPS: f64 = 5.0;
const PAUSE_SECONDS_MIN: f64 = 2.0;
/// Anonymous memory in MiB beyond which the server counts as leaking.
const MEMORY_MIB_MAX: f64 = 512.0;
/// Open files besides those of connections.
const FILES_BESIDE_MAX: f64 = 128.0;

/// What all tasks share.
struct SoakCourse {
    client: Client,
    address: String,
    random: SeededEntropy,
    book: RefCell<Book>,
    broken: RefCell<Vec<String>>,
    stop: Cell<bool>,
    /// Counts starts of the server.
    up: signal::Sender<u64>,
}

impl SoakCourse {
    fn below(&self, bound: u64) -> u64 {
        u64::try_from(self.random.draw() % u128::from(bound.max(1))).unwrap_or(0)
    }

    fn broke(&self, what: impl Into<String>) {
        let what = what.into();
        println!("broken: {what}");
        self.broken.borrow_mut().push(what);
    }

    /// Waits, but returns early when the soak ends.
    async fn rest(&self, seconds: f64) {
        let until = clock::now_ns() + (seconds * 1e9) as u64;
        while !self.stop.get() && clock::now_ns() < until {
            let left = until.saturating_sub(clock::now_ns()).min(TICK_NS);
            tokio::time::sleep(Duration::from_nanos(left)).await;
        }
    }
}

/// The interval at which the end of the soak is checked.
const TICK_NS: u64 = 100_000_000;

struct SoakPlan {
    minutes: f64,
    events: Option<u64>,
    seed: u64,
    folder: PathBuf,
    million: bool,
    bits: bool,
    log_damage: bool,
    disks: bool,
    salvage: bool,
    nodes: bool,
    sequences: u64,
    first: u64,
    faults: Vec<String>,
    spreads: bool,
}

pub(crate) fn run(words: &[String]) -> Result<bool> {
    let mut plan = SoakPlan {
        minutes: 10.0,
        events: None,
        seed: 1,
        folder: std::env::temp_dir().join(format!("recount-soak-{}", std::process::id())),
        million: false,
        bits: false,
        log_damage: false,
        disks: false,
        salvage: false,
        nodes: false,
        sequences: 10,
        first: 1,
        faults: Vec::new(),
        spreads: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} takes a value"));
        match word.as_str() {
            "--minutes" => plan.minutes = value()?.parse().context("--minutes takes a number")?,
            "--events" => plan.events = Some(value()?.parse().context("--events takes a number")?),
            "--seed" => plan.seed = value()?.parse().context("--seed takes a number")?,
            "--folder" => plan.folder = value()?.into(),
            "--million" => plan.million = true,
            "--bits" => plan.bits = true,
            "--log-damage" => plan.log_damage = true,
            "--disks" => plan.disks = true,
            "--salvage" => plan.salvage = true,
            "--nodes" => plan.nodes = true,
            "--sequences" => plan.sequences = value()?.parse().context("--sequences takes a number")?,
            "--first" => plan.first = value()?.parse().context("--first takes a number")?,
            "--faults" => plan.faults = value()?.split(',').map(str::to_owned).collect(),
            "--spread" => plan.spreads = true,
            other => bail!("`soak` does not know {other:?}\n{HELP}"),
        }
    }
    ensure!(!plan.folder.exists(), "{} already exists; name a new folder", plan.folder.display());
    std::fs::create_dir_all(&plan.folder)?;
    crate::process::raise_file_limit()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = if plan.bits {
        runtime.block_on(bits::run(&plan.folder, plan.minutes, plan.seed))
    } else if plan.log_damage {
        runtime.block_on(log_damage::run(&plan.folder, plan.seed, plan.minutes))
    } else if plan.disks {
        runtime.block_on(disks::run(&plan.folder, plan.minutes, plan.seed))
    } else if plan.salvage {
        runtime.block_on(salvage::run(&plan.folder, plan.minutes, plan.seed))
    } else if plan.nodes {
        let nodes = NodesPlan {
            sequences: plan.sequences,
            first: plan.first,
            seed: plan.seed,
            faults: plan.faults.clone(),
            spreads: plan.spreads,
        };
        runtime.block_on(nodes::run(&plan.folder, &nodes))
    } else if plan.million {
        runtime.block_on(million::run(&plan.folder, plan.events.unwrap_or(million::EVENTS)))
    } else {
        runtime.block_on(soak(&plan))
    };
    // The logs of two servers show what happened between them.
    let keeps = plan.nodes && !matches!(outcome, Ok(true));
    if !keeps {
        std::fs::remove_dir_all(&plan.folder)?;
    }
    outcome
}

async fn soak(plan: &SoakPlan) -> Result<bool> {
    let data = plan.folder.join("data");
    let server = Server::product(&data)?;
    let address = server.address.to_string();
    let course = SoakCourse {
        client: Client::new(&format!("http://{address}"), None)?,
        address,
        random: SeededEntropy::new(plan.seed),
        book: RefCell::default(),
        broken: RefCell::default(),
        stop: Cell::new(false),
        up: signal::Sender::new(0),
    };
    println!("seed {}, {} minutes, {}", plan.seed, plan.minutes, data.display());
    let seconds = plan.minutes * 60.0;
    let over = async {
        let until = clock::now_ns() + (seconds * 1e9) as u64;
        let enough = || plan.events.is_some_and(|events| course.book.borrow().acknowledged >= events);
        while clock::now_ns() < until && !enough() && course.broken.borrow().is_empty() {
            tokio::time::sleep(Duration::from_nanos(TICK_NS)).await;
        }
        course.stop.set(true);
        anyhow::Ok(())
    };
    let server = RefCell::new(Some(server));
    let watcher = Watcher::default();
    let pause = |times: f64| (seconds / times).max(PAUSE_SECONDS_MIN);
    let outcome = tokio::try_join!(
        over,
        load::all(&course),
        watcher.watch(&course, &server),
        kill_now_and_then(&course, &server, &data, pause(KILLS)),
        back_up_now_and_then(&course, pause(BACKUPS)),
    );
    outcome?;
    watcher.at_rest(&course, &server).await?;
    check_books(&course).await?;
    let minutes = watcher.minutes();
    if let Some(server) = server.into_inner() {
        server.stop()?;
    }
    verify(&course, &data, "the store").await?;
    Ok(report(&course, &minutes))
}

async fn kill_now_and_then(
    course: &SoakCourse,
    server: &RefCell<Option<Server>>,
    data: &Path,
    pause: f64,
) -> Result<()> {
    loop {
        course.rest(pause * (0.5 + course.below(100) as f64 / 100.0)).await;
        if course.stop.get() {
            return Ok(());
        }
        if let Some(server) = server.take() {
            server.kill()?;
        }
        let started = Server::product_at(data, &course.address)?;
        course.book.borrow_mut().started_again(started.ready_ms);
        server.replace(Some(started));
        course.up.send_modify(|starts| *starts += 1);
        load::check_acknowledged(course).await;
    }
}

async fn back_up_now_and_then(course: &SoakCourse, pause: f64) -> Result<()> {
    loop {
        course.rest(pause).await;
        if course.stop.get() {
            return Ok(());
        }
        let request = recount_client::admin::MakeBackup::default();
        // A kill during a backup is expected.
        let Ok(made) = course.client.make_backup(&request).await else { continue };
        course.book.borrow_mut().backups += 1;
        let path = PathBuf::from(made.path);
        verify(course, &path, "a backup").await?;
        std::fs::remove_dir_all(&path)?;
    }
}

/// Verifies a folder on a separate thread, because that blocks and the load continues.
async fn verify(course: &SoakCourse, data: &Path, what: &str) -> Result<()> {
    let folder = data.to_owned();
    let (sender, receiver) = oneshot::channel();
    let reader = recount_world::thread("soak-verify", move || {
        // The receiver is dropped if the soak was aborted.
        drop(sender.send(recount_server::verify::offline(&folder, &[])));
    });
    let survey = receiver.await.context("verify died")?;
    reader.join().map_err(|_| anyhow::anyhow!("verify died"))?;
    let survey = survey.map_err(|why| anyhow::anyhow!("{what} cannot be verified: {why}"))?;
    for report in survey.reports.iter().filter(|report| !report.problems.is_empty()) {
        let run = report.run_id.as_deref().unwrap_or("as a whole");
        course.broke(format!("{what}, {run}: {}", report.problems.join("; ")));
    }
    Ok(())
}

/// Checks that every run has exactly the acknowledged events.
async fn check_books(course: &SoakCourse) -> Result<()> {
    let runs = course.book.borrow().runs.clone();
    for (run, expected) in runs {
        let digest = course.client.get_run_digest(&run).await?;
        if digest.events != expected {
            course.broke(format!("{run} has {} events, but {expected} were acknowledged", digest.events));
        }
    }
    Ok(())
}

fn report(course: &SoakCourse, minutes: &[Minute]) -> bool {
    println!("\n{}", watch::table(minutes));
    let book = course.book.borrow();
    println!(
        "{} events acknowledged in {} batches of {} runs, {} sent again; {} approvals; {} kills, ready again within \
         {:.0} ms; {} backups verified; {} readings followed, {} whole; {} stalled",
        book.acknowledged,
        book.batches,
        book.runs.len(),
        book.repeated,
        book.approvals,
        book.kills,
        book.ready_ms_max,
        book.backups,
        book.followed,
        book.bulk,
        book.stalled,
    );
    let memory = |minutes: &[Minute]| minutes.iter().map(|minute| minute.anonymous_mib).fold(0.0, f64::max);
    let half = minutes.len() / 2;
    println!(
        "memory, highest in the first half {:.1} MiB, in the second {:.1} MiB",
        memory(&minutes[..half]),
        memory(&minutes[half..])
    );
    let broken = course.broken.borrow();
    for broken in broken.iter() {
        println!("broken: {broken}");
    }
    println!("{}", if broken.is_empty() { "every promise was kept" } else { "promises were broken" });
    broken.is_empty()
}
