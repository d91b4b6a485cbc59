// What people were asked and what became of it: approvals, questions, handoffs. A prompt is one item, from the
// request to the answer or the timeout, and it is pending in between.

import { asText } from './state.js';

/** @typedef {import('./state.js').State} State */
/** @typedef {import('./state.js').Envelope} Envelope */

/** @type {Record<string, string>} */
const ID_FIELDS = { approval: 'approval_id', clarification: 'clarification_id', handoff: 'handoff_id' };

/**
 * The item of a prompt; one whose request was not heard begins with its outcome.
 * @param {State} state
 * @param {Envelope} event
 * @param {string} prompt
 * @param {any} data
 */
function promptOf(state, event, prompt, data) {
  const id = asText(data[ID_FIELDS[prompt]]);
  const name = `${prompt} ${id}`;
  const known = state.named.get(name);
  if (known) return state.touch(event, known);
  return state.add(event, 'prompt', { prompt, id, call: data.tool_call_id ?? null, state: 'pending', asked: null, answer: null,
    expires_at: null }, name);
}

/** @param {string} prompt */
const requested = (prompt) => (/** @type {State} */ state, /** @type {Envelope} */ event, /** @type {any} */ data) => {
  const item = promptOf(state, event, prompt, data);
  Object.assign(item, { asked: data, expires_at: data.expires_at ?? null });
  state.view.pending.push({ prompt, id: item.id });
  state.artifact(data.preview_artifact_id);
  const call = state.named.get(`call ${data.tool_call_id}`);
  if (call && prompt === 'approval') state.touch(event, call).asked = item.id;
};

/** @param {string} prompt */
const extended = (prompt) => (/** @type {State} */ state, /** @type {Envelope} */ event, /** @type {any} */ data) => {
  promptOf(state, event, prompt, data).expires_at = data.expires_at ?? null;
};

/**
 * @param {string} prompt
 * @param {string | null} outcome `null`: the decision that the event says
 */
const settled = (prompt, outcome) => (/** @type {State} */ state, /** @type {Envelope} */ event, /** @type {any} */ data) => {
  const item = promptOf(state, event, prompt, data);
  Object.assign(item, { state: outcome ?? data.decision, answer: data, answered_at: event.occurred_at });
  state.view.pending = state.view.pending.filter((one) => one.prompt !== prompt || one.id !== item.id);
};

/** @type {import('./state.js').Handlers} */
export const prompts = {
  'approval.requested': requested('approval'),
  'approval.extended': extended('approval'),
  'approval.resolved': settled('approval', null),
  'approval.timed_out': settled('approval', 'timed_out'),
  'clarification.requested': requested('clarification'),
  'clarification.extended': extended('clarification'),
  'clarification.answered': settled('clarification', 'answered'),
  'clarification.timed_out': settled('clarification', 'timed_out'),
  'handoff.requested': requested('handoff'),
  'handoff.extended': extended('handoff'),
  'handoff.acknowledged': settled('handoff', 'acknowledged'),
  'handoff.rejected': settled('handoff', 'rejected'),
  'handoff.timed_out': settled('handoff', 'timed_out'),
};
