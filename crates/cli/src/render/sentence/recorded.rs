//! Sentences for events of recorders of other agents: the source of a run, and its gaps.

use super::{Data, Sentence};

pub(super) fn of(type_name: &str, data: &Data) -> Option<Sentence> {
    match type_name {
        "ext.recount.source" => {
            let version = data.text("version").map_or(String::new(), |version| format!(" {version}"));
            let missing = data.texts("does_not_show").filter(|missing| !missing.is_empty());
            let missing = missing.map_or(String::new(), |missing| {
                format!("; this source does not show {}", missing.join(", "))
            });
            Some(Sentence::line(format!("recorded from {}{version}{missing}", data.text("source")?)))
        }
        "ext.recount.gap" => {
            let what = data.text("what").unwrap_or("unknown data");
            Some(Sentence::line(format!("not recorded: {what} ({})", data.text("reason")?)))
        }
        "ext.recount.policy_verdict" => {
            let call = format!("{} of {}", data.text("mcp_tool")?, data.text("mcp_server")?);
            let reason = data.text("reason").map_or(String::new(), |reason| format!(": {reason}"));
            Some(Sentence::line(match data.text("verdict")? {
                "allow" => format!("the policy allows {call}"),
                "ask" => format!("the policy would require approval for {call}{reason}"),
                "block" => format!("the policy would block {call}{reason}"),
                _ => format!("no policy was checked for {call}{reason}"),
            }))
        }
        _ => None,
    }
}
