// The report's viewer: filters, a list of matches, one trajectory at a time.

const FILTERS = [
  { name: "model", label: "Model", of: (run) => [run.model], text: (value, data) => data.models[value], order: (data) => Object.keys(data.models) },
  { name: "outcome", label: "Outcome", of: (run) => [run.right ? "right" : "wrong"] },
  { name: "searches", label: "Searches", of: (run) => [run.searches] },
  { name: "source", label: "Source", of: (run, question) => [question.source] },
  { name: "hops", label: "Hops", of: (run, question) => [question.hops] },
  { name: "type", label: "Type", of: (run, question) => [question.type ?? "none"] },
  { name: "stop", label: "Ended by", of: (run) => [run.stop] },
  {
    name: "found", label: "Gold passages",
    of: (run, question) => [run.found === null ? "unknown" : run.found === question.gold.length ? "all found" : run.found ? "some found" : "none found"],
  },
  { name: "flag", label: "Flag", of: (run) => (run.flags.length ? run.flags : ["no flag"]), text: (value) => value.replaceAll("_", " ") },
];

class Viewer {
  constructor(data, place) {
    this.data = data;
    this.texts = new Map(); // what is searched in, by run; made when first searched
    this.matches = data.runs;
    this.at = 0;
    this.run = data.runs[0];
    this.search = this.field("search", "Search");
    this.search.placeholder = "question, answer or text";
    this.low = this.field("number", "Reward from");
    this.high = this.field("number", "to");
    this.low.step = this.high.step = "any";
    this.selects = FILTERS.map((filter) => this.select(filter));
    this.count = el("p", "count");
    this.count.setAttribute("role", "status");
    this.list = el("div", "matches");
    this.shown = el("article", "card shown");
    const rewards = new Set(data.runs.map((run) => run.reward));
    this.low.placeholder = Math.min(...rewards);
    this.high.placeholder = Math.max(...rewards);
    const fields = [this.search, ...this.selects.filter((select) => select.options.length > 2), ...(rewards.size > 1 ? [this.low, this.high] : [])];
    const steps = el("div", "turning", button("← previous", () => this.go(-1)), button("next →", () => this.go(1)), button("clear filters", () => this.clear()));
    place.replaceChildren(
      el("div", "filters", ...fields.map((field) => field.parentElement)),
      el("div", "bar", this.count, steps),
      el("div", "panes", this.list, this.shown),
    );
    this.place = place;
  }

  field(type, label) {
    const input = el("input");
    input.type = type;
    input.addEventListener("input", () => this.apply());
    el("label", type === "search" ? "wide-field" : "", el("span", "", label), input);
    return input;
  }

  select(filter) {
    const counts = new Map();
    for (const run of this.data.runs)
      for (const value of filter.of(run, this.questionOf(run))) counts.set(value, (counts.get(value) ?? 0) + 1);
    const order = filter.order?.(this.data) ?? [];
    const values = [...counts.keys()].sort((a, b) => order.indexOf(a) - order.indexOf(b) || (typeof a === "number" ? a - b : a.localeCompare(b)));
    const select = el("select", "", new Option("all", ""));
    for (const value of values) select.append(new Option(`${filter.text?.(value, this.data) ?? value} (${counts.get(value)})`, String(value)));
    select.name = filter.name;
    select.addEventListener("change", () => this.apply());
    el("label", "", el("span", "", filter.label), select);
    return select;
  }

  questionOf(run) {
    return this.data.questions[run.question];
  }

  textOf(run) {
    if (!this.texts.has(run)) {
      const question = this.questionOf(run);
      const said = run.segments.map(([, , pieces]) => pieces.map(([, text]) => text).join("")).join("\n");
      this.texts.set(run, [question.id, question.text, ...question.golden, run.answer ?? "", said].join("\n").toLowerCase());
    }
    return this.texts.get(run);
  }

  words() {
    return this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  }

  apply() {
    const words = this.words();
    const low = this.low.value === "" ? -Infinity : Number(this.low.value);
    const high = this.high.value === "" ? Infinity : Number(this.high.value);
    this.matches = this.data.runs.filter((run) => {
      const fits = (filter, n) => this.selects[n].value === "" || filter.of(run, this.questionOf(run)).map(String).includes(this.selects[n].value);
      return run.reward >= low && run.reward <= high && FILTERS.every(fits) && words.every((word) => this.textOf(run).includes(word));
    });
    this.at = Math.max(0, this.matches.indexOf(this.run));
    this.run = this.matches[this.at] ?? null;
    this.draw();
  }

