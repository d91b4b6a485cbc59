// A screen reader in the page: @guidepup's virtual one, which computes roles, names and live regions as the standards say.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

const BUNDLE = '@guidepup/virtual-screen-reader/browser.js';
const source = readFile(createRequire(import.meta.url).resolve(BUNDLE), 'utf8');

const HEARD_MS_MAX = 30_000;
const LOOK_EVERY_MS = 20;

/// A module's text as a script that leaves its reader in the page: its policy lets no script in.
function asScript(text) {
  const name = /([\w$]+) as virtual\s*\}/.exec(text.slice(text.lastIndexOf('export{')))?.[1];
  if (!name) throw new Error(`${BUNDLE} exports no virtual screen reader`);
  return `(() => { ${text.slice(0, text.lastIndexOf('export{'))}\nwindow.reader = ${name}; })()`;
}

export class Listener {
  constructor(page) {
    this.page = page;
  }

  /// Begins to listen to a page.
  static async start(page) {
    await page.evaluate(asScript(await source));
    // It knows live regions, which the page silences where the browser can announce without them.
    await page.evaluate(() => {
      delete Element.prototype.ariaNotify;
      document.querySelectorAll('[aria-live="off"]').forEach((region) => region.removeAttribute('aria-live'));
    });
    await page.evaluate(() => window.reader.start({ container: document.body }));
    return new Listener(page);
  }

  /// All that was spoken.
  log() {
    return this.page.evaluate(() => window.reader.spokenPhraseLog());
  }

  /// What was announced of itself, each with `polite: ` or `assertive: ` before it.
  async announced() {
    return (await this.log()).filter((phrase) => /^(polite|assertive): /.test(phrase));
  }

  /// What was announced, once `enough` holds of it.
  async announcedWhen(enough) {
    const until = Date.now() + HEARD_MS_MAX;
    for (;;) {
      const phrases = await this.announced();
      if (enough(phrases)) return phrases;
      if (Date.now() > until) throw new Error(`it was never heard: ${enough}; heard: ${JSON.stringify(phrases)}`);
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  }

  /// Reads on from where the reader is until a phrase fits; answers what was read.
  readTo(pattern, stepsMax = 600) {
    return this.page.evaluate(async ([text, most]) => {
      const fits = new RegExp(text);
      const read = [];
      for (let step = 0; step < most; step += 1) {
        await window.reader.next();
        const phrase = await window.reader.lastSpokenPhrase();
        read.push(phrase);
        if (fits.test(phrase)) return read;
      }
      throw new Error(`${text} was not read within ${most} steps: ${JSON.stringify(read.slice(-40))}`);
    }, [pattern.source, stepsMax]);
  }
}
