//! The payloads, one file per family. Each struct is the `data` of one or more event types.
//!
//! In a [`payload!`](macro@payload) the first block holds the required fields, the second the optional
//! ones. An `Option` in the first block is written as `null` when it has no value.

pub mod approval;
pub mod artifact;
pub mod assistant;
pub mod clarification;
pub mod context;
pub mod cost;
pub mod error;
pub(crate) mod fault;
pub mod file;
pub mod gap;
pub mod handoff;
pub mod policy;
pub mod run;
pub mod search;
pub mod shell;
pub mod tool;
pub mod turn;
pub mod user;
pub mod web;
pub mod workspace;

/// Declares a payload: derives, field visibility, optional fields left out when absent, and `new`
/// from the fields that must be there.
macro_rules! payload {
    ($(
        $(#[$doc:meta])*
        $name:ident { $( $(#[$req_doc:meta])* $req:ident: $req_type:ty ),* $(,)? }
        { $( $(#[$opt_doc:meta])* $opt:ident: $opt_type:ty ),* $(,)? }
    )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub struct $name {
            $( $(#[$req_doc])* pub $req: $req_type, )*
            $( $(#[$opt_doc])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $opt: Option<$opt_type>, )*
        }

        impl $name {
            /// With required fields only.
            #[allow(clippy::too_many_arguments, clippy::new_without_default)]
            pub fn new($( $req: $req_type ),*) -> Self {
                $name { $( $req, )* $( $opt: None, )* }
            }
        }

        impl crate::family::fault::Faults for $name {
            fn faults(data: &crate::family::fault::Fields<'_>) -> Vec<String> {
                let mut faults = Vec::new();
                $( faults.extend(data.fault::<$req_type>(stringify!($req))); )*
                $( faults.extend(data.fault::<Option<$opt_type>>(stringify!($opt))); )*
                faults
            }
        }
    )* };
}

/// Declares a closed set of words as they are on the wire. Read from a string only.
macro_rules! words {
    ($(
        $(#[$doc:meta])*
        $name:ident { $( $(#[$word_doc:meta])* $variant:ident = $word:literal ),* $(,)? }
    )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $( $(#[$word_doc])* $variant ),* }

        impl $name {
            pub const ALL: &[$name] = &[$( $name::$variant ),*];

            pub fn as_str(self) -> &'static str {
                match self { $( $name::$variant => $word ),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                match text.as_ref() {
                    $( $word => Ok($name::$variant), )*
                    other => Err(serde::de::Error::unknown_variant(other, &[$( $word ),*])),
                }
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$( $word ),*] })
            }
        }
    )* };
}

/// Declares a part of payloads: an object inside `data`. Read from an object and nothing else (a derived
/// reader would take a list of the fields in order, too).
macro_rules! part {
    ($(
        $(#[$doc:meta])*
        $name:ident { $( $(#[$req_doc:meta])* $req:ident: $req_type:ty ),* $(,)? }
        { $( $(#[$opt_doc:meta])* $opt:ident: $opt_type:ty ),* $(,)? }
    )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(remote = "Self")]
        pub struct $name {
            $( $(#[$req_doc])* pub $req: $req_type, )*
            $( $(#[$opt_doc])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $opt: Option<$opt_type>, )*
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let object = crate::json::object(deserializer)?;
                Self::deserialize(&mut serde_json::Deserializer::from_str(object.text()))
                    .map_err(serde::de::Error::custom)
            }
        }
    )* };
}

pub(crate) use part;
pub(crate) use payload;
pub(crate) use words;
