// What is said beside the transcript: cost, budget, policy, errors of providers, workspaces, gaps, contexts.
// These stay as the event has them; the words for them are chosen where they are shown.

import { asList, present } from './state.js';

/** @typedef {import('./state.js').State} State */
/** @typedef {import('./state.js').Envelope} Envelope */

/** @param {State} state @param {Envelope} event @param {object} data */
function note(state, event, data) {
  state.add(event, 'note', { type: event.type, data });
}

const BUDGET = ['task_budget_micros_usd', 'task_budget_tokens', 'task_budget_remaining_micros_usd', 'task_budget_remaining_tokens'];

/** @type {import('./state.js').Handlers} */
export const notes = {
  'cost.tick': (state, event, data) => {
    const { cost } = state.view;
    Object.assign(cost, { micros_usd: data.cumulative_cost_micros_usd, input_tokens: data.cumulative_input_tokens,
      output_tokens: data.cumulative_output_tokens }, present(data, BUDGET));
  },
  'cost.budget_warning': (state, event, data) => {
    state.view.cost.warned_pct = data.threshold_pct;
    note(state, event, data);
  },
  'cost.budget_exceeded': (state, event, data) => {
    state.view.cost.exceeded = data.exhausted ?? 'cost_micros_usd';
    note(state, event, data);
  },
  'policy.tool_blocked': note,
  'policy.model_rewrote': note,
  'error.tool_unavailable': note,
  'error.model_capability_missing': note,
  'error.upstream': note,
  'workspace.provisioned': (state, event, data) => {
    state.view.run.workspace = present(data, ['path', 'mode', 'files', 'bytes', 'source']);
    note(state, event, data);
  },
  'workspace.failed': note,
  'gap.events_pruned': (state, event, data) => {
    state.view.gaps.push({ type: event.type, first: data.first_pruned_sequence, last: data.last_pruned_sequence });
    note(state, event, data);
  },
  'gap.events_damaged': (state, event, data) => {
    state.view.gaps.push({ type: event.type, first: data.first_damaged_sequence, last: data.last_damaged_sequence ?? null });
    note(state, event, data);
  },
  'gap.run_disconnected': (state, event, data) => {
    state.view.gaps.push({ type: event.type, since: data.since_at, until: event.occurred_at, sequence: event.sequence });
    note(state, event, data);
  },
  'gap.workspace_removed': (state, event, data) => {
    state.view.run.workspace_removed_at = data.removed_at;
    note(state, event, data);
  },
  'context.compacted': note,
  'context.trimmed': (state, event, data) => note(state, event, { ...data, results: asList(data.results) }),
};
