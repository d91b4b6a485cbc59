// How much a test does: `cargo xtask test --full` multiplies the random cases and takes every story.

const factor = Number(process.env.RECOUNT_TEST_FACTOR) || 1;

/// `cases`, multiplied by the factor of the tier.
export const times = (cases) => cases * factor;

/// Whether everything is to be played, not a choice of it.
export const isFull = factor > 1;
