// Shows the form for a question, with the answer beside it.

const MANY = 12, MOST_LISTED = 300, MOST_SHOWN = 300, MOST_GROUPS = 3, MOST_SPLIT = 200, PAUSE = 60;
const RANGED = new Set(["integer", "number", "date"]);

class View {
  constructor(asking) {
    this.asking = asking;
    this.about = asking.about;
    this.columns = asking.columns;
    this.descriptions = new Map(Object.entries(asking.about.descriptions));  // an object has inherited names
    this.form = document.getElementById("question");
    this.place = document.getElementById("answer");
    this.narrow = window.matchMedia("(max-width:719px)");
    this.language = "SQL";
    this.isOpen = false;
    this.begin();
    this.fold();
    this.narrow.addEventListener("change", () => { this.fold(); this.answer(); });
    window.addEventListener("beforeprint", () => this.answer());
  }

  // On narrow screens, the form is hidden until the reader opens it to change the question.
  fold() {
    document.getElementById("asking").open = !this.narrow.matches;
  }

  // Starts with an empty question, split by the protected column.
  begin() {
    this.question = {conditions: {}, groups: [this.about.protected[0].id], isShare: false, level: 0.95};
    this.isSorted = false;
    this.draw();
    this.answer();
  }

  // ---------------------------------------------------------------------------------------------------- the question

  draw() {
    const {protected: own, public: others} = this.about;
    const fieldset = (legend, ...children) => element("fieldset", {}, element("legend", {}, legend), ...children.flat());
    const which = own.length === 1 ? this.filter(own[0], true, true) : own.map((each, at) => this.filter(each, at === 0));
    const parts = [fieldset(`Which ${shortened(own[0].name, 30)}?`, which)];
    if (others.length) parts.push(fieldset("Among whom?", ...others.map(column => this.filter(column, false))));
    const columns = [...own, ...others].filter(({values}) => values.length <= MOST_SPLIT);
    parts.push(fieldset("Split by", element("div", {class: "chips"}, ...columns.map(column => this.chip(column)))));
    parts.push(fieldset("Show", this.choices()));
    parts.push(element("button", {type: "button", class: "fold", onclick: () => {
      this.settle();
      this.fold();
      this.place.scrollIntoView();
    }}, "Show the answer"));
    parts.push(element("button", {type: "button", class: "quiet", onclick: () => this.begin()}, "Start again"));
    this.form.replaceChildren(...parts);
    this.form.onsubmit = event => event.preventDefault();
  }

  filter(column, isOpen, isAlone = false) {
    const chosen = element("span", {class: "chosen"}, anyOf(column));
    const body = RANGED.has(column.type) && column.values.length > MANY ? this.ends(column, chosen)
      : this.options(column, chosen);
    const said = this.descriptions.get(column.name);
    const hint = said ? element("p", {class: "hint"}, plain(said)) : null;
    if (isAlone) return [hint, element("p", {class: "hint"}, chosen), body];
    const summary = element("summary", {}, element("span", {class: "name"}, shortened(column.name)), chosen);
    return element("details", {open: isOpen}, summary, hint, body);
  }

  options(column, chosen) {
    const list = element("div", {class: "options", role: "group", "aria-label": shortened(column.name), tabindex: "0"});
    const picked = new Set();
    const fill = part => {
      const codes = [...column.values.keys()].filter(code => label(column.values[code]).toLowerCase().includes(part));
      const items = codes.slice(0, MOST_LISTED).map(code => {
        const input = element("input", {
          type: "checkbox", "data-id": column.id, "data-code": code, onchange: event => {
            if (event.target.checked) picked.add(code); else picked.delete(code);
            const codes = [...picked].sort((one, other) => one - other);
            this.choose(column, codes.length ? {codes} : null, chosen);
          },
        });
        input.checked = picked.has(code);
        return element("label", {}, input, element("span", {}, label(column.values[code])));
      });
      const more = codes.length - items.length;
      if (more > 0) items.push(element("p", {class: "hint"}, `${more.toLocaleString("en")} more values; use the search.`));
      list.replaceChildren(...items);
    };
    fill("");
    if (column.values.length <= MANY) return list;
    const search = element("input", {
      type: "search", placeholder: "search", "aria-label": `search in ${shortened(column.name)}`,
      oninput: event => fill(event.target.value.trim().toLowerCase()),
    });
    return element("div", {}, element("div", {class: "search"}, search), list);
  }

