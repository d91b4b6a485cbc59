// What the page says to those who listen to it: one polite region for news, and one that interrupts, for prompts and
// errors. What happens in a run is said in the words of the catalogues (`tell`), text that streams a sentence at a time, never
// piece by piece (`Sentences`), and without markup (`announceParts`); only what the page does itself has words of its own
// (`announce`).

import { visible } from '../visible.js';
import { SpokenMarkdown } from './markdown.js';
import { ended } from './run/spoken.js';
import { onSetting, setting } from './settings.js';
import { pickLanguage, speech } from './speech.js';

/** How many announcements stay in a region, for readers that look at it late. */
const KEPT_MAX = 12;
/** How many announcements wait for a catalogue or for the pace; older ones are left out. */
const WAITING_MAX = 50;
/** The longest text that is said at once: a prompt, whose parts have limits of their own. */
const SAID_LENGTH_MAX = 16_000;
/** How long announcements that waited become together. */
const JOINED_LENGTH_MAX = 600;

/** @typedef {{ text: string, language?: string, direction?: string }} Words */

const queues = new Map();

/**
 * Browsers with `ariaNotify` announce without a live region; the regions are silent there, so that nothing is
 * announced twice.
 * @param {HTMLElement} words
 * @param {boolean} urgent
 */
function notify(words, urgent) {
  if (!('ariaNotify' in words)) return;
  words.parentElement.setAttribute('aria-live', 'off');
  /** @type {any} */ (words).ariaNotify(words.textContent, { priority: urgent ? 'high' : 'normal' });
}

/** @param {string} region @param {Words} words */
function say(region, { text, language, direction }) {
  const box = document.getElementById(region);
  const words = document.createElement('p');
  words.textContent = text.length > SAID_LENGTH_MAX ? `${text.slice(0, SAID_LENGTH_MAX)} …` : text;
  if (language) words.lang = language;
  words.dir = direction ?? 'auto';
  box.append(words);
  notify(words, region === 'urgent');
  while (box.children.length > KEPT_MAX) box.firstElementChild.remove();
}

/** What waits, in as few parts as languages allow. @param {Words[]} all */
function joined(all) {
  const parts = [];
  for (const one of all) {
    const last = parts.at(-1);
    if (last && last.language === one.language && last.text.length + one.text.length < JOINED_LENGTH_MAX) last.text += ` ${one.text}`;
    else parts.push({ ...one });
  }
  return parts;
}

/** Politely, no faster than the reader wants. @param {Words} words */
function politely(words) {
  const pace = Number(setting('pace')) * 1000;
  const queue = queues.get('news') ?? { waiting: [], until: 0, timer: null };
  queues.set('news', queue);
  const now = performance.now();
  if (!queue.timer && now >= queue.until) {
    queue.until = now + pace;
    say('news', words);
    return;
  }
  queue.waiting.push(words);
  if (queue.waiting.length > WAITING_MAX) queue.waiting.shift();
  queue.timer ??= setTimeout(() => {
    queue.timer = null;
    queue.until = performance.now() + pace;
    joined(queue.waiting.splice(0)).forEach((one) => say('news', one));
  }, Math.max(queue.until - now, 0));
}

// ---- the catalogue in use

let catalogue = null;
let generation = 0;
/** What is to be said as soon as the catalogue is here, in order. @type {Array<() => void>} */
let held = [];

const language = () => pickLanguage(setting('language'), navigator.languages ?? []);

function release() {
  const all = held;
  held = [];
  all.forEach((one) => one());
}

/** Makes sure of the catalogue of the language that is chosen; what is said meanwhile waits for it. */
function load() {
  const wanted = language();
  if (catalogue?.language === wanted) return;
  generation += 1;
  const mine = generation;
  speech(wanted).then((found) => {
    if (mine !== generation) return;
    catalogue = found;
    release();
  }, () => {
    // Better the bare facts than silence.
    if (mine === generation) release();
  });
}

onSetting((name) => {
  if (name === 'language') load();
});

