//! Decides whether a tool call is allowed, needs approval, or is blocked.
//!
//! Start at [`Policy::judge`]. Rules come from a file in order, and the first matching rule decides. Without one, a
//! cautious default applies. No rule can override this: a grave call (high risk or irreversible) needs approval, and a
//! timeout rejects it. `docs/policy.md` is for people who write rules.
//!
//! Pure. The module must not depend on how approval is requested or how calls run.

mod command;
pub mod limits;
mod read;
mod risk;

use std::collections::BTreeSet;
use std::path::PathBuf;

use globset::{GlobBuilder, GlobMatcher};
use recount_event::family::approval::{DefaultDecision, Reversibility};
use recount_event::family::tool::RiskLevel;

pub use command::quoted;
pub use read::PolicyError;
pub use risk::{Risk, command_risk};

use crate::paths::WorkspacePath;
use crate::policy::command::CommandLine;
use crate::policy::command::programs::{programs_of, tokens};
use crate::policy::risk::{LineRisk, Reach};
use crate::tool::{Approval, Assessment, McpOrigin, Targets};

/// The rules. The default has no rules.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    digest: Option<String>,
}

/// The folder in which a run works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceMode {
    /// In its own copy.
    Clone,
    /// In the original folder.
    InPlace,
}

/// The context of the run whose call is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub workspace_mode: WorkspaceMode,
    /// The workspace's folder; absolute paths in calls are resolved against it.
    pub root: PathBuf,
    /// Whether commands run in a sandbox that passed its test.
    pub sandboxed: bool,
    /// Whether commands may use the network.
    pub network: bool,
}

impl Setting {
    /// Assesses a command where it runs: a copy in a sandbox confines what becomes of files. A tool that assesses its
    /// commands differently is not overruled.
    pub fn assess(&self, mut assessment: Assessment) -> Assessment {
        let Some(line) = assessment.targets.command.as_deref().map(CommandLine::read) else {
            return assessment;
        };
        let general = LineRisk::of(&line, None).worst;
        if (assessment.risk, assessment.reversibility, &*assessment.consequence)
            == (general.0, general.1, general.2)
        {
            let LineRisk { worst, consequences, .. } = LineRisk::of(&line, Some(self));
            (assessment.risk, assessment.reversibility) = (worst.0, worst.1);
            assessment.consequence = consequences.join(" ");
        }
        assessment
    }
}

/// The decision on a call.
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

/// The reason why a call needs approval although no rule requires it.
const UNTRUSTED: &str = "the application enabled this tool with approval required";

impl Verdict {
    /// The verdict for a tool that always needs approval: a blocked call stays blocked, the terms of an `ask` rule
    /// stay, and a timeout rejects the call.
    pub fn with_approval(self, assessment: &Assessment) -> Verdict {
        self.require_approval(assessment, UNTRUSTED)
    }

    fn require_approval(self, assessment: &Assessment, why: &str) -> Verdict {
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

/// One validated rule.
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
    /// Whether its MCP server is only recorded, so that it may be missing in the configuration.
    recorded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Allow,
    Ask,
    Block,
}

/// A tool name, or a prefix of names if it ended in `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ToolPattern {
    Name(String),
    Prefix(String),
}

impl ToolPattern {
    fn matches(&self, tool: &str) -> bool {
        match self {
            ToolPattern::Name(name) => name == tool,
            ToolPattern::Prefix(prefix) => tool.starts_with(prefix.as_str()),
        }
    }

    /// Whether it can match a name with this prefix.
    fn can_match_prefix(&self, beginning: &str) -> bool {
        match self {
            ToolPattern::Name(name) => name.len() > beginning.len() && name.starts_with(beginning),
            ToolPattern::Prefix(prefix) => {
                prefix.starts_with(beginning) || beginning.starts_with(prefix.as_str())
            }
        }
    }
}

