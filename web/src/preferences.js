// The dialog of settings: what this reader prefers, and what the server tells those who run it. Changes hold at once.

import { leave } from '../entry.js';
import { element } from '../page.js';
import { dialog } from './dialogs.js';
import { healthPart, tokensPart } from './server.js';
import { SETTINGS, onSetting, setSetting, setting } from './settings.js';
import { signedIn } from './signin.js';
import { visible } from '../visible.js';

function apply() {
  const { dataset } = document.documentElement;
  dataset.theme = setting('theme');
  dataset.thinking = setting('thinking');
}

apply();
onSetting(apply);

/** A browser asks before it lets a page notify; asked only when it is wanted. */
async function wanted(name, value) {
  if (name !== 'notices' || value !== 'on') return value;
  if (!('Notification' in window)) return 'off';
  return (await Notification.requestPermission()) === 'granted' ? 'on' : 'off';
}

export async function showSettings() {
  const fields = Object.entries(SETTINGS).map(([name, { name: words, choices }]) => {
    const options = Object.entries(choices).map(([value, label]) => element('option', label, { value, selected: setting(name) === value }));
    const select = element('select', options, { id: `setting-${name}` });
    select.addEventListener('change', async () => {
      const value = await wanted(name, select.value);
      select.value = value;
      setSetting(name, value);
    });
    return element('div', [element('label', words, { htmlFor: select.id }), select], { className: 'field' });
  });
  const asked = (name, make) => {
    const details = element('details', element('summary', name));
    details.addEventListener('toggle', () => {
      if (details.open && details.children.length === 1) details.append(make());
    });
    return details;
  };
  const name = signedIn();
  const person = name ? [element('p', visible(`Signed in as ${name}.`))] : [];
  const buttons = [...(name ? [['Sign out', 'out']] : []), ['Close', '']];
  const chosen = await dialog('Settings', [...person, ...fields, asked('Server', healthPart), asked('Tokens', tokensPart)], buttons);
  if (chosen !== 'out') return;
  try {
    await leave();
  } catch (error) {
    const words = `You are still signed in, because the server did not revoke the token: ${error.message}`;
    await dialog('Sign out failed', [element('p', visible(words))], [['Close', '']]);
    return;
  }
  location.reload();
}
