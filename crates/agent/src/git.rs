//! Runs git so that it executes nothing that a repository configures: no filter, hook, pager, helper, alias or driver.
//!
//! It must never know tools.
//!
//! Start at [`GLOBAL_OPTIONS`], [`environment`] and [`overrides`], which replace each setting that names a program.
//! Filters and drivers have names that the repository chooses, so its settings are listed first ([`LIST_SETTINGS`]),
//! which runs nothing. [`Repository`] is for the server's own calls, outside of any run.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::limits;

/// Options before every verb.
pub(crate) const GLOBAL_OPTIONS: &[&str] = &[
    "--no-pager",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.alternateRefsCommand=true",
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
    "-c",
    "log.showSignature=false",
    "-c",
    "merge.verifySignatures=false",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "tag.gpgSign=false",
    "-c",
    "tag.forceSignAnnotated=false",
    "-c",
    "push.gpgSign=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "fetch.recurseSubmodules=false",
    "-c",
    "status.submoduleSummary=false",
    "-c",
    "diff.submodule=short",
    "-c",
    "diff.ignoreSubmodules=dirty",
];

/// Lists the names of all settings, including those of included files. Runs nothing.
pub(crate) const LIST_SETTINGS: &[&str] = &["config", "--list", "--name-only", "-z"];

/// The same for the submodules that a repository names.
pub(crate) const LIST_SUBMODULE_SETTINGS: &[&str] =
    &["config", "--file", ".gitmodules", "--no-includes", "--list", "--name-only", "-z"];

/// The environment of git, in addition to that of every command.
pub(crate) fn environment() -> Vec<(String, String)> {
    [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_ASKPASS", ""),
        ("GIT_EDITOR", "true"),
        ("GIT_SEQUENCE_EDITOR", "true"),
        ("GIT_PAGER", "cat"),
        ("GIT_MERGE_AUTOEDIT", "no"),
        ("GIT_SSH_COMMAND", "ssh"),
        ("GIT_PROXY_COMMAND", ""),
        // A missing object is not fetched: the repository could name the program that fetches it.
        ("GIT_NO_LAZY_FETCH", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

/// Disables all transports, for verbs that need none.
pub(crate) fn without_transport() -> (String, String) {
    ("GIT_ALLOW_PROTOCOL".to_owned(), String::new())
}

/// The replacement value of a setting that names a program. `name` is as git lists it: section and last part in lower
/// case.
fn replacement(name: &str) -> Option<&'static str> {
    let (section, rest) = name.split_once('.')?;
    let last = rest.rsplit('.').next().unwrap_or(rest);
    let is_of_one = rest.contains('.');
    Some(match (section, last) {
        ("filter", "clean" | "smudge" | "process") => "",
        ("filter", "required") => "false",
        // A driver without a command cannot be expressed; this one shows the file unchanged.
        ("diff", "textconv") => "cat",
        ("diff", "command" | "external") => "false",
        ("merge", "driver") => "false",
        ("alias", _) => "",
        ("pager", _) => "false",
        ("hook", "command") => "",
        ("hook", "enabled") => "false",
        ("trailer", "command" | "cmd") => "",
        ("tar", "command") => "false",
        ("gpg", "program") => "false",
        ("gpg", "defaultkeycommand") => "",
        ("credential", "helper") => "",
        ("interactive", "difffilter") => "cat",
        ("remote", "uploadpack") => "git-upload-pack",
        ("remote", "receivepack") => "git-receive-pack",
        ("remote", "vcs") => "",
        ("submodule", "update") if is_of_one => "checkout",
        ("submodule", "ignore") if is_of_one => "dirty",
        ("browser" | "man" | "difftool" | "mergetool" | "guitool", "cmd" | "path") => "false",
        ("web" | "help", "browser") => "false",
        ("sendemail", "tocmd" | "cccmd" | "headercmd" | "sendmailcmd" | "smtpserver") => "false",
        ("imap", "tunnel") => "false",
        ("core", "gitproxy") => "none",
        ("core", "sshcommand") => "ssh",
        ("core", "editor") => "true",
        ("sequence", "editor") => "true",
        _ => return None,
    })
}

/// The variables that override the listed settings, whose names end with NUL bytes. `Err`: there are too many, or a
/// name is not UTF-8.
pub(crate) fn overrides(listed: &[u8]) -> Result<Vec<(String, String)>, String> {
    let mut replaced: BTreeSet<(String, &'static str)> = BTreeSet::new();
    for name in listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let Ok(name) = std::str::from_utf8(name) else {
            return Err(format!(
                "the name of the git setting {:?} is not UTF-8",
                String::from_utf8_lossy(name)
            ));
        };
        if let Some((submodule, _)) = name.strip_prefix("submodule.").and_then(|rest| rest.rsplit_once('.')) {
            replaced.insert((format!("submodule.{submodule}.ignore"), "dirty"));
            replaced.insert((format!("submodule.{submodule}.update"), "checkout"));
        }
        let Some(value) = replacement(name) else { continue };
        if let Some(driver) = name.strip_prefix("hook.").and_then(|rest| rest.rsplit_once('.')) {
            replaced.insert((format!("hook.{}.enabled", driver.0), "false"));
        }
        if let Some((filter, _)) = name.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.')) {
            replaced.insert((format!("filter.{filter}.required"), "false"));
        }
        replaced.insert((name.to_owned(), value));
    }
    if replaced.len() > limits::GIT_OVERRIDES_MAX {
        return Err(format!(
            "the repository's settings name {} programs; at most {} can be disabled",
            replaced.len(),
            limits::GIT_OVERRIDES_MAX
        ));
    }
    let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), replaced.len().to_string())];
    for (number, (name, value)) in replaced.into_iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{number}"), name));
        variables.push((format!("GIT_CONFIG_VALUE_{number}"), value.to_owned()));
    }
    Ok(variables)
}

