// Counts people in crowds by their noisy counts, and all other people by their sets, as `crowd_estimators` does.
// The page has the noisy counts of each crowd, or, if the release is too large, sums over many crowds.
// Notation: m = size, r = ratio; n = people, y = noisy counts, u and k = the numbers of full and empty values, E = excess,
// F = shortfall, as in `clamped_estimation`.

const NEGLIGIBLE_PART = 1e-25;  // of the largest probability
const CUT_OFF = 1e-16, SMALLEST_LIKELIHOOD = 1e-10, EQUAL_RANKS = 1e-9, SMALLEST_NUMBER = 2.2250738585072014e-308;

function estimator({sets, ratio, variance, least_share, most_known}) {
  const countSets = setEstimator(sets), {size} = sets, clamping = clampingOf(size, ratio);
  const noiseOf = distributionsOf(size, ratio), intervals = new Map();

  return (tally, wanted) => {
    const {length} = wanted, {crowds} = tally;
    if (length === 0 || length === size) return exactly(length ? tally.rows : 0);
    const counted = countSets({counts: tally.counts, rows: tally.records}, wanted);
    if (!crowds.number) return counted;
    const {value, noisy, reduction} = crowds.sums
      ? {value: sum(wanted.map(place => crowds.sums.estimates[place])), noisy: sum(wanted.map(place => crowds.sums.noisy[place])), reduction: 0}
      : clamping(crowds, wanted);
    const noise = crowds.number * variance * length * (size - length) / (size - 1);
    const isKnown = !tally.records && crowds.number <= most_known;
    return {
      value: counted.value + value,
      base: Math.max(noise - reduction, least_share * noise)
        + counted.base + counted.slope * clipped(counted.value, 0, counted.most),
      slope: 0,
      least: 0,
      most: tally.rows,
      chances: null,
      known: isKnown ? level => known(length, crowds.number, noisy, tally.rows, level) : null,
    };
  };

  function known(...key) {
    const name = key.join(), [length, number, noisy, rows, level] = key;
    if (!intervals.has(name)) intervals.set(name, acceptedCounts(noiseOf(length, number), noisy, rows, level));
    return intervals.get(name);
  }
}

// -------------------------------------------------------------------------------------------------------- clamped counts

// The estimated count of some values in some crowds, their noisy count, and how much less the estimate varies.
function clampingOf(size, ratio) {
  return ({numbers, people, noisy}, wanted) => {
    const kinds = once(noisy, "kinds", () => kindsOf(size, ratio, people, noisy));
    let value = 0, all = 0, reduction = 0;
    for (const crowd of numbers) {
      const kind = kinds[crowd], most = people[crowd];
      let full = 0, empty = 0;
      for (const place of wanted) {
        const count = noisy[crowd * size + place];
        all += count;
        if (count >= most) {
          full += 1;
          value += most + kind.surplus;
        } else if (count <= 0) {
          empty += 1;
          value -= kind.deficit;
        } else {
          value += count;
        }
      }
      reduction += Math.max(
        kind.spread * (full / kind.full - empty / kind.empty) ** 2 + kind.fullSpread * full * (kind.full - full)
          + kind.emptySpread * empty * (kind.empty - empty), 0);
    }
    return {value, noisy: all, reduction};
  };
}

// What clamping does in each crowd. Crowds with equally many full and empty values and the same overshoot are alike.
function kindsOf(size, ratio, people, noisy) {
  const found = new Map();
  return Array.from(people, (most, crowd) => {
    let full = 0, empty = 0, overshoot = -most;
    for (let at = crowd * size; at < (crowd + 1) * size; at += 1) {
      if (noisy[at] >= most) full += 1;
      if (noisy[at] <= 0) empty += 1;
      overshoot += clipped(noisy[at], 0, most);
    }
    const key = `${full},${empty},${overshoot}`;
    if (!found.has(key)) found.set(key, kindOf(full, empty, overshoot, ratio));
    return found.get(key);
  });
}

function kindOf(full, empty, overshoot, ratio) {
  const [excess, spread] = full ? excessMoments(full, empty, overshoot, ratio) : [0, 0], shortfall = excess + overshoot;
  const [u, k] = [Math.max(full, 1), Math.max(empty, 1)];
  const shared = (mean, values) => (spread + mean * (mean + values)) / (values ** 2 * (values + 1));
  return {
    full: u, empty: k, spread, surplus: excess / u, deficit: shortfall / k,
    fullSpread: shared(excess, u), emptySpread: shared(shortfall, k),
  };
}

// The mean and the variance of the excess, summed around its most probable number, so that no difference is inexact.
function excessMoments(full, empty, overshoot, ratio) {
  const step = excess => ratio * (excess + full) / (excess + 1) * (excess + overshoot + empty) / (excess + overshoot + 1);
  let mode = 0;
  while (step(mode) > 1) mode += 1;
  let all = 1, first = 0, second = 0;
  const add = (weight, distance) => {
    all += weight;
    first += weight * distance;
    second += weight * distance ** 2;
  };
  for (let weight = step(mode), at = 1; weight > NEGLIGIBLE_PART; weight *= step(mode + at), at += 1) add(weight, at);
  for (let weight = 1, at = 1; at <= mode; at += 1) add(weight /= step(mode - at), -at);
  return [mode + first / all, second / all - (first / all) ** 2];
}

