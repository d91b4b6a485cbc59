// What happened when: turns, calls, waits for people and gaps, as a table with a bar for each. Read or looked at, it is
// the same rows.

import { element } from '../../page.js';
import { said, visible } from '../../visible.js';
import { count, counted, duration, exactly } from '../time.js';
import { announce } from '../voice.js';
import { STATES, callLine, missingWords, promptWords } from './words.js';

/** How many rows the table has at most. Of more, neighbours share a row. */
const ROWS_MAX = 200;
/** How many rows the closest zoom shows. */
const ROWS_MIN = 10;

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

const KINDS = ['turn', 'call', 'wait', 'gap'];

/** Rows as the table shows them: neighbours as one row when there are too many, with their range. */
export function groupedRows(rows, first) {
  const each = Math.ceil(rows.length / ROWS_MAX) || 1;
  if (each === 1) return rows;
  const groups = [];
  for (let at = 0; at < rows.length; at += each) {
    const some = rows.slice(at, at + each);
    const counts = KINDS.map((kind) => [some.filter((row) => row.kind === kind).length, kind]).filter(([many]) => many > 0);
    const isOpen = some.some(({ to }) => to === null);
    groups.push({ kind: 'group', name: counts.map(([many, name]) => counted(many, name)).join(', '), from: some[0].from,
      to: isOpen ? null : some.reduce((latest, { to }) => (to > latest ? to : latest), some[0].to), sequence: some[0].sequence, outcome: '',
      range: { first: first + at, size: some.length } });
  }
  return groups;
}

/** The range after a step. Rows are counted from 0; `null` is the newest rows, also when new ones come. */
export function zoomed(range, step, all) {
  const { first, size } = range ?? newest(all);
  const place = (from, many) => {
    const length = Math.min(Math.max(many, ROWS_MIN), all);
    return { first: Math.min(Math.max(Math.round(from), 0), all - length), size: length };
  };
  switch (step) {
    case 'in': return place(first + size / 4, Math.ceil(size / 2));
    case 'out': return place(first - size / 2, size * 2);
    case 'earlier': return place(first - size / 2, size);
    case 'later': return place(first + size / 2, size);
    case 'whole': return place(0, all);
    default: return null;
  }
}

function newest(all) {
  const size = Math.min(all, ROWS_MAX);
  return { first: all - size, size };
}

const STEPS = { in: 'Zoom in', out: 'Zoom out', earlier: 'Earlier', later: 'Later', whole: 'Whole run', newest: 'Newest' };
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
    this.range = null;
    this.buttons = Object.fromEntries(Object.entries(STEPS).map(([step, words]) => {
      const button = element('button', words, { type: 'button' });
      button.addEventListener('click', () => this.show(zoomed(this.range, step, this.all)));
      return [step, button];
    }));
    this.steps = element('div', Object.values(this.buttons), { className: 'actions' });
    this.steps.setAttribute('role', 'group');
    this.steps.setAttribute('aria-label', 'Range of the timeline');
    this.node = element('div', [this.steps, this.note, this.scroll]);
  }

  /** Shows a range because the user chose it. */
  show(range) {
    this.range = range;
    this.update();
    announce(this.note.textContent);
  }

  update() {
    const all = timelineRows(this.context.fold().view);
    this.all = all.length;
    const { first, size } = this.range ?? newest(all.length);
    const rows = groupedRows(all.slice(first, first + size), first);
    this.note.textContent = all.length === 0 ? 'No turns, calls or waits yet.'
      : `Rows ${count(first + 1)} to ${count(first + size)} of ${count(all.length)}${rows.length < size ? ', several in one row' : ''}.`;
    this.scroll.hidden = all.length === 0;
    this.steps.hidden = all.length <= ROWS_MIN;
    this.enable(first, size);
    const start = Date.parse(rows[0]?.from);
    const end = Math.max(...rows.map(({ from, to }) => Date.parse(to ?? from)), start + 1);
    this.body.replaceChildren(...rows.map((row) => this.row(row, start, end - start)));
  }

  /** A button that would change nothing is marked as disabled, but keeps the focus. */
  enable(first, size) {
    const isLast = first + size === this.all;
    const useless = { in: size <= ROWS_MIN, out: size === this.all, earlier: first === 0, later: isLast, whole: size === this.all, newest: this.range === null };
    for (const [step, button] of Object.entries(this.buttons)) button.ariaDisabled = String(useless[step]);
  }

  row({ kind, name, from, to, sequence, outcome, range }, start, length) {
    const link = range === undefined ? element('a', said(name), { href: this.context.linkTo(sequence) })
      : element('button', name, { type: 'button', className: 'quiet', onclick: () => this.show(range) });
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
