// A real browser, and pages whose complaints fail the test.

import { chromium } from 'playwright-core';

import { atEnd } from './ending.mjs';

const EXECUTABLE = process.env.RECOUNT_CHROMIUM ?? '/usr/bin/chromium';

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/// One browser for a file of tests; close it in `after`.
export function launch() {
  return chromium.launch({ executablePath: EXECUTABLE, headless: true, args: FLAGS });
}

/// A page in a context of its own. Errors on its console fail the test, except failures to reach a
/// server that the test has taken away (`page.expectOutage(true)`) and responses with an expected status: from the
/// first request on (`statuses`), or later (`page.expectStatus(404)`).
export async function openPage(t, browser, url, { statuses = [], ...options } = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const complaints = [];
  let outage = false;
  const failures = [];
  page.expectStatus = (status) => {
    failures.push(`the server responded with a status of ${status} `);
  };
  statuses.forEach(page.expectStatus);
  page.expectOutage = (expected) => {
    outage = expected;
  };
  page.on('pageerror', (error) => complaints.push(`uncaught: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() !== 'error') return;
    const unreachable = /net::ERR_(CONNECTION|INCOMPLETE|EMPTY|SOCKET|NETWORK)/.test(message.text());
    const expected = (outage && unreachable) || failures.some((failure) => message.text().includes(failure));
    if (!expected) complaints.push(`${message.text()} (${message.location().url})`);
  });
  atEnd(t, async () => {
    await context.close();
    if (complaints.length > 0) throw new Error(`the page complained:\n${complaints.join('\n')}`);
  });
  const response = await page.goto(url);
  if (!response.ok()) throw new Error(`${url} answered ${response.status()}`);
  return page;
}

const HEARD_MS_MAX = 30_000;
const LOOK_EVERY_MS = 20;

/// Lets the page follow an event stream. What it hears gathers in the page.
export async function follow(page, path) {
  await page.evaluate((path) => {
    const heard = { messages: [], gaps: [], level: 0, opened: 0 };
    const source = new EventSource(path);
    source.onopen = () => (heard.opened += 1);
    source.onmessage = ({ data, lastEventId }) => heard.messages.push({ id: lastEventId, data });
    source.addEventListener('gap', ({ data }) => heard.gaps.push(data));
    source.addEventListener('caught_up', () => (heard.level += 1));
    window.follower = { heard, source };
  }, path);
}

/// What the page has heard, once `enough` holds of it: `{ messages, gaps, level, opened, state }`.
export async function heardWhen(page, enough) {
  const until = Date.now() + HEARD_MS_MAX;
  for (;;) {
    const heard = await page.evaluate(() => ({
      ...window.follower.heard,
      state: window.follower.source.readyState,
    }));
    if (enough(heard)) return heard;
    if (Date.now() > until) {
      throw new Error(`the page never heard enough: ${enough}; ${summary(heard)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

function summary({ messages, level, opened, state }) {
  const last = messages.at(-1);
  return `it opened ${opened} times, was level ${level} times, is in state ${state} and heard ${
    messages.length} messages, the last with id ${last?.id}: ${last?.data.slice(0, 300)}`;
}

/// Scrolls the view up, a step a frame; answers the most elements that were made in one frame. It is the page's work
/// without the machine's speed.
export function scrollUp(page, steps, pixels) {
  return page.evaluate(async ([steps, pixels]) => {
    const box = document.getElementById('view');
    let made = 0;
    const observer = new MutationObserver((changes) => {
      for (const { addedNodes } of changes) {
        for (const node of addedNodes) made += node.nodeType === Node.ELEMENT_NODE ? 1 + node.querySelectorAll('*').length : 0;
      }
    });
    observer.observe(box, { childList: true, subtree: true });
    let most = 0;
    let all = 0;
    for (let step = 0; step < steps; step += 1) {
      made = 0;
      box.scrollTop -= pixels;
      await new Promise(requestAnimationFrame);
      most = Math.max(most, made);
      all += made;
    }
    observer.disconnect();
    return { most, all };
  }, [steps, pixels]);
}