/// Options that restrict a verb; they must directly follow it.
pub(crate) fn options_after(verb: &str) -> &'static [&'static str] {
    match verb {
        "diff" | "diff-files" | "diff-index" => {
            &["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--submodule=short"]
        }
        "log" | "show" | "whatchanged" | "diff-tree" | "format-patch" => &["--no-ext-diff", "--no-textconv"],
        "grep" | "blame" | "annotate" => &["--no-textconv"],
        "status" => &["--ignore-submodules=dirty"],
        _ => &[],
    }
}

/// The number of words before the verb: git's global options and their values.
pub(crate) fn options_before_verb<S: AsRef<str>>(args: &[S]) -> usize {
    let mut at = 0;
    while let Some(arg) = args.get(at).map(AsRef::as_ref).filter(|arg| arg.starts_with('-')) {
        let takes_another = matches!(
            arg,
            "-C" | "-c"
                | "--git-dir"
                | "--work-tree"
                | "--namespace"
                | "--config-env"
                | "--attr-source"
                | "--super-prefix"
        );
        at += if takes_another { 2 } else { 1 };
    }
    at.min(args.len())
}

/// A repository that the server itself reads or writes.
pub(crate) struct Repository {
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

/// The result of a git call.
pub(crate) struct GitOutput {
    pub(crate) ok: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Repository {
    /// `Err`: git is not installed, or the settings cannot be read. Blocks.
    pub(crate) fn open(folder: &Path) -> io::Result<Repository> {
        let mut environment: Vec<(OsString, OsString)> = ["PATH", "HOME"]
            .iter()
            .filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)))
            .collect();
        let ours = self::environment().into_iter().chain([without_transport()]);
        environment.extend(ours.map(|(name, value)| (name.into(), value.into())));
        let mut repository = Repository { folder: folder.to_owned(), environment };
        let listed = repository.call(LIST_SETTINGS, None)?;
        if !listed.ok {
            return Err(io::Error::other(listed.stderr));
        }
        let replaced = overrides(&listed.stdout).map_err(io::Error::other)?;
        repository.environment.extend(replaced.into_iter().map(|(name, value)| (name.into(), value.into())));
        Ok(repository)
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.environment.push((name.into(), value.into()));
    }

    /// Runs a verb. Blocks, at most for [`limits::OWN_GIT_TIME_MAX`].
    pub(crate) fn call<S: AsRef<OsStr>>(&self, args: &[S], input: Option<File>) -> io::Result<GitOutput> {
        let mut command = Command::new("git");
        let mut safe = OsString::from("safe.directory=");
        safe.push(&self.folder);
        command.args(GLOBAL_OPTIONS).arg("-c").arg(safe).args(args);
        command.current_dir(&self.folder).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(input.map_or_else(Stdio::null, Stdio::from));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut pipes = (child.stdout.take(), child.stderr.take());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let read = read_both(&mut pipes.0, &mut stdout, &mut pipes.1, &mut stderr);
        if read.is_err() {
            child.kill().ok();
        }
        let status = child.wait()?;
        read?;
        Ok(GitOutput {
            ok: status.success(),
            stdout,
            stderr: String::from_utf8_lossy(&stderr).trim().to_owned(),
        })
    }
}

