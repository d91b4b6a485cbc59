// The page of one run: its feed, its fold, and the views of it. The address says which view and which event.
// Draws at most once a frame, whatever comes. Look at `RunPage`.

import { EventList } from '../../account.js';
import { byId, element } from '../../page.js';
import { visible, visibleJson } from '../../visible.js';
import { onSetting, setting } from '../settings.js';
import { CHANGES_A_RUN } from '../stream/hub.js';
import { counted } from '../time.js';
import { Sentences, announce, announceParts, partsOf, tell } from '../voice.js';
import { Actions } from './actions.js';
import { ChangesView } from './changes.js';
import { CostView } from './cost.js';
import { Feed } from './feed.js';
import { Panel } from './panel.js';
import { ALWAYS, ANSWERS, EVERYTHING, spoken } from './spoken.js';
import { TimelineView } from './timeline.js';
import { Transcript } from './transcript.js';
import { isUnseen, prunedWords, unloadedWords } from './words.js';

/** JSON that is longer is cut where it is shown; the events have all of it. */
const JSON_LENGTH_MAX = 200_000;

const VIEWS = [['', 'Transcript'], ['timeline', 'Timeline'], ['cost', 'Cost'], ['changes', 'Changes'], ['events', 'Events']];
/** Up to which level a reader hears of a run. */
const WISHES = { quiet: ALWAYS, answers: ANSWERS, everything: EVERYTHING };
/** An answer up to this length is part of the sentence of the ending. */
const ANSWER_LENGTH_MAX = 400;
/** Tables are drawn anew at most this often while events come. */
const TABLES_MS = 1000;

let current = null;
onSetting((name) => {
  if (name === 'thinking') current?.redraw();
});

export class RunPage {
  /// `changes` is called for events after which the run should be looked at again; `known` when calls became known.
  constructor(run, { changes, known, answer }) {
    this.run = run;
    this.changes = changes;
    this.known = known;
    current = this;
    this.frame = null;
    this.drawnAt = 0;
    this.sentences = new Sentences();
    this.heardAnswer = false;
    this.feed = new Feed(run, {
      heard: (event, news) => this.hear(event, news),
      changed: () => this.replaced(),
      level: (first) => this.level(first),
      missed: (pruned) => this.missed(pruned),
    });
    this.context = {
      fold: () => this.feed.fold,
      reading: () => this.feed.reading,
      bounds: () => this.bounds(),
      scroller: () => byId('view'),
      linkTo: (sequence) => `#${run}/${sequence}`,
      json: (value) => json(value),
      canRetry: () => this.actions.canRetry(),
      act: (verb, body) => this.actions.act(verb, body),
      answer,
    };
    this.actions = new Actions(run, { feed: this.feed, announce });
    this.panel = new Panel();
    this.views = { '': new Transcript(this.context), timeline: new TimelineView(this.context), cost: new CostView(this.context), changes: new ChangesView(run) };
    this.events = new EventList(this.feed);
    this.view = null;
    byId('actions').replaceChildren(this.actions.node);
    byId('panel').replaceChildren(this.panel.node);
    this.links = VIEWS.map(([name, words]) => element('a', words, { href: `#${run}${name ? `/${name}` : ''}` }));
    byId('views').replaceChildren(...this.links);
    byId('views').hidden = false;
  }

  open() {
    this.feed.open();
  }

  close() {
    this.feed.close();
    this.events.close();
    this.views[''].detach();
    cancelAnimationFrame(this.frame);
    byId('view').replaceChildren();
    byId('actions').replaceChildren();
    byId('panel').replaceChildren();
    byId('views').hidden = true;
    byId('view-events').hidden = true;
    if (current === this) current = null;
  }

  /** Shows one of the views, and in it an event when the address names one. */
  show(view, sequence) {
    const name = VIEWS.some(([known]) => known === view) ? view : '';
    if (name !== this.view) {
      const held = ['view', 'view-events'].some((id) => byId(id).contains(document.activeElement));
      this.view = name;
      this.links.forEach((link, at) => {
        if (VIEWS[at][0] === name) link.setAttribute('aria-current', 'page');
        else link.removeAttribute('aria-current');
      });
      byId('view-events').hidden = name !== 'events';
      byId('view').hidden = name === 'events';
      byId('view').scrollTop = 0;
      this.views[''].detach();
      if (name === 'events') this.events.open();
      else {
        this.events.close();
        byId('view').replaceChildren(this.views[name].node);
        if (name === '') this.openTranscript();
        else this.views[name].update();
      }
      // What had the focus is gone; the next thing is what shows the new view.
      if (held) this.links[VIEWS.findIndex(([known]) => known === name)].focus();
    }
    if (name === 'events') this.events.single(sequence);
    else if (name === '' && sequence !== null) this.views[''].goTo(sequence);
  }

  openTranscript() {
    const transcript = this.views[''];
    transcript.attach();
    transcript.replace(this.feed.fold);
    if (transcript.following) transcript.scroller.scrollTop = transcript.scroller.scrollHeight;
  }

