"use strict";
(() => {
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
