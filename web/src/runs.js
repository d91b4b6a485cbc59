// The list of runs beside the page: newest first, narrowed by what is searched, kept right by what happens.
// The server narrows whole pages of it; what happens to one run is judged here by the same rules. Look at `RunList`.

import { ask, byId, element } from '../page.js';
import { said, visible } from '../visible.js';
import { moment, money } from './time.js';

/// How many runs one look at the list brings; the server gives 200 at most.
const RUNS_OF_A_PAGE = 50;
const RUNS_OF_A_PAGE_MAX = 200;
/// How many sessions there are to choose from, the newest; an address leads to every other one.
const SESSIONS_MAX = 200;
/// How long after the last key the search begins.
const SEARCH_MS = 250;

/// What kinds of runs are called; a kind of a later release has its own name.
const KIND_WORDS = { agent_loop: 'agent', external: 'recorded' };
export const kindOf = (run) => (Object.hasOwn(KIND_WORDS, run.kind) ? KIND_WORDS[run.kind] : String(run.kind));
export const titleOf = (run) => run.title || `${kindOf(run)} run`;
/// The name and version of a run's agent; empty where none is known.
export const agentOf = (run) => [run.agent_name, run.agent_version].filter(Boolean).join(' ');
/// What a run cost; empty where another agent's run reports no cost, so that it is not taken for free.
export const costOf = (run) => (run.driver === 'external' && !run.cost_micros_usd ? '' : money(run.cost_micros_usd));
export const STATUS_WORDS = { queued: 'queued', running: 'running', waiting: 'waiting', finished: 'finished', failed: 'failed', cancelled: 'cancelled' };

