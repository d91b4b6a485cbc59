// Text of models as paragraphs: fences of code, inline code, bold, headings and lists. Elements, never markup.
// What is not understood stays as it was written. Look at `prose`.

import { element } from '../../page.js';
import { visible, visibleLines } from '../../visible.js';

/** Text longer than this is shown up to here at first. */
export const PROSE_LENGTH_MAX = 40_000;
/** How many columns a table has at most. */
const CELLS_MAX = 50;

/** Parts of one paragraph: code and bold. */
function inline(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(/`([^`\n]{1,500})`|\*\*([^*\n]{1,500})\*\*/g)) {
    if (found.index > at) parts.push(visibleLines(text.slice(at, found.index)));
    parts.push(found[1] !== undefined ? element('code', visible(found[1]), { dir: 'ltr' }) : element('strong', visible(found[2])));
    at = found.index + found[0].length;
  }
  if (at < text.length) parts.push(visibleLines(text.slice(at)));
  return parts;
}

const isItem = (line) => /^\s{0,3}(?:[-*•]|\d{1,3}[.)])\s/.test(line);

function listOf(lines) {
  const ordered = /^\s*\d/.test(lines[0]);
  const items = [];
  for (const line of lines) {
    if (isItem(line)) items.push(line.replace(/^\s*(?:[-*•]|\d{1,3}[.)])\s+/, ''));
    else items[items.length - 1] += `\n${line.trim()}`;
  }
  const list = element(ordered ? 'ol' : 'ul', items.map((item) => element('li', inline(item), { dir: 'auto' })));
  if (ordered) list.start = Number(/\d+/.exec(lines[0])[0]);
  return list;
}

function paragraph(lines) {
  const heading = lines.length === 1 && /^#{1,6}\s+(.*)$/.exec(lines[0]);
  // Not a heading of the page: the model's text must not change its outline.
  if (heading) return element('p', element('strong', inline(heading[1])), { className: 'says-heading', dir: 'auto' });
  if (isItem(lines[0])) return listOf(lines);
  return element('p', inline(lines.join('\n')), { dir: 'auto' });
}

/** The cells of a line of a table, or `null`. A bar in code, or one that is escaped, ends no cell. */
function cellsOf(line) {
  if (line === undefined || !line.includes('|')) return null;
  const inner = line.trim().replace(/^\|/, '').replace(/(?<!\\)\|$/, '');
  return (inner.match(/(?:`[^`]*`|\\\||[^|])*(?:\||$)/g) ?? []).slice(0, CELLS_MAX).map((cell) => cell.replace(/\|$/, '').replaceAll('\\|', '|').trim())
    .filter((_cell, at, all) => at < all.length - 1 || inner.endsWith('|') || all[at] !== '');
}

/** How the columns are aligned, if the line is the second one of a table. */
function columnsOf(line) {
  const cells = cellsOf(line);
  if (!cells || cells.length === 0 || !cells.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return cells.map((cell) => (/^:-*:$/.test(cell) ? 'center' : cell.endsWith(':') ? 'end' : ''));
}

/** A table of Markdown; cells that are missing are empty, and there are no more than the head has. */
function tableOf(lines, columns) {
  const row = (line, name) => {
    const cells = cellsOf(line) ?? [line];
    return element('tr', columns.map((align, at) => element(name, inline(cells[at] ?? ''), { className: align, dir: 'auto', ...(name === 'th' ? { scope: 'col' } : {}) })));
  };
  const table = element('table', [element('thead', row(lines[0], 'th')), element('tbody', lines.slice(2).map((line) => row(line, 'td')))]);
  const box = element('div', table, { className: 'scroll', tabIndex: 0 });
  box.setAttribute('role', 'group');
  box.setAttribute('aria-label', 'Table');
  return box;
}

/** The elements of a text. */
export function prose(text) {
  const made = [];
  let lines = [];
  const flush = () => {
    // A table or a list may begin right below a sentence.
    const head = lines.findIndex((line, index) => cellsOf(line) && columnsOf(lines[index + 1])?.length === cellsOf(line).length);
    if (head >= 0) {
      const table = lines.slice(head);
      lines = lines.slice(0, head);
      flush();
      made.push(tableOf(table, columnsOf(table[1])));
      return;
    }
    const at = lines.findIndex((line, index) => index > 0 && isItem(line) && !isItem(lines[0]));
    if (at > 0) made.push(paragraph(lines.slice(0, at)), paragraph(lines.slice(at)));
    else if (lines.length > 0) made.push(paragraph(lines));
    lines = [];
  };
  let fence = null;
  for (const line of text.split('\n')) {
    if (fence) {
      if (line.trim() === '```') {
        made.push(code(fence));
        fence = null;
      } else {
        fence.push(line);
      }
    } else if (/^\s{0,3}```/.test(line)) {
      flush();
      fence = [];
    } else if (line.trim() === '') {
      flush();
    } else {
      lines.push(line);
    }
  }
  if (fence) made.push(code(fence));
  flush();
  return made;
}

const code = (lines) => element('pre', element('code', visibleLines(lines.join('\n'))), { dir: 'ltr', tabIndex: 0, className: 'code' });