  ends(column, chosen) {
    const isDate = column.type === "date", known = column.values.filter(value => value !== null);
    const first = known[0], last = known[known.length - 1], ends = {from: null, to: null};
    const end = (name, hint) => element("label", {}, name, element("input", {
      type: isDate ? "date" : "text", inputmode: isDate ? null : "decimal", placeholder: isDate ? null : String(hint),
      "data-id": column.id, "data-end": name, oninput: event => {
        const text = event.target.value.trim(), number = isDate ? text : Number(text);
        ends[name] = text === "" || (!isDate && !Number.isFinite(number)) ? null : number;
        this.choose(column, ends.from === null && ends.to === null ? null : {...ends}, chosen);
      },
    }));
    return element("div", {class: "ends"}, end("from", first), end("to", last));
  }

  choose(column, condition, chosen) {
    if (condition) this.question.conditions[column.id] = condition;
    else delete this.question.conditions[column.id];
    chosen.textContent = condition ? conditionWords(column, condition) : anyOf(column);
    chosen.classList.toggle("is-chosen", Boolean(condition));
    this.soon();
  }

  chip(column) {
    const input = element("input", {type: "checkbox", "data-group": column.id, onchange: event => {
      const {groups} = this.question;
      if (event.target.checked) groups.push(column.id);
      else groups.splice(groups.indexOf(column.id), 1);
      this.limit();
      this.soon();
    }});
    input.checked = this.question.groups.includes(column.id);
    return element("label", {}, input, element("span", {}, shortened(column.name)));
  }

  limit() {
    for (const input of this.form.querySelectorAll("[data-group]")) {
      input.disabled = !input.checked && this.question.groups.length >= MOST_GROUPS;
    }
  }

  choices() {
    const radio = (isShare, words) => {
      const input = element("input", {
        type: "radio", name: "as", "data-share": String(isShare),
        onchange: () => { this.question.isShare = isShare; this.soon(); },
      });
      input.checked = isShare === this.question.isShare;
      return element("label", {}, input, words);
    };
    const select = (name, pairs, current, pick) => element("label", {}, name, element(
      "select", {"data-pick": name, onchange: event => { pick(event.target.value); this.soon(); }},
      ...pairs.map(([value, words]) => element("option", {value, selected: value === current}, words))));
    const levels = Object.keys(this.about.quantiles).map(level => [level, `${Math.round(level * 100)}%`]);
    const all = this.about.counted;
    return element("div", {},
      element("div", {class: "radios"}, radio(false, "numbers"), radio(true, `shares of the ${all} in each group`)),
      element("div", {class: "pick"},
        select("intervals", levels, String(this.question.level), value => { this.question.level = Number(value); }),
        select("order", [["values", "by values"], ["size", "largest first"]], this.isSorted ? "size" : "values",
          value => { this.isSorted = value === "size"; })));
  }

