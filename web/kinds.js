// What people are asked, kind by kind: where it is read and answered, which words say it, what helps to
// decide, and the form that answers. Everything else of a prompt is the same for all: see `prompts.js`.

import { element } from './page.js';
import { copyButton } from './src/copy.js';
import { modeWords } from './src/run/words.js';
import { agentOf } from './src/runs.js';
import { counted } from './src/time.js';
import { approvedText, beginning, said, visible, visibleJson, visibleLines } from './visible.js';

/// The longest label of a button; all of its words are above the buttons.
export const LABEL_LENGTH_MAX = 120;

let fields = 0;

const button = (label, words, value) => element('button', words === undefined ? label : [`${label}: `, said(words)],
  { type: 'submit', value });

/// A place to write in, and its name.
function field(name, properties = {}) {
  fields += 1;
  const input = element('textarea', undefined, { id: `field-${fields}`, rows: 2, dir: 'auto', ...properties });
  return [element('label', name, { htmlFor: input.id }), input];
}

/// What may be chosen, each with its words, under a name.
function chooser(name, choices) {
  fields += 1;
  const select = element('select', choices.map(([value, words]) => element('option', words, { value })), { id: `field-${fields}` });
  return [element('label', name, { htmlFor: select.id }), select];
}

/// How far a yes may reach beyond one call.
const REACHES = [['', 'once'], ['run', 'always in this run'], ['session', 'always in this session'],
  ['workspace', 'always for runs in this folder']];

/// JSON for the eye, which the keyboard can scroll.
function json(name, value) {
  const made = element('pre', visibleJson(value), { tabIndex: 0, dir: 'ltr' });
  made.setAttribute('aria-label', name);
  return made;
}

const approval = {
  path: '/v1/approvals',
  pending: (run) => run.pending_approvals,
  heading: 'Approval requested',
  words: ({ summary }) => summary,
  hasContent: true,
  facts({ thing, run }, { fact, text, until }) {
    const { consequence, irreversible } = thing;
    text('Where', placeOf(run));
    const known = consequence || 'Not known.';
    const reversal = irreversible ? 'This cannot be undone.' : irreversible === undefined || irreversible === null ? 'It is not known whether this can be undone.'
      : /\bbe undone\b/i.test(known) ? '' : 'It may be possible to undo this, at least in part.';
    const words = [element('bdi', visibleLines(known), { className: 'lines' })];
    if (reversal) words.push(' ', element(irreversible ? 'strong' : 'span', reversal, { className: irreversible ? 'undone' : '' }));
    fact('Consequence', element('span', words));
    text('Risk', thing.risk_level);
    until(thing.withdrawn_at_deadline ? "the agent's own dialog decides" : thing.default_decision);
    if (thing.preview_size_bytes) {
      const size = counted(thing.preview_size_bytes, 'byte');
      text('Preview cut', thing.preview_artifact_id ? `The complete preview has ${size} and is stored as artifact ${thing.preview_artifact_id}.`
        : `The complete preview has ${size}; the rest was not stored.`);
    }
  },
  details({ thing, id }, { fact, text }) {
    text('Kind', thing.kind);
    text('Call', thing.tool_call_id);
    text('Policy reason', thing.policy_reason);
    const command = `recount approve ${id}`;
    fact('In a terminal', element('span', [element('code', visible(command), { dir: 'ltr' }), ' ', copyButton('Copy command', () => command)]));
  },
  form(thing, form, { inSession }) {
    const [name, reach] = chooser('If approved, allow this call', REACHES.filter(([scope]) => scope !== 'session' || inSession));
    if (thing.can_be_remembered) form.append(element('span', [name, reach], { className: 'reach' }));
    for (const [words, value] of [['Approve', 'approve'], ['Reject', 'reject']]) {
      const made = button(words, undefined, value);
      // What it is for is above it; who does not see that hears it.
      made.setAttribute('aria-label', `${words}: ${beginning(approvedText(thing.summary), LABEL_LENGTH_MAX)}`);
      form.append(made);
    }
    return (decision) => {
      const remember = decision === 'approve' && thing.can_be_remembered && reach.value;
      return ['resolve', remember ? { decision, remember } : { decision }];
    };
  },
};

