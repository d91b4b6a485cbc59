//! The registry of built-in tools, by name.
//!
//! It must never know models or policy.
//!
//! Start at [`Tools`]. Each tool is a file below `tools/`. Shared parts: the end of a call (`ending`), the common steps
//! of tools that change files (`editor`), and storing, making and reverting a change (`change`).

mod ask_user;
#[cfg(unix)]
pub(crate) mod change;
#[cfg(unix)]
mod command;
pub(crate) mod diff;
#[cfg(unix)]
mod edit_file;
#[cfg(unix)]
mod editor;
pub(crate) mod ending;
#[cfg(unix)]
mod git;
#[cfg(unix)]
pub mod git_diff;
#[cfg(unix)]
pub mod git_exec;
#[cfg(unix)]
pub mod git_status;
#[cfg(unix)]
mod glob;
#[cfg(unix)]
mod grep;
mod hand_off;
pub(crate) mod input;
pub mod limits;
#[cfg(unix)]
mod multi_edit;
#[cfg(unix)]
mod output;
#[cfg(unix)]
mod read_file;
pub(crate) mod read_result;
#[cfg(unix)]
mod replace;
#[cfg(unix)]
mod rooted;
#[cfg(unix)]
pub mod shell;
pub mod spawn_run;
mod todo_write;
#[cfg(unix)]
pub(crate) mod walk;
#[cfg(unix)]
mod write_file;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::limits::NAMED_CHARS_MAX;
use crate::model::ToolSpec;
#[cfg(unix)]
use crate::sandbox::Sandbox;
use crate::schema;
use crate::tool::Tool;
use crate::work_places::WorkPlaces;

/// The tools that [`Tools::add_commands`] adds. They exist only where a sandbox can run commands.
pub const COMMAND_TOOLS: &[&str] = &["git_diff", "git_exec", "git_status", "shell_exec"];

/// The registered tools.
#[derive(Clone)]
pub struct Tools {
    by_name: BTreeMap<String, Arc<dyn Tool>>,
    /// Limits concurrent calls; shared by all clones.
    places: WorkPlaces,
}

impl Default for Tools {
    fn default() -> Self {
        Tools { by_name: BTreeMap::new(), places: WorkPlaces::new(limits::TOOLS_AT_ONCE) }
    }
}

/// No tool has the requested name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown tool `{0}`; available tools: {known}{1}",
    shortened(name),
    nearest.as_ref().map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
)]
pub struct UnknownTool {
    pub name: String,
    pub nearest: Option<String>,
    known: String,
}

impl UnknownTool {
    /// The error for a name that is not one of `known`.
    pub(crate) fn for_names<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let nearest = schema::nearest(name, known.iter().copied()).map(str::to_owned);
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        UnknownTool { name: name.to_owned(), nearest, known }
    }
}

impl Tools {
    /// All built-in tools that need no sandbox.
    pub fn standard() -> Self {
        let mut tools = Tools::default();
        tools.add(ask_user::AskUser);
        tools.add(hand_off::HandOff);
        tools.add(read_result::ReadResult);
        tools.add(todo_write::TodoWrite);
        #[cfg(unix)]
        tools.add_files();
        tools
    }

    /// Adds the tools for the files of a workspace.
    #[cfg(unix)]
    fn add_files(&mut self) {
        self.add(edit_file::EditFile);
        self.add(glob::Glob);
        self.add(grep::Grep);
        self.add(multi_edit::MultiEdit);
        self.add(read_file::ReadFile);
        self.add(write_file::WriteFile);
    }

    /// Adds the tools that run commands in a sandbox.
    #[cfg(unix)]
    pub fn add_commands(&mut self, sandbox: &Arc<Sandbox>) {
        let commands: [Arc<dyn Tool>; COMMAND_TOOLS.len()] = [
            Arc::new(git_diff::GitDiff::new(sandbox.clone())),
            Arc::new(git_exec::GitExec::new(sandbox.clone())),
            Arc::new(git_status::GitStatus::new(sandbox.clone())),
            Arc::new(shell::ShellExec::new(sandbox.clone())),
        ];
        for (tool, name) in commands.into_iter().zip(COMMAND_TOOLS) {
            debug_assert_eq!(tool.name(), *name, "COMMAND_TOOLS lists them in this order");
            self.by_name.insert(tool.name().to_owned(), tool);
        }
    }

    /// Adds the experimental tool that starts child runs.
    pub fn add_child_runs(&mut self) {
        self.add(spawn_run::SpawnRun);
    }

    pub fn add(&mut self, tool: impl Tool) {
        self.by_name.insert(tool.name().to_owned(), Arc::new(tool));
    }

    /// Sets how many calls run at once. The limit holds for all clones made from now on.
    pub fn set_at_once(&mut self, at_once: usize) {
        self.places = WorkPlaces::new(at_once);
    }

    pub(crate) fn places(&self) -> &WorkPlaces {
        &self.places
    }

    pub fn get(&self, name: &str) -> Result<&Arc<dyn Tool>, UnknownTool> {
        self.by_name.get(name).ok_or_else(|| UnknownTool::for_names(name, self.names()))
    }

    /// In alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// The tools that can be called, in alphabetical order.
    pub fn available(&self) -> impl Iterator<Item = &str> {
        let tools = self.by_name.iter().filter(|(_, tool)| tool.unavailable().is_none());
        tools.map(|(name, _)| name.as_str())
    }

    /// The descriptions that are sent to a model, in the given order.
    pub fn specs(&self, names: &[impl AsRef<str>]) -> Result<Vec<ToolSpec>, UnknownTool> {
        names.iter().map(|name| self.get(name.as_ref()).map(|tool| spec(&**tool))).collect()
    }
}

pub(crate) fn spec(tool: &dyn Tool) -> ToolSpec {
    ToolSpec {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        schema: tool.schema(),
    }
}

/// Truncates a text to at most `most` bytes and marks the cut with `…`.
pub(crate) fn cut_bytes(mut text: String, most: usize) -> String {
    if text.len() > most {
        let mut end = most;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Limits a name from outside before it goes into a message.
fn shortened(name: &str) -> String {
    name.chars().take(NAMED_CHARS_MAX).collect()
}

#[cfg(test)]
pub(crate) mod scene;
#[cfg(test)]
mod tests;
