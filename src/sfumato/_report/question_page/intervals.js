// Intervals of counts, by the rules of sfumato's `_query.intervals` and `_query.exact_intervals`. If few hits are
// expected from other values, the exact distribution is used, otherwise the score. An interval always contains one
// standard error on both sides of the estimate.
// Notation: p = wanted, q = other, R = rows, c = count.

const FEW = 10, MOST_HITS = 512, SMALL_ROWS = 100, LARGE_CHANCE = 0.25, SPACING = 0.04, WIDEST_SPACING = 0.1;
const ROUNDING = 1e-6, FEW_ROOT = 2, FINENESS = 16, REACH = 5, UNHEARD = 1e-12, EQUAL = 1e10, FIRST_HITS = 16;
const NOTHING = 1e-30;  // a share of the largest probability that is negligible

function standardError({value, base, slope, least, most}) {
  return Math.sqrt(Math.max(base + slope * clipped(value, least, most), 0));
}

// The two ends of an interval. `quantile` is the normal quantile of the confidence level.
// Estimators may know the exact distribution of a count (`known`).
function interval(moments, level, quantile) {
  const {value, base, slope, least, most, chances} = moments;
  const squared = quantile ** 2, shift = squared * slope / 2;
  const half = Math.sqrt(Math.max(shift * (2 * value + shift) + squared * base, 0));
  let low = value + shift - half, high = value + shift + half;
  const rows = most - least;
  if (chances && rows > 0 && rows * chances[1] < FEW && chances[0] > chances[1]) {
    const [wanted, other] = chances;
    const hits = clipped(Math.round((value - least) * (wanted - other) + rows * other), 0, rows);
    if (hits < MOST_HITS) [low, high] = inverted(wanted, other, rows, hits, level).map(end => end + least);
  }
  if (moments.known) [low, high] = moments.known(level);
  const nearest = clipped(value, least, most), reach = Math.min(quantile, 1) * standardError(moments);
  [low, high] = [clipped(low, least, most), clipped(high, least, most)];
  return [
    Math.min(low, clipped(nearest - reach, least, most)), Math.max(high, clipped(nearest + reach, least, most)),
  ];
}

const laws = new Map();

// The smallest and the largest count that a test does not reject, given the hits among the rows.
function inverted(wanted, other, rows, hits, level) {
  const top = FIRST_HITS * 2 ** Math.max(Math.ceil(Math.log2((hits + 1) / FIRST_HITS)), 0);
  const isWhole = rows <= SMALL_ROWS || wanted > LARGE_CHANCE;
  const node = isWhole ? rows : Math.min(standing(rows, wanted), rows);
  const key = [wanted, other, node, top, level].join();
  if (!laws.has(key)) laws.set(key, accepted(wanted, other, node, top, level));
  const ends = laws.get(key), [low, high] = ends[Math.min(hits, ends.length - 1)];
  const fewer = (rows - node) * other / (wanted - other);
  return [low - fewer, high - fewer];
}

// Rounds a number of rows, so that similar numbers of rows share one distribution.
function standing(rows, wanted) {
  const ratio = Math.log1p(Math.min(SPACING / wanted, WIDEST_SPACING)), first = SMALL_ROWS + 1;
  const steps = Math.floor(Math.log(Math.max(rows, first) / first) / ratio + ROUNDING);
  return Math.floor(first * Math.exp(steps * ratio) + ROUNDING);
}