  /** The run as the server lists it. */
  describe(run) {
    const before = this.actions.canRetry();
    this.actions.show(run);
    this.panel.show(run);
    this.views.changes.describe(run);
    // Only a copy can have changes that are not in the folder.
    this.links[VIEWS.findIndex(([name]) => name === 'changes')].hidden = run.workspace_mode !== 'clone';
    // Headings and checkpoints offer more when the run has ended.
    if (before !== this.actions.canRetry()) this.redraw();
  }

  hear(event, news) {
    if (CHANGES_A_RUN.test(event.type)) this.changes();
    if (event.type === 'assistant.tool_call_proposed' && news) this.known();
    if (this.view === 'events') this.events.take(event);
    if (news) this.speak(event);
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  /** Says what the reader wants to hear of an event: sentences of answers, and what the catalogue has a message for. */
  speak(event) {
    const wish = WISHES[setting('speech')];
    const item = this.feed.fold.owners.get(event.sequence);
    if (event.type === 'turn.started') this.heardAnswer = false;
    if (item?.kind === 'text' && event.type.startsWith('assistant.text')) {
      const parts = wish >= ANSWERS ? this.sentences.next(item) : [];
      if (parts.length > 0) this.heardAnswer = true;
      announceParts(parts);
      return;
    }
    const message = spoken(event, item, () => this.summary());
    if (message?.values.answer) {
      const parts = partsOf(message.values.answer);
      const [first] = parts;
      // A short answer is part of the sentence; another is announced before it, whole.
      if (parts.length === 1 && 'text' in first && first.text.length <= ANSWER_LENGTH_MAX) message.values.answer = first.text;
      else {
        announceParts(parts);
        delete message.values.answer;
        message.key = 'session-completed';
      }
    }
    if (message && message.level <= wish) tell(message.key, message.values, { urgent: message.urgent });
  }

  /** What an ending says of the run. */
  summary() {
    const { view } = this.feed.fold;
    const { run, items } = view;
    const last = view.turns.at(-1)?.index ?? null;
    const counts = (/** @type {any} */ { kind, turn, superseded }) => kind === 'answer' || (kind === 'text' && turn === last && !superseded);
    const answer = this.heardAnswer ? '' : items.findLast(counts)?.text ?? '';
    const ms = Date.parse(view.ending?.at ?? '') - Date.parse(run.started_at ?? '');
    return { agent: run.agent?.title ?? run.agent?.name ?? '', answer, seconds: Number.isFinite(ms) ? Math.ceil(ms / 1000) : 0,
      calls: items.filter(({ kind }) => kind === 'call').length };
  }

  draw() {
    this.frame = null;
    const changed = this.feed.fold.takeChanges();
    this.panel.update(this.feed.fold.view);
    if (this.view === '') {
      this.views[''].update(changed);
      const { wanted } = this.views[''];
      if (wanted !== null) this.views[''].goTo(wanted);
    } else if (this.view !== 'events') {
      const now = performance.now();
      clearTimeout(this.tables);
      if (now - this.drawnAt < TABLES_MS) this.tables = setTimeout(() => this.drawTable(), TABLES_MS);
      else this.drawTable();
    }
  }

  drawTable() {
    this.drawnAt = performance.now();
    if (this.feed.closed || this.view === '' || this.view === 'events') return;
    this.views[this.view].update();
  }

  /** All that is shown, anew, from the fold as it is. */
  redraw() {
    if (this.view === '') this.views[''].replace(this.feed.fold);
    else if (this.view && this.view !== 'events') this.views[this.view].update();
  }

  replaced() {
    this.known();
    this.panel.update(this.feed.fold.view);
    this.redraw();
    const { wanted } = this.views[''];
    if (this.view === '' && wanted !== null) this.views[''].goTo(wanted);
  }

  level(first) {
    // What was said before the page came is not said again.
    if (first) for (const item of this.feed.fold.view.items) if (item.kind === 'text' && !item.complete) this.sentences.skip(item);
    this.known();
    this.events.showBounds();
    // Only now it is known whether there is nothing to show.
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  missed(pruned) {
    this.events.showBounds();
    if (pruned !== undefined) announce(`Events up to ${pruned} were pruned.`);
  }

  /** What of the run is not in the transcript, in words. */
  bounds() {
    const { feed } = this;
    const first = feed.fold.view.first ?? feed.first;
    const words = [];
    if (feed.kept > 0) words.push(prunedWords(0, feed.kept - 1));
    if (!feed.whole && feed.reading) words.push(`Loading ${counted(first - feed.kept, 'earlier event')}.`);
    else if (!feed.whole && first > feed.kept) words.push(`${unloadedWords(feed.kept, first - 1)} See the Events view.`);
    else if (feed.caughtUp && feed.fold.view.items.every(isUnseen)) words.push('No messages or tool calls yet.');
    return words.join(' ');
  }

  call(id) {
    return this.feed.call(id);
  }
}

function json(value) {
  const text = visibleJson(value ?? null);
  const made = element('pre', text.length > JSON_LENGTH_MAX ? `${text.slice(0, JSON_LENGTH_MAX)}\n${visible('…')}` : text, { tabIndex: 0, dir: 'ltr' });
  return made;
}
