// The slicer must give back exactly what is in the text, or the other tests prove nothing.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { listElements } from './slices.mjs';

test('elements come as they stand, white space and escapes included', () => {
  const elements = ['{"a":1.50e2,"b":"}],\\"\\\\"}', '{ "c" : [ ] }', '"\\u00e4"', '-0.0', 'null', '[{},[1]]'];
  const text = `{"object":"list","other":{"data":[9]},"data": [ ${elements.join(' ,\n')} ] ,"next":null}`;
  assert.deepEqual(listElements(text, 'data'), elements);
});

test('an empty list has no elements and a missing one is an error', () => {
  assert.deepEqual(listElements('{"data":[]}', 'data'), []);
  assert.throws(() => listElements('{"object":"list"}', 'data'), /there is no "data"/);
  assert.throws(() => listElements('{"data":[{"a":"', 'data'), /the text ends/);
});
