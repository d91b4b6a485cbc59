//! The token for a server that a verb names, and values from files. See [`recount_command_line::credential`].

use std::path::Path;

use recount_command_line::credential::{self, OwnToken};

use super::{Invocation, stored_login};
use crate::failure::Failure;

/// The token for a verb that a person types: the given one, or else that of a sign-in.
pub(super) fn token(
    invocation: &Invocation,
    base: &str,
    file: Option<&Path>,
) -> Result<Option<String>, Failure> {
    let given = given_token(invocation, base, file)?;
    if given.is_some() || file.is_some() || invocation.token.is_some() {
        return Ok(given);
    }
    Ok(stored_login::find(base).and_then(|login| login.current_token(base).map(str::to_owned)))
}

/// The token for a verb that acts for a program.
pub(super) fn given_token(
    invocation: &Invocation,
    base: &str,
    file: Option<&Path>,
) -> Result<Option<String>, Failure> {
    let token = invocation.token.as_deref();
    let own = OwnToken { token, is_typed: invocation.token_is_typed(), url: &invocation.url };
    own.for_server(base, file).map_err(Failure::Usage)
}

/// The content of a small file, without the line end at its end.
pub(super) fn small_file(path: &Path) -> Result<String, Failure> {
    credential::small_file(path).map_err(Failure::Usage)
}
