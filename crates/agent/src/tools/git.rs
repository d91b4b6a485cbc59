//! What the git tools share: git in the sandbox, with everything turned off that a repository could make it run.
//!
//! Look at [`wanted`]. The settings are listed first, by git in the same sandbox, and each that names a program is
//! replaced; see [`crate::git`]. Where they cannot be listed, git is not run.

use tokio::io::AsyncReadExt as _;

use crate::git;
use crate::limits::OWN_GIT_TIME_MAX;
use crate::sandbox::{Order, Sandbox};
use crate::tool::Terms;
use crate::tools::command::CommandPlan;
use crate::tools::ending::{Stop, first_line};
use crate::tools::limits;

/// Whether git may reach other repositories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// This repository only.
    Here,
    /// Wherever the sandbox lets it.
    Others,
}

/// Git with a verb and its arguments.
pub(crate) async fn wanted(
    sandbox: &Sandbox,
    terms: &Terms,
    mut arguments: Vec<String>,
    reach: Reach,
) -> Result<CommandPlan, Stop> {
    let long =
        arguments.iter().any(|word| word.len() > limits::GIT_ARGUMENT_BYTES_MAX || word.contains('\0'));
    if long || arguments.len() > limits::GIT_ARGUMENTS_MAX {
        let (bytes, count) = (limits::GIT_ARGUMENT_BYTES_MAX, limits::GIT_ARGUMENTS_MAX);
        let why = format!("git takes at most {count} arguments of {bytes} bytes here, and no byte 0");
        return Err(Stop::failed("invalid_input", why));
    }
    let title = format!("git {}", arguments.join(" "));
    let argv = argv(terms);
    let mut environment = git::environment();
    if reach == Reach::Here {
        environment.push(git::without_transport());
    }
    let mut listed = Vec::new();
    // Options of git itself may name another repository, whose settings hold then.
    let verb = git::before_the_verb(&arguments);
    let has_submodules = verb > 0 || terms.root.join(".gitmodules").symlink_metadata().is_ok();
    for words in [git::LISTING, git::LISTING_OF_SUBMODULES] {
        let may_be_missing = words == git::LISTING_OF_SUBMODULES;
        if may_be_missing && !has_submodules {
            continue;
        }
        let words = arguments[..verb].iter().cloned().chain(words.iter().map(|word| (*word).to_owned()));
        let mut environment = environment.clone();
        environment.push(("LC_ALL".to_owned(), "C".to_owned()));
        let order = Order {
            argv: argv.iter().cloned().chain(words).collect(),
            root: &terms.root,
            network: false,
            environment,
        };
        listed.extend(list(sandbox, order, may_be_missing).await?);
    }
    let replaced = git::overrides(&listed).map_err(|why| Stop::failed("git_settings_refused", why))?;
    environment.extend(replaced);
    if let Some(word) = arguments.get(verb) {
        let behind = git::behind(word).iter().map(|word| (*word).to_owned());
        arguments.splice(verb + 1..verb + 1, behind);
    }
    let argv = argv.into_iter().chain(arguments).collect();
    Ok(CommandPlan { argv, title, environment, timeout: terms.command_timeout, kind: "git" })
}

/// Git and what is said before every verb.
fn argv(terms: &Terms) -> Vec<String> {
    let root = terms.root.canonicalize().unwrap_or_else(|_| terms.root.clone());
    let mut argv = vec!["git".to_owned()];
    argv.extend(git::BEFORE.iter().map(|word| (*word).to_owned()));
    // The workspace may belong to another user than the one that runs commands.
    argv.extend(["-c".to_owned(), format!("safe.directory={}", root.display())]);
    argv
}

/// The names of all settings that git would use.
async fn list(sandbox: &Sandbox, order: Order<'_>, may_be_missing: bool) -> Result<Vec<u8>, Stop> {
    let unreadable = |why: String| {
        let message = format!("the settings of git could not be listed, so git was not run: {why}");
        Stop::failed("git_settings_unreadable", message)
    };
    let mut process =
        sandbox.start(order).await.map_err(|error| Stop::failed("spawn_failed", error.to_string()))?;
    let (stdout, stderr) = process.outputs().expect("nobody has taken them before");
    let most = limits::GIT_SETTINGS_BYTES_MAX;
    let (mut listed, mut complaint) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (stdout.take(most as u64 + 1), stderr.take(most as u64));
    let reading = async { tokio::join!(stdout.read_to_end(&mut listed), stderr.read_to_end(&mut complaint)) };
    let Ok((read, _)) = tokio::time::timeout(OWN_GIT_TIME_MAX, reading).await else {
        process.kill();
        process.ended().await;
        return Err(unreadable(format!("it took longer than {} s", OWN_GIT_TIME_MAX.as_secs())));
    };
    if listed.len() > most {
        process.kill();
        process.ended().await;
        return Err(unreadable(format!("there are more than {most} bytes of them")));
    }
    let exit = process.ended().await;
    match (read, exit.code) {
        (Ok(_), Some(0)) => Ok(listed),
        (Err(why), _) => Err(unreadable(why.to_string())),
        (Ok(_), _) if may_be_missing && is_missing(&complaint) => Ok(Vec::new()),
        (Ok(_), _) => Err(unreadable(first_line(&String::from_utf8_lossy(&complaint)))),
    }
}

/// Whether git complains that there is no such file.
fn is_missing(complaint: &[u8]) -> bool {
    memchr::memmem::find(complaint, b"No such file or directory").is_some()
}
