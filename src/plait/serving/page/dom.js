// Elements of the page. Text is only ever set as text, never as HTML.

export const find = (id) => document.getElementById(id);

/** An element with properties, CSS variables (`--name`), attributes and children. */
export function make(tag, options = {}, ...children) {
  const svg = ["svg", "circle", "text"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key.startsWith("--")) element.style.setProperty(key, value);
    else if (!svg && key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** The lines of a field that are not empty. */
export const linesOf = (field) => field.value.split("\n").map((line) => line.trim()).filter(Boolean);

/** Fill a list of choices, and keep the chosen one if it is still there. */
export function choices(select, values) {
  const before = select.options.length ? select.value : null;
  select.replaceChildren(...values.map(([value, text]) => make("option", { value, textContent: text })));
  if (values.some(([value]) => value === before)) select.value = before;
}

const HUES = ["#0d9488", "#d97706", "#7c3aed", "#2563eb", "#db2777", "#65a30d", "#0891b2", "#dc2626"];
export const hue = (index) => HUES[index % HUES.length];

export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.01 ? 1 : 0)}%`;

/** Call a function once its caller has been quiet for a moment. */
export function later(work, milliseconds = 180) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds);
  };
}
