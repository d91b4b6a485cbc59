//! The protocol's enumerations. Each accepts unknown values, because later versions may add some.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! words {
    ($( $(#[$doc:meta])* $name:ident { $( $word:ident = $text:literal, )* } )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( #[doc = concat!("`", $text, "`")] $word, )*
            /// A value that this version does not know.
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
    /// The amount of text.
    Verbosity { Terse = "terse", Normal = "normal", Detailed = "detailed", }
    /// The urgency of an announcement.
    Urgency { Background = "background", Normal = "normal", Critical = "critical", }
    /// The direction of a text.
    TextDirection { Ltr = "ltr", Rtl = "rtl", Auto = "auto", }
    /// The category of an error.
    ErrorCategory {
        Transient = "transient",
        Permanent = "permanent",
        RequiresUser = "requires_user",
        Unknown = "unknown",
    }
    /// The origin of a cancellation.
    CancelledBy { User = "user", Producer = "producer", Timeout = "timeout", System = "system", }
    /// The status of a completed call.
    ToolStatus { Success = "success", Error = "error", Timeout = "timeout", }
    /// Low, medium or high: risk, urgency of a handoff.
    Level { Low = "low", Medium = "medium", High = "high", }
    /// The cognitive load that the user accepts: low means fewer announcements.
    Pace { Low = "low", Medium = "medium", High = "high", }
    /// Whether an action can be undone.
    Reversibility {
        Reversible = "reversible",
        WithEffort = "reversible_with_effort",
        Irreversible = "irreversible",
    }
    /// The decision of a confirmation.
    Decision { Accept = "accept", Reject = "reject", }
    /// Where output may be spoken.
    Boundary {
        None = "none",
        Word = "word",
        Sentence = "sentence",
        Paragraph = "paragraph",
        Completion = "completion",
    }
    /// The target of a handoff.
    HandoffTarget {
        Human = "human",
        SpecialistAgent = "specialist_agent",
        EscalationQueue = "escalation_queue",
    }
}
