//! Whether a call is carried out, asked about or blocked.
//!
//! Look at [`Policy::judge`]. Rules come from a file, in order, and the first that fits decides; where none does, a
//! cautious default holds. Above all rules stands one that no rule undoes: what is grave (of high risk, or not to be
//! undone) is asked about, and when nobody answers it is not done. `docs/policy.md` is for people who write rules.
//!
//! Pure. It must never know how people are asked or how calls are carried out.

mod command;
pub mod limits;
mod read;
mod risk;

use std::path::PathBuf;

use globset::{GlobBuilder, GlobMatcher};
use recount_event::family::approval::{DefaultDecision, Reversibility};
use recount_event::family::tool::RiskLevel;

pub use command::quoted;
pub use read::PolicyError;
pub use risk::{Risk, command_risk};

use crate::paths::Place;
use crate::policy::command::CommandLine;
use crate::tool::{Approval, Assessment, McpOrigin};

/// Rules in force. The default has none of its own.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    digest: Option<String>,
}

/// Where a run works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceMode {
    /// In a copy of its own.
    Clone,
    /// In the folder itself.
    InPlace,
}

/// What holds for the run whose call is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub workspace_mode: WorkspaceMode,
    /// The workspace's folder; absolute paths in calls are meant from here.
    pub root: PathBuf,
    /// Whether commands are held back by a sandbox that was seen to work.
    pub sandboxed: bool,
    /// Whether commands may use the network.
    pub network: bool,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Ask {
        risk: RiskLevel,
        reversibility: Reversibility,
        timeout_seconds: u64,
        default_decision: DefaultDecision,
        policy_reason: String,
    },
    Block {
        policy_id: String,
        reason: String,
    },
}

/// Why a call is asked about that no rule would ask about.
const UNTRUSTED: &str = "the application enabled this tool without trusting it";

impl Verdict {
    /// The same for a tool that may only be called with a person's leave: what the policy blocks stays blocked, what
    /// it asks about is asked about on its terms, and without an answer nothing is done.
    pub fn only_with_leave(self, assessment: &Assessment) -> Verdict {
        self.asked_first(assessment, UNTRUSTED)
    }

    fn asked_first(self, assessment: &Assessment, why: &str) -> Verdict {
        let default_decision = DefaultDecision::Reject;
        match self {
            Verdict::Allow => Verdict::Ask {
                risk: assessment.risk,
                reversibility: assessment.reversibility,
                timeout_seconds: limits::APPROVAL_TIMEOUT_SECONDS,
                default_decision,
                policy_reason: why.to_owned(),
            },
            Verdict::Ask { risk, reversibility, timeout_seconds, default_decision: _, policy_reason } => {
                let policy_reason = format!("{why}; {policy_reason}");
                Verdict::Ask { risk, reversibility, timeout_seconds, default_decision, policy_reason }
            }
            Verdict::Block { .. } => self,
        }
    }
}

/// One rule, read and found good.
#[derive(Debug, Clone)]
struct Rule {
    id: String,
    tool: ToolPattern,
    path: Option<GlobMatcher>,
    host: Option<String>,
    command_prefix: Option<Vec<String>>,
    risk_at_least: Option<RiskLevel>,
    action: Action,
    risk: Option<RiskLevel>,
    reversibility: Option<Reversibility>,
    timeout_seconds: Option<u64>,
    default_decision: Option<DefaultDecision>,
    reason: Option<String>,
    /// Whether its MCP server is only recorded, so that it need not be configured.
    recorded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Allow,
    Ask,
    Block,
}

/// A name, or the beginning of names when it ended in `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ToolPattern {
    Name(String),
    Prefix(String),
}

impl ToolPattern {
    fn fits(&self, tool: &str) -> bool {
        match self {
            ToolPattern::Name(name) => name == tool,
            ToolPattern::Prefix(prefix) => tool.starts_with(prefix.as_str()),
        }
    }

    /// Whether it fits any name that begins so.
    fn may_fit(&self, beginning: &str) -> bool {
        match self {
            ToolPattern::Name(name) => name.len() > beginning.len() && name.starts_with(beginning),
            ToolPattern::Prefix(prefix) => {
                prefix.starts_with(beginning) || beginning.starts_with(prefix.as_str())
            }
        }
    }
}

/// Tools that only look, keep a list or speak to people, whatever a command of theirs is called.
const READING: &[&str] = &[
    "read_file",
    "glob",
    "grep",
    "git_status",
    "git_diff",
    "todo_write",
    "ask_user",
    "hand_off",
    "read_result",
];

