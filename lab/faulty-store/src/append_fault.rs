//! Faults of single appends, chosen by a test in advance. Start at [`AppendFault`].

use std::future::{pending, ready};
use std::sync::Arc;

use recount_log::{Answer, Append, AppendError, Committed, Fault, FaultKind, Retry};
use tokio::sync::oneshot;

use super::disk::Disk;

/// What happens to one append.
pub enum AppendFault {
    /// It is written, observed and acknowledged.
    Pass,
    /// It is not written, and this failure is returned.
    Refuse(FaultKind),
    /// It is written and observed, and a failure is returned.
    LoseAnswer,
    /// It is written and not observed, and a failure is returned.
    Unobserved,
    /// It is not written, and the calling task panics.
    Panic,
    /// It is written and observed, and never returns.
    NeverAnswer,
    /// It is written and observed, and the calling task panics before it returns.
    PanicAfter,
    /// It is written when this is sent.
    Hold(oneshot::Receiver<()>),
    /// It is not written, and a failure is returned when this is sent.
    FailLate(oneshot::Receiver<()>),
    /// It is written and observed, and returns when this is sent.
    AnswerLate(oneshot::Receiver<()>),
    /// It is written and can be read, and observed only when this is sent.
    ObserveLate(oneshot::Receiver<()>),
}

impl AppendFault {
    pub(crate) fn carry_out(self, disk: &Arc<Disk>, append: Append) -> Answer<Committed, AppendError> {
        let (disk, store) = (disk.clone(), disk.store());
        match self {
            AppendFault::Pass => store.append(append),
            AppendFault::Refuse(kind) => Box::pin(ready(Err(failed(kind, "the append was refused")))),
            AppendFault::LoseAnswer => {
                let committed = store.append(append);
                Box::pin(async move {
                    committed.await?;
                    Err(failed(FaultKind::Io, "the answer was lost"))
                })
            }
            AppendFault::Unobserved => {
                disk.relay.hold();
                drop(store.append(append));
                disk.relay.discard_held();
                Box::pin(ready(Err(failed(FaultKind::Io, "the commit was not observed"))))
            }
            AppendFault::NeverAnswer => {
                drop(store.append(append));
                Box::pin(pending())
            }
            AppendFault::Panic => panic!("the append panics, as the test demands"),
            AppendFault::PanicAfter => {
                drop(store.append(append));
                panic!("the append panics after it was written, as the test demands")
            }
            AppendFault::Hold(signal) => Box::pin(async move {
                let _sent_or_dropped = signal.await;
                store.append(append).await
            }),
            AppendFault::FailLate(signal) => Box::pin(async move {
                let _sent_or_dropped = signal.await;
                Err(failed(FaultKind::Io, "the append failed late"))
            }),
            AppendFault::AnswerLate(signal) => {
                let committed = store.append(append);
                Box::pin(async move {
                    let _sent_or_dropped = signal.await;
                    committed.await
                })
            }
            AppendFault::ObserveLate(signal) => {
                disk.relay.hold();
                let committed = store.append(append);
                Box::pin(async move {
                    let _sent_or_dropped = signal.await;
                    disk.relay.pass_on_held();
                    committed.await
                })
            }
        }
    }
}

fn failed(kind: FaultKind, what: &str) -> AppendError {
    Fault::new(kind, Retry::Maybe, what).into()
}
