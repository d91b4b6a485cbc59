// The dialog of settings: what this reader prefers, and what the server is. Changes hold at once.

import { ask, element } from '../page.js';
import { said } from '../visible.js';
import { dialog } from './dialogs.js';
import { SETTINGS, onSetting, setSetting, setting } from './settings.js';

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
  const server = element('dl', undefined, { className: 'facts' });
  describeServer(server);
  await dialog('Settings', [...fields, element('h3', 'Server'), server], [['Close', '']]);
}

async function describeServer(list) {
  try {
    const [health, page] = await Promise.all([fetch('/healthz').then((answer) => answer.json()), ask('/v1/runs?limit=1')]);
    const rows = [['Version', health.version ?? health.data?.version], ['State', health.status ?? health.data?.status],
      ['Runs', page.data.length > 0 ? 'the list of runs is readable' : 'none yet']];
    list.replaceChildren(...rows.filter(([, words]) => words).map(([name, words]) => element('div', [element('dt', name), element('dd', said(String(words)))])));
  } catch {
    list.replaceChildren(element('div', [element('dt', 'State'), element('dd', 'The server does not answer.')]));
  }
}
