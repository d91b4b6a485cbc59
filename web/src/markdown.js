// Markdown as text for speech, while it streams: headings, items of lists, rows of tables as "column: value", code blocks.
// The same rules as `crates/aaep/src/markdown.rs`, and checked by the same table. Look at `SpokenMarkdown`.

/** Lines of a code block that are held; a longer block is returned in several parts. */
const CODE_LINES_MAX = 200;
const ENTITIES = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'", '&nbsp;': ' ' };

/**
 * A part of a text, without markup.
 * @typedef {{ text: string } | { heading: string } | { task: { done: boolean, text: string } }
 *   | { code: { language: string, lines: string[] } }} Part
 */

const isWord = (char) => char !== undefined && /[\p{L}\p{N}]/u.test(char);
/** Whether emphasis begins or ends next to this character: a letter, a digit, or one of these marks. */
const touches = (char, marks) => char !== undefined && (isWord(char) || marks.includes(char) || !/[\p{ASCII}\s]/u.test(char));

/** Text within a line, without code marks, emphasis, addresses of links, escapes and entities. */
class Inline {
  constructor(text) {
    this.text = [...text];
    this.at = 0;
    this.closings = new Set();
    this.out = '';
  }

  static read(text) {
    const reader = new Inline(text);
    while (reader.at < reader.text.length) reader.step();
    return reader.out;
  }

  step() {
    const { text, at } = this;
    const char = text[at];
    let next = null;
    if (char === '\\') next = this.escape();
    else if (char === '`') next = this.code();
    else if (char === '!' && text[at + 1] === '[') next = this.link(at + 1);
    else if (char === '[') next = this.link(at);
    else if (char === '<') next = this.angle();
    else if (char === '&') next = this.entity();
    else if ('*_~'.includes(char)) next = this.emphasis(char);
    if (next === null) this.out += char;
    this.at = next ?? at + 1;
  }

