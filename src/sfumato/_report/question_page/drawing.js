// Makes elements and pictures. Names and values become text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter(each => each !== null));
  return node;
}

function element(name, attributes = {}, ...children) {
  return put(document.createElement(name), attributes, children);
}

function shape(name, attributes = {}, ...children) {
  return put(document.createElementNS(SVG, name), attributes, children);
}

// The tick marks of a scale. Their distance is 1, 2 or 5 times a power of ten.
function ticksOf(low, high, most) {
  if (!(high > low)) return [low];
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(each => each * power).find(each => each >= rough);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
  return found;
}

// The common scale of all intervals of an answer, with zero, in pixels.
function scaleOf(rows, width) {
  const numbers = rows.flatMap(({value, low, high}) => [value, low, high]).filter(Number.isFinite);
  const low = Math.min(0, ...numbers), high = Math.max(0, ...numbers), inset = 10;
  const reach = high > low ? high - low : 1;
  const place = number => inset + (number - low) / reach * (width - 2 * inset);
  return {width, low, high, place, ticks: ticksOf(low, high, Math.max(2, Math.round(width / 75)))};
}

function grid({place, ticks}) {
  return ticks.map(tick => shape("line", {
    x1: place(tick), x2: place(tick), y1: "0", y2: "100%", class: tick === 0 ? "zero" : "grid",
  }));
}

// Draws one answer: the interval as a line, the estimate as a dot, certain bounds as ticks; dashed and hollow if
// unreliable; with a text for screen readers.
function drawnRow(scale, row, words) {
  const {value, low, high, least, most, isExact, isUnreliable} = row, middle = "50%", parts = grid(scale);
  if (Number.isFinite(value)) {
    const inside = number => number !== 0 && number >= scale.low && number <= scale.high && !isExact;
    parts.push(...[least, most].filter(inside).map(bound => shape("line", {
      x1: scale.place(bound), x2: scale.place(bound), y1: "28%", y2: "72%", class: "bound",
    })));
    if (!isExact) parts.push(shape("line", {
      x1: scale.place(low), x2: scale.place(high), y1: middle, y2: middle, class: isUnreliable ? "line frail" : "line",
    }));
    parts.push(shape("circle", {cx: scale.place(value), cy: middle, r: 4, class: isUnreliable ? "hollow" : "dot"}));
  }
  return shape(
    "svg", {width: scale.width, height: 28, role: "img", "aria-label": words}, shape("title", {}, words), ...parts);
}

function drawnAxis(scale, isShare) {
  const far = Math.max(...scale.ticks.map(Math.abs));
  const [unit, letter] = isShare ? [0.01, "%"] : far >= 1e6 ? [1e6, "M"] : far >= 1e4 ? [1e3, "k"] : [1, ""];
  const said = tick => Number((tick / unit).toPrecision(6)).toLocaleString("en") + (tick ? letter : "");
  const labels = scale.ticks.map(tick => {
    const text = said(tick), place = scale.place(tick), half = 3.5 * text.length;  // about half as wide as the text
    const anchor = place < half ? "start" : place > scale.width - half ? "end" : "middle";
    return shape("text", {x: anchor === "end" ? scale.width : place, y: 12, class: "tick", "text-anchor": anchor}, text);
  });
  return shape("svg", {width: scale.width, height: 16, "aria-hidden": "true"}, ...labels);
}
