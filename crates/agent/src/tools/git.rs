//! Common parts of the git tools: runs git in the sandbox with all programs disabled that a repository could configure.
//!
//! Start at [`plan`]. Git in the same sandbox lists the settings first, and each one that names a program is replaced;
//! see [`crate::git`]. If they cannot be listed, git is not run.

use tokio::io::AsyncReadExt as _;

use crate::git;
use crate::limits::OWN_GIT_TIME_MAX;
use crate::sandbox::{Sandbox, SandboxCommand};
use crate::tool::Terms;
use crate::tools::command::CommandPlan;
use crate::tools::ending::{CallFailure, first_line};
use crate::tools::limits;

/// Whether git may access other repositories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteAccess {
    /// Only this repository.
    Denied,
    /// Everything that the sandbox allows.
    Allowed,
}

/// Plans a git command from a verb and its arguments.
pub(crate) async fn plan(
    sandbox: &Sandbox,
    terms: &Terms,
    mut arguments: Vec<String>,
    remotes: RemoteAccess,
) -> Result<CommandPlan, CallFailure> {
    let long = arguments.iter().any(|arg| arg.len() > limits::GIT_ARGUMENT_BYTES_MAX || arg.contains('\0'));
    if long || arguments.len() > limits::GIT_ARGUMENTS_MAX {
        let (bytes, count) = (limits::GIT_ARGUMENT_BYTES_MAX, limits::GIT_ARGUMENTS_MAX);
        let why = format!("git accepts at most {count} arguments of {bytes} bytes here, without NUL bytes");
        return Err(CallFailure::failed("invalid_input", why));
    }
    let title = format!("git {}", arguments.join(" "));
    let argv = argv(terms);
    let mut environment = git::environment();
    if remotes == RemoteAccess::Denied {
        environment.push(git::without_transport());
    }
    let mut listed = Vec::new();
    // Global options can name another repository, whose settings then hold.
    let verb = git::options_before_verb(&arguments);
    let has_submodules = verb > 0 || terms.root.join(".gitmodules").symlink_metadata().is_ok();
    for args in [git::LIST_SETTINGS, git::LIST_SUBMODULE_SETTINGS] {
        let may_be_missing = args == git::LIST_SUBMODULE_SETTINGS;
        if may_be_missing && !has_submodules {
            continue;
        }
        let args = arguments[..verb].iter().cloned().chain(args.iter().map(|arg| (*arg).to_owned()));
        let mut environment = environment.clone();
        environment.push(("LC_ALL".to_owned(), "C".to_owned()));
        let order = SandboxCommand {
            argv: argv.iter().cloned().chain(args).collect(),
            root: &terms.root,
            network: false,
            environment,
        };
        listed.extend(list_settings(sandbox, order, may_be_missing).await?);
    }
    let replaced = git::overrides(&listed).map_err(|why| CallFailure::failed("git_settings_refused", why))?;
    environment.extend(replaced);
    if let Some(arg) = arguments.get(verb) {
        let options_after = git::options_after(arg).iter().map(|arg| (*arg).to_owned());
        arguments.splice(verb + 1..verb + 1, options_after);
    }
    let argv = argv.into_iter().chain(arguments).collect();
    Ok(CommandPlan { argv, title, environment, timeout: terms.command_timeout, kind: "git" })
}

/// `git` and the options before every verb.
fn argv(terms: &Terms) -> Vec<String> {
    let root = terms.root.canonicalize().unwrap_or_else(|_| terms.root.clone());
    let mut argv = vec!["git".to_owned()];
    argv.extend(git::GLOBAL_OPTIONS.iter().map(|arg| (*arg).to_owned()));
    // The workspace may belong to another user than the one that runs commands.
    argv.extend(["-c".to_owned(), format!("safe.directory={}", root.display())]);
    argv
}

/// The names of all settings that git would use.
async fn list_settings(
    sandbox: &Sandbox,
    order: SandboxCommand<'_>,
    may_be_missing: bool,
) -> Result<Vec<u8>, CallFailure> {
    let unreadable = |why: String| {
        let message = format!("git's settings could not be read, so git was not run: {why}");
        CallFailure::failed("git_settings_unreadable", message)
    };
    let mut process =
        sandbox.start(order).await.map_err(|error| CallFailure::failed("spawn_failed", error.to_string()))?;
    let (stdout, stderr) = process.outputs().expect("the outputs are taken only here");
    let most = limits::GIT_SETTINGS_BYTES_MAX;
    let (mut listed, mut stderr_text) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (stdout.take(most as u64 + 1), stderr.take(most as u64));
    let reading =
        async { tokio::join!(stdout.read_to_end(&mut listed), stderr.read_to_end(&mut stderr_text)) };
    let Ok((read, _)) = tokio::time::timeout(OWN_GIT_TIME_MAX, reading).await else {
        process.kill();
        process.ended().await;
        return Err(unreadable(format!("it ran longer than {} s", OWN_GIT_TIME_MAX.as_secs())));
    };
    if listed.len() > most {
        process.kill();
        process.ended().await;
        return Err(unreadable(format!("they have more than {most} bytes")));
    }
    let exit = process.ended().await;
    match (read, exit.code) {
        (Ok(_), Some(0)) => Ok(listed),
        (Err(why), _) => Err(unreadable(why.to_string())),
        (Ok(_), _) if may_be_missing && is_missing(&stderr_text) => Ok(Vec::new()),
        (Ok(_), _) => Err(unreadable(first_line(&String::from_utf8_lossy(&stderr_text)))),
    }
}

/// Whether git reports that the file does not exist.
fn is_missing(stderr_text: &[u8]) -> bool {
    memchr::memmem::find(stderr_text, b"No such file or directory").is_some()
}