/// Where a run works, in words.
function placeOf({ workspace_path: path, workspace_mode: mode, driver, source, ...run }) {
  if (path) return `${path}${mode ? ` (${modeWords(mode)})` : ''}`;
  if (driver === 'external') return `${agentOf(run) || 'another program'}${source ? `, recorded from ${source}` : ''}`;
  return 'no folder';
}

/// What a choice is called, and what is answered by it.
const label = (choice) => choice?.label ?? (typeof choice === 'string' ? choice : JSON.stringify(choice));
const meant = (choice) => choice?.value ?? choice;

const clarification = {
  path: '/v1/clarifications',
  pending: (run) => run.pending_clarifications,
  heading: 'Question',
  words: ({ question }) => question,
  facts({ thing }, { text, until }) {
    text('Context', thing.context);
    const otherwise = thing.default_response;
    until(otherwise === undefined ? 'no answer' : `answer ${JSON.stringify(otherwise)}`);
  },
  details({ thing, id }, { fact, text }) {
    text('Call', thing.tool_call_id);
    const command = `recount answer ${id} TEXT`;
    fact('In a terminal', element('code', visible(command), { dir: 'ltr' }));
  },
  form(thing, form) {
    const kinds = thing.accepted_response_kinds ?? [];
    const choices = (thing.choices ?? []).map((choice) => [label(choice), meant(choice)]);
    if (kinds.includes('yes_no')) choices.push(['Yes', true], ['No', false]);
    choices.forEach(([name], at) => form.append(button('Answer', beginning(name, LABEL_LENGTH_MAX), `choice ${at}`)));
    const closed = choices.length > 0 && kinds.length > 0 && kinds.every((kind) => ['yes_no', 'multiple_choice', 'choice'].includes(kind));
    const numeric = kinds.length > 0 && kinds.every((kind) => kind === 'numeric');
    const [name, input] = field(numeric ? 'Your answer (a number)' : 'Your answer');
    if (!closed) form.append(name, input, button('Send answer', undefined, 'words'));
    return (value) => {
      if (value.startsWith('choice ')) return ['answer', { response: choices[Number(value.slice(7))][1] }];
      const words = input.value.trim();
      const number = kinds.includes('numeric') && words !== '' ? Number(words) : NaN;
      if (words === '' || (numeric && !Number.isFinite(number))) {
        input.focus();
        return null;
      }
      return ['answer', { response: Number.isFinite(number) ? number : words }];
    };
  },
};

const handoff = {
  path: '/v1/handoffs',
  pending: (run) => run.pending_handoffs,
  heading: 'Handoff',
  words: ({ summary_terse: terse, reason }) => terse ?? reason,
  facts({ thing }, { fact, text, until }) {
    text('Reason', thing.reason);
    text('Summary', thing.summary_detailed ?? thing.summary_normal);
    text('For', [thing.target_kind, thing.target_uri].filter(Boolean).join(', '));
    text('Urgency', thing.urgency_for_handoff);
    if (thing.packaged_context) fact('Context', json('Context for the recipient', thing.packaged_context));
    until('no handoff');
  },
  form(thing, form) {
    const words = beginning(thing.summary_terse ?? thing.reason, LABEL_LENGTH_MAX);
    const [name, input] = field('Comment (optional)');
    form.append(name, input, button('Take over', words, 'acknowledge'), button('Reject', words, 'reject'));
    return (verb) => {
      const said = input.value.trim();
      return [verb, said === '' ? {} : { [verb === 'reject' ? 'reason' : 'comment']: said }];
    };
  },
};

export const KINDS = { approval, clarification, handoff };
