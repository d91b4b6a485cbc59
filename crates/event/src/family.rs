//! The payloads, one file a family. Each struct is the `data` of one or more event types.
//!
//! In a [`payload!`](macro@payload) the first block holds the fields that must be there, the second
//! those that may be absent. An `Option` in the first block is written as `null` when it has no value.

pub mod approval;
pub mod artifact;
pub mod assistant;
pub mod clarification;
pub mod context;
pub mod cost;
pub mod error;
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
            /// With nothing but what must be there.
            #[allow(clippy::too_many_arguments, clippy::new_without_default)]
            pub fn new($( $req: $req_type ),*) -> Self {
                $name { $( $req, )* $( $opt: None, )* }
            }
        }
    )* };
}

/// Declares a closed set of words as they stand on the wire.
macro_rules! words {
    ($(
        $(#[$doc:meta])*
        $name:ident { $( $(#[$word_doc:meta])* $variant:ident = $word:literal ),* $(,)? }
    )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $name { $( $(#[$word_doc])* #[serde(rename = $word)] $variant ),* }

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
    )* };
}

pub(crate) use payload;
pub(crate) use words;
