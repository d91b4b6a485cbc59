// What each kind of tool reports of a call: commands and their output, searches, changes of files, requests, the todo list.
// Every report belongs to a call; ids of artifacts may be missing, and then only their bytes are out of reach.

import { callOf } from './calls.js';
import { asList, asText, present } from './state.js';

/** @typedef {import('./state.js').State} State */
/** @typedef {import('./state.js').Envelope} Envelope */

/**
 * The shell part of a call.
 * @param {import('./state.js').Item} call
 */
function shellOf(call) {
  call.tool ??= 'shell';
  return (call.shell ??= { argv: [], cwd: null, output: [] });
}

/**
 * Adds a piece of output to the last one when both are text of the same stream.
 * @param {Array<Record<string, any>>} output
 * @param {any} data
 */
function addOutput(output, data) {
  const last = output.at(-1);
  if (data.encoding) output.push({ stream: data.stream, encoding: data.encoding, data: asText(data.data) });
  else if (last && last.stream === data.stream && last.text !== undefined) last.text += asText(data.data);
  else output.push({ stream: data.stream, text: asText(data.data) });
}

/** How many bytes a piece has. @param {any} data */
function sizeOf(data) {
  if (data.encoding === 'base64') return Math.floor((asText(data.data).replace(/=+$/, '').length * 3) / 4);
  let size = 0;
  for (const character of asText(data.data)) {
    const code = /** @type {number} */ (character.codePointAt(0));
    size += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return size;
}

/** The patches that an event names, one or many. @param {any} data */
const patchesOf = (data) => (data.patch_artifact_ids ? asList(data.patch_artifact_ids) : [data.patch_artifact_id ?? data.artifact_id].filter(Boolean));

/**
 * A change of files, in the state that an event of the given tool says.
 * @param {string} tool
 * @param {string} outcome
 */
const changes = (tool, outcome) => (/** @type {State} */ state, /** @type {Envelope} */ event, /** @type {any} */ data) => {
  const patches = patchesOf(data);
  const paths = data.paths ? asList(data.paths) : [data.path].filter(Boolean);
  patches.forEach((id) => {
    const artifact = /** @type {Record<string, any>} */ (state.artifact(id));
    if (paths.length === 1 || patches.length === paths.length) artifact.path ??= paths[patches.indexOf(id)] ?? paths[0];
  });
  // The call may be one of another run, as when its change is taken back.
  const call = callOf(state, event, data);
  call.tool ??= 'file';
  const all = (call.changes ??= []);
  const same = (/** @type {any} */ change) => change.tool === tool && (patches.length > 0 ? change.patches.join() === patches.join()
    : change.paths.join() === paths.join());
  let change = all.find(same);
  if (!change) {
    change = { tool, patches, paths };
    all.push(change);
  }
  patches.forEach((id) => state.named.set(`patch ${id}`, call));
  Object.assign(change, { state: outcome, sequence: event.sequence }, present(data, ['summary', 'auto_apply', 'reason', 'reverted_by', 'operation']));
};

/** @param {State} state @param {Envelope} event @param {any} data */
function requested(state, event, data) {
  const call = callOf(state, event, data);
  call.tool ??= 'http';
  (call.requests ??= []).push(present(data, ['method', 'url', 'query', 'header_keys']));
}

/** @param {State} state @param {Envelope} event @param {any} data */
function responded(state, event, data) {
  const call = callOf(state, event, data);
  call.tool ??= 'http';
  const all = (call.requests ??= []);
  if (all.length === 0 || all.at(-1).response) all.push({});
  state.artifact(data.body_artifact_id);
  state.artifact(data.extracted_text_artifact_id);
  all.at(-1).response = present(data, ['status', 'error', 'duration_ms', 'body_artifact_id', 'body_truncated', 'extracted_text_artifact_id', 'hits']);
}

/** @type {import('./state.js').Handlers} */
export const tools = {
  'tool.shell.command': (state, event, data) => {
    const call = callOf(state, event, data);
    Object.assign(shellOf(call), { argv: asList(data.argv), cwd: data.cwd ?? null }, present(data, ['env_keys', 'sandbox_layer']));
  },
  'tool.shell.output_chunk': (state, event, data) => {
    const call = callOf(state, event, data);
    const shell = shellOf(call);
    const stream = `${call.key} ${data.stream}`;
    const seen = state.offsets.get(stream) ?? 0;
    if (data.byte_offset > seen) shell.output.push({ stream: data.stream, missing_bytes: data.byte_offset - seen });
    state.offsets.set(stream, Math.max(seen, data.byte_offset ?? seen) + sizeOf(data));
    addOutput(shell.output, data);
  },
  'tool.shell.exited': (state, event, data) => {
    Object.assign(shellOf(callOf(state, event, data)), { exit_code: data.exit_code ?? null, signal: data.signal ?? null },
      present(data, ['signal_number', 'stdout_bytes', 'stderr_bytes', 'truncated', 'left_open']));
  },
  'tool.glob.completed': (state, event, data) => {
    callOf(state, event, data).glob = present(data, ['pattern', 'matches', 'match_count', 'truncated']);
  },
  'tool.grep.completed': (state, event, data) => {
    callOf(state, event, data).grep = present(data, ['pattern', 'matches', 'match_count', 'truncated', 'files_searched']);
  },
  'tool.file_read.completed': (state, event, data) => {
    state.artifact(data.snippet_artifact_id);
    callOf(state, event, data).read = present(data, ['path', 'lines', 'size_bytes', 'snippet_artifact_id', 'truncated']);
  },
  'tool.todo_write.updated': (state, event, data) => {
    const list = asList(data.todos).map(({ content, status }) => ({ content, status }));
    callOf(state, event, data).todos = list;
    state.view.todos = { sequence: event.sequence, list };
  },
  'tool.edit.proposed': changes('edit', 'proposed'),
  'tool.edit.applied': changes('edit', 'applied'),
  'tool.edit.reverted': changes('edit', 'reverted'),
  'tool.file_write.proposed': changes('file_write', 'proposed'),
  'tool.file_write.applied': changes('file_write', 'applied'),
  'tool.file_write.reverted': changes('file_write', 'reverted'),
  'tool.multi_edit.proposed': changes('multi_edit', 'proposed'),
  'tool.multi_edit.applied': changes('multi_edit', 'applied'),
  'tool.multi_edit.reverted': changes('multi_edit', 'reverted'),
  'tool.file.patch': changes('file', 'proposed'),
  'tool.file.applied': changes('file', 'applied'),
  'tool.file.reverted': changes('file', 'reverted'),
  'tool.http.requested': requested,
  'tool.http.response': responded,
  'tool.web_fetch.requested': requested,
  'tool.web_fetch.response': responded,
  'tool.web_search.requested': requested,
  'tool.web_search.response': responded,
};
