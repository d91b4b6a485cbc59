// The elements of a JSON list as they stand in the text, byte for byte; parsing and writing again
// would hide what these tests are about. Look at `listElements`.

/// The raw texts of the elements of the list under `key` in the outermost object.
export function listElements(text, key) {
  const scanner = new Scanner(text);
  scanner.expect('{');
  while (!scanner.takes('}')) {
    const name = JSON.parse(scanner.value());
    scanner.expect(':');
    if (name === key) return scanner.elements();
    scanner.value();
    scanner.takes(',');
  }
  throw new Error(`there is no ${JSON.stringify(key)} in ${text.slice(0, 200)}`);
}

class Scanner {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  skipSpace() {
    while (' \t\r\n'.includes(this.text[this.at] ?? '!')) this.at += 1;
  }

  takes(sign) {
    this.skipSpace();
    const there = this.text[this.at] === sign;
    if (there) this.at += 1;
    return there;
  }

  expect(sign) {
    if (!this.takes(sign)) throw new Error(`no ${sign} at ${this.at} of ${this.text.slice(0, 200)}`);
  }

  /// One value of any sort, as it stands.
  value() {
    this.skipSpace();
    const start = this.at;
    let depth = 0;
    do {
      const sign = this.text[this.at];
      if (sign === undefined) throw new Error(`the text ends within a value: ${this.text.slice(start, start + 200)}`);
      if (sign === '"') {
        this.string();
      } else if (sign === '{' || sign === '[') {
        depth += 1;
        this.at += 1;
      } else if (sign === '}' || sign === ']') {
        depth -= 1;
        this.at += 1;
      } else if (depth > 0) {
        this.at += 1;
      } else {
        while (!',]} \t\r\n'.includes(this.text[this.at] ?? ',')) this.at += 1;
      }
    } while (depth > 0);
    if (this.at === start) throw new Error(`no value at ${start} of ${this.text.slice(0, 200)}`);
    return this.text.slice(start, this.at);
  }

  string() {
    this.at += 1;
    while (this.text[this.at] !== '"') {
      if (this.at >= this.text.length) throw new Error('the text ends within a string');
      this.at += this.text[this.at] === '\\' ? 2 : 1;
    }
    this.at += 1;
  }

  elements() {
    this.expect('[');
    const found = [];
    while (!this.takes(']')) {
      found.push(this.value());
      this.takes(',');
    }
    return found;
  }
}
