// Asks for the runs every two seconds and draws them.

import { chart } from "./chart.js";

const EVERY = 2000; // milliseconds
const MOST_SHOWN = 6; // runs that are drawn at first
const COLOURS = ["#0d9488", "#d97706", "#7c3aed", "#2563eb", "#db2777", "#65a30d", "#0891b2", "#dc2626"];

const find = (id) => document.getElementById(id);
const colours = new Map(); // run → colour, in the order in which they were first seen
const chosen = new Map(); // run → whether it is drawn
let drawn = "";

function make(tag, options = {}, ...children) {
  const element = Object.assign(document.createElement(tag), options);
  element.append(...children);
  return element;
}

function ago(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} days ago`;
}

function entry(run) {
  const box = make("input", { type: "checkbox", checked: chosen.get(run.name) });
  box.addEventListener("change", () => { chosen.set(run.name, box.checked); draw(latest, true); });
  const swatch = make("i");
  swatch.style.setProperty("background", colours.get(run.name));
  const state = run.finished ? "finished" : `step ${run.step.toLocaleString("en")}, ${ago(Date.now() / 1000 - run.changed)}`;
  const best = run.best === null ? "" : `best ${run.best.toFixed(3)}`;
  return make("li", {}, make("label", {}, box, swatch, make("span", { className: "name", textContent: run.name }),
    make("span", { className: "quiet", textContent: [state, best].filter(Boolean).join(" · ") })));
}

/** The charts of every task of the chosen runs. */
function charts(runs) {
  const tasks = [...new Set(runs.flatMap((run) => [...Object.keys(run.metrics), ...Object.keys(run.losses)]))];
  return tasks.map((task) => {
    const series = (key) => runs.filter((run) => run[key][task])
      .map((run) => ({ name: run.name, colour: colours.get(run.name), points: run[key][task] }));
    const metric = runs.map((run) => run.metrics[task]).find(Boolean) ?? "score";
    return make("section", {}, make("h2", { textContent: task }),
      make("div", { className: "pair" }, chart(`dev ${metric}`, series("scores")), chart("loss", series("losses"))));
  });
}

let latest = [];

function draw(runs, again = false) {
  latest = runs;
  for (const run of runs) {
    if (!colours.has(run.name)) colours.set(run.name, COLOURS[colours.size % COLOURS.length]);
    if (!chosen.has(run.name)) chosen.set(run.name, [...chosen.values()].filter(Boolean).length < MOST_SHOWN);
  }
  const trains = runs.filter((run) => !run.finished).length;
  find("status").textContent = runs.length
    ? `${runs.length} ${runs.length === 1 ? "run" : "runs"}, ${trains} not finished`
    : "No runs here yet; start one with plait train.";
  if (!find("runs").contains(document.activeElement) || again) find("runs").replaceChildren(...runs.map(entry));
  const shown = runs.filter((run) => chosen.get(run.name));
  const content = JSON.stringify(shown.map(({ changed, ...rest }) => rest));
  if (content === drawn) return; // a chart that did not change keeps its pointer
  drawn = content;
  find("charts").replaceChildren(...charts(shown));
}

async function refresh() {
  try {
    const response = await fetch("runs.json");
    if (response.ok) draw((await response.json()).runs);
  } catch {
    find("status").textContent = "plait watch does not answer; is it still running?";
  }
  setTimeout(refresh, EVERY);
}

refresh();