/// Reads both pipes to their ends, within the limits.
fn read_both(
    out: &mut Option<std::process::ChildStdout>,
    stdout: &mut Vec<u8>,
    err: &mut Option<std::process::ChildStderr>,
    stderr: &mut Vec<u8>,
) -> io::Result<()> {
    let deadline = recount_world::moment() + limits::OWN_GIT_TIME_MAX;
    let mut buffer = vec![0_u8; limits::READ_AT_ONCE_BYTES];
    while out.is_some() || err.is_some() {
        let remaining = deadline.saturating_duration_since(recount_world::moment());
        if remaining.is_zero() {
            let most = limits::OWN_GIT_TIME_MAX.as_secs();
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("git ran longer than {most} s")));
        }
        let mut polled = Vec::new();
        polled.extend(out.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        polled.extend(err.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let pause = Timespec::try_from(remaining).map_err(io::Error::other)?;
        match rustix::event::poll(&mut polled, Some(&pause)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        drop(polled);
        let mut ready = ready.into_iter();
        let (out_is_ready, err_is_ready) =
            (out.is_some() && ready.next().unwrap_or(false), err.is_some() && ready.next().unwrap_or(false));
        if out_is_ready && read_available(out.as_mut(), &mut buffer, stdout)? {
            *out = None;
        }
        if err_is_ready && read_available(err.as_mut(), &mut buffer, stderr)? {
            *err = None;
        }
        if stdout.len().max(stderr.len()) > limits::OWN_GIT_OUTPUT_BYTES_MAX {
            let most = limits::OWN_GIT_OUTPUT_BYTES_MAX;
            return Err(io::Error::other(format!("git wrote more than {most} bytes")));
        }
    }
    Ok(())
}

/// Reads once. Returns whether the pipe has ended.
fn read_available(
    pipe: Option<&mut impl io::Read>,
    buffer: &mut [u8],
    into: &mut Vec<u8>,
) -> io::Result<bool> {
    let Some(pipe) = pipe else { return Ok(true) };
    match pipe.read(buffer) {
        Ok(count) => {
            into.extend_from_slice(&buffer[..count]);
            Ok(count == 0)
        }
        Err(why) if why.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(why) => Err(why),
    }
}

/// The files in a folder that git tracks although they are ignored; empty if git fails. Blocks.
pub(crate) fn tracked_but_ignored(folder: &Path) -> BTreeSet<PathBuf> {
    let args = ["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"];
    let output = Repository::open(folder).and_then(|repository| repository.call(&args, None));
    match output {
        Ok(output) if output.ok => paths(&output.stdout),
        _ => BTreeSet::new(),
    }
}

/// Parses paths that end with NUL bytes.
pub(crate) fn paths(listed: &[u8]) -> BTreeSet<PathBuf> {
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(OsString::from_vec(name.to_vec()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_name_programs_are_replaced() {
        let listed = b"core.bare\0filter.a=b.c.clean\0diff.x.textconv\0alias.st\0user.name\0hook.a.b.event\0";
        let variables = overrides(listed).unwrap();
        let value = |name: &str| {
            let number =
                variables.iter().find(|(_, value)| value == name)?.0.strip_prefix("GIT_CONFIG_KEY_")?;
            let value = format!("GIT_CONFIG_VALUE_{number}");
            variables.iter().find(|(name, _)| *name == value).map(|(_, value)| value.as_str())
        };
        assert_eq!(variables[0], ("GIT_CONFIG_COUNT".to_owned(), "4".to_owned()), "{variables:?}");
        assert_eq!(value("filter.a=b.c.clean"), Some(""));
        assert_eq!(value("filter.a=b.c.required"), Some("false"));
        assert_eq!(value("diff.x.textconv"), Some("cat"));
        assert_eq!(value("alias.st"), Some(""));
        assert_eq!(value("user.name"), None);
    }

    #[test]
    fn settings_that_cannot_be_replaced_are_refused() {
        assert!(overrides(b"filter.\xff.clean\0").is_err());
        let many: String = (0..=limits::GIT_OVERRIDES_MAX).map(|n| format!("alias.a{n}\0")).collect();
        assert!(overrides(many.as_bytes()).unwrap_err().contains("at most"));
    }
}
