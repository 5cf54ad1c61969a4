"use strict";
// What the report and the audit share: unpacking the trajectories, and drawing one of them.
// Texts of models and corpora only ever become text nodes; nothing here parses HTML.

const PAGE = 20; // lines of a list that are drawn at a time
const KINDS = { generated: "the model", observation: "tools", notice: "the system", user: "a user" };

async function unpack() {
  const packed = document.getElementById("packed").textContent.trim();
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

function el(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children.filter((child) => child !== null));
  return element;
}

function button(text, action, name = "") {
  const element = el("button", name, text);
  element.type = "button";
  element.addEventListener("click", action);
  return element;
}

function counted(number, one, more = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : more}`;
}

function verdictOf(run) {
  return el("b", `badge ${run.right ? "good" : "bad"}`, run.right ? "right" : "wrong");
}

// Queries and what each brought, a gold passage starred; then the answer.
function pathOf(run, question) {
  const gold = new Set(question.gold);
  const steps = run.calls.map(([tool, asked, failure, passages]) => {
    const brought = (passages ?? []).map((id) => {
      const passage = el("span", gold.has(id) ? "passage hit" : "passage", gold.has(id) ? `★ ${id}` : id);
      passage.title = gold.has(id) ? "a gold passage" : "not a gold passage";
      return passage;
    });
    return el(
      "li", "",
      el("span", "query", tool === "search" ? asked : `${tool}: ${asked}`),
      failure === null ? null : el("small", "bad", ` ${failure}`),
      ...(passages === null ? [] : [" → ", ...(brought.length ? brought : [el("small", "", "nothing found")])]),
    );
  });
  const answer = run.answer === null ? el("small", "", "no answer") : el("b", `answer ${run.right ? "good" : "bad"}`, run.answer);
  const cited = run.cited.length
    ? el("small", "", ` · cites ${run.cited.map((id) => id ?? "a passage never shown").join(", ")}`) : null;
  const facts = run.facts ? el("small", "", ` · ${counted(run.facts, "fact")}`) : null;
  return el("ol", "steps", ...steps, el("li", "", answer, cited, facts));
}

function segmentOf([kind, tokens, pieces], right) {
  const parts = pieces.map(([part, text]) => {
    if (part === "plain") return text;
    if (part === "gold") return el("mark", "", text);
    return el("span", part === "answer" ? `answer ${right ? "good" : "bad"}` : part, text);
  });
  const segment = el("div", `segment ${kind}`, ...parts);
  segment.title = `${counted(tokens, "token")} by ${KINDS[kind]}`;
  return segment;
}

function rewardOf(run) {
  const parts = Object.entries(run.parts).map(([name, value]) => `${name} ${value}`);
  return `reward ${run.reward}${parts.length > 1 ? ` (${parts.join(", ")})` : ""}`;
}

function headOf(run, question, data) {
  const found = run.found === null ? null : `${run.found} of ${counted(question.gold.length, "gold passage")} found`;
  const facts = [
    question.source, counted(question.hops, "hop"), question.type, rewardOf(run), `F1 ${run.f1.toFixed(2)}`,
    counted(run.searches, "search", "searches"), counted(run.turns, "turn"), found, counted(run.tokens, "token"),
    `ended by ${run.stop}`,
  ].filter((fact) => fact !== null);
  const flags = run.flags.map((name) => {
    const flag = el("span", "flag", name.replaceAll("_", " "));
    flag.title = data.flags[name];
    return flag;
  });
  return el(
    "header", "",
    el("h3", "", question.text),
    el("span", "", el("b", "", data.models[run.model]), " ", verdictOf(run)),
    el("span", "", "golden: ", ...question.golden.flatMap((answer) => [el("mark", "", answer), " "])),
    ...facts.map((fact) => el("span", "", fact)),
    ...flags,
  );
}

function drawRun(run, data) {
  const question = data.questions[run.question];
  return [headOf(run, question, data), pathOf(run, question), ...run.segments.map((one) => segmentOf(one, run.right))];
}

// Draws a list's lines and brings the current one into the list's sight, without moving the page.
function fillList(list, lines) {
  list.replaceChildren(...lines);
  const current = lines.find((line) => line.ariaCurrent === "true");
  if (current) list.scrollTop = current.offsetTop - (list.clientHeight - current.offsetHeight) / 2;
}

// Whether a key belongs to the page: not to a field that is being typed in, nor to the browser.
function isFree(event) {
  return !event.ctrlKey && !event.metaKey && !event.altKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
}
