// Folds the events of a run into one view of it: what the console shows, and nothing else is needed for it.
// An event that was heard before changes nothing, so a reader may hear events again. Look at `Fold`.

import { artifacts } from './artifacts.js';
import { calls } from './calls.js';
import { notes } from './notes.js';
import { prompts } from './prompts.js';
import { runs } from './runs.js';
import { State } from './state.js';
import { tools } from './tools.js';
import { turns } from './turns.js';

/** @typedef {import('./state.js').Envelope} Envelope */

/** @type {Map<string, (state: State, event: Envelope, data: any) => void>} */
const HANDLERS = new Map(Object.entries({ ...runs, ...turns, ...calls, ...tools, ...prompts, ...artifacts, ...notes }));

/** The types that have a meaning here; all others are kept as they are. */
export const KNOWN_TYPES = [...HANDLERS.keys()];

export class Fold extends State {
  /**
   * Takes the next event; answers whether it was new.
   * @param {Envelope} event
   */
  apply(event) {
    const { view } = this;
    if (!Number.isInteger(event.sequence) || event.sequence <= view.last) return false;
    if (view.first === null) view.first = event.sequence;
    else if (event.sequence > view.last + 1) this.lose(event, view.last + 1, event.sequence - 1);
    view.last = event.sequence;
    view.events += 1;
    const data = typeof event.data === 'object' && event.data !== null ? event.data : {};
    const handler = HANDLERS.get(event.type);
    if (handler) handler(this, event, data);
    else this.add(event, 'unknown', { type: event.type, data: event.data });
    return true;
  }

  /** @param {Envelope[]} events */
  applyAll(events) {
    events.forEach((event) => this.apply(event));
    return this;
  }

  /**
   * Events that were not heard: said where they are missing.
   * @param {Envelope} event the next one that was
   * @param {number} first
   * @param {number} last
   */
  lose(event, first, last) {
    this.view.gaps.push({ first, last });
    this.add(event, 'gap', { key: `gap-${first}`, sequence: first, last, first_missing: first, last_missing: last });
  }

  /** The item that an event belongs to: its own, or the one before it. @param {number} sequence */
  itemAt(sequence) {
    for (let at = sequence; at >= (this.view.first ?? 0); at -= 1) {
      const item = this.owners.get(at);
      if (item) return item;
    }
    return this.view.items[0];
  }

  /** What is known of a call. @param {string} id */
  call(id) {
    return this.named.get(`call ${id}`);
  }
}

/** The view of events in order. @param {Envelope[]} events */
export function foldEvents(events) {
  return new Fold().applyAll(events).view;
}