  clear() {
    for (const field of [this.search, this.low, this.high, ...this.selects]) field.value = "";
    this.apply();
  }

  go(step) {
    if (!this.matches.length) return;
    // A run beside the matches (another model's, a link's) is left for the match that was looked at before.
    const inside = this.matches[this.at] === this.run;
    this.at = Math.min(this.matches.length - 1, Math.max(0, this.at + (inside ? step : 0)));
    this.show(this.matches[this.at]);
  }

  show(run) {
    this.run = run;
    const at = this.matches.indexOf(run);
    if (at >= 0) this.at = at;
    this.draw();
    const key = `#${encodeURIComponent(this.questionOf(run).id)}/${encodeURIComponent(run.model)}`;
    history.replaceState(null, "", key);
  }

  // The run that the address names: a question's id, or its id and a model's.
  follow() {
    const address = location.hash.slice(1);
    if (address === "" || document.getElementById(address)) return;
    const parts = address.split("/").map(decoded);
    const whole = decoded(address);
    const run =
      this.data.runs.find((one) => this.questionOf(one).id === whole) ??
      this.data.runs.find((one) => this.questionOf(one).id === parts[0] && (parts.length < 2 || one.model === parts[1]));
    if (run) this.show(run);
    else this.count.textContent = `${whole} is not among the trajectories of this page.`;
    this.place.scrollIntoView();
  }

  draw() {
    const outside = this.matches[this.at] !== this.run;
    this.count.textContent = this.matches.length
      ? `${outside ? "" : `${this.at + 1} of `}${counted(this.matches.length, "match", "matches")}, ${counted(this.data.runs.length, "trajectory", "trajectories")} in this page`
      : "No trajectory matches.";
    const from = Math.floor(this.at / PAGE) * PAGE;
    fillList(this.list, this.matches.slice(from, from + PAGE).map((run) => this.line(run)));
    this.shown.hidden = this.run === null;
    if (this.run) this.shown.replaceChildren(this.others(), ...drawRun(this.run, this.data));
    this.highlight();
  }

  line(run) {
    const line = button("", () => this.show(run), "line");
    line.append(
      el("b", run.right ? "good" : "bad", run.right ? "✓" : "✗"),
      el("span", "", this.questionOf(run).text),
      el("small", "", `${this.data.models[run.model]} · ${counted(run.searches, "search", "searches")}${run.flags.length ? " · ⚑" : ""}`),
    );
    if (run === this.run) line.setAttribute("aria-current", "true");
    return line;
  }

  // All models' runs of the question that is shown.
  others() {
    const runs = this.data.runs.filter((run) => run.question === this.run.question).reverse();
    return el("div", "others", el("small", "", this.questionOf(this.run).id), ...runs.map((run) => {
      const other = button(`${this.data.models[run.model]} ${run.right ? "✓" : "✗"}`, () => this.show(run));
      if (run === this.run) other.setAttribute("aria-current", "true");
      return other;
    }));
  }

  highlight() {
    if (!CSS.highlights) return; // an older browser finds all the same
    const ranges = [];
    const nodes = document.createTreeWalker(this.shown, NodeFilter.SHOW_TEXT);
    for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
      const text = node.data.toLowerCase();
      if (text.length !== node.data.length) continue; // lower case moved the places
      for (const word of this.words())
        for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, at + word.length);
          ranges.push(range);
        }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone per cent sign: a question's id as it is
  }
}

unpack().then((data) => {
  const viewer = new Viewer(data, document.getElementById("viewer"));
  viewer.draw();
  viewer.follow();
  window.addEventListener("hashchange", () => viewer.follow());
  document.addEventListener("keydown", (event) => {
    if (event.target === viewer.search && event.key === "Escape") {
      event.preventDefault(); // a browser would empty the box
      viewer.search.blur();
    }
    if (!isFree(event)) return;
    if (event.key === "ArrowRight" || event.key === "j") viewer.go(1);
    else if (event.key === "ArrowLeft" || event.key === "k") viewer.go(-1);
    else if (event.key === "/") viewer.search.focus();
    else return;
    event.preventDefault();
  });
});
