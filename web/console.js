// The console: a thin view on the native face. The address says what is shown; everything on the page comes from the
// same streams that any other client reads. Here: the feed of all runs, and which run is chosen.

import { arrive, showConnection, token } from './entry.js';
import { ask, byId, setText, trouble, wellAgain } from './page.js';
import { Prompts } from './prompts.js';
import { Attention } from './src/attention.js';
import { listenToKeys, showKeys } from './src/keys.js';
import { newTask } from './src/newtask.js';
import { Overview } from './src/overview.js';
import { showSettings } from './src/preferences.js';
import { RunPage } from './src/run/page.js';
import { RunList, titleOf } from './src/runs.js';
import { SessionView, newSession } from './src/session.js';
import { CHANGES_A_RUN } from './src/stream/hub.js';
import { live } from './src/stream/live.js';
import { announce, hush } from './src/voice.js';
import { said, visible, visibleLines } from './visible.js';

/// Many events of one run in one moment cost one look at it.
const REFRESH_MS = 100;
/// How long after a failed first request the page tries again.
const AGAIN_MS = 5000;

const RUN_ID = /^run_[0-9A-Z]{26}$/;

let chosen = null;
let page = null;
/// The run whose first prompt gets the focus as soon as it is there.
let answering = null;

const loading = (work) => work.then(() => wellAgain('list'), (error) => trouble('list', error));

const list = new RunList({ look: refresh, chosen: () => chosen, changed: loading });
const overview = new Overview();
const session = new SessionView();
const attention = new Attention({ go: goAnswer });
const prompts = new Prompts({
  call: (id) => page?.call(id),
  decided: refresh,
});

// ---- what may have changed

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
    list.show(data);
    attention.note(data);
    overview.stale();
    if (data.session_id === session.session) session.stale();
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

// It is followed from its end; the list has whatever happened while the page was not connected.
async function followFeed() {
  // Signs in, if the server requires a token.
  await ask('/v1/runs?limit=1');
  live.start({
    level() {
      health('Connected.', true);
      loading(Promise.all([list.loadListed(), attention.load()]));
      overview.stale();
    },
    lost(refused) {
      health('Connection lost. Reconnecting.', false);
      if (refused) signInAgain();
    },
    event(run, type) {
      if (CHANGES_A_RUN.test(type)) refresh(run);
    },
  });
}

/// A stream that was refused may need another token. The page asks for one if so, and joins again.
async function signInAgain() {
  await ask('/v1/runs?limit=1').catch(() => {});
  if (token() !== live.token) live.open();
}

let connected = null;
function health(words, well) {
  showConnection(words, well);
  // The first connection is no news; losing it is, and having it back.
  if (connected !== null && connected !== well) announce(words);
  connected = well;
}

// ---- the run that is shown

async function describe(run) {
  heading(titleOf(run));
  const parts = [`Status: ${run.status}`];
  if (run.status === 'failed') parts.push(`(code ${run.ending})`);
  if (run.status === 'cancelled') parts.push(`by ${run.ending}`);
  const words = visible(`${parts.join(' ')}.`);
  const status = byId('run-status');
  if (status.textContent !== words) {
    setText(status, words);
    status.dataset.status = run.status;
  }
  setText(byId('run-message'), visibleLines(run.message ?? ''));
  page?.describe(run);
  await prompts.show(run);
  if (answering === run.id && prompts.focus()) answering = null;
}

function follow(id) {
  page = new RunPage(id, {
    changes: () => refresh(id),
    known: () => prompts.update(),
    answer: (kind, prompt) => prompts.focus(kind, prompt),
  });
  page.show(...place());
  page.open();
}

function heading(text) {
  byId('account-title').replaceChildren(said(text));
  attention.setTitle(`${visible(text)} – Recount`);
}

/// No run is shown, for a reason or because none was chosen.
function nothing(why = '', title = why ? 'Run not found' : 'Overview') {
  page?.close();
  page = null;
  prompts.clear();
  byId('account-title').textContent = title;
  attention.setTitle('Recount');
  setText(byId('run-status'), visible(why));
  delete byId('run-status').dataset.status;
  setText(byId('run-message'), '');
}

