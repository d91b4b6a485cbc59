// Turns and what is said in them: the model's texts and thoughts, its answer, and what people send.
// Pieces of a block are one item; the complete text, when it comes, is what counts.

import { asList, asText, present } from './state.js';

/** @typedef {import('./state.js').State} State */
/** @typedef {import('./state.js').Envelope} Envelope */

/** @param {'text' | 'thinking'} kind @param {any} data @param {State} state */
const nameOf = (kind, data, state) => `${kind} ${data.turn_index} ${data.block_index} ${state.turn(data.turn_index)?.attempt ?? 0}`;

/**
 * The item of a block, made when it is new.
 * @param {State} state
 * @param {Envelope} event
 * @param {'text' | 'thinking'} kind
 * @param {any} data
 */
function block(state, event, kind, data) {
  const name = nameOf(kind, data, state);
  const known = state.named.get(name);
  if (known) return state.touch(event, known);
  const item = state.add(event, kind, { turn: data.turn_index ?? null, text: '', complete: false, aborted: false, superseded: false,
    answer: false }, name);
  state.said.push(item);
  return item;
}

/** @param {'text' | 'thinking'} kind */
const piece = (kind) => (/** @type {State} */ state, /** @type {Envelope} */ event, /** @type {any} */ data) => {
  block(state, event, kind, data).text += asText(data.delta);
};

/** @param {'text' | 'thinking'} kind */
const complete = (kind) => (/** @type {State} */ state, /** @type {Envelope} */ event, /** @type {any} */ data) => {
  Object.assign(block(state, event, kind, data), { text: asText(data.text), complete: true, aborted: data.aborted === true });
};

/**
 * Opens a turn: another attempt, when there was one with its index.
 * @param {State} state
 * @param {Envelope} event
 * @param {any} data
 */
function begin(state, event, data) {
  const attempt = (state.turn(data.turn_index)?.attempt ?? 0) + 1;
  /** @type {import('./state.js').Turn} */
  const turn = { index: data.turn_index, attempt, state: 'open', sequence: event.sequence, last: event.sequence,
    started_at: event.occurred_at, ended_at: null, model: data.model ?? null, provider: data.provider ?? null, stop_reason: null,
    will_retry: false, failure: null, input_tokens: null, output_tokens: null, cached_input_tokens: null, cost_micros_usd: null,
    duration_ms: null, calls: 0 };
  state.said = [];
  state.view.turns.push(turn);
  return turn;
}

/**
 * The heading of a turn shows its figures.
 * @param {State} state
 * @param {Envelope} event
 * @param {import('./state.js').Turn} turn
 */
function retell(state, event, turn) {
  const heading = state.named.get(`turn ${turn.index} ${turn.attempt}`);
  if (heading) state.touch(event, heading);
}

const FIGURES = ['stop_reason', 'input_tokens', 'output_tokens', 'cached_input_tokens', 'cost_micros_usd', 'duration_ms'];

/** @type {import('./state.js').Handlers} */
export const turns = {
  'turn.started': (state, event, data) => {
    const { attempt } = begin(state, event, data);
    state.add(event, 'turn', { turn: data.turn_index, attempt, model: data.model ?? null }, `turn ${data.turn_index} ${attempt}`);
    if (data.instructions || data.instructions_incomplete) {
      state.add(event, 'instructions', { list: asList(data.instructions), incomplete: data.instructions_incomplete === true });
    }
  },
  'turn.completed': (state, event, data) => {
    const turn = state.turn(data.turn_index) ?? begin(state, event, data);
    Object.assign(turn, { state: 'completed', last: event.sequence, ended_at: event.occurred_at }, present(data, FIGURES));
    retell(state, event, turn);
  },
  'turn.failed': (state, event, data) => {
    const failure = { code: data.code, message: data.message };
    const turn = state.turn(data.turn_index) ?? begin(state, event, data);
    Object.assign(turn, { state: 'failed', last: event.sequence, ended_at: event.occurred_at, failure, will_retry: data.will_retry === true });
    retell(state, event, turn);
    // What a failed attempt said is no part of the answer.
    if (data.will_retry) state.said.forEach((item) => Object.assign(state.touch(event, item), { superseded: true }));
    state.add(event, 'note', { type: event.type, data });
  },
  'assistant.text_delta': piece('text'),
  'assistant.text_complete': complete('text'),
  'assistant.thinking_delta': piece('thinking'),
  'assistant.thinking_complete': complete('thinking'),
  'assistant.image_block': (state, event, data) => {
    state.artifact(data.artifact_id);
    state.add(event, 'image', { turn: data.turn_index, ...present(data, ['artifact_id', 'mime', 'summary']) });
  },
  'assistant.final_answer': (state, event, data) => {
    // Usually the last text, said again.
    const text = state.said.findLast((item) => item.kind === 'text' && !item.superseded);
    if (text && text.text.trim() === asText(data.summary).trim()) state.touch(event, text).answer = true;
    else state.add(event, 'answer', { turn: data.turn_index, text: asText(data.summary) });
  },
  'user.message': (state, event, data) => {
    const images = asList(data.blocks).filter((block) => block && typeof block === 'object' && /** @type {any} */ (block).artifact_id)
      .map((block) => present(/** @type {object} */ (block), ['artifact_id', 'mime', 'name']));
    const request = state.view.items.findLast(({ kind }) => kind === 'request');
    // The request of a session's run is the message itself.
    if (request && request.text === data.text && images.length === 0) state.touch(event, request).repeated = true;
    state.add(event, 'user', { text: asText(data.text), attachments: images, ...present(data, ['message_id']) }, 'user');
  },
  'user.attachment': (state, event, data) => {
    state.artifact(data.artifact_id);
    const attachment = present(data, ['artifact_id', 'kind', 'mime']);
    const message = state.named.get('user');
    if (message && state.view.items.at(-1) === message) state.touch(event, message).attachments.push(attachment);
    else state.add(event, 'user', { text: '', attachments: [attachment] });
  },
};
