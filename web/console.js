// The console: a thin view on the native face. The address says which run is shown; everything on the
// page comes from the same streams that any other client reads.

const byId = (id) => document.getElementById(id);
const runs = new Map();
let chosen = null;
let account = null;
let oldest = null;

async function ask(path, body) {
  const options = body === undefined
    ? {}
    : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await fetch(path, options);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.detail ?? answer.title ?? response.statusText);
  return answer;
}

function element(name, text, properties = {}) {
  const made = Object.assign(document.createElement(name), properties);
  if (text !== undefined) made.textContent = text;
  return made;
}

// ---- the list of runs

function title(run) {
  return run.title || `${run.kind} run`;
}

function showRun(run) {
  runs.set(run.id, run);
  const link = element('a', title(run), { href: `#${run.id}` });
  if (run.id === chosen) link.setAttribute('aria-current', 'true');
  const words = [run.status, new Date(run.created_at).toLocaleString()];
  link.append(element('small', words.join(', ')));
  if (run.needs_attention) link.append(element('small', 'needs your attention', { className: 'attention' }));
  const item = element('li', undefined, { id: `item-${run.id}` });
  item.append(link);
  const there = byId(item.id);
  if (there) {
    const focused = there.contains(document.activeElement);
    there.replaceWith(item);
    if (focused) link.focus();
    return;
  }
  const list = byId('runs');
  const after = [...list.children].find((other) => other.id < item.id);
  list.insertBefore(item, after ?? null);
  byId('no-runs').hidden = true;
}

async function loadNewest() {
  const page = await ask('/v1/runs?limit=50');
  page.data.forEach(showRun);
  if (oldest === null) noteOlder(page);
  byId('no-runs').hidden = runs.size > 0;
}

async function loadOlder() {
  const page = await ask(`/v1/runs?limit=50&after=${oldest}`);
  page.data.forEach(showRun);
  noteOlder(page);
}

function noteOlder(page) {
  oldest = page.next;
  byId('older').hidden = !page.has_more;
}

// Many events of one run in one moment cost one look at it.
const stale = new Set();
function refresh(id) {
  if (stale.size === 0) setTimeout(() => {
    const ids = [...stale];
    stale.clear();
    ids.forEach((run) => ask(`/v1/runs/${run}`).then((answer) => {
      showRun(answer.data);
      if (run === chosen) describe(answer.data);
    }).catch(tell));
  }, 100);
  stale.add(id);
}

const CHANGES_A_LIST = /^(run\.|approval\.|clarification\.|handoff\.|turn\.completed)/;

// The feed is followed from its end; whatever happened while it was away is in the list.
function followFeed() {
  const feed = new EventSource('/v1/events/stream?after_position=latest');
  feed.addEventListener('caught_up', () => {
    tell('Connected.');
    loadNewest().catch(tell);
  });
  feed.onerror = () => tell('Connection lost; trying again.');
  feed.onmessage = (message) => {
    const event = JSON.parse(message.data);
    if (CHANGES_A_LIST.test(event.type)) refresh(event.run_id);
  };
}

function tell(words) {
  byId('health').textContent = words instanceof Error ? words.message : words;
}

// ---- the account of one run

function says(event) {
  const { data } = event;
  const told = data.summary ?? data.text ?? data.delta ?? data.message ?? data.question ?? data.reason
    ?? data.tool_name ?? data.title ?? data.data ?? (data.argv && data.argv.join(' ')) ?? '';
  return String(told).split('\n')[0].slice(0, 200);
}

function eventItem(event) {
  const item = element('li');
  const details = element('details');
  const summary = element('summary');
  summary.append(
    element('span', event.sequence, { className: 'sequence' }),
    element('span', event.type, { className: 'type' }),
    element('span', says(event), { className: 'says' }),
  );
  details.append(summary);
  details.addEventListener('toggle', () => {
    if (details.open && details.children.length === 1) {
      details.append(element('pre', JSON.stringify(event, null, 2)));
    }
  });
  item.append(details);
  return item;
}

function describe(run) {
  byId('account-title').textContent = title(run);
  const parts = [`Status: ${run.status}`];
  if (run.status === 'failed') parts.push(`code ${run.ending}`);
  if (run.status === 'cancelled') parts.push(`by ${run.ending}`);
  if (run.message) parts.push(run.message);
  byId('run-status').textContent = `${parts.join('; ')}.`;
  showApprovals(run).catch(tell);
}

async function showApprovals(run) {
  const box = byId('approvals');
  const pending = await Promise.all(run.pending_approvals.map((id) => ask(`/v1/approvals/${encodeURIComponent(id)}`)));
  if (run.id !== chosen) return;
  box.replaceChildren(...pending.filter(({ data }) => data.status === 'pending').map(({ data }) => prompt(data)));
  box.hidden = box.children.length === 0;
}

function prompt(approval) {
  const form = element('form');
  const words = element('div');
  words.append(element('p', `May it do this: ${approval.summary}`));
  if (approval.consequence) words.append(element('p', approval.consequence));
  if (approval.expires_at) {
    words.append(element('p', `Without an answer by ${new Date(approval.expires_at).toLocaleTimeString()}: ${approval.default_decision}.`));
  }
  for (const [decision, label] of [['approve', 'Approve'], ['reject', 'Reject']]) {
    form.append(element('button', `${label}: ${approval.summary}`, { type: 'submit', value: decision }));
  }
  form.addEventListener('submit', (submitted) => {
    submitted.preventDefault();
    ask(`/v1/approvals/${encodeURIComponent(approval.id)}/resolve`, { decision: submitted.submitter.value })
      .then(() => refresh(approval.run_id))
      .catch(tell);
  });
  const box = element('div');
  box.append(words, form);
  return box;
}

function choose() {
  const id = location.hash.slice(1);
  account?.close();
  chosen = /^run_[0-9A-Z]{26}$/.test(id) ? id : null;
  byId('events').replaceChildren();
  byId('approvals').hidden = true;
  for (const link of document.querySelectorAll('nav a')) {
    link.toggleAttribute('aria-current', link.hash === `#${id}`);
  }
  if (!chosen) return;
  ask(`/v1/runs/${chosen}`).then((answer) => describe(answer.data)).catch(tell);
  account = new EventSource(`/v1/runs/${chosen}/events`);
  const list = byId('events');
  const seen = new Set();
  account.onmessage = (message) => {
    const event = JSON.parse(message.data);
    if (seen.has(event.event_id)) return;
    seen.add(event.event_id);
    list.append(eventItem(event));
  };
}

addEventListener('hashchange', choose);
byId('older').addEventListener('click', () => loadOlder().catch(tell));

followFeed();
choose();
