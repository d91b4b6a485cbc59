// A command and its output: colours, search, following the end while it runs. Long output is shown by its end first.

import { element, setText } from '../../page.js';
import { visible } from '../../visible.js';
import { copyButton } from '../copy.js';
import { counted, size } from '../time.js';
import { classesOf, styledLines } from './ansi.js';

/** How much of the end is shown at first, and how much at most. */
const TAIL_LENGTH = 64_000;
const SHOWN_LENGTH_MAX = 4_000_000;
const LINES_SHOWN_MAX = 5000;
/** A longer line is cut; the command's artifact has all of it. */
const LINE_LENGTH_MAX = 2000;
/** How often output that grows is drawn. */
const REDRAW_MS = 120;

let fields = 0;

/** Bytes that are no text, as text with signs where they are none. */
function decoded(data) {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)));
  } catch {
    return data;
  }
}

/** The pieces of the output from its end, as many as fit. */
function tail(output, lengthMax) {
  const pieces = [];
  let length = 0;
  let cut = false;
  for (let at = output.length - 1; at >= 0; at -= 1) {
    const piece = output[at];
    const text = piece.missing_bytes ? `[${size(piece.missing_bytes)} missing]\n` : piece.encoding ? decoded(piece.data) : piece.text;
    if (length + text.length > lengthMax) {
      pieces.unshift({ stream: piece.stream, text: text.slice(text.length - (lengthMax - length)) });
      cut = true;
      break;
    }
    length += text.length;
    pieces.unshift({ stream: piece.stream, text });
  }
  return { pieces, cut };
}

const lengthOf = (output) => output.reduce((sum, { text, data }) => sum + (text ?? data ?? '').length, 0);

export class OutputPane {
  constructor() {
    fields += 1;
    this.command = element('pre', '', { className: 'command', dir: 'ltr', tabIndex: 0 });
    this.copy = copyButton('Copy the command', () => this.item.shell.argv.join(' '));
    this.pane = element('pre', '', { className: 'terminal', dir: 'ltr', tabIndex: 0 });
    this.pane.setAttribute('aria-label', 'Output');
    this.pane.setAttribute('role', 'group');
    this.search = element('input', undefined, { type: 'search', id: `search-${fields}`, autocomplete: 'off' });
    this.found = element('span', '', { className: 'quiet' });
    this.all = element('button', 'Show all', { type: 'button', className: 'quiet' });
    this.follow = element('input', undefined, { type: 'checkbox', id: `follow-${fields}`, checked: true });
    this.tools = element('div', [
      element('label', 'Search output', { htmlFor: this.search.id }), this.search, this.found,
      element('span', [this.follow, element('label', 'Follow', { htmlFor: this.follow.id })], { className: 'pair' }), this.all,
    ], { className: 'tools' });
    this.exit = element('p', '', { className: 'quiet' });
    this.node = element('div', [this.command, this.copy, this.tools, this.pane, this.exit], { className: 'shell part' });
    this.lengthMax = TAIL_LENGTH;
    this.drawn = -1;
    this.timer = null;
    this.hit = -1;
    this.search.addEventListener('input', () => this.mark(0));
    this.search.addEventListener('keydown', (press) => {
      if (press.key === 'Enter') this.mark(this.hit + (press.shiftKey ? -1 : 1));
    });
    this.all.addEventListener('click', () => {
      this.lengthMax = SHOWN_LENGTH_MAX;
      this.draw();
      this.pane.focus();
    });
  }

  show(item) {
    this.item = item;
    const { shell } = item;
    setText(this.command, visible(`$ ${shell.argv.join(' ')}`));
    this.command.hidden = shell.argv.length === 0;
    this.copy.hidden = this.command.hidden;
    const running = shell.exit_code === undefined && !item.ended_at;
    this.follow.parentElement.hidden = !running;
    setText(this.exit, visible(this.ending(shell)));
    if (!running) this.draw();
    else this.timer ??= setTimeout(() => this.draw(), this.drawn < 0 ? 0 : REDRAW_MS);
  }

  ending(shell) {
    if (shell.exit_code === undefined) return '';
    const words = [shell.exit_code === null ? `Terminated by ${shell.signal ?? 'a signal'}` : `Exit code ${shell.exit_code}`,
      `stdout ${size(shell.stdout_bytes ?? 0)}, stderr ${size(shell.stderr_bytes ?? 0)}`];
    if (shell.truncated) words.push('the output is incomplete');
    if (shell.left_open) words.push(`${shell.left_open.join(' and ')} stayed open`);
    return `${words.join('; ')}.`;
  }

  draw() {
    clearTimeout(this.timer);
    this.timer = null;
    const { output } = this.item.shell;
    const length = lengthOf(output);
    const key = length * 2 + (this.lengthMax > TAIL_LENGTH ? 1 : 0);
    if (key === this.drawn) return;
    this.drawn = key;
    const { pieces, cut } = tail(output, this.lengthMax);
    const rows = pieces.flatMap(({ stream, text }) => {
      const lines = styledLines(text);
      // The end of the last line is no line of its own.
      if (lines.at(-1).length === 0) lines.pop();
      return lines.map((spans) => line(spans, stream));
    });
    const kept = rows.slice(-LINES_SHOWN_MAX);
    this.pane.replaceChildren(...kept);
    this.pane.hidden = kept.length === 0;
    this.tools.hidden = kept.length === 0;
    this.all.hidden = !cut || this.lengthMax > TAIL_LENGTH;
    setText(this.all, `Show all of ${size(length)}`);
    if (this.search.value) this.mark(this.hit);
    else if (this.follow.checked) this.pane.scrollTop = this.pane.scrollHeight;
  }

  /** Marks the lines that have what is searched, and goes to one of them. */
  mark(wanted) {
    const needle = this.search.value.toLowerCase();
    const hits = [];
    for (const row of this.pane.children) {
      const hit = needle !== '' && row.textContent.toLowerCase().includes(needle);
      row.classList.toggle('hit', hit);
      row.classList.remove('here');
      if (hit) hits.push(row);
    }
    this.hit = hits.length === 0 ? -1 : (wanted + hits.length) % hits.length;
    setText(this.found, needle === '' ? '' : hits.length === 0 ? 'no matches' : `${this.hit + 1} of ${counted(hits.length, 'line')}`);
    if (hits.length === 0) return;
    hits[this.hit].classList.add('here');
    this.pane.scrollTop = hits[this.hit].offsetTop - this.pane.clientHeight / 2;
  }
}

function line(spans, stream) {
  let rest = LINE_LENGTH_MAX;
  const parts = [];
  for (const { text, style } of spans) {
    if (rest <= 0) break;
    const shown = visible(text.slice(0, rest));
    rest -= text.length;
    const names = classesOf(style);
    parts.push(names ? element('span', shown, { className: names }) : shown);
  }
  if (rest < 0) parts.push(' …');
  return element('div', [...parts, '\n'], { className: stream === 'stderr' ? 'err' : '' });
}
