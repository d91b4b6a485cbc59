// What happened when: turns, calls, waits for people and gaps, as a table with a bar for each. Read or looked at, it is
// the same rows.

import { element } from '../../page.js';
import { said, visible } from '../../visible.js';
import { count, counted, duration, exactly } from '../time.js';
import { STATES, callLine, missingWords, promptWords } from './words.js';

/** How many rows there are at most; the newest. */
const ROWS_MAX = 1000;

/** The rows of a view: what, from when, to when, with which outcome. */
export function timelineRows(view) {
  const rows = [];
  for (const turn of view.turns) {
    rows.push({ kind: 'turn', name: `Turn ${turn.index + 1}`, from: turn.started_at, to: turn.ended_at, sequence: turn.sequence,
      outcome: turn.failure?.code ?? turn.stop_reason ?? 'running' });
  }
  for (const item of view.items) {
    if (item.kind === 'call') {
      rows.push({ kind: 'call', name: `${item.name} ${callLine(item)}`.slice(0, 120), from: item.invoked_at ?? item.at, to: item.ended_at ?? null,
        sequence: item.sequence, outcome: STATES[item.state] ?? item.state });
    } else if (item.kind === 'prompt') {
      const words = promptWords(item);
      rows.push({ kind: 'wait', name: `${words.name}: ${words.question}`.slice(0, 120), from: item.at, to: item.answered_at ?? null,
        sequence: item.sequence, outcome: item.state === 'pending' ? 'waiting' : item.state });
    } else if (item.kind === 'gap') {
      rows.push({ kind: 'gap', name: missingWords(item.first_missing, item.last_missing).slice(0, -1), from: item.at, to: item.at,
        sequence: item.sequence, outcome: '' });
    }
  }
  for (const gap of view.gaps.filter(({ since }) => since)) {
    rows.push({ kind: 'gap', name: 'No events received', from: gap.since, to: gap.until, sequence: gap.sequence, outcome: '' });
  }
  return rows.sort((one, other) => one.sequence - other.sequence);
}

const HEADS = ['Item', 'Start', 'Duration', 'Outcome', 'Time'];

export class TimelineView {
  constructor(context) {
    this.context = context;
    this.body = element('tbody');
    this.note = element('p', '', { className: 'quiet' });
    const table = element('table', [
      element('caption', 'Turns, calls, waits and gaps, in order'),
      element('thead', element('tr', HEADS.map((name, at) => element('th', name, { scope: 'col', ariaHidden: at === 4 ? 'true' : null })))), this.body,
    ], { className: 'figures-table timeline' });
    this.scroll = element('div', table, { className: 'scroll', tabIndex: 0 });
    this.scroll.setAttribute('role', 'region');
    this.scroll.setAttribute('aria-label', 'Timeline');
    this.node = element('div', [this.note, this.scroll]);
  }

  update() {
    const { view } = this.context.fold();
    const all = timelineRows(view);
    const rows = all.slice(-ROWS_MAX);
    this.note.textContent = all.length === 0 ? 'No turns, calls or waits yet.'
      : rows.length < all.length ? `Showing the newest ${count(ROWS_MAX)} of ${counted(all.length, 'row')}.` : '';
    this.scroll.hidden = all.length === 0;
    const start = Date.parse(rows[0]?.from);
    const end = Math.max(...rows.map(({ from, to }) => Date.parse(to ?? from)), start + 1);
    this.body.replaceChildren(...rows.map((row) => this.row(row, start, end - start)));
  }

  row({ kind, name, from, to, sequence, outcome }, start, length) {
    const link = element('a', said(name), { href: this.context.linkTo(sequence) });
    const bar = element('span', undefined, { className: `bar bar-${kind}` });
    const begin = ((Date.parse(from) - start) / length) * 100;
    const share = to === null ? 100 - begin : ((Date.parse(to) - Date.parse(from)) / length) * 100;
    bar.style.insetInlineStart = `${Math.min(Math.max(begin, 0), 99.5)}%`;
    bar.style.inlineSize = `${Math.min(Math.max(share, 0.5), 100)}%`;
    const track = element('td', element('span', bar, { className: 'track' }), { ariaHidden: 'true' });
    const took = to === null ? 'in progress' : duration(Date.parse(to) - Date.parse(from));
    return element('tr', [element('th', link, { scope: 'row' }), element('td', exactly(from)), element('td', took),
      element('td', visible(outcome)), track], { className: `row-${kind}` });
  }
}
