//! The description of a route: its parameters, body, responses and error codes.
//!
//! The table in `routes.rs` uses these types. The router, the check of queries and the published
//! contract are all made from it, so what is missing here is neither served nor promised.

use recount_event::{Code, limits};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::query;
use crate::scope::Scope;

/// One way in.
#[derive(Debug, Clone, Copy)]
pub struct Route<Name> {
    pub name: Name,
    pub method: &'static str,
    pub path: &'static str,
    /// One of these is needed; none for public routes.
    pub scopes: &'static [Scope],
    /// One sentence.
    pub does: &'static str,
    /// What the query may hold. Anything else is refused.
    pub query: &'static [Parameter],
    pub body: Body,
    pub gives: &'static [ResponseKind],
    /// Its own error codes, besides those that follow from the rest; see [`Route::codes`].
    pub refuses: &'static [Code],
}

/// One parameter of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    pub form: Form,
    /// One sentence.
    pub about: &'static str,
}

/// What a parameter may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A whole number within these bounds.
    Number {
        min: i64,
        max: u64,
    },
    /// The same, or this word.
    NumberOr {
        min: i64,
        max: u64,
        word: &'static str,
    },
    /// One of these.
    Word(&'static [&'static str]),
    /// An id that begins so; of any form when it is empty.
    Id(&'static str),
    /// The cursor of a list of items whose ids have this prefix. Empty is from the start.
    Cursor(&'static str),
    /// An event of a run, as lists of messages return it. Empty is from the start.
    Place,
    /// Such words, with commas between them.
    Words(Word),
    /// So many characters at most.
    Text(usize),
    YesNo,
}

/// One of several words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// A type of events, or what types begin with and a star.
    Type,
    /// An id that begins so.
    Id(&'static str),
    One(&'static [&'static str]),
}

/// How a type describes itself.
pub type Shape = fn(&mut SchemaGenerator) -> Schema;

fn shape<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub enum Body {
    None,
    Json {
        shape: Shape,
        /// Without it an empty object is meant.
        required: bool,
    },
    /// The lines of an export.
    Lines,
    /// Any bytes, of the type that the head names, or a form with a file.
    Bytes,
}

pub const NOTHING: Body = Body::None;
pub const LINES: Body = Body::Lines;
pub const BYTES: Body = Body::Bytes;

/// A body that must be there.
pub const fn body<T: JsonSchema>() -> Body {
    Body::Json { shape: shape::<T>, required: true }
}

/// A body that may be left out.
pub const fn perhaps<T: JsonSchema>() -> Body {
    Body::Json { shape: shape::<T>, required: false }
}

/// One way to be answered.
#[derive(Debug, Clone, Copy)]
pub enum ResponseKind {
    /// `{"object": …, "data": …}`. With 201 comes a `Location` where the thing can be asked for.
    Thing { status: u16, object: &'static str, data: Shape, located: bool },
    /// One page of a list.
    Page(Shape),
    /// One page of envelopes.
    EventsPage,
    /// Envelopes as they come, until the client leaves or nothing more can come.
    EventStream,
    /// Tells a reconnecting reader that nothing more can come.
    Over,
    /// JSON of its own form.
    Bare { status: u16, data: Shape },
    /// Bytes as they were kept, all or a part of them.
    Bytes,
    /// Something that is no JSON of ours.
    Document { media_type: &'static str, about: &'static str },
}

pub const fn one<T: JsonSchema>(object: &'static str) -> ResponseKind {
    ResponseKind::Thing { status: 200, object, data: shape::<T>, located: false }
}

/// Something new, and where it is.
pub const fn created<T: JsonSchema>(object: &'static str) -> ResponseKind {
    ResponseKind::Thing { status: 201, object, data: shape::<T>, located: true }
}

/// Something new that has no place of its own among the routes.
pub const fn made<T: JsonSchema>(object: &'static str) -> ResponseKind {
    ResponseKind::Thing { status: 201, object, data: shape::<T>, located: false }
}

pub const fn page<T: JsonSchema>() -> ResponseKind {
    ResponseKind::Page(shape::<T>)
}

pub const fn bare<T: JsonSchema>(status: u16) -> ResponseKind {
    ResponseKind::Bare { status, data: shape::<T> }
}

impl ResponseKind {
    pub fn status(&self) -> u16 {
        match self {
            ResponseKind::Thing { status, .. } | ResponseKind::Bare { status, .. } => *status,
            ResponseKind::Over => 204,
            ResponseKind::Page(_)
            | ResponseKind::EventsPage
            | ResponseKind::EventStream
            | ResponseKind::Bytes
            | ResponseKind::Document { .. } => 200,
        }
    }
}

impl<Name> Route<Name> {
    /// Whether it may answer with a stream, which browsers cannot send a token to: there a ticket does.
    pub fn streams(&self) -> bool {
        self.gives.iter().any(|gives| matches!(gives, ResponseKind::EventStream))
    }

