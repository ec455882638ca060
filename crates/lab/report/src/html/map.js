"use strict";
// Pictures of cells: blue below the level of their column, orange above, the paper's color at it.
(() => {
  const LABELS = 170, MOST_TALL = 900, LEAST_ROW = 1, MOST_ROW = 18;
  const BELOW = [0, 130, 200], ABOVE = [213, 94, 0], MISSING = 127;

  function begin(figure) {
    const canvas = figure.querySelector("canvas");
    const of = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    const raw = atob(of.cells);
    const cells = Int8Array.from(raw, (letter) => letter.charCodeAt(0));
    const wide = of.columns.length, tall = of.rows.length;
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    canvas.parentElement.append(tip);
    let place = null;

    // The row of a pixel line whose cell is furthest off.
    const worst = (from, to, column) => {
      let best = from, most = -1;
      for (let row = from; row < to; row++) {
        const value = cells[row * wide + column];
        const size = value === MISSING ? 0 : Math.abs(value);
        if (size > most) { most = size; best = row; }
      }
      return best;
    };

    function draw() {
      const width = Math.floor(canvas.parentElement.clientWidth);
      if (!width || !wide || !tall) return;
      const row = Math.max(LEAST_ROW, Math.min(MOST_ROW, Math.floor(MOST_TALL / tall)));
      const lines = Math.min(tall * row, MOST_TALL), column = width / wide;
      const ratio = window.devicePixelRatio || 1;
      canvas.width = width * ratio;
      canvas.height = (lines + LABELS) * ratio;
      canvas.style.width = "100%";
      canvas.style.height = lines + LABELS + "px";
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      const style = getComputedStyle(document.body);
      const paper = (style.getPropertyValue("--box").trim().match(/[0-9a-f]{2}/gi) || ["f4", "f6", "f8"]).map((hex) => parseInt(hex, 16));
      const color = (value) => {
        if (value === MISSING) return style.getPropertyValue("--line");
        const to = value < 0 ? BELOW : ABOVE, share = Math.min(1, Math.abs(value) / of.full);
        return `rgb(${paper.map((from, at) => Math.round(from + (to[at] - from) * share)).join(",")})`;
      };
      const rowsOf = (line) => {
        const from = Math.floor(line * tall / lines);
        return [from, Math.max(from + 1, Math.floor((line + 1) * tall / lines))];
      };
      for (let line = 0; line < lines; line++) {
        const [from, to] = rowsOf(line);
        for (let at = 0; at < wide; at++) {
          pen.fillStyle = color(cells[worst(from, to, at) * wide + at]);
          pen.fillRect(at * column, line, Math.max(column - (column > 4 ? 1 : 0), 0.5), 1);
        }
      }
      pen.fillStyle = style.getPropertyValue("--dim");
      pen.font = "11px " + style.fontFamily;
      const every = Math.max(1, Math.ceil(13 / column));
      for (let at = 0; at < wide; at += every) {
        pen.save();
        pen.translate((at + 0.5) * column + 4, lines + 8);
        pen.rotate(Math.PI / 2);
        pen.textAlign = "left";
        const text = of.columns[at];
        pen.fillText(text.length > 26 ? text.slice(0, 25) + "…" : text, 0, 4);
        pen.restore();
      }
      place = { width, lines, column, rowsOf };
      canvas.dataset.drawn = "1";
    }

    function show(x, y) {
      if (!place || y < 0 || y >= place.lines || x < 0 || x >= place.width) { tip.hidden = true; return; }
      const at = Math.min(wide - 1, Math.floor(x / place.column));
      const [from, to] = place.rowsOf(Math.floor(y));
      const row = worst(from, to, at), value = cells[row * wide + at];
      const says = value === MISSING ? "no figure" : `${value < 0 ? "−" : "+"}${(Math.abs(Math.expm1(value * of.step)) * 100).toFixed(1)} %`;
      tip.replaceChildren();
      const name = document.createElement("strong");
      name.textContent = of.rows[row] + (to - from > 1 ? ` (of ${to - from} here)` : "");
      const rest = document.createElement("span");
      rest.textContent = `${of.columns[at]}: ${says}`;
      tip.append(name, rest);
      tip.hidden = false;
      tip.style.left = Math.max(0, Math.min(x + 12, place.width - tip.offsetWidth)) + "px";
      tip.style.top = y + 14 + "px";
    }
    canvas.addEventListener("pointermove", (event) => show(event.offsetX, event.offsetY));
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
    draw();
    new ResizeObserver(() => {
      if (!place || Math.floor(canvas.parentElement.clientWidth) !== place.width) requestAnimationFrame(draw);
    }).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }
  document.querySelectorAll("figure.map").forEach(begin);
})();
