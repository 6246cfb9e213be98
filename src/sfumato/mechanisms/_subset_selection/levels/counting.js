// Counts records that publish a level and a set of its groups, as `levels` does.
// A record's entries are, for each level in turn, its groups and an indicator of the level.

function estimator({groups, sets, shares, says}) {
  const size = sets[0].size;  // the groups of the first level are the values
  const tiers = sets.map((_, level) => Array.from(groups.subarray(level * size, (level + 1) * size)));
  const sizes = tiers.map((tier, level) => {
    const found = new Array(sets[level].size).fill(0);
    tier.forEach(group => { found[group] += 1; });
    return found;
  });
  const firsts = tiers.map((tier, level) => sizes[level].map((_, group) => tier.indexOf(group)));
  const top = tiers[tiers.length - 1];

  return (tally, wanted) => {
    if (wanted.length === 0 || wanted.length === size) return exactly(wanted.length ? tally.rows : 0);
    const {weights, further, inside, outside, rest, least} = once(sets, wanted.join(), () => weighed(wanted));
    const slope = inside - outside;
    const value = dot(weights, tally.counts);
    let base = tally.rows * outside
      + clipped(dot(further, tally.counts), tally.rows * Math.min(...rest), tally.rows * Math.max(...rest));
    // No record can have a smaller variance than this, so the variance of the estimate is at least the sum of these.
    base = Math.max(base, tally.rows * least - slope * clipped(value, 0, tally.rows));
    return {value, base, slope, least: 0, most: tally.rows, chances: null};
  };

  function weighed(wanted) {
    const theta = new Array(size).fill(0);
    wanted.forEach(place => { theta[place] = 1; });
    const kin = new Set(wanted.map(place => top[place]));
    const isKin = top.map(group => kin.has(group));
    const variances = spread(theta);
    const isOther = isKin.every(Boolean) ? theta.map(each => each === 0) : isKin.map(each => !each);
    const inside = mean(variances.filter((_, place) => theta[place] === 1));
    const outside = mean(variances.filter((_, place) => isOther[place]));
    const rest = variances.map(
      (each, place) => isKin[place] ? each - outside - (inside - outside) * theta[place] : 0);
    return {
      weights: unbiased(theta), further: unbiased(rest), inside, outside, rest, least: Math.min(...variances),
    };
  }

  // The factor of a level's records in the estimates of a tier; 0 if the level has no records.
  function factor(tier, level) {
    return shares[level] ? says[tier][level] / shares[level] : 0;
  }

  // For each level the score of its groups, with nothing subtracted at the last tier.
  function scores(theta) {
    const means = tiers.map((tier, level) => {
      const sums = new Array(sizes[level].length).fill(0);
      tier.forEach((group, place) => { sums[group] += theta[place]; });
      return tier.map(group => sums[group] / sizes[level][group]);
    });
    return tiers.map((_, level) => firsts[level].map(place => {
      let score = 0;
      for (let tier = level; tier < tiers.length; tier += 1) {
        const above = tier + 1 < tiers.length ? means[tier + 1][place] : 0;
        score += factor(tier, level) * (means[tier][place] - above);
      }
      return score;
    }));
  }

  function unbiased(theta) {
    const middle = mean(theta), shown = [];
    scores(theta).forEach((score, level) => {
      const {hold, other} = sets[level], gain = hold - other;
      shown.push(...score.map(each => each / gain));
      shown.push(middle * (1 - factor(tiers.length - 1, level)) - other * sum(score) / gain);
    });
    return shown;
  }

  function spread(theta) {
    const middle = mean(theta), centred = theta.map(each => each - middle), found = new Array(size).fill(0);
    scores(centred).forEach((score, level) => {
      const variances = setSpread(sets[level], score);
      tiers[level].forEach((group, place) => {
        found[place] += shares[level] * (variances[group] + (score[group] - centred[place]) ** 2);
      });
    });
    return found;
  }

  // The variance of the sum of the scores in a set, for a record of each group.
  function setSpread({size: all, members, hold, other}, given) {
    const scores = given.map(each => each - given[0]), others = all - 1;
    const total = sum(scores), squares = sum(scores.map(each => each ** 2));
    const drawn = (hold * (members - 1) * (others - members + 1) + (1 - hold) * members * (others - members))
      / Math.max(others - 1, 1);
    return scores.map(score => {
      const average = (total - score) / others;
      const scatter = Math.max((squares - score ** 2) / others - average ** 2, 0);
      return (drawn * scatter + hold * (1 - hold) * (score - average) ** 2) / (hold - other) ** 2;
    });
  }
}
