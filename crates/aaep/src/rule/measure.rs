//! Properties of events and field names that several rules need: how risky an action is, and what a name's suffix
//! means.

use crate::field::Field;
use crate::reading::Reading;
use crate::table;

/// How risky an action is, and whether it can be undone.
pub(crate) struct Stakes {
    pub(crate) irreversible: bool,
    /// The declared risk; `high` for an irreversible action without one.
    pub(crate) risk: Risk,
    /// Whether both are declared: `irreversible: true` and a `risk_level`.
    pub(crate) outright: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Risk {
    Low,
    Medium,
    High,
}

pub(crate) fn stakes(event: &Reading<'_>) -> Stakes {
    let flag = event.bool(Field::Irreversible) == Some(true);
    let irreversible = flag || event.is(Field::Reversibility, "irreversible");
    let declared = event.get(Field::RiskLevel).and_then(|node| match node.str()?.as_ref() {
        "low" => Some(Risk::Low),
        "medium" => Some(Risk::Medium),
        "high" => Some(Risk::High),
        _ => None,
    });
    let risk = declared.unwrap_or(if irreversible { Risk::High } else { Risk::Low });
    Stakes { irreversible, risk, outright: flag && declared.is_some() }
}

/// Whether a name is a known text with a language, such as `summary_normal_yo`.
pub(crate) fn is_localized(name: &str) -> bool {
    let suffix = |rest: &str| {
        let mut parts = rest.split(['-', '_']);
        parts
            .next()
            .is_some_and(|tag| (2..=8).contains(&tag.len()) && tag.bytes().all(|b| b.is_ascii_lowercase()))
            && parts
                .all(|part| (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    table::LOCALIZED
        .iter()
        .any(|base| name.strip_prefix(base).and_then(|rest| rest.strip_prefix('_')).is_some_and(suffix))
}

/// Whether a name is a raw or formatted value, such as `amount_raw`.
pub(crate) fn is_raw(name: &str) -> bool {
    name.strip_suffix("_raw").or_else(|| name.strip_suffix("_formatted")).is_some_and(|base| {
        base.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
            && base.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            && !base.starts_with("aaep_")
    })
}
