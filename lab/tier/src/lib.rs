//! How many random cases a test draws: few in the change tier, more in the full tier.
//!
//! Must not know any test. Start reading at [`times`].

/// Set by `cargo xtask test --full`.
const FACTOR: &str = "RECOUNT_TEST_FACTOR";

/// `cases`, multiplied by the factor of the tier. A factor that is no number counts as 1.
pub fn times(cases: u64) -> u64 {
    let factor = std::env::var(FACTOR).ok().and_then(|factor| factor.parse().ok());
    cases.saturating_mul(factor.unwrap_or(1))
}
