// A csv file in, the same with predictions out.

import { post } from "./api.js";
import { certainty, headline } from "./answers.js";
import { format, parse } from "./csv.js";
import { choices, find, make } from "./dom.js";

const CHUNK = 256; // rows per request
const SHOWN = 20; // rows in the preview
const state = { model: null, name: "", header: [], rows: [], stop: new AbortController() };

export function prepareFile(model) {
  state.model = model;
  const boxes = Object.entries(model.tasks).filter(([, task]) => task.texts < 3).map(([name]) =>
    make("label", {}, make("input", { type: "checkbox", name: "task", value: name, checked: true }), ` ${name}`));
  find("file-tasks").replaceChildren(find("file-tasks").querySelector("legend"), ...boxes);
  showPair();
}

const chosen = () => [...find("file-tasks").querySelectorAll("input:checked")].map((box) => box.value);

function showPair() {
  find("file-pair").hidden = !chosen().some((name) => state.model.tasks[name].texts === 2);
}

/** The column that looks most like text: the longest on average. */
function textColumns() {
  const length = (column) => state.rows.slice(0, 100).reduce((sum, row) => sum + row[column].length, 0);
  return state.header.map((_, column) => column).sort((one, other) => length(other) - length(one));
}

async function open(file) {
  if (!file) return;
  try {
    Object.assign(state, { name: file.name, ...parse(await file.text()) });
  } catch (error) {
    find("file-form").hidden = true;
    find("file-status").textContent = `${file.name}: ${error.message}`;
    return;
  }
  const columns = state.header.map((name, index) => [String(index), name]);
  const [first, second] = textColumns();
  choices(find("file-first"), columns);
  choices(find("file-second"), columns);
  const [one, other] = second === undefined ? [first, first] : [Math.min(first, second), Math.max(first, second)];
  const pair = chosen().some((name) => state.model.tasks[name].texts === 2);
  find("file-first").value = String(pair ? one : first);
  find("file-second").value = String(pair ? other : first);
  find("file-form").hidden = false;
  find("file-download").hidden = true;
  find("file-status").textContent = `${file.name}: ${state.rows.length.toLocaleString()} rows`;
  preview([], state.rows.map(() => []));
}

function preview(headings, added) {
  const cell = (tag, text, isNew) => make(tag, { textContent: text, title: text, className: isNew ? "new" : "" });
  const line = (tag, own, extra) => make("tr", {}, ...own.map((text) => cell(tag, text, false)), ...extra.map((text) => cell(tag, text, true)));
  const body = state.rows.slice(0, SHOWN).map((row, index) => line("td", row, added[index] ?? []));
  find("file-preview").replaceChildren(make("table", { className: "rows", "aria-label": "The first rows" },
    make("thead", {}, line("th", state.header, headings)), make("tbody", {}, ...body)));
}

async function predict(event) {
  event.preventDefault();
  state.stop.abort();
  state.stop = new AbortController();
  const { signal } = state.stop;
  const tasks = chosen();
  const first = Number(find("file-first").value), second = Number(find("file-second").value);
  const headings = tasks.flatMap((name) => (state.model.tasks[name].kind === "score" ? [`${name} prediction`] : [`${name} prediction`, `${name} probability`]));
  const added = state.rows.map(() => []);
  const bar = find("file-progress");
  Object.assign(bar, { hidden: false, max: state.rows.length * tasks.length, value: 0 });
  for (const name of tasks) {
    const task = state.model.tasks[name];
    for (let start = 0; start < state.rows.length; start += CHUNK) {
      const rows = state.rows.slice(start, start + CHUNK);
      const body = task.texts === 2 ? { pairs: rows.map((row) => [row[first], row[second]]) } : { texts: rows.map((row) => row[first]) };
      const { predictions } = await post(`predict/${name}`, body, { signal, show: false });
      predictions.forEach((answer, index) => added[start + index].push(...cells(task, answer)));
      bar.value += rows.length;
    }
  }
  bar.hidden = true;
  preview(headings, added);
  const text = format([[...state.header, ...headings], ...state.rows.map((row, index) => [...row, ...added[index]])]);
  const link = find("file-download");
  URL.revokeObjectURL(link.href);
  Object.assign(link, { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), hidden: false,
    download: state.name.replace(/(\.\w+)?$/, "-predictions.csv") });
  find("file-status").textContent = `${state.name}: ${state.rows.length.toLocaleString()} rows predicted`;
}

function cells(task, answer) {
  if (task.kind === "score") return [answer.score.toFixed(4)];
  return [headline(task, answer), certainty(answer)?.toFixed(4) ?? ""];
}

export function listen(report) {
  const drop = find("file-drop");
  find("file-input").addEventListener("change", (event) => open(event.target.files[0]));
  drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => { event.preventDefault(); drop.classList.remove("over"); open(event.dataTransfer.files[0]); });
  find("file-tasks").addEventListener("change", showPair);
  find("file-form").addEventListener("submit", (event) => predict(event).catch(report));
}
