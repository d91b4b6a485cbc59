// What the page announces of runs, in the words of the catalogues that the server's AAEP face speaks from: one file of
// Fluent a language, fetched once. Reads the part of Fluent that they use. Look at `Catalogue`, `speech` and `pickLanguage`.

import { visible } from '../visible.js';

/** The languages that have a catalogue, and whether they run from right to left. */
const LANGUAGES = { 'en-US': 'ltr', ar: 'rtl' };
/** What keeps a text apart from a sentence that runs the other way. */
const [ISOLATE, END_OF_ISOLATE] = ['\u2068', '\u2069'];
/** The longest text that is put into a message, as in the face: of most, and of those that a person decides on. */
const ARGUMENT_LENGTH_MAX = 400;
const PROMPT_LENGTH_MAX = 4000;
const PROMPT_ARGUMENTS = ['action', 'consequence', 'context', 'preview', 'question'];
/** Line ends, long runs of blanks and backticks change what a command does, and speech has no sound for them. */
const SPOKEN_LAYOUT = ['action', 'consequence', 'preview'];
const BLANKS_SILENT_MAX = 40;

/** The catalogue for a wish: a language that has one, or that of the browser. */
export function pickLanguage(wish, languages) {
  if (Object.hasOwn(LANGUAGES, wish)) return wish;
  const known = (tag) => Object.keys(LANGUAGES).find((one) => one.split('-')[0] === String(tag).toLowerCase().split('-')[0]);
  return languages.map(known).find(Boolean) ?? Object.keys(LANGUAGES)[0];
}

/**
 * A pattern as a list of texts and placeables, from a place in the source up to `}` or the end.
 * @param {string} source
 * @param {{ at: number }} cursor
 */
