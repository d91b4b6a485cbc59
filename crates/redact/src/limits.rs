//! Limits of masking, and what happens at each.

/// The shortest known secret, white space around it not counted; a shorter one is refused, because it would occur
/// in ordinary text.
pub const KNOWN_BYTES_MIN: usize = 8;

/// The longest known secret; a longer one is refused, because no more than this is ever held back.
pub const KNOWN_BYTES_MAX: usize = 4096;

/// Known secrets; more are refused, because every input byte is searched for all of them.
pub const KNOWN_MAX: usize = 1000;

/// Bytes of a streamed text that are held back until it is known whether they begin a secret. Every decision
/// needs fewer.
pub const HOLD_BYTES_MAX: usize = 4096;

/// Bytes of a secret's beginning that stay if they were released before the decision and nothing may be held back.
/// For a known secret it is a quarter of its length, if that is less.
pub const SHOWN_BYTES_MAX: usize = 8;

/// Digits of a payment card that stay for the same reason: fewer than a receipt may show.
pub const SHOWN_DIGITS_MAX: usize = 11;

/// Bytes before a place that may decide what begins there.
pub(crate) const LOOK_BEHIND: usize = 64;

/// Bytes of an escape sequence of a terminal; a longer one is text.
pub(crate) const ESCAPE_BYTES_MAX: usize = 48;

/// Bytes kept of a growing text in which nothing is open.
pub(crate) const KEPT_QUIET: usize = LOOK_BEHIND + 32;

/// Bytes kept of a streamed text in which a secret is open; of a longer one the middle is left out.
pub const KEPT_BYTES_MAX: usize = 8192;

/// Bytes in which every shape has decided whether it is there; from then on it only looks for its end.
pub(crate) const DECIDED_BYTES: usize = 2048;

/// Places named in one event; further ones are masked and not named.
pub const PATHS_MAX: usize = 64;

/// Bytes of the part of an address before its host, user and password.
pub(crate) const USERINFO_BYTES_MAX: usize = 512;

/// Bytes of a name that is followed by a secret.
pub(crate) const NAME_BYTES_MAX: usize = 48;

/// Bytes of a value that is recognized by its name; a longer one is none.
pub(crate) const NAMED_VALUE_BYTES_MAX: usize = 512;

/// Bytes before a line of a private key that repeat those before its first line.
pub(crate) const LINE_PREFIX_BYTES_MAX: usize = 48;

/// Bytes of a token's header.
pub(crate) const JWT_HEADER_BYTES_MAX: usize = 1024;

/// Bytes of the credentials of a basic authorization.
pub(crate) const BASIC_BYTES_MAX: usize = 512;
