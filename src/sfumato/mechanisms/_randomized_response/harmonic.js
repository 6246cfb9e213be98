// Counts records that were kept with one probability, or redrawn from one distribution, as `harmonic` does.

function estimator({retention, swaps}) {
  return (tally, wanted) => {
    if (wanted.length === 0 || wanted.length === swaps.length) return exactly(wanted.length ? tally.rows : 0);
    const other = sum(wanted.map(place => swaps[place])), own = retention + other;
    const hits = sum(wanted.map(place => tally.counts[place]));
    return {
      value: (hits - tally.rows * other) / retention,
      base: tally.rows * other * (1 - other) / retention ** 2,
      slope: (own * (1 - own) - other * (1 - other)) / retention ** 2,
      least: 0,
      most: tally.rows,
      chances: [own, other],
    };
  };
}