/// Tools that only read, keep a list or communicate with people, regardless of the commands in their input.
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
    /// A digest of the rules' text; `None` for the default.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Whether a rule decides this call.
    pub fn has_rule(&self, tool: &str, assessment: &Assessment, setting: &Setting) -> bool {
        let call = JudgedCall::new(tool, assessment, setting);
        self.rules.iter().any(|rule| rule.matches(&call))
    }

    /// Whether a rule blocks reading a file, so that results of the tool must not show it.
    pub fn hides(&self, tool: &str, path: &str, setting: &Setting) -> bool {
        let can_hide = |rule: &Rule| rule.action == Action::Block && rule.path.is_some();
        if !self.rules.iter().any(can_hide) {
            return false;
        }
        let reading = Assessment {
            risk: RiskLevel::Low,
            reversibility: Reversibility::Reversible,
            summary: String::new(),
            action: String::new(),
            consequence: String::new(),
            targets: Targets { paths: vec![path.to_owned()], ..Targets::default() },
            writes: false,
        };
        let is_blocked = |tool| matches!(self.judge(tool, &reading, setting, None), Verdict::Block { .. });
        is_blocked("read_file") || is_blocked(tool)
    }

    /// Judges a call. `origin` is the configured approval of a tool of an MCP server.
    pub fn judge(
        &self,
        tool: &str,
        assessment: &Assessment,
        setting: &Setting,
        origin: Option<&McpOrigin>,
    ) -> Verdict {
        let assessment = &setting.assess(assessment.clone());
        let mut call = JudgedCall::new(tool, assessment, setting);
        call.has_blocked_commands = self.rules.iter().any(|rule| {
            rule.action == Action::Block && rule.command_prefix.is_some() && rule.tool.matches(tool)
        });
        let rule = self.rules.iter().find(|rule| rule.matches(&call));
        let by_rule = || rule.map(|rule| rule.judge(&call));
        let Some(origin) = origin else { return by_rule().unwrap_or_else(|| default_verdict(&call)) };
        match origin.approval {
            Approval::Block => Verdict::Block {
                policy_id: format!("mcp.servers.{}", origin.server),
                reason: format!(
                    "the configuration blocks the tool {} of the MCP server {}",
                    origin.tool, origin.server
                ),
            },
            Approval::RequireApproval => {
                let why = format!("calls of the MCP server {} need approval", origin.server);
                by_rule().unwrap_or(Verdict::Allow).require_approval(assessment, &why)
            }
            Approval::Auto => by_rule().unwrap_or_else(|| {
                let grave = is_grave(call.risk(), assessment.reversibility);
                if grave { default_verdict(&call) } else { Verdict::Allow }
            }),
        }
    }
}

/// A call in the form that rules match.
struct JudgedCall<'a> {
    tool: &'a str,
    assessment: &'a Assessment,
    setting: &'a Setting,
    /// Paths relative to the workspace; paths outside stay unchanged.
    paths: Vec<PathBuf>,
    line: Option<CommandLine>,
    reach: Option<Reach>,
    /// Whether a rule blocks commands of this tool.
    has_blocked_commands: bool,
}

impl<'a> JudgedCall<'a> {
    fn new(tool: &'a str, assessment: &'a Assessment, setting: &'a Setting) -> Self {
        let meant = |path: &String| {
            WorkspacePath::parse(&setting.root, path)
                .map_or_else(|_| PathBuf::from(path), |place| place.as_path().to_owned())
        };
        let line = assessment.targets.command.as_deref().map(CommandLine::read);
        JudgedCall {
            tool,
            assessment,
            setting,
            paths: assessment.targets.paths.iter().map(meant).collect(),
            reach: line.as_ref().map(|line| LineRisk::of(line, Some(setting)).reach),
            line,
            has_blocked_commands: false,
        }
    }
}

impl JudgedCall<'_> {
    /// Why the call cannot be judged completely, if so.
    fn unjudged(&self) -> Option<&'static str> {
        let line = self.line.as_ref()?;
        let has_code = line.has_code && self.has_blocked_commands;
        line.unjudged.or(has_code.then_some("it gives code to an interpreter, and a rule blocks commands"))
    }

    /// A call that cannot be judged completely has high risk, regardless of the tool's assessment.
    fn risk(&self) -> RiskLevel {
        if self.unjudged().is_some() { RiskLevel::High } else { self.assessment.risk }
    }
}

