// Buttons that copy a text. Look at `copyButton`.

import { element } from '../page.js';
import { announce } from './voice.js';

/** How long a button shows that it has copied. */
const DONE_MS = 2000;

/** Copies also where the browser gives no access to the clipboard, such as on a plain address in a network. */
async function copy(text) {
  const isCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  if (isCopied) return;
  const area = element('textarea', undefined, { value: text, className: 'heard' });
  const before = document.activeElement;
  document.body.append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  if (!copied) throw new Error('the browser refused');
}

/**
 * A button that copies what `text` returns, exactly, although it may be shown escaped.
 * @param {string} name
 * @param {() => string} text
 */
export function copyButton(name, text) {
  const button = element('button', name, { type: 'button', className: 'quiet copy' });
  button.addEventListener('click', async () => {
    let words = 'Copied';
    try {
      await copy(text());
    } catch {
      words = 'Cannot copy';
    }
    button.textContent = words;
    announce(`${words}.`);
    setTimeout(() => {
      button.textContent = name;
    }, DONE_MS);
  });
  return button;
}