  soon() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.answer(), PAUSE);
  }

  // Saved and copied answers are those to the current question, not to the question before the pause.
  settle() {
    if (this.waiting) this.answer();
  }

  // ------------------------------------------------------------------------------------------------------ the answer

  answer() {
    clearTimeout(this.waiting);
    this.waiting = null;
    try {
      this.rows = this.asking.ask(this.question);
      this.problem = null;
    } catch (error) {
      [this.rows, this.problem] = [[], error.message];
    }
    this.show();
  }

  get words() {
    const {conditions, groups, isShare} = this.question;
    const said = (kind, link) => Object.keys(conditions).filter(id => id.startsWith(kind)).map(id => {
      const column = this.columns.get(id);
      return `${shortened(column.name)} ${link}${conditionWords(column, conditions[id])}`;
    });
    const own = said("s", ""), among = said("p", "is ");
    const by = groups.map(id => shortened(this.columns.get(id).name));
    const first = isShare ? `Share of the ${this.about.counted}` : `Number of ${this.about.counted}`;
    return first + (own.length ? ` with ${own.join(" and ")}` : "") + (among.length ? `, where ${among.join(" and ")}` : "")
      + (by.length ? `, by ${by.join(" and ")}` : "");
  }

  show() {
    const status = document.getElementById("status");
    const {level, groups} = this.question, {rows} = this;
    const title = element("h2", {}, this.words);
    if (this.problem) {
      status.textContent = "";
      this.place.replaceChildren(title, element("p", {class: "alarm", role: "alert"}, this.problem));
      return;
    }
    const parts = [title];
    status.className = "unseen";
    status.textContent = `${this.words}: ${groups.length ? someRows(rows.length) : cell(rows[0], this.question.isShare).value}`;
    if (!groups.length) parts.push(...this.headline(rows[0]));
    else if (!rows.length) parts.push(element("p", {}, `No ${this.about.counted} satisfy the conditions.`));
    else parts.push(...this.table(rows));
    parts.push(this.tools(), this.elsewhere());
    this.place.replaceChildren(...parts);
    this.place.setAttribute("data-answered", "");
  }

  headline(row) {
    const {isShare, level} = this.question, said = cell(row, isShare), width = this.narrow.matches ? 300 : 520;
    const unit = isShare ? "" : ` ${this.about.counted}`;
    const scale = scaleOf([row], width), words = rowWords(this.words, said);
    const between = row.isExact ? "exact: it depends on public columns only, or is certain"
      : `between ${said.low} and ${said.high} (${Math.round(level * 100)}% confidence interval)`;
    return [
      element("p", {class: "headline"}, said.value, element("small", {}, said.error ? ` \u00b1 ${said.error}${unit}` : unit)),
      element("p", {class: "between"}, between),
      element("div", {class: "plot"}, drawnRow(scale, row, words), drawnAxis(scale, isShare)),
      row.note ? element("p", {class: "hint"}, row.note) : null,
    ].filter(Boolean);
  }

  table(all) {
    const {groups, isShare} = this.question, isNarrow = this.narrow.matches;
    const ordered = this.isSorted ? [...all].sort((one, other) => other.value - one.value) : all;
    const rows = ordered.slice(0, MOST_SHOWN);
    const scale = scaleOf(rows, isNarrow ? 88 : groups.length > 1 ? 230 : 300);
    const names = groups.map(id => shortened(this.columns.get(id).name));
    const heads = isNarrow ? [names.join(", ")] : names;
    const number = isShare ? "share" : "number";
    const header = element("tr", {},
      ...heads.map(name => element("th", {scope: "col"}, name)),
      ...(isNarrow ? [element("th", {scope: "col", class: "number"}, number)] : [
        element("th", {scope: "col", class: "number"}, number),
        element("th", {scope: "col", class: "error"}, "\u00b1"),
        element("th", {scope: "col", class: "interval"}, "interval")]),
      element("th", {scope: "col", class: "plot"}, drawnAxis(scale, isShare)));
    const lines = rows.map(row => this.line(row, scale, isNarrow));
    const more = all.length - rows.length;
    const told = more > 0 ? `the first ${rows.length} of ${someRows(all.length)}; the CSV has all` : someRows(all.length);
    const level = `${Math.round(this.question.level * 100)}%`;
    const caption = `${told}; \u00b1 standard error, ${level} confidence interval, for ${this.about.source}`;
    const table = element("table", {class: "answers"}, element("caption", {}, caption),
      element("thead", {}, header), element("tbody", {}, ...lines));
    const notes = [...new Set(rows.map(({note}) => note).filter(note => shortNote(note) !== note))];
    return [
      element("div", {class: "scroll", role: "region", "aria-label": "The answer as a table", tabindex: "0"}, table),
      notes.length ? element("ul", {class: "notes"}, ...notes.map(note => element("li", {}, note))) : null,
    ].filter(Boolean);
  }

  line(row, scale, isNarrow) {
    const {groups, isShare} = this.question, said = cell(row, isShare);
    const labels = groups.map((id, at) => label(this.columns.get(id).values[row.codes[at]]));
    const between = said.low ? `${said.low} to ${said.high}` : row.isExact ? "exact" : "";
    const note = row.note ? element("span", {class: "note"}, shortNote(row.note)) : null;
    const heads = isNarrow ? [labels.join(" \u00b7 ")] : labels;
    const cells = isNarrow
      ? [element("td", {class: "number"},
        element("span", {class: "both"}, said.error ? `${said.value} \u00b1 ${said.error}` : said.value),
        element("small", {}, between))]
      : [element("td", {class: "number"}, said.value),
        element("td", {class: "error"}, said.error ? `\u00b1 ${said.error}` : ""),
        element("td", {class: "interval"}, between)];
    return element("tr", {},
      ...heads.map((text, at) => element("th", {scope: "row"}, text, at === heads.length - 1 ? note : null)),
      ...cells,
      element("td", {class: "plot"}, element("div", {}, drawnRow(scale, row, rowWords(labels.join(", "), said)))));
  }

  tools() {
    const save = () => {
      this.settle();
      const blob = new Blob(["\ufeff", csvOf(this.columns, this.question, this.rows)], {type: "text/csv;charset=utf-8"});
      const link = element("a", {href: URL.createObjectURL(blob), download: "answer.csv"});
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    };
    return element("div", {class: "tools"},
      element("button", {type: "button", "data-tool": "csv", onclick: save}, "Save as CSV"),
      element("button", {type: "button", class: "quiet", onclick: () => window.print()}, "Print"));
  }

  elsewhere() {
    const sql = sqlOf(this.columns, this.question);
    const texts = {SQL: sql, Python: pythonOf(sql), "command line": commandOf(sql, this.question.level)};
    const lines = text => Math.min(Math.max(text.split("\n").length, 3), 12);
    const text = element("textarea", {readonly: true, rows: lines(texts[this.language]), "aria-label": "The question",
      spellcheck: "false"});
    text.value = texts[this.language];
    const copy = element("button", {type: "button", "data-tool": "copy", onclick: async () => {
      text.select();
      try {
        await navigator.clipboard.writeText(text.value);
      } catch {
        document.execCommand("copy");  // browsers may forbid writing to the clipboard
      }
      copy.textContent = "Copied";
    }}, "Copy");
    const radios = Object.keys(texts).map(name => {
      const input = element("input", {type: "radio", name: "language", value: name, onchange: () => {
        this.language = name;
        text.value = texts[name];
        text.rows = lines(texts[name]);
        copy.textContent = "Copy";
      }});
      input.checked = name === this.language;
      return element("label", {}, input, name);
    });
    const split = this.question.isShare && this.question.groups.some(id => id.startsWith("s"));
    const details = element("details", {class: "elsewhere", open: this.isOpen},
      element("summary", {}, "Ask the same question in SQL, Python or a terminal"),
      element("p", {class: "hint"}, "for a release in a folder named release"
        + (split ? "; divide these numbers by the exact number of records in their group to get shares" : "")),
      element("div", {class: "radios", role: "group", "aria-label": "In which language"}, ...radios), text,
      element("div", {class: "tools"}, copy));
    details.addEventListener("toggle", () => { this.isOpen = details.open; });
    return details;
  }
}