  escape() {
    const escaped = this.text[this.at + 1];
    if (escaped === undefined || !/[!-/:-@[-`{-~]/.test(escaped)) return null;
    this.out += escaped;
    return this.at + 2;
  }

  run(from) {
    let end = from;
    while (this.text[end] === this.text[from] && end < this.text.length) end += 1;
    return end - from;
  }

  code() {
    const length = this.run(this.at);
    const begin = this.at + length;
    for (let at = begin; at < this.text.length;) {
      if (this.text[at] !== '`') {
        at += 1;
      } else {
        const closing = this.run(at);
        if (closing === length) {
          const code = this.text.slice(begin, at).join('');
          this.out += code.trim() === '' ? code : code.trim();
          return at + length;
        }
        at += closing;
      }
    }
    this.out += '`'.repeat(length);
    return begin;
  }

  /** `[text](address)` and `[text][name]`: the text. Without a text, the address. */
  link(bracket) {
    const end = this.closing(bracket, '[', ']');
    if (end === null) return null;
    const close = { '(': ')', '[': ']' }[this.text[end + 1]];
    const last = close ? this.closing(end + 1, this.text[end + 1], close) : null;
    if (last === null) return null;
    const label = Inline.read(this.text.slice(bracket + 1, end).join(''));
    this.out += label.trim() === '' ? this.text.slice(end + 2, last).join('') : label;
    return last + 1;
  }

  closing(from, open, close) {
    let depth = 0;
    for (let at = from; at < this.text.length; at += 1) {
      if (this.text[at] === open) depth += 1;
      else if (this.text[at] === close) {
        depth -= 1;
        if (depth === 0) return at;
      }
    }
    return null;
  }

  /** An address in angle brackets, or a line break. */
  angle() {
    const end = this.closing(this.at, '<', '>');
    if (end === null) return null;
    const inner = this.text.slice(this.at + 1, end).join('');
    if (/^(br|BR)[ /]*$/.test(inner)) this.out += ' ';
    else if (/[:@]/.test(inner) && !/\s/.test(inner)) this.out += inner;
    else return null;
    return end + 1;
  }

  entity() {
    const found = Object.entries(ENTITIES).find(([name]) => this.text.slice(this.at, this.at + name.length).join('') === name);
    if (!found) return null;
    this.out += found[1];
    return this.at + found[0].length;
  }

  /** Marks of emphasis. Two stars may end in another piece of the text, so they need no partner next to a letter. */
  emphasis(mark) {
    const length = this.run(this.at);
    const after = this.at + length;
    if (this.closings.has(this.at)) return after;
    if (length <= 3 && this.opens(this.at, length) && (mark !== '~' || length === 2)) {
      for (let at = after; at < this.text.length;) {
        if (this.text[at] !== mark) {
          at += 1;
        } else {
          const other = this.run(at);
          if (other === length && this.closes(at, length) && at > after) {
            this.closings.add(at);
            return after;
          }
          at += other;
        }
      }
      if (mark === '*' && length === 2 && isWord(this.text[after])) return after;
    }
    if (mark === '*' && length === 2 && this.closes(this.at, length)) return after;
    this.out += mark.repeat(length);
    return after;
  }

  opens(at, length) {
    return !isWord(this.text[at - 1]) && touches(this.text[at + length], '"\'`([<*_~');
  }

  closes(at, length) {
    return touches(this.text[at - 1], '.!?:;,)]>"\'`*_~%') && !isWord(this.text[at + length]);
  }
}

const inline = (text) => Inline.read(text);

/** The mark, the length and the language of a line that opens a code block. */
function fenceOf(line) {
  const found = /^(`{3,}|~{3,})(.*)$/s.exec(line);
  if (!found || (found[1][0] === '`' && found[2].includes('`'))) return null;
  return { mark: found[1][0], length: found[1].length, language: found[2].trim().split(/\s+/)[0], lines: [] };
}

/** A thematic break, or the line below a heading. */
const isRule = (line) => /^(-{3,}|\*{3,}|_{3,}|={3,})$/.test(line.replace(/\s/g, ''));

/** The cells of a row. A bar within code, or after a backslash, separates nothing. */
function cellsOf(line) {
  const cells = [''];
  let isCode = false;
  let isEscaped = false;
  for (const char of line.trim().replace(/^\|/, '')) {
    if (char === '|' && isEscaped) cells[cells.length - 1] = `${cells[cells.length - 1].slice(0, -1)}|`;
    else if (char === '|' && !isCode) cells.push('');
    else cells[cells.length - 1] += char;
    if (char === '`' && !isEscaped) isCode = !isCode;
    isEscaped = char === '\\' && !isEscaped;
  }
  if (cells.length > 1 && cells.at(-1).trim() === '') cells.pop();
  return cells;
}

const isDelimiter = (line) => cellsOf(line).every((cell) => /^:?-+:?$/.test(cell.trim()));

/** A row as `column: value, column: value.` Empty cells are left out. */
function rowOf(columns, cells) {
  const values = cells.map((cell, at) => [columns[at], inline(cell).trim()]).filter(([, value]) => value !== '');
  const row = values.map(([name, value]) => (name ? `${name}: ${value}` : value)).join(', ');
  return row === '' || /[.!?]$/.test(row) ? row : `${row}.`;
}

/** Converts text that arrives in pieces. */
export class SpokenMarkdown {
  constructor() {
    this.fence = null;
    this.columns = null;
    this.head = null;
    this.line = '';
    this.isMidLine = false;
    /** @type {Part[]} */
    this.parts = [];
    /** Whether the next line of text belongs to the last part. */
    this.isOpen = false;
  }

