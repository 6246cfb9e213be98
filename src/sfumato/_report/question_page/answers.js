// Answers a question: selects records, counts their published values, and estimates.
// A question is {conditions: {id: {codes} or {from, to}}, groups: [id], isShare, level}; ids are p0, p1, ... for public
// columns and s0, s1, ... for protected columns.

const MOST_NUMBERS = 1 << 25, MOST_ROWS = 5000;
const NUMBERS = "numbers.";  // prefix of the estimator's arrays
const BELOW_ZERO = "below zero by chance";

class Asking {
  constructor(about, arrays) {
    this.about = about;
    this.arrays = arrays;
    this.columns = new Map([...about.public, ...about.protected].map(column => [column.id, column]));
    const own = Object.entries(arrays).filter(([name]) => name.startsWith(NUMBERS));
    this.count = estimator({
      ...about.numbers, ...Object.fromEntries(own.map(([name, each]) => [name.slice(NUMBERS.length), each])),
    });
  }

  // The codes of a column that a condition selects, as zeros and ones; null if it selects all.
  selected(id, condition) {
    const column = this.columns.get(id);
    if (!condition) return null;
    if (condition.codes) {
      const mask = new Uint8Array(column.values.length);
      condition.codes.forEach(code => { mask[code] = 1; });
      return mask;
    }
    const [from, to] = [condition.from ?? null, condition.to ?? null];
    if (from === null && to === null) return null;
    return Uint8Array.from(
      column.values, value => value !== null && (from === null || value >= from) && (to === null || value <= to) ? 1 : 0);
  }

  // The rows of an answer, in the order of the values of their groups. An Error has one sentence as message.
  ask({conditions, groups, isShare, level}) {
    const masks = new Map(Object.entries(conditions).map(([id, each]) => [id, this.selected(id, each)]));
    const isPublic = id => id.startsWith("p");
    const among = [...masks].filter(([id, mask]) => isPublic(id) && mask);
    const by = groups.filter(isPublic), told = groups.filter(id => !isPublic(id)), found = [];
    const wanted = this.places([...masks].filter(([id, mask]) => !isPublic(id) && mask), told);
    const tallies = this.tallies(among, by);
    if (tallies.length * wanted.length > MOST_ROWS) throw new Error(
      `This table would have ${(tallies.length * wanted.length).toLocaleString("en")} rows; split by fewer columns.`);
    for (const {key, tally} of tallies) {
      for (const {key: own, places} of wanted) {
        const isAll = places.length === this.about.domain_size;
        const moments = isAll ? exactly(tally.rows) : this.count(tally, places);
        const codes = groups.map(id => isPublic(id) ? key[by.indexOf(id)] : own[told.indexOf(id)]);
        found.push({codes, ...this.estimate(moments, level, isShare ? tally.rows : 1, isShare)});
      }
    }
    const order = (one, other) => one.codes.map((code, at) => code - other.codes[at]).find(Boolean) ?? 0;
    return found.sort(order);
  }

  // The wanted positions in the domain, by the values of the protected groups.
  places(masks, groups) {
    const found = new Map(groups.length ? [] : [["", {key: [], places: []}]]);
    for (let place = 0; place < this.about.domain_size; place += 1) {
      if (!masks.every(([id, mask]) => mask[this.arrays[id][place]])) continue;
      const key = groups.map(id => this.arrays[id][place]), said = key.join();
      if (!found.has(said)) found.set(said, {key, places: []});
      found.get(said).places.push(place);
    }
    return [...found.values()];
  }

  // Counts the published values of the selected records, and lists the selected crowds, by public groups.
  tallies(among, by) {
    const {width} = this.about, found = new Map(), seen = [];
    const parts = this.about.tables ? [this.cells(among, by)] : [this.records(), ...this.crowds()];
    const sizes = by.map(id => this.columns.get(id).values.length);
    const numbered = parts.map(({rows, codes}) => {
      const tests = among.map(([id, mask]) => [codes(id), mask]), groups = by.map(codes);
      const numbers = new Int32Array(rows).fill(-1);
      for (let row = 0; row < rows; row += 1) {
        let key = 0, isSelected = true;
        for (const [code, mask] of tests) if (!mask[code[row]]) isSelected = false;
        if (!isSelected) continue;
        for (let at = 0; at < groups.length; at += 1) key = key * sizes[at] + groups[at][row];
        if (!found.has(key)) {
          found.set(key, seen.length);
          seen.push(groups.map(code => code[row]));
        }
        numbers[row] = found.get(key);
      }
      return numbers;
    });
    if (!by.length && !seen.length) seen.push([]);
    if (seen.length * width > MOST_NUMBERS || seen.length > MOST_ROWS) throw new Error(
      `This would make ${seen.length.toLocaleString("en")} groups; split by fewer or coarser columns.`);
    const tallies = seen.map(() => ({counts: new Float64Array(width), rows: 0, records: 0}));
    parts.forEach(({add}, at) => add(numbered[at], tallies));
    return seen.map((key, number) => ({key, tally: tallies[number]}));
  }

