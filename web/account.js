// The events of one run as a list: the newest at once, earlier ones when asked for, new ones as they come.
// The page holds a window on the log; the log itself stays on the server. Look at `EventList`.

import { byId, element, remove, setText, trouble, wellAgain } from './page.js';
import { NEWEST } from './src/run/feed.js';
import { through } from './src/run/words.js';
import { counted } from './src/time.js';
import { announce } from './src/voice.js';
import { beginning, said, visibleJson } from './visible.js';

/// The longest text in the line of an event; all of it is in its details.
const LINE_LENGTH_MAX = 200;

export class EventList {
  constructor(feed) {
    this.feed = feed;
    this.shown = false;
    this.frame = null;
    this.list = byId('events');
    this.list.replaceChildren();
    byId('single').replaceChildren();
  }

  /// Shows the newest events, and from now on those that come.
  open() {
    this.shown = true;
    this.room = NEWEST;
    this.waiting = this.feed.recent.slice(-NEWEST);
    this.first = this.waiting[0]?.sequence ?? this.feed.first;
    this.list.replaceChildren();
    byId('earlier').onclick = () => this.showEarlier();
    this.showBounds();
    if (this.waiting.length > 0) this.flush();
  }

  close() {
    this.shown = false;
    cancelAnimationFrame(this.frame);
    this.frame = null;
    this.list.replaceChildren();
    // A button that stays would keep the whole run.
    byId('earlier').onclick = null;
    wellAgain('earlier');
  }

  take(event) {
    this.waiting.push(event);
    // A page that nobody looks at draws no frames; it need not keep what it would not show.
    if (this.waiting.length > 2 * this.room) this.waiting.splice(0, this.waiting.length - this.room);
    this.frame ??= requestAnimationFrame(() => this.flush());
  }

  flush() {
    this.frame = null;
    if (this.waiting.length === 0) return;
    const following = this.list.lastChild && this.waiting[0].sequence === Number(this.list.lastElementChild.id.slice(6)) + 1;
    if (!following) {
      [...this.list.children].forEach(remove);
      this.first = this.waiting[0].sequence;
    }
    this.list.append(...this.waiting.map(eventItem));
    this.waiting = [];
    // Nothing is removed while a reader is in it.
    const inUse = (item) => item.contains(document.activeElement) || item.querySelector('details[open]');
    while (this.list.children.length > this.room && !inUse(this.list.firstChild)) {
      this.list.firstChild.remove();
      this.first += 1;
    }
    this.showBounds();
  }

  async showEarlier() {
    if (this.reading) return;
    this.reading = true;
    // Now, so that what comes meanwhile takes nothing away at that end.
    this.room += NEWEST;
    try {
      const before = this.first;
      const events = await this.feed.read(Math.max(before - NEWEST, this.feed.kept), before);
      if (!this.shown || before !== this.first) return;
      this.first = events[0]?.sequence ?? this.first;
      this.list.prepend(...events.map(eventItem));
      const focused = document.activeElement === byId('earlier');
      this.showBounds();
      if (focused && byId('earlier').hidden) this.list.focus();
      announce(`${counted(events.length, 'earlier event')} loaded.`);
      wellAgain('earlier');
    } catch (error) {
      if (this.shown) trouble('earlier', error);
    } finally {
      this.reading = false;
    }
  }

  /// One event alone, above the list; `null` for none.
  async single(sequence) {
    const box = byId('single');
    box.replaceChildren();
    if (sequence === null) return;
    try {
      const [event] = await this.feed.read(sequence, sequence + 1);
      if (!this.shown) return;
      const words = event ? visibleJson(event) : `Event ${sequence} not found in this run.`;
      box.replaceChildren(element('h3', `Event ${sequence}`), element('pre', words, { tabIndex: 0, dir: 'ltr' }));
      wellAgain('earlier');
    } catch (error) {
      if (this.shown) trouble('earlier', error);
    }
  }

  showBounds() {
    if (!this.shown) return;
    const { kept } = this.feed;
    if (!this.list.firstChild && this.waiting.length === 0) this.first = this.feed.first;
    byId('earlier').hidden = this.first <= kept;
    const bounds = byId('bounds');
    bounds.hidden = this.first === 0;
    const hidden = this.first - kept;
    const earlier = hidden > 0 ? [`${counted(hidden, 'earlier event')} not shown`] : [];
    const pruned = kept > 0 ? [`${through(0, kept - 1)} ${kept === 1 ? 'was' : 'were'} pruned`] : [];
    setText(bounds, `Showing events from ${this.first} on; ${[...earlier, ...pruned].join('; ')}.`);
  }
}

/// The line that stands for an event.
function line({ data }) {
  const told = data.summary ?? data.text ?? data.delta ?? data.message ?? data.question ?? data.reason
    ?? data.tool_name ?? data.title ?? data.data ?? (Array.isArray(data.argv) ? data.argv.join(' ') : '');
  const words = typeof told === 'string' ? told : JSON.stringify(told);
  // What a failed attempt said is no part of the answer.
  const cut = data.aborted === true ? 'cut off: ' : '';
  const retried = data.will_retry === true ? ' (retried; this response is discarded)' : '';
  const text = `${cut}${words}${retried}`;
  const [first] = text.split('\n', 1);
  return beginning(first.length < text.length ? `${first} …` : first, LINE_LENGTH_MAX);
}

function eventItem(event) {
  const item = element('li', undefined, { id: `event-${event.sequence}` });
  const details = element('details');
  details.append(element('summary', [
    element('span', String(event.sequence), { className: 'sequence' }),
    said(event.type, 'type'),
    said(line(event), 'says'),
  ]));
  details.addEventListener('toggle', () => {
    if (details.open && details.children.length === 1) details.append(element('pre', visibleJson(event)));
  });
  item.append(details);
  return item;
}
