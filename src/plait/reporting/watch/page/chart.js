// A line chart as SVG. Text is only ever set as text.

const WIDTH = 560, HEIGHT = 240;
const LEFT = 52, RIGHT = 14, TOP = 12, BOTTOM = 28;

const svg = (tag, attributes = {}, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};

/** Round numbers from low to high, about so many. */
function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

const short = (value) => (Math.abs(value) >= 1000 ? value.toLocaleString("en") : String(Number(value.toPrecision(3))));

/** `series`: [{ name, colour, points: [[step, value]] }]. */
export function chart(title, series) {
  const points = series.flatMap((one) => one.points).filter(([, value]) => value !== null);
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  caption.textContent = title;
  figure.append(caption);
  if (!points.length) return figure;
  const steps = points.map(([step]) => step), values = points.map(([, value]) => value);
  const x0 = Math.min(...steps), x1 = Math.max(...steps, x0 + 1);
  const room = (Math.max(...values) - Math.min(...values)) * 0.05 || 0.05;
  const y0 = Math.min(...values) - room, y1 = Math.max(...values) + room;
  const x = (step) => LEFT + ((step - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - ((value - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
  for (const value of ticks(y0, y1, 4)) {
    drawing.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
    drawing.append(svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  for (const step of ticks(x0, x1, 5).filter(Number.isInteger)) {
    drawing.append(svg("text", { x: x(step), y: HEIGHT - 8, "text-anchor": "middle" }, short(step)));
  }
  for (const { colour, points: own } of series) {
    const shown = own.filter(([, value]) => value !== null);
    if (shown.length > 1) {
      const line = shown.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
      drawing.append(svg("polyline", { points: line, stroke: colour }));
    }
    const last = shown.at(-1);
    if (last) drawing.append(svg("circle", { cx: x(last[0]), cy: y(last[1]), r: 3.5, fill: colour }));
  }
  const mark = svg("line", { class: "mark", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  drawing.append(mark);
  const tip = document.createElement("output");
  figure.append(drawing, tip);
  listen(drawing, mark, tip, series, (clientX) => {
    const box = drawing.getBoundingClientRect();
    return x0 + (((clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT) * (x1 - x0);
  }, x);
  return figure;
}

/** Show the values nearest to the pointer. */
function listen(drawing, mark, tip, series, stepAt, x) {
  drawing.addEventListener("pointermove", (event) => {
    const wanted = stepAt(event.clientX);
    const nearest = series.map(({ name, points }) => {
      const shown = points.filter(([, value]) => value !== null);
      return { name, point: shown.reduce((best, one) => (Math.abs(one[0] - wanted) < Math.abs(best[0] - wanted) ? one : best), shown[0]) };
    }).filter(({ point }) => point);
    if (!nearest.length) return;
    const step = nearest.reduce((best, one) => (Math.abs(one.point[0] - wanted) < Math.abs(best.point[0] - wanted) ? one : best)).point[0];
    for (const end of ["x1", "x2"]) mark.setAttribute(end, x(step));
    mark.setAttribute("visibility", "visible");
    tip.textContent = nearest.map(({ name, point }) => `${name}: ${short(point[1])} at step ${point[0].toLocaleString("en")}`).join(" · ");
  });
  drawing.addEventListener("pointerleave", () => {
    mark.setAttribute("visibility", "hidden");
    tip.textContent = "";
  });
}
