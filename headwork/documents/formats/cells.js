// The cells of every trace in the page: their arithmetic on hover, focus and tap, and the slider.
(() => {
  "use strict";
  const panel = document.createElement("div");
  panel.className = "arithmetic";
  panel.tabIndex = -1;
  panel.hidden = true;
  panel.setAttribute("role", "status");
  panel.setAttribute("aria-live", "polite");

  function tell(lines) {
    panel.replaceChildren(...lines.map((line) => {
      const p = document.createElement("p");
      p.textContent = line;
      return p;
    }));
    panel.hidden = lines.length === 0;
  }

  function setUp(root) {
    const store = root.querySelector("script[type='application/json']");
    if (!store) return;
    const { records, frames, start, labels } = JSON.parse(store.textContent);
    const cells = [...root.querySelectorAll(".options b, .matrix td:not(.gap)")];
    const numbers = new Map(cells.map((cell, number) => [cell, number]));
    const bar = root.querySelector(".bar");
    let frame = frames[start];
    let shown = null;
    let pinned = null;
    let lit = [];

    function show(cell) {
      for (const other of lit) other.classList.remove("lit", "here");
      shown = cell;
      lit = [];
      if (!cell) return tell([]);
      const [, , , arithmetic, names, sources] = records[frame.cells[numbers.get(cell)]];
      lit = [cell, ...sources.map((number) => cells[number])];
      for (const other of lit.slice(1)) other.classList.add("lit");
      cell.classList.add("here");
      tell(names ? [names, arithmetic] : [arithmetic]);
    }
    function pin(cell) {
      pinned = cell;
      show(cell);
    }

    const cellAt = (target) => {
      const cell = target instanceof Element && target.closest("td");
      return cell && numbers.has(cell) ? cell : null;
    };
    root.addEventListener("pointerover", (event) => {
      if (event.pointerType === "touch") return;
      const cell = cellAt(event.target) || pinned;
      if (cell !== shown) show(cell);
    });
    root.addEventListener("pointerleave", () => { if (shown !== pinned) show(pinned); });
    root.addEventListener("focusin", (event) => {
      if (cellAt(event.target)) pin(cellAt(event.target));
    });
    // A cell stays while the slider moves, and while its arithmetic is read or copied.
    const keeps = (target) => panel.contains(target) || bar?.contains(target);
    root.addEventListener("focusout", (event) => {
      if (pinned && event.relatedTarget && !keeps(event.relatedTarget)) pin(null);
    });
    document.addEventListener("click", (event) => {
      const cell = root.contains(event.target) ? cellAt(event.target) : null;
      if (cell) move(cell, true);
      else if (pinned && !keeps(event.target)) pin(null);
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && shown) pin(null);
    });

    // One stop for Tab in each table; the arrow keys move within it.
    for (const table of root.querySelectorAll(".matrix table")) {
      table.setAttribute("role", "grid");
      table.querySelectorAll("td:not(.gap)").forEach((cell, i) => { cell.tabIndex = i ? -1 : 0; });
    }
    function move(cell, still) {
      for (const other of cell.closest("table").querySelectorAll("td[tabindex='0']")) other.tabIndex = -1;
      cell.tabIndex = 0;
      cell.focus({ preventScroll: still });
    }
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    root.addEventListener("keydown", (event) => {
      const cell = cellAt(event.target);
      if (!cell || event.altKey || event.ctrlKey || event.metaKey) return;
      const rows = [...cell.closest("tbody").rows].map((row) => [...row.cells].filter((c) => c.tagName === "TD"));
      let row = rows.findIndex((r) => r.includes(cell));
      let column = rows[row].indexOf(cell);
      if (event.key === "Home") column = 0;
      else if (event.key === "End") column = rows[row].length - 1;
      else if (!(event.key in steps)) return;
      event.preventDefault();
      const [down, right] = steps[event.key] || [0, 0];
      do {
        row += down;
        column += right;
      } while (rows[row]?.[column]?.classList.contains("gap"));
      if (rows[row]?.[column]) move(rows[row][column], false);
    });

    function fill(cell, [decimal, exact, heat]) {
      if (exact && decimal) cell.innerHTML = `<span class="exact">${exact}</span><span class="decimal"></span>`;
      else if (exact) cell.innerHTML = exact;
      else cell.textContent = decimal;
      if (exact && decimal) cell.lastChild.textContent = decimal;
      cell.classList.toggle("odd", heat === "odd");
      cell.classList.toggle("below", heat < 0);
      if (typeof heat === "number") cell.style.setProperty("--heat", Math.abs(heat));
      else cell.style.removeProperty("--heat");
    }

    const slider = root.querySelector(".slider input");
    if (!slider) return;
    const warnings = root.querySelector(".warnings");
    const title = root.querySelector(".title");
    function slide() {
      const before = frame;
      frame = frames[slider.value];
      root.querySelector(".slider output").textContent = labels[slider.value];
      slider.setAttribute("aria-valuetext", labels[slider.value]);
      cells.forEach((cell, i) => {
        if (frame.cells[i] !== before.cells[i]) fill(cell, records[frame.cells[i]]);
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

  // A link to what is folded unfolds it, and so does printing.
  function unfold() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  unfold();

  document.body.append(panel);
  document.querySelectorAll(".headwork").forEach(setUp);
})();
