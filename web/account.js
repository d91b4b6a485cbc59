// The events of one run: the newest at once, earlier ones when asked for, new ones as they come.
// The page holds a window on the account; the account itself stays on the server. Look at `Account`.

import { openStream } from './entry.js';
import { announce, ask, byId, element, remove, setText, trouble, wellAgain } from './page.js';
import { beginning, said, visibleJson } from './visible.js';

/// How many events are shown at first, and are added by each wish for earlier ones. While new ones come,
/// the earliest shown make room.
const EVENTS_SHOWN = 500;
/// How many calls are remembered for prompts; a run has at most 256 open. The earliest go first.
const CALLS_KEPT_MAX = 512;
/// How many pages are looked through for the call that a prompt is about; then the prompt says so.
const LOOK_BACK_PAGES_MAX = 10;
/// The longest text in the line of an event; all of it is in its details.
const LINE_LENGTH_MAX = 200;
/// How long after a refusal the account is asked for again.
const AGAIN_MS = 5000;

const ENDS = /^run\.(finished|failed|cancelled)$/;

/// What there is before an event: the cursor is exclusive, and -1 is the start.
const cursorFor = (first) => Math.max(first, 0) - 1;

export class Account {
  /// `heard` gets each new event, also those of the past; `known` is called when calls became known.
  constructor(run, { heard, known }) {
    Object.assign(this, { run, heard, known });
    this.source = null;
    this.timer = null;
    this.closed = false;
    this.caughtUp = false;
    this.ended = false;
    this.last = -1;
    this.first = 0;
    // The first event that is left; those before it were pruned.
    this.kept = 0;
    this.room = EVENTS_SHOWN;
    this.waiting = [];
    this.frame = null;
    this.calls = new Map();
    this.searched = null;
    this.list = byId('events');
    this.list.replaceChildren();
    this.showBounds();
  }

  /// Begins where the newest events begin.
  async open() {
    try {
      const { data } = await ask(`/v1/runs/${this.run}/digest`);
      if (this.closed) return;
      this.kept = data.first_sequence ?? 0;
      this.first = Math.max(data.events - EVENTS_SHOWN, this.kept);
      this.last = this.first - 1;
      this.listen();
    } catch (error) {
      this.again(error);
    }
  }

  again(error) {
    if (this.closed) return;
    trouble('events', error);
    this.timer = setTimeout(() => (this.last < 0 ? this.open() : this.listen()), AGAIN_MS);
  }

  async listen() {
    // One event is heard again: a browser that comes back after the ending needs an id to be told to stop.
    const cursor = this.list.firstChild || this.waiting.length > 0 ? cursorFor(this.last) : this.last;
    let source;
    try {
      source = await openStream(`/v1/runs/${this.run}/events?after_sequence=${cursor}`);
    } catch (error) {
      this.again(error);
      return;
    }
    if (this.closed) {
      source.close();
      return;
    }
    this.source = source;
    this.source.onmessage = (message) => this.take(JSON.parse(message.data));
    this.source.onopen = () => wellAgain('events');
    this.source.addEventListener('gap', (message) => this.miss(JSON.parse(message.data)));
    this.source.addEventListener('caught_up', () => {
      this.caughtUp = true;
      this.known();
    });
    this.source.onerror = () => {
      if (this.ended || this.source.readyState !== EventSource.CLOSED) return;
      this.again(new Error('The events of this run cannot be read now; trying again.'));
    };
  }

  close() {
    this.closed = true;
    this.source?.close();
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    wellAgain('events');
    wellAgain('earlier');
  }

  take(event) {
    if (event.sequence <= this.last) return;
    this.last = event.sequence;
    if (ENDS.test(event.type)) this.ended = true;
    this.note(event);
    this.waiting.push(event);
    // A page that nobody looks at draws no frames; it need not keep what it would not show.
    if (this.waiting.length > 2 * this.room) this.waiting.splice(0, this.waiting.length - this.room);
    this.frame ??= requestAnimationFrame(() => this.flush());
    this.heard(event);
  }