  // The records. Each has a symbol or a set of values. Sets are stored as a bit map of all records for each value.
  records() {
    const {shown} = this.arrays, {lines: rows, width, is_set} = this.about;
    const add = (numbers, tallies) => {
      for (let row = 0; row < rows; row += 1) {
        if (numbers[row] < 0) continue;
        const tally = tallies[numbers[row]];
        tally.rows += 1;
        tally.records += 1;
        if (!is_set) tally.counts[shown[row]] += 1;
      }
      if (is_set) addMembers(shown, numbers, tallies, width, rows);
    };
    return {rows, add, codes: id => this.arrays[id]};
  }

  // The crowds: people with equal public columns whose noisy counts are published; none in most releases.
  crowds() {
    const {crowd_people: people, crowd_noisy: noisy} = this.arrays;
    if (!people) return [];
    const add = (numbers, tallies) => {
      for (const tally of tallies) tally.crowds = {numbers: [], people, noisy, get number() { return this.numbers.length; }};
      numbers.forEach((number, crowd) => {
        if (number < 0) return;
        tallies[number].rows += people[crowd];
        tallies[number].crowds.numbers.push(crowd);
      });
    };
    return [{rows: people.length, add, codes: id => this.arrays[`crowd_${id}`]}];
  }

  // The counts for pairs of public columns, which were made in advance. Each pair of values has a cell.
  cells(among, by) {
    const {width, tables} = this.about, used = [...new Set([...among.map(([id]) => id), ...by])];
    const table = tables.findIndex(each => used.every(id => each.columns.includes(id)));
    if (table < 0) throw new Error(this.about.too_many);
    const of = name => this.arrays[`table${table}_${name}`], rows = of("rows").length;
    const addTo = (sums, line, row) => {
      for (let at = 0; at < width; at += 1) sums[at] += line[row * width + at];
    };
    const add = (numbers, tallies) => {
      const crowds = of("crowds");
      if (crowds) tallies.forEach(tally => {
        tally.crowds = {number: 0, sums: {estimates: new Float64Array(width), noisy: new Float64Array(width)}};
      });
      for (let row = 0; row < rows; row += 1) {
        if (numbers[row] < 0) continue;
        const tally = tallies[numbers[row]];
        tally.rows += of("rows")[row];
        addTo(tally.counts, of("counts"), row);
        if (!crowds) continue;
        tally.records += of("records")[row];
        tally.crowds.number += crowds[row];
        addTo(tally.crowds.sums.estimates, of("estimates"), row);
        addTo(tally.crowds.sums.noisy, of("noisy"), row);
      }
    };
    return {rows, add, codes: id => of(id)};
  }

  // An estimate with its error. For a share, both are divided by the exact number of records in the group.
  estimate(moments, level, by, isShare) {
    const {base, slope, least, most} = moments, note = [];
    const isExact = base === 0 && slope === 0 && least === most;
    const [low, high] = isExact ? [moments.value, moments.value] : interval(moments, level, this.about.quantiles[level]);
    // A note about the number does not apply to the share that is computed from the number.
    if (!isExact && moments.note && !(isShare && moments.is_own_note)) note.push(moments.note);
    if (moments.value < 0 && least >= 0) note.push(BELOW_ZERO);
    const error = isExact ? 0 : standardError(moments);
    const [value, se, from, to, atLeast, atMost] = [moments.value, error, low, high, least, most].map(each => each / by);
    return {
      value, error: se, low: from, high: to, least: atLeast, most: atMost, isExact, note: note.join("; "),
      isUnreliable: Boolean(moments.is_unreliable),
    };
  }
}

// Counts, for each bit map, the records of each group that contain the value of the map.
function addMembers(maps, numbers, tallies, width, rows) {
  const stride = Math.ceil(rows / 8), selected = Uint32Array.from(numbers.keys()).filter(row => numbers[row] >= 0);
  const groups = selected.map(row => numbers[row]), found = new Float64Array(tallies.length);
  for (let member = 0; member < width; member += 1) {
    const map = maps.subarray(member * stride, (member + 1) * stride);
    found.fill(0);
    for (let at = 0; at < selected.length; at += 1) {
      const row = selected[at];
      found[groups[at]] += map[row >> 3] >> (7 - (row & 7)) & 1;
    }
    tallies.forEach((tally, group) => { tally.counts[member] = found[group]; });
  }
}
