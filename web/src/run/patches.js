// A change of files: the patches of it, in one column or side by side, and what may be done with each: apply or reject
// one that is proposed, revert one that is applied.

import { ask, element, setText, trouble, wellAgain } from '../../page.js';
import { said, visible } from '../../visible.js';
import { setSetting, setting } from '../settings.js';
import { count, counted } from '../time.js';
import { announce } from '../voice.js';
import { diffCounts, parseDiff, sideBySide } from './diff.js';
import { saver } from './pictures.js';

/** How many lines of a diff are drawn. */
const ROWS_SHOWN_MAX = 2000;

/** What a patch is after each of the actions. */
const DONE = { apply: 'applied', reject: 'rejected', revert: 'reverted' };
/** What may be done with a patch, by its status. */
const DOINGS = { proposed: [['apply', 'Apply'], ['reject', 'Reject']], applied: [['revert', 'Revert']] };

const TOOLS = { edit: 'Edit', file_write: 'Write', multi_edit: 'Multi-file edit', file: 'Change' };

export class PatchView {
  constructor(change, context) {
    this.context = context;
    this.title = element('h5');
    this.body = element('div');
    this.toggle = element('button', '', { type: 'button', className: 'quiet' });
    this.toggle.addEventListener('click', () => {
      setSetting('diff', setting('diff') === 'split' ? 'unified' : 'split');
      this.draw();
    });
    this.verbs = element('span', undefined, { className: 'doings' });
    this.by = element('span');
    this.doings = element('div', [this.toggle, this.verbs, this.by], { className: 'doings' });
    this.doings.hidden = true;
    this.node = element('div', [this.title, this.doings, this.body], { className: 'change part' });
    this.artifacts = [];
    this.load(change);
  }

  show(change) {
    this.change = change;
    const ended = this.context.fold().view.ending !== null;
    if (ended !== this.ended) {
      this.ended = ended;
      this.draw();
    }
    this.describe();
  }

  /** What was changed, and what became of it: by the run itself, or later, as its patches say. */
  describe() {
    const { change } = this;
    const paths = change.paths.length > 0 ? change.paths.join(', ') : counted(change.patches.length, 'file');
    const later = [...new Set(this.artifacts.map(statusOf))];
    const state = later.length === 1 ? later[0] : change.state;
    const words = later.length > 1 ? later.map((one) => `${this.artifacts.filter((artifact) => statusOf(artifact) === one).length} ${one}`).join(', ')
      : [state, change.reverted_by && `by ${change.reverted_by}`, change.reason].filter(Boolean).join(', ');
    this.title.replaceChildren(`${TOOLS[change.tool] ?? 'Change'} `, said(paths), ' ', element('span', visible(words), { className: `state-${state}` }));
    const undone = change.patches.length === 0;
    if (undone) setText(this.body, 'Cannot show this change: its patch has no id.');
  }

  async load({ patches }) {
    if (patches.length === 0) return;
    try {
      const answers = await Promise.all(patches.map((id) => ask(`/v1/artifacts/${encodeURIComponent(id)}`)));
      this.artifacts = answers.map(({ data }) => data);
      wellAgain('patch');
      this.draw();
    } catch (error) {
      if (error.status === undefined) trouble('patch', error);
      setText(this.body, visible(`Cannot load the patch: ${error.message}`));
    }
  }

  draw() {
    if (this.artifacts.length === 0) return;
    const split = setting('diff') === 'split';
    setText(this.toggle, split ? 'Show in one column' : 'Show side by side');
    this.doings.hidden = false;
    // A run that goes on may still change the file itself.
    this.verbs.replaceChildren(...(this.ended ? this.artifacts.flatMap((artifact) => this.buttons(artifact)) : []));
    this.describe();
    this.body.replaceChildren(...this.artifacts.map((artifact) => drawn(artifact, split)));
  }

