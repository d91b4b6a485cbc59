// When the buttons of a prompt accept an answer: a second after the prompt appeared or changed, and an approval only after
// the end of the call was on the screen. Until then they look disabled, but keep the focus. Look at `Arming`.

import { element, setText } from '../page.js';
import { announce } from './voice.js';

/** How long a prompt must have been unchanged, so that a click that was meant for something else decides nothing. */
const ARM_MS = 1000;
const COUNT_MS = 100;

let notes = 0;

export class Arming {
  /**
   * @param {HTMLFormElement} form with all its buttons
   * @param {boolean} mustRead whether the buttons that allow something wait until all of it was shown
   */
  constructor(form, mustRead) {
    notes += 1;
    this.note = element('span', '', { className: 'note', id: `note-${notes}` });
    this.form = form;
    this.mustRead = mustRead;
    this.wasShown = !mustRead;
    /** Why it cannot be approved at all. */
    this.refusal = '';
    this.until = 0;
    this.timer = null;
    form.append(this.note);
    for (const button of this.buttons) button.setAttribute('aria-describedby', this.note.id);
    form.addEventListener('submit', (submitted) => this.check(submitted), { capture: true });
    this.restart();
  }

  get buttons() {
    return /** @type {HTMLButtonElement[]} */ ([...this.form.querySelectorAll('button[type="submit"]')]);
  }

  /** The prompt has just appeared, moved or changed. */
  restart() {
    this.until = performance.now() + ARM_MS;
    this.timer ??= setInterval(() => this.show(), COUNT_MS);
    this.show();
  }

  /** Whether the end of what is approved has been on the screen. */
  shown(wasShown) {
    this.wasShown = wasShown || !this.mustRead;
    this.show();
  }

  refuse(why) {
    this.refusal = why;
    this.show();
  }

  close() {
    clearInterval(this.timer);
    this.timer = null;
  }

  show() {
    const left = this.until - performance.now();
    if (left <= 0) this.close();
    for (const button of this.buttons) {
      const allows = this.mustRead && button.value !== 'reject';
      const off = left > 0 || (allows && (this.refusal !== '' || !this.wasShown));
      if (off) button.setAttribute('aria-disabled', 'true');
      else button.removeAttribute('aria-disabled');
    }
    setText(this.note, left > 0 ? `Just appeared. The buttons work in ${(Math.ceil(left / COUNT_MS) / 10).toFixed(1)} s.`
      : this.refusal || (this.wasShown ? '' : 'Read the call to its end to approve it.'));
  }

  /** Stops an answer that comes too early, whether by mouse, key or script. */
  check(submitted) {
    this.show();
    if (submitted.submitter?.getAttribute('aria-disabled') !== 'true') return;
    submitted.preventDefault();
    submitted.stopImmediatePropagation();
    announce(this.note.textContent);
  }
}
