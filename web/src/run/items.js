// The things of a transcript as elements: what is said, asked and noted. Calls have a file of their own.
// Each thing keeps its element for as long as it is shown; what changed is filled in. Look at `itemNode`.

import { element, setText } from '../../page.js';
import { said, visible, visibleLines } from '../../visible.js';
import { copyButton } from '../copy.js';
import { duration, exactly, moment, money, size, tokens } from '../time.js';
import './call.js';
import { picture } from './pictures.js';
import { PROSE_LENGTH_MAX, prose } from './prose.js';
import { endingWords, missingWords, noteWords, promptWords } from './words.js';

/** Who speaks, as a heading; and the place in the log, as a link. */
function head(item, words, context, level = 'h4') {
  const link = element('a', `#${item.sequence}`, { className: 'place', href: context.linkTo(item.sequence), title: exactly(item.at) });
  link.setAttribute('aria-label', `Event ${item.sequence}`);
  return element('header', [element(level, words), link]);
}

function article(item, content) {
  const node = element('article', content, { className: `item is-${item.kind}`, tabIndex: -1 });
  node.dataset.key = item.key;
  return node;
}

/** A text that may grow: only its paragraphs are made anew. */
function textNode(item, context, name) {
  const title = element('span', name);
  const body = element('div', undefined, { className: 'prose' });
  const whole = element('button', '', { type: 'button', className: 'quiet' });
  let all = false;
  let now = item;
  const top = head(item, title, context);
  top.insertBefore(copyButton('Copy', () => now.text ?? ''), top.lastChild);
  const node = article(item, [top, body, whole]);
  const update = (told) => {
    now = told;
    const text = now.text ?? '';
    const cut = !all && text.length > PROSE_LENGTH_MAX;
    body.replaceChildren(...prose(cut ? text.slice(0, PROSE_LENGTH_MAX) : text));
    whole.hidden = !cut;
    if (cut) setText(whole, `Show all (${size(text.length)})`);
    node.classList.toggle('superseded', now.superseded === true);
    node.classList.toggle('streaming', now.complete === false);
    const marks = [now.superseded && 'retried, discarded', now.aborted && 'cut off'].filter(Boolean);
    setText(title, marks.length > 0 ? `${name} (${marks.join(', ')})` : name);
  };
  whole.addEventListener('click', () => {
    all = true;
    update(now);
    node.focus();
  });
  update(item);
  return { node, update };
}

function userNode(item, context) {
  const text = textNode(item, context, item.by ? `Request by ${visible(item.by)}` : 'You');
  const files = element('ul', undefined, { className: 'files' });
  files.setAttribute('aria-label', 'Attachments');
  text.node.append(files);
  const update = (now) => {
    text.update(now);
    text.node.hidden = now.kind === 'request' && (now.repeated === true || now.text === '');
    const attachments = now.attachments ?? [];
    files.hidden = attachments.length === 0;
    if (files.children.length === attachments.length) return;
    files.replaceChildren(...attachments.map((one) => element('li', picture(one))));
  };
  update(item);
  return { node: text.node, update };
}

function turnNode(item, context) {
  const figures = element('span', '', { className: 'figures' });
  const name = `Turn ${item.turn + 1}${item.attempt > 1 ? `, attempt ${item.attempt}` : ''}`;
  const node = article(item, head(item, [name, ' ', figures], context, 'h3'));
  const again = element('button', 'Retry from this turn', { type: 'button', className: 'quiet' });
  again.addEventListener('click', () => context.act('retry-from-turn', { turn_index: item.turn }));
  node.firstChild.append(again);
  const update = (now) => {
    const turn = context.fold().view.turns.find(({ index, attempt }) => index === now.turn && attempt === now.attempt);
    const words = [now.model, turn?.input_tokens !== null && turn && `${tokens(turn.input_tokens)} in, ${tokens(turn.output_tokens ?? 0)} out`,
      turn?.cost_micros_usd && money(turn.cost_micros_usd), turn?.duration_ms && duration(turn.duration_ms),
      turn?.stop_reason && !['end_turn', 'tool_use'].includes(turn.stop_reason) && turn.stop_reason];
    setText(figures, visible(words.filter(Boolean).join(' · ')));
    again.hidden = !context.canRetry();
  };
  update(item);
  return { node, update };
}

