// What may be done with a run: cancel it while it lives; retry, resume or continue it when it has ended; save its events.
// Every action that makes a run leads to it. Look at `Actions`.

import { ask, element, trouble, wellAgain } from '../../page.js';
import { confirm, promptFor } from '../dialogs.js';
import { counted } from '../time.js';
import { save } from './pictures.js';

const ENDED = ['finished', 'failed', 'cancelled'];

const button = (words, act) => {
  const made = element('button', words, { type: 'button' });
  made.addEventListener('click', act);
  return made;
};

export class Actions {
  constructor(run, { feed, announce }) {
    this.run = run;
    this.feed = feed;
    this.announce = announce;
    this.cancel = button('Cancel', () => this.askCancel());
    this.again = button('Retry', () => this.act('retry', {}));
    this.resume = button('Resume', () => this.act('resume', {}));
    this.more = button('Continue …', () => this.askContinue());
    this.saveAll = button('Save events', () => this.download());
    this.node = element('div', [this.cancel, this.resume, this.more, this.again, this.saveAll], { className: 'actions' });
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', 'Actions');
    this.node.hidden = true;
  }

  show(run) {
    this.shown = run;
    this.node.hidden = false;
    const ended = ENDED.includes(run.status);
    const own = run.driver !== 'external';
    this.cancel.hidden = ended;
    this.again.hidden = !ended || !own;
    this.resume.hidden = !ended || !own || run.kind !== 'agent_loop' || run.status === 'finished';
    this.more.hidden = !ended || !own || run.kind !== 'agent_loop';
  }

  /** Whether another run may begin at a place of this one. */
  canRetry() {
    const run = this.shown;
    return Boolean(run) && ENDED.includes(run.status) && run.driver !== 'external' && run.kind === 'agent_loop';
  }

  async act(verb, body) {
    try {
      const { data } = await ask(`/v1/runs/${this.run}/${verb}`, body);
      wellAgain('action');
      if (data?.id && data.id !== this.run) location.hash = `#${data.id}`;
    } catch (error) {
      if (error.code === 'files_not_restorable' && await this.askFiles(error)) return this.act(verb, { ...body, files: 'current' });
      trouble('action', error);
    }
  }

  /** Whether a run starts with the files as they are now, because those of its place cannot be restored. */
  askFiles({ message }) {
    return confirm('Start with the current files?', message, 'Start with the current files', 'Do not start');
  }

  async askCancel() {
    const { driver, kind } = this.shown;
    const effect = driver === 'external' ? 'Ends the run: no more events can be added. The program that reports it may keep running.'
      : 'Stops the run and everything it started.';
    const resumable = driver !== 'external' && kind === 'agent_loop';
    const words = `${effect} This cannot be undone.${resumable ? ' You can resume the work in a new run.' : ''}`;
    const yes = await confirm('Cancel this run?', words, 'Cancel run', 'Keep running');
    if (yes) this.act('cancel', {});
  }

  async askContinue() {
    const prompt = await promptFor('Continue this run', 'What should the agent do next?', 'Continue');
    if (prompt) this.act('continue', { prompt });
  }

  /** All events as JSON lines, as they are stored. */
  async download() {
    try {
      const lines = [];
      for await (const line of this.feed.lines(0)) lines.push(`${line}\n`);
      save(new Blob(lines, { type: 'application/jsonl' }), `${this.run}.jsonl`);
      this.announce(`${counted(lines.length, 'event')} saved.`);
      wellAgain('action');
    } catch (error) {
      trouble('action', new Error(`Cannot save the events: ${error.message}`));
    }
  }
}
