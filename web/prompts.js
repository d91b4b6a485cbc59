// What waits for people: permissions, questions and handoffs, and the forms that answer. Each prompt keeps its place on the
// page for as long as it is pending; what became of it is shown afterwards. Look at `Prompts`.

import { KINDS } from './kinds.js';
import { ask, byId, element, remove, setText, trouble, wellAgain } from './page.js';
import { CallContent } from './src/approved.js';
import { Arming } from './src/arming.js';
import { copyButton } from './src/copy.js';
import { duration, moment } from './src/time.js';
import { promptMessage } from './src/run/spoken.js';
import { promptWords } from './src/run/words.js';
import { announce, tell } from './src/voice.js';
import { approvedText, beginning, said, visible, visibleJson, visibleLines } from './visible.js';

/// How often the time that is left is counted.
const COUNT_MS = 1000;
/// How many prompts that come at once are announced with their words; of the others, how many there are.
const ANNOUNCED_MAX = 4;
/// How many answered prompts stay on the page, the newest; the transcript has all of them.
const ANSWERED_MAX = 3;
/// The longest text of an answered prompt.
const ANSWERED_LENGTH_MAX = 200;

export class Prompts {
  /// `call` answers what is known of a call, `decided` is called with the run after an answer.
  constructor({ call, decided }) {
    this.call = call;
    this.decided = decided;
    this.box = byId('waiting');
    this.answered = byId('answered');
    this.shown = new Map();
    this.looks = 0;
    // The time that is left is shown and not announced: a change every second is no news.
    setInterval(() => this.count(), COUNT_MS);
    // What appeared while the tab was hidden appears to its reader only now.
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.disarm([...this.shown.values()]);
    });
    // A message above the prompts moves them.
    new ResizeObserver(() => this.disarm([...this.shown.values()])).observe(byId('trouble'));
  }

  count() {
    for (const { left } of this.shown.values()) left();
  }

  disarm(prompts) {
    for (const { arming } of prompts) arming.restart();
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
    const pending = Object.entries(KINDS).flatMap(([name, { pending }]) =>
      (pending(run) ?? []).map((id) => ({ key: `${name} ${id}`, name, kind: KINDS[name], id })));
    const keys = new Set(pending.map(({ key }) => key));
    const over = [...this.shown.values()].filter(({ key }) => !keys.has(key));
    const read = ({ kind, id }) => ask(`${kind.path}/${encodeURIComponent(id)}`);
    const [answers, outcomes] = await Promise.all([Promise.all(pending.map(read)), Promise.all(over.map((prompt) => read(prompt).catch(() => null)))]);
    if (look !== this.looks) return;
    const found = pending.map((prompt, at) => ({ ...prompt, thing: answers[at].data }));
    found.forEach(({ key, thing }) => this.shown.get(key)?.extend(thing.expires_at));
    const missing = found.filter(({ key }) => !this.shown.has(key));
    over.forEach((prompt, at) => {
      if (outcomes[at]) this.showOutcome(prompt, outcomes[at].data);
      this.drop(prompt);
    });
    const inSession = Boolean(run.session_id);
    const fresh = missing.map((prompt) => ({ ...prompt, inSession, run })).filter(({ thing }) => thing.status === 'pending');
    fresh.forEach((prompt) => this.add(prompt));
    for (const { name, thing } of fresh.slice(0, ANNOUNCED_MAX)) {
      const { key: message, values, parts } = promptMessage(name, thing);
      tell(message, values, { urgent: true, parts });
    }
    if (fresh.length > ANNOUNCED_MAX) tell('still-awaiting-input', { prompts: fresh.length - ANNOUNCED_MAX }, { urgent: true });
    this.update();
  }

  clear() {
    this.looks += 1;
    for (const prompt of this.shown.values()) this.drop(prompt);
    this.answered.replaceChildren();
    this.update();
  }

  /// Those after it move to where it was, and a click that was meant for it must not reach them.
  drop(prompt) {
    const { key } = prompt;
    this.disarm(this.after(prompt));
    this.shown.delete(key);
    prompt.arming.close();
    prompt.content?.close();
    remove(prompt.node);
    wellAgain(key);
  }

  after({ key }) {
    const all = [...this.shown.keys()];
    return all.slice(all.indexOf(key) + 1).map((other) => this.shown.get(other));
  }

  /// Who decided what and when, in sight of a person who was about to answer.
  showOutcome({ name, thing: request, late }, thing) {
    const { decided_by, decided_at, answered_by, answered_at, response, decision, comment } = thing;
    if (thing.status === 'pending') return;
    const words = promptWords({ prompt: name, state: thing.status, asked: request, answer: { by: decided_by ?? answered_by, response, decision, comment } });
    const at = decided_at ?? answered_at;
    const what = name === 'approval' ? words.outcome.replace(/^./, (first) => first.toUpperCase()) : `${words.name} ${words.outcome}`;
    const line = `${what}${at ? ` at ${moment(at, new Date(), { second: '2-digit' })}` : ''}: `;
    const question = said(beginning(approvedText(words.question), ANSWERED_LENGTH_MAX));
    const node = element('p', [late ? element('strong', 'Your answer came too late. ') : '', visible(line), question, words.comment ? element('bdi', ` (${visible(words.comment)})`) : ''],
      { className: late ? 'late' : '' });
    this.answered.append(node);
    while (this.answered.children.length > ANSWERED_MAX) this.answered.firstElementChild.remove();
    if (late) announce(node.textContent);
  }

  add(found) {
    const prompt = { ...found, sent: false, late: false, extend: () => {}, left: () => {}, content: null, input: null };
    const form = this.form(prompt);
    prompt.arming = new Arming(form, Boolean(prompt.kind.hasContent));
    if (prompt.kind.hasContent) {
      const { arming } = prompt;
      const next = element('button', 'Show more', { type: 'button' });
      form.insertBefore(next, arming.note);
      next.addEventListener('click', () => prompt.content.next());
      prompt.content = new CallContent(prompt.thing, {
        changed: () => {
          arming.restart();
          this.disarm(this.after(prompt));
        },
        shown(wasShown) {
          next.hidden = wasShown;
          arming.shown(wasShown);
        },
        refuse: (why) => arming.refuse(why),
      });
    }
    prompt.node = this.node(prompt, form);
    this.shown.set(prompt.key, prompt);
    this.box.append(prompt.node);
  }

  /// Fills in what has become known since; parts that are there stay the same elements.
  update() {
    for (const { content, thing, title, kind, input } of this.shown.values()) {
      if (!content) continue;
      const call = this.call(thing.tool_call_id);
      content.know(call);
      // What a run of one command does is its preview; it has no proposed call.
      input.hidden = !thing.preview || !call;
      if (call) setText(input.lastChild, `${visible(call.tool_name)} ${visibleJson(call.input)}`);
      // The command is shown once.
      const isSame = thing.preview_kind === 'command' || content.text === thing.summary;
      setText(title, isSame ? 'run a command' : visible(kind.words(thing)));
    }
    // Hidden only after focus has left it.
    this.box.hidden = this.shown.size === 0;
  }

  node(prompt, form) {
    const { kind, thing } = prompt;
    prompt.title = said(kind.words(thing), 'summary');
    const title = element('h3', [`${kind.heading}: `, prompt.title]);
    const body = element('div', title, { className: 'body' });
    const node = element('div', [body, form], { className: 'prompt', tabIndex: -1 });
    node.setAttribute('role', 'group');
    node.setAttribute('aria-label', `${kind.heading}: ${beginning(approvedText(kind.words(thing)), ANSWERED_LENGTH_MAX)}`);
    if (prompt.content) {
      const isCommand = thing.preview_kind === 'command';
      if (thing.action && !isCommand) body.append(element('p', element('bdi', visibleLines(thing.action), { className: 'lines' })));
      body.append(prompt.content.box, copyButton(isCommand ? 'Copy the command' : 'Copy', () => prompt.content.text ?? ''));
    }
    body.append(facts(prompt, kind.facts));
    if (kind.details) {
      const list = facts(prompt, kind.details);
      const pre = element('pre', '', { tabIndex: 0, dir: 'ltr' });
      pre.setAttribute('aria-label', 'Call input');
      prompt.input = element('div', [element('p', 'Input'), pre], { hidden: true });
      body.append(element('details', [element('summary', 'Details'), list, prompt.input]));
    }
    return node;
  }

  form(prompt) {
    const form = element('form');
    form.dataset.prompt = prompt.key;
    const answer = prompt.kind.form(prompt.thing, form, prompt);
    form.addEventListener('submit', (submitted) => {
      submitted.preventDefault();
      const reply = prompt.sent ? null : answer(submitted.submitter.value);
      if (reply) this.send(prompt, ...reply);
    });
    return form;
  }

  /// The answer names what was shown; the server refuses it for anything else.
  async send(prompt, verb, body) {
    const { key, kind, id, thing } = prompt;
    prompt.sent = true;
    try {
      await ask(`${kind.path}/${encodeURIComponent(id)}/${verb}`, { ...body, ...(thing.shown_digest ? { shown_digest: thing.shown_digest } : {}) });
      wellAgain(key);
    } catch (error) {
      prompt.late = /_not_pending$|^run_ended$/.test(error.code ?? '');
      // Shown anew with what it is now.
      if (error.code === 'prompt_changed' && this.shown.get(key) === prompt) this.drop(prompt);
      if (!prompt.late && this.shown.get(key) === prompt) trouble(key, error);
    } finally {
      prompt.sent = false;
      this.decided(thing.run_id);
    }
  }
}

