"use strict";
document.documentElement.classList.add("live");
const narrow = window.matchMedia("(max-width: 900px)").matches;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
// the darkest colours have lighter stand-ins on dark paper
const lighter = { "#0072B2": "#2f95d8", "#56B4E9": "#9fd6f7", "#D55E00": "#e8742a", "#440154": "#b08ad0", "#3b528b": "#6f8fd0" };

function drawPlot(figure) {
  let text = figure.querySelector("script").textContent;
  if (dark.matches) for (const [colour, light] of Object.entries(lighter)) text = text.replaceAll(colour, light);
  const { data, layout } = JSON.parse(text);
  layout.font.color = getComputedStyle(document.body).color;
  for (const trace of data) if (trace.hovertext) trace.hovertext = trace.hovertext.map((note) => note.replaceAll("\n", "<br>"));
  if (narrow) Object.assign(layout.legend, { orientation: "h", y: -0.3 });
  const unwanted = ["lasso2d", "select2d", "autoScale2d"];
  const options = { responsive: true, displaylogo: false, showSendToCloud: false, modeBarButtonsToRemove: unwanted };
  return Plotly.react(figure.querySelector(".plot"), data, layout, options);
}

function showPicture(figure, picture) {
  figure.querySelector(".plot").hidden = picture;
  figure.querySelector(".picture").hidden = !picture;
  figure.querySelectorAll(".switch button").forEach((button, index) => button.setAttribute("aria-pressed", picture === (index === 1)));
}

function sortBy(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const falling = heads[column].ariaSort === "ascending";
  heads.forEach((head) => (head.ariaSort = null));
  heads[column].ariaSort = falling ? "descending" : "ascending";
  const value = (row) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  };
  const compare = (a, b) => {
    const [left, right] = [value(a), value(b)];
    if (typeof left !== typeof right) return typeof left === "number" ? -1 : 1;
    const order = typeof left === "number" ? left - right : left.localeCompare(right);
    return falling ? -order : order;
  };
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
}

for (const table of document.querySelectorAll("table")) {
  table.querySelectorAll("th button").forEach((button, column) => (button.onclick = () => sortBy(table, column)));
}

const figures = [...document.querySelectorAll("figure")];
for (const figure of figures) {
  showPicture(figure, false);
  figure.querySelector(".switch").hidden = false;
  figure.querySelectorAll(".switch button").forEach((button, index) => (button.onclick = () => showPicture(figure, index === 1)));
}

// one after another, so that the page answers meanwhile
(async () => {
  for (const figure of figures) {
    await drawPlot(figure);
    await new Promise((resolve) => setTimeout(resolve));
  }
  document.documentElement.dataset.drawn = figures.length;
})();

dark.onchange = () => figures.forEach(drawPlot);
