//! What the git tools share: how git is run so that neither its settings nor the repository's run anything that
//! was not asked for.
//!
//! Look at [`wanted`]. The repository's own settings can name programs (filters, textconv, aliases), so git
//! stands in the same sandbox as any command; what is set here only keeps it from doing so by accident.

use crate::limits;
use crate::tool::Terms;
use crate::tools::command::Wanted;
use crate::tools::ending::Stop;

/// Said before every verb.
const BEFORE: &[&str] = &[
    "--no-pager",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "credential.helper=",
    "-c",
    "core.askPass=",
    "-c",
    "core.pager=cat",
    "-c",
    "color.ui=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "protocol.ext.allow=never",
];

/// Git with a verb and its arguments.
pub(crate) fn wanted(terms: &Terms, arguments: Vec<String>) -> Result<Wanted, Stop> {
    let long =
        arguments.iter().any(|word| word.len() > limits::GIT_ARGUMENT_BYTES_MAX || word.contains('\0'));
    if long || arguments.len() > limits::GIT_ARGUMENTS_MAX {
        let (bytes, count) = (limits::GIT_ARGUMENT_BYTES_MAX, limits::GIT_ARGUMENTS_MAX);
        let why = format!("git takes at most {count} arguments of {bytes} bytes here, and no byte 0");
        return Err(Stop::failed("invalid_input", why));
    }
    let root = terms.root.canonicalize().unwrap_or_else(|_| terms.root.clone());
    let mut argv = vec!["git".to_owned()];
    argv.extend(BEFORE.iter().map(|word| (*word).to_owned()));
    // The workspace may belong to somebody else than who runs commands.
    argv.extend(["-c".to_owned(), format!("safe.directory={}", root.display())]);
    let title = format!("git {}", arguments.join(" "));
    argv.extend(arguments);
    let environment = [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_ASKPASS", ""),
        ("GIT_EDITOR", "true"),
        ("GIT_SEQUENCE_EDITOR", "true"),
        ("GIT_PAGER", "cat"),
        ("GIT_MERGE_AUTOEDIT", "no"),
    ];
    Ok(Wanted {
        argv,
        title,
        environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        timeout: terms.command_timeout,
        kind: "git",
    })
}
