// Times, durations, sizes and money as people read them. Pure, apart from the language of the browser.

/** @type {Array<[string, number]>} */
const UNITS = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000], ['s', 1000]];

/** A duration in at most two units, such as `3 min 20 s`; short ones with a fraction. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return '';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const parts = [];
  let rest = Math.round(ms / 1000) * 1000;
  for (const [name, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count} ${name}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(' ');
}

/** Money in US dollars, from millionths. */
export function money(micros) {
  if (!Number.isFinite(micros)) return '';
  const dollars = micros / 1e6;
  if (dollars === 0) return '$0';
  const digits = dollars >= 100 ? 0 : dollars >= 0.995 ? 2 : dollars >= 0.01 ? 3 : 5;
  return `$${dollars.toFixed(digits)}`;
}

const grouped = new Intl.NumberFormat('en');
export const count = (number) => (Number.isFinite(number) ? grouped.format(number) : '');

/** A word in the number that a count needs. */
export const counted = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** Tokens, short: `12.3k`. */
export function tokens(number) {
  if (!Number.isFinite(number)) return '';
  if (number < 1000) return String(number);
  if (number < 999_500) return `${(number / 1000).toFixed(number < 9950 ? 1 : 0)}k`;
  return `${(number / 1e6).toFixed(1)}M`;
}

export function size(bytes) {
  if (!Number.isFinite(bytes)) return '';
  if (bytes < 1024) return counted(bytes, 'byte');
  if (bytes < 1024 ** 2) return `${(bytes / 1024).toFixed(bytes < 10_240 ? 1 : 0)} KiB`;
  return `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}

/** The time of the day on a clock of 24 hours, with the day when it is another one. */
export function moment(at, now = new Date(), /** @type {Intl.DateTimeFormatOptions} */ more = {}) {
  const then = new Date(at);
  if (Number.isNaN(then.getTime())) return '';
  const time = then.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', ...more, hourCycle: 'h23' });
  if (then.toDateString() === now.toDateString()) return time;
  const sameYear = then.getFullYear() === now.getFullYear();
  return `${then.toLocaleDateString(undefined, { day: 'numeric', month: 'short', ...(sameYear ? {} : { year: 'numeric' }) })}, ${time}`;
}

/** The same with milliseconds, for titles and tables. */
export const exactly = (at) => moment(at, new Date(), { second: '2-digit', fractionalSecondDigits: 3 });

export const isToday = (at) => new Date(at).toDateString() === new Date().toDateString();
