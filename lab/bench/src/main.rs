//! The bench: measures how fast Recount is, compared with the limits of the machine.
//!
//! `recount-bench run` measures. The other commands are its helpers, each in its own process: the product (`serve`),
//! server yardsticks (`yardstick`), and load (`client`). Start at [`measure::MEASURES`]. Everything is measured from
//! outside, through the store's interface, the engine or HTTP. The bench must not depend on how the product works
//! inside.

#![allow(clippy::print_stdout, reason = "a tool for the terminal")]
#![allow(clippy::disallowed_methods, reason = "what measures must look at the clock, and loads with threads")]

mod client;
mod clock;
mod histogram;
mod http;
mod measure;
mod plot;
mod process;
mod raw;
mod scene;
mod sheet;
mod soak;
mod yardstick;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use measure::{Bench, MEASURES, Measure};
use sheet::{Outcome, Sheet};

/// The server under test is this program, and must allocate as the product does.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const HELP: &str = "\
recount-bench run [NAME…] [--quick] [--pairs N] [--seconds S] [--folder DIR] [--json FILE] [--plots DIR]

  NAME       append, ingest, wake, replay, fanout, stalled, footprint, words, output, crowd, calls,
             turns, aaep, listeners, project, nodes, postgres, recorder;
             all of them when none is named
  --quick    a smoke run: small numbers, one pair, speeds are not judged
  --pairs    alternated pairs of ours and yardstick (5)
  --seconds  length of a window where state matters (60)
  --folder   where stores are made; it must be on the disk that is measured
  --json     where the figures are written
  --plots    where the pictures are written
";

