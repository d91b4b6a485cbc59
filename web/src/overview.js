// The first page: what waits for people, what runs, what went wrong, and what it cost today.
// Everything is counted from the server's lists; how far they reach is said. Look at `Overview`.

import { ask, byId, element, trouble, wellAgain } from '../page.js';
import { beginning, said, visible } from '../visible.js';
import { playDemo } from './demo.js';
import { agentOf, costOf, titleOf } from './runs.js';
import { count, duration, isToday, money, moment } from './time.js';

/// How many of the newest runs are counted.
const RUNS_COUNTED = 200;
const PROMPTS_SHOWN = 50;
const ROWS_SHOWN = 15;
/// Counted anew at most this often while things happen.
const REFRESH_MS = 2000;

/// What the runs of a day cost, as far as that is known: agents of other makers seldom report it.
function costToday(runs) {
  const known = runs.filter((run) => costOf(run) !== '');
  const sum = money(known.reduce((all, run) => all + (run.cost_micros_usd ?? 0), 0));
  if (known.length === runs.length) return ['Cost today', sum, ''];
  return ['Cost today, where reported', known.length > 0 ? sum : 'unknown', ''];
}

/** @type {Array<[string, string, (thing: any) => string]>} */
const PROMPTS = [
  ['approvals', 'Approval', ({ summary }) => summary],
  ['clarifications', 'Question', ({ question }) => question],
  ['handoffs', 'Handoff', ({ summary_terse: terse, reason }) => terse ?? reason],
];

export class Overview {
  constructor() {
    this.shown = false;
    this.timer = null;
    this.box = byId('overview');
    this.counts = element('dl', undefined, { className: 'counts' });
    this.waiting = section('Waiting for a person', 'No prompts are waiting.');
    this.live = section('Active runs', 'No active runs.');
    this.failed = section('Failed today', 'No failed runs today.');
    this.note = element('p', '', { className: 'quiet' });
    const demo = element('button', 'Play the demo run', { type: 'button' });
    demo.addEventListener('click', () => this.play());
    this.first = element('p', ['No runs yet. Start one with “New task”, or watch a demo: ', demo], { hidden: true });
    this.box.replaceChildren(this.counts, this.first, this.waiting.node, this.live.node, this.failed.node, this.note);
  }

  show(shown) {
    this.shown = shown;
    this.box.hidden = !shown;
    clearTimeout(this.timer);
    this.timer = null;
    if (shown) this.load();
  }

  async play() {
    try {
      location.hash = `#${await playDemo((error) => trouble('demo', error))}`;
      wellAgain('demo');
    } catch (error) {
      trouble('demo', error);
    }
  }

  /// Something happened; it is counted soon.
  stale() {
    if (!this.shown) return;
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.load();
    }, REFRESH_MS);
  }

  async load() {
    try {
      const [runs, ...lists] = await Promise.all([ask(`/v1/runs?limit=${RUNS_COUNTED}`),
        ...PROMPTS.map(([path]) => ask(`/v1/${path}?status=pending&limit=${PROMPTS_SHOWN}`))]);
      if (!this.shown) return;
      this.draw(runs, lists.map(({ data }) => data));
      wellAgain('overview');
    } catch (error) {
      if (this.shown) trouble('overview', error);
    }
  }

  draw({ data: runs, has_more: more }, lists) {
    const today = runs.filter(({ created_at: at }) => isToday(at));
    const endedToday = (status) => runs.filter((run) => run.status === status && isToday(run.ended_at ?? run.created_at));
    const live = runs.filter(({ status }) => ['queued', 'running', 'waiting'].includes(status));
    const prompts = lists.flatMap((list, at) => list.map((thing) => ({ kind: PROMPTS[at][1], words: PROMPTS[at][2](thing), thing })));
    const figures = [['Waiting for a person', count(prompts.length), prompts.length > 0 ? 'attention' : ''], ['Active', count(live.length), ''],
      ['Finished today', count(endedToday('finished').length), ''],
      ['Failed today', count(endedToday('failed').length), endedToday('failed').length > 0 ? 'bad' : ''],
      costToday(today)];
    this.counts.replaceChildren(...figures.map(([name, words, className]) =>
      element('div', [element('dt', name), element('dd', words)], { className })));
    const byRun = new Map(runs.map((run) => [run.id, run]));
    this.first.hidden = runs.length > 0;
    this.fill(this.waiting, prompts, ({ kind, words, thing }) => [
      element('a', [`${kind}: `, said(beginning(String(words ?? ''), 160))], { href: `#${thing.run_id}` }),
      visible(byRun.has(thing.run_id) ? titleOf(byRun.get(thing.run_id)) : thing.run_id), visible(thing.risk_level ?? thing.urgency_for_handoff ?? ''),
      thing.expires_at ? `${duration(Math.max(Date.parse(thing.expires_at) - Date.now(), 0))} left` : 'no deadline',
    ], ['Prompt', 'Run', 'Risk', 'Deadline']);
    this.fill(this.live, live, (run) => this.runRow(run), ['Run', 'Agent', 'Status', 'Since', 'Cost']);
    this.fill(this.failed, endedToday('failed'), (run) => [
      element('a', said(titleOf(run)), { href: `#${run.id}` }), visible(run.ending ?? ''), moment(run.ended_at), visible(beginning(run.message ?? '', 160)),
    ], ['Run', 'Code', 'Ended', 'Message']);
    this.note.textContent = more ? `Based on the newest ${RUNS_COUNTED} runs.` : '';
  }

  runRow(run) {
    return [element('a', said(titleOf(run)), { href: `#${run.id}` }), visible(agentOf(run)), visible(run.needs_attention ? 'waiting for a person' : run.status),
      moment(run.started_at ?? run.created_at), costOf(run) || 'unknown'];
  }

  fill({ node, scroll, body, head, more, empty }, things, row, names) {
    // Without any run the page offers a first one instead of empty lists.
    node.hidden = things.length === 0 && !this.first.hidden;
    scroll.hidden = things.length === 0;
    if (head.children.length === 0) head.append(element('tr', names.map((name) => element('th', name, { scope: 'col' }))));
    const rows = things.slice(0, ROWS_SHOWN).map((thing) => {
      const [first, ...others] = row(thing);
      return element('tr', [element('th', first, { scope: 'row' }), ...others.map((cell) => element('td', cell))]);
    });
    // The one with the focus keeps it: by its address, since the rows are made anew.
    const focused = body.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
    body.replaceChildren(...rows);
    if (focused) body.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    more.hidden = things.length > 0 && things.length <= ROWS_SHOWN;
    more.textContent = things.length === 0 ? empty : `${things.length - ROWS_SHOWN} more; see the list of runs.`;
  }
}

let sections = 0;

/// A list under a heading, and what it says while it is empty.
function section(name, empty) {
  sections += 1;
  const title = element('h3', name, { id: `overview-${sections}` });
  const head = element('thead');
  const body = element('tbody');
  const table = element('table', [head, body], { className: 'figures-table' });
  table.setAttribute('aria-labelledby', title.id);
  const more = element('p', '', { className: 'quiet', hidden: true });
  const scroll = element('div', table, { className: 'scroll' });
  const node = element('section', [title, scroll, more], { hidden: true });
  node.setAttribute('aria-labelledby', title.id);
  return { node, scroll, head, body, more, empty };
}
