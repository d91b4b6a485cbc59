// Dialogs that ask one thing. The focus goes in, and comes back to where it was.

import { element } from '../page.js';

let titles = 0;

/** Shows a dialog until it is answered; the answer is the value of the button, or `''`. */
export function dialog(title, content, buttons) {
  titles += 1;
  const heading = element('h2', title, { id: `dialog-${titles}` });
  const row = element('div', buttons.map(([words, value]) => element('button', words, { value, type: 'submit' })), { className: 'buttons' });
  const form = element('form', [heading, ...content, row], { method: 'dialog' });
  const box = element('dialog', form);
  box.setAttribute('aria-labelledby', heading.id);
  const before = document.activeElement;
  document.body.append(box);
  box.showModal();
  return new Promise((resolve) => {
    box.addEventListener('close', () => {
      box.remove();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      resolve(box.returnValue);
    });
  });
}

export async function confirm(title, words, yes, no) {
  return (await dialog(title, [element('p', words)], [[no, ''], [yes, 'yes']])) === 'yes';
}

/** A text, or `''`. */
export async function promptFor(title, label, yes) {
  titles += 1;
  const input = element('textarea', undefined, { id: `dialog-text-${titles}`, rows: 5, dir: 'auto', required: true });
  const content = [element('label', label, { htmlFor: input.id }), input];
  // The way out must not ask for a text.
  const answer = dialog(title, content, [[yes, 'yes'], ['Cancel', '']]);
  input.closest('form').querySelector('button[value=""]').formNoValidate = true;
  return (await answer) === 'yes' ? input.value.trim() : '';
}
