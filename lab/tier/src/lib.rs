//! The number of random cases of a test: few in the change tier, more in the full tier.
//!
//! The crate must not depend on any test. Start at [`times`].

/// Set by `cargo xtask test --full`.
const FACTOR: &str = "RECOUNT_TEST_FACTOR";

/// `cases`, multiplied by the factor of the tier. An invalid factor counts as 1.
pub fn times(cases: u64) -> u64 {
    let factor = std::env::var(FACTOR).ok().and_then(|factor| factor.parse().ok());
    cases.saturating_mul(factor.unwrap_or(1))
}
