// The keys of the console, and the sheet that lists them. A key never acts while a person types.

import { element } from '../page.js';
import { dialog } from './dialogs.js';

/// Key, what it does; the actions are given by the page.
const KEYS = [
  ['p', 'Go to the next prompt that is waiting for an answer'],
  ['/', 'Search runs'],
  ['r', 'Go to the list of runs'],
  ['o', 'Go to the overview'],
  ['j', 'Next item in the transcript'],
  ['k', 'Previous item in the transcript'],
  ['e', 'Go to the newest item'],
  ['1', 'Transcript'],
  ['2', 'Timeline'],
  ['3', 'Cost'],
  ['4', 'Changes'],
  ['5', 'Events'],
  ['n', 'New task'],
  ['s', 'Settings'],
  ['?', 'Keyboard shortcuts'],
];

const TYPES_IN = 'input, textarea, select, [contenteditable]';

/** Listens to keys; `actions` says what each of them does. */
export function listenToKeys(actions) {
  const all = { '?': showKeys, ...actions };
  document.addEventListener('keydown', (press) => {
    if (press.ctrlKey || press.metaKey || press.altKey || press.isComposing || press.defaultPrevented) return;
    if ((press.target instanceof Element && press.target.closest(TYPES_IN)) || document.querySelector('dialog[open]') || document.querySelector('main').inert) return;
    if (!Object.hasOwn(all, press.key)) return;
    press.preventDefault();
    all[press.key]();
  });
}

export function showKeys() {
  const rows = KEYS.map(([key, words]) => element('tr', [element('th', element('kbd', key), { scope: 'row' }), element('td', words)]));
  const table = element('table', [element('tbody', rows)], { className: 'keys' });
  return dialog('Keyboard shortcuts', [table, element('p', 'Use Tab, Enter and Space for everything else. Escape closes a dialog.')], [['Close', '']]);
}