/// What helps to decide, each under its name.
function facts(prompt, fill) {
  const list = element('dl');
  const fact = (name, content) => list.append(element('div', [element('dt', name), element('dd', content)]));
  const text = (name, words) => {
    if (words) fact(name, element('bdi', visibleLines(words), { className: 'lines' }));
  };
  const expiry = (otherwise) => {
    const words = (at) => visibleLines(`${otherwise}, at ${moment(at)}`);
    const { expires_at: at } = prompt.thing;
    if (!at) {
      text('Deadline', 'None: it waits until someone answers.');
      return;
    }
    const line = element('bdi', words(at), { className: 'lines' });
    const rest = element('span', '', { className: 'left' });
    fact('On timeout', element('span', [line, ' ', rest]));
    let until = at;
    prompt.left = () => {
      const ms = Date.parse(until) - Date.now();
      setText(rest, ms > 0 ? `(${duration(ms < 10_000 ? Math.ceil(ms / 1000) * 1000 : ms)} left)` : '(expired)');
    };
    prompt.extend = (later) => {
      if (later && later !== until) prompt.arming.restart();
      until = later ?? at;
      setText(line, words(until));
      prompt.left();
    };
    prompt.left();
  };
  fill(prompt, { fact, text, until: expiry });
  return list;
}