export class RunList {
  /// `look` asks for a run that may have changed; `changed` is told when the filter is another one.
  constructor({ look, chosen, changed }) {
    this.look = look;
    this.chosen = chosen;
    this.changed = changed;
    this.runs = new Map();
    this.older = null;
    this.bottom = null;
    this.asked = 0;
    this.scope = {};
    this.form = byId('filters');
    byId('older').addEventListener('click', () => this.changed(this.loadPage(this.older, RUNS_OF_A_PAGE)));
    this.form.addEventListener('submit', (submitted) => submitted.preventDefault());
    this.form.addEventListener('input', (input) => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.narrow(), input.target instanceof HTMLInputElement ? SEARCH_MS : 0);
    });
    byId('scope-clear').addEventListener('click', () => {
      location.hash = '#';
    });
  }

  /// The runs of one task or session, or of all.
  setScope(scope) {
    if (JSON.stringify(scope) === JSON.stringify(this.scope)) return;
    this.scope = scope;
    const [name] = Object.keys(scope);
    byId('scope').hidden = !name;
    byId('scope-words').textContent = name ? `Runs of ${name === 'task_id' ? 'task' : 'session'} ${visible(scope[name])}` : '';
    this.narrow();
  }

  /** @returns {Record<string, any>} */
  get filter() {
    const [show, kind, text, agent] = ['show', 'kind', 'text', 'agent'].map((name) => String(new FormData(this.form).get(name) ?? ''));
    /** @type {Record<string, any>} */
    const filter = { ...this.scope };
    if (show === 'attention') filter.needs_attention = 'true';
    else if (show) filter.status = show;
    const session = byId('filter-session').value;
    if (session) filter.session_id = session;
    if (kind) filter.kind = kind;
    if (text.trim()) filter.text = text.trim();
    if (agent.trim()) filter.agent = agent.trim();
    return filter;
  }

  /// Whether a run belongs into the list, as the server would judge it.
  fits(run) {
    const { needs_attention: attention, status, kind, text, agent, task_id: task, session_id: session } = this.filter;
    if (attention && !run.needs_attention) return false;
    if (status && run.status !== status) return false;
    if (kind && run.kind !== kind) return false;
    if (agent && !String(run.agent_name ?? '').toLowerCase().startsWith(agent.toLowerCase())) return false;
    if (task && run.task_id !== task) return false;
    if (session && run.session_id !== session) return false;
    return !text || `${run.title ?? ''}\n${run.message ?? ''}`.toLowerCase().includes(text.toLowerCase());
  }

  /// The sessions that may be chosen; what is chosen stays.
  async loadSessions() {
    const { data } = await ask(`/v1/sessions?limit=${SESSIONS_MAX}`);
    const select = byId('filter-session');
    const chosen = select.value;
    const option = ({ id, title, created_at: at }) => element('option', visible(title || `chat from ${moment(at)}`), { value: id, selected: id === chosen });
    select.replaceChildren(select.firstElementChild, ...data.map(option));
    select.hidden = data.length === 0;
  }

  async narrow() {
    this.runs.clear();
    this.bottom = null;
    byId('runs').replaceChildren();
    await this.changed(this.loadPage(null, RUNS_OF_A_PAGE));
  }

  show(run) {
    if (!this.fits(run)) {
      this.runs.delete(run.id);
      const item = byId(`item-${run.id}`);
      if (item?.contains(document.activeElement)) byId('runs-title').focus();
      item?.remove();
    } else {
      this.runs.set(run.id, run);
      const link = this.itemOf(run.id).firstChild;
      const cost = run.cost_micros_usd ? ` · ${money(run.cost_micros_usd)}` : '';
      const state = element('span', visible(STATUS_WORDS[run.status] ?? String(run.status)), { className: 'state' });
      const source = run.driver === 'external' ? agentOf(run) || 'recorded' : run.model || kindOf(run);
      const facts = element('small', [state, visible(` · ${moment(run.created_at)} · ${source}${cost}`)]);
      const parts = [said(titleOf(run)), facts];
      if (run.source) parts.push(element('small', visible(`recorded from ${run.source}`), { className: 'source' }));
      if (run.needs_attention) parts.push(element('small', 'needs your attention', { className: 'attention' }));
      link.dataset.status = Object.hasOwn(STATUS_WORDS, run.status) ? run.status : 'other';
      link.replaceChildren(...parts);
      this.mark(link);
    }
    byId('no-runs').hidden = this.runs.size > 0;
  }

  /// The place of a run in the list, newest first; it stays the same element.
  itemOf(id) {
    const there = byId(`item-${id}`);
    if (there) return there;
    const item = element('li', element('a', undefined, { href: `#${id}` }), { id: `item-${id}` });
    const list = byId('runs');
    const after = [...list.children].find((other) => other.id < item.id);
    list.insertBefore(item, after ?? null);
    return item;
  }

  mark(link) {
    const chosen = this.chosen();
    if (chosen && link.hash === `#${chosen}`) link.setAttribute('aria-current', 'true');
    else link.removeAttribute('aria-current');
  }

  markAll() {
    document.querySelectorAll('#runs a').forEach((link) => this.mark(link));
  }

  async loadPage(after, limit) {
    this.asked += 1;
    const mine = this.asked;
    const query = new URLSearchParams({ limit, ...this.filter });
    if (after) query.set('after', after);
    const page = await ask(`/v1/runs?${query}`);
    // Meanwhile something else was searched.
    if (mine !== this.asked) return { data: [], has_more: false };
    page.data.forEach((run) => this.show(run));
    this.older = page.next;
    this.bottom = page.data.at(-1)?.id ?? this.bottom;
    byId('older').hidden = !page.has_more;
    byId('no-runs').hidden = this.runs.size > 0;
    byId('no-runs-words').hidden = Object.keys(this.filter).length > 0;
    byId('none-fits').hidden = Object.keys(this.filter).length === 0;
    return page;
  }

  /// Everything that is listed, and what is new, as it is now.
  async loadListed() {
    // Without them there is one choice less.
    this.loadSessions().catch(() => {});
    const before = this.bottom;
    const chosen = this.chosen();
    const listed = [...this.runs.keys()];
    if (chosen && !this.runs.has(chosen)) listed.push(chosen);
    let page = await this.loadPage(null, RUNS_OF_A_PAGE);
    while (before && page.has_more && this.bottom > before) page = await this.loadPage(this.older, RUNS_OF_A_PAGE_MAX);
    // Some stand below the pages because something happened in them while the page was open.
    listed.filter((id) => !this.bottom || id < this.bottom || id === chosen).forEach((id) => this.look(id));
  }
}
