// What a run changed in its copy of a folder: the files, one diff, and what can be done with them. See `ChangesView`.

import { ask, element, setText, trouble, wellAgain } from '../../page.js';
import { said, visible, visibleLines } from '../../visible.js';
import { copyButton } from '../copy.js';
import { confirm } from '../dialogs.js';
import { onSetting, setSetting, setting } from '../settings.js';
import { counted } from '../time.js';
import { announce } from '../voice.js';
import { diffTable } from './patches.js';

const STATES = {
  open: '', mergeable: 'both changed, will be merged', applied: 'applied', conflict: 'conflict: the folder has changed in the same place',
};

/** The parts of a diff, by the path of their file. */
function diffsByPath(diff, changes) {
  const headers = new Map(changes.map(({ path }) => [`diff --git a/${path} b/${path}`, path]));
  const parts = new Map();
  let path = null;
  for (const line of diff.split('\n')) {
    if (line.startsWith('diff --git ')) {
      path = headers.get(line) ?? line.slice('diff --git '.length);
      parts.set(path, []);
    }
    parts.get(path)?.push(line);
  }
  return parts;
}

export class ChangesView {
  constructor(run) {
    this.run = run;
    this.isStale = true;
    this.summary = element('p');
    this.list = element('ul', undefined, { className: 'changed-files' });
    this.toggle = this.button('', () => setSetting('diff', setting('diff') === 'split' ? 'unified' : 'split'));
    this.all = this.button('Apply all', () => this.apply([]));
    this.selected = this.button('Apply selected files', () => this.apply(this.selectedPaths()));
    this.discardAll = this.button('Discard …', () => this.discard());
    this.branch = element('input', undefined, { type: 'text', maxLength: 256, autocomplete: 'off', spellcheck: false, placeholder: 'none: change the files' });
    this.mark = element('input', undefined, { type: 'checkbox' });
    this.command = element('code', '', { dir: 'ltr' });
    this.controls = element('div', [
      element('label', ['Branch ', this.branch]),
      this.markLabel = element('label', [this.mark, ' Write both versions of conflicting files between conflict markers']),
      element('div', [this.all, this.selected, this.discardAll, this.toggle], { className: 'actions' }),
      element('p', ['In a terminal: ', this.command, ' ', copyButton('Copy command', () => this.commandText())]),
    ], { className: 'apply-form' });
    this.diffs = element('div');
    this.node = element('section', [element('h3', 'Changes'), this.summary, this.list, this.controls, this.diffs], { className: 'changes' });
    this.controls.hidden = true;
    this.branch.addEventListener('input', () => this.showCommand());
    onSetting((name) => {
      if (name === 'diff' && this.changes) this.drawDiffs();
    });
  }

  button(words, act) {
    const made = element('button', words, { type: 'button' });
    made.addEventListener('click', act);
    return made;
  }

  /** The run as the server lists it: another status may mean other changes. */
  describe({ status, workspace_mode: mode }) {
    if (status !== this.status) this.isStale = true;
    this.status = status;
    this.isCopy = mode === 'clone';
    if (this.node.isConnected) this.update();
  }

  update() {
    if (this.isCopy === false) setText(this.summary, 'The run did not work in a copy of a folder.');
    if (!this.isStale || !this.isCopy) return;
    this.isStale = false;
    this.load();
  }

  async load() {
    try {
      const { data } = await ask(`/v1/runs/${this.run}/changes`);
      wellAgain('changes');
      this.draw(data);
    } catch (error) {
      this.changes = null;
      this.controls.hidden = true;
      this.list.replaceChildren();
      this.diffs.replaceChildren();
      setText(this.summary, visible(`No changes to show: ${error.message}.`));
    }
  }

  draw(changes) {
    this.changes = changes;
    const { count, source, path, ignored, active_run_id: active } = changes;
    const isOpen = changes.changes.filter(({ state }) => state !== 'applied');
    const words = count === 0 ? `Nothing to apply: the copy has the same files as ${source}.` : `${counted(count, 'path')} changed in a copy of ${source}; ${isOpen.length === 0 ? 'all are applied' : `${isOpen.length} not applied`}.`;
    const more = [
      changes.changes.length < count && `Showing the first ${counted(changes.changes.length, 'path')}.`,
      ignored > 0 && `${counted(ignored, 'path')} ignored by git ${ignored === 1 ? 'stays' : 'stay'} in the copy ${path}.`,
      active && `${active} is still working there. Apply when it has ended.`,
    ];
    setText(this.summary, visible([words, ...more].filter(Boolean).join(' ')));
    const selected = new Set(this.selectedPaths());
    this.list.replaceChildren(...changes.changes.map((change) => this.item(change, selected.has(change.path))));
    this.controls.hidden = isOpen.length === 0 && changes.changes.length >= count;
    for (const button of [this.all, this.selected, this.discardAll]) button.disabled = Boolean(active);
    this.markLabel.hidden = !isOpen.some(({ conflict }) => conflict);
    this.showCommand();
    this.drawDiffs();
  }

