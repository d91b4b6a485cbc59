//! Separates damage from other failures of a read, so that a reader skips what is damaged in one way.
//!
//! It must not know what was read. Entry point: [`ReadResult::readable`].

use crate::fault::{Fault, FaultKind};

/// What a read found. Damage is an outcome of its own, so that a reader can skip it and continue; the error has its
/// extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readable<T, E = Fault> {
    Whole(T),
    Damaged(E),
}

impl<T, E> Readable<T, E> {
    pub fn whole(self) -> Option<T> {
        self.whole_or(drop)
    }

    /// The same; damage is passed to `report`.
    pub fn whole_or(self, report: impl FnOnce(E)) -> Option<T> {
        match self {
            Readable::Whole(value) => Some(value),
            Readable::Damaged(error) => {
                report(error);
                None
            }
        }
    }
}

/// An error that damaged bytes may have caused.
pub trait MaybeDamage {
    fn is_damage(&self) -> bool;
}

impl MaybeDamage for Fault {
    fn is_damage(&self) -> bool {
        self.kind == FaultKind::Corrupt
    }
}

/// The result of a read whose error may be damage.
pub trait ReadResult<T, E> {
    /// Fails only where something else than damage is the cause.
    fn readable(self) -> Result<Readable<T, E>, E>;
}

impl<T, E: MaybeDamage> ReadResult<T, E> for Result<T, E> {
    fn readable(self) -> Result<Readable<T, E>, E> {
        match self {
            Ok(value) => Ok(Readable::Whole(value)),
            Err(error) if error.is_damage() => Ok(Readable::Damaged(error)),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Retry;

    #[test]
    fn only_damage_is_an_outcome() {
        let fault = |kind| Fault::new(kind, Retry::Never, "read");
        for kind in [
            FaultKind::Busy,
            FaultKind::Closed,
            FaultKind::Fenced,
            FaultKind::Full,
            FaultKind::Io,
            FaultKind::Locked,
            FaultKind::Newer,
            FaultKind::TooLarge,
            FaultKind::Unsupported,
        ] {
            assert_eq!(Err::<(), _>(fault(kind)).readable(), Err(fault(kind)));
        }
        let damaged = Err::<u8, _>(fault(FaultKind::Corrupt)).readable().unwrap();
        assert_eq!(damaged, Readable::Damaged(fault(FaultKind::Corrupt)));
        let mut reported = Vec::new();
        assert_eq!(damaged.whole_or(|fault| reported.push(fault)), None);
        assert_eq!(reported, [fault(FaultKind::Corrupt)]);
        let whole = Ok::<_, Fault>(7).readable().unwrap();
        assert_eq!(whole.whole_or(|fault| unreachable!("{fault}")), Some(7));
    }
}