  /// Events were pruned while the page was on its way to them.
  miss({ last_pruned_sequence: pruned }) {
    this.kept = Math.max(this.kept, pruned + 1);
    this.last = Math.max(this.last, pruned);
    this.first = Math.max(this.first, this.kept);
    this.showBounds();
    announce(`The events up to ${pruned} were pruned.`);
  }

  note(event) {
    if (event.type !== 'assistant.tool_call_proposed') return;
    this.calls.set(event.data.tool_call_id, event.data);
    if (this.calls.size > CALLS_KEPT_MAX) this.calls.delete(this.calls.keys().next().value);
    if (this.caughtUp) this.known();
  }

  /// The call as it was proposed; `null` when it is not to be found, `undefined` while that is open.
  call(id) {
    if (this.calls.has(id)) return this.calls.get(id);
    if (!this.caughtUp) return undefined;
    this.searched ??= new Map();
    if (!this.searched.has(id)) {
      this.searched.set(id, undefined);
      this.lookBack(id).catch(() => undefined).then((call) => {
        if (this.closed) return;
        this.searched.set(id, call ?? null);
        this.known();
      });
    }
    return this.searched.get(id);
  }

  async lookBack(id) {
    let before = this.first;
    for (let pages = 0; pages < LOOK_BACK_PAGES_MAX && before > this.kept && !this.closed; pages += 1) {
      const events = await this.read(Math.max(before - EVENTS_SHOWN, this.kept), before);
      if (events.length === 0) return null;
      const isIt = ({ type, data }) => type === 'assistant.tool_call_proposed' && data.tool_call_id === id;
      const found = events.find(isIt);
      if (found) return found.data;
      before = events[0].sequence;
    }
    return null;
  }

  /// The events from `first` up to but not with `before`, in pages as small as the server wants them.
  async read(first, before) {
    const all = [];
    for (let cursor = cursorFor(first); cursor < before - 1;) {
      const limit = before - 1 - cursor;
      const page = await ask(`/v1/runs/${this.run}/events?after_sequence=${cursor}&limit=${limit}`);
      // What was pruned meanwhile is not asked for again.
      if (page.gap) this.kept = Math.max(this.kept, page.gap.last_pruned_sequence + 1);
      all.push(...page.data.filter(({ sequence }) => sequence < before));
      if (!(page.next > cursor)) break;
      cursor = page.next;
    }
    return all;
  }

  flush() {
    this.frame = null;
    if (this.waiting.length === 0) return;
    const following = this.list.lastChild && this.waiting[0].sequence === Number(this.list.lastChild.id.slice(6)) + 1;
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
    this.room += EVENTS_SHOWN;
    try {
      const before = this.first;
      const events = await this.read(Math.max(before - EVENTS_SHOWN, this.kept), before);
      if (this.closed || before !== this.first) return;
      this.first = events[0]?.sequence ?? this.first;
      this.list.prepend(...events.map(eventItem));
      const focused = document.activeElement === byId('earlier');
      this.showBounds();
      if (focused && byId('earlier').hidden) this.list.focus();
      announce(`${events.length} earlier events are shown.`);
      wellAgain('earlier');
    } catch (error) {
      if (!this.closed) trouble('earlier', error);
    } finally {
      this.reading = false;
    }
  }

  showBounds() {
    byId('earlier').hidden = this.first <= this.kept;
    const bounds = byId('bounds');
    bounds.hidden = this.first === 0;
    const hidden = this.first - this.kept;
    const earlier = hidden > 0 ? [`${hidden} earlier events are not shown`] : [];
    const pruned = this.kept > 0 ? [`events 0 to ${this.kept - 1} were pruned`] : [];
    setText(bounds, `Showing the events from ${this.first} on; ${[...earlier, ...pruned].join('; ')}.`);
  }
}

/// The line that stands for an event.
function line({ data }) {
  const told = data.summary ?? data.text ?? data.delta ?? data.message ?? data.question ?? data.reason
    ?? data.tool_name ?? data.title ?? data.data ?? (Array.isArray(data.argv) ? data.argv.join(' ') : '');
  const words = typeof told === 'string' ? told : JSON.stringify(told);
  // What a failed attempt said is no part of the answer.
  const cut = data.aborted === true ? 'cut off: ' : '';
  const retried = data.will_retry === true ? ' (retried; this answer does not count)' : '';
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
