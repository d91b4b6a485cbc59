//! Limits of what is recorded of another agent, and what happens at each.

/// Bytes of text in one block. A longer text continues in a new block. Six bytes a character, as the longest escapes
/// have, still fit into one event.
pub const TEXT_BLOCK_BYTES_MAX: usize = 128 << 10;

/// Bytes of a message of a person; the rest is cut, and `ext.recount.truncated` says so.
pub const USER_TEXT_BYTES_MAX: usize = 128 << 10;

/// Bytes of the input or output of a call, as JSON. Beyond it the beginning is kept as text, marked `truncated`.
pub const VALUE_BYTES_MAX: usize = 256 << 10;

/// Bytes of a raw body in an extension event, as JSON. Beyond it the beginning is kept as text, marked `truncated`.
pub const RAW_BYTES_MAX: usize = 64 << 10;

/// Levels of nesting that a kept value may have; a deeper one is kept as text. The log takes 64, some of them ours.
pub const DEPTH_MAX: usize = 48;

/// Bytes of the title of an imported run; the rest of the first line of its request is cut.
pub const TITLE_BYTES_MAX: usize = 80;

/// Requests of an MCP client that are remembered until they are answered. Of more, the answers are kept alone.
pub const MCP_REQUESTS_OPEN_MAX: usize = 1_000;
/// Tools of an MCP server that are remembered as destructive. If there are as many, all its tools count as destructive.
pub const MCP_TOOLS_DESTRUCTIVE_MAX: usize = 1_000;

/// Parts of a result of MCP with binary data that become artifacts; the others are only in the result.
pub const MCP_RESULT_DATA_MAX: usize = 16;

/// Bytes of names: of tools, kinds, codes; the rest is cut.
pub const NAME_BYTES_MAX: usize = 256;

/// Bytes of a sentence: a summary, an error, a reason; the rest is cut.
pub const SENTENCE_BYTES_MAX: usize = 4 << 10;

/// Bytes of the preview of a permission; the rest is cut, and `preview_size_bytes` has the size.
pub const PREVIEW_BYTES_MAX: usize = 64 << 10;

/// Bytes of an identifier of the other agent that is kept as it is; the rest is cut.
pub const ORIGINAL_ID_BYTES_MAX: usize = 512;

/// Pieces of text that wait for an earlier one. One more, and the earlier one counts as lost, which a gap event says.
pub const PIECES_HELD_MAX: usize = 64;

/// Bytes of the pieces that wait; likewise.
pub const HELD_BYTES_MAX: usize = 256 << 10;

/// Open text blocks; for one more the oldest is completed.
pub const BLOCKS_OPEN_MAX: usize = 8;

/// Blocks of a turn; for one more the turn is completed and another is started.
pub const BLOCKS_PER_TURN_MAX: u64 = 4_000;

/// Turns of a run; text and calls beyond are kept as extension events.
pub const TURNS_MAX: u64 = 99_000;

/// Open calls of a run; one more is kept as an extension event.
pub const CALLS_OPEN_MAX: usize = 200;

/// Calls of a run; one more is kept as an extension event.
pub const CALLS_MAX: u64 = 190_000;

/// Open permissions of a run; one more is kept as an extension event.
pub const PROMPTS_OPEN_MAX: usize = 32;

/// Permissions of a run; one more is kept as an extension event.
pub const PROMPTS_MAX: u64 = 90_000;

/// Names of text blocks and keys of bodies that are remembered, so that a repeated one adds nothing. Beyond it the
/// memory starts empty.
pub const REMEMBERED_MAX: usize = 65_536;

/// Seconds that a permission may be open; a longer time is shortened to it.
pub const PROMPT_SECONDS_MAX: u64 = 86_400;

/// Items of a todo list; the rest is cut, and `ext.recount.truncated` says so.
pub const TODOS_MAX: usize = 500;

/// Bytes of one item; the rest is cut.
pub const TODO_BYTES_MAX: usize = 1 << 10;

/// Lines of both versions of a file that are compared; longer ones are recorded as removed and added whole.
pub const PATCH_LINES_COMPARED_MAX: usize = 4_000;

/// Unchanged lines around a change in a patch.
pub const PATCH_CONTEXT_LINES: usize = 3;

/// Calls of one ACP prompt whose messages are put together; the oldest is forgotten, and what follows of it counts as a
/// new one.
pub const ACP_CALLS_REMEMBERED_MAX: usize = 4_096;

/// Open requests of an ACP agent in one prompt; the outcome of one more is not recorded with it.
pub const ACP_REQUESTS_OPEN_MAX: usize = 1_024;

/// Fields in one request of OTLP, in either encoding; with more it is refused. A field takes up to 320 bytes in memory.
pub const OTLP_VALUES_MAX: usize = 500_000;

/// Bytes of an attribute of a span that is kept; a longer one is left out, and `left_out` names it.
pub const SPAN_ATTRIBUTE_BYTES_MAX: usize = 4 << 10;

/// Bytes of the attributes of a span that are kept; the others are left out, and `left_out` names them. With the texts of a span
/// they fit into a raw body however they are escaped.
pub const SPAN_ATTRIBUTES_BYTES_MAX: usize = 12 << 10;

/// Bytes of the input and of the output of a span; the rest is cut, and `left_out` names it.
pub const SPAN_TEXT_BYTES_MAX: usize = 8 << 10;

/// Bytes of these as JSON; more are cut to a sixth of [`SPAN_TEXT_BYTES_MAX`], which no escapes lengthen beyond this.
pub const SPAN_TEXT_JSON_BYTES_MAX: usize = 16 << 10;

/// Bytes of the error message of a span; the rest is cut.
pub const SPAN_MESSAGE_BYTES_MAX: usize = 1 << 10;

/// Names of attributes that are left out of a span; more are not named.
pub const SPAN_LEFT_OUT_MAX: usize = 32;

/// Bytes of such a name; the rest is cut.
pub const SPAN_LEFT_OUT_BYTES_MAX: usize = 64;