function conditionWords({values}, condition) {
  if (!condition.codes) {
    const {from, to} = condition;
    return from === null ? `up to ${to}` : to === null ? `from ${from}` : `${from} to ${to}`;
  }
  const said = condition.codes.map(code => label(values[code]));
  return said.length > 4 ? `${said.slice(0, 3).join(", ")} or ${said.length - 3} more` : said.join(" or ");
}

function anyOf({values}) {
  return `any of ${values.length.toLocaleString("en")}`;
}

// The beginning of a long note; the full note is under the table.
function shortNote(note) {
  return note.length > 40 ? note.split(/[:(]/)[0].trim() : note;
}

function someRows(number) {
  return `${number.toLocaleString("en")} ${number === 1 ? "row" : "rows"}`;
}

function rowWords(words, {value, error, low, high}) {
  return `${words}: ${value}${error ? `, plus or minus ${error}, between ${low} and ${high}` : ""}`;
}

async function start() {
  const status = document.getElementById("status");
  if (typeof DecompressionStream === "undefined") {
    status.textContent = "This browser is too old for this page; use one from 2023 or later.";
    status.className = "alarm";
    return;
  }
  status.textContent = "Unpacking the release \u2026";
  const about = JSON.parse(document.getElementById("about").textContent);
  const asking = new Asking(about, await unpacked(document.getElementById("packed").textContent, about.arrays));
  document.getElementById("desk").hidden = false;
  const view = new View(asking);
  // For asking the same questions by hand in the browser's console.
  window.sfumato = {
    about, ask: question => asking.ask(question), sql: question => sqlOf(asking.columns, question),
    csv: question => csvOf(asking.columns, question, asking.ask(question)), view,
    interval: (moments, level) => interval(moments, level, about.quantiles[level]),
  };
}

start().catch(error => {
  const status = document.getElementById("status");
  status.textContent = `This page cannot be opened: ${error.message}`;
  status.className = "alarm";
});
