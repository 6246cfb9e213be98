// Counts records with published buckets and bucket contents, as `bucket_estimation.estimate_inverse` does.
// Notation: for a bucket, n = its size, q = its selected records, s = its records with a wanted value; o = all records
// with a value. `present` are the values that occur; all numbers by value are in their order.

function estimator({
  buckets, places, counts, present, inverse, directions, kept, smoothing, smoothed, scatter, ratios, singular, smallest,
}) {
  const width = present.length, placeOf = new Map(Array.from(present, (place, at) => [place, at]));
  const lines = Array.from(buckets, (bucket, line) => [bucket, placeOf.get(places[line]), counts[line]]);
  const sizes = new Float64Array(buckets.reduce((most, each) => Math.max(most, each), -1) + 1);
  const held = new Float64Array(width);
  for (const [bucket, value, number] of lines) {
    sizes[bucket] += number;
    held[value] += number;
  }
  const records = sum(held), most = Math.max(0, ...smoothed);

  return (tally, wanted) => {
    const {weights, lengths, marked} = once(lines, wanted.join(), () => undone(wanted));
    let least = 0, most = 0, plain = 0;
    for (const [bucket, mine] of marked) {
      const q = tally.counts[bucket];
      least += Math.max(q + mine - sizes[bucket], 0);
      most += Math.min(q, mine);
      plain += q * mine / sizes[bucket];
    }
    const found = {slope: 0, least, most, chances: null};
    if (lengths === null) return {...found, value: plain, base: (most - least) ** 2};  // nothing but certain bounds
    const {told, spread} = once(tally, "told", () => seen(tally));
    let value = dot(told, weights);
    if (least === most && Math.abs(value - least) <= 1e-8 + 1e-5 * Math.abs(least)) value = least;
    return {...found, value, base: dot(spread, lengths)};
  };

  // The weights that reverse the mixing for a count, their effect on each value's variance, and the buckets with it.
  function undone(wanted) {
    const chosen = new Set(wanted), marked = new Map();
    const target = Array.from(present, (place, value) => chosen.has(place) ? held[value] : 0);
    for (const [bucket, value, number] of lines) {
      if (chosen.has(present[value])) marked.set(bucket, (marked.get(bucket) ?? 0) + number);
    }
    const scaled = target.map((each, value) => each / Math.sqrt(held[value]));
    if (isLost(scaled)) return {weights: null, lengths: null, marked};
    const weights = times(scaled, inverse, width).map((each, value) => each / Math.sqrt(held[value]));
    const byBucket = new Float64Array(sizes.length), squares = new Float64Array(width);
    for (const [bucket, value, number] of lines) byBucket[bucket] += number * weights[value] / sizes[bucket];
    for (const [bucket, value, number] of lines) squares[value] += number * byBucket[bucket] ** 2;
    return {weights, lengths: squares.map((each, value) => Math.max(each - target[value], 0)), marked};
  }

  function isLost(scaled) {
    if (!directions.length) return false;  // the buckets determine all directions
    const along = times(scaled, directions, width), scale = Math.max(1, ...along.map(Math.abs));
    return along.some((each, at) => kept[at] <= singular && Math.abs(each) > singular * scale);
  }

  // The expected counts of each value among the selected records, and the variance of selection for each.
  function seen(tally) {
    const told = new Float64Array(width);
    for (const [bucket, value, number] of lines) told[value] += tally.counts[bucket] * number / sizes[bucket];
    const shares = likely(told, tally.rows / Math.max(records, 1));
    const spread = shares.map((each, value) =>
      Math.max(each - each ** 2, 0) * held[value] / Math.max(held[value] - 1, 1));
    return {told, spread};
  }

  // The share of each value's records that is selected, shrunk by the most likely amount.
  function likely(told, share) {
    const roots = scatter.map(Math.sqrt);
    const along = times(told.map((each, value) => (each - share * held[value]) * roots[value]), smoothing, width);
    const noise = share * (1 - share) > 0 ? share * (1 - share) : Infinity;
    const known = [...smoothed.keys()].filter(at => smoothed[at] > smallest * most);
    let best = Infinity, ratio = 0;
    for (const each of ratios) {
      let unlikely = 0;
      for (const at of known) {
        const larger = 1 + smoothed[at] * each;
        unlikely += along[at] ** 2 / smoothed[at] / noise / larger + Math.log(larger);
      }
      if (unlikely < best) [best, ratio] = [unlikely, each];
    }
    const pulled = along.map((each, at) => each / (1 + ratio * smoothed[at]));
    return Array.from(held, (all, value) => {
      let solved = 0;
      for (let at = 0; at < width; at += 1) solved += pulled[at] * smoothing[value * width + at];
      return share + (ratio * scatter[value] + 1 / all) * solved / roots[value];
    });
  }

  // Multiplies a row of numbers by a matrix, whose rows are consecutive.
  function times(row, matrix, columns) {
    const found = new Array(columns).fill(0);
    row.forEach((each, at) => {
      if (each) for (let column = 0; column < columns; column += 1) found[column] += each * matrix[at * columns + column];
    });
    return found;
  }
}
