// What a run adds up to, and the few ways in which events change it. Pure: no DOM, no clock, no network.
// Knows no type of event; those are in the files beside it. Look at `State` and `View`.

/** @typedef {import('../../types/events.js').Envelope} Envelope */
/** @typedef {import('../../types/events.js').EventData} EventData */
/** @typedef {{ [T in keyof EventData]?: (state: State, event: Envelope, data: EventData[T]) => void }} Handlers */

/**
 * A thing of the transcript. `kind` says which fields it has; `sequence` is the event that made it, `last` the
 * latest one that changed it, `key` stays the same for as long as the run.
 * @typedef {{ kind: string, key: string, sequence: number, last: number, at: string, [field: string]: any }} Item
 */

/**
 * One call of the model; a turn that is tried again is another one with the same index.
 * @typedef {{ index: number, attempt: number, state: 'open' | 'completed' | 'failed', sequence: number, last: number,
 *   started_at: string, ended_at: string | null, model: string | null, provider: string | null,
 *   stop_reason: string | null, will_retry: boolean, failure: { code: string, message: string } | null,
 *   input_tokens: number | null, output_tokens: number | null, cached_input_tokens: number | null,
 *   cost_micros_usd: number | null, duration_ms: number | null, calls: number }} Turn
 */

/**
 * @typedef {{
 *   run: Record<string, any>, status: string | null, waits_for: Array<{ kind: string, id: string }>,
 *   ending: Record<string, any> | null, first: number | null, last: number, events: number,
 *   lineage: Record<string, any>, items: Item[], turns: Turn[], pending: Array<{ prompt: string, id: string }>,
 *   todos: { sequence: number, list: Array<{ content: string, status: string }> } | null,
 *   cost: Record<string, any>, artifacts: Array<Record<string, any>>, checkpoints: Array<Record<string, any>>,
 *   gaps: Array<Record<string, any>> }} View
 */

/** @returns {View} */
export function emptyView() {
  return {
    run: {},
    status: null,
    waits_for: [],
    ending: null,
    first: null,
    last: -1,
    events: 0,
    lineage: { prior_run_id: null, from_run_id: null, from_sequence: null, children: [] },
    items: [],
    turns: [],
    pending: [],
    todos: null,
    cost: { micros_usd: 0, input_tokens: 0, output_tokens: 0 },
    artifacts: [],
    checkpoints: [],
    gaps: [],
  };
}

export class State {
  constructor() {
    this.view = emptyView();
    /** Items by what events call them; data of events never becomes the name of a property. @type {Map<string, Item>} */
    this.named = new Map();
    /** @type {Map<string, Record<string, any>>} */
    this.artifactsById = new Map();
    /** Since the last `takeChanges`. @type {Set<Item>} */
    this.changed = new Set();
    /** The texts of the open turn, which a retry makes obsolete. @type {Item[]} */
    this.said = [];
    /** How much of each output stream has been seen. @type {Map<string, number>} */
    this.offsets = new Map();
    /** The item that an event made or changed. @type {Map<number, Item>} */
    this.owners = new Map();
  }

  /**
   * Adds an item that the event makes.
   * @param {Envelope} event
   * @param {string} kind
   * @param {Record<string, any>} fields
   * @param {string} [name] by which later events find it
   */
  add(event, kind, fields, name) {
    const item = /** @type {Item} */ ({ kind, key: `${kind}-${event.sequence}`, sequence: event.sequence, last: event.sequence,
      at: event.occurred_at, ...fields });
    this.view.items.push(item);
    if (name !== undefined) this.named.set(name, item);
    this.owners.set(event.sequence, item);
    this.changed.add(item);
    return item;
  }

  /**
   * Notes that the event changed an item.
   * @param {Envelope} event
   * @param {Item} item
   */
  touch(event, item) {
    item.last = Math.max(item.last, event.sequence);
    this.owners.set(event.sequence, item);
    this.changed.add(item);
    return item;
  }

  /** The items that were added or changed since the last time. */
  takeChanges() {
    const changed = this.changed;
    this.changed = new Set();
    return changed;
  }

  /** The latest attempt at a turn, if it is known. @param {number | null | undefined} index */
  turn(index) {
    return index === null || index === undefined ? undefined : this.view.turns.findLast((turn) => turn.index === index);
  }

  /**
   * An artifact, known from now on.
   * @param {string | null | undefined} id
   */
  artifact(id) {
    if (!id) return null;
    let found = this.artifactsById.get(id);
    if (!found) {
      found = { id };
      this.artifactsById.set(id, found);
      this.view.artifacts.push(found);
    }
    return found;
  }
}

/**
 * The fields of an object that have a value, in the order asked for.
 * @param {object} data
 * @param {string[]} names
 */
export function present(data, names) {
  const all = /** @type {Record<string, any>} */ (data);
  return Object.fromEntries(names.filter((name) => Object.hasOwn(all, name) && all[name] !== null).map((name) => [name, all[name]]));
}

/** A value as text; what a later release sends in another form is shown as JSON. @param {unknown} value */
export function asText(value) {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

/** The list that a field should be. @template T @param {T[] | null | undefined} value @returns {T[]} */
export const asList = (value) => (Array.isArray(value) ? value : []);
