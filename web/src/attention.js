// Which runs need a person: the badge in the title, the way to the next prompt, and sounds and desktop notifications for
// those who asked for them. Knows runs only by what the list says of them. Look at `Attention`.

import { ask, byId, setText } from '../page.js';
import { visible } from '../visible.js';
import { earcon } from './earcons.js';
import { titleOf } from './runs.js';
import { setting } from './settings.js';
import { count } from './time.js';

/// How many waiting runs are known; the server gives so many at most.
const WAITING_MAX = 200;

/// How many prompts of a run wait; the overview counts the same.
const promptsOf = ({ pending_approvals: one, pending_clarifications: two, pending_handoffs: three }) =>
  [one, two, three].reduce((sum, list) => sum + (list?.length ?? 0), 0);

export class Attention {
  constructor({ go }) {
    this.waiting = new Map();
    /// Runs that were seen at work; of these the end is news.
    this.atWork = new Set();
    this.title = 'Recount';
    this.go = go;
    byId('next-prompt').addEventListener('click', () => this.next());
  }

  /// Who waits now; what waited before the page came is no news.
  async load() {
    const { data } = await ask(`/v1/runs?needs_attention=true&limit=${WAITING_MAX}`);
    const known = new Set(this.waiting.keys());
    this.waiting = new Map(data.filter((run) => run.needs_attention).map((run) => [run.id, run]));
    data.forEach(({ id }) => this.atWork.add(id));
    if (this.loaded) data.filter(({ id, needs_attention: now }) => now && !known.has(id)).forEach((run) => this.notify(run));
    this.loaded = true;
    this.show();
  }

  /// A run as it is now.
  note(run) {
    const before = this.waiting.has(run.id);
    if (run.needs_attention) this.waiting.set(run.id, run);
    else this.waiting.delete(run.id);
    if (run.needs_attention && !before) this.notify(run);
    if (!run.ended_at) this.atWork.add(run.id);
    else if (this.atWork.delete(run.id)) earcon(run.status === 'finished' ? 'finished' : 'failed');
    this.show();
  }

  setTitle(title) {
    this.title = title;
    this.show();
  }

  show() {
    const prompts = [...this.waiting.values()].reduce((sum, run) => sum + promptsOf(run), 0);
    document.title = `${prompts > 0 ? `(${prompts}) ` : ''}${this.title}`;
    const button = byId('next-prompt');
    button.hidden = prompts === 0;
    setText(byId('next-count'), `${count(prompts)} waiting`);
  }

  notify(run) {
    earcon('needs');
    if (setting('notices') !== 'on' || !('Notification' in window) || Notification.permission !== 'granted' || document.hasFocus()) return;
    const notice = new Notification('Recount: a run needs your attention', { body: visible(titleOf(run)), tag: run.id });
    notice.onclick = () => {
      window.focus();
      this.go(run.id);
      notice.close();
    };
  }

  /// The next run with a prompt after the one that is shown, oldest first.
  next(current = null) {
    const ids = [...this.waiting.keys()].sort();
    const next = ids.find((id) => current !== null && id > current) ?? ids[0];
    if (next) this.go(next);
  }
}
