// What each reader prefers, kept in this browser alone. Nothing of it reaches the server.

const KEPT = 'recount.settings';

/** Every preference, what it may be, and what it is at first. */
export const SETTINGS = {
  theme: { name: 'Colour theme', choices: { auto: 'same as system', light: 'light', dark: 'dark' }, at_first: 'auto' },
  thinking: { name: 'Model thinking', choices: { hidden: 'hidden', shown: 'shown' }, at_first: 'hidden' },
  speech: {
    name: 'Announcements for screen readers',
    choices: { quiet: 'prompts and errors, and the answer when the run ends', answers: 'also the answer, by sentence', everything: 'also every tool call' },
    at_first: 'answers',
  },
  length: {
    name: 'Length of announcements', choices: { terse: 'a few words', normal: 'one sentence', detailed: 'full details' }, at_first: 'normal',
  },
  language: { name: 'Language of announcements', choices: { auto: 'same as browser', 'en-US': 'English', ar: 'العربية' }, at_first: 'auto' },
  pace: { name: 'Minimum time between announcements', choices: { 0: 'none', 2: '2 seconds', 5: '5 seconds', 10: '10 seconds' }, at_first: '0' },
  diff: { name: 'File changes', choices: { unified: 'one column', split: 'side by side' }, at_first: 'unified' },
  sounds: { name: 'Sounds when a run needs you, finishes or fails', choices: { off: 'off', on: 'on' }, at_first: 'off' },
  notices: { name: 'Desktop notifications when a run needs attention', choices: { off: 'off', on: 'on' }, at_first: 'off' },
};

function stored() {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? '{}') ?? {};
  } catch {
    return {};
  }
}

const listeners = new Set();

export function setting(name) {
  const { choices, at_first: atFirst } = SETTINGS[name];
  const value = stored()[name];
  return Object.hasOwn(choices, String(value)) ? String(value) : atFirst;
}

export function setSetting(name, value) {
  try {
    localStorage.setItem(KEPT, JSON.stringify({ ...stored(), [name]: value }));
  } catch {
    // A browser that keeps nothing still shows the page.
  }
  listeners.forEach((listener) => listener(name, setting(name)));
}

/** Calls `listener` with the name and the value of what is changed. */
export const onSetting = (listener) => listeners.add(listener);