    /// The names of what the path leaves open.
    pub fn path_names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Whether the query may hold a parameter of this name.
    pub fn knows(&self, parameter: &str) -> bool {
        self.query.iter().any(|known| known.name == parameter) || self.streams() && parameter == query::TICKET
    }

    /// Whether `Idempotency-Key` applies: for calls with an effect that have no numbers of their own. Not for
    /// server routes, whose answers hold secrets that must not be stored.
    pub fn takes_key(&self) -> bool {
        let is_of_server = self.path.starts_with("/admin") || self.path.starts_with("/sign-in");
        let of_the_face = !is_of_server && !self.path.ends_with("/tickets");
        let numbered = self.path.ends_with("/events");
        let has_effect = matches!(self.body, Body::Json { .. } | Body::Bytes);
        self.method == "POST" && has_effect && of_the_face && !numbered
    }

    /// Whether any bytes may be sent, alone or as a part of a form.
    pub fn takes_bytes(&self) -> bool {
        matches!(self.body, Body::Bytes)
    }

    /// Whether it gives bytes, of which a part may be asked for.
    pub fn gives_bytes(&self) -> bool {
        self.gives.iter().any(|gives| matches!(gives, ResponseKind::Bytes))
    }

    /// Whether the response is one item with an `ETag`.
    pub fn is_tagged(&self) -> bool {
        let shows_one =
            self.gives.iter().any(|gives| matches!(gives, ResponseKind::Thing { status: 200, .. }));
        self.method == "GET" && shows_one && !self.path.starts_with("/admin")
    }

    /// All error codes, in order: those of the table, and those that follow from its other terms.
    pub fn codes(&self) -> Vec<Code> {
        let mut codes = self.refuses.to_vec();
        // Possible for every client: a wrong address, too many requests, or a shutdown.
        codes.extend([Code::HostRefused, Code::OriginRefused, Code::RateLimited, Code::TooManyStreams]);
        codes.extend([Code::ParameterInvalid, Code::RouteNotFound, Code::ShuttingDown, Code::Internal]);
        codes.extend([Code::RunDamaged, Code::StoreBusy, Code::StoreCorrupt, Code::StoreUnavailable]);
        if !self.scopes.is_empty() {
            codes.extend([Code::TokenMissing, Code::TokenInvalid, Code::ScopeMissing]);
        }
        if self.method != "GET" {
            codes.push(Code::StoreFull);
        }
        if self.takes_key() {
            codes.extend([Code::HeaderInvalid, Code::IdempotencyKeyReused, Code::IdempotencyInProgress]);
            // What it created when it was sent before may have been deleted.
            codes.extend([Code::RunErased, Code::TaskErased]);
            if self.takes_bytes() {
                codes.push(Code::ArtifactDeleted);
            }
        }
        if !matches!(self.body, Body::None) {
            codes.extend([Code::BodyMalformed, Code::BodyTimeout, Code::BodyTooLarge]);
            codes.push(Code::MediaTypeUnsupported);
        }
        if self.streams() {
            codes.extend([Code::TicketInvalid, Code::CursorMalformed, Code::CursorAhead]);
        }
        if self.gives.iter().any(|gives| matches!(gives, ResponseKind::EventsPage)) {
            codes.push(Code::NotAcceptable);
        }
        if self.gives_bytes() {
            codes.push(Code::RangeNotSatisfiable);
        }
        if self.knows(query::AFTER) {
            codes.extend([Code::CursorMalformed, Code::CursorForeign]);
        }
        for name in self.path_names() {
            codes.extend(missing(name));
        }
        codes.sort_unstable();
        codes.dedup();
        codes
    }
}

/// The code for a path that names something missing or removed.
fn missing(name: &str) -> &'static [Code] {
    match name {
        "run" => &[Code::RunNotFound, Code::RunErased],
        "task" => &[Code::TaskNotFound, Code::TaskErased],
        "session" => &[Code::SessionNotFound, Code::SessionErased],
        "approval" => &[Code::ApprovalNotFound],
        "allowance" => &[Code::AllowanceNotFound],
        "clarification" => &[Code::ClarificationNotFound],
        "handoff" => &[Code::HandoffNotFound],
        "artifact" => &[Code::ArtifactDeleted, Code::ArtifactNotFound, Code::ArtifactPruned, Code::RunErased],
        "token" => &[Code::TokenNotFound],
        "webhook" => &[Code::WebhookNotFound],
        _ => &[],
    }
}

