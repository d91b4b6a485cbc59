// The server, for those who run it: its health as the doctor sees it, and its tokens. A token is shown once.

import { ask, element, setText } from '../page.js';
import { said, visible } from '../visible.js';
import { moment } from './time.js';

const SCOPES = ['read', 'run', 'approve', 'ingest', 'admin'];

/** The doctor's checks, as a table. */
export function healthPart() {
  const body = element('tbody');
  const table = element('table', [element('caption', 'Server checks'),
    element('thead', element('tr', ['Check', 'State', 'Value'].map((name) => element('th', name, { scope: 'col' })))), body], { className: 'figures-table' });
  const box = element('div', table, { className: 'scroll', tabIndex: 0 });
  box.setAttribute('role', 'region');
  box.setAttribute('aria-label', 'Server checks');
  const row = ({ name, status, value, advice }) => element('tr', [element('th', visible(name), { scope: 'row' }), element('td', visible(status)),
    element('td', [said(value ?? ''), ...(advice ? [element('div', said(advice), { className: 'quiet' })] : [])])]);
  ask('/admin/doctor').then(({ data }) => body.replaceChildren(...data.checks.map(row)),
    (error) => box.replaceChildren(element('p', `Cannot load the server checks: ${visible(error.message)}`)));
  return box;
}

/** Tokens: which there are, a new one, and taking one back. */
export function tokensPart() {
  const body = element('tbody');
  const shown = element('p', '', { className: 'lines', role: 'status' });
  const table = element('table', [element('caption', 'Tokens'),
    element('thead', element('tr', ['Name', 'Scopes', 'Created', ''].map((name) => element(name ? 'th' : 'td', name, name ? { scope: 'col' } : {})))), body],
  { className: 'figures-table' });
  const name = element('input', undefined, { id: 'token-name', maxLength: 100, autocomplete: 'off' });
  const boxes = SCOPES.map((scope) => {
    const box = element('input', undefined, { type: 'checkbox', id: `scope-${scope}`, value: scope, checked: scope === 'read' });
    return [box, element('span', [box, ' ', element('label', scope, { htmlFor: box.id })], { className: 'pair' })];
  });
  const add = element('button', 'Create token', { type: 'button' });
  const group = element('fieldset', [element('legend', 'New token'), element('label', 'Token name', { htmlFor: name.id }), name,
    ...boxes.map(([, node]) => node), add, shown], { className: 'tokens' });
  const load = async () => {
    try {
      const { data } = await ask('/admin/tokens');
      body.replaceChildren(...(data.length > 0 ? data.map(row) : [element('tr', element('td', 'No tokens yet.', { colSpan: 4 }))]));
    } catch (error) {
      setText(shown, visible(`Cannot load the tokens: ${error.message}`));
    }
  };
  const row = (one) => {
    const revoke = element('button', 'Revoke', { type: 'button', className: 'quiet', ariaLabel: `Revoke ${visible(one.name)}` });
    revoke.addEventListener('click', async () => {
      try {
        await ask(`/admin/tokens/${encodeURIComponent(one.id)}`, undefined, 'DELETE');
        setText(shown, visible(`Token “${one.name}” revoked.`));
      } catch (error) {
        setText(shown, visible(error.message));
      }
      name.focus();
      load();
    });
    return element('tr', [element('th', said(one.name), { scope: 'row' }), element('td', visible(one.scopes.join(', '))),
      element('td', moment(one.created_at)), element('td', revoke)]);
  };
  add.addEventListener('click', async () => {
    const scopes = boxes.filter(([box]) => box.checked).map(([box]) => box.value);
    try {
      const { data } = await ask('/admin/tokens', { name: name.value.trim(), scopes });
      setText(shown, visible(`Token “${data.name}” created. Copy it now, it is shown only once: ${data.secret}`));
      name.value = '';
      load();
    } catch (error) {
      setText(shown, visible(error.message));
    }
  });
  load();
  return element('div', [table, group]);
}
