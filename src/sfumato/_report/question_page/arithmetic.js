// Common functions for sums, cached values, and the packed arrays of the page.

function sum(numbers) {
  let total = 0;
  for (const each of numbers) total += each;
  return total;
}

function mean(numbers) {
  return sum(numbers) / numbers.length;
}

function dot(one, other) {
  let total = 0;
  for (let at = 0; at < one.length; at += 1) total += one[at] * other[at];
  return total;
}

function clipped(number, least, most) {
  return Math.min(Math.max(number, least), most);
}

// Makes a count that has no error.
function exactly(count) {
  return {value: count, base: 0, slope: 0, least: count, most: count, chances: null};
}

const known = new WeakMap();

// Caches a value derived from an object.
function once(object, key, make) {
  if (!known.has(object)) known.set(object, new Map());
  const made = known.get(object);
  if (!made.has(key)) made.set(key, make());
  return made.get(key);
}

const KINDS = {
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array, f8: Float64Array,
};

// The packed arrays of the page, by name.
async function unpacked(text, places) {
  const packed = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  return Object.fromEntries(Object.entries(places).map(
    ([name, [kind, start, length]]) => [name, new KINDS[kind](bytes, start, length)]));
}