impl Policy {
    /// A digest of the text that the rules were read from; nothing for the default.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Whether a rule decides on a call.
    pub fn has_rule(&self, tool: &str, assessment: &Assessment, setting: &Setting) -> bool {
        let call = JudgedCall::new(tool, assessment, setting);
        self.rules.iter().any(|rule| rule.fits(&call))
    }

    /// Judges a call. `origin`: of a tool of an MCP server, for which the configuration says what its calls need.
    pub fn judge(
        &self,
        tool: &str,
        assessment: &Assessment,
        setting: &Setting,
        origin: Option<&McpOrigin>,
    ) -> Verdict {
        let call = JudgedCall::new(tool, assessment, setting);
        let rule = self.rules.iter().find(|rule| rule.fits(&call));
        let by_rule = || rule.map(|rule| rule.judge(&call));
        let Some(origin) = origin else { return by_rule().unwrap_or_else(|| by_default(&call)) };
        match origin.approval {
            Approval::Block => Verdict::Block {
                policy_id: format!("mcp.servers.{}", origin.server),
                reason: format!(
                    "the configuration blocks the tool {} of the server {}",
                    origin.tool, origin.server
                ),
            },
            Approval::RequireApproval => {
                let why = format!("calls of the server {} need an approval", origin.server);
                by_rule().unwrap_or(Verdict::Allow).asked_first(assessment, &why)
            }
            Approval::Auto => by_rule().unwrap_or_else(|| {
                let grave = is_grave(call.risk(), assessment.reversibility);
                if grave { by_default(&call) } else { Verdict::Allow }
            }),
        }
    }
}

/// A call as rules look at it.
struct JudgedCall<'a> {
    tool: &'a str,
    assessment: &'a Assessment,
    setting: &'a Setting,
    /// As places in the workspace; what is outside stays as it was named.
    paths: Vec<PathBuf>,
    line: Option<CommandLine>,
}

impl<'a> JudgedCall<'a> {
    fn new(tool: &'a str, assessment: &'a Assessment, setting: &'a Setting) -> Self {
        let meant = |path: &String| {
            Place::parse(&setting.root, path)
                .map_or_else(|_| PathBuf::from(path), |place| place.as_path().to_owned())
        };
        JudgedCall {
            tool,
            assessment,
            setting,
            paths: assessment.targets.paths.iter().map(meant).collect(),
            line: assessment.targets.command.as_deref().map(CommandLine::read),
        }
    }
}

impl JudgedCall<'_> {
    /// Why the call cannot be judged in full, where it cannot.
    fn unjudged(&self) -> Option<&'static str> {
        self.line.as_ref().and_then(|line| line.unjudged)
    }

    /// What cannot be judged in full is of high risk, whatever the tool says.
    fn risk(&self) -> RiskLevel {
        if self.unjudged().is_some() { RiskLevel::High } else { self.assessment.risk }
    }
}

fn in_part(why: &str) -> String {
    format!("what cannot be judged in full is always asked about: {why}")
}

impl Rule {
    /// What allows must fit all of a call; for what asks or blocks a part of it is enough.
    fn fits(&self, call: &JudgedCall<'_>) -> bool {
        let all = self.action == Action::Allow;
        self.tool.fits(call.tool)
            && self.risk_at_least.is_none_or(|least| call.risk() >= least)
            && self.path.as_ref().is_none_or(|glob| some(all, &call.paths, |path| glob.is_match(path)))
            && self
                .host
                .as_ref()
                .is_none_or(|host| some(all, &call.assessment.targets.hosts, |named| host_fits(host, named)))
            && self.command_prefix.as_ref().is_none_or(|prefix| {
                call.line.as_ref().is_some_and(|line| {
                    if !all {
                        return some(false, &line.commands, |command| may_begin(&command.words, prefix));
                    }
                    let shown = line.unjudged.is_none() && !line.twisted && line.redirects.is_empty();
                    let fits = |command: &command::Command| {
                        begins(&command.words, prefix) && !command.raised && command.sets.is_empty()
                    };
                    shown && some(true, &line.commands, fits)
                })
            })
    }

    fn judge(&self, call: &JudgedCall<'_>) -> Verdict {
        // A rule may call a call graver than its tool does, never less grave.
        let risk = self.risk.map_or(call.risk(), |risk| risk.max(call.risk()));
        let reversibility = self
            .reversibility
            .map_or(call.assessment.reversibility, |said| said.max(call.assessment.reversibility));
        let grave = is_grave(risk, reversibility);
        let reason = self.reason.clone();
        match self.action {
            Action::Block => Verdict::Block {
                policy_id: self.id.clone(),
                reason: reason.unwrap_or_else(|| format!("the rule `{}` of the policy blocks it", self.id)),
            },
            Action::Allow if !grave => Verdict::Allow,
            Action::Allow | Action::Ask => Verdict::Ask {
                risk,
                reversibility,
                timeout_seconds: self.timeout_seconds.unwrap_or(limits::APPROVAL_TIMEOUT_SECONDS),
                default_decision: match self.default_decision {
                    Some(decision) if !grave => decision,
                    _ => DefaultDecision::Reject,
                },
                policy_reason: match (self.action, reason) {
                    (Action::Allow, _) => match call.unjudged() {
                        Some(why) => format!("the rule `{}` allows it, but {}", self.id, in_part(why)),
                        None => format!(
                            "the rule `{}` allows it, but what is {} is always asked about",
                            self.id,
                            gravely(risk, reversibility)
                        ),
                    },
                    (_, Some(reason)) => reason,
                    (_, None) => format!("the rule `{}` of the policy asks", self.id),
                },
            },
        }
    }
}

