//! Applies the policy to MCP calls of external agents, which the server only records.
//!
//! It must not know how these calls are recorded. Start with [`Agent::judge_foreign_call`].

use recount_engine::{ForeignDecision, ForeignMcpCall, ForeignVerdict};
use serde_json::Value;

use crate::agent::Agent;
use crate::mcp::{assess_call, tool_name};
use crate::policy::{Setting, Verdict, WorkspaceMode};
use crate::tool::{Approval, McpOrigin};

impl Agent {
    /// Judges the call like one of an own run: by the rules, and by the configuration of the MCP server with this name.
    /// For a server that is not configured only the rules count; without a matching rule its calls need an approval.
    pub(crate) fn judge_foreign_call(&self, call: &ForeignMcpCall) -> ForeignVerdict {
        let ForeignMcpCall { server, tool, destroys } = call;
        let name = tool_name(server, tool);
        // A call of an MCP server names no path, host or command, so its input changes no verdict.
        let assessment = assess_call(server, tool, (*destroys, false), &Value::Null);
        // The workspace of an external agent is unknown.
        let setting = Setting {
            workspace_mode: WorkspaceMode::InPlace,
            root: "/".into(),
            sandboxed: false,
            network: true,
        };
        let by_rule = || self.policy().has_rule(&name, &assessment, &setting).then_some(Approval::Auto);
        let approval = self.settings.mcp.approval(server, tool).or_else(by_rule).unwrap_or_default();
        let origin = McpOrigin { server: server.clone(), tool: tool.clone(), approval };
        let verdict = self.policy().judge(&name, &assessment, &setting, Some(&origin));
        let (mut risk, mut reversibility) = (assessment.risk, assessment.reversibility);
        let fate = match verdict {
            Verdict::Allow => ForeignDecision::Allowed,
            Verdict::Ask {
                risk: judged_risk,
                reversibility: judged_reversibility,
                policy_reason: reason,
                ..
            } => {
                (risk, reversibility) = (judged_risk, judged_reversibility);
                ForeignDecision::NeedsApproval { reason }
            }
            Verdict::Block { policy_id, reason } => ForeignDecision::Blocked { policy_id, reason },
        };
        let policy_digest = self.policy().digest().map(str::to_owned);
        ForeignVerdict { decision: fate, risk, reversibility, policy_digest }
    }
}

#[cfg(test)]
mod tests {
    use recount_world::World;

    use super::*;
    use crate::agent::Settings;
    use crate::mcp::{McpServers, McpSettings};
    use crate::model::Registry;
    use crate::policy::Policy;
    use crate::tools::Tools;
    use crate::workspace::Workspaces;

    fn agent(rules: &str, servers: &str) -> Agent {
        let workspaces = Workspaces { home: "/w".into(), allowed: [].into(), forbidden: [].into() };
        let mut settings = Settings::new(Registry::default(), Tools::standard(), workspaces);
        settings.policy = Policy::parse(rules).expect("the rules are valid");
        let servers: McpSettings = toml::from_str(servers).expect("the servers are valid");
        settings.mcp =
            McpServers::build(&servers, &|_| None, "/".as_ref()).expect("the servers can be built");
        Agent::new(settings, World::real())
    }

    #[test]
    fn rules_come_first_then_the_configuration_then_approval() {
        const RULES: &str = r#"
            rules = [
                { id = "read", tool = "mcp__files__read", action = "allow" },
                { id = "hide", tool = "mcp__files__hide", action = "block", reason = "no" },
                { id = "all_of_b", tool = "mcp__b__*", action = "allow" },
            ]"#;
        const SERVERS: &str = r#"
            [servers.a]
            command = ["a"]
            approval = "auto"
            tools = { drop = "block" }
            [servers.b]
            command = ["b"]"#;
        let agent = agent(RULES, SERVERS);
        for (server, tool, destroys, expected) in [
            ("files", "read", false, "allow"),
            // Grave calls always need an approval.
            (
                "files",
                "read",
                true,
                "ask: the policy rule `read` allows it, but calls that cannot be undone always need approval",
            ),
            ("files", "hide", false, "block by hide: no"),
            ("files", "other", false, "ask: calls of the MCP server files need approval"),
            ("a", "x", false, "allow"),
            ("a", "x", true, "ask: calls that cannot be undone always need approval"),
            (
                "a",
                "drop",
                false,
                "block by mcp.servers.a: the configuration blocks the tool drop of the MCP server a",
            ),
            ("b", "x", false, "ask: calls of the MCP server b need approval"),
        ] {
            let call = ForeignMcpCall { server: server.to_owned(), tool: tool.to_owned(), destroys };
            let judged = agent.judge_foreign_call(&call);
            let verdict = match judged.decision {
                ForeignDecision::Allowed => "allow".to_owned(),
                ForeignDecision::NeedsApproval { reason } => format!("ask: {reason}"),
                ForeignDecision::Blocked { policy_id, reason } => format!("block by {policy_id}: {reason}"),
            };
            assert_eq!(verdict, expected, "{call:?}");
            assert!(judged.policy_digest.is_some());
        }
    }
}
