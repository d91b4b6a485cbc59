//! Names of attributes. Those of `gen_ai.*` follow the GenAI semantic conventions in the version of [`SCHEMA_URL`].

/// The version of the GenAI semantic conventions, 0.1.0. All of it has the status "development".
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai/0.1.0";

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const AGENT: &str = "gen_ai.agent.name";
pub(super) const AGENT_VERSION: &str = "gen_ai.agent.version";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const MODEL: &str = "gen_ai.request.model";
pub(super) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(super) const INSTRUCTIONS: &str = "gen_ai.system_instructions";
pub(super) const INPUT: &str = "gen_ai.input.messages";
pub(super) const OUTPUT: &str = "gen_ai.output.messages";
pub(super) const TOOL: &str = "gen_ai.tool.name";
pub(super) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(super) const CALL: &str = "gen_ai.tool.call.id";
pub(super) const ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(super) const RESULT: &str = "gen_ai.tool.call.result";

pub(super) const TOKEN_TYPE: &str = "gen_ai.token.type";

/// Not part of the conventions, but read by Langfuse and others: US dollars.
pub(super) const COST: &str = "gen_ai.usage.cost";

/// Known to tools that recognize repeated records.
pub(super) const RECORD_ID: &str = "log.record.uid";

pub(super) const SESSION: &str = "session.id";
pub(super) const USER: &str = "user.id";
pub(super) const ERROR: &str = "error.type";
pub(super) const ERROR_MESSAGE: &str = "error.message";
pub(super) const HTTP_STATUS: &str = "http.response.status_code";
pub(super) const EXIT_CODE: &str = "process.exit.code";

pub(super) const RUN: &str = "recount.run.id";
pub(super) const RUN_KIND: &str = "recount.run.kind";
pub(super) const RUN_DRIVER: &str = "recount.run.driver";
pub(super) const RUN_TITLE: &str = "recount.run.title";
pub(super) const RUN_TASK: &str = "recount.task.id";
pub(super) const RUN_PRIOR: &str = "recount.run.prior_id";
pub(super) const RUN_STATUS: &str = "recount.run.status";
pub(super) const RUN_TURNS: &str = "recount.run.turns";
pub(super) const RUN_INPUT_TOKENS: &str = "recount.run.input_tokens";
pub(super) const RUN_OUTPUT_TOKENS: &str = "recount.run.output_tokens";
pub(super) const RUN_COST: &str = "recount.run.cost_usd";
pub(super) const RUN_INCOMPLETE: &str = "recount.run.incomplete";
pub(super) const CANCELLED_BY: &str = "recount.run.cancelled_by";
pub(super) const SOURCE: &str = "recount.source";
pub(super) const SOURCE_VERSION: &str = "recount.source.version";
pub(super) const TURN: &str = "recount.turn.index";
pub(super) const ATTEMPT: &str = "recount.turn.attempt";
pub(super) const TOOL_KIND: &str = "recount.tool.kind";
pub(super) const TOOL_EXECUTOR: &str = "recount.tool.executor";
pub(super) const TOOL_OUTCOME: &str = "recount.tool.outcome";
pub(super) const MCP_SERVER: &str = "recount.tool.mcp_server";
pub(super) const CHILD_RUN: &str = "recount.child_run.id";
pub(super) const EVENT_ID: &str = "recount.event.id";
pub(super) const SEQUENCE: &str = "recount.sequence";
pub(super) const TASK_INPUT_TOKENS: &str = "recount.task.input_tokens";
pub(super) const TASK_OUTPUT_TOKENS: &str = "recount.task.output_tokens";
pub(super) const TASK_COST: &str = "recount.task.cost_usd";
pub(super) const CONTENTS_CUT: &str = "recount.contents_cut";

/// Approvals are a proposal only (semantic-conventions-genai#95), so these names are our own.
pub(super) const APPROVAL: &str = "agent.approval";
pub(super) const APPROVAL_KIND: &str = "agent.approval.kind";
pub(super) const APPROVAL_ID: &str = "agent.approval.id";
pub(super) const APPROVAL_OUTCOME: &str = "agent.approval.outcome";
pub(super) const APPROVAL_BY: &str = "agent.approval.by";
pub(super) const APPROVAL_RISK: &str = "agent.approval.risk_level";
pub(super) const APPROVAL_TOOL: &str = "agent.approval.tool.name";
pub(super) const APPROVAL_CALL: &str = "agent.approval.tool.call.id";
pub(super) const APPROVAL_QUESTION: &str = "agent.approval.question";
pub(super) const APPROVAL_ANSWER: &str = "agent.approval.answer";
