// Sounds for those who do not look at the page: a run needs a person, has finished, has failed. Off unless the reader
// turns them on. The same three as the bells of `recount narrate --bell`. Look at `earcon`.

import { setting } from './settings.js';

/** The tones of each sound: frequency in hertz, and seconds. Rising, low and single, falling. */
const SOUNDS = {
  needs: [[660, 0.12], [880, 0.18]],
  finished: [[523, 0.2]],
  failed: [[440, 0.14], [330, 0.14], [220, 0.24]],
};
const GAP_SECONDS = 0.04;
const LOUDNESS = 0.2;
/** Sounds of the same kind that follow sooner are left out, as when many runs end together. */
const APART_MS = 1000;

/** @type {AudioContext | null} */
let context = null;
const played = new Map();

/** Plays one of the three sounds, if the reader wants sounds. @param {'needs' | 'finished' | 'failed'} name */
export function earcon(name) {
  const now = performance.now();
  if (setting('sounds') !== 'on' || !('AudioContext' in window) || now - (played.get(name) ?? -APART_MS) < APART_MS) return;
  played.set(name, now);
  context ??= new AudioContext();
  // A browser lets no page sound before its reader has used it.
  if (context.state === 'suspended') context.resume().catch(() => {});
  let at = context.currentTime;
  for (const [frequency, seconds] of SOUNDS[name]) {
    const tone = context.createOscillator();
    const volume = context.createGain();
    tone.frequency.value = frequency;
    volume.gain.setValueAtTime(LOUDNESS, at);
    // Without a fade the end of a tone clicks.
    volume.gain.exponentialRampToValueAtTime(0.001, at + seconds);
    tone.connect(volume).connect(context.destination);
    tone.start(at);
    tone.stop(at + seconds);
    at += seconds + GAP_SECONDS;
  }
}
