// What searches, reads and requests found, each in a form that is quick to read.

import { element } from '../../page.js';
import { said, visible } from '../../visible.js';
import { count, counted, duration, size } from '../time.js';
import { saver } from './pictures.js';

/** How many matches are shown; the call's output has the others. */
const MATCHES_SHOWN_MAX = 500;

const rest = (shown, all, truncated) => {
  const words = shown < all ? [`Showing ${count(shown)} of ${counted(all, 'match', 'matches')}.`] : [];
  if (truncated) words.push('The search stopped at a limit.');
  return words.length > 0 ? [element('p', words.join(' '), { className: 'quiet' })] : [];
};

/** Lines by file. */
export function grepPart({ pattern, matches = [], match_count: all = matches.length, truncated, files_searched: files }) {
  const shown = matches.slice(0, MATCHES_SHOWN_MAX);
  const box = element('div', element('p', [all === 0 ? 'No matches for ' : `${counted(all, 'match', 'matches')} for `, element('code', visible(pattern)),
    files ? ` in ${counted(files, 'file')}` : '']), { className: 'part' });
  const byFile = new Map();
  for (const match of shown) {
    if (!byFile.has(match.path)) byFile.set(match.path, []);
    byFile.get(match.path).push(match);
  }
  for (const [path, lines] of byFile) {
    const rows = lines.map(({ line, text }) => element('tr', [
      element('th', String(line), { scope: 'row' }), element('td', element('code', visible(String(text).slice(0, 500)), { dir: 'ltr' })),
    ]));
    const table = element('table', [element('caption', said(String(path))), element('tbody', rows)], { className: 'matches' });
    box.append(table);
  }
  box.append(...rest(shown.length, all, truncated));
  return box;
}

export function globPart({ pattern, matches = [], match_count: all = matches.length, truncated }) {
  const shown = matches.slice(0, MATCHES_SHOWN_MAX);
  const list = element('ul', shown.map((path) => element('li', element('code', visible(path), { dir: 'ltr' }))), { className: 'paths' });
  return element('div', [element('p', [all === 0 ? 'No files match ' : all === 1 ? '1 file matches ' : `${counted(all, 'file')} match `, element('code', visible(pattern))]), list,
    ...rest(shown.length, all, truncated)], { className: 'part' });
}

export function readPart({ path, lines, size_bytes: bytes, snippet_artifact_id: id, truncated }) {
  const words = [Number.isFinite(lines) ? counted(lines, 'line') : '', Number.isFinite(bytes) ? size(bytes) : '', truncated ? 'truncated' : ''];
  const box = element('p', [element('code', visible(path), { dir: 'ltr' }), ` ${words.filter(Boolean).join(', ')} `], { className: 'part' });
  if (id) box.append(saver(id, 'Save the text'));
  return box;
}

export function requestPart({ method, url, query, header_keys: headers, response }) {
  const asked = query ?? url ?? '';
  const box = element('div', element('p', [element('strong', visible(method ?? (query ? 'Search' : 'GET'))), ' ', element('code', visible(asked), { dir: 'ltr' })]),
    { className: 'part' });
  if (headers?.length) box.append(element('p', `Headers: ${visible(headers.join(', '))}`, { className: 'quiet' }));
  if (!response) return box;
  const words = [response.status && `Status ${response.status}`, response.error && visible(response.error),
    Number.isFinite(response.duration_ms) && duration(response.duration_ms), response.body_truncated && 'body truncated'];
  box.append(element('p', words.filter(Boolean).join(', '), { className: response.error || response.status >= 400 ? 'bad' : '' }));
  if (response.hits) box.append(hits(response.hits));
  if (response.body_artifact_id) box.append(saver(response.body_artifact_id, 'Save the body'));
  if (response.extracted_text_artifact_id) box.append(saver(response.extracted_text_artifact_id, 'Save the page text'));
  return box;
}

function hits(all) {
  return element('ol', all.slice(0, MATCHES_SHOWN_MAX).map((hit) => {
    const plain = typeof hit === 'object' && hit !== null ? hit : { title: String(hit) };
    const words = [plain.title, plain.url, plain.snippet].filter((one) => typeof one === 'string' && one !== '');
    return element('li', words.length > 0 ? words.map((one) => element('div', said(one))) : visible(JSON.stringify(hit)));
  }));
}
