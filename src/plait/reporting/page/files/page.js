"use strict";
// Draws every chart in the colours of the page's theme, and again when the theme changes.
(() => {
  const specs = JSON.parse(document.getElementById("charts").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const views = [];

  function config() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const [text, soft, line] = [colour("--text"), colour("--soft"), colour("--line")];
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: null,
      font,
      view: { stroke: null },
      axis: {
        labelColor: soft, titleColor: soft, domainColor: line, tickColor: line, gridColor: line, gridOpacity: 0.6,
        labelFontSize: 11, titleFontSize: 11, titleFontWeight: "normal", titlePadding: 8, labelLimit: 110,
      },
      legend: { labelColor: text, titleColor: soft, labelFontSize: 11, titleFontSize: 11, symbolSize: 70, labelLimit: 150 },
      text: { color: text },
      rule: { color: soft },
      range: { ordinal: { scheme: "blues" } },
    };
  }

  async function draw() {
    while (views.length) views.pop().finalize();
    const options = {
      actions: false, renderer: "svg", ast: true, mode: "vega-lite", config: config(),
      tooltip: { theme: dark.matches ? "dark" : "light" },
    };
    for (const box of document.querySelectorAll("[data-chart]")) {
      const result = await window.vegaEmbed(box, specs[Number(box.dataset.chart)], options);
      views.push(result);
    }
    document.documentElement.dataset.drawn = dark.matches ? "dark" : "light"; // every chart, in this theme
  }

  let drawing = draw();
  dark.addEventListener("change", () => { drawing = drawing.then(draw); });
})();
