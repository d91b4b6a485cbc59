// The events of one run as they come: the newest at once, those before them behind, new ones for as long as it lives.
// Feeds the fold, and tells who listens what was new. Knows nothing of how a run looks. Look at `Feed`.

import { openStream, token } from '../../entry.js';
import { ask, trouble, wellAgain } from '../../page.js';
import { Fold } from '../fold/fold.js';

/** How many of the newest events are read first; the page can be read when they are here. */
export const NEWEST = 500;
/** How many events are kept as they are, for those who list them. */
const RECENT_MAX = 2000;
/** How many events before the newest are read by themselves; those before them are said to be left out. */
const HISTORY_EVENTS_MAX = 200_000;
/** How long history is folded at a stretch before the page may do other things. */
const SLICE_MS = 8;
/** How long after a refusal the events are asked for again. */
const AGAIN_MS = 5000;

const ENDS = /^run\.(finished|failed|cancelled)$/;

/** What there is before an event: the cursor is exclusive, and -1 is the start. */
export const cursorFor = (first) => Math.max(first, 0) - 1;

/** Lets the page do whatever waits. */
const breathe = () => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = resolve;
  port2.postMessage(null);
});

export class Feed {
  /// `heard` gets each new event and whether it is news or history; `changed` is called when the fold is another one;
  /// `level` once everything up to now was heard; `missed` when events were pruned on the way to them.
  constructor(run, { heard, changed, level, missed }) {
    this.run = run;
    this.heard = heard;
    this.changed = changed;
    this.level = level;
    this.missed = missed;
    this.fold = new Fold();
    this.source = null;
    this.timer = null;
    this.aborting = new AbortController();
    this.closed = false;
    this.caughtUp = false;
    this.ended = false;
    this.last = -1;
    // Where reading began, and the first event that is left; those before it were pruned.
    this.first = 0;
    this.kept = 0;
    // Whether the fold has all that is left of the run.
    this.whole = false;
    this.recent = [];
  }

  /** Begins where the newest events begin. */
  async open() {
    try {
      const { data } = await ask(`/v1/runs/${this.run}/digest`);
      if (this.closed) return;
      this.kept = data.first_sequence ?? 0;
      this.first = Math.max(data.events - NEWEST, this.kept);
      this.last = this.first - 1;
      this.whole = this.first === this.kept;
      this.missed();
      this.listen();
    } catch (error) {
      this.again(error);
    }
  }

  again(error) {
    // That a run was not found is said by the page; asking again would not help.
    if (this.closed || error.status === 404 || error.status === 410) return;
    trouble('events', error);
    this.timer = setTimeout(() => (this.last < 0 ? this.open() : this.listen()), AGAIN_MS);
  }

  async listen() {
    // One event is heard again: a browser that comes back after the ending needs an id to be told to stop.
    const cursor = this.recent.length > 0 ? cursorFor(this.last) : this.last;
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
    source.onmessage = (message) => this.take(JSON.parse(message.data));
    source.onopen = () => wellAgain('events');
    source.addEventListener('gap', (message) => this.miss(JSON.parse(message.data)));
    source.addEventListener('caught_up', () => {
      const first = !this.caughtUp;
      this.caughtUp = true;
      this.level();
      if (first && !this.whole) this.readBefore();
    });
    source.onerror = () => {
      if (this.ended || source.readyState !== EventSource.CLOSED) return;
      this.again(new Error('Cannot read the events of this run. Retrying.'));
    };
  }

  close() {
    this.closed = true;
    this.aborting.abort();
    this.source?.close();
    clearTimeout(this.timer);
    wellAgain('events');
    wellAgain('history');
  }

  take(event) {
    if (event.sequence <= this.last) return;
    this.last = event.sequence;
    if (ENDS.test(event.type)) this.ended = true;
    this.recent.push(event);
    if (this.recent.length > RECENT_MAX * 2) this.recent = this.recent.slice(-RECENT_MAX);
    this.fold.apply(event);
    this.heard(event, this.caughtUp);
  }

  /** Events were pruned while the page was on its way to them. */
  miss({ last_pruned_sequence: pruned }) {
    this.kept = Math.max(this.kept, pruned + 1);
    this.last = Math.max(this.last, pruned);
    this.first = Math.max(this.first, this.kept);
    this.missed(pruned);
  }

  /** Whether earlier events are still on their way into the fold. */
  get reading() {
    return !this.whole && !this.closed && this.first - this.kept <= HISTORY_EVENTS_MAX && !this.failed;
  }

  /** Folds the run from its first event, beside the fold that is shown, which it then replaces. */
  async readBefore() {
    if (!this.reading) return;
    const whole = new Fold();
    try {
      await this.history(this.kept, this.first, (event) => whole.apply(event));
      while (!this.closed && this.recent[0]?.sequence > whole.view.last + 1) {
        await this.history(whole.view.last + 1, this.recent[0].sequence, (event) => whole.apply(event));
      }
      if (this.closed) return;
      whole.applyAll(this.recent);
      this.fold = whole;
      this.whole = true;
      this.changed();
      wellAgain('history');
    } catch (error) {
      if (this.closed) return;
      this.failed = true;
      this.changed();
      trouble('history', new Error(`Cannot load the earlier events of this run: ${error.message}`));
    }
  }

  /** Calls `take` with the events from `first` up to but not with `before`, a few at a time. */
  async history(first, before, take) {
    let slice = performance.now();
    let last = first - 1;
    for await (const line of this.lines(first)) {
      const event = JSON.parse(line);
      if (event.sequence >= before) return;
      last = event.sequence;
      take(event);
      if (last === before - 1) return;
      if (performance.now() - slice < SLICE_MS) continue;
      await breathe();
      slice = performance.now();
    }
    if (last < before - 1 && first < before && !this.closed && this.kept < before) throw new Error('the stream ended early.');
  }

  /** The stored events from `first` on as JSON texts; the reader stops when it has enough. */
  async* lines(first) {
    const headers = { accept: 'text/event-stream' };
    const shown = token();
    if (shown) headers.authorization = `Bearer ${shown}`;
    const response = await fetch(`/v1/runs/${this.run}/events?after_sequence=${cursorFor(first)}`, { headers, signal: this.aborting.signal });
    if (!response.ok) throw new Error(`the server returned status ${response.status}.`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      let rest = '';
      let name = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        const all = (rest + value).split('\n');
        rest = all.pop();
        for (const line of all) {
          if (line === '') name = '';
          else if (line.startsWith('event: ')) name = line.slice(7);
          else if (name === '' && line.startsWith('data: ')) yield line.slice(6);
          if (name === 'caught_up') return;
        }
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  /** The events from `first` up to but not with `before`, in pages as small as the server wants them. */
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

  /** What is known of a call: `null` when it is not among the events, `undefined` while that is open. */
  call(id) {
    const call = this.fold.call(id);
    if (call?.name) return { tool_name: call.name, input: call.input ?? call.args_summary ?? null };
    return this.caughtUp && !this.reading ? null : undefined;
  }
}