function promptNode(item, context) {
  const outcome = element('p', '', { className: 'outcome' });
  const comment = element('p', '', { className: 'lines' });
  const answer = element('button', 'Go to the prompt', { type: 'button' });
  answer.addEventListener('click', () => context.answer(item.prompt, item.id));
  const first = promptWords(item);
  const question = element('p', said(first.question), { className: 'question' });
  const node = article(item, [head(item, first.name, context), question, outcome, comment, answer]);
  const update = (now) => {
    const words = promptWords(now);
    setText(outcome, visible(`${words.outcome}${now.answered_at ? `, ${moment(now.answered_at)}` : ''}`));
    setText(comment, visibleLines(words.comment));
    comment.hidden = words.comment === '';
    answer.hidden = now.state !== 'pending' || context.fold().view.ending !== null;
    node.dataset.state = now.state;
  };
  update(item);
  return { node, update };
}

function lineNode(item, context, words, tone = 'quiet') {
  const node = article(item, [element('p', element('bdi', visibleLines(words), { className: 'lines' })), head(item, '', context).lastChild]);
  node.classList.add('line', tone);
  return { node, update() {} };
}

function noteNode(item, context) {
  const { tone, words } = noteWords(item);
  const made = lineNode(item, context, words, tone);
  const from = item.data?.from_run_id ?? null;
  if (from) made.node.firstChild.append(' ', element('a', 'Show the source run', { href: `#${from}` }));
  return made;
}

function waitNode(item, context) {
  const words = (now) => {
    const things = now.for.map(({ kind }) => kind).join(', ');
    if (now.until === null) return `Waiting for: ${things}.`;
    return `Waited ${duration(Date.parse(now.until) - Date.parse(now.at))} for: ${things}.`;
  };
  const made = lineNode(item, context, words(item), 'quiet');
  return { node: made.node, update: (now) => setText(made.node.querySelector('bdi'), visibleLines(words(now))) };
}

function checkpointNode(item, context) {
  const made = lineNode(item, context, 'Checkpoint: the run can be resumed from here.');
  const branch = element('button', 'Branch from here', { type: 'button', className: 'quiet' });
  branch.addEventListener('click', () => context.act('resume', { checkpoint_id: item.id }));
  made.node.append(branch);
  const update = () => {
    branch.hidden = !context.canRetry();
  };
  update();
  return { node: made.node, update };
}

/** What has no form of its own: its name, and all that it says, when asked for. */
function generic(item, context, title, value) {
  const details = element('details', element('summary', said(title)));
  details.addEventListener('toggle', () => {
    if (details.open && details.children.length === 1) details.append(context.json(value));
  });
  return { node: article(item, [details, head(item, '', context).lastChild]), update() {} };
}

function instructionsNode(item, context) {
  const words = item.list.map(({ source, path, bytes, cut, refused }) =>
    `${path ?? source} (${refused ? `not read: ${refused}` : `${size(bytes)}${cut ? ', truncated' : ''}`})`);
  const more = item.incomplete ? ['possibly more files'] : [];
  return generic(item, context, `Instructions for the model: ${[...words, ...more].join(', ')}`, item.list);
}

const NODES = {
  text: (item, context) => textNode(item, context, item.answer ? 'Answer' : 'Agent'),
  thinking: (item, context) => textNode(item, context, 'Thinking'),
  answer: (item, context) => textNode(item, context, 'Answer'),
  user: userNode,
  request: userNode,
  turn: turnNode,
  prompt: promptNode,
  note: noteNode,
  wait: waitNode,
  checkpoint: checkpointNode,
  instructions: instructionsNode,
  ending: (item, context) => lineNode(item, context, endingWords(item), `end-${item.status}`),
  gap: (item, context) => lineNode(item, context, missingWords(item.first_missing, item.last_missing), 'warn'),
  image: (item, context) => ({ node: article(item, [head(item, 'Image from the agent', context), picture(item)]), update() {} }),
  artifact: (item, context) => ({ node: article(item, [head(item, 'Artifact', context), picture({ ...item, kind: item.artifact_kind })]), update() {} }),
  child: (item, context) => {
    const made = lineNode(item, context, `Started a child run${item.summary ? `: ${item.summary}` : '.'}`);
    made.node.firstChild.append(' ', element('a', 'Show the child run', { href: `#${visible(item.run_id)}` }));
    return made;
  },
  unknown: (item, context) => generic(item, context, item.type, item.data),
  call: (item, context) => {
    const node = /** @type {any} */ (document.createElement('recount-call'));
    node.className = 'item is-call';
    node.tabIndex = -1;
    node.dataset.key = item.key;
    node.show(item, context);
    return { node, update: (now) => node.show(now, context) };
  },
};

/** The element of an item, and how it is told of changes. */
export function itemNode(item, context) {
  const make = Object.hasOwn(NODES, item.kind) ? NODES[item.kind] : (one) => generic(one, context, one.kind, one);
  return make(item, context);
}

