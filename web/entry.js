// Coming in: the token of a server that asks for one.
// Knows nothing of runs, nor of what is asked.

import { byId, setText } from './page.js';
import * as signin from './src/signin.js';
import { announce } from './src/voice.js';
import { visible } from './visible.js';

/// Where the token is kept: in this tab, and as long as it is open.
const KEPT = 'recount.token';

export const token = () => sessionStorage.getItem(KEPT);

/// The status until the user has sent a token.
const SIGNED_OUT = 'Not signed in.';

/// The connection as the page reported it last.
let connection = { words: 'Connecting.', isWell: null };

let comingIn = null;
/// Why a sign-in with the provider failed.
let fault = '';

/// Finishes a sign-in with the provider, if the browser has just come back from it.
export async function arrive() {
  const { secret, why } = await signin.arrive();
  if (secret) sessionStorage.setItem(KEPT, secret);
  fault = why ?? '';
}

/// Ends the sign-in of this tab. Fails if the token may still be valid; then the tab keeps it.
export async function leave() {
  await signin.signOut(token());
  sessionStorage.removeItem(KEPT);
}

/// Shows the status of the connection; while the form is open, that the user is not signed in.
export function showConnection(words, isWell) {
  connection = { words, isWell };
  showStatus();
}

function showStatus() {
  const { words, isWell } = comingIn ? { words: SIGNED_OUT, isWell: null } : connection;
  const status = byId('health');
  setText(status, words);
  if (isWell === null) delete status.dataset.well;
  else status.dataset.well = String(isWell);
}

/// Shows the form and returns when the user has sent a token. The server judges it with the next request.
export function comeIn(why) {
  setText(byId('entry-why'), visible(why || fault));
  comingIn ??= new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
    const form = byId('entry');
    const field = byId('entry-token');
    document.querySelector('main').inert = true;
    signin.offer().then((isOffered) => {
      byId('entry-main').hidden = false;
      (isOffered ? byId('entry-begin') : field).focus();
    });
    form.addEventListener('submit', (submit) => {
      submit.preventDefault();
      sessionStorage.setItem(KEPT, field.value.trim());
      signin.forget();
      fault = '';
      field.value = '';
      byId('entry-main').hidden = true;
      document.querySelector('main').inert = false;
      byId('account').focus();
      announce('Token sent.');
      comingIn = null;
      showStatus();
      resolve();
    }, { once: true });
  });
  showStatus();
  return comingIn;
}