/// What parameters there are; tables name them.
pub mod parameter {
    use super::{Form, Parameter, Word, limits, query};

    const CURSOR_LAST: u64 = limits::INTEGER_MAX - 1;

    pub const AFTER_SEQUENCE: Parameter = Parameter {
        name: query::AFTER_SEQUENCE,
        form: Form::Number { min: -1, max: CURSOR_LAST },
        about: "Exclusive: events after this sequence; from the start if missing or -1.",
    };
    pub const AFTER_POSITION: Parameter = Parameter {
        name: query::AFTER_POSITION,
        form: Form::NumberOr { min: -1, max: CURSOR_LAST, word: query::LATEST },
        about: "Exclusive: events after this position of the feed; latest is only new events. From the start if \
                missing or -1.",
    };
    pub const EVENTS_LIMIT: Parameter = Parameter {
        name: query::LIMIT,
        form: Form::Number { min: 1, max: query::EVENTS_LIMIT_MAX as u64 },
        about: "The maximum number of events per page; 500 by default. It does not apply to streams.",
    };
    /// The cursor of a list of items whose ids have this prefix.
    pub const fn after(prefix: &'static str) -> Parameter {
        Parameter {
            name: query::AFTER,
            form: Form::Cursor(prefix),
            about: "Exclusive: what follows this cursor, which is `next` of the previous page.",
        }
    }
    pub const AFTER_MESSAGE: Parameter = Parameter {
        name: query::AFTER,
        form: Form::Place,
        about: "Exclusive: what follows this cursor, which is `next` of the previous page.",
    };
    pub const LIST_LIMIT: Parameter = Parameter {
        name: query::LIMIT,
        form: Form::Number { min: 1, max: query::LIST_LIMIT_MAX as u64 },
        about: "The maximum number of items per page; 50 by default.",
    };
    pub const RUN_STATUS: Parameter = Parameter {
        name: query::STATUS,
        form: Form::Word(&query::RUN_STATUSES),
        about: "Only runs with this status.",
    };
    pub const APPROVAL_STATUS: Parameter = Parameter {
        name: query::STATUS,
        form: Form::Word(&query::APPROVAL_STATUSES),
        about: "Only approvals with this status.",
    };
    pub const ALLOWANCE_SCOPE: Parameter = Parameter {
        name: query::SCOPE,
        form: Form::Word(&query::ALLOWANCE_SCOPES),
        about: "Only allowances with this scope.",
    };
    pub const ALLOWANCE_RUN: Parameter = Parameter {
        name: query::RUN_ID,
        form: Form::Id("run_"),
        about: "Only allowances that were given in this run.",
    };
    pub const ALLOWANCE_SESSION: Parameter = Parameter {
        name: query::SESSION_ID,
        form: Form::Id("chat_"),
        about: "Only allowances that were given in a run of this session.",
    };
    pub const ARTIFACT_STATUS: Parameter = Parameter {
        name: query::STATUS,
        form: Form::Word(&query::ARTIFACT_STATUSES),
        about: "Only artifacts with this status; patches are proposed, applied or rejected.",
    };
    pub const ARTIFACT_KIND: Parameter = Parameter {
        name: query::KIND,
        form: Form::Text(query::TEXT_MAX),
        about: "Only artifacts of this kind, such as patch or command_output.",
    };
    pub const ARTIFACT_RUN: Parameter =
        Parameter { name: query::RUN_ID, form: Form::Id("run_"), about: "Only artifacts of this run." };
    pub const ARTIFACT_TASK: Parameter = Parameter {
        name: query::TASK_ID,
        form: Form::Id("task_"),
        about: "Only artifacts of runs of this task.",
    };
    pub const UPLOAD_KIND: Parameter = Parameter {
        name: query::KIND,
        form: Form::Word(&query::UPLOAD_KINDS),
        about: "The kind: image, for models, or file. By default image if the Content-Type is one, else file.",
    };
    pub const UPLOAD_NAME: Parameter = Parameter {
        name: query::NAME,
        form: Form::Text(query::NAME_MAX),
        about: "The original file name; at most 255 characters.",
    };
    pub const CLARIFICATION_STATUS: Parameter = Parameter {
        name: query::STATUS,
        form: Form::Word(&query::CLARIFICATION_STATUSES),
        about: "Only questions with this status.",
    };
    pub const HANDOFF_STATUS: Parameter = Parameter {
        name: query::STATUS,
        form: Form::Word(&query::HANDOFF_STATUSES),
        about: "Only handoffs with this status.",
    };
    pub const SESSION_ID: Parameter = Parameter {
        name: query::SESSION_ID,
        form: Form::Id("chat_"),
        about: "Only runs of this session; not together with task_id.",
    };
    pub const TASK_ID: Parameter =
        Parameter { name: query::TASK_ID, form: Form::Id("task_"), about: "Only runs of this task." };
    pub const FEED_TYPE: Parameter = Parameter {
        name: query::TYPE,
        form: Form::Words(Word::Type),
        about: "Only events of these types: complete names, or a prefix with a star, such as tool.*; separate several \
                with commas.",
    };
    pub const FEED_RUN: Parameter = Parameter {
        name: query::RUN_ID,
        form: Form::Words(Word::Id("run_")),
        about: "Only events of these runs; separate several with commas.",
    };
    pub const FEED_TASK: Parameter = Parameter {
        name: query::TASK_ID,
        form: Form::Words(Word::Id("task_")),
        about: "Only events of these tasks; separate several with commas.",
    };
    pub const FEED_SESSION: Parameter = Parameter {
        name: query::SESSION_ID,
        form: Form::Words(Word::Id("chat_")),
        about: "Only events of these sessions; separate several with commas.",
    };
    pub const FEED_KIND: Parameter = Parameter {
        name: query::KIND,
        form: Form::Words(Word::One(&query::RUN_KINDS)),
        about: "Only events of runs of these kinds; separate several with commas.",
    };
    pub const FEED_STATUS: Parameter = Parameter {
        name: query::STATUS,
        form: Form::Words(Word::One(&query::RUN_STATUSES)),
        about: "Only events of runs that have this status when the event is sent; separate several with commas.",
    };
    pub const TASK_STATUS: Parameter = Parameter {
        name: query::STATUS,
        form: Form::Word(&query::TASK_STATUSES),
        about: "Only tasks with this status: idle without a run, else the status of the latest run.",
    };
    pub const RUN_KIND: Parameter = Parameter {
        name: query::KIND,
        form: Form::Word(&query::RUN_KINDS),
        about: "Only runs of this kind.",
    };
    pub const NEEDS_ATTENTION: Parameter = Parameter {
        name: query::NEEDS_ATTENTION,
        form: Form::YesNo,
        about: "true: only items that wait for an answer; false: only the others.",
    };
    pub const DESTRUCTIVE: Parameter = Parameter {
        name: query::DESTRUCTIVE,
        form: Form::YesNo,
        about: "true if the server declares that a call of the tool may be destructive.",
    };
    pub const TEXT: Parameter = Parameter {
        name: query::TEXT,
        form: Form::Text(query::TEXT_MAX),
        about: "Only items with this text in the title or the last message, in any case; at most 200 characters.",
    };
    pub const RUN_AGENT: Parameter = Parameter {
        name: query::AGENT,
        form: Form::Text(query::TEXT_MAX),
        about: "Only runs of agents whose name begins with this text, in any case; at most 200 characters.",
    };
    pub const RUN_SOURCE: Parameter = Parameter {
        name: query::SOURCE,
        form: Form::Text(query::TEXT_MAX),
        about: "Only runs recorded from a source whose name begins with this text, in any case; at most 200 characters.",
    };
    pub const FULL: Parameter = Parameter {
        name: query::FULL,
        form: Form::YesNo,
        about: "Whether to read the bytes of every event, which may take long.",
    };
}
