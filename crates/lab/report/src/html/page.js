"use strict";
(() => {
  // Charts: what depends on width and theme is decided here, the rest is in the description beside each box.
  const boxes = [...document.querySelectorAll(".plot")];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)");
  const config = {
    responsive: true,
    displaylogo: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  };

  function looks(box) {
    const css = getComputedStyle(document.documentElement);
    const colour = (name) => css.getPropertyValue(name).trim();
    const width = box.clientWidth || 600;
    const names = Number(box.dataset.names);
    const out = {
      "font.color": colour("--fg"),
      "font.family": "system-ui, sans-serif",
      "hoverlabel.font.family": "system-ui, sans-serif",
      "modebar.bgcolor": "rgba(0,0,0,0)",
      "modebar.color": colour("--dim"),
      "modebar.activecolor": colour("--fg"),
      "xaxis.title.standoff": 8,
      "yaxis.title.standoff": 10,
      // A finger that scrolls the page must not zoom the chart.
      dragmode: touch.matches || width < 600 ? false : "zoom",
    };
    for (const axis of box.dataset.axes?.split(" ") ?? []) {
      out[axis + ".gridcolor"] = colour("--grid");
      out[axis + ".linecolor"] = colour("--line");
      out[axis + ".tickcolor"] = colour("--line");
    }
    out["font.size"] = width < 600 ? 11 : 12;
    if (box.dataset.kind === "strips") {
      out.height = 110 + (width < 600 ? 130 : 150) * names;
      return out;
    }
    if (box.dataset.kind === "dots") {
      out.height = 110 + 30 * names;
      return out;
    }
    if (box.dataset.kind === "bars") {
      out.height = 190 + 30 * names;
      Object.assign(out, { "legend.orientation": "h", "legend.traceorder": "normal", "legend.x": 0, "legend.xanchor": "left" });
      Object.assign(out, { "legend.yref": "container", "legend.y": 0, "legend.yanchor": "bottom", "margin.b": 126 });
      return out;
    }
    out["legend.bgcolor"] = "rgba(0,0,0,0)";
    out["legend.itemwidth"] = 30;
    out["legend.traceorder"] = "normal";
    const text = (width < 600 ? 6.2 : 6.8) * Number(box.dataset.longest);
    const entry = text + 50;
    if (width >= 760) {
      out["legend.orientation"] = "v";
      Object.assign(out, { "legend.x": 1.01, "legend.xanchor": "left", "legend.y": 1, "legend.yanchor": "top" });
      Object.assign(out, { "margin.r": Math.ceil(entry), "margin.b": 56 });
      out.height = Math.max(names > 8 ? 580 : 440, 110 + 20 * names);
    } else {
      // Below the chart, in as many rows as it takes, with the height that these rows need.
      const columns = Number(box.dataset.columns) || Math.max(1, Math.floor((width - 110) / (text + 42)));
      const rows = Math.ceil(names / columns) * 20 + 8;
      // The library gives a legend below the chart at most half of the whole height.
      out.height = Math.max((names > 8 ? 440 : 360) + rows, 2 * rows + 20);
      const plot = out.height - 34 - 56 - rows;
      out["legend.orientation"] = "h";
      Object.assign(out, { "legend.entrywidth": text, "legend.entrywidthmode": "pixels" });
      Object.assign(out, { "legend.x": 0, "legend.xanchor": "left", "legend.y": -52 / plot, "legend.yanchor": "top" });
      Object.assign(out, { "margin.r": 12, "margin.b": 56 + rows });
    }
    return out;
  }

  // A legend below the chart has as many columns as the library finds room for, which depends on the labels of the axis:
  // looked up once they are there, so that no blank is left where fewer rows are needed.
  async function settle(box) {
    delete box.dataset.columns;
    const look = looks(box);
    await Plotly.relayout(box, look);
    if (look["legend.orientation"] !== "h") return;
    const lefts = [...box.querySelectorAll(".legend .traces")].map((name) => Math.round(name.getBoundingClientRect().left));
    box.dataset.columns = new Set(lefts).size;
    const settled = looks(box);
    if (settled.height === look.height) return;
    box.style.minHeight = settled.height + "px";
    await Plotly.relayout(box, settled);
  }

  // The line under the pointer, or the one whose name is, stands out against the others.
  function dim(box, name) {
    for (const line of box.querySelectorAll(".scatterlayer .trace")) {
      const own = line.__data__?.[0]?.trace?.legendgroup;
      line.style.opacity = name === undefined || own === name ? 1 : 0.12;
    }
  }

  function dims(box) {
    box.on("plotly_hover", (event) => dim(box, event.points[0].data.legendgroup));
    box.on("plotly_unhover", () => dim(box));
    box.addEventListener("mouseover", (event) => {
      const item = event.target.closest?.(".legend .traces");
      if (item) dim(box, item.__data__?.[0]?.trace?.legendgroup);
    });
    box.addEventListener("mouseout", (event) => {
      if (event.target.closest?.(".legend .traces")) dim(box);
    });
  }

  async function drawOne(box) {
    if (box.dataset.drawn) return;
    box.dataset.drawn = "begun";
    const chart = JSON.parse(box.nextElementSibling.textContent);
    box.dataset.axes = Object.keys(chart.layout).filter((name) => /^[xy]axis\d*$/.test(name)).join(" ");
    chart.layout.height = looks(box).height;
    await Plotly.newPlot(box, chart.data, chart.layout, config);
    await settle(box);
    if (box.dataset.kind === "lines") dims(box);
    box.dataset.drawn = "done";
  }

  // What is behind a closed fold has no width yet and is drawn when the fold is opened.
  const folded = (box) => box.closest("details:not([open])") !== null;

  async function draw() {
    const open = boxes.filter((box) => !folded(box));
    // Room first, so that a link to a section below leads there and stays there.
    for (const box of open) box.style.minHeight = looks(box).height + "px";
    for (const box of open) await drawOne(box);
    for (const fold of document.querySelectorAll("details")) {
      fold.addEventListener("toggle", async () => {
        for (const box of fold.querySelectorAll(".plot")) if (!folded(box)) await drawOne(box);
      });
    }
    document.documentElement.dataset.drawn = open.length;
  }

  let asked = 0;
  function redraw() {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(() => {
      for (const box of boxes) {
        delete box.dataset.columns;
        box.style.minHeight = looks(box).height + "px";
        if (box.data) settle(box);
      }
    });
  }
  dark.addEventListener("change", redraw);
  addEventListener("resize", redraw);
  draw();

  // Tables: a button in the head sorts by its column, a second press turns the order round.
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const key = (row, column) => {
      const cell = row.cells[column];
      return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
    };
    const unit = (row, column) => row.cells[column].dataset.unit ?? "";
    const order = (a, b) => {
      if (typeof a === "number" && typeof b === "number") return a - b;
      if (typeof a === "number" || typeof b === "number") return typeof a === "number" ? -1 : 1;
      return a.localeCompare(b, "en", { numeric: true });
    };
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const turn = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", turn === 1 ? "ascending" : "descending");
        const rows = [...body.rows].map((row) => ({ row, unit: unit(row, column), key: key(row, column) }));
        rows.sort((a, b) => a.unit.localeCompare(b.unit, "en") || turn * order(a.key, b.key));
        body.append(...rows.map(({ row }) => row));
      });
    });
  }

  // A filter shows the rows that hold every word typed.
  for (const input of document.querySelectorAll("input[data-filters]")) {
    const rows = [...document.getElementById(input.dataset.filters).tBodies[0].rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/);
      rows.forEach((row, index) => { row.hidden = !words.every((word) => texts[index].includes(word)); });
    });
  }
})();
