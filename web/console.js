// The console: a thin view on the native face. The address says which run is shown; everything on the
// page comes from the same streams that any other client reads. Here: the list of runs, and which is chosen.

import { Account } from './account.js';
import { openStream } from './entry.js';
import { announce, ask, byId, element, remove, setText, trouble, wellAgain } from './page.js';
import { Prompts } from './prompts.js';
import { said, visible, visibleLines } from './visible.js';

/// How many runs one look at the list brings; the server gives 200 at most.
const RUNS_OF_A_PAGE = 50;
const RUNS_OF_A_PAGE_MAX = 200;
/// Many events of one run in one moment cost one look at it.
const REFRESH_MS = 100;
/// How long after a refusal the feed is asked for again; after a broken connection the browser knows.
const AGAIN_MS = 5000;

const RUN_ID = /^run_[0-9A-Z]{26}$/;
const CHANGES_A_RUN = /^(run\.|approval\.|clarification\.|handoff\.|turn\.completed)/;

const runs = new Map();
let chosen = null;
let account = null;
/// The next page of the list, and the last run of the pages before it.
let older = null;
let bottom = null;

const prompts = new Prompts({
  call: (id) => account?.call(id),
  decided: refresh,
});

// ---- the list of runs

const title = (run) => run.title || `${run.kind} run`;

function showRun(run) {
  runs.set(run.id, run);
  const link = itemOf(run.id).firstChild;
  const words = [run.status, new Date(run.created_at).toLocaleString()];
  const parts = [said(title(run)), element('small', visible(words.join(', ')))];
  if (run.needs_attention) parts.push(element('small', 'needs your attention', { className: 'attention' }));
  link.replaceChildren(...parts);
  mark(link);
}

/// The place of a run in the list, newest first; it stays the same element.
function itemOf(id) {
  const there = byId(`item-${id}`);
  if (there) return there;
  const item = element('li', element('a', undefined, { href: `#${id}` }), { id: `item-${id}` });
  const list = byId('runs');
  const after = [...list.children].find((other) => other.id < item.id);
  list.insertBefore(item, after ?? null);
  return item;
}

function mark(link) {
  if (chosen && link.hash === `#${chosen}`) link.setAttribute('aria-current', 'true');
  else link.removeAttribute('aria-current');
}

async function loadPage(after, limit) {
  const page = await ask(`/v1/runs?limit=${limit}${after ? `&after=${after}` : ''}`);
  page.data.forEach(showRun);
  older = page.next;
  bottom = page.data.at(-1)?.id ?? bottom;
  byId('older').hidden = !page.has_more;
  byId('no-runs').hidden = runs.size > 0;
  return page;
}

/// Everything that is listed, and what is new, as it is now.
async function loadListed() {
  const before = bottom;
  const listed = [...runs.keys()];
  if (chosen && !runs.has(chosen)) listed.push(chosen);
  let page = await loadPage(null, RUNS_OF_A_PAGE);
  while (before && page.has_more && bottom > before) page = await loadPage(older, RUNS_OF_A_PAGE_MAX);
  // Some stand below the pages because something happened in them while the page was open.
  listed.filter((id) => !bottom || id < bottom || id === chosen).forEach(refresh);
}

const loading = (work) => work.then(() => wellAgain('list'), (error) => trouble('list', error));

const stale = new Set();
function refresh(id) {
  if (stale.size === 0) setTimeout(() => {
    const ids = [...stale];
    stale.clear();
    ids.forEach(look);
  }, REFRESH_MS);
  stale.add(id);
}

/// The latest look at each run; an answer that was overtaken says nothing.
const looks = new Map();
let looked = 0;

async function look(id) {
  looked += 1;
  const mine = looked;
  looks.set(id, mine);
  try {
    const { data } = await ask(`/v1/runs/${id}`);
    if (looks.get(id) !== mine) return;
    showRun(data);
    byId('no-runs').hidden = true;
    if (id !== chosen) return;
    await describe(data);
    wellAgain('run');
  } catch (error) {
    if (id !== chosen || looks.get(id) !== mine) return;
    if (error.status === 404) nothing(`Run ${id} not found.`);
    else trouble('run', error);
  } finally {
    if (looks.get(id) === mine) looks.delete(id);
  }
}

// ---- the feed

// It is followed from its end; whatever happened while it was away is in the list.
async function followFeed() {
  // Says who asks, where the server wants to know.
  await ask('/v1/runs?limit=1');
  const feed = await openStream('/v1/events/stream?after_position=latest');
  feed.addEventListener('caught_up', () => {
    setText(byId('health'), 'Connected.');
    loading(loadListed());
  });
  feed.onerror = () => {
    setText(byId('health'), 'Connection lost; trying again.');
    if (feed.readyState === EventSource.CLOSED) followAgain();
  };
  feed.onmessage = (message) => {
    const event = JSON.parse(message.data);
    if (CHANGES_A_RUN.test(event.type)) refresh(event.run_id);
  };
}

function followAgain() {
  setTimeout(() => followFeed().catch(followAgain), AGAIN_MS);
}

// ---- the run that is shown

async function describe(run) {
  heading(title(run));
  const parts = [`Status: ${run.status}`];
  if (run.status === 'failed') parts.push(`code ${run.ending}`);
  if (run.status === 'cancelled') parts.push(`by ${run.ending}`);
  setText(byId('run-status'), visible(`${parts.join('; ')}.`));
  setText(byId('run-message'), visibleLines(run.message ?? ''));
  if (!account) follow(run.id);
  await prompts.show(run);
}

function follow(id) {
  account = new Account(id, {
    heard: (event) => {
      if (CHANGES_A_RUN.test(event.type)) refresh(event.run_id);
    },
    known: () => prompts.update(),
  });
  account.open();
}

function heading(text) {
  byId('account-title').replaceChildren(said(text));
  document.title = `${visible(text)} – Recount`;
}

/// No account is shown, for a reason or because none was chosen.
function nothing(why = '') {
  account?.close();
  account = null;
  [...byId('events').children].forEach(remove);
  byId('earlier').hidden = true;
  byId('bounds').hidden = true;
  prompts.clear();
  byId('account-title').textContent = why ? 'Run not found' : 'No run selected';
  document.title = 'Recount';
  setText(byId('run-status'), visible(why));
  setText(byId('run-message'), '');
}

function choose() {
  const wanted = location.hash.slice(1);
  // A place on this page is not a wish for another run.
  if (wanted && byId(wanted)) return;
  chosen = RUN_ID.test(wanted) ? wanted : null;
  nothing(wanted && !chosen ? `Run ${wanted} not found.` : '');
  wellAgain('run');
  announce('');
  document.querySelectorAll('nav a').forEach(mark);
  if (!chosen) return;
  const known = runs.get(chosen);
  heading(known ? title(known) : chosen);
  look(chosen);
}

addEventListener('hashchange', choose);
document.querySelector('.skip').addEventListener('click', (click) => {
  click.preventDefault();
  byId('account').focus();
});
byId('older').addEventListener('click', () => loading(loadPage(older, RUNS_OF_A_PAGE)));
byId('earlier').addEventListener('click', () => account?.showEarlier());

followFeed().catch(() => {
  setText(byId('health'), 'Connection lost; trying again.');
  followAgain();
});
choose();
