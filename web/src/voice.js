// What the page says to those who listen to it: one polite region for news, and one that interrupts, for prompts.
// Text that streams is said a sentence at a time, never piece by piece. Look at `announce` and `Sentences`.

import { visible } from '../visible.js';
import { setting } from './settings.js';

/** How many announcements stay in a region, for readers that look at it late. */
const KEPT_MAX = 6;
/** The longest text that is said at once. */
const SAID_LENGTH_MAX = 600;

const queues = new Map();

function say(region, text) {
  const box = document.getElementById(region);
  const words = document.createElement('p');
  words.textContent = visible(text.length > SAID_LENGTH_MAX ? `${text.slice(0, SAID_LENGTH_MAX)} …` : text);
  box.append(words);
  while (box.children.length > KEPT_MAX) box.firstElementChild.remove();
}

/** Says something politely, no faster than the reader wants. */
export function announce(text) {
  if (!text) return;
  const pace = Number(setting('pace')) * 1000;
  const queue = queues.get('news') ?? { waiting: [], until: 0, timer: null };
  queues.set('news', queue);
  const now = performance.now();
  if (!queue.timer && now >= queue.until) {
    queue.until = now + pace;
    say('news', text);
    return;
  }
  queue.waiting.push(text);
  queue.timer ??= setTimeout(() => {
    queue.timer = null;
    queue.until = performance.now() + pace;
    say('news', queue.waiting.splice(0).join(' '));
  }, Math.max(queue.until - now, 0));
}

/** Says something at once: a person is needed. */
export function interrupt(text) {
  say('urgent', text);
}

/** Forgets what waits to be said, as of a run that is no longer shown. */
export function hush() {
  const queue = queues.get('news');
  if (queue) {
    clearTimeout(queue.timer);
    queues.delete('news');
  }
  for (const region of ['news', 'urgent']) document.getElementById(region).replaceChildren();
}

const segmenter = new Intl.Segmenter(undefined, { granularity: 'sentence' });

/** Cuts text that grows into sentences that are complete. */
export class Sentences {
  constructor() {
    this.said = new Map();
  }

  /** The sentences of an item's text that are complete and were not answered before. */
  next(item) {
    const from = this.said.get(item.key) ?? 0;
    const rest = item.text.slice(from);
    if (item.complete) {
      this.said.set(item.key, item.text.length);
      return rest.trim();
    }
    // The last sentence may go on; the end of a line ends one, too.
    const parts = [...segmenter.segment(rest)];
    const whole = rest.endsWith('\n') ? parts : parts.slice(0, -1);
    const length = whole.reduce((sum, { segment }) => sum + segment.length, 0);
    this.said.set(item.key, from + length);
    return rest.slice(0, length).trim();
  }

  /** What was said of an item is over: nothing of it comes again. */
  skip(item) {
    this.said.set(item.key, item.text.length);
  }
}