fn in_part(why: &str) -> String {
    format!("commands that cannot be judged completely always need approval ({why})")
}

impl Rule {
    /// A rule that allows must match all parts of a call; for a rule that asks or blocks, one part is enough.
    fn matches(&self, call: &JudgedCall<'_>) -> bool {
        let all = self.action == Action::Allow;
        self.tool.matches(call.tool)
            && self.risk_at_least.is_none_or(|least| call.risk() >= least)
            && self.path.as_ref().is_none_or(|glob| all_or_any(all, &call.paths, |path| glob.is_match(path)))
            && self.host.as_ref().is_none_or(|host| {
                all_or_any(all, &call.assessment.targets.hosts, |named| host_matches(host, named))
            })
            && self.command_prefix.as_ref().is_none_or(|prefix| {
                call.line.as_ref().is_some_and(|line| {
                    if !all {
                        let text = call.assessment.targets.command.as_deref().unwrap_or_default();
                        return all_or_any(false, &line.commands, |command| {
                            may_have_prefix(&command.words, prefix)
                        }) || self.action == Action::Block && names_command(line, text, prefix);
                    }
                    let shown = line.unjudged.is_none() && !line.twisted && line.redirects.is_empty();
                    let matches = |command: &command::Command| {
                        has_prefix(&command.words, prefix) && !command.raised && command.sets.is_empty()
                    };
                    shown && all_or_any(true, &line.commands, matches)
                })
            })
    }

    fn judge(&self, call: &JudgedCall<'_>) -> Verdict {
        // A rule may raise the risk of a call, never lower it.
        let risk = self.risk.map_or(call.risk(), |risk| risk.max(call.risk()));
        let reversibility = self
            .reversibility
            .map_or(call.assessment.reversibility, |level| level.max(call.assessment.reversibility));
        let grave = is_grave(risk, reversibility);
        let reason = self.reason.clone();
        match self.action {
            Action::Block => Verdict::Block {
                policy_id: self.id.clone(),
                reason: reason.unwrap_or_else(|| format!("the policy rule `{}` blocks this call", self.id)),
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
                        Some(why) => format!("the policy rule `{}` allows it, but {}", self.id, in_part(why)),
                        None => format!(
                            "the policy rule `{}` allows it, but {} always need approval",
                            self.id,
                            gravely(risk, reversibility)
                        ),
                    },
                    (_, Some(reason)) => reason,
                    (_, None) => format!("the policy rule `{}` requires approval", self.id),
                },
            },
        }
    }
}

/// Whether a mistake could not be undone.
pub(crate) fn is_grave(risk: RiskLevel, reversibility: Reversibility) -> bool {
    risk == RiskLevel::High || reversibility == Reversibility::Irreversible
}

fn gravely(risk: RiskLevel, reversibility: Reversibility) -> &'static str {
    match (risk, reversibility) {
        (RiskLevel::High, Reversibility::Irreversible) => "high-risk calls that cannot be undone",
        (RiskLevel::High, _) => "high-risk calls",
        _ => "calls that cannot be undone",
    }
}

/// Whether the list is not empty, and all of its items, or one, match.
fn all_or_any<T>(all: bool, items: &[T], matches_item: impl Fn(&T) -> bool) -> bool {
    !items.is_empty() && if all { items.iter().all(matches_item) } else { items.iter().any(matches_item) }
}

/// Compares word by word: `git push` is a prefix of `git push origin` and not of `git pushy`. An installed program
/// matches by its base name.
fn has_prefix(words: &[command::Word], prefix: &[String]) -> bool {
    words.len() >= prefix.len()
        && words.iter().zip(prefix).enumerate().all(|(at, (word, expected))| {
            !word.is_dynamic()
                && (**word == **expected
                    || (at == 0
                        && !expected.contains('/')
                        && command::is_installed(word)
                        && command::base(word) == expected))
        })
}

