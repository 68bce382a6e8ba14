// The cells of every trace in the page: their arithmetic on hover, focus and tap, and the slider.
// A cell stands in a table or in a heat map (heat.js); both know their number and can be marked.
(() => {
  "use strict";
  const panel = document.createElement("div");
  panel.className = "arithmetic";
  panel.tabIndex = -1;
  panel.hidden = true;
  panel.setAttribute("role", "status");
  panel.setAttribute("aria-live", "polite");

  function tell(lines) {
    panel.replaceChildren(...lines.map(arithmeticLine));
    panel.hidden = lines.length === 0;
  }

  class TableCell {
    constructor(element, number) { Object.assign(this, { element, number }); }
    mark(name, on) { this.element.classList.toggle(name, on); }
    focus(still) {
      for (const other of this.element.closest("table").querySelectorAll("td[tabindex='0']")) other.tabIndex = -1;
      this.element.tabIndex = 0;
      this.element.focus({ preventScroll: still });
    }
    // What it shows, where its arithmetic is not kept.
    get line() {
      const table = this.element.closest("table");
      const row = this.element.parentElement.querySelector("th")?.textContent;
      const column = table.tHead?.rows[0].cells[this.element.cellIndex]?.textContent;
      const shown = [...this.element.children].map((part) => part.textContent).join(" = ") || this.element.textContent;
      return `${table.getAttribute("aria-label")} [${[row, column].filter(Boolean)}] = ${shown}`;
    }
    fill([decimal, exact, heat]) {
      const cell = this.element;
      if (exact && decimal) cell.innerHTML = `<span class="exact">${exact}</span><span class="decimal"></span>`;
      else if (exact) cell.innerHTML = exact;
      else cell.textContent = decimal;
      if (exact && decimal) cell.lastChild.textContent = decimal;
      cell.classList.toggle("odd", heat === "odd");
      cell.classList.toggle("below", heat < 0);
      if (typeof heat === "number") cell.style.setProperty("--heat", Math.abs(heat));
      else cell.style.removeProperty("--heat");
    }
  }

  function setUp(root) {
    const store = root.querySelector("script[type='application/json']");
    if (!store) return;
    const { records, frames, start, labels } = JSON.parse(store.textContent);
    let frame = frames[start];
    const numberOf = (cell) => {
      frame.values ??= new Float64Array(Uint8Array.from(atob(frame.numbers), (sign) => sign.charCodeAt(0)).buffer);
      return frame.values[cell.number];
    };
    const record = (cell) => records[frame.cells[cell.number]] || cell.plain(numberOf(cell));
    const cells = [];
    const places = new Map();
    for (const place of root.querySelectorAll(".options b, .matrix td:not(.gap), .matrix canvas")) {
      if (place.tagName === "CANVAS") {
        const map = new HeatMap(place, cells.length, record);
        places.set(place, map);
        cells.push(...map.cells);
      } else {
        places.set(place, cells[cells.push(new TableCell(place, cells.length)) - 1]);
      }
    }
    const maps = [...places.values()].filter((place) => place instanceof HeatMap);
    Flow.ofCells(root, cells, (cell) => record(cell)[5]);
    const rowsOf = (matrix) => {
      const rows = places.get(matrix.querySelector("canvas"))?.rows
        || [...matrix.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")].map((td) => places.get(td)));
      return rows.map((row) => row.map((cell) => [...record(cell), numberOf(cell)]));
    };
    for (const card of root.querySelectorAll(".card, .parameter")) copyButtons(card, rowsOf);
    const bar = root.querySelector(".bar");
    let shown = null;
    let pinned = null;
    let lit = [];

    function show(cell) {
      for (const other of lit) for (const name of ["lit", "here"]) other.mark(name, false);
      shown = cell;
      lit = [];
      if (cell) {
        const [, , , arithmetic, names, sources] = record(cell);
        lit = [cell, ...sources.map((number) => cells[number])];
        for (const other of lit.slice(1)) other.mark("lit", true);
        cell.mark("here", true);
        tell(names ? [names, arithmetic] : [arithmetic || cell.line]);
      } else {
        tell([]);
      }
      for (const map of maps) map.refresh();
    }
    function pin(cell) {
      pinned = cell;
      show(cell);
    }

    const cellAt = (event) => {
      const place = event.target instanceof Element && places.get(event.target.closest("td, canvas"));
      return place instanceof HeatMap ? place.cellAt(event) : place || null;
    };
    for (const moved of ["pointerover", "pointermove"]) {
      root.addEventListener(moved, (event) => {
        if (event.pointerType === "touch") return;
        const cell = cellAt(event) || pinned;
        if (cell !== shown) show(cell);
      });
    }
    root.addEventListener("pointerleave", () => { if (shown !== pinned) show(pinned); });
    root.addEventListener("focusin", (event) => {
      if (cellAt(event)) pin(cellAt(event));
    });
    // A cell stays while the slider moves, and while its arithmetic is read or copied.
    const keeps = (target) => panel.contains(target) || bar?.contains(target) || target.closest?.(".zoom");
    root.addEventListener("focusout", (event) => {
      if (pinned && event.relatedTarget && !keeps(event.relatedTarget)) pin(null);
    });
    document.addEventListener("click", (event) => {
      const cell = root.contains(event.target) ? cellAt(event) : null;
      if (cell) {
        cell.focus(true);
        pin(cell);
      } else if (pinned && !keeps(event.target)) pin(null);
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && shown) pin(null);
    });

    // One stop for Tab in each table; the arrow keys move within it.
    for (const table of root.querySelectorAll(".matrix table")) {
      table.setAttribute("role", "grid");
      table.querySelectorAll("td:not(.gap)").forEach((cell, i) => { cell.tabIndex = i ? -1 : 0; });
    }
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    root.addEventListener("keydown", (event) => {
      const cell = cellAt(event);
      if (!cell || event.altKey || event.ctrlKey || event.metaKey) return;
      const rows = cell.map?.rows
        || [...cell.element.closest("tbody").rows].map((row) => [...row.cells].filter((c) => c.tagName === "TD"));
      const here = cell.map ? cell : cell.element;
      let row = rows.findIndex((r) => r.includes(here));
      let column = rows[row].indexOf(here);
      if (event.key === "Home") column = 0;
      else if (event.key === "End") column = rows[row].length - 1;
      else if (!(event.key in steps)) return;
      event.preventDefault();
      const [down, right] = steps[event.key] || [0, 0];
      do {
        row += down;
        column += right;
      } while (rows[row]?.[column]?.classList?.contains("gap"));
      const next = rows[row]?.[column];
      if (!next) return;
      (places.get(next) || next).focus(false);
      if (next.map) pin(next);
    });

    const slider = root.querySelector(".slider input");
    if (!slider) return;
    const warnings = root.querySelector(".warnings");
    const title = root.querySelector(".title");
    function slide() {
      const before = frame;
      frame = frames[slider.value];
      root.querySelector(".slider output").textContent = labels[slider.value];
      slider.setAttribute("aria-valuetext", labels[slider.value]);
      for (const map of maps) map.paint();
      cells.forEach((cell, i) => {
        if (!cell.map && frame.cells[i] !== before.cells[i]) cell.fill(record(cell));
      });
      root.querySelectorAll(".card .formula").forEach((formula, i) => {
        if (frame.formulas[i] !== before.formulas[i]) formula.innerHTML = frame.formulas[i];
      });
      title.hidden = !frame.title;
      title.textContent = frame.title;
      warnings.hidden = frame.warnings.length === 0;
      warnings.replaceChildren(...frame.warnings.map((text) => {
        const li = document.createElement("li");
        li.textContent = text;
        return li;
      }));
      if (shown) show(shown);
    }
    slider.addEventListener("input", slide);
    if (Number(slider.value) !== start) slide(); // a browser may bring back where the slider was
  }

  // A link to what is folded unfolds it.
  function unfold() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  unfold();

  // On paper everything is unfolded.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const fold of folded) fold.open = true;
  });
  window.addEventListener("afterprint", () => { for (const fold of folded) fold.open = false; });

  document.body.append(panel);
  document.querySelectorAll(".headwork").forEach(setUp);
  // What scrolls sideways and holds nothing to stop at is a stop itself.
  const scrolling = new ResizeObserver((places) => {
    for (const { target } of places) target.tabIndex = target.scrollWidth > target.clientWidth ? 0 : -1;
  });
  for (const place of document.querySelectorAll(".scroll, pre, .formula")) {
    if (place.querySelector("[tabindex]")) continue;
    if (!place.matches(".formula")) Object.assign(place, { role: "region", ariaLabel: "scrolls sideways" });
    scrolling.observe(place);
  }
})();
