//! Standard output and notes, which fail as verbs do. See [`recount_command_line::output`].

use crate::failure::Failure;

pub(crate) use recount_command_line::output::{aside, note};

pub(crate) type Output = recount_command_line::output::Output<Failure>;
