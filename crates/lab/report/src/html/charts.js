"use strict";
// Draws each chart from the description beside its box, at the width that the box has. Colors are the style sheet's, so that a change of
// the scheme needs no drawing. Texts may be foreign: they are set as text and never as markup.
(() => {
  const ROW = 26;
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "12px " + getComputedStyle(document.body).fontFamily;
  const widthOf = (text) => pen.measureText(text).width;
  const widest = (texts) => Math.max(0, ...texts.map(widthOf));

  // HTML in HTML, and SVG in SVG.
  function put(parent, name, attributes = {}, text = "") {
    const child = document.createElementNS(parent.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) child.setAttribute(key, value);
    if (text !== "") child.textContent = text;
    parent.append(child);
    return child;
  }

  // From values to pixels; what lies beyond an end of the axis stands at that end.
  function scale({ is_log, range }, from, to) {
    const of = is_log ? Math.log10 : Number;
    const [low, high] = range.map(of);
    return (value) => from + Math.min(Math.max((of(value) - low) / (high - low) || 0, 0), 1) * (to - from);
  }

  // Marks from the bottom to the top, with their texts at the left.
  function sideAxis(svg, axis, place, left, right) {
    let last = Infinity;
    for (const [value, text] of axis.ticks) {
      const y = place(value);
      put(svg, "line", { class: "grid", x1: left, x2: right, y1: y, y2: y });
      if (last - y < 14) continue;
      put(svg, "text", { class: "ytick", x: left - 8, y: y + 4, "text-anchor": "end" }, text);
      last = y;
    }
  }

  // Marks from left to right; every second or third has a text where there is no room for more.
  function bottomAxis(svg, axis, place, top, bottom, width) {
    const marks = axis.ticks.map(([value, text]) => {
      const half = widthOf(text) / 2;
      return { at: place(value), text, half, middle: Math.max(Math.min(place(value), width - half), half) };
    });
    const every = (step) => marks.filter((_, index) => index % step === 0);
    const apart = (mark, index, all) => index === 0 || mark.middle - mark.half > all[index - 1].middle + all[index - 1].half + 8;
    let step = 1;
    while (step < marks.length && !every(step).every(apart)) step++;
    for (const { at } of marks) put(svg, "line", { class: "grid", x1: at, x2: at, y1: top, y2: bottom + 4 });
    for (const { middle, text } of every(step)) {
      put(svg, "text", { class: "xtick", x: middle, y: bottom + 18, "text-anchor": "middle" }, text);
    }
    put(svg, "text", { class: "title", x: width, y: bottom + 36, "text-anchor": "end" }, axis.title);
  }

  function resize(svg, width, height) {
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
  }

  const path = (points) => points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L");
  const symbols = (points, symbol) => points.map(([x, y]) => `M${x.toFixed(1)},${y.toFixed(1)}${symbol}`).join("");

  function group(svg, look, key) {
    return put(svg, "g", { class: "of", "data-key": key, style: "--of:" + look.color });
  }

  function stroke(parent, points, look, symbol = look.symbol) {
    put(parent, "path", { class: "stroke", d: "M" + path(points), "stroke-dasharray": look.dash || "none" });
    if (symbol) put(parent, "path", { class: "symbol", d: symbols(points, symbol) });
  }

  // The intervals of neighbors as closed shapes; a point without an interval ends one.
  function band(parent, points) {
    const stretches = [[]];
    for (const point of points) {
      if (point.ends) stretches.at(-1).push(point);
      else stretches.push([]);
    }
    const shapes = stretches.filter((stretch) => stretch.length > 1).map((stretch) => {
      const low = stretch.map(({ x, ends }) => [x, ends[0]]);
      const high = stretch.map(({ x, ends }) => [x, ends[1]]).reverse();
      return "M" + path([...low, ...high]) + "z";
    });
    if (shapes.length > 0) put(parent, "path", { class: "band", d: shapes.join("") });
  }

  // Each of these draws what is shown, and returns rows of points that a reader can go through: where a point is, the area in which it is
  // pointed at, its name, and what is said of it.
  const draw = {
    lines(svg, chart, width, isShown) {
      const shown = (_, index) => isShown[index];
      const y = chart.whole && chart.lines.filter(shown).some((line) => line.hidden) ? chart.whole : chart.y;
      const height = width < 520 ? 340 : Math.min(Math.max(400, 60 + 22 * chart.lines.length), 560);
      const [left, right, top, bottom] = [10 + widest(y.ticks.map((tick) => tick[1])), width - 12, 26, height - 44];
      resize(svg, width, height);
      put(svg, "text", { class: "title", x: 0, y: 12 }, y.title);
      const [across, up] = [scale(chart.x, left, right), scale(y, bottom, top)];
      bottomAxis(svg, chart.x, across, top, bottom, width);
      sideAxis(svg, y, up, left, right);
      // Bands below all lines.
      const bands = put(svg, "g");
      return chart.lines.map((line, key) => {
        const points = line.points.map(([x, y, ends, says]) => {
          const at = { x: across(x), y: up(y), ends: ends?.map(up), name: line.name, says, key };
          return { ...at, area: [at.x, at.y, at.x, at.y] };
        });
        if (isShown[key]) {
          band(group(bands, line.look, key), points);
          stroke(group(svg, line.look, key), points.map(({ x, y }) => [x, y]), line.look);
        }
        return points;
      }).filter(shown);
    },

    dots(svg, chart, width) {
      const rows = named(svg, chart.x, chart.lines, width);
      return chart.lines.map((line, key) => {
        const { across, y, top } = rows(key);
        const of = group(svg, line.look, key);
        return line.points.map(([value, , ends, says]) => {
          const [x, [from, to]] = [across(value), (ends ?? [value, value]).map(across)];
          if (ends) put(of, "path", { class: "ends", d: `M${from},${y - 4}v8m0-4H${to}m0-4v8` });
          put(of, "path", { class: "symbol", d: "M0 0" + line.look.symbol, transform: `translate(${x} ${y}) scale(1.4)` });
          return { x, y, name: line.name, says, key, area: [from, top, to, top + ROW] };
        });
      });
    },

    bars(svg, chart, width, isShown) {
      const rows = named(svg, chart.x, chart.bars, width);
      return chart.bars.map((bar, index) => {
        const { across, y, top } = rows(index);
        // Pieces above zero go to the right of one another, those below to the left.
        const ends = { true: 0, false: 0 };
        return bar.pieces.filter(([key]) => isShown[key]).map(([key, value, says]) => {
          const from = ends[value >= 0];
          const to = (ends[value >= 0] = from + value);
          const [left, right] = [across(Math.min(from, to)), across(Math.max(from, to))];
          put(group(svg, chart.kinds[key].look, key), "rect", { x: left, y: y - 8, width: right - left, height: 16 });
          return { x: (left + right) / 2, y, name: bar.name, says, key, area: [left, top, right, top + ROW] };
        });
      }).filter((row) => row.length > 0);
    },

    strips(svg, chart, width) {
      const each = width < 600 ? 120 : 140;
      const height = each * chart.strips.length + 44;
      const left = 10 + widest(chart.strips.flatMap((strip) => strip.y.ticks.map((tick) => tick[1])));
      const [right, bottom] = [width - 12, height - 44];
      resize(svg, width, height);
      const across = scale(chart.x, left, right);
      bottomAxis(svg, chart.x, across, 8, bottom, width);
      const rows = chart.strips.map((strip, key) => {
        const top = each * key;
        const up = scale(strip.y, top + each - 8, top + 26);
        sideAxis(svg, strip.y, up, left, right);
        put(svg, "text", { class: "name", x: left, y: top + 17 }, strip.name);
        const of = group(svg, strip.look, key);
        const points = strip.values.map((value, index) => {
          const [x, y] = [across(index + 1), up(value)];
          return { x, y, name: strip.name, says: [`sample ${index + 1}: ${strip.texts[index]}`], key, area: [x, y, x, y] };
        });
        const isSparse = right - left > 5 * points.length;
        stroke(of, points.map(({ x, y }) => [x, y]), strip.look, isSparse ? "m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0z" : "");
        for (const y of strip.levels.map(up)) put(svg, "path", { class: "mark level", d: `M${left},${y}H${right}` });
        return points;
      });
      if (chart.change !== null) put(svg, "path", { class: "mark", d: `M${across(chart.change)},8V${bottom}` });
      return rows;
    },
  };

  // A row for each name over an axis of values: the name at the left, or above where the left has no room.
  function named(svg, axis, all, width) {
    const room = widest(all.map((one) => one.name));
    const isAbove = room > width * 0.4;
    const each = isAbove ? ROW + 14 : ROW;
    const bottom = 8 + each * all.length;
    const [left, right] = [isAbove ? 8 : room + 14, width - 12];
    resize(svg, width, bottom + 44);
    const across = scale(axis, left, right);
    bottomAxis(svg, axis, across, 4, bottom, width);
    if (!axis.is_log) put(svg, "path", { class: "zero", d: `M${across(0)},4V${bottom}` });
    return (index) => {
      const top = 4 + each * index + (isAbove ? 14 : 0);
      const [x, y, anchor] = isAbove ? [0, top + 2, "start"] : [left - 10, top + ROW / 2 + 4, "end"];
      const name = put(svg, "text", { class: "name", x, y, "text-anchor": anchor }, all[index].name);
      // A name that is longer than the page is wide is pressed together rather than cut.
      if (isAbove && widthOf(all[index].name) > width) {
        name.setAttribute("textLength", width);
        name.setAttribute("lengthAdjust", "spacingAndGlyphs");
      }
      return { across, top, y: top + ROW / 2 };
    };
  }

  // Names as buttons that show and hide.
  function legend(box, entries, isShown, changed, stand) {
    const list = put(box, "div", { class: "legend", role: "group", "aria-label": "Shown in the chart" });
    list.style.setProperty("--entry", Math.ceil(widest(entries.map((entry) => entry.name)) * 13 / 12 + 56) + "px");
    const buttons = entries.map(({ name, look }, key) => {
      const button = put(list, "button", { type: "button", title: "Shift and click: this one alone, or all" });
      const sample = group(button.appendChild(box.querySelector("svg").cloneNode(false)), look, "");
      for (const [name, value] of [["viewBox", "0 0 30 12"], ["height", 12], ["aria-hidden", true]]) {
        sample.parentNode.setAttribute(name, value);
      }
      if (box.dataset.kind === "bars") put(sample, "rect", { x: 9, width: 12, height: 12 });
      else stroke(sample, [[0, 6], [15, 6], [30, 6]], look, ""), put(sample, "path", { class: "symbol", d: "M15,6" + look.symbol });
      put(button, "span", {}, name);
      button.addEventListener("click", (event) => {
        if (event.shiftKey) {
          const isAlone = isShown.every((shown, other) => shown === (other === key));
          isShown.forEach((_, other) => { isShown[other] = isAlone || other === key; });
        } else {
          isShown[key] = !isShown[key];
        }
        press();
        changed();
        stand(isShown[key] ? key : undefined);
      });
      for (const type of ["pointerenter", "focus"]) button.addEventListener(type, () => stand(isShown[key] ? key : undefined));
      for (const type of ["pointerleave", "blur"]) button.addEventListener(type, () => stand());
      return button;
    });
    const press = () => buttons.forEach((button, key) => button.setAttribute("aria-pressed", isShown[key]));
    press();
  }

  function begin(box) {
    const chart = JSON.parse(box.nextElementSibling.textContent);
    const entries = chart.kinds ?? (box.dataset.kind === "lines" ? chart.lines : []);
    const isShown = entries.map((entry) => !entry.hidden);
    const svg = box.firstElementChild;
    const name = box.getAttribute("aria-label");
    const stage = put(box, "div", {
      class: "stage", tabindex: 0, role: "application", "aria-roledescription": "chart",
      "aria-label": name + ". Arrow keys go from point to point.",
    });
    box.removeAttribute("aria-label");
    box.setAttribute("role", "group");
    svg.setAttribute("aria-hidden", true);
    stage.append(svg);
    const tip = put(stage, "div", { class: "tip", "aria-hidden": true });
    tip.hidden = true;
    const live = put(box, "div", { class: "live", role: "status", "aria-live": "polite" });
    let rows = [];
    // The row and the place of the point that is shown.
    let at;
    let drawnAt = 0;

    // One of the lines stands out against the others.
    function stand(key) {
      if (box.dataset.kind !== "lines") return;
      svg.classList.toggle("dimmed", key !== undefined);
      for (const of of svg.querySelectorAll(".of")) of.classList.toggle("out", of.dataset.key === String(key));
    }

    function hide() {
      at = undefined;
      tip.hidden = true;
      svg.querySelector(".ring")?.remove();
      stand();
    }

    function show(row, place) {
      const point = rows[row][place];
      at = [row, place];
      svg.querySelector(".ring")?.remove();
      put(svg, "circle", { class: "ring", cx: point.x, cy: point.y, r: 8 });
      stand(point.key);
      tip.replaceChildren();
      put(tip, "strong", {}, point.name);
      for (const line of point.says) put(tip, "span", {}, line);
      tip.hidden = false;
      const beside = point.x + 14 + tip.offsetWidth <= stage.clientWidth ? point.x + 14 : point.x - 14 - tip.offsetWidth;
      tip.style.left = Math.max(0, Math.min(beside, stage.clientWidth - tip.offsetWidth)) + "px";
      const above = point.y - 14 - tip.offsetHeight;
      tip.style.top = (above < 0 ? point.y + 14 : above) + "px";
      return point;
    }

    function redraw() {
      const width = Math.floor(stage.clientWidth);
      if (width === 0) return;
      drawnAt = width;
      hide();
      svg.replaceChildren();
      rows = draw[box.dataset.kind](svg, chart, width, isShown).filter((row) => row.length > 0);
      box.dataset.drawn = "done";
    }

    function nearest(event) {
      const area = svg.getBoundingClientRect();
      const [x, y] = [event.clientX - area.left, event.clientY - area.top];
      let best = { away: 40 };
      rows.forEach((points, row) => points.forEach(({ area: [x0, y0, x1, y1] }, place) => {
        const away = Math.hypot(Math.max(x0 - x, 0, x - x1), Math.max(y0 - y, 0, y - y1));
        if (away < best.away) best = { away, row, place };
      }));
      return best;
    }

    for (const type of ["pointermove", "pointerdown"]) {
      stage.addEventListener(type, (event) => {
        const { row, place } = nearest(event);
        if (row === undefined) hide();
        else show(row, place);
      });
    }
    // A finger leaves when it is lifted, and what it has pointed at is still to be read.
    stage.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") hide(); });
    stage.addEventListener("blur", hide);

    function go(down, along) {
      if (!at) return [0, 0];
      const [row, place] = at;
      const hasOne = rows.every((points) => points.length === 1);
      const next = Math.max(0, Math.min(row + (hasOne ? down + along : down), rows.length - 1));
      if (next === row) return [row, Math.max(0, Math.min(place + along, rows[row].length - 1))];
      const away = rows[next].map((point) => Math.abs(point.x - rows[row][place].x));
      return [next, away.indexOf(Math.min(...away))];
    }

    const keys = {
      ArrowUp: () => go(-1, 0),
      ArrowDown: () => go(1, 0),
      ArrowLeft: () => go(0, -1),
      ArrowRight: () => go(0, 1),
      Home: () => [at?.[0] ?? 0, 0],
      End: () => [at?.[0] ?? 0, rows[at?.[0] ?? 0].length - 1],
    };
    stage.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key === "Escape") hide();
      if (!Object.hasOwn(keys, event.key) || rows.length === 0) return;
      event.preventDefault();
      const point = show(...keys[event.key]());
      live.textContent = [point.name, ...point.says].join(", ");
    });

    if (entries.length > 0) legend(box, entries, isShown, redraw, stand);
    // Beside the chart where names are few and short.
    if (box.dataset.kind === "lines" && entries.length <= 24 && widest(entries.map((entry) => entry.name)) < 200) box.classList.add("beside");
    redraw();
    // In the next frame: a drawing has another height, of which the observer would be told while it tells.
    new ResizeObserver(() => {
      if (Math.floor(stage.clientWidth) !== drawnAt) requestAnimationFrame(redraw);
    }).observe(stage);
    return redraw;
  }

  // What has no width yet, as behind a closed fold in some browsers, is drawn by its observer when it has one.
  const redraws = [...document.querySelectorAll(".plot")].map(begin);

  // Nobody opens a fold on paper: those with figures or drawings are open there.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")].filter((fold) => fold.querySelector("table, svg"));
    for (const fold of opened) fold.open = true;
    for (const redraw of redraws) redraw();
  });
  addEventListener("afterprint", () => {
    for (const fold of opened) fold.open = false;
  });
  document.documentElement.dataset.drawn = document.querySelectorAll(".plot[data-drawn]").length;
})();
