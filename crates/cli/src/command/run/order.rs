//! Builds the request for a run from the command line. Pure but for the paths of folders.

use std::path::Path;

use recount_client::is_on_this_machine;
use recount_client::request::{AgentName, CreateRun, CreateTask, FileOrder};
use serde_json::value::RawValue;

use super::Run;
use crate::failure::Failure;
use crate::render::title;

impl Run {
    /// The run as it is to be made at the server with this address, without what has to be sent before.
    pub(super) fn order(&self, url: &str) -> Result<CreateRun, Failure> {
        let kind = self.kind.clone();
        let words = self.words.join(" ");
        let mut order = CreateRun { kind, title: self.title.clone(), ..CreateRun::default() };
        order.task_id = self.task.clone();
        match self.kind.as_str() {
            "shell" => order.command = Some(command(&self.words)?),
            "git" => {
                order.args = Some(some(&self.words, "the arguments of git, such as -- log -1")?.to_vec())
            }
            "file" => order.file = Some(file(&self.words)?),
            _ if words.trim().is_empty() => {
                return Err(Failure::Usage("no task given; describe the task in words".to_owned()));
            }
            _ => {
                order.title = order.title.or_else(|| title::of_request(&words));
                order.request_text = Some(words);
            }
        }
        order.model = self.model.clone();
        order.system = self.system.clone();
        order.workspace_instructions = self.no_workspace_instructions.then_some(false);
        order.tools = (!self.tools.is_empty()).then(|| self.tools.clone());
        order.max_turns = self.max_turns;
        order.budget_turns = self.budget_turns;
        order.network = self.network.then_some(true);
        order.timeout_seconds = self.timeout.map(|timeout| timeout.as_secs().max(1));
        order.agent = self.agent.clone().map(|name| {
            let options = (!self.option.is_empty()).then(|| self.option.iter().cloned().collect());
            AgentName { name, options, ..AgentName::default() }
        });
        // An agent may have a folder of its own, and a path of this machine names another folder on another one.
        let usual = (self.agent.is_none() && is_on_this_machine(url)).then_some(Path::new("."));
        order.workspace = self.workspace.as_deref().or(usual).map(folder).transpose()?;
        order.workspace_mode = self.workspace_mode.clone();
        order.copy_ignored = self.copy_ignored.then_some(true);
        Ok(order)
    }
}

/// The same as the first run of a new task.
pub(super) fn in_task(order: CreateRun) -> CreateTask {
    CreateTask {
        title: order.title,
        kind: Some(order.kind),
        request_text: order.request_text,
        agent: order.agent,
        model: order.model,
        system: order.system,
        workspace_instructions: order.workspace_instructions,
        tools: order.tools,
        max_turns: order.max_turns,
        budget_turns: order.budget_turns,
        max_output_tokens: order.max_output_tokens,
        workspace: order.workspace,
        workspace_mode: order.workspace_mode,
        copy_ignored: order.copy_ignored,
        network: order.network,
        timeout_seconds: order.timeout_seconds,
        output_bytes_max: order.output_bytes_max,
        command: order.command,
        args: order.args,
        file: order.file,
        attachments: order.attachments,
        ..CreateTask::default()
    }
}

fn some<'a>(words: &'a [String], expected: &str) -> Result<&'a [String], Failure> {
    if words.is_empty() {
        return Err(Failure::Usage(format!("no task given; give {expected}")));
    }
    Ok(words)
}

/// One word is a command line as it stands; several are a program and its arguments, each as it stands.
fn command(words: &[String]) -> Result<String, Failure> {
    match some(words, "the command, such as -- cargo test")? {
        [line] => Ok(line.clone()),
        words => Ok(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
    }
}

/// A word so that a shell takes it as it stands.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn file(words: &[String]) -> Result<FileOrder, Failure> {
    let wrong = |why: String| {
        Failure::Usage(format!("{why}; use a tool and its input, such as read_file '{{\"path\":\"a\"}}'"))
    };
    let [tool, input] = words else {
        return Err(wrong(format!(
            "--kind file takes two arguments, a tool and its input; {} given",
            words.len()
        )));
    };
    let input =
        RawValue::from_string(input.clone()).map_err(|why| wrong(format!("the input is not JSON: {why}")))?;
    Ok(FileOrder { tool: tool.clone(), input })
}

/// A folder by its whole path, as the server needs it.
pub(in crate::command) fn folder(path: &Path) -> Result<String, Failure> {
    let whole = std::fs::canonicalize(path)
        .map_err(|why| Failure::Usage(format!("cannot use the workspace {}: {why}", path.display())))?;
    if !whole.is_dir() {
        return Err(Failure::Usage(format!("the workspace {} is not a folder", path.display())));
    }
    let text = whole.into_os_string().into_string();
    text.map_err(|path| Failure::Usage(format!("the workspace {} is not UTF-8", Path::new(&path).display())))
}

/// What is chosen of an option of an agent.
pub(super) fn choice(text: &str) -> Result<(String, String), String> {
    let choice = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let wrong = || format!("{text:?} is not of the form NAME=VALUE, such as language=Dutch");
    choice.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(wrong)
}

/// An amount of dollars in millionths.
pub(super) fn micros(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not an amount of money; use US dollars, such as 0.50");
    let (whole, fraction) = text.trim().trim_start_matches('$').split_once('.').unwrap_or((text.trim(), ""));
    let whole = whole.trim_start_matches('$');
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 6 || (whole.is_empty() && fraction.is_empty())
    {
        return Err(wrong());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
    let fraction: u64 = format!("{fraction:0<6}").parse().map_err(|_| wrong())?;
    let micros = whole.checked_mul(1_000_000).and_then(|micros| micros.checked_add(fraction));
    // The largest integer that every JSON reader represents exactly.
    micros.filter(|micros| (1..1 << 53).contains(micros)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_exactly() {
        for (text, expected) in [
            ("0.50", Some(500_000)),
            ("2", Some(2_000_000)),
            ("$1.25", Some(1_250_000)),
            (".000001", Some(1)),
            ("0", None),
            ("", None),
            (".", None),
            ("-1", None),
            ("1e3", None),
            ("0.0000001", None),
            ("99999999999999", None),
        ] {
            assert_eq!(micros(text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn several_words_stay_what_they_are() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(command(&words(&["a | b"])).unwrap(), "a | b");
        assert_eq!(
            command(&words(&["echo", "a b", "it's", "*", ""])).unwrap(),
            r"echo 'a b' 'it'\''s' '*' ''"
        );
        assert!(command(&[]).is_err());
        assert!(file(&words(&["read_file"])).is_err());
        assert!(file(&words(&["read_file", "{"])).is_err());
    }
}
