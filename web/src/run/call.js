// One tool call as a card that opens: what it was asked to do, what came of it, and all about it. A custom element.
// Kinds of calls that are known add parts of their own; every other call is shown by its input and output.

import { element, setText } from '../../page.js';
import { approvedText, beginning, said, visible, visibleLines } from '../../visible.js';
import { size } from '../time.js';
import { PatchView } from './patches.js';
import { picture, saver } from './pictures.js';
import { grepPart, globPart, readPart, requestPart } from './results.js';
import { OutputPane } from './shell.js';
import { STATES, callLine, outcomeLine } from './words.js';

/** The longest text of a result that is shown at once. */
const OUTPUT_LENGTH_MAX = 20_000;
const LINE_LENGTH_MAX = 300;

class CallCard extends HTMLElement {
  /** Fills in what is known of the call now. */
  show(item, context) {
    if (!this.made) this.make(item, context);
    this.item = item;
    setText(this.stateNode, STATES[item.state] ?? visible(item.state));
    this.dataset.state = this.trouble(item) ? 'failed' : item.state;
    setText(this.nameNode, visible(item.mcp_server ? `${item.mcp_server}: ${item.mcp_tool ?? item.name}` : item.name || 'call'));
    setText(this.lineNode, beginning(approvedText(callLine(item)), LINE_LENGTH_MAX));
    setText(this.outcomeNode, visible(outcomeLine(item)));
    if (this.details.open) this.fill();
  }

  /** Whether a person should look: it failed, or its command did. */
  trouble({ state, shell }) {
    return ['failed', 'timed_out'].includes(state) || (shell && (shell.exit_code ?? 0) !== 0);
  }

  make(item, context) {
    this.made = true;
    this.context = context;
    this.setAttribute('role', 'article');
    this.stateNode = element('span', '', { className: 'state' });
    this.nameNode = element('bdi', '', { className: 'name' });
    this.lineNode = element('bdi', '', { className: 'what', dir: 'ltr' });
    this.outcomeNode = element('bdi', '', { className: 'came' });
    const title = element('h4', [this.nameNode, ' ', this.lineNode]);
    this.details = element('details', element('summary', [this.stateNode, ' ', title, ' ', this.outcomeNode]));
    this.details.addEventListener('toggle', () => {
      if (this.details.open) this.fill();
    });
    const place = element('a', `#${item.sequence}`, { className: 'place', href: context.linkTo(item.sequence) });
    place.setAttribute('aria-label', `Event ${item.sequence}`);
    this.append(this.details, place);
    this.parts = new Map();
    this.body = null;
  }

  /** The parts of the open card, in order; each is made once and then told what changed. */
  fill() {
    const { item } = this;
    this.body ??= this.details.appendChild(element('div', undefined, { className: 'body' }));
    const parts = [];
    const part = (name, present, make, update = (/** @type {any} */ _node) => {}) => {
      if (!present) return;
      if (!this.parts.has(name)) this.parts.set(name, make());
      update(this.parts.get(name));
      parts.push(this.parts.get(name).node ?? this.parts.get(name));
    };
    part('error', item.error, () => element('p', '', { className: 'bad lines' }),
      (node) => setText(node, visibleLines(`${item.code ? `${item.code}: ` : ''}${item.error}`)));
    part('shell', item.shell, () => new OutputPane(), (pane) => pane.show(item));
    for (const [at, change] of (item.changes ?? []).entries()) {
      part(`change ${at} ${change.patches}`, true, () => new PatchView(change, this.context), (view) => view.show(change));
    }
    part('grep', item.grep, () => grepPart(item.grep));
    part('glob', item.glob, () => globPart(item.glob));
    part('read', item.read, () => readPart(item.read));
    for (const [at, request] of (item.requests ?? []).entries()) {
      part(`request ${at} ${request.response ? 'answered' : ''}`, true, () => requestPart(request));
    }
    const files = (item.artifacts ?? []).filter(({ kind }) => !['patch', 'log'].includes(kind));
    part(`files ${files.length}`, files.length > 0, () => element('ul', files.map((one) => element('li', picture(one))), { className: 'files part', ariaLabel: 'Artifacts' }));
    part(`facts ${item.state}`, true, () => this.facts());
    part('input', item.input !== undefined || item.input_pieces, () => this.fold('Input', () => this.context.json(item.input ?? item.input_pieces)));
    part('output', item.output !== undefined && item.output !== '', () => this.output());
    const same = parts.length === this.body.children.length && parts.every((node, at) => this.body.children[at] === node);
    // Moved only when something is new: what has the focus or is scrolled stays.
    if (!same) this.body.append(...parts.filter((node) => node.parentNode !== this.body));
    [...this.body.children].filter((node) => !parts.includes(node)).forEach((node) => node.remove());
  }

  fold(name, make, open = false) {
    const details = element('details', element('summary', name), { className: 'part' });
    const fill = () => {
      if (details.open && details.children.length === 1) details.append(make());
    };
    details.addEventListener('toggle', fill);
    details.open = open;
    fill();
    return details;
  }

  facts() {
    const { item } = this;
    const list = element('dl', undefined, { className: 'facts' });
    const fact = (name, words) => {
      if (words !== undefined && words !== null && words !== '') list.append(element('div', [element('dt', name), element('dd', said(words))]));
    };
    fact('Risk', item.risk_level && `${item.risk_level}${item.irreversible ? ', cannot be undone' : ''}`);
    fact('Executor', item.executor);
    fact('Folder', item.shell?.cwd);
    fact('Sandbox', item.shell?.sandbox_layer);
    fact('Allowed by', item.allowed_by && `${item.allowed_by} (${item.allowance_scope ?? 'allowance'})`);
    fact('MCP', item.result && `${item.mcp_server ?? ''} ${item.result}`);
    fact('Masked fields', item.redacted_paths?.join(', '));
    fact('Call', item.id);
    return list;
  }

  /** What the model got. */
  output() {
    const { item } = this;
    const rich = item.shell || item.grep || item.glob || item.read || item.changes || item.requests;
    return this.fold('Result for the model', () => {
      const box = element('div');
      const text = textOf(item.output);
      if (text === null) box.append(this.context.json(item.output));
      else box.append(element('pre', visibleLines(text.slice(0, OUTPUT_LENGTH_MAX)), { dir: 'ltr', tabIndex: 0 }));
      if (text !== null && text.length > OUTPUT_LENGTH_MAX) box.append(element('p', `Showing the first ${size(OUTPUT_LENGTH_MAX)} of ${size(text.length)}.`));
      if (item.result_artifact_id) box.append(saver(item.result_artifact_id, 'Save the full output'));
      return box;
    }, !rich);
  }
}

/** The text of an output that is a text, or blocks of text. */
function textOf(output) {
  if (typeof output === 'string') return output;
  if (!Array.isArray(output) || !output.every((block) => block?.type === 'text' && typeof block.text === 'string')) return null;
  return output.map(({ text }) => text).join('\n');
}

customElements.define('recount-call', CallCard);
