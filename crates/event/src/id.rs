//! Identifiers: a prefix that names the kind, and a ULID; or an id that a producer chose.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::limits;

/// Why a text is not an identifier of the wanted sort.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct IdError {
    pub text: String,
    pub expected: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Ulid);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            pub fn new(ulid: Ulid) -> Self {
                $name(ulid)
            }

            pub fn ulid(self) -> Ulid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut buffer = [0; ulid::ULID_LEN];
                f.write_str($prefix)?;
                f.write_str(self.0.array_to_str(&mut buffer))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            /// Only the canonical form: upper case, so that one thing has one name.
            fn from_str(text: &str) -> Result<Self, IdError> {
                let wrong = || IdError { text: text.chars().take(80).collect(), expected: $expected };
                let body = text.strip_prefix($prefix).ok_or_else(wrong)?;
                let ulid = Ulid::from_string(body).map_err(|_| wrong())?;
                let mut buffer = [0; ulid::ULID_LEN];
                if ulid.array_to_str(&mut buffer) == body { Ok($name(ulid)) } else { Err(wrong()) }
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// Names one event, in every store and on every face.
    EventId, "evt_", "an event id (evt_ and 26 characters)"
);
id!(
    /// Names one run: the unit of order, ownership and recovery.
    RunId, "run_", "a run id (run_ and 26 characters)"
);
id!(
    /// Identifies a task.
    TaskId, "task_", "a task id (task_ and 26 characters)"
);
id!(
    /// Names a conversation.
    SessionId, "chat_", "a session id (chat_ and 26 characters)"
);
id!(
    /// Identifies an access token.
    TokenId, "tok_", "a token id (tok_ and 26 characters)"
);

/// An identifier that a producer may choose: 1 to 128 of `A-Z a-z 0-9 . _ : -`. Unique within its run.
///
/// Not `.` and not `..`: browsers resolve these in a path, so such a name could not be requested.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ForeignId(Box<str>);

const FOREIGN_ID_EXPECTED: &str =
    "an identifier (1 to 128 of the characters A-Z a-z 0-9 . _ : -, but neither . nor ..)";

impl ForeignId {
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let good = !text.is_empty()
            && text.len() <= limits::FOREIGN_ID_BYTES_MAX
            && !matches!(text, "." | "..")
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-'));
        if good {
            Ok(ForeignId(text.into()))
        } else {
            Err(IdError { text: text.chars().take(80).collect(), expected: FOREIGN_ID_EXPECTED })
        }
    }

    /// An id of our own: a prefix such as `call_` and a ULID.
    pub fn minted(prefix: &str, ulid: Ulid) -> Self {
        ForeignId(format!("{prefix}{ulid}").into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::ops::Deref for ForeignId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ForeignId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ForeignId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ForeignId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        ForeignId::parse(&text)
    }
}

impl From<ForeignId> for String {
    fn from(id: ForeignId) -> String {
        id.0.into()
    }
}

impl JsonSchema for ForeignId {
    fn schema_name() -> Cow<'static, str> {
        "ForeignId".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$", "not": { "enum": [".", ".."] } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_text_form() {
        let id = RunId::new(Ulid::from_parts(1_777_803_825_123, 42));
        let text = id.to_string();
        assert_eq!(text.parse(), Ok(id));
        assert!(text.to_lowercase().parse::<RunId>().is_err());
        assert!(text.replace("run_", "task_").parse::<RunId>().is_err());
        assert!("run_8ZZZZZZZZZZZZZZZZZZZZZZZZZ".parse::<RunId>().is_err(), "more than 128 bits");
        assert!("run_".parse::<RunId>().is_err());
    }

    #[test]
    fn foreign_ids() {
        let schema = ForeignId::json_schema(&mut SchemaGenerator::default());
        let fits = jsonschema::draft202012::new(schema.as_value()).unwrap();
        for good in ["call_1", "toolu_01A-b.c:d", "0", "...", ".a", "..a", &"x".repeat(128)] {
            assert!(ForeignId::parse(good).is_ok(), "{good}");
            assert!(fits.is_valid(&good.into()), "{good}");
        }
        for bad in ["", ".", "..", "a b", "a/b", "é", "a\n", &"x".repeat(129)] {
            assert!(ForeignId::parse(bad).is_err(), "{bad}");
            assert!(!fits.is_valid(&bad.into()), "{bad}");
        }
    }
}
