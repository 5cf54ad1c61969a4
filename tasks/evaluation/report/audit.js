// The audit: one trajectory at a time, a verdict each, saved as the sheet with its last two columns filled in.

const VERDICTS = ["ok", "hack"];
const TURNING = ["j", "ArrowRight", "k", "ArrowLeft"];
const SHOWN = {
  all: () => true,
  flagged: (row) => row.run.flags.length > 0,
  unticked: (row) => row.verdict === "",
  hacks: (row) => row.verdict === "hack",
};

class Audit {
  constructor(data, place) {
    this.data = data;
    this.name = data.sheet.rows[0][0];
    this.kept = storage();
    const before = JSON.parse(this.kept?.getItem(this.name) ?? '{"saved": true, "rows": []}');
    this.rows = data.runs.map((run, n) => ({ run, cells: data.sheet.rows[n], verdict: before.rows[n]?.[0] ?? "", note: before.rows[n]?.[1] ?? "" }));
    this.row = this.rows[0];
    this.saved = before.saved;
    this.count = el("p", "count");
    this.count.setAttribute("role", "status");
    this.bar = el("progress");
    this.bar.max = this.rows.length;
    this.bar.setAttribute("aria-label", "judged");
    this.which = el("select", "", ...Object.keys(SHOWN).map((name) => new Option(name, name)));
    this.which.addEventListener("change", () => this.draw());
    this.which.setAttribute("aria-label", "rows shown");
    this.list = el("div", "matches");
    this.shown = el("article", "card shown");
    this.note = el("textarea");
    this.note.rows = 2;
    this.note.placeholder = "note";
    this.note.setAttribute("aria-label", "note");
    this.note.addEventListener("input", () => this.keep(this.row, this.row.verdict, this.note.value));
    this.buttons = VERDICTS.map((verdict) => button(verdict, () => this.judge(verdict), `verdict ${verdict}`));
    place.replaceChildren(
      el("div", "bar", this.count, this.bar, el("div", "turning", this.which, button("← previous", () => this.go(-1)), button("next →", () => this.go(1)), button("save csv", () => this.save(), "save"))),
      el("div", "panes", this.list, el("div", "", el("div", "judging", ...this.buttons, this.note), this.shown)),
    );
    this.draw();
  }

  listed() {
    return this.rows.filter(SHOWN[this.which.value]);
  }

  go(step) {
    const listed = this.listed();
    const at = listed.indexOf(this.row);
    // A row that has left the list by its verdict is followed by the next that is still in it.
    const after = at >= 0 ? listed[at + step] : step > 0 ? listed.find((row) => this.rows.indexOf(row) > this.rows.indexOf(this.row)) : listed.findLast((row) => this.rows.indexOf(row) < this.rows.indexOf(this.row));
    if (after) this.show(after);
  }

  show(row) {
    this.row = row;
    this.draw();
  }

  judge(verdict) {
    this.keep(this.row, verdict, this.row.note);
    if (verdict) this.go(1);
  }

  keep(row, verdict, note) {
    row.verdict = verdict;
    row.note = note;
    this.remember(false);
  }

  remember(saved) {
    this.saved = saved;
    try {
      this.kept?.setItem(this.name, JSON.stringify({ saved, rows: this.rows.map((one) => [one.verdict, one.note]) }));
    } catch {
      this.kept = null; // full: like a browser that has no storage
    }
    this.drawProgress();
  }

  drawProgress() {
    const ticked = this.rows.filter((row) => row.verdict !== "").length;
    const hacks = this.rows.filter((row) => row.verdict === "hack").length;
    this.bar.value = ticked;
    this.count.textContent = `${ticked} of ${this.rows.length} judged, ${counted(hacks, "hack")}${this.saved ? "" : ", not saved yet"}`;
    const listed = this.listed();
    const from = Math.floor(Math.max(0, listed.indexOf(this.row)) / PAGE) * PAGE;
    fillList(this.list, listed.length ? listed.slice(from, from + PAGE).map((row) => this.line(row)) : [el("small", "", "no such row")]);
    this.buttons.forEach((one, n) => one.setAttribute("aria-pressed", String(this.row.verdict === VERDICTS[n])));
  }

  draw() {
    this.shown.replaceChildren(...drawRun(this.row.run, this.data));
    this.note.value = this.row.note;
    this.drawProgress();
  }

  line(row) {
    const line = button("", () => this.show(row), "line");
    const mark = { ok: "✓", hack: "✗", "": "·" }[row.verdict];
    line.append(
      el("b", row.verdict === "hack" ? "bad" : "good", mark),
      el("span", "", `${row.cells[1]}. ${this.data.questions[row.run.question].text}`),
      el("small", "", [`reward ${row.run.reward}`, ...row.run.flags.map((name) => `⚑ ${name.replaceAll("_", " ")}`)].join(" · ")),
    );
    if (row === this.row) line.setAttribute("aria-current", "true");
    return line;
  }

  // The sheet as it came, verdicts and notes filled in.
  csv() {
    const rows = this.rows.map((row) => [...row.cells.slice(0, -2), row.verdict, plainCell(row.note)]);
    return "\ufeff" + [this.data.sheet.columns, ...rows].map((cells) => cells.map(quoted).join(",") + "\r\n").join("");
  }

  save() {
    const link = el("a");
    link.href = URL.createObjectURL(new Blob([this.csv()], { type: "text/csv;charset=utf-8" }));
    link.download = `audit-${this.name.replace("sheet-", "")}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    this.remember(true);
  }
}

// No spreadsheet takes it for a formula.
function plainCell(text) {
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
}

function quoted(cell) {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

// Some browsers give pages that are files no storage: then verdicts last as long as the page is open.
function storage() {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}

unpack().then((data) => {
  const audit = new Audit(data, document.getElementById("audit"));
  window.addEventListener("beforeunload", (event) => {
    if (!audit.saved && !audit.kept) event.preventDefault();
  });
  const keys = {
    o: () => audit.judge("ok"), h: () => audit.judge("hack"), u: () => audit.judge(""), n: () => audit.note.focus(), s: () => audit.save(),
    j: () => audit.go(1), ArrowRight: () => audit.go(1), k: () => audit.go(-1), ArrowLeft: () => audit.go(-1),
  };
  document.addEventListener("keydown", (event) => {
    if (event.target === audit.note && event.key === "Escape") audit.note.blur();
    if (!isFree(event) || !Object.hasOwn(keys, event.key)) return;
    // A key that is held down turns pages, but judges one row.
    if (!event.repeat || TURNING.includes(event.key)) keys[event.key]();
    event.preventDefault();
  });
});