  item(change, isSelected) {
    const isApplied = change.state === 'applied';
    const box = element('input', undefined, { type: 'checkbox', disabled: isApplied, checked: isSelected && !isApplied, value: change.path });
    box.addEventListener('change', () => this.showCommand());
    const kind = change.kind === 'file' ? change.change : `${change.change} ${change.kind}`;
    const notes = [STATES[change.state] ?? change.state, !isApplied && change.executed_by && `executed by ${change.executed_by}: read it before you apply it`].filter(Boolean);
    const label = element('label', [box, ' ', said(change.path), ` ${kind}`]);
    return element('li', notes.length > 0 ? [label, ' ', element('span', visible(notes.join('; ')), { className: `state-${change.state}` })] : label);
  }

  selectedPaths() {
    return [...this.list.querySelectorAll('input:checked')].map(({ value }) => value);
  }

  drawDiffs() {
    const { changes, diff, diff_cut: isCut } = this.changes;
    const isSplit = setting('diff') === 'split';
    setText(this.toggle, isSplit ? 'Show in one column' : 'Show side by side');
    const parts = diffsByPath(diff, changes);
    const tables = [...parts].map(([path, lines]) => diffTable(lines.slice(1).join('\n'), isSplit, path));
    const conflicts = changes.filter(({ conflict }) => conflict).map(({ path, conflict }) => element('section', [
      element('h4', ['Conflict in ', said(path)]),
      element('p', 'Between the markers: “ours” is the folder now, “original” the file as it was copied, “theirs” the file of the run.'),
      element('pre', visibleLines(conflict), { tabIndex: 0, dir: 'ltr' }),
    ]));
    const cut = isCut ? [element('p', 'The diff is cut. The copy has all changes.')] : [];
    this.diffs.replaceChildren(...conflicts, ...tables, ...cut);
  }

  commandText() {
    const quote = (text) => (/^[\w./@:+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
    const branch = this.branch.value.trim();
    return ['recount apply', this.run, ...this.selectedPaths().map(quote), ...(branch ? ['--branch', quote(branch)] : [])].join(' ');
  }

  showCommand() {
    const { length } = this.selectedPaths();
    setText(this.command, visible(this.commandText()));
    setText(this.selected, length === 0 ? 'Apply selected files' : `Apply ${counted(length, 'selected path')}`);
    this.selected.disabled = length === 0 || Boolean(this.changes?.active_run_id);
  }

  async apply(paths) {
    const shown = this.changes.changes.filter(({ path, state }) => state !== 'applied' && (paths.length === 0 || paths.some((selected) => path === selected || path.startsWith(`${selected}/`))));
    const executed = shown.filter(({ executed_by: program }) => program);
    if (executed.length > 0) {
      const names = executed.map(({ path, executed_by: program }) => `${path} (${program})`).join(', ');
      const yes = await confirm('Apply files that other programs execute?', visible(`Read them first: ${names}.`), 'Apply', 'Do not apply');
      if (!yes) return;
    }
    const branch = this.branch.value.trim();
    const body = { paths, conflicts: this.mark.checked ? 'mark' : 'skip', shown_digest: this.changes.digest, ...(branch ? { branch } : {}) };
    try {
      const { data } = await ask(`/v1/runs/${this.run}/apply`, body);
      wellAgain('action');
      const left = data.changes.filter(({ state }) => state === 'conflict').length;
      const where = data.branch ? `Committed to the branch ${data.branch}.` : `Applied to ${data.source}.`;
      announce(visible(left > 0 ? `${where} ${counted(left, 'conflict')} not applied.` : where));
    } catch (error) {
      trouble('action', error);
    }
    await this.load();
    this.toggle.focus();
  }

  async discard() {
    const words = `Deletes the copy ${this.changes.path} with all changes in it. This cannot be undone.`;
    if (!await confirm('Discard the changes?', visible(words), 'Discard', 'Keep')) return;
    try {
      await ask(`/v1/runs/${this.run}/changes`, undefined, 'DELETE');
      wellAgain('action');
      announce('The changes were discarded.');
    } catch (error) {
      trouble('action', error);
    }
    await this.load();
  }
}