  buttons(artifact) {
    const status = statusOf(artifact);
    const possible = Object.hasOwn(DOINGS, status) ? DOINGS[status] : [];
    return possible.map(([verb, words]) => {
      const path = artifact.target_path ?? artifact.name ?? artifact.id;
      const button = element('button', this.artifacts.length > 1 ? `${words} ${visible(path)}` : words, { type: 'button' });
      button.addEventListener('click', () => this.act(artifact, verb));
      return button;
    });
  }

  async act({ id }, verb) {
    try {
      const { data } = await ask(`/v1/artifacts/${encodeURIComponent(id)}/${verb}`, {});
      wellAgain('action');
      this.by.replaceChildren(element('a', `Show the run that ${DONE[verb]} it`, { href: `#${data.run_id}` }));
      announce(`${visible(data.artifact.target_path ?? id)}: ${visible(statusOf(data.artifact))}.`);
    } catch (error) {
      trouble('action', error);
    }
    // Whatever became of it is asked for, not guessed.
    this.toggle.focus();
    this.load({ patches: this.artifacts.map((artifact) => artifact.id) });
  }
}

/** What became of a patch, whichever run did it. */
const statusOf = (artifact) => (artifact.reverted_at ? 'reverted' : artifact.status);

function drawn(artifact, split) {
  const text = artifact.diff;
  if (typeof text !== 'string') {
    return element('p', ['The patch is too large to show. ', saver(artifact.id, 'Save the patch', 'change.diff')]);
  }
  return diffTable(text, split, artifact.target_path ?? artifact.name ?? '');
}

/** A diff as a table that can be read in cells, and seen in colours. */
export function diffTable(text, split, name) {
  const rows = parseDiff(text);
  const { added, removed } = diffCounts(rows);
  const shown = rows.slice(0, ROWS_SHOWN_MAX);
  const body = split ? sideBySide(shown).map(pairRow) : shown.map(plainRow);
  const columns = (split ? ['number', '', 'number', ''] : ['number', 'number', '']).map((className) => element('col', undefined, { className }));
  const table = element('table', [
    element('caption', [said(name), ` +${added} −${removed}`]), element('colgroup', columns),
    element('tbody', body),
  ], { className: `diff ${split ? 'split' : 'unified'}`, dir: 'ltr' });
  const box = element('div', table, { className: 'scroll', tabIndex: 0 });
  box.setAttribute('role', 'group');
  box.setAttribute('aria-label', `Changes in ${visible(name) || 'a file'}`);
  if (shown.length < rows.length) box.append(element('p', `Showing the first ${count(ROWS_SHOWN_MAX)} of ${counted(rows.length, 'line')}.`));
  return box;
}

const SIGNS = { del: '−', add: '+', same: ' ', note: '', hunk: '', file: '' };
const SPOKEN = { del: 'removed', add: 'added' };

function cell(row) {
  const sign = element('span', SIGNS[row.kind], { className: 'sign' });
  if (SPOKEN[row.kind]) {
    sign.ariaHidden = 'true';
    return element('td', [sign, element('span', `${SPOKEN[row.kind]}: `, { className: 'heard' }), element('code', visible(row.text))], { className: row.kind });
  }
  return element('td', [sign, element('code', visible(row.text))], { className: row.kind });
}

const number = (at) => element('td', at === undefined ? '' : String(at), { className: 'number' });

function plainRow(row) {
  if (['file', 'hunk', 'note'].includes(row.kind)) return element('tr', Object.assign(cell(row), { colSpan: 3 }));
  return element('tr', [number(row.left), number(row.right), cell(row)]);
}

function pairRow({ left, right, both }) {
  if (both) return element('tr', Object.assign(cell(both), { colSpan: 4 }));
  const side = (row, at) => (row ? [number(at), cell(row)] : [number(), element('td', '', { className: 'none' })]);
  return element('tr', [...side(left, left?.left), ...side(right, right?.right)]);
}