/// Whether a mistake could not be put right.
pub(crate) fn is_grave(risk: RiskLevel, reversibility: Reversibility) -> bool {
    risk == RiskLevel::High || reversibility == Reversibility::Irreversible
}

fn gravely(risk: RiskLevel, reversibility: Reversibility) -> &'static str {
    match (risk, reversibility) {
        (RiskLevel::High, Reversibility::Irreversible) => "of high risk and cannot be undone",
        (RiskLevel::High, _) => "of high risk",
        _ => "not to be undone",
    }
}

/// Whether something is there and all of it, or one, is as wanted.
fn some<T>(all: bool, things: &[T], wanted: impl Fn(&T) -> bool) -> bool {
    !things.is_empty() && if all { things.iter().all(wanted) } else { things.iter().any(wanted) }
}

/// Word by word: `git push` begins `git push origin` and not `git pushy`. An installed program fits by its name alone.
fn begins(words: &[command::Word], prefix: &[String]) -> bool {
    words.len() >= prefix.len()
        && words.iter().zip(prefix).enumerate().all(|(at, (word, wanted))| {
            !word.is_dynamic()
                && (**word == **wanted
                    || (at == 0
                        && !wanted.contains('/')
                        && command::is_installed(word)
                        && command::base(word) == wanted))
        })
}

/// The same where a word that is only known when the command runs may be the one that is wanted, or several, or none.
fn may_begin(words: &[command::Word], prefix: &[String]) -> bool {
    for (at, wanted) in prefix.iter().enumerate() {
        let Some(word) = words.get(at) else { return false };
        if word.is_dynamic() {
            // A command of an unknown name is asked about in any case.
            return at > 0;
        }
        let named = at == 0 && !wanted.contains('/') && command::base(word) == wanted;
        if **word != **wanted && !named {
            return false;
        }
    }
    true
}

/// The host itself, or with `*.` those below it.
fn host_fits(pattern: &str, named: &str) -> bool {
    let host = named.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host = host.map_or(named, |(host, _)| host).trim_end_matches('.').to_ascii_lowercase();
    match pattern.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|sub| sub.ends_with('.')),
        None => pattern == "*" || host == pattern,
    }
}

/// Where no rule fits.
fn by_default(call: &JudgedCall<'_>) -> Verdict {
    let (risk, reversibility) = (call.risk(), call.assessment.reversibility);
    let grave = is_grave(risk, reversibility);
    let in_place = call.setting.workspace_mode == WorkspaceMode::InPlace;
    let why = if let Some(why) = call.unjudged() {
        in_part(why)
    } else if grave {
        format!("what is {} is always asked about", gravely(risk, reversibility))
    } else if READING.contains(&call.tool) {
        return Verdict::Allow;
    } else if call.assessment.targets.command.is_some() {
        if in_place {
            "commands that work in the folder itself are asked about".to_owned()
        } else if !call.setting.sandboxed {
            "commands that no sandbox holds back are asked about".to_owned()
        } else if call.setting.network {
            "commands that may use the network are asked about".to_owned()
        } else {
            return Verdict::Allow;
        }
    } else if !call.assessment.targets.hosts.is_empty() {
        "calls that use the network are asked about".to_owned()
    } else if !call.assessment.writes || !in_place {
        return Verdict::Allow;
    } else {
        "changes of the folder itself are asked about".to_owned()
    };
    Verdict::Ask {
        risk,
        reversibility,
        timeout_seconds: limits::APPROVAL_TIMEOUT_SECONDS,
        default_decision: DefaultDecision::Reject,
        policy_reason: why,
    }
}

/// A pattern of paths in the workspace: `*` stays in its folder, `**` does not; without a `/` it fits in any folder.
fn path_glob(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let anchored = anywhere.strip_prefix('/').unwrap_or(&anywhere);
    Ok(GlobBuilder::new(anchored).literal_separator(true).build()?.compile_matcher())
}

#[cfg(test)]
mod tests;
