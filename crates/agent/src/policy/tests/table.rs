//! Tests that compare verdicts on commands with two tables: `spellings.txt` has spellings of commands that do harm,
//! `everyday.txt` has harmless commands.
//!
//! Each line has the verdict in a copy, the verdict in place, the command that a rule blocks (`-`: none), and the
//! command. `always` means that the call needs approval even if a rule allows it.

use super::*;

const SPELLINGS: &str = include_str!("spellings.txt");
const EVERYDAY: &str = include_str!("everyday.txt");

struct Row<'a> {
    verdicts: [&'a str; 2],
    blocked: Option<&'a str>,
    command: &'a str,
}

fn rows(table: &str) -> Vec<Row<'_>> {
    let columns = |line| {
        let (copy, rest): (&str, &str) = cut(line)?;
        let (in_place, rest) = cut(rest)?;
        let (blocked, command) =
            rest.split_once('|').map(|(blocked, command)| (blocked.trim(), command.trim()))?;
        Some(Row {
            verdicts: [copy, in_place],
            blocked: Some(blocked).filter(|blocked| *blocked != "-"),
            command,
        })
    };
    let lines = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| columns(line).unwrap_or_else(|| panic!("not a row: {line}"))).collect()
}

fn cut(line: &str) -> Option<(&str, &str)> {
    line.split_once(' ').map(|(word, rest)| (word, rest.trim_start()))
}

fn rule(action: &str, more: &str) -> Policy {
    Policy::parse(&format!("[[rules]]\nid = \"a\"\naction = \"{action}\"\n{more}")).unwrap()
}

fn check(table: &str) -> usize {
    let allows = rule("allow", "");
    let settings = [clone(), setting(WorkspaceMode::InPlace, true, false)];
    let mut wrong = Vec::new();
    let rows = rows(table);
    for Row { verdicts, blocked, command } in &rows {
        let judged = |policy: &Policy| {
            settings
                .clone()
                .map(|setting| word(&policy.judge("shell_exec", &running(command), &setting, None)))
        };
        let (default, allowed) = (judged(&Policy::default()), judged(&allows));
        let got = [0, 1].map(|at| if allowed[at] == "ask" { "always" } else { default[at] });
        if got != *verdicts {
            wrong.push(format!("{got:?}, not {verdicts:?}: {command}"));
        }
        if let Some(blocked) = blocked {
            let got = judged(&rule("block", &format!("command_prefix = \"{blocked}\"")));
            if got != ["block"; 2] {
                wrong.push(format!("{got:?}, although a rule blocks {blocked}: {command}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    rows.len()
}

#[test]
fn harmful_commands_need_approval_in_any_spelling() {
    assert!(check(SPELLINGS) >= 300);
}

#[test]
fn everyday_commands_run_in_a_copy() {
    assert!(check(EVERYDAY) >= 100);
}
