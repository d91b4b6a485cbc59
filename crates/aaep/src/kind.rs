//! Names of event types, and their classification. A compact name, the full URI and the expansion of the context file
//! are equal.

use std::fmt;

/// The namespace of the types.
pub const TYPES_URI: &str = "https://aaep-protocol.org/types/";
/// The expansion of `aaep:` in the context file; treated as equal.
pub const VOCABULARY_URI: &str = "https://aaep-protocol.org/vocab/v1#";
/// The prefix of compact names.
pub const PREFIX: &str = "aaep:";
/// The value of `@context`.
pub const CONTEXT: &str = "https://aaep-protocol.org/context/v1";

/// The context that declares the extension of Recount. It is only a name and is never fetched.
pub const EXTENSION_CONTEXT: &str = "urn:recount:aaep:v1:coalesced";

/// The prefix of that extension, such as in `{"recount":{"coalesced_from":["evt_…"],"coalesced_count":3}}`.
pub const EXTENSION_PREFIX: &str = "recount";

macro_rules! kinds {
    ($( $kind:ident = $name:literal, )*) => {
        /// One of the twelve core event types.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind { $( #[doc = concat!("`aaep:", $name, "`")] $kind, )* }

        impl Kind {
            /// All twelve, in the order of chapter 4.
            pub const ALL: [Kind; 12] = [$( Kind::$kind, )*];

            /// The compact name.
            pub const fn compact(self) -> &'static str {
                match self { $( Kind::$kind => concat!("aaep:", $name), )* }
            }

            /// The name without its prefix, as `agent.tool.invoked`.
            pub const fn name(self) -> &'static str {
                match self { $( Kind::$kind => $name, )* }
            }

            /// The kind with this name, without its prefix.
            pub fn of_name(name: &str) -> Option<Kind> {
                match name { $( $name => Some(Kind::$kind), )* _ => None }
            }
        }
    };
}

kinds! {
    SessionStarted = "agent.session.started",
    SessionCompleted = "agent.session.completed",
    SessionErrored = "agent.session.errored",
    SessionCancelled = "agent.session.cancelled",
    StateChanged = "agent.state.changed",
    ProgressUpdated = "agent.progress.updated",
    ToolInvoked = "agent.tool.invoked",
    ToolCompleted = "agent.tool.completed",
    OutputStreaming = "agent.output.streaming",
    AwaitingConfirmation = "agent.awaiting.confirmation",
    AwaitingClarification = "agent.awaiting.clarification",
    HandoffRequested = "agent.handoff.requested",
}

impl Kind {
    /// The full URI.
    pub fn uri(self) -> String {
        format!("{TYPES_URI}{}", self.name())
    }

    /// Whether it ends a session.
    pub fn is_terminal(self) -> bool {
        matches!(self, Kind::SessionCompleted | Kind::SessionErrored | Kind::SessionCancelled)
    }

    /// Whether it must be `critical`.
    pub fn is_critical(self) -> bool {
        matches!(
            self,
            Kind::SessionErrored
                | Kind::AwaitingConfirmation
                | Kind::AwaitingClarification
                | Kind::HandoffRequested
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The classification of a `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeClass {
    Core(Kind),
    /// In the protocol's own namespace, but not one of the twelve.
    Undefined,
    /// A type of an extension.
    Extension,
    /// Neither `prefix:name` nor a URI.
    Malformed,
}

/// Classifies a `type`.
///
/// ```
/// use recount_aaep::kind::{Kind, TypeClass, classify};
/// assert_eq!(classify("aaep:agent.tool.invoked"), TypeClass::Core(Kind::ToolInvoked));
/// assert_eq!(classify("https://aaep-protocol.org/types/agent.tool.invoked"), TypeClass::Core(Kind::ToolInvoked));
/// assert_eq!(classify("medai:alert"), TypeClass::Extension);
/// ```
pub fn classify(text: &str) -> TypeClass {
    for prefix in [PREFIX, TYPES_URI, VOCABULARY_URI] {
        if let Some(name) = text.strip_prefix(prefix) {
            return Kind::of_name(name).map_or(TypeClass::Undefined, TypeClass::Core);
        }
    }
    let extension = text.split_once(':').is_some_and(|(prefix, name)| {
        let first = prefix.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
        first
            && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+._-".contains(&byte))
            && !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_graphic())
    });
    if extension { TypeClass::Extension } else { TypeClass::Malformed }
}
