// A session as a conversation: its messages in order, and a place to write the next one. Each message starts a run, whose
// page has everything else. Look at `SessionView`.

import { ask, byId, element, setText, trouble, wellAgain } from '../page.js';
import { visible } from '../visible.js';
import { prose } from './run/prose.js';
import { counted, moment } from './time.js';
import { announce } from './voice.js';

/// How many messages a page of the server has, and how many are shown; the newest.
const PAGE = 200;
const PAGES_MAX = 10;
const SHOWN_MAX = 300;
/// Read anew at most this often while things happen.
const REFRESH_MS = 500;

const ROLES = { user: 'You', assistant: 'Agent', tool: 'Tool' };

export class SessionView {
  constructor() {
    this.box = byId('session');
    this.list = element('ol', undefined, { className: 'messages', tabIndex: -1 });
    this.list.setAttribute('aria-label', 'Messages');
    this.note = element('p', '', { className: 'quiet' });
    this.text = element('textarea', undefined, { id: 'session-text', rows: 3, dir: 'auto', required: true });
    const form = element('form', [element('label', 'Your message', { htmlFor: 'session-text' }), this.text, element('button', 'Send')]);
    form.addEventListener('submit', (submitted) => {
      submitted.preventDefault();
      this.send();
    });
    this.text.addEventListener('keydown', (press) => {
      if (press.key === 'Enter' && (press.ctrlKey || press.metaKey)) form.requestSubmit();
    });
    this.box.replaceChildren(this.note, this.list, form);
    this.session = null;
    this.timer = null;
  }

  show(session) {
    this.box.hidden = !session;
    if (session !== this.session) this.list.replaceChildren();
    this.session = session;
    clearTimeout(this.timer);
    this.timer = null;
    wellAgain('session');
    if (session) this.load();
  }

  stale() {
    if (this.session) this.timer ??= setTimeout(() => this.load(), REFRESH_MS);
  }

  async load() {
    this.timer = null;
    const { session } = this;
    try {
      const all = [];
      let page = { has_more: true, next: null };
      for (let pages = 0; page.has_more && pages < PAGES_MAX; pages += 1) {
        page = await ask(`/v1/sessions/${encodeURIComponent(session)}/messages?limit=${PAGE}${page.next ? `&after=${encodeURIComponent(page.next)}` : ''}`);
        all.push(...page.data);
      }
      if (session !== this.session) return;
      const said = all.filter(({ text, role, tool_name: tool }) => (text && role !== 'tool') || tool);
      setText(this.note, page.has_more ? `Only the first ${counted(all.length, 'message')} are loaded. Newer messages are not shown.` : said.length === 0 ? 'No messages yet.' : '');
      this.draw(said.slice(-SHOWN_MAX));
      wellAgain('session');
    } catch (error) {
      if (session === this.session) trouble('session', error);
    }
  }

  draw(messages) {
    const keys = messages.map(({ run_id: run, sequence, text }) => `${run} ${sequence} ${text?.length ?? 0}`);
    const old = new Map([...this.list.children].map((node) => [node.dataset.key, node]));
    this.list.replaceChildren(...messages.map((message, at) => old.get(keys[at]) ?? this.node(message, keys[at])));
  }

  node({ run_id: run, sequence, at, role, text, tool_name: tool, outcome, aborted }, key) {
    const place = element('a', moment(at), { href: `#${run}/${sequence}`, className: 'place' });
    place.setAttribute('aria-label', `${moment(at)}, event ${sequence} of the run`);
    const node = tool
      ? element('li', [element('span', visible(`${tool}${outcome ? `: ${outcome}` : ''}`), { className: 'quiet' }), place], { className: 'tool' })
      : element('li', [element('header', [element('h3', `${ROLES[role] ?? visible(role)}${aborted ? ' (cut off)' : ''}`), place]),
        element('div', prose(text), { className: 'prose' })], { className: role === 'user' ? 'from-user' : '' });
    node.dataset.key = key;
    return node;
  }

  async send() {
    const text = this.text.value.trim();
    if (!text) return;
    try {
      await ask(`/v1/sessions/${encodeURIComponent(this.session)}/messages`, { text });
      this.text.value = '';
      announce('Message sent.');
      wellAgain('session');
      this.stale();
    } catch (error) {
      trouble('session', error);
    }
  }
}

/** Begins a session; its page is the answer. */
export async function newSession() {
  try {
    const { data } = await ask('/v1/sessions', {});
    wellAgain('session');
    location.hash = `#?session_id=${encodeURIComponent(data.id)}`;
  } catch (error) {
    trouble('session', error);
  }
}
