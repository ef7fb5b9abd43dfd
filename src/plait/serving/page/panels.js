// What the page does with sentences: ask, compare, find the nearest, draw a map.

import { post } from "./api.js";
import { bar, card, headline } from "./answers.js";
import { choices, find, hue, linesOf, make } from "./dom.js";
import { project } from "./project.js";

const MOST_COMPARED = 40;
const SIZE = { width: 900, height: 480, margin: 40 };
const MOST_NAMED = 30; // points with their text beside them
const LONGEST_NAME = 32; // characters
const LETTER = 7.5, LINE = 18; // the size of a character in the map

const tasksOf = (model, texts) => Object.entries(model.tasks).filter(([, task]) => task.texts === texts);
const order = (model, name) => Object.keys(model.tasks).indexOf(name);
const scorers = (model) => tasksOf(model, 2).filter(([, task]) => ["score", "yes_no"].includes(task.kind));
const byCosine = ["", "cosine of the embeddings"];

/** A task's answer to a pair as one number from 0 to 1. */
function share(task, answer) {
  if (task.kind === "yes_no") return answer.probabilities?.yes ?? answer.score ?? 0;
  const [low, high] = task.range ?? [0, 1];
  return (answer.score - low) / (high - low);
}

export const ask = {
  prepare(model) {
    find("ask-pair").hidden = tasksOf(model, 2).length === 0;
  },
  async run(model, signal, fail) {
    const first = find("ask-first").value.trim();
    const second = find("ask-second").value.trim();
    const place = find("ask-answers");
    if (!first) return place.replaceChildren();
    for (const one of place.children) one.classList.add("stale");
    const singles = tasksOf(model, 1);
    const pairs = second ? tasksOf(model, 2) : [];
    const [analyzed, ...paired] = await Promise.all([
      singles.length ? post("analyze", { texts: [first], embedding: false }, { signal }) : null,
      ...pairs.map(([name]) => post(`predict/${name}`, { pairs: [[first, second]] }, { signal, show: !singles.length })),
    ]);
    const found = { ...analyzed?.results[0].tasks };
    pairs.forEach(([name], index) => { found[name] = paired[index].predictions[0]; });
    const cards = Object.keys(model.tasks).filter((name) => found[name])
      .map((name) => {
        const example = model.tasks[name].texts === 1 ? first : [first, second];
        const explain = () => post(`explain/${name}`, { example }, { signal })
          .then((answer) => answer.explanation).catch((error) => fail(error));
        return card(name, model.tasks[name], found[name], order(model, name), explain);
      });
    place.replaceChildren(...cards);
    if (!second && tasksOf(model, 2).length) {
      const names = tasksOf(model, 2).map(([name]) => name).join(", ");
      place.append(make("p", { className: "quiet", textContent: `A second text is compared with the first: ${names}.` }));
    }
  },
};

export const compare = {
  prepare(model) {
    choices(find("compare-by"), [byCosine, ...scorers(model).map(([name]) => [name, name])]);
  },
  async run(model, signal) {
    const texts = linesOf(find("compare-texts")).slice(0, MOST_COMPARED);
    const place = find("compare-answer");
    if (texts.length < 2) return place.replaceChildren(make("p", { className: "quiet", textContent: "Two sentences or more." }));
    const name = find("compare-by").value;
    const task = model.tasks[name];
    const cells = task ? await pairCells(name, task, texts, signal) : await cosineCells(texts, signal);
    place.replaceChildren(heatMap(texts, cells, name || "cosine"));
  },
};

async function cosineCells(texts, signal) {
  const { similarities } = await post("similarity", { first: texts }, { signal });
  return similarities.map((row) => row.map((value) => ({ share: value, text: value.toFixed(2) })));
}

async function pairCells(name, task, texts, signal) {
  const pairs = texts.flatMap((one) => texts.map((other) => [one, other]));
  const { predictions } = await post(`predict/${name}`, { pairs }, { signal });
  const cells = predictions.map((answer) => ({
    share: share(task, answer), text: task.kind === "score" ? answer.score.toFixed(1) : share(task, answer).toFixed(2),
  }));
  return texts.map((_, row) => cells.slice(row * texts.length, (row + 1) * texts.length));
}

function heatMap(texts, cells, name) {
  const head = texts.map((text, index) => make("th", { scope: "col", textContent: index + 1, title: text }));
  const body = cells.map((row, index) => make("tr", {},
    make("th", { scope: "row", textContent: `${index + 1}. ${texts[index]}`, title: texts[index] }),
    ...row.map((cell) => heatCell(cell))));
  return make("table", { className: "heat", "aria-label": `Similarity by ${name}` },
    make("thead", {}, make("tr", {}, make("td"), ...head)), make("tbody", {}, ...body));
}