function pattern(source, cursor) {
  const parts = [];
  let text = '';
  while (cursor.at < source.length && source[cursor.at] !== '}') {
    // A variant begins on a line of its own.
    if (/^\n\s*\*?\[/.test(source.slice(cursor.at, cursor.at + 80))) break;
    if (source[cursor.at] === '{') {
      if (text) parts.push(text);
      text = '';
      cursor.at += 1;
      parts.push(placeable(source, cursor));
    } else {
      text += source[cursor.at];
      cursor.at += 1;
    }
  }
  if (text) parts.push(text);
  return parts;
}

/** `$name`, or `$name -> [form] text *[other] text`, up to and with the closing brace. */
function placeable(source, cursor) {
  const head = /\s*\$([\w-]+)\s*(->)?/y;
  head.lastIndex = cursor.at;
  const found = head.exec(source);
  if (!found) throw new Error(`cannot parse the catalogue at "${source.slice(cursor.at, cursor.at + 40)}"`);
  cursor.at = head.lastIndex;
  const [, name, selects] = found;
  const variants = [];
  const variant = /\s*(\*?)\[\s*([\w.-]+)\s*\][ \t]*/y;
  while (selects) {
    variant.lastIndex = cursor.at;
    const form = variant.exec(source);
    if (!form) break;
    cursor.at = variant.lastIndex;
    variants.push({ fallback: form[1] === '*', form: form[2], parts: pattern(source, cursor) });
  }
  cursor.at = source.indexOf('}', cursor.at) + 1;
  return { name, variants };
}

/** Lines of a catalogue as messages: the pattern, and those of its attributes. */
function messages(source) {
  const found = new Map();
  let message = null;
  let text = null;
  const keep = () => {
    if (message && text) message[text.attribute] = text.lines.join('\n');
    text = null;
  };
  for (const line of source.split('\n')) {
    const begins = /^([a-z][\w-]*) = ?(.*)$/.exec(line);
    const attribute = /^\s+\.([a-z]+) = ?(.*)$/.exec(line);
    if (begins) {
      keep();
      message = {};
      found.set(begins[1], message);
      text = { attribute: 'normal', lines: [begins[2]] };
    } else if (attribute && message) {
      keep();
      text = { attribute: attribute[1], lines: [attribute[2]] };
    } else if (/^\s+\S/.test(line) && text) {
      text.lines.push(line);
    } else {
      keep();
      message = line.startsWith('#') || line.trim() === '' ? null : message;
    }
  }
  keep();
  return found;
}

/** The messages of one language. */
export class Catalogue {
  /**
   * @param {string} language
   * @param {string} source
   */
  constructor(language, source) {
    this.language = language;
    this.direction = LANGUAGES[language] ?? 'ltr';
    this.plurals = new Intl.PluralRules(language);
    this.numbers = new Intl.NumberFormat(language === 'ar' ? 'ar-u-nu-latn' : language, { useGrouping: false });
    this.messages = messages(source);
    this.parsed = new Map();
  }

  /**
   * A message in one of its lengths (`terse`, `normal`, `detailed`); what a length lacks is said in the normal one.
   * @param {string} key
   * @param {Record<string, any>} values
   * @param {string} [length]
   */
  render(key, values = {}, length = 'normal') {
    const message = this.messages.get(key);
    if (!message) throw new Error(`unknown message "${key}" in the catalogue ${this.language}`);
    const form = message[length] === undefined ? 'normal' : length;
    const name = `${key}.${form}`;
    if (!this.parsed.has(name)) this.parsed.set(name, pattern(message[form], { at: 0 }));
    return this.join(this.parsed.get(name), values).replace(/\s+/g, ' ').trim();
  }

  join(parts, values) {
    return parts.map((part) => (typeof part === 'string' ? part : part.variants.length > 0 ? this.choose(part, values) : this.put(values[part.name], part.name))).join('');
  }

  choose({ name, variants }, values) {
    const number = Number(values[name] ?? 0);
    const category = this.plurals.select(number);
    const chosen = variants.find(({ form }) => form === String(number)) ?? variants.find(({ form }) => form === category) ?? variants.find(({ fallback }) => fallback);
    return this.join(chosen.parts, values).replace(/^\s+|\s+$/g, '');
  }

  /** What is put into a message: harmless, on one line, and apart where the sentence runs the other way. */
  put(value, name = '') {
    if (value === undefined || value === null || value === '') return '';
    if (typeof value === 'number') return this.numbers.format(value);
    const spoken = SPOKEN_LAYOUT.includes(name) ? withLayout(this, String(value)) : String(value);
    const line = spoken.replace(/\s+/g, ' ').trim();
    const most = PROMPT_ARGUMENTS.includes(name) ? PROMPT_LENGTH_MAX : ARGUMENT_LENGTH_MAX;
    const text = visible(line.length > most ? `${line.slice(0, most)}…` : line);
    return this.direction === 'rtl' ? `${ISOLATE}${text}${END_OF_ISOLATE}` : text;
  }
}

/** A text with its layout in words, as the narrator has it. */
function withLayout(catalogue, text) {
  return text.trim().replaceAll('`', ` [${catalogue.render('backtick')}] `).replace(/\s+/g, (blanks) => {
    const ends = blanks.split('\n').length - 1;
    if (ends > 0) return ` [${catalogue.render('line-ends', { count: ends })}] `;
    return blanks.length > BLANKS_SILENT_MAX ? ` [${catalogue.render('blanks', { count: blanks.length })}] ` : ' ';
  });
}

const loaded = new Map();

/** The catalogue of a language, fetched the first time; a fetch that failed is made again by the next call. */
export function speech(language) {
  if (!loaded.has(language)) {
    const wanted = fetch(`/speech/${language}.ftl`).then((answer) => {
      if (!answer.ok) throw new Error(`the server returned status ${answer.status}`);
      return answer.text();
    }).then((source) => new Catalogue(language, source));
    wanted.catch(() => loaded.delete(language));
    loaded.set(language, wanted);
  }
  return loaded.get(language);
}
