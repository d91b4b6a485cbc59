// The shared worker: one hub for each token, for all pages of this browser. A page gets the events of the run that it
// follows, and the types of events that change the summary of a run. It must not use the document.

import { CHANGES_A_RUN, Hub } from './hub.js';

/** Hubs by token, each with its pages and the runs that they follow. @type {Map<string | null, { hub: Hub, pages: Map<MessagePort, string | null> }>} */
const hubs = new Map();

/** @param {Map<MessagePort, string | null>} pages @param {import('./hub.js').Message} message */
function distribute(pages, message) {
  for (const [page, run] of pages) {
    if (message.kind !== 'event' || message.run === run) page.postMessage(message);
    else if (CHANGES_A_RUN.test(message.type)) page.postMessage({ ...message, text: '' });
  }
}

/** @param {MessagePort} page @param {string | null} token */
function join(page, token) {
  let entry = hubs.get(token);
  if (!entry) {
    const pages = new Map();
    entry = { pages, hub: new Hub(token, (message) => distribute(pages, message)) };
    hubs.set(token, entry);
  }
  entry.pages.set(page, null);
  if (entry.hub.isLevel) page.postMessage({ kind: 'level' });
  return entry;
}

addEventListener('connect', (/** @type {any} */ { ports: [page] }) => {
  let joined = null;
  page.onmessage = ({ data }) => {
    if (data.kind === 'join') joined = { token: data.token, entry: join(page, data.token) };
    if (!joined) return;
    const { token, entry } = joined;
    if (data.kind === 'follow') {
      entry.pages.set(page, data.run);
      // Events from before now may be missing from what the page has read.
      if (data.run && entry.hub.isLevel) page.postMessage({ kind: 'following' });
    }
    if (data.kind !== 'leave') return;
    entry.pages.delete(page);
    page.close();
    if (entry.pages.size > 0) return;
    entry.hub.close();
    hubs.delete(token);
  };
});
