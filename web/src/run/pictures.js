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
  if (!response.ok) throw new Error(`artifact ${id} cannot be read: the server answered ${response.status}.`);
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

/** What an artifact is, in words, and a way to its bytes when it has an id. */
export function picture({ artifact_id: id, kind, mime, name, path, summary, size_bytes: bytes }) {
  const words = [name ?? path ?? summary ?? kind ?? 'File', mime, Number.isFinite(bytes) ? size(bytes) : ''].filter(Boolean).join(', ');
  const box = element('span', element('bdi', visible(words)), { className: 'artifact-line' });
  if (id) box.append(' ', saver(id, 'Save', visible(name ?? id)));
  return box;
}