/** In the order in which it was to be said. @param {() => void} one */
function inOrder(one) {
  load();
  if (catalogue?.language === language() && held.length === 0) one();
  else if (held.push(one) > WAITING_MAX) held.shift();
}

/** A message in the words of the catalogue; `parts` are messages that are put into it. @returns {Words} */
function worded(key, values, parts = {}) {
  if (!catalogue) return { text: visible(Object.values(values).filter((value) => typeof value === 'string').join(' ')) };
  const length = setting('length');
  const inner = Object.fromEntries(Object.entries(parts).map(([name, [part, more]]) => [name, part ? catalogue.render(part, more) : more]));
  // What has a name in the catalogue is named by it.
  const named = { ...values, ...inner };
  if ('agent' in named && !named.agent) named.agent = catalogue.render('agent-unnamed');
  if ('by' in named && !named.by) named.by = catalogue.render('unnamed');
  return { text: catalogue.render(key, named, length), language: catalogue.language, direction: catalogue.direction };
}

/** Says something of a run in the words of the catalogue. */
export function tell(key, values, { urgent = false, parts = {} } = {}) {
  inOrder(() => {
    const words = worded(key, values, parts);
    if (urgent) say('urgent', words);
    else politely(words);
  });
}

/** Says politely what the page has done, or a sentence of a model. */
export function announce(text) {
  if (text) inOrder(() => politely({ text: visible(text) }));
}

/** A part of an answer in words. Of code only the length is announced: the page shows it. @param {any} part */
function partWords({ text, heading, task, code }) {
  const message = code ? [code.language ? 'code' : 'code-plain', { language: code.language, count: code.lines.length }]
    : task ? [task.done ? 'task-done' : 'task-open', { text: task.text }] : heading ? ['heading', { text: heading }] : null;
  if (!message || !catalogue) return text ?? heading ?? task?.text ?? '';
  return catalogue.render(message[0], message[1]);
}

/** Announces the parts of an answer politely, as one announcement. @param {import('./markdown.js').Part[]} parts */
export function announceParts(parts) {
  if (parts.length === 0) return;
  inOrder(() => {
    const words = parts.map(partWords);
    politely({ text: visible(words.map((one, at) => (at < words.length - 1 ? ended(one) : one)).join(' ').replace(/\s+/g, ' ')) });
  });
}

/** The parts of a whole answer. @param {string} text */
export function partsOf(text) {
  const markdown = new SpokenMarkdown();
  return [...markdown.take(text), ...markdown.release()];
}

/** Forgets what waits to be said, as of a run that is no longer shown. */
export function hush() {
  held = [];
  const queue = queues.get('news');
  if (queue) {
    clearTimeout(queue.timer);
    queues.delete('news');
  }
  for (const region of ['news', 'urgent']) document.getElementById(region).replaceChildren();
}

const segmenter = new Intl.Segmenter(undefined, { granularity: 'sentence' });

/** Cuts text that grows into sentences that are complete, without markup. */
export class Sentences {
  constructor() {
    this.said = new Map();
  }

  known(item) {
    if (!this.said.has(item.key)) this.said.set(item.key, { length: 0, markdown: new SpokenMarkdown() });
    return this.said.get(item.key);
  }

  /** The parts of an item's text that are complete and were not answered before. */
  next(item) {
    const known = this.known(item);
    const rest = item.text.slice(known.length);
    if (item.complete) {
      known.length = item.text.length;
      return [...known.markdown.take(rest), ...known.markdown.release()];
    }
    // The last sentence may go on; the end of a line ends one, too.
    const parts = [...segmenter.segment(rest)];
    const whole = rest.endsWith('\n') ? parts : parts.slice(0, -1);
    const length = whole.reduce((sum, { segment }) => sum + segment.length, 0);
    known.length += length;
    return known.markdown.take(rest.slice(0, length));
  }

  /** What was said of an item is over: nothing of it comes again. */
  skip(item) {
    const known = this.known(item);
    // A block of code or a table that is open goes on.
    known.markdown.take(item.text.slice(known.length));
    known.length = item.text.length;
  }
}
