// The life of a tool call: proposed, perhaps asked about, refused or invoked, running, settled.
// What a kind of tool adds is in `tools.js`. Look at `callOf`.

import { asText, present } from './state.js';

/** @typedef {import('./state.js').State} State */
/** @typedef {import('./state.js').Envelope} Envelope */

const FACTS = ['executor', 'risk_level', 'irreversible', 'args_summary', 'mcp_server', 'mcp_tool', 'allowance_id', 'allowance_scope',
  'allowed_by'];
const OUTCOME = ['summary', 'output', 'error', 'code', 'duration_ms', 'result', 'result_artifact_id', 'output_incomplete', 'mcp_server',
  'mcp_tool'];

/**
 * The item of a call; one that was never proposed begins with what is first heard of it.
 * @param {State} state
 * @param {Envelope} event
 * @param {any} data
 */
export function callOf(state, event, data) {
  const name = `call ${data.tool_call_id ?? `of event ${event.sequence}`}`;
  const item = state.named.get(name);
  if (item) {
    if (!item.name && data.tool_name) item.name = data.tool_name;
    if (!item.tool && data.kind && event.type.startsWith('tool.')) item.tool = data.kind;
    return state.touch(event, item);
  }
  const turn = state.turn(data.turn_index);
  if (turn) turn.calls += 1;
  return state.add(event, 'call', { id: data.tool_call_id ?? null, name: data.tool_name ?? '', tool: null,
    turn: data.turn_index ?? null, state: 'proposed' }, name);
}

/** @param {string} outcome */
const settles = (outcome) => (/** @type {State} */ state, /** @type {Envelope} */ event, /** @type {any} */ data) => {
  Object.assign(callOf(state, event, data), { state: outcome, ended_at: event.occurred_at }, present(data, OUTCOME));
  state.artifact(data.result_artifact_id);
};

/** @type {import('./state.js').Handlers} */
export const calls = {
  'assistant.tool_call_proposed': (state, event, data) => {
    const call = callOf(state, event, data);
    delete call.input_pieces;
    Object.assign(call, { input: data.input }, present(data, ['redacted_paths']));
  },
  'assistant.tool_call_input_delta': (state, event, data) => {
    const call = callOf(state, event, data);
    call.input_pieces = (call.input_pieces ?? '') + asText(data.delta);
  },
  'tool.refused': (state, event, data) => {
    Object.assign(callOf(state, event, data), { state: 'refused', code: data.code, error: asText(data.message), ended_at: event.occurred_at });
  },
  'tool.invoked': (state, event, data) => {
    const call = callOf(state, event, data);
    Object.assign(call, { state: 'invoked', invoked_at: event.occurred_at }, present(data, FACTS));
    if (data.kind) call.tool = data.kind;
  },
  'tool.started': (state, event, data) => {
    const call = callOf(state, event, data);
    Object.assign(call, { state: 'running', started_at: event.occurred_at });
  },
  'tool.completed': settles('completed'),
  'tool.failed': settles('failed'),
  'tool.cancelled': settles('cancelled'),
  'tool.timed_out': settles('timed_out'),
};
