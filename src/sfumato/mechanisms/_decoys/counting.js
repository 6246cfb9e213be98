// Counts records that publish a value of a secret group of records, as `decoy_estimation` does for one column.
// A distribution has `mean`, the average published number of a record of each value, and its inverse `solve`.

function estimator({total, group_size, is_mixed, groups, unreliable, far_amplified, most_amplified, steps, ...numbers}) {
  const law = lawOf("law"), once_shown = "once_shares" in numbers ? lawOf("once") : null, size = law.shares.length;

  return (tally, wanted) => {
    if (wanted.length === 0 || wanted.length === size || !tally.rows) return exactly(wanted.length === size ? tally.rows : 0);
    const theta = new Float64Array(size);
    wanted.forEach(place => { theta[place] = 1; });
    const found = moments(law, tally, theta, wanted);
    if (once_shown) {  // an unpublished value may still occur: its variance is that of a value published once
      const rare = moments(once_shown, tally, theta, wanted);
      found.base = Math.max(found.base, rare.base);
      found.slope = Math.max(found.slope, rare.slope);
    }
    const bounds = {least: 0, most: tally.rows, chances: null}, common = usual(law, wanted);
    if (!law.tells(theta.map(each => each - common))) return {
      ...bounds, value: dot(theta, law.shares) * tally.rows, base: tally.rows ** 2, slope: 0,
      note: "no information: a value is in every decoy group, or always with the same other values; value and condition "
        + "are assumed to be unrelated",
    };
    const likely = clipped(found.value, 0, tally.rows);
    const error = Math.sqrt(Math.max(found.base + found.slope * likely, 0));
    const is_unreliable = error > unreliable * likely;
    return {...bounds, ...found, note: regime(wanted, common, likely, error), is_own_note: true, is_unreliable};
  };

  // A distribution, stored as a matrix, or as a diagonal and a product of two vectors.
  function lawOf(name) {
    const part = each => numbers[`${name}_${each}`], shares = part("shares");
    const along = (kind, isTurned) => given => {
      const matrix = part(`${kind}_matrix`);
      if (!matrix) {
        const [diagonal, left, right] = ["diagonal", "left", "right"].map(each => part(`${kind}_${each}`));
        const all = dot(isTurned ? left : right, given), side = isTurned ? right : left;
        return given.map((each, at) => diagonal[at] * each + side[at] * all);
      }
      return given.map((_, at) => {
        let found = 0;
        for (let other = 0; other < given.length; other += 1) {
          found += matrix[isTurned ? other * given.length + at : at * given.length + other] * given[other];
        }
        return found;
      });
    };
    const tells = theta => {
      if (part("tells_nothing")) return false;
      const lost = part("lost"), scaled = theta.map((each, at) => each * part("roots")[at]);
      const width = lost.length / theta.length, all = Math.max(...scaled.map(Math.abs));
      for (let column = 0; column < width; column += 1) {
        let found = 0;
        scaled.forEach((each, at) => { found += each * lost[at * width + column]; });
        if (Math.abs(found) > part("least_told") * all) return false;
      }
      return true;
    };
    return {name, shares, mean: along("mean", false), shown: along("mean", true), solve: along("solve", false), tells,
      spread: part("spread")};
  }

  // The estimate and its variance, as base + slope * count.
  function moments(law, tally, theta, wanted) {
    const {shares} = law, {rows, counts} = tally, common = usual(law, wanted);
    const weights = law.solve(theta.map(each => each - common));
    const value = common * rows + dot(counts, weights);
    if (rows === total) {  // then the estimate is the published count
      const mean = law.mean(theta);
      const variance = sum(shares.map((share, at) => share * theta[at] * (theta[at] - mean[at])));
      return {value, base: Math.max(total * variance, 0), slope: 0};
    }
    // What every record of the release contributes to the variance through the published histogram.
    const shared = weights.map((each, at) => rows / total * (each - theta[at]));
    const squared = covariance(law, weights, weights), crossed = covariance(law, weights, shared);
    const held = composition(law, tally), byValue = squared.map((each, at) => each - 2 * crossed[at]);
    const [inside, outside] = [1, 0].map(side => weighted(byValue, held, at => theta[at] === side));
    let base = total * dot(shares, covariance(law, shared, shared)) + rows * outside;
    base += unevenness(law, rows, held, weights, theta, common);
    return {value, base, slope: inside - outside};
  }

  // The weighted median of the numbers. Most records have it, and counting it exactly gives the smallest error.
  function usual({shares}, wanted) {
    const mine = sum(wanted.map(place => shares[place])), all = sum(shares);
    return all - mine >= all / 2 ? 0 : 1;
  }

  function covariance(law, one, other) {
    const [first, second] = [law.mean(one), law.mean(other)];
    return law.mean(one.map((each, at) => each * other[at])).map((each, at) => each - first[at] * second[at]);
  }

  function weighted(given, weights, isMine) {
    const mine = [...given.keys()].filter(isMine), all = sum(mine.map(at => weights[at]));
    return all > 0 ? sum(mine.map(at => weights[at] * given[at])) / all : mean(mine.map(at => given[at]));
  }

  // Approximates the composition of the records: a few steps of iterative Bayes.
  function composition(law, tally) {
    return once(tally, law.name, () => {
      let held = Float64Array.from(law.shares, share => share * tally.rows);
      for (let step = 0; step < steps; step += 1) {
        const expected = law.shown(held);
        const ratios = held.map((_, at) => expected[at] > 0 ? tally.counts[at] / expected[at] : 0);
        const told = law.mean(ratios);
        held = held.map((each, at) => each * told[at]);
      }
      return held;
    });
  }

  // The added variance because values do not meet exactly in proportion to their shares.
  function unevenness({shares, spread}, rows, held, weights, theta, common) {
    const excess = held.map((each, at) => each / Math.max(shares[at] * total, 1) - rows / total), middle = mean(weights);
    let found = 0;
    if (spread) {
      excess.forEach((each, at) => {
        weights.forEach((weight, other) => { found += each ** 2 * spread[at * size + other] * (weight - middle) ** 2; });
      });
      return found;
    }
    if (!is_mixed) return 0;
    const arcs = shares.map(share => Math.min(share * group_size, 1)).map(arc => Math.min(arc, 1 - arc));
    theta.forEach((each, at) => {
      if (each === common) return;
      const seat = (weights[at] - middle) * groups / group_size;
      arcs.forEach((arc, other) => {
        if (other === at) return;
        const short = Math.min(arc, arcs[at]), long = Math.max(arc, arcs[at]);
        found += excess[other] ** 2 * Math.max(short ** 2 * (long - short / 3) - (short * long) ** 2, 0) * seat ** 2;
      });
    });
    return found;
  }

  // Describes whether to rely on an answer: small numbers are protected by being unreliable.
  function regime(wanted, common, value, error) {
    if (error <= unreliable * value) {
      return `the relative error is about ${((value ? error / value : 0) * 100).toFixed(1)}%`;
    }
    const chosen = new Set(wanted), told = [...law.shares.keys()].filter(at => chosen.has(at) !== Boolean(common));
    const amplified = Math.max(0, ...told.slice(0, most_amplified).map(at => {
      const single = new Float64Array(size);
      single[at] = 1;
      return Math.abs(law.solve(single)[at]);
    }));
    const why = amplified > far_amplified * group_size ? "a value is in most groups" : "the count is too small";
    return `deliberately unreliable: ${why} (noise is amplified ${threeDigits(amplified)} times)`;
  }

  function threeDigits(number) {
    const [digits, power] = number.toPrecision(3).split("e");
    return power ? `${Number(digits)}e${power[0]}${power.slice(1).padStart(2, "0")}` : String(Number(digits));
  }
}