/// The view and the event that the address names after the run.
function place() {
  const [, view = '', event = ''] = /^#run_[0-9A-Z]+\/?([a-z]*)\/?([0-9]*)$/.exec(location.hash) ?? [];
  return [view, event === '' ? null : Number(event)];
}

function choose() {
  const wanted = location.hash.slice(1);
  // A place on this page is not a wish for another run.
  if (wanted && byId(wanted)) return;
  const [id] = wanted.split('/', 1);
  const before = chosen;
  chosen = RUN_ID.test(id) ? id : null;
  if (chosen && chosen === before && page) {
    page.show(...place());
    return;
  }
  const held = byId('account').contains(document.activeElement);
  const scope = wanted.startsWith('?') ? Object.fromEntries(new URLSearchParams(wanted.slice(1))) : null;
  nothing(wanted && !chosen && !scope ? `Run ${wanted} not found.` : '');
  wellAgain('run');
  wellAgain('action');
  hush();
  if (!chosen) list.setScope(scope ? { ...(scope.task_id ? { task_id: scope.task_id } : scope.session_id ? { session_id: scope.session_id } : {}) } : {});
  list.markAll();
  document.body.dataset.page = chosen ? 'run' : 'overview';
  const chat = !chosen && scope?.session_id ? scope.session_id : null;
  session.show(chat);
  if (chat) byId('account-title').textContent = 'Chat';
  overview.show(!chosen && !chat && (wanted === '' || scope !== null));
  // Who pressed something that is gone now is still in the run that is shown.
  if (held && document.activeElement === document.body) byId('account').focus();
  if (!chosen) return;
  const known = list.runs.get(chosen);
  heading(known ? titleOf(known) : chosen);
  // Both at once: neither needs the other's answer.
  follow(chosen);
  look(chosen);
}

function goAnswer(id) {
  answering = id;
  if (id === chosen && page && prompts.focus()) {
    answering = null;
    return;
  }
  if (location.hash === `#${id}`) choose();
  else location.hash = `#${id}`;
}

addEventListener('hashchange', () => {
  showRuns(false);
  choose();
});
document.querySelector('.skip').addEventListener('click', (click) => {
  click.preventDefault();
  byId('account').focus();
});
byId('open-settings').addEventListener('click', showSettings);
byId('open-new').addEventListener('click', newTask);
byId('open-session').addEventListener('click', newSession);
byId('open-keys').addEventListener('click', showKeys);

/// On small screens a button shows the list of runs.
function showRuns(open) {
  document.body.dataset.runs = open ? 'open' : '';
  byId('open-runs').setAttribute('aria-expanded', String(open));
}
byId('open-runs').addEventListener('click', () => showRuns(document.body.dataset.runs !== 'open'));

const view = (name) => () => {
  if (chosen) location.hash = `#${chosen}${name ? `/${name}` : ''}`;
};
const transcript = (act) => () => {
  if (page?.view === '') act(page.views['']);
};
listenToKeys({
  p: () => attention.next(chosen),
  '/': () => {
    showRuns(true);
    byId('filter-text').focus();
  },
  r: () => {
    showRuns(true);
    /** @type {HTMLElement} */ (document.querySelector('#runs a[aria-current]') ?? document.querySelector('#runs a') ?? byId('runs-title')).focus();
  },
  o: () => {
    location.hash = '#';
    byId('account').focus();
  },
  j: transcript((shown) => shown.step(1)),
  k: transcript((shown) => shown.step(-1)),
  e: transcript((shown) => shown.toEnd()),
  1: view(''),
  2: view('timeline'),
  3: view('cost'),
  4: view('changes'),
  5: view('events'),
  n: newTask,
  s: showSettings,
});

function start() {
  followFeed().catch(() => {
    health('Connection lost. Reconnecting.', false);
    setTimeout(start, AGAIN_MS);
  });
}

await arrive();
start();
choose();
