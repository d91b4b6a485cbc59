// The output of commands as terminals show it: colours and weights of ANSI escapes, and what carriage returns replace.
// Every other escape is dropped from sight or shown, never obeyed. Pure. Look at `styledLines`.

// Escape sequences of terminals: colours (SGR) count; other control sequences, and titles and links, are left out.
// eslint-disable-next-line no-control-regex
const ESCAPES = /\u001b\[([0-9;:]*)m|\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]{0,4096}(?:\u0007|\u001b\\)|\u001b[()*+][0-9A-Za-z]/g;

const PLAIN = Object.freeze({ fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, inverse: false });

/** One of the 256 colours as one of the sixteen that have a class. */
function nearest(index) {
  if (index < 16) return index;
  const [red, green, blue] = index >= 232 ? Array(3).fill((index - 232) / 23)
    : [Math.floor((index - 16) / 36) / 5, (Math.floor((index - 16) / 6) % 6) / 5, ((index - 16) % 6) / 5];
  return fromRgb(red, green, blue);
}

function fromRgb(red, green, blue) {
  const most = Math.max(red, green, blue);
  if (most < 0.2) return 0;
  const spread = most - Math.min(red, green, blue);
  if (spread < 0.15) return most > 0.8 ? 15 : most > 0.5 ? 7 : 8;
  const bits = (red > most / 2 ? 1 : 0) | (green > most / 2 ? 2 : 0) | (blue > most / 2 ? 4 : 0);
  return bits + (most > 0.75 ? 8 : 0);
}

/** The style after the codes of one sequence. */
function restyled(style, codes) {
  const numbers = codes === '' ? [0] : codes.split(/[;:]/).map(Number);
  let now = { ...style };
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) now = { ...PLAIN };
    else if (code === 1) now.bold = true;
    else if (code === 2) now.dim = true;
    else if (code === 3) now.italic = true;
    else if (code === 4) now.underline = true;
    else if (code === 7) now.inverse = true;
    else if (code === 22) Object.assign(now, { bold: false, dim: false });
    else if (code === 23) now.italic = false;
    else if (code === 24) now.underline = false;
    else if (code === 27) now.inverse = false;
    else if (code >= 30 && code <= 37) now.fg = code - 30;
    else if (code === 39) now.fg = null;
    else if (code >= 40 && code <= 47) now.bg = code - 40;
    else if (code === 49) now.bg = null;
    else if (code >= 90 && code <= 97) now.fg = code - 82;
    else if (code >= 100 && code <= 107) now.bg = code - 92;
    else if (code === 38 || code === 48) {
      const which = code === 38 ? 'fg' : 'bg';
      if (numbers[at + 1] === 5) now[which] = nearest(Math.min(numbers[at + 2] || 0, 255));
      else if (numbers[at + 1] === 2) now[which] = fromRgb(...numbers.slice(at + 2, at + 5).map((value) => (value || 0) / 255));
      at += numbers[at + 1] === 5 ? 2 : 4;
    }
  }
  return now;
}

/** The names of classes of a style. */
export function classesOf(style) {
  const names = [];
  if (style.fg !== null) names.push(`fg-${style.fg}`);
  if (style.bg !== null) names.push(`bg-${style.bg}`);
  for (const name of ['bold', 'dim', 'italic', 'underline', 'inverse']) if (style[name]) names.push(`t-${name}`);
  return names.join(' ');
}

/**
 * Lines of spans `{ text, style }`. A carriage return begins its line anew, as in a terminal.
 * @param {string} text
 */
export function styledLines(text) {
  const lines = [[]];
  let style = { ...PLAIN };
  const put = (piece) => {
    const [first, ...more] = piece.split('\n');
    for (const [at, part] of [first, ...more].entries()) {
      if (at > 0) lines.push([]);
      const whole = part.endsWith('\r') ? part.slice(0, -1) : part;
      const from = whole.lastIndexOf('\r');
      if (from >= 0) lines[lines.length - 1] = [];
      const shown = whole.slice(from + 1);
      if (shown !== '') lines.at(-1).push({ text: shown, style });
    }
  };
  let at = 0;
  for (const found of text.matchAll(ESCAPES)) {
    if (found.index > at) put(text.slice(at, found.index));
    if (found[1] !== undefined) style = restyled(style, found[1]);
    at = found.index + found[0].length;
  }
  if (at < text.length) put(text.slice(at));
  return lines;
}
