// Text of models as paragraphs: fences of code, inline code, bold, headings and lists. Elements, never markup.
// What is not understood stays as it was written. Look at `prose`.

import { element } from '../../page.js';
import { visible, visibleLines } from '../../visible.js';

/** Text longer than this is shown up to here at first. */
export const PROSE_LENGTH_MAX = 40_000;

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

/** The elements of a text. */
export function prose(text) {
  const made = [];
  let lines = [];
  const flush = () => {
    // A list may begin right below a sentence.
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