fn main() -> ExitCode {
    // This program is also the server under test, and a server starts itself as a warden for commands.
    if let Some(ended) = recount_server::sandbox_entrance() {
        return ended;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) =
        words.split_first().map_or(("help", [].as_slice()), |(verb, rest)| (verb.as_str(), rest));
    let outcome = match verb {
        "run" => run(rest),
        "soak" => soak::run(rest),
        "serve" => serve(rest),
        "sessions" => measure::follow_sessions(rest).map(|()| true),
        "client" => client::run(rest).map(|()| true),
        "acp-agent" => measure::acp_agent().map(|()| true),
        "spin" => process::spin().map(|()| true),
        "yardstick" => yardstick::serve(rest).map(|()| true),
        _ => {
            print!("{HELP}");
            Ok(true)
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("recount-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the product as its own binary does.
fn serve(words: &[String]) -> Result<bool> {
    let mut options = recount_server::Options { log: Some("warn".to_owned()), ..Default::default() };
    for pair in words.chunks(2) {
        match pair {
            [name, value] if name == "--bind" => options.bind = Some(value.clone()),
            [name, value] if name == "--data" => options.data = Some(PathBuf::from(value)),
            [name, value] if name == "--config" => options.config = Some(PathBuf::from(value)),
            [name, value] if name == "--in-memory" => options.in_memory = value == "yes",
            [name, value] if name == "--store" => options.store = Some(value.clone()),
            [name, value] if name == "--spread-tenants" => options.spread_tenants = value == "yes",
            [name, value] if name == "--log" => options.log = Some(value.clone()),
            _ => bail!("`serve` does not know {pair:?}"),
        }
    }
    recount_server::serve(options)?;
    Ok(true)
}

struct BenchPlan {
    measures: Vec<&'static Measure>,
    pairs: usize,
    bench: Bench,
    json: Option<PathBuf>,
    plots: Option<PathBuf>,
}

impl BenchPlan {
    fn parse(words: &[String]) -> Result<BenchPlan> {
        let mut plan = BenchPlan {
            measures: Vec::new(),
            pairs: 0,
            bench: Bench {
                quick: false,
                seconds: 0.0,
                folder: std::env::temp_dir().join(format!("recount-bench-{}", std::process::id())),
            },
            json: None,
            plots: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} takes a value"));
            match word.as_str() {
                "--quick" => plan.bench.quick = true,
                "--pairs" => plan.pairs = value()?.parse().context("--pairs takes a number")?,
                "--seconds" => plan.bench.seconds = value()?.parse().context("--seconds takes a number")?,
                "--folder" => plan.bench.folder = value()?.into(),
                "--json" => plan.json = Some(value()?.into()),
                "--plots" => plan.plots = Some(value()?.into()),
                name => match MEASURES.iter().find(|measure| measure.name == name) {
                    Some(measure) => plan.measures.push(measure),
                    None => bail!("there is no measure `{name}`\n{HELP}"),
                },
            }
        }
        if plan.measures.is_empty() {
            plan.measures = MEASURES.iter().collect();
        }
        if plan.pairs == 0 {
            plan.pairs = if plan.bench.quick { 1 } else { 5 };
        }
        if plan.bench.seconds == 0.0 {
            plan.bench.seconds = if plan.bench.quick { 0.2 } else { 60.0 };
        }
        Ok(plan)
    }
}

fn run(words: &[String]) -> Result<bool> {
    let plan = BenchPlan::parse(words)?;
    let files = process::raise_file_limit()?;
    ensure!(
        plan.bench.quick || files > 6_000,
        "the system allows {files} open files; 5,000 readers need more"
    );
    let folder_was_there = plan.bench.folder.exists();
    std::fs::create_dir_all(&plan.bench.folder)?;
    let copied = raw::memcpy(if plan.bench.quick { 0.05 } else { 0.5 });
    println!("memory is copied at {:.1} GB/s", copied / 1e9);
    let mut sheet = Sheet::default();
    let mut outcomes: Vec<Outcome> = Vec::new();
    for measure in &plan.measures {
        for pair in 0..plan.pairs {
            let (start, neighbours) = (clock::now_ns(), process::Neighbours::watch());
            (measure.pair)(&plan.bench, pair, &mut sheet)
                .with_context(|| format!("{}, pair {}", measure.name, pair + 1))?;
            let (seconds, foreign) = (clock::seconds_since(start), neighbours.cores());
            sheet.neighbours(foreign);
            println!(
                "{}, pair {} of {}: {seconds:.0} s, others kept {foreign:.2} processors busy",
                measure.name,
                pair + 1,
                plan.pairs
            );
            for note in sheet.take_notes() {
                println!("  {note}");
            }
        }
        for line in measure.lines {
            outcomes.push(sheet.outcome(line)?);
        }
    }
    if !folder_was_there {
        std::fs::remove_dir_all(&plan.bench.folder)?;
    }
    if let Some(busy) = sheet.foreign() {
        println!(
            "\nothers kept {:.2} / {:.2} / {:.2} processors busy meanwhile",
            busy.min, busy.median, busy.max
        );
    }
    println!("\n{}\n{}", sheet::table(&outcomes), sheet::share_table(&sheet.shares()));
    write(&plan, &outcomes, &sheet)?;
    Ok(verdict(&plan, &outcomes, &sheet))
}

fn write(plan: &BenchPlan, outcomes: &[Outcome], sheet: &Sheet) -> Result<()> {
    if let Some(path) = &plan.json {
        let shares: Vec<_> = sheet.shares();
        let everything = serde_json::json!({
            "pairs": plan.pairs,
            "seconds": plan.bench.seconds,
            "lines": outcomes,
            "shares": shares,
            "curves": sheet.curves(),
            "foreign_cores": sheet.foreign(),
            "broken": sheet.broken(),
        });
        std::fs::write(path, serde_json::to_vec_pretty(&everything)?)?;
    }
    if let Some(folder) = &plan.plots {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("bars.svg"), plot::ratios(outcomes))?;
        let curves = sheet.curves();
        if !curves.is_empty() {
            std::fs::write(folder.join("delays.svg"), plot::delays(&curves))?;
        }
    }
    Ok(())
}

/// Counts must always hold; yardsticks and bars only when speeds are evaluated.
fn verdict(plan: &BenchPlan, outcomes: &[Outcome], sheet: &Sheet) -> bool {
    for broken in sheet.broken() {
        println!("broken: {broken}");
    }
    if plan.bench.quick {
        return sheet.broken().is_empty();
    }
    let straw_men = sheet.straw_men();
    for straw_man in &straw_men {
        println!("straw man: {straw_man}");
    }
    let missed: Vec<_> = outcomes.iter().filter(|outcome| outcome.met == Some(false)).collect();
    for missed in &missed {
        println!("missed: {}", missed.what);
    }
    sheet.broken().is_empty() && straw_men.is_empty() && missed.is_empty()
}
