// Writes testdata/views: what the console's fold makes of each story in testdata/runs. Look at every change of
// them before it is kept. `node views.mjs` in this folder.

import { readFile, readdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

import { foldEvents } from '../web/src/fold/fold.js';

const RUNS = new URL('../testdata/runs/', import.meta.url);
export const VIEWS = new URL('../testdata/views/', import.meta.url);

/// The names of the stories, and the events of one.
export async function stories() {
  return (await readdir(RUNS)).filter((name) => name.endsWith('.jsonl')).map((name) => name.slice(0, -6)).sort();
}

export async function story(name) {
  const text = await readFile(new URL(`${name}.jsonl`, RUNS), 'utf8');
  return text.trim().split('\n').map((line) => JSON.parse(line));
}

/// A view as the file has it.
export const viewText = (events) => `${JSON.stringify(foldEvents(events), null, 1)}\n`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const name of await stories()) await writeFile(new URL(`${name}.json`, VIEWS), viewText(await story(name)));
}
