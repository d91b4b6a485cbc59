//! Reads that go on when the server restarts in between. See [`Patience::read`].
//!
//! Only for calls that change nothing. The first call of a verb is never repeated: a server that is not running should
//! be reported at once. Must not know what is read.

use std::sync::atomic::{AtomicBool, Ordering};

use recount_client::ClientError;

use crate::limits;
use crate::output::note;

/// Whether the server has answered before.
#[derive(Default)]
pub(crate) struct Patience {
    answered: AtomicBool,
}

impl Patience {
    /// Repeats a call that got no answer, if an earlier one did, until the attempts are used up.
    pub(crate) async fn read<T>(
        &self,
        call: impl AsyncFn() -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut in_vain = 0;
        loop {
            let why = match call().await {
                Ok(answer) => {
                    self.answered.store(true, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(why) => why,
            };
            let known = self.answered.load(Ordering::Relaxed);
            if !known || !why.may_pass() || in_vain >= limits::READ_ATTEMPTS_MAX {
                return Err(why);
            }
            let wait = limits::READ_RETRY.saturating_mul(1 << in_vain).min(limits::READ_RETRY_MAX);
            note(&format!("{why}; retrying in {} ms", wait.as_millis()));
            tokio::time::sleep(wait).await;
            in_vain += 1;
        }
    }
}
