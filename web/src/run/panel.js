// Beside the transcript: the todo list, the facts of the run, where it comes from and what came of it.

import { element } from '../../page.js';
import { said, visible } from '../../visible.js';
import { copyButton } from '../copy.js';
import { costOf, kindOf } from '../runs.js';
import { count, moment } from '../time.js';
import { modeWords } from './words.js';

/** The same as in the style sheet. */
const SMALL = '(max-width: 60rem), (max-height: 31.99rem)';

const MARKS = { completed: '✓', in_progress: '▸', pending: '·' };
const SPOKEN = { completed: 'done', in_progress: 'in progress', pending: 'to do' };

export class Panel {
  constructor() {
    this.todos = element('section', undefined, { className: 'todos', hidden: true });
    // On a small screen what happens comes first.
    this.list = element('dl', undefined, { className: 'facts' });
    // Made once: a button that is replaced loses the focus, and shows no longer that it has copied.
    const copies = element('p', [copyButton('Copy run id', () => this.run.id), copyButton('Copy link', () => `${location.origin}/#${this.run.id}`)]);
    this.facts = element('details', [element('summary', element('h3', 'Details')), this.list, copies], { className: 'about', open: !matchMedia(SMALL).matches });
    this.lineage = element('section', undefined, { hidden: true });
    this.node = element('aside', [this.todos, this.facts, this.lineage], { className: 'panel' });
    this.node.setAttribute('aria-label', 'About this run');
    this.shownTodos = null;
  }

  /** The run as the server lists it. */
  show(run) {
    const rows = [['Run', run.id], ['Kind', run.driver === 'external' ? 'recorded' : kindOf(run)],
      ['Agent', [run.agent_name, run.agent_version].filter(Boolean).join(' ')], ['Recorded from', run.source ?? ''], ['Model', [run.provider, run.model].filter(Boolean).join('/')],
      ['Started', moment(run.started_at ?? run.created_at)], ['Ended', run.ended_at && moment(run.ended_at)],
      ['Cost', costOf(run) || 'unknown'], ['Tokens', run.input_tokens ? `${count(run.input_tokens)} in, ${count(run.output_tokens)} out` : ''],
      ['Turns', run.turns ? count(run.turns) : ''], ['Folder', run.workspace_path && `${run.workspace_path}${run.workspace_mode ? ` (${modeWords(run.workspace_mode)})` : ''}`]];
    this.run = run;
    this.list.replaceChildren(...rows.filter(([, words]) => words).map(([name, words]) => element('div', [element('dt', name), element('dd', said(words))])));
    const links = [];
    if (run.task_id) links.push(element('li', element('a', 'All runs of this task', { href: `#?task_id=${encodeURIComponent(run.task_id)}` })));
    if (run.session_id) links.push(element('li', element('a', 'All runs of this session', { href: `#?session_id=${encodeURIComponent(run.session_id)}` })));
    if (run.prior_run_id) links.push(element('li', element('a', 'Previous run', { href: `#${run.prior_run_id}` })));
    (run.successor_run_ids ?? []).forEach((id, at, all) =>
      links.push(element('li', element('a', all.length > 1 ? `Next run (${all.length - at})` : 'Next run', { href: `#${id}` }))));
    this.lineage.hidden = links.length === 0;
    this.lineage.replaceChildren(element('h3', 'Related runs'), element('ul', links));
  }

  /** The todo list as the fold has it. */
  update({ todos }) {
    if (todos === this.shownTodos) return;
    this.shownTodos = todos;
    this.todos.hidden = !todos || todos.list.length === 0;
    if (this.todos.hidden) return;
    const done = todos.list.filter(({ status }) => status === 'completed').length;
    const items = todos.list.map(({ content, status }) => {
      const mark = element('span', MARKS[status] ?? '?', { className: 'mark' });
      mark.ariaHidden = 'true';
      const text = element('span', [said(String(content)), element('span', ` (${SPOKEN[status] ?? visible(String(status))})`, { className: 'heard' })]);
      return element('li', [mark, text], { className: `todo-${Object.hasOwn(MARKS, status) ? status : 'pending'}` });
    });
    this.todos.replaceChildren(element('h3', `To do: ${done} of ${todos.list.length} done`), element('ol', items));
  }
}
