//! Identifiers and timestamps: strings with a validated format.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::lex::{self, Lex};

/// The error of an invalid identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is not {name}; it is written as `{example}`")]
pub struct IdError {
    pub value: String,
    name: &'static str,
    example: &'static str,
}

impl IdError {
    fn of(lex: &'static Lex, value: &str) -> Self {
        IdError { value: crate::quote::quote(value), name: lex.name, example: lex.example }
    }
}

macro_rules! ids {
    ($( $(#[$doc:meta])* $id:ident by $lex:ident; )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $id(Box<str>);

        impl $id {
            /// Validates a string.
            pub fn new(text: impl Into<Box<str>>) -> Result<Self, IdError> {
                let text = text.into();
                if (lex::$lex.test)(&text) { Ok($id(text)) } else { Err(IdError::of(&lex::$lex, &text)) }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $id::new(Box::<str>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }

        impl TryFrom<&str> for $id {
            type Error = IdError;

            fn try_from(text: &str) -> Result<Self, IdError> {
                $id::new(text)
            }
        }
    )* };
}

ids! {
    /// `evt_` and 1 to 64 letters and digits.
    EventId by EVENT_ID;
    /// `sess_` and 1 to 64 letters and digits.
    SessionId by SESSION_ID;
    /// `rpl_` and 1 to 64 letters and digits. Subscribers return it unchanged.
    ReplyToken by REPLY_TOKEN;
    /// `sub_` and 1 to 64 letters and digits.
    SubscriptionId by SUBSCRIPTION_ID;
    /// `call_` and 1 to 64 letters and digits.
    ToolCallId by TOOL_CALL_ID;
    /// `out_` and 1 to 64 letters and digits.
    OutputId by OUTPUT_ID;
    /// An RFC 3339 time as it was written: with `T`, a zone and any fraction.
    Timestamp by MOMENT;
}

impl Timestamp {
    /// A timestamp with milliseconds.
    pub fn of_millis(millis: i64) -> Self {
        Timestamp(lex::time::Moment::write(millis).into())
    }

    /// Milliseconds since 1970.
    pub fn millis(&self) -> i64 {
        lex::time::Moment::parse(&self.0).map_or(0, lex::time::Moment::millis)
    }
}
