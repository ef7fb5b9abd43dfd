// One answer of a task as a card.

import { hue, make, percent } from "./dom.js";

const LONGEST = 8; // bars in a card

export function card(name, task, answer, index, explain) {
  const more = make("div", { className: "why" });
  const button = make("button", { type: "button", className: "link", textContent: "Which words?" });
  button.addEventListener("click", async () => {
    button.disabled = true;
    const found = await explain();
    if (found) more.replaceChildren(...weighted(found));
    button.disabled = false;
  });
  more.append(button);
  return make("article", { className: "card", "--hue": hue(index), "aria-label": name },
    make("header", {}, make("h2", { textContent: name }), make("span", { className: "quiet", textContent: words(task.kind) })),
    make("div", { className: "answer", textContent: headline(task, answer) }),
    answer.probabilities ? bars(answer.probabilities) : gauge(task, answer.score), more);
}

/** The texts with each word shaded by what the answer loses without it. */
function weighted({ texts, words }) {
  const largest = Math.max(...words.flat().map((word) => Math.abs(word.weight)), 1e-9);
  const shown = texts.map((text, side) => {
    const parts = [];
    let end = 0;
    for (const word of words[side]) {
      const [kind, share] = [word.weight > 0 ? "for" : "against", Math.abs(word.weight) / largest];
      const title = `${word.weight > 0 ? "+" : ""}${word.weight.toFixed(3)}`;
      parts.push(text.slice(end, word.start), make("mark", { className: kind, "--share": share.toFixed(2), title, textContent: word.word }));
      end = word.end;
    }
    return make("p", { className: "words" }, ...parts, text.slice(end));
  });
  return [...shown, make("p", { className: "quiet", textContent: "Green words speak for this answer, red ones against it." })];
}

const words = (kind) => ({ yes_no: "yes or no", multilabel: "several labels" })[kind] ?? kind;

/** The answer in a word. */
export function headline(task, answer) {
  if (answer.score !== null && answer.score !== undefined && !answer.probabilities) return score(task, answer.score);
  if (Array.isArray(answer.label)) return answer.label.join(", ") || "none";
  return answer.label ?? "–";
}

const score = (task, value) => (task.range ? `${value.toFixed(1)} of ${task.range[1]}` : value.toFixed(2));

/** The probability of the answer; null for scores and several labels. */
export function certainty(answer) {
  return answer.probabilities && typeof answer.label === "string" ? answer.probabilities[answer.label] ?? null : null;
}

export function bar(share) {
  const fill = make("div", { className: "fill" });
  requestAnimationFrame(() => fill.style.setProperty("width", `${100 * Math.min(1, Math.max(0, share))}%`));
  return make("div", { className: "track" }, fill);
}

function bars(probabilities) {
  const sorted = Object.entries(probabilities).sort(([, one], [, other]) => other - one);
  const rows = sorted.slice(0, LONGEST).map(([label, share]) =>
    make("li", {}, make("span", { textContent: label, title: label }), make("span", { textContent: percent(share) }), bar(share)));
  if (sorted.length > LONGEST) rows.push(make("li", { className: "quiet", textContent: `and ${sorted.length - LONGEST} more` }));
  return make("ul", { className: "bars" }, ...rows);
}

function gauge(task, value) {
  const [low, high] = task.range ?? [0, 1];
  return make("div", {}, bar((value - low) / (high - low)),
    make("div", { className: "ends" }, make("span", { textContent: low }), make("span", { textContent: high })));
}