// ------------------------------------------------------------------------------------------------ intervals of few crowds

// The distribution of the summed noise of some values over some crowds: the probabilities of 0, 1, ...; it is symmetric.
function distributionsOf(size, ratio) {
  const cells = new Map(), found = new Map(), root = Math.sqrt(ratio);
  return (wanted, number) => {
    const key = `${wanted},${number}`;
    if (!cells.has(wanted)) cells.set(wanted, cellNoise(wanted, size, root));
    if (!found.has(key)) {
      let whole = Float64Array.of(1);
      for (let at = 0; at < number; at += 1) whole = cut(convolved(whole, cells.get(wanted)));
      found.set(key, whole);
    }
    return found.get(key);
  };
}

// The noise of one crowd: the product of the distributions of two independent sums, which add up to zero.
function cellNoise(wanted, size, root) {
  const length = Math.max(...[wanted, size - wanted].map(values => longest(values, root)));
  const [own, others] = [wanted, size - wanted].map(values => independentSum(values, root, length));
  const likelihoods = own.map((each, at) => each * others[at]), all = 2 * sum(likelihoods) - likelihoods[0];
  return cut(likelihoods.map(each => each / all));
}

function longest(values, root) {
  return Math.ceil((values * root + 12 * Math.sqrt(values * root)) / (1 - root) - 40 / Math.log(root));
}

// The sum of independent two-sided geometric numbers, up to a factor, from its end to 0: by this recurrence,
// rounding errors shrink in this direction.
function independentSum(values, root, length) {
  const found = new Float64Array(length + 1), scaled = 1e-200;
  let [next, here] = [0, scaled];
  for (let at = length; at >= 0; at -= 1) {
    found[at] = here;
    if (here > 1e200) {
      for (let above = at; above <= length; above += 1) found[above] *= scaled;
      [next, here] = [next * scaled, here * scaled];
    }
    const before = ((1 + root ** 2) * at * here - root * (at + 1 - values) * next) / (root * (at - 1 + values));
    [next, here] = [here, before];
  }
  const most = found.reduce((one, other) => Math.max(one, other), 0);
  return found.map(each => each / most);
}

// Joins two symmetric distributions.
function convolved(one, other) {
  const mirrored = half => Float64Array.from({length: 2 * half.length - 1}, (_, at) => half[Math.abs(at - half.length + 1)]);
  const [first, second] = [mirrored(one), mirrored(other)], found = new Float64Array(one.length + other.length - 1);
  const middle = one.length + other.length - 2;
  for (let at = 0; at < found.length; at += 1) {
    const begin = Math.max(middle + at - second.length + 1, 0), end = Math.min(middle + at, first.length - 1);
    for (let own = begin; own <= end; own += 1) found[at] += first[own] * second[middle + at - own];
  }
  return found;
}

function cut(half) {
  let length = half.length, tail = 0;
  while (length > 1 && tail + half[length - 1] < CUT_OFF) {
    length -= 1;
    tail += half[length];
  }
  return half.slice(0, length);
}

// The least and the largest true count that accept a noisy count, as `few_cells` finds them (Feldman and Cousins 1998).
function acceptedCounts(likelihoods, noisySum, rows, level) {
  let reach = -1, total = 0;
  const cumulative = Float64Array.from(likelihoods, each => total += each);
  for (const each of likelihoods) if (each > SMALLEST_LIKELIHOOD) reach += 1;
  const noisy = clipped(noisySum, -reach, rows + reach), nearest = clipped(noisy, 0, rows);
  const of = distance => likelihoods[Math.abs(distance)] ?? 0;
  const rank = (count, other) => of(other - count) / Math.max(of(other - clipped(other, 0, rows)), SMALLEST_NUMBER);
  const higher = (count, threshold, side) => {
    let [least, beyond] = [0, likelihoods.length];
    while (least < beyond) {
      const middle = Math.floor((least + beyond) / 2);
      if (rank(count, count + side * middle) > threshold) least = middle + 1; else beyond = middle;
    }
    return least ? cumulative[least - 1] : 0;
  };
  const accepts = count => {
    const threshold = rank(count, noisy) * (1 + EQUAL_RANKS);
    const [above, below] = [1, -1].map(side => higher(count, threshold, side));
    return above + below - Math.min(above, likelihoods[0]) < level + EQUAL_RANKS;
  };
  const span = cumulative.reduce((far, all) => far + (2 * all - likelihoods[0] < level + EQUAL_RANKS ? 1 : 0), 0);
  let low = Math.max(nearest - span, 0), high = Math.min(nearest + span, rows);
  while (low < high && !accepts(low)) low += 1;
  while (high > low && !accepts(high)) high -= 1;
  return [low, high];
}