function heatCell({ share: value, text }) {
  const cell = make("td", { textContent: text });
  const strength = Math.min(1, Math.max(0, value));
  cell.style.setProperty("background", `rgb(var(--heat) / ${(0.06 + 0.84 * strength).toFixed(2)})`);
  if (strength > 0.6) cell.style.setProperty("color", "var(--on-accent)");
  return cell;
}

export const nearest = {
  prepare(model) {
    choices(find("nearest-by"), [byCosine, ...scorers(model).map(([name]) => [name, name])]);
  },
  async run(model, signal) {
    const query = find("nearest-query").value.trim();
    const texts = linesOf(find("nearest-texts"));
    const place = find("nearest-answer");
    if (!query || !texts.length) return place.replaceChildren();
    const name = find("nearest-by").value;
    const { results } = await post("rerank", { query, texts, ...(name ? { task: name } : {}), top_k: 20 }, { signal });
    const [low, high] = model.tasks[name]?.range ?? [0, 1];
    place.replaceChildren(...results.map(({ index, score }) => make("li", {},
      make("span", { textContent: texts[index] }), make("span", { textContent: score.toFixed(2) }),
      bar((score - low) / (high - low)))));
  },
};

export const map = {
  prepare(model) {
    const coloured = tasksOf(model, 1).filter(([, task]) => ["classes", "yes_no"].includes(task.kind));
    choices(find("map-by"), [...coloured.map(([name]) => [name, name]), ["", "nothing"]]);
  },
  async run(model, signal) {
    const texts = linesOf(find("map-texts"));
    const place = find("map-answer");
    if (texts.length < 3) return place.replaceChildren(make("p", { className: "quiet", textContent: "Three sentences or more." }));
    const name = find("map-by").value;
    const { results } = await post("analyze", { texts, tasks: name ? [name] : [], embedding: true }, { signal });
    const labels = results.map((one) => (name ? headline(model.tasks[name], one.tasks[name]) : ""));
    place.replaceChildren(...scatter(texts, labels, project(results.map((one) => one.embedding)), model.tasks[name]?.labels ?? []));
  },
};

/** A text beside its point, on the side where there is room; null if it would cover another. */
function nameOf(text, x, y, taken) {
  const right = x < SIZE.width / 2;
  const short = text.length > LONGEST_NAME ? `${text.slice(0, LONGEST_NAME - 1)}…` : text;
  const [from, to] = right ? [x + 9, x + 14 + short.length * LETTER] : [x - 14 - short.length * LETTER, x - 9];
  if (taken.some((other) => Math.abs(other.y - y) < LINE && other.from < to && from < other.to)) return null;
  taken.push({ from, to, y });
  return make("text", { x: (x + (right ? 14 : -14)).toFixed(1), y: (y + 5).toFixed(1), "text-anchor": right ? "start" : "end",
    "aria-hidden": "true" }, short);
}

function scatter(texts, labels, points, known) {
  const { width, height, margin } = SIZE;
  const place = (values, from, to) => {
    const low = Math.min(...values), high = Math.max(...values);
    return (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  };
  const x = place(points.map(([value]) => value), margin, width - margin);
  const y = place(points.map(([, value]) => value), height - margin, margin);
  const names = [...new Set([...known, ...labels])].filter((label) => labels.includes(label));
  const tip = make("div", { className: "tip", hidden: true });
  const drawing = make("svg", { viewBox: `0 0 ${width} ${height}`, class: "points", role: "group", "aria-label": "Map of the sentences" });
  points.forEach(([across, up], index) => {
    const text = labels[index] ? `${texts[index]} (${labels[index]})` : texts[index];
    const point = make("circle", { cx: x(across).toFixed(1), cy: y(up).toFixed(1), r: 8, fill: hue(Math.max(0, names.indexOf(labels[index]))),
      tabindex: "0", role: "img", "aria-label": text });
    const show = () => {
      tip.textContent = text;
      tip.hidden = false;
      const box = drawing.getBoundingClientRect();
      tip.style.setProperty("left", `${Math.min(85, Math.max(15, (100 * x(across)) / width))}%`);
      tip.style.setProperty("top", `${(y(up) / height) * box.height}px`);
    };
    for (const event of ["pointerenter", "focus"]) point.addEventListener(event, show);
    for (const event of ["pointerleave", "blur"]) point.addEventListener(event, () => { tip.hidden = true; });
    drawing.append(point);
  });
  if (points.length <= MOST_NAMED) {
    const taken = points.map(([across, up]) => ({ from: x(across) - 8, to: x(across) + 8, y: y(up) }));
    points.forEach(([across, up], index) => drawing.append(nameOf(texts[index], x(across), y(up), taken) ?? ""));
  }
  const legend = names.filter(Boolean).map((label, index) => make("span", {}, make("i", { "--hue": hue(index) }), label));
  return [drawing, tip, make("figcaption", { className: "legend" }, ...legend)];
}