  /** Takes the next piece. Returns what can be spoken; code is returned at the end of its block. @param {string} piece */
  take(piece) {
    this.isOpen = false;
    for (const segment of piece.match(/[^\n]*\n|[^\n]+$/g) ?? []) {
      const isEnded = segment.endsWith('\n');
      if (this.isMidLine) {
        this.text(inline(segment));
        this.isMidLine = !isEnded;
      } else {
        this.line += segment;
        if (isEnded || !this.needsMore()) {
          const { line } = this;
          this.line = '';
          this.isMidLine = !isEnded;
          this.takeLine(line);
        }
      }
    }
    return this.parts.splice(0);
  }

  /** Returns what was held because more might follow. The text may continue. */
  release() {
    this.isOpen = false;
    if (this.line.trim() !== '') {
      const { line } = this;
      this.line = '';
      this.isMidLine = this.fence === null && this.columns === null;
      this.takeLine(line);
    }
    this.releaseHead();
    this.releaseCode();
    return this.parts.splice(0);
  }

  /** Whether the kind of the current line is not known before its end. */
  needsMore() {
    const line = this.line.trimStart();
    return this.fence !== null || this.columns !== null || line.includes('|') || fenceOf(line) !== null || /^[0-9#>\-+*_=`~•.)[\]xX ]*$/.test(line);
  }

  /** @param {Part} part */
  push(part) {
    this.isOpen = false;
    this.parts.push(part);
  }

  text(given) {
    const text = given.trim();
    if (text === '') return;
    /** @type {any} */
    const last = this.isOpen ? this.parts.at(-1) : undefined;
    if (last?.task) last.task.text += ` ${text}`;
    else if (last?.text !== undefined) last.text += ` ${text}`;
    else this.parts.push({ text });
    this.isOpen = true;
  }

  takeLine(given) {
    const ended = given.trimEnd();
    if (this.fence) {
      const closing = ended.trim();
      if (closing.length >= this.fence.length && [...closing].every((char) => char === this.fence.mark)) {
        this.releaseCode();
        this.fence = null;
        this.isMidLine = false;
      } else {
        this.fence.lines.push(ended);
        if (this.fence.lines.length >= CODE_LINES_MAX) this.releaseCode();
      }
      return;
    }
    const line = ended.trimStart();
    if (this.columns) {
      if (line.includes('|')) {
        this.push({ text: rowOf(this.columns, cellsOf(line)) });
        return;
      }
      this.columns = null;
    }
    if (this.head !== null) {
      const names = cellsOf(this.head);
      if (isDelimiter(line) && cellsOf(line).length === names.length) {
        this.columns = names.map((name) => inline(name).trim());
        this.head = null;
        return;
      }
      this.releaseHead();
    }
    this.takeBlock(line);
  }

  /** A line outside of code and tables. */
  takeBlock(line) {
    const fence = fenceOf(line);
    const heading = /^#{1,6}[ \t]+(.*)$/s.exec(line);
    const item = /^[-*+•]\s+(.*)$/s.exec(line);
    const task = item && /^\[([ xX])\]\s+(.*)$/s.exec(item[1]);
    if (line === '' || isRule(line)) {
      this.isOpen = false;
    } else if (fence) {
      this.fence = fence;
      this.isMidLine = false;
    } else if (heading) {
      this.push({ heading: inline(heading[1].trim().replace(/#+$/, '').trimEnd()).trim() });
    } else if (line.startsWith('>')) {
      this.takeBlock(line.slice(1).trimStart());
    } else if (task) {
      this.push({ task: { done: task[1] !== ' ', text: inline(task[2]).trim() } });
      this.isOpen = true;
    } else if (item) {
      this.isOpen = false;
      this.text(inline(item[1]));
    } else if (line.includes('|') && !this.isMidLine) {
      this.head = line;
    } else {
      if (/^\d{1,9}[.)]\s/.test(line)) this.isOpen = false;
      this.text(inline(line));
    }
  }

  releaseHead() {
    if (this.head !== null) this.text(inline(this.head));
    this.head = null;
  }

  releaseCode() {
    if (!this.fence || this.fence.lines.length === 0) return;
    this.push({ code: { language: this.fence.language, lines: this.fence.lines.splice(0) } });
  }
}
