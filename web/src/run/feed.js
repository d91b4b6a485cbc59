// The events of one run as they come: the newest at once, those before them behind, new ones for as long as it lives.
// Feeds the fold, and tells who listens what was new. Knows nothing of how a run looks. Look at `Feed`.

import { token } from '../../entry.js';
import { ask, trouble, wellAgain } from '../../page.js';
import { Fold } from '../fold/fold.js';
import { live } from '../stream/live.js';

/** How many of the newest events are read first; the page can be read when they are here. */
export const NEWEST = 500;
/** How many events are kept as they are, for those who list them. */
const RECENT_MAX = 2000;
/** How many events before the newest are read by themselves; those before them are said to be left out. */
const HISTORY_EVENTS_MAX = 200_000;
/** How many events a page of new ones has at most, and how many live events wait while pages are read. */
const PAGE = 500;
const ARRIVED_MAX = 2000;
/** How often the end of the run is read to close a hole before a live event. */
const READS_MAX = 3;
/** How long history is folded at a stretch before the page may do other things. */
const SLICE_MS = 8;
/** How long after a failure the events are read again, and how often while the stream is not connected. */
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
  /// `level` whenever everything up to now was heard, and whether it is the first time; `missed` when events were pruned on the way to them.
  constructor(run, { heard, changed, level, missed }) {
    this.run = run;
    this.heard = heard;
    this.changed = changed;
    this.level = level;
    this.missed = missed;
    this.fold = new Fold();
    this.timer = null;
    this.poll = null;
    // Live events that came while pages were read.
    this.arrived = [];
    this.started = false;
    this.catching = false;
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
  open() {
    live.follow(this.run, { event: (event) => this.arrive(event), level: () => this.catchUp() });
    this.poll = setInterval(() => {
      if (!live.isLevel && !this.ended) this.catchUp();
    }, AGAIN_MS);
    this.onHide = () => this.aborting.abort();
    this.onShow = ({ persisted }) => {
      if (persisted) this.comeBack();
    };
    addEventListener('pagehide', this.onHide);
    addEventListener('pageshow', this.onShow);
    this.begin();
  }

  async begin() {
    try {
      const { data } = await ask(`/v1/runs/${this.run}/digest`);
      if (this.closed) return;
      this.kept = data.first_sequence ?? 0;
      this.first = Math.max(data.events - NEWEST, this.kept);
      this.last = this.first - 1;
      this.whole = this.first === this.kept;
      this.started = true;
      this.missed();
      await this.catchUp();
    } catch (error) {
      this.again(error);
    }
  }

  again(error) {
    // That a run was not found is said by the page; asking again would not help.
    if (this.closed || error.status === 404 || error.status === 410) return;
    trouble('events', error);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (this.started ? this.catchUp() : this.begin()), AGAIN_MS);
  }

  /** A live event. It is the next one, or some before it are read first. */
  arrive(event) {
    if (event.sequence <= this.last) return;
    if (this.started && !this.catching && event.sequence === this.last + 1) {
      this.take(event);
      return;
    }
    this.arrived.push(event);
    if (this.arrived.length > ARRIVED_MAX) this.arrived.shift();
    this.catchUp();
  }

  /** Reads what was appended after the last event that is known. */
  async catchUp() {
    if (this.closed || !this.started) return;
    if (this.catching) {
      // What was appended since its last page is read after it.
      this.isBehind = true;
      return;
    }
    this.catching = true;
    this.isBehind = false;
    try {
      // Events that cannot be read do not hold up those after them.
      for (let left = READS_MAX; left > 0 && !this.closed; left -= 1) {
        await this.readOn();
        while (this.arrived.length > 0 && (left === 1 || this.arrived[0].sequence <= this.last + 1)) this.take(this.arrived.shift());
        if (this.arrived.length === 0 && !this.isBehind) break;
        this.isBehind = false;
      }
    } catch (error) {
      this.arrived = [];
      this.again(error);
      return;
    } finally {
      this.catching = false;
    }
    if (this.closed) return;
    wellAgain('events');
    const first = !this.caughtUp;
    this.caughtUp = true;
    this.level(first);
    if (first && !this.whole) this.readBefore();
  }

  /** Reads pages up to the end of the run. */
  async readOn() {
    for (let more = true; more && !this.closed;) {
      const page = await ask(`/v1/runs/${this.run}/events?after_sequence=${this.last}&limit=${PAGE}`);
      if (this.closed) return;
      if (page.gap) this.miss(page.gap);
      page.data.forEach((event) => this.take(event));
      more = page.has_more && (page.data.length > 0 || Boolean(page.gap));
    }
  }

  /** After the back-forward cache, where reading the history was stopped. */
  comeBack() {
    this.aborting = new AbortController();
    this.failed = false;
    if (this.caughtUp && !this.whole) this.readBefore();
  }

  close() {
    this.closed = true;
    this.aborting.abort();
    live.unfollow(this.run);
    clearInterval(this.poll);
    clearTimeout(this.timer);
    removeEventListener('pagehide', this.onHide);
    removeEventListener('pageshow', this.onShow);
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
    if (pruned === undefined) return;
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
    const { signal } = this.aborting;
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
      if (this.closed || signal.aborted) return;
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
    // A summary of the arguments is not the input.
    if (call?.name && call.input !== undefined) return { tool_name: call.name, input: call.input };
    return this.caughtUp && !this.reading ? null : undefined;
  }
}
