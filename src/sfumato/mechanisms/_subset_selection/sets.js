// Counts records that publish sets of one size.
// Notation: a = hold, b = other, d = members, k = wanted values, n = size - 1, s = the scores in a set.

function setEstimator({size, members, hold, other}) {
  const gain = hold - other;
  return (tally, wanted) => {
    const k = wanted.length;
    if (k === 0 || k === size) return exactly(k ? tally.rows : 0);
    const seen = sum(wanted.map(place => tally.counts[place]));
    const [own, beside] = [spread(k, true), spread(k, false)];
    return {
      value: (seen - other * k * tally.rows) / gain,
      base: tally.rows * beside,
      slope: own - beside,
      least: 0,
      most: tally.rows,
      chances: hitChances(k),
    };
  };

  // The variance of the number of wanted members, over (a - b)²: of the n other values, d - 1 or d are drawn without
  // replacement, and the record's own value moves the mean.
  function spread(k, isWanted) {
    const n = size - 1, mean = (isWanted ? k - 1 : k) / n;
    const drawn = (hold * (members - 1) * (n - members + 1) + (1 - hold) * members * (n - members)) / Math.max(n - 1, 1);
    const scatter = Math.max(mean - mean ** 2, 0);
    return (drawn * scatter + hold * (1 - hold) * ((isWanted ? 1 : 0) - mean) ** 2) / gain ** 2;
  }

  // If sets hold at most one wanted value, or lack at most one, hits are the sum of two binomials.
  function hitChances(k) {
    if (k === size - 1) return [1 - other, 1 - hold];
    return k === 1 || members === 1 ? [hold + (k - 1) * other, k * other] : null;
  }
}
