// Counts records that were kept or redrawn within their sub-tables, as `inverse_estimation` does in closed form.
// Notation: p = retention, q = swap, k = wanted values of a sub-table, a = p + kq, b = kq.

function estimator({places, cells, retention, swap, domain_size, is_flat, steps}) {
  const entries = Array.from(places, (place, entry) => ({place, cell: cells[entry], p: retention[entry], q: swap[entry]}));
  return is_flat ? flatCounts : inverseCounts;

  function flatCounts(tally, wanted) {
    const isWanted = new Set(wanted);
    const found = new Map();  // the numbers of each sub-table
    entries.forEach(({place, cell, p, q}, entry) => {
      const mine = found.get(cell) ?? {p, q, size: 0, values: 0, rows: 0, hits: 0};
      found.set(cell, mine);
      mine.size += 1;
      mine.rows += tally.counts[entry];
      if (isWanted.has(place)) {
        mine.values += 1;
        mine.hits += tally.counts[entry];
      }
    });
    const holding = [...found.values()].filter(cell => cell.values);
    const parts = holding.filter(cell => cell.values < cell.size);
    const certain = sum(holding.filter(cell => cell.values === cell.size).map(cell => cell.rows));
    const possible = sum(parts.map(cell => cell.rows));
    let value = certain, base = 0, slope = 0;
    for (const {p, q, values, rows, hits} of parts) {
      const other = values * q, own = p + other;
      value += (hits - values * rows * q) / p;
      base += rows * other * (1 - other) / p ** 2;
      slope += (own * (1 - own) - other * (1 - other)) / p ** 2 * rows / Math.max(possible, 1);
    }
    // The distribution of the wanted records over the sub-tables is unknown. It is assumed to be that of all rows.
    base -= slope * certain;
    const chances = parts.length === 1 ? parts.map(({p, q, values}) => [p + values * q, values * q])[0] : null;
    return {value, base, slope, least: certain, most: certain + possible, chances};
  }

  function inverseCounts(tally, wanted) {
    if (wanted.length === 0 || wanted.length === domain_size) return exactly(wanted.length ? tally.rows : 0);
    const isWanted = new Float64Array(entries.length);
    const chosen = new Set(wanted);
    entries.forEach(({place}, entry) => { isWanted[entry] = chosen.has(place) ? 1 : 0; });
    const weights = unmixed(isWanted);
    const squares = weights.map(weight => weight ** 2), all = sum(squares);
    const variance = entries.map(({p, q}, entry) => q * all + p * squares[entry] - isWanted[entry]);
    const held = composition(tally);
    const [own, other] = [1, 0].map(side => {
      const mine = [...entries.keys()].filter(entry => isWanted[entry] === side);
      const total = sum(mine.map(entry => held[entry]));
      if (total > 0) return sum(mine.map(entry => held[entry] * variance[entry])) / total;
      return sum(mine.map(entry => variance[entry])) / mine.length;
    });
    const value = sum(weights.map((weight, entry) => weight * tally.counts[entry]));
    return {value, base: tally.rows * other, slope: own - other, least: 0, most: tally.rows, chances: null};
  }

  // For one sub-table, the weight of a record that publishes an entry. Its mean is the score of the true entry.
  function unmixed(scores) {
    const never = entries.findIndex(({p}) => p === 0);
    if (never < 0) {
      const mean = sum(entries.map(({p}, entry) => scores[entry] / p)) / sum(entries.map(({p}) => 1 / p));
      return entries.map(({p}, entry) => scores[entry] / p - (1 / p - 1) * mean);
    }
    const beside = entries.map(({p}, entry) => p > 0 ? (scores[entry] - scores[never]) / p : 0);
    const found = beside.map(each => each + scores[never]);
    found[never] -= sum(beside);
    return found;
  }

  // The composition of the records, by iterative Bayes from an even start; the same for all values of a query.
  function composition(tally) {
    return once(tally, "composition", () => {
      let held = new Float64Array(entries.length).fill(tally.rows / domain_size);
      for (let step = 0; step < steps && tally.rows; step += 1) {
        const redrawn = sum(entries.map(({q}, entry) => q * held[entry]));
        const ratios = entries.map(({p}, entry) => {
          const expected = redrawn + p * held[entry];
          return expected > 0 ? tally.counts[entry] / expected : 0;
        });
        const all = sum(ratios);
        const after = held.map((each, entry) => each * (entries[entry].q * all + entries[entry].p * ratios[entry]));
        const hasMoved = after.some((each, entry) => each !== held[entry]);
        held = after;
        if (!hasMoved) break;
      }
      return held;
    });
  }
}
