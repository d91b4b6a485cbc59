//! The default system prompt of runs whose agent, session and configuration set none.
//!
//! `docs/agents.md` shows the text, and a test compares the page with this file. Pure. It must never depend on events,
//! providers or paths of the host. Start with [`default_system`].

use std::fmt::Write as _;

/// The facts that the text depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemFacts<'a> {
    /// Names of the tools that the model may call.
    pub tools: &'a [&'a str],
    pub workspace: WorkspaceFacts,
    /// How commands run, if one of the tools runs commands.
    pub commands: Option<CommandFacts>,
}

/// The workspace of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceFacts {
    /// No tool accesses files.
    None,
    /// A copy of a folder.
    Copy,
    /// A new, empty folder.
    Empty,
    /// The user's folder itself.
    InPlace,
}

/// How commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandFacts {
    pub sandboxed: bool,
    pub network: bool,
}

/// The default system prompt for a run with these facts.
pub fn default_system(facts: &SystemFacts<'_>) -> String {
    let mut text =
        "You are an agent run by Recount. Do what the user asks and reply in plain text.\n".to_owned();
    match facts.tools {
        [] => text.push_str("\nTools: none. Use only this conversation.\n"),
        names => {
            let names = names.join(", ");
            writeln!(text, "\nTools: {names}. Check facts before you state them, and verify your changes.")
                .expect("writing to a string cannot fail");
        }
    }
    text.push_str(match facts.workspace {
        WorkspaceFacts::None => "",
        WorkspaceFacts::Copy => {
            "Workspace: a copy of the user's folder. The original does not change; the user decides which \
             changes to apply. Paths are relative to the workspace.\n"
        }
        WorkspaceFacts::Empty => "Workspace: a new, empty folder for this run. Paths are relative to it.\n",
        WorkspaceFacts::InPlace => {
            "Workspace: the user's own folder. Changes take effect immediately. Paths are relative to it.\n"
        }
    });
    if let Some(CommandFacts { sandboxed, network }) = facts.commands {
        let sandbox = if sandboxed { "in a sandbox" } else { "without a sandbox" };
        let network = if network { "with network access" } else { "without network access" };
        // Without a sandbox the network is never restricted.
        let network = if sandboxed { format!(", {network}") } else { String::new() };
        writeln!(text, "Commands run {sandbox}{network}.").expect("writing to a string cannot fail");
    }
    if !facts.tools.is_empty() {
        text.push_str(
            "Approvals: a policy checks every call. A call can be refused, or wait until a person approves \
             it. Do not try to work around a refusal; report what you could not do.\n",
        );
    }
    text.push_str(
        "Record: your messages, calls and their results are stored in a permanent log that people \
         read.\nContext: older parts of a long conversation can be omitted or shortened. Call a tool again \
         if you need its result.\n",
    );
    text.push_str("\nAt the end, report what you did, what failed and what you did not verify.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_has_only_the_lines_of_the_given_facts() {
        let facts = SystemFacts {
            tools: &["grep", "shell_exec"],
            workspace: WorkspaceFacts::InPlace,
            commands: Some(CommandFacts { sandboxed: true, network: false }),
        };
        let text = default_system(&facts);
        for part in
            ["Tools: grep, shell_exec.", "the user's own folder", "in a sandbox, without network access."]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let none = SystemFacts { tools: &[], workspace: WorkspaceFacts::None, commands: None };
        let text = default_system(&none);
        for part in ["Workspace", "Commands", "Approvals"] {
            assert!(!text.contains(part), "{part}: {text}");
        }
        let open = SystemFacts { commands: Some(CommandFacts { sandboxed: false, network: false }), ..facts };
        assert!(default_system(&open).contains("Commands run without a sandbox.\n"));
    }

    /// The page shows the text for a workspace copy.
    #[test]
    fn the_docs_page_shows_the_prompt() {
        let page = include_str!("../../../docs/agents.md");
        let facts = SystemFacts {
            tools: &["read_file", "grep", "shell_exec"],
            workspace: WorkspaceFacts::Copy,
            commands: Some(CommandFacts { sandboxed: true, network: false }),
        };
        let text = default_system(&facts);
        assert!(
            page.contains(&format!("```text\n{text}\n```")),
            "docs/agents.md shows another text than:\n{text}"
        );
        for other in [WorkspaceFacts::Empty, WorkspaceFacts::InPlace] {
            let other = default_system(&SystemFacts { workspace: other, ..facts });
            let line = other
                .lines()
                .find(|line| line.starts_with("Workspace:"))
                .expect("the prompt has a workspace line");
            assert!(page.contains(line), "docs/agents.md does not show: {line}");
        }
    }
}
