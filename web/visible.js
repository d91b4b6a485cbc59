// Making text of events harmless to read: what steers, reorders or hides is shown, not obeyed.
// Anybody may have written such text. Look at `visible` and `said`.

// What the command line shows escaped, too: controls, marks and overrides of direction, separators of
// lines, annotations, tags. Half a pair counts, because cutting a text can leave one.
const STEERS = '\\u{0}-\\u{1f}\\u{7f}-\\u{9f}\\u{61c}\\u{200e}\\u{200f}\\u{2028}-\\u{202e}\\u{2066}-\\u{2069}'
  + '\\u{feff}\\u{fff9}-\\u{fffb}\\u{e0000}-\\u{e007f}\\p{Surrogate}';
// What takes no room, or looks like a space that it is not. Joiners stay: scripts and emoji need them.
const HIDES = '\\u{ad}\\u{34f}\\u{115f}\\u{1160}\\u{17b4}\\u{17b5}\\u{180b}-\\u{180f}\\u{200b}\\u{2060}-\\u{2065}'
  + '\\u{206a}-\\u{206f}\\u{2800}\\u{3164}\\u{ffa0}\\u{fff0}-\\u{fff8}\\u{e0080}-\\u{e0fff}';
const UNSEEN = new RegExp(`[${STEERS}${HIDES}]`, 'gu');

const escaped = (c) => `\\u{${c.codePointAt(0).toString(16)}}`;

/// One line of text in which nothing is hidden, line ends included.
export function visible(text) {
  return String(text).replace(UNSEEN, (c) => (c === '\t' ? '    ' : escaped(c)));
}

/// The same of several lines: their ends stay.
export function visibleLines(text) {
  return String(text).split(/\r?\n/).map(visible).join('\n');
}

/// What else shows nothing, or looks like a blank and is none. In what a person approves joiners are shown, too.
const APPROVED_UNSEEN = new RegExp(`[${STEERS}${HIDES}\\u{a0}\\u{1680}\\u{2000}-\\u{200f}\\u{202f}\\u{205f}\\u{3000}\\u{fe00}-\\u{fe0f}\\u{1bca0}-\\u{1bca3}`
  + '\\u{1d173}-\\u{1d17a}]', 'gu');
/// How many columns of blanks, and how many empty lines in a row are shown as they are; of more, their number is shown.
const BLANK_COLUMNS_MAX = 40;
const EMPTY_LINES_MAX = 2;
const TAB_COLUMNS = 4;

function approvedLine(line) {
  return line.split(/([ \t]+)/).map((part, at) => {
    if (at % 2 === 0) return part.replace(APPROVED_UNSEEN, escaped);
    const shown = part.replaceAll('\t', ' '.repeat(TAB_COLUMNS));
    return shown.length > BLANK_COLUMNS_MAX ? { count: `[${part.length} blanks]` } : shown;
  });
}

/// The lines of what a person approves, each as its parts: texts in which nothing is hidden, and counts of blanks and empty
/// lines, so that neither pushes anything out of sight. Counts are objects, because a text may look like one.
export function approvedLines(text) {
  const lines = [];
  let empty = 0;
  const showEmpty = () => {
    if (empty > EMPTY_LINES_MAX) lines.push([{ count: `[${empty} empty lines]` }]);
    else for (let left = empty; left > 0; left -= 1) lines.push(['']);
    empty = 0;
  };
  for (const line of String(text).replace(/\n$/, '').split(/\r?\n/)) {
    if (/^[ \t]*$/.test(line)) {
      empty += 1;
    } else {
      showEmpty();
      lines.push(approvedLine(line));
    }
  }
  showEmpty();
  return lines;
}

/// The same as one line of text, in which the ends of lines are marked.
export const approvedText = (text) => approvedLines(text).map((parts) => parts.map((part) => (typeof part === 'string' ? part : part.count)).join('')).join(' ⏎ ');

/// A value as JSON that means the same, with what would be hidden as JSON escapes.
export function visibleJson(value) {
  const units = (c) => c.split('').map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
  return JSON.stringify(value, null, 2).replace(UNSEEN, (c) => (c === '\n' ? c : units(c)));
}

/// The beginning of a text, with a sign where something was cut.
export function beginning(text, lengthMax) {
  return text.length <= lengthMax ? text : `${text.slice(0, lengthMax).replace(/[\ud800-\udbff]$/, '')}…`;
}

/// Text of an event as an element whose direction stays its own.
export function said(text, className = '') {
  const made = document.createElement('bdi');
  made.className = className;
  made.textContent = visible(text);
  return made;
}