// The smallest and the largest accepted count, for every number of hits below the top.
function accepted(wanted, other, rows, top, level) {
  const isWhole = rows <= SMALL_ROWS || wanted > LARGE_CHANCE;
  const expected = count => rows * other + count * (wanted - other);
  const counts = lookedAt(wanted, other, rows, isWhole, (REACH / 2 + Math.sqrt(REACH ** 2 / 4 + top)) ** 2);
  const most = expected(counts[counts.length - 1]);
  const size = Math.min(rows + 1, Math.ceil(most + REACH * Math.sqrt(most) + REACH ** 2)) | 1;
  const chances = hitChances(wanted, other, rows, counts, size);
  const best = new Float64Array(size);
  for (const line of chances) line.forEach((chance, hits) => { best[hits] = Math.max(best[hits], chance); });
  // More hits than the largest count explains would suggest a larger count, but there is none.
  best.fill(best[Math.round(most)], Math.round(most));
  const width = Math.min(top, size);
  const first = new Array(width).fill(-1), last = new Array(width).fill(-1), scale = 2 ** Math.ceil(Math.log2(size + 1));
  chances.forEach((line, number) => {
    const ranks = line.map((chance, hits) => best[hits] > 0 ? Math.round((1 - chance / best[hits]) * EQUAL) : -1);
    const ordered = ranks.map((rank, hits) => rank * scale + hits).sort();
    let taken = 0, at = 0;
    for (; at < size - 1; at += 1) {
      taken += line[ordered[at] - Math.floor(ordered[at] / scale) * scale];
      if (!(taken < level - UNHEARD)) break;
    }
    const worst = Math.floor(ordered[at] / scale);  // ties are accepted together
    for (let hits = 0; hits < width; hits += 1) {
      const isLast = number === chances.length - 1 && first[hits] < 0;  // more hits than expected from any count
      if (ranks[hits] <= worst || isLast) {
        if (first[hits] < 0) first[hits] = number;
        last[hits] = number;
      }
    }
  });
  if (isWhole) return first.map((each, hits) => [counts[each], counts[last[hits]]]);
  // Of the counts between two examined counts, half belong to each.
  const edges = [counts[0], ...counts.slice(1).map((each, at) => (each + counts[at]) / 2), counts[counts.length - 1]];
  return first.map((each, hits) => [edges[each], edges[last[hits] + 1]]);
}

// The counts to examine, up to the count that explains the most hits.
function lookedAt(wanted, other, rows, isWhole, mostHits) {
  const kept = wanted - other, first = rows * other;
  let most = Math.ceil(Math.max(mostHits - first, 0) / kept) + 1;
  if (isWhole) return Array.from({length: Math.min(most, rows) + 1}, (_, count) => count);
  most = Math.min(most, Math.ceil(((rows * (1 + WIDEST_SPACING) + 1) * wanted - first) / kept));
  const low = Math.sqrt(first), high = Math.sqrt(first + most * kept), step = 0.5 / FINENESS;
  const roots = [...spaced(low, FEW_ROOT, step / 2), ...spaced(Math.max(low, FEW_ROOT), high + step, step)];
  const found = roots.map(root => Math.round(clipped((root ** 2 - first) / kept, 0, most)));
  return [...new Set(found)].sort((one, another) => one - another);
}

function spaced(start, stop, step) {
  return Array.from({length: Math.max(Math.ceil((stop - start) / step), 0)}, (_, at) => start + at * step);
}

// The probability of each number of hits below a size, with a line for each count, from wanted and other records. Few
// hits are expected from the other records, so the probability of more hits than the size is negligible.
const MOST_OTHERS = 100;

function hitChances(wanted, other, rows, counts, size) {
  return counts.map(count => {
    const own = binomial(count, wanted, size), others = series(rows - count, other, Math.min(size, MOST_OTHERS + 1));
    const found = new Float64Array(size);
    for (let beside = 0; beside < others.length; beside += 1) {
      if (Math.abs(others[beside]) < NOTHING) continue;
      for (let hits = beside; hits < size; hits += 1) found[hits] += own[hits - beside] * others[beside];
    }
    return found.map(chance => chance < UNHEARD ? 0 : chance);
  });
}

// The probabilities of a binomial below a size, from its mode to both sides, to avoid underflow.
function binomial(count, chance, size) {
  const found = new Float64Array(size), odds = chance / (1 - chance);
  const mode = Math.min(Math.floor((count + 1) * chance), count);
  let total = 0;
  const add = (hits, weight) => {
    total += weight;
    if (hits < size) found[hits] = weight;
  };
  for (let hits = mode, weight = 1; hits <= count && weight > NOTHING; hits += 1) {
    add(hits, weight);
    weight *= (count - hits) / (hits + 1) * odds;
  }
  for (let hits = mode, weight = 1; hits > 0 && weight > NOTHING; hits -= 1) {
    weight *= hits / (count - hits + 1) / odds;
    add(hits - 1, weight);
  }
  return found.map(each => each / total);
}

// The first powers of (1 - q + q t)^n; above the rows that a law has, n is below zero, and this is close to a law.
function series(count, chance, size) {
  const found = new Float64Array(size), odds = chance / (1 - chance);
  found[0] = Math.exp(count * Math.log1p(-chance));
  for (let hits = 0; hits + 1 < size; hits += 1) found[hits + 1] = found[hits] * (count - hits) / (hits + 1) * odds;
  return found;
}
