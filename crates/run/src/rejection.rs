//! Rejections: the rules refused a command. A result, not an error.

use recount_event::Code;

/// Why a command was not taken. Nothing of it happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    pub code: Code,
    /// Names what was rejected, its value and what to do.
    pub message: String,
    /// Which draft of the batch it was.
    pub index: Option<usize>,
    /// That draft's type.
    pub type_name: Option<String>,
    /// The rule of the grammar that it breaks, or the limit it passes; see [`crate::RULES`].
    pub rule: Option<&'static str>,
}

impl Rejection {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Rejection { code, message: message.into(), index: None, type_name: None, rule: None }
    }

    /// Beyond a named limit; the rule names it.
    pub(crate) fn limit(rule: &'static str, message: impl Into<String>) -> Self {
        Rejection { rule: Some(rule), ..Rejection::new(Code::LimitReached, message) }
    }
}

/// A rule that an event would break, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) rule: &'static str,
    pub(crate) message: String,
}

impl From<Broken> for Rejection {
    fn from(broken: Broken) -> Self {
        Rejection { rule: Some(broken.rule), ..Rejection::new(Code::EventRefused, broken.message) }
    }
}

/// Refuses in one line: the rule's id, then the message as for `format!`.
macro_rules! broken {
    ($rule:literal, $($message:tt)*) => {
        Err($crate::rejection::Broken { rule: $rule, message: format!($($message)*) })
    };
}

pub(crate) use broken;
