// Formats an answer: numbers with digits by their error, the answer as CSV, and the question in SQL, in Python and
// on the command line.

const MISSING = "(missing)", LONGEST = 1e15, MOST_DIGITS = 8, LONGEST_NAME = 60;

// Control and invisible characters, written as escapes.
const UNPRINTABLE = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\u2028\\u2029\\u00ad\\u180e\\u200b"
  + "\\u2060-\\u2065\\u206a-\\u206f\\ufeff\\ufff9-\\ufffb\\ufffe\\uffff]|[\\u{e0000}-\\u{e007f}]|\\p{Cs}", "gu");

function plain(text) {
  return text.replace(UNPRINTABLE, found => {
    const code = found.codePointAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

function shortened(text, most = LONGEST_NAME) {
  const letters = [...plain(text)];
  return letters.length <= most ? letters.join("") : `${letters.slice(0, most - 1).join("")}\u2026`;
}

function label(value) {
  return value === null ? MISSING : shortened(String(value));
}

// ----------------------------------------------------------------------------------------------------------- numbers

// The decimal place of the second digit, which is 3 for 0.031 and -1 for 170.
function placeOf(number) {
  return 1 - Math.floor(Math.log10(Number(Math.abs(number).toExponential(1))));
}

function rounded(number, place) {
  if (place >= 0) return Number(number.toFixed(Math.min(place, 100)));
  const unit = 10 ** -place;
  return Math.round(number / unit) * unit;
}

function written(number, place, error = 0) {
  if (!Number.isFinite(number)) return number > 0 ? "\u221e" : "-\u221e";
  let found = rounded(number, place);
  if (!found) {
    if (Math.abs(number) <= 1e-8 * error) return place > 0 && place <= MOST_DIGITS ? (0).toFixed(place) : "0";
    place = -Math.floor(Math.log10(Math.abs(number)));
    found = rounded(number, place);
  }
  if (Math.abs(found) >= LONGEST || place > MOST_DIGITS) return found.toPrecision(2);
  const digits = Math.max(place, 0);
  return found.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

// Formats a number, its error and its interval. Parts that do not exist are empty.
function cell({value, error, low, high}, isShare) {
  if (!Number.isFinite(value)) return {value: "no number", error: "", low: "", high: ""};
  const by = isShare ? 100 : 1, unit = isShare ? "%" : "";
  const [number, off, from, to] = [value, error, low, high].map(each => each * by);
  if (off <= Math.max(1e-8 * Math.abs(number), 1e-12)) {
    const digits = Number.isInteger(number) ? 0 : isShare ? 2 : 4;
    const said = number.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
    return {value: said + unit, error: "", low: "", high: ""};
  }
  const place = placeOf(off);
  return {
    value: written(number, place, off) + unit,
    error: written(off, place) + unit,
    low: written(from, place, off) + unit,
    high: written(to, place, off) + unit,
  };
}

// --------------------------------------------------------------------------------------------------------- questions

function sqlText(text) {
  const parts = text.split("\0").map(part => `'${part.replaceAll("'", "''")}'`);
  return parts.length === 1 ? parts[0] : `(${parts.join(" || chr(0) || ")})`;
}

function sqlValue(value, type) {
  if (type === "string") return sqlText(String(value));
  if (type === "date") return `CAST(${sqlText(value)} AS DATE)`;
  if (type === "datetime") return `CAST(${sqlText(value)} AS TIMESTAMP)`;
  if (type === "boolean") return value ? "TRUE" : "FALSE";
  if (type === "integer") return String(value);  // also a string, for integers with many digits
  if (typeof value === "string") return `CAST(${sqlText(value.replace("INF", "Infinity"))} AS DOUBLE)`;
  return String(value);
}

function sqlCondition({sql, type, values}, condition) {
  if (!condition.codes) {
    const {from = null, to = null} = condition;
    if (from !== null && to !== null) return `${sql} BETWEEN ${sqlValue(from, type)} AND ${sqlValue(to, type)}`;
    return from === null ? `${sql} <= ${sqlValue(to, type)}` : `${sql} >= ${sqlValue(from, type)}`;
  }
  const chosen = condition.codes.map(code => values[code]);
  const said = chosen.filter(value => value !== null).map(value => sqlValue(value, type));
  const tests = chosen.includes(null) ? [`${sql} IS NULL`] : [];
  if (said.length === 1) tests.push(`${sql} = ${said[0]}`);
  if (said.length > 1) tests.push(`${sql} IN (${said.join(", ")})`);
  if (!tests.length) return "FALSE";
  return tests.length === 1 ? tests[0] : `(${tests.join(" OR ")})`;
}

// The question in SQL. A share of a protected value is relative to all records of the group.
function sqlOf(columns, {conditions, groups, isShare}) {
  const given = Object.entries(conditions).filter(([, each]) => each && (each.codes || (each.from ?? each.to ?? null) !== null));
  const test = ([id, each]) => sqlCondition(columns.get(id), each);
  const own = given.filter(([id]) => id.startsWith("s")).map(test), among = given.filter(([id]) => id.startsWith("p")).map(test);
  const isSplit = groups.some(id => id.startsWith("s")), isRatio = isShare && !isSplit;
  const names = groups.map(id => columns.get(id).sql);
  const inside = isRatio && own.length ? ` FILTER (WHERE ${own.join(" AND ")})` : "";
  const number = isRatio ? `COUNT(*)${inside} / COUNT(*) AS share` : "COUNT(*) AS n";
  const where = isRatio ? among : [...among, ...own];
  return [
    `SELECT ${[...names, number].join(", ")}`,
    "FROM release",
    ...(where.length ? [`WHERE ${where.join("\n  AND ")}`] : []),
    ...(names.length ? [`GROUP BY ${names.join(", ")}`] : []),
  ].join("\n");
}

function pythonOf(sql) {
  const text = sql.replaceAll("\\", "\\\\").replaceAll('"""', '\\"\\"\\"').replaceAll("\r", "\\r");
  return `from sfumato import Release\n\nrelease = Release.open("release")\nprint(release.sql("""\n${text}\n"""))`;
}

function commandOf(sql, level) {
  const said = `'${sql.replaceAll("'", `'\\''`)}'`;
  return `sfumato query release ${said}${level === 0.95 ? "" : ` --level ${level}`}`;
}

// --------------------------------------------------------------------------------------------------------------- CSV

// Escapes text that looks like a formula, so that a spreadsheet reads it as text; quotes it if necessary.
function csvText(text) {
  const said = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(said) ? `"${said.replaceAll('"', '""')}"` : said;
}

function csvOf(columns, {groups, isShare}, rows) {
  const number = isShare ? "share" : "n";
  const names = groups.map(id => csvText(columns.get(id).name));
  const lines = [[...names, number, `${number}_se`, `${number}_low`, `${number}_high`, `${number}_note`]];
  for (const {codes, value, error, low, high, note} of rows) {
    const said = groups.map((id, at) => {
      const found = columns.get(id).values[codes[at]];
      return found === null ? "" : typeof found === "number" ? String(found) : csvText(String(found));
    });
    const numbers = [value, error, low, high].map(each => Number.isFinite(each) ? String(each) : "");
    lines.push([...said, ...numbers, csvText(note)]);
  }
  return lines.map(line => line.join(",")).join("\r\n") + "\r\n";
}
