// A grid of cells to fill in, with the keys of a spreadsheet. The page of answers and the lab share it.
// ``label(i, j)`` names a cell for those who hear it, ``changed(i, j)`` and ``pasted(event, i, j)`` tell of a change;
// with ``headers`` rows and columns are numbered from 0.
class Grid {
  constructor(rows, columns, { label, changed, pasted, headers = false }) {
    this.table = document.createElement("table");
    this.table.className = "cells";
    const heading = (row, text) => row.appendChild(Object.assign(document.createElement("th"), { textContent: text }));
    if (headers) {
      const head = this.table.createTHead().insertRow();
      for (let j = -1; j < columns; j++) heading(head, j < 0 ? "" : j);
    }
    const body = this.table.createTBody();
    this.cells = Array.from({ length: rows }, (_, i) => {
      const row = body.insertRow();
      if (headers) heading(row, i);
      return Array.from({ length: columns }, (_, j) => {
        const cell = document.createElement("input");
        Object.assign(cell, { type: "text", autocomplete: "off", spellcheck: false, inputMode: "text", maxLength: 300 });
        cell.setAttribute("aria-label", label(i, j));
        cell.addEventListener("focus", () => { cell.before = cell.value; });
        cell.addEventListener("input", () => changed(i, j));
        cell.addEventListener("paste", (event) => pasted(event, i, j));
        cell.addEventListener("keydown", (event) => this.move(event, i, j, changed));
        row.insertCell().append(cell);
        return cell;
      });
    });
  }

  get all() { return this.cells.flat(); }

  // Enter and the arrows go from cell to cell, to the sides from the ends of what stands there; Escape brings back
  // what stood there before.
  move(event, i, j, changed) {
    const box = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && box.value !== box.before) { box.value = box.before; changed(i, j); return; }
    const whole = box.selectionStart === 0 && box.selectionEnd === box.value.length;
    const at = box.selectionStart === box.selectionEnd ? box.selectionStart : null;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], Enter: [event.shiftKey ? -1 : 1, 0] };
    if (whole || at === 0) steps.ArrowLeft = [0, -1];
    if (whole || at === box.value.length) steps.ArrowRight = [0, 1];
    if (!(event.key in steps) || (event.shiftKey && event.key !== "Enter")) return;
    if (event.key === "Enter") event.preventDefault();
    const [down, right] = steps[event.key];
    const next = this.cells[i + down]?.[j + right] || (event.key === "Enter" && down > 0 && this.cells[0][j + 1]);
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.select();
  }
}
