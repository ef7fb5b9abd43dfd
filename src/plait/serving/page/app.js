// The page: model, tabs, colours, and when to ask the server.

import { findToken, get, getModel, setModel } from "./api.js";
import { choices, find, later } from "./dom.js";
import { listen, prepareFile } from "./file.js";
import { ask, compare, map, nearest } from "./panels.js";

const EXAMPLES = {
  "ask-first": "The battery lasts two days and charging takes minutes.",
  "compare-texts": "How do I reset my password?\nI forgot my login, what now?\nWhere can I change my address?\nThe parcel arrived broken.",
  "nearest-query": "My package is damaged",
  "nearest-texts": "The parcel arrived broken.\nHow do I reset my password?\nWhen will my order arrive?\nThe box was crushed and wet.\nPlease cancel my subscription.",
  "map-texts": "I love this phone.\nThis phone is wonderful.\nThe worst phone I ever had.\nIt broke after a day.\nThe soup was cold.\nA delicious dinner.\nThe waiter was rude.\nWe will eat here again.",
};
const panels = { ask, compare, nearest, map };
let model = null;
let pending = new AbortController();

function report(error) {
  if (error.name === "AbortError") return;
  const place = find("problem");
  place.textContent = error instanceof TypeError ? "The server does not answer." : error.message;
  place.hidden = false;
}

const current = () => document.querySelector('[role="tab"][aria-selected="true"]').getAttribute("aria-controls");

/** Ask the server about what the open panel holds; an earlier question is dropped. */
async function refresh() {
  pending.abort();
  pending = new AbortController();
  const panel = panels[current()];
  find("calls").hidden = !panel;
  if (!model || !panel) return;
  try {
    await panel.run(model, pending.signal, report);
    find("problem").hidden = true;
  } catch (error) {
    report(error);
  }
}

async function choose(name, several) {
  setModel(name, several);
  model = await getModel("model");
  const tasks = Object.keys(model.tasks).length;
  find("about").textContent = `${tasks} ${tasks === 1 ? "task" : "tasks"} · ${model.dimensions} dimensions`;
  for (const panel of Object.values(panels)) panel.prepare(model);
  prepareFile(model);
  await refresh();
}

function open(tab) {
  for (const one of document.querySelectorAll('[role="tab"]')) {
    one.setAttribute("aria-selected", String(one === tab));
    one.tabIndex = one === tab ? 0 : -1;
    find(one.getAttribute("aria-controls")).hidden = one !== tab;
  }
  history.replaceState(null, "", `#${tab.getAttribute("aria-controls")}`);
  refresh();
}

function listenToTabs() {
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => open(tab));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      const next = tabs[(to + tabs.length) % tabs.length];
      next.focus();
      open(next);
    });
  });
  open(tabs.find((tab) => `#${tab.getAttribute("aria-controls")}` === location.hash) ?? tabs[0]);
}

function listenToTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const theme = localStorage.getItem("plait-theme") ?? (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    find("theme").setAttribute("aria-pressed", String(theme === "dark"));
  };
  dark.addEventListener("change", apply);
  find("theme").addEventListener("click", () => {
    localStorage.setItem("plait-theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    apply();
  });
  apply();
}

function listenToCopies() {
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(find(button.dataset.copies).textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}

async function start() {
  listenToTheme();
  for (const [id, text] of Object.entries(EXAMPLES)) find(id).value = text;
  for (const field of document.querySelectorAll("main textarea")) field.addEventListener("input", later(refresh));
  for (const select of document.querySelectorAll("main section:not(#file) select")) select.addEventListener("change", refresh);
  listen(report);
  listenToCopies();
  listenToTabs();
  await findToken();
  const models = (await get("v1/models")).data.map((one) => one.id);
  choices(find("model"), models.map((name) => [name, name]));
  find("model").addEventListener("change", (event) => choose(event.target.value, models.length > 1).catch(report));
  await choose(models[0], models.length > 1);
}

start().catch(report);
