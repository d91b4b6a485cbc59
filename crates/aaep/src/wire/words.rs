//! The protocol's small vocabularies. Each takes words it does not know, because later versions may add some.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! words {
    ($( $(#[$doc:meta])* $name:ident { $( $word:ident = $text:literal, )* } )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( #[doc = concat!("`", $text, "`")] $word, )*
            /// A word that this version does not know.
            Other(Box<str>),
        }

        impl $name {
            pub fn as_str(&self) -> &str {
                match self {
                    $( $name::$word => $text, )*
                    $name::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $( $text => $name::$word, )*
                    other => $name::Other(other.into()),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok($name::from(&*std::borrow::Cow::<'de, str>::deserialize(deserializer)?))
            }
        }
    )* };
}

words! {
    /// How much is said.
    Verbosity { Terse = "terse", Normal = "normal", Detailed = "detailed", }
    /// How soon it is said.
    Urgency { Background = "background", Normal = "normal", Critical = "critical", }
    /// Which way a text runs.
    TextDirection { Ltr = "ltr", Rtl = "rtl", Auto = "auto", }
    /// Whether an error may pass.
    ErrorCategory {
        Transient = "transient",
        Permanent = "permanent",
        RequiresUser = "requires_user",
        Unknown = "unknown",
    }
    /// Who cancelled a session.
    CancelledBy { User = "user", Producer = "producer", Timeout = "timeout", System = "system", }
    /// How a call ended.
    ToolStatus { Success = "success", Error = "error", Timeout = "timeout", }
    /// Low, medium or high: risk, urgency of a handoff.
    Level { Low = "low", Medium = "medium", High = "high", }
    /// How much the user wants to hear: low means less.
    Pace { Low = "low", Medium = "medium", High = "high", }
    /// Whether an action can be undone.
    Reversibility {
        Reversible = "reversible",
        WithEffort = "reversible_with_effort",
        Irreversible = "irreversible",
    }
    /// The answer to a confirmation.
    Decision { Accept = "accept", Reject = "reject", }
    /// Where output may be spoken.
    Boundary {
        None = "none",
        Word = "word",
        Sentence = "sentence",
        Paragraph = "paragraph",
        Completion = "completion",
    }
    /// Who takes over.
    HandoffTarget {
        Human = "human",
        SpecialistAgent = "specialist_agent",
        EscalationQueue = "escalation_queue",
    }
}