/// Whether the prefix may match, where a dynamic word can become any word, several words or none.
fn may_have_prefix(words: &[command::Word], prefix: &[String]) -> bool {
    for (at, expected) in prefix.iter().enumerate() {
        let Some(word) = words.get(at) else { return false };
        if word.is_dynamic() {
            // A command with an unknown name needs approval in any case.
            return at > 0;
        }
        let named = at == 0 && !expected.contains('/') && command::base(word) == expected;
        if **word != **expected && !named {
            return false;
        }
    }
    true
}

/// Whether the words of a line contain a command anywhere, for example in an argument of another program. Options may
/// be between its words. Of a line that is not read completely, the whole text is searched.
fn names_command(line: &CommandLine, text: &str, prefix: &[String]) -> bool {
    let contains = |words: &[&str]| (0..words.len()).any(|at| names_command_at(&words[at..], prefix));
    let in_words = |command: &command::Command| {
        let texts = command.sets.iter().map(String::as_str).chain(command.words.iter().map(|word| &**word));
        contains(&texts.flat_map(tokens).collect::<Vec<_>>())
    };
    line.commands.iter().any(in_words)
        || line.unjudged.is_some() && contains(&tokens(text).collect::<Vec<_>>())
}

fn names_command_at(words: &[&str], prefix: &[String]) -> bool {
    let [program, rest @ ..] = prefix else { return false };
    let is_program = |name: &str| name == program || !program.contains('/') && command::base(name) == program;
    if !programs_of(words[0]).any(is_program) {
        return false;
    }
    let mut ends = BTreeSet::from([1]);
    for expected in rest {
        let mut next = BTreeSet::new();
        for start in ends {
            for (skipped, word) in words[start..].iter().enumerate() {
                if skipped > limits::NAMED_WORDS_MAX {
                    // With so many options it may be the command.
                    return true;
                }
                let at = start + skipped;
                if word == expected {
                    next.insert(at + 1);
                }
                // An option, and perhaps its value.
                if !(word.starts_with('-') || at > 1 && words[at - 1].starts_with('-')) {
                    break;
                }
            }
        }
        ends = next;
    }
    !ends.is_empty()
}

/// Matches a host, or with `*.` its subdomains.
fn host_matches(pattern: &str, named: &str) -> bool {
    let host = named.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host = host.map_or(named, |(host, _)| host).trim_end_matches('.').to_ascii_lowercase();
    match pattern.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|sub| sub.ends_with('.')),
        None => pattern == "*" || host == pattern,
    }
}

/// The verdict if no rule matches.
fn default_verdict(call: &JudgedCall<'_>) -> Verdict {
    let (risk, reversibility) = (call.risk(), call.assessment.reversibility);
    let grave = is_grave(risk, reversibility);
    let in_place = call.setting.workspace_mode == WorkspaceMode::InPlace;
    let why = if let Some(why) = call.unjudged() {
        in_part(why)
    } else if grave {
        format!("{} always need approval", gravely(risk, reversibility))
    } else if READING.contains(&call.tool) {
        return Verdict::Allow;
    } else if let Some(reach) = call.reach {
        if !call.setting.sandboxed {
            "commands that run without a sandbox need approval".to_owned()
        } else if reach == Reach::Reading {
            return Verdict::Allow;
        } else if in_place {
            "commands that may change your own folder need approval".to_owned()
        } else if call.setting.network && reach > Reach::Folder {
            "programs with network access need approval".to_owned()
        } else {
            return Verdict::Allow;
        }
    } else if !call.assessment.targets.hosts.is_empty() {
        "calls that use the network need approval".to_owned()
    } else if !call.assessment.writes || !in_place {
        return Verdict::Allow;
    } else {
        "changes in your own folder need approval".to_owned()
    };
    Verdict::Ask {
        risk,
        reversibility,
        timeout_seconds: limits::APPROVAL_TIMEOUT_SECONDS,
        default_decision: DefaultDecision::Reject,
        policy_reason: why,
    }
}

/// A path pattern relative to the workspace: `*` matches within a folder, `**` across folders. A pattern without `/`
/// matches in any folder.
fn path_glob(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let anchored = anywhere.strip_prefix('/').unwrap_or(&anywhere);
    Ok(GlobBuilder::new(anchored).literal_separator(true).build()?.compile_matcher())
}

#[cfg(test)]
mod tests;
