//! Requests to other computers on behalf of a model: which addresses may be reached, how a request is sent and a redirect
//! followed, and how a page becomes text.
//!
//! Look at [`Web`], which the web tools share. It must not know runs, models or the policy: what the policy says of a
//! host is asked through the call's terms.

mod addresses;
mod guard;
mod private;

pub use self::guard::GuardError;
pub use self::private::PrivateHost;
