// Coming in: the token of a server that asks for one.
// Knows nothing of runs, nor of what is asked.

import { byId, setText } from './page.js';
import { announce } from './src/voice.js';
import { visible } from './visible.js';

/// Where the token is kept: in this tab, and as long as it is open.
const KEPT = 'recount.token';

export const token = () => sessionStorage.getItem(KEPT);

let comingIn = null;

/// Shows the form and returns when the user has sent a token. The server judges it with the next request.
export function comeIn(why) {
  setText(byId('entry-why'), visible(why));
  comingIn ??= new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
    const form = byId('entry');
    const field = byId('entry-token');
    form.hidden = false;
    document.querySelector('main').inert = true;
    field.focus();
    form.addEventListener('submit', (submit) => {
      submit.preventDefault();
      sessionStorage.setItem(KEPT, field.value.trim());
      field.value = '';
      form.hidden = true;
      document.querySelector('main').inert = false;
      byId('account').focus();
      announce('Token sent.');
      comingIn = null;
      resolve();
    }, { once: true });
  });
  return comingIn;
}
