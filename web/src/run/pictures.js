// Artifacts that are shown or fetched: pictures, files, results. Their bytes come from the server, with the reader's token.

import { token } from '../../entry.js';
import { element, trouble, wellAgain } from '../../page.js';
import { visible } from '../../visible.js';
import { size } from '../time.js';

/** The bytes of an artifact. */
export async function bytesOf(id) {
  const shown = token();
  const headers = shown ? { authorization: `Bearer ${shown}` } : {};
  const response = await fetch(`/v1/artifacts/${encodeURIComponent(id)}/raw`, { headers });
  if (!response.ok) throw new Error(`Cannot read artifact ${id}: the server returned status ${response.status}.`);
  return response.blob();
}

/** Hands a file to the reader. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = element('a', undefined, { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A button that saves an artifact; what is known of it is its name. */
export function saver(id, words, name = id) {
  const button = element('button', visible(words), { type: 'button', className: 'quiet' });
  button.addEventListener('click', async () => {
    try {
      save(await bytesOf(id), name);
      wellAgain(`artifact ${id}`);
    } catch (error) {
      trouble(`artifact ${id}`, error);
    }
  });
  return button;
}

/** Pictures that are shown where they are named: forms that run nothing, up to a size. */
const SHOWN_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const SHOWN_BYTES_MAX = 8 * 1024 * 1024;

/** The bytes as an address, because the policy of the page lets no other kind in. */
const addressOf = (blob) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(blob);
});

/** A picture in the page once its bytes are here; what it shows is known only by its name. */
function shown(id, type, words) {
  const box = element('span', undefined, { className: 'shown-picture' });
  bytesOf(id).then(async (blob) => {
    if (blob.size > SHOWN_BYTES_MAX) return;
    const image = element('img', undefined, { alt: visible(words), decoding: 'async', src: await addressOf(blob.slice(0, blob.size, type)) });
    image.addEventListener('error', () => box.replaceChildren(element('span', 'Cannot show this image.', { className: 'quiet' })));
    box.replaceChildren(image);
  }).catch((error) => box.replaceChildren(element('span', visible(error.message), { className: 'quiet' })));
  return box;
}

/** What an artifact is, in words, and a way to its bytes when it has an id; a picture itself where it can be shown. */
export function picture({ artifact_id: id, kind, mime, name, path, summary, size_bytes: bytes }) {
  const words = [name ?? path ?? summary ?? kind ?? 'File', mime, Number.isFinite(bytes) ? size(bytes) : ''].filter(Boolean).join(', ');
  const box = element('span', element('bdi', visible(words)), { className: 'artifact-line' });
  if (id) box.append(' ', saver(id, 'Save', visible(name ?? id)));
  if (id && SHOWN_TYPES.includes(mime) && !(bytes > SHOWN_BYTES_MAX)) box.append(shown(id, mime, name ?? path ?? summary ?? 'Image'));
  return box;
}
