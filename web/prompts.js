// What waits for somebody's permission, and the buttons that give it or not.
// Each prompt keeps its place on the page for as long as it is pending. Look at `Prompts`.

import { announce, ask, byId, element, remove, setText, trouble, wellAgain } from './page.js';
import { beginning, said, visible, visibleJson, visibleLines } from './visible.js';

/// The longest summary on a button; all of it stands above the buttons.
const LABEL_LENGTH_MAX = 120;

let titles = 0;

const UNDONE = 'This cannot be undone.';

export class Prompts {
  /// `call` answers what is known of a call, `decided` is called with the run after a decision.
  constructor({ call, decided }) {
    Object.assign(this, { call, decided });
    this.box = byId('approvals');
    this.shown = new Map();
    this.looks = 0;
  }

  /// Makes what is shown what `ids` says is pending. Of several looks at once the latest counts.
  async show(ids) {
    this.looks += 1;
    const look = this.looks;
    const asked = ids.filter((id) => !this.shown.has(id));
    const answers = await Promise.all(asked.map((id) => ask(`/v1/approvals/${encodeURIComponent(id)}`)));
    if (look !== this.looks) return;
    for (const [id, prompt] of this.shown) {
      if (!ids.includes(id)) this.drop(id, prompt);
    }
    const pending = answers.map(({ data }) => data).filter(({ status }) => status === 'pending');
    pending.forEach((approval) => this.add(approval));
    if (pending.length > 0) {
      const summaries = pending.map(({ summary }) => visible(beginning(summary, LABEL_LENGTH_MAX)));
      announce(`Permission is asked for: ${summaries.join('; ')}`);
    }
    this.update();
  }

  clear() {
    this.looks += 1;
    for (const [id, prompt] of this.shown) this.drop(id, prompt);
    this.update();
  }

  drop(id, prompt) {
    this.shown.delete(id);
    remove(prompt.node);
    wellAgain(`approval ${id}`);
  }

  add(approval) {
    const prompt = { approval, input: element('pre', undefined, { tabIndex: 0, dir: 'ltr' }), sent: false };
    prompt.input.setAttribute('aria-label', 'Input of the call');
    prompt.node = this.node(prompt);
    this.shown.set(approval.id, prompt);
    this.box.append(prompt.node);
  }

  /// Fills in what has become known since; parts that are there stay the same elements.
  update() {
    for (const { approval, input } of this.shown.values()) {
      const call = this.call(approval.tool_call_id);
      let words = 'Not yet known.';
      if (call === null) words = 'No such call among the events of this run that were looked through.';
      if (call) words = `${visible(call.tool_name)} ${visibleJson(call.input)}`;
      setText(input, words);
    }
    // Hidden only after focus has left it.
    this.box.hidden = this.shown.size === 0;
  }

  node(prompt) {
    const { approval } = prompt;
    const title = element('h3', ['May it do this: ', said(approval.summary, 'summary')]);
    titles += 1;
    title.id = `prompt-${titles}`;
    const node = element('div', title, { className: 'prompt' });
    node.setAttribute('role', 'group');
    node.setAttribute('aria-labelledby', title.id);
    if (approval.irreversible) node.append(element('p', UNDONE, { className: 'undone' }));
    node.append(facts(prompt), this.form(prompt));
    return node;
  }

  form(prompt) {
    const { approval } = prompt;
    const form = element('form');
    const summary = beginning(approval.summary, LABEL_LENGTH_MAX);
    for (const [decision, label] of [['approve', 'Approve'], ['reject', 'Reject']]) {
      form.append(element('button', [`${label}: `, said(summary)], { type: 'submit', value: decision }));
    }
    form.addEventListener('submit', (submitted) => {
      submitted.preventDefault();
      if (!prompt.sent) this.decide(prompt, submitted.submitter.value);
    });
    return form;
  }

  async decide(prompt, decision) {
    const { id, run_id: run } = prompt.approval;
    prompt.sent = true;
    try {
      await ask(`/v1/approvals/${encodeURIComponent(id)}/resolve`, { decision });
      wellAgain(`approval ${id}`);
    } catch (error) {
      if (this.shown.get(id) === prompt) trouble(`approval ${id}`, error);
    } finally {
      prompt.sent = false;
      this.decided(run);
    }
  }
}

/// All that helps to decide, each under its name.
function facts({ approval, input }) {
  const list = element('dl');
  const fact = (name, content) => list.append(element('div', [element('dt', name), element('dd', content)]));
  const text = (name, words) => {
    if (words) fact(name, element('bdi', visibleLines(words), { className: 'lines' }));
  };
  text('Risk', approval.risk_level);
  text('Action', approval.action);
  text('Consequence', approval.consequence);
  text('Why it is asked', approval.policy_reason);
  text('Kind', approval.kind);
  text('Call', approval.tool_call_id);
  fact('Input', input);
  if (approval.expires_at) {
    const until = new Date(approval.expires_at).toLocaleString();
    text('Without an answer', `${approval.default_decision}, at ${until}`);
  }
  return list;
}
