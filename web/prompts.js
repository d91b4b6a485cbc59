// What waits for people: permissions, questions and handoffs, and the forms that answer.
// Each prompt keeps its place on the page for as long as it is pending. Look at `Prompts`.

import { KINDS } from './kinds.js';
import { ask, byId, element, remove, setText, trouble, wellAgain } from './page.js';
import { duration, moment } from './src/time.js';
import { promptMessage } from './src/run/spoken.js';
import { tell } from './src/voice.js';
import { said, visible, visibleJson, visibleLines } from './visible.js';

/// How often the time that is left is counted.
const COUNT_MS = 1000;
/// How many prompts that come at once are announced with their words; of the others, how many there are.
const ANNOUNCED_MAX = 4;

let titles = 0;

export class Prompts {
  /// `call` answers what is known of a call, `decided` is called with the run after an answer.
  constructor({ call, decided }) {
    this.call = call;
    this.decided = decided;
    this.box = byId('waiting');
    this.shown = new Map();
    this.looks = 0;
    // The time that is left is shown, and not said: a change every second is no news.
    setInterval(() => this.count(), COUNT_MS);
  }

  count() {
    for (const { left } of this.shown.values()) left();
  }

  /// Takes the reader to a prompt, or to the first.
  focus(kind, id) {
    const prompt = this.shown.get(`${kind} ${id}`) ?? [...this.shown.values()][0];
    if (!prompt) return false;
    prompt.node.scrollIntoView({ block: 'nearest' });
    prompt.node.focus();
    return true;
  }

  /// Makes what is shown what the run says is pending. Of several looks at once the latest counts.
  async show(run) {
    this.looks += 1;
    const look = this.looks;
    const pending = Object.entries(KINDS).flatMap(([kind, { pending }]) =>
      (pending(run) ?? []).map((id) => ({ key: `${kind} ${id}`, kind: KINDS[kind], id })));
    const answers = await Promise.all(pending.map(({ kind, id }) => ask(`${kind.path}/${encodeURIComponent(id)}`)));
    if (look !== this.looks) return;
    const found = pending.map((prompt, at) => ({ ...prompt, thing: answers[at].data }));
    found.forEach(({ key, thing }) => this.shown.get(key)?.extend(thing.expires_at));
    const asked = found.filter(({ key }) => !this.shown.has(key));
    const keys = new Set(pending.map(({ key }) => key));
    for (const [key, prompt] of this.shown) {
      if (!keys.has(key)) this.drop(key, prompt);
    }
    const inSession = Boolean(run.session_id);
    const fresh = asked.map((prompt) => ({ ...prompt, inSession })).filter(({ thing }) => thing.status === 'pending');
    fresh.forEach((prompt) => this.add(prompt));
    for (const { key, thing } of fresh.slice(0, ANNOUNCED_MAX)) {
      const { key: message, values, parts } = promptMessage(key.split(' ', 1)[0], thing);
      tell(message, values, { urgent: true, parts });
    }
    if (fresh.length > ANNOUNCED_MAX) tell('still-awaiting-input', { prompts: fresh.length - ANNOUNCED_MAX }, { urgent: true });
    this.update();
  }

  clear() {
    this.looks += 1;
    for (const [key, prompt] of this.shown) this.drop(key, prompt);
    this.update();
  }

  drop(key, prompt) {
    this.shown.delete(key);
    remove(prompt.node);
    wellAgain(key);
  }

  add(found) {
    const prompt = { ...found, input: element('pre', undefined, { tabIndex: 0, dir: 'ltr' }), sent: false, extend: () => {}, left: () => {} };
    prompt.input.setAttribute('aria-label', 'Call input');
    prompt.node = this.node(prompt);
    this.shown.set(prompt.key, prompt);
    this.box.append(prompt.node);
  }

  /// Fills in what has become known since; parts that are there stay the same elements.
  update() {
    for (const { kind, thing, input } of this.shown.values()) {
      if (kind !== KINDS.approval) continue;
      const call = this.call(thing.tool_call_id);
      let words = 'Loading …';
      if (call === null) words = 'The call is not among the loaded events.';
      if (call) words = `${visible(call.tool_name)} ${visibleJson(call.input)}`;
      setText(input, words);
    }
    // Hidden only after focus has left it.
    this.box.hidden = this.shown.size === 0;
  }

  node(prompt) {
    const { kind, thing } = prompt;
    const title = element('h3', [`${kind.heading}: `, said(kind.words(thing), 'summary')]);
    titles += 1;
    title.id = `prompt-${titles}`;
    const node = element('div', title, { className: 'prompt', tabIndex: -1 });
    node.setAttribute('role', 'group');
    node.setAttribute('aria-labelledby', title.id);
    const effect = kind.effect?.(thing);
    if (effect) node.append(element('p', element('bdi', visibleLines(effect), { className: 'summary' })));
    const warning = kind.warning?.(thing);
    if (warning) node.append(element('p', warning, { className: 'undone' }));
    const reversal = kind.reversal?.(thing);
    if (reversal) node.append(element('p', reversal));
    node.append(facts(prompt), this.form(prompt));
    return node;
  }

  form(prompt) {
    const form = element('form');
    const answer = prompt.kind.form(prompt.thing, form, prompt);
    form.addEventListener('submit', (submitted) => {
      submitted.preventDefault();
      const said = prompt.sent ? null : answer(submitted.submitter.value);
      if (said) this.send(prompt, ...said);
    });
    return form;
  }

  async send(prompt, verb, body) {
    const { key, kind, id } = prompt;
    prompt.sent = true;
    try {
      await ask(`${kind.path}/${encodeURIComponent(id)}/${verb}`, body);
      wellAgain(key);
    } catch (error) {
      if (this.shown.get(key) === prompt) trouble(key, error);
    } finally {
      prompt.sent = false;
      this.decided(prompt.thing.run_id);
    }
  }
}

/// All that helps to decide, each under its name.
function facts(prompt) {
  const list = element('dl');
  const fact = (name, content) => list.append(element('div', [element('dt', name), element('dd', content, { className: content.localName === 'pre' ? 'whole' : '' })]));
  const text = (name, words) => {
    if (words) fact(name, element('bdi', visibleLines(words), { className: 'lines' }));
  };
  const expiry = (otherwise) => {
    const words = (at) => visibleLines(`${otherwise}, at ${moment(at)}`);
    const { expires_at: at } = prompt.thing;
    if (!at) return;
    const line = element('bdi', words(at), { className: 'lines' });
    const rest = element('span', '', { className: 'left' });
    fact('On timeout', [line, ' ', rest]);
    let until = at;
    prompt.left = () => {
      const ms = Date.parse(until) - Date.now();
      setText(rest, ms > 0 ? `(${duration(ms < 10_000 ? Math.ceil(ms / 1000) * 1000 : ms)} left)` : '(expired)');
    };
    prompt.extend = (later) => {
      until = later ?? at;
      setText(line, words(until));
      prompt.left();
    };
    prompt.left();
  };
  prompt.kind.facts(prompt, { fact, text, until: expiry });
  return list;
}
