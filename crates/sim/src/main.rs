//! `recount-sim`: plays seeds and says what went wrong, with the seed that shows it.

use std::process::ExitCode;

fn main() -> ExitCode {
    let seed: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(0);
    for seed in seed..seed + 20 {
        let o = recount_sim::house::play(seed, None);
        println!("{seed} {:?} {:#?} trace {}", o.counts, o.wrong, o.trace.len());
    }
    ExitCode::SUCCESS
}
