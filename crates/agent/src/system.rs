//! The default system prompt: what a model is given before the conversation when neither the run, its agent nor the
//! session says anything else.
//!
//! `docs/agents.md` shows the text, and a test holds the page against this file. Pure; it must never know events,
//! providers or a path of the host. Entry point: [`default_system`].

use std::fmt::Write as _;

/// What the text depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemFacts<'a> {
    /// Names of the tools that the model may call.
    pub tools: &'a [&'a str],
    pub workspace: WorkspaceFacts,
    /// What is known of commands, where one of the tools runs them.
    pub commands: Option<CommandFacts>,
}

/// Where a run works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceFacts {
    /// No tool looks at files.
    None,
    /// A copy of a folder.
    Copy,
    /// A folder of the run's own, empty at first.
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

/// The default system prompt for a run of which these facts hold.
pub fn default_system(facts: &SystemFacts<'_>) -> String {
    let mut text =
        "You are an agent that Recount runs. Do what the user asks, and answer in plain text.\n".to_owned();
    match facts.tools {
        [] => text.push_str("\nTools: none. Answer from the conversation alone.\n"),
        names => {
            let names = names.join(", ");
            writeln!(text, "\nTools: {names}. Look before you claim, and check what you changed.")
                .expect("a string takes everything");
        }
    }
    text.push_str(match facts.workspace {
        WorkspaceFacts::None => "",
        WorkspaceFacts::Copy => {
            "Workspace: a copy of the user's folder. The original does not change; the user decides what to take over. \
             Paths are relative to the workspace.\n"
        }
        WorkspaceFacts::Empty => {
            "Workspace: a folder of this run's own, empty at first. Paths are relative to it.\n"
        }
        WorkspaceFacts::InPlace => {
            "Workspace: the user's own folder. Changes take effect at once. Paths are relative to it.\n"
        }
    });
    if let Some(CommandFacts { sandboxed, network }) = facts.commands {
        let sandbox = if sandboxed { "in a sandbox" } else { "without a sandbox" };
        let network = if network { "with network access" } else { "without network access" };
        // Outside of a sandbox nothing keeps a command from the network.
        let network = if sandboxed { format!(", {network}") } else { String::new() };
        writeln!(text, "Commands run {sandbox}{network}.").expect("a string takes everything");
    }
    if !facts.tools.is_empty() {
        text.push_str(
            "Approvals: a policy decides on each call. A call may be refused, or wait until a person approves it. Do not \
             try to get around a refusal; say what you could not do.\n",
        );
    }
    text.push_str(
        "Record: what you say, each call and its result are kept in a permanent log that people read.\n\
         Context: older parts of a long conversation may be left out or shortened. Call a tool again when you need its \
         result.\n",
    );
    text.push_str("\nAt the end, say what you did, what failed and what you did not check.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_holds_and_nothing_else() {
        let facts = SystemFacts {
            tools: &["grep", "shell_exec"],
            workspace: WorkspaceFacts::InPlace,
            commands: Some(CommandFacts { sandboxed: true, network: false }),
        };
        let text = default_system(&facts);
        for words in
            ["Tools: grep, shell_exec.", "the user's own folder", "in a sandbox, without network access."]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        let none = SystemFacts { tools: &[], workspace: WorkspaceFacts::None, commands: None };
        let text = default_system(&none);
        for words in ["Workspace", "Commands", "Approvals"] {
            assert!(!text.contains(words), "{words}: {text}");
        }
        let open = SystemFacts { commands: Some(CommandFacts { sandboxed: false, network: false }), ..facts };
        assert!(default_system(&open).contains("Commands run without a sandbox.\n"));
    }

    /// The page shows the text for a copy with all of its lines.
    #[test]
    fn the_page_shows_it() {
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
            let line = other.lines().find(|line| line.starts_with("Workspace:")).expect("it has one");
            assert!(page.contains(line), "docs/agents.md does not show: {line}");
        }
    }
}
