// The canvas: cards in columns from left to right, cells that can be pointed at and typed into. It draws what Python
// answers and compares texts; it computes no numbers.
class Canvas {
  // ``host`` has: point([path, index], "over" or "pin"); canEdit, typed, startEditing, type, finish and undoEdit for
  // typing; resize and paste for whole inputs.
  constructor(root, host) {
    Object.assign(this, { root, host, cells: new Map(), cards: new Map(), here: null, lit: [], editor: null });
    root.classList.add("headwork", "flow");
    this.listen();
  }

  static key(path, index) { return `${path}\n${index}`; }
  cell(path, index) { return this.cells.get(Canvas.key(path, index)); }

  // --- drawing ---------------------------------------------------------------------------------------------
  show(view) {
    this.view = view;
    const shape = JSON.stringify(view.values.map(({ path, column, matrices, formula }) => [path, column, formula, matrices.map((m) => m.index)]));
    if (shape === this.shape) this.update(view);
    else this.build(view);
    this.shape = shape;
    if (this.isCut()) this.root.classList.add("deep"); // in rows below each other rather than cut off
    this.flow?.draw(); // a number may have made its card wider
  }

  isCut() { return [...this.root.querySelectorAll(".scroll")].some((box) => box.scrollWidth > box.clientWidth + 1); }

  build(view) {
    this.stopEditing();
    this.cells.clear();
    this.cards.clear();
    const columns = [];
    for (const value of view.values) (columns[value.column] ||= []).push(value);
    this.root.replaceChildren(...columns.map((values) => make("div.column", {}, ...values.map((value) => this.card(value)))));
    this.root.classList.toggle("deep", columns.length > 8);
    this.root.classList.toggle("few", columns.length < 4);
    this.here = null;
    this.lit = [];
    const before = new Map(view.values.map((v) => [this.cards.get(v.path), new Set(v.from.map((s) => this.cards.get(s)).filter(Boolean))]));
    this.flow?.stop();
    this.flow = view.values.length > Flow.MOST ? null : new ColumnFlow(this.root, before);
  }

  card(value) {
    const name = value.path.split("/").at(-1);
    const card = make("section.card", { "data-path": value.path });
    if (value.input) card.classList.add("input", ...(value.column ? ["trained"] : []));
    const formula = make("h3.formula");
    formula.innerHTML = value.formula; // MathML that Python made of the card
    card.append(formula, make("p.name", {}, make("b", {}, value.path.includes("/") ? value.path : name), ` ${value.size.split(" (")[0]}`));
    const matrices = make("div.matrices");
    for (const matrix of value.matrices) matrices.append(this.matrix(value, matrix));
    card.append(matrices);
    if (!value.whole) card.append(make("p.hint", {}, "Shown in part; export it to see the whole."));
    if (value.axes && Array.isArray(value.typed)) card.append(this.sizes(value));
    this.cards.set(value.path, card);
    copyButtons(card, (place) => [...place.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")].map((td) => td.entry)));
    return card;
  }

  matrix(value, matrix) {
    const two = matrix.axes.length > 1;
    const word = (axis) => axis.replaceAll("_", " ");
    const label = `${value.path}${matrix.caption ? `, ${matrix.caption}` : ""}`;
    const head = make("tr", {}, make("th.corner", { title: two ? `${word(matrix.axes[0])} down, ${word(matrix.axes[1])} across` : "" }));
    for (const column of matrix.columns) head.append(make("th", { scope: "col" }, column === null ? "…" : String(column)));
    const body = make("tbody");
    matrix.cells.forEach((row, i) => {
      const line = make("tr", {}, two ? make("th", { scope: "row" }, matrix.rows[i] === null ? "…" : String(matrix.rows[i])) : make("th"));
      row.forEach((entry, j) => line.append(entry ? this.td(value, matrix.index[i][j], entry) : make("td.gap", {}, "…")));
      body.append(line);
    });
    const table = make("table", { role: "grid", "aria-label": label }, make("thead", {}, head), body);
    const first = table.querySelector("td:not(.gap)");
    if (first) first.tabIndex = 0;
    return make("div.matrix", {}, matrix.caption ? make("p.caption", {}, matrix.caption) : null, make("div.scroll", {}, table));
  }

  td(value, index, entry) {
    const td = make("td", { tabIndex: -1, "data-path": value.path, "data-index": index });
    this.cells.set(Canvas.key(value.path, index), td);
    td.classList.toggle("edited", value.edited.includes(index));
    this.fill(td, entry);
    return td;
  }

  fill(td, entry) {
    const [decimal, exact, heat] = td.entry = entry;
    td.classList.toggle("odd", heat === "odd");
    td.classList.toggle("below", heat < 0);
    if (typeof heat === "number") td.style.setProperty("--heat", String(heat).replace("-", ""));
    else td.style.removeProperty("--heat");
    if (td.contains(this.editor)) return;
    if (exact && decimal) {
      td.replaceChildren(make("span.exact"), make("span.decimal", {}, decimal));
      td.firstChild.innerHTML = exact; // MathML that Python made of a number
    } else if (exact) td.innerHTML = exact;
    else td.textContent = decimal;
  }

  update(view) {
    let moved = 0;
    for (const value of view.values) {
      for (const matrix of value.matrices) {
        matrix.cells.forEach((row, i) => row.forEach((entry, j) => {
          if (!entry) return;
          const td = this.cell(value.path, matrix.index[i][j]);
          td.classList.toggle("edited", value.edited.includes(matrix.index[i][j]));
          if (td.entry[0] === entry[0] && td.entry[1] === entry[1] && td.entry[2] === entry[2]) {
            td.entry = entry;
            return;
          }
          const differs = td.entry[0] !== entry[0] || td.entry[1] !== entry[1];
          this.fill(td, entry);
          if (!differs || td.contains(this.editor)) return;
          moved += 1;
          td.classList.remove("moved");
          void td.offsetWidth; // so that the mark begins again
          td.classList.add("moved");
        }));
      }
    }
    return moved;
  }

  // Buttons for one more or one fewer along each axis of an input.
  sizes(value) {
    const line = make("p.sizes");
    value.axes.forEach((axis, i) => {
      const word = axis.replaceAll("_", " ");
      const button = (by, sign, words) => make("button", { type: "button", "aria-label": `${words} ${word} in ${value.path}`, onclick: () => this.host.resize(value.path, i, by) }, sign);
      line.append(make("span", {}, `${word} `, button(-1, "−", "one fewer"), button(1, "+", "one more")));
    });
    return line;
  }

  // --- pointing --------------------------------------------------------------------------------------------
  mark(path, index, sources) {
    for (const td of this.lit) td.classList.remove("lit", "here");
    const td = path === null ? null : this.cell(path, index);
    this.here = td;
    this.lit = td ? [td, ...sources.map(([name, i]) => this.cell(name, i)).filter(Boolean)] : [];
    for (const other of this.lit.slice(1)) other.classList.add("lit");
    td?.classList.add("here");
    this.flow?.light(td?.closest(".card") || null);
  }

  listen() {
    const { root } = this;
    const at = (event) => event.target.closest?.("td[data-path]");
    const ask = (td, kind) => this.host.point(td ? [td.dataset.path, td.dataset.index] : null, kind);
    root.addEventListener("pointerover", (event) => { if (event.pointerType !== "touch" && !this.editor) ask(at(event), "over"); });
    root.addEventListener("pointerleave", () => { if (!this.editor) ask(null, "over"); });
    root.addEventListener("focusin", (event) => { if (at(event)) ask(at(event), "pin"); });
    root.addEventListener("click", (event) => {
      const td = at(event);
      if (!td || td.contains(this.editor)) return;
      this.focus(td);
      ask(td, "pin");
      if (td.closest(".card").classList.contains("input")) this.edit(td);
    });
    root.addEventListener("dblclick", (event) => { if (at(event)) this.edit(at(event)); });
    root.addEventListener("keydown", (event) => this.key(event, at(event)));
    root.addEventListener("paste", (event) => {
      const td = at(event);
      const text = event.clipboardData?.getData("text/plain") || "";
      if (!td || !/[\t\n;&,]|\\begin|\[/.test(text.trim()) || !td.closest(".card").classList.contains("input")) return;
      event.preventDefault();
      this.stopEditing();
      this.host.paste(td.dataset.path, text);
    });
  }

  focus(td) {
    for (const other of td.closest("table").querySelectorAll("td[tabindex='0']")) other.tabIndex = -1;
    td.tabIndex = 0;
    td.focus({ preventScroll: true });
  }

  key(event, td) {
    if (!td || event.ctrlKey || event.metaKey || event.altKey) return;
    const editing = td.contains(this.editor);
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (editing) {
      if (event.key === "Escape") { event.preventDefault(); this.stopEditing(true); this.focus(td); return; }
      if (event.key === "Enter" || event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        this.stopEditing();
        const input = td.closest(".card").classList.contains("input");
        this.focus((input && this.beside(td, event.key === "ArrowUp" ? -1 : 1, 0)) || td);
      }
      return;
    }
    if (event.key in steps) {
      event.preventDefault();
      const next = this.beside(td, ...steps[event.key]) || this.acrossCards(td, steps[event.key][1]);
      if (next) this.focus(next);
    } else if (event.key === "Home" || event.key === "End") {
      event.preventDefault();
      const row = [...td.parentElement.querySelectorAll("td:not(.gap)")];
      this.focus(event.key === "Home" ? row[0] : row.at(-1));
    } else if (event.key === "Enter" || event.key === "F2") {
      event.preventDefault();
      this.edit(td);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      if (td.classList.contains("edited")) this.host.undoEdit(td.dataset.path, td.dataset.index);
      else this.edit(td, "");
    } else if (/^[-+.\d(a-zA-Z]$/.test(event.key)) {
      event.preventDefault();
      this.edit(td, event.key);
    }
  }

  beside(td, down, right) {
    const rows = [...td.closest("tbody").rows].map((row) => [...row.querySelectorAll("td")]);
    let row = rows.findIndex((r) => r.includes(td));
    let column = rows[row].indexOf(td);
    do { row += down; column += right; } while (rows[row]?.[column]?.classList.contains("gap"));
    return rows[row]?.[column];
  }

  // Beyond the first and last column: the same row of the card before or after.
  acrossCards(td, right) {
    const tables = [...this.root.querySelectorAll("table")];
    const table = right && tables[tables.indexOf(td.closest("table")) + right];
    if (!table) return null;
    const rows = [...table.tBodies[0].rows].map((row) => [...row.querySelectorAll("td:not(.gap)")]);
    const row = rows[Math.min(td.parentElement.sectionRowIndex, rows.length - 1)];
    return right > 0 ? row[0] : row.at(-1);
  }

  // --- typing ----------------------------------------------------------------------------------------------
  edit(td, start = null) {
    if (!td || td.contains(this.editor) || !this.host.canEdit()) return;
    this.stopEditing();
    const { path, index } = td.dataset;
    const now = this.host.typed(path, index, td.entry[0]);
    const box = make("input.editor", { type: "text", value: start ?? now, autocomplete: "off", spellcheck: false, "aria-label": `${path} ${index}` });
    box.before = now;
    this.host.startEditing();
    box.size = Math.max(2, box.value.length);
    td.replaceChildren(box);
    this.editor = box;
    box.addEventListener("input", () => {
      box.size = Math.max(2, box.value.length);
      this.host.type(path, index, box.value);
    });
    box.addEventListener("blur", () => { if (this.editor === box) this.stopEditing(); });
    box.focus({ preventScroll: true });
    if (start === null) box.select();
    else if (start !== "") this.host.type(path, index, box.value);
  }

  // ``back`` brings back what stood there before.
  stopEditing(back = false) {
    const box = this.editor;
    if (!box) return;
    const td = box.closest("td");
    this.editor = null;
    const text = box.value.trim();
    this.fill(td, td.entry);
    if (back || text === "") this.host.finish(td.dataset.path, td.dataset.index, null);
    else if (text !== box.before) this.host.finish(td.dataset.path, td.dataset.index, text);
  }

  // What is wrong, beside the cell or the card that it is about.
  showError(path, index, message) {
    this.root.querySelectorAll(".wrong").forEach((other) => other.classList.remove("wrong"));
    this.bubble?.remove();
    this.bubble = null;
    if (!message) return;
    const place = (index !== null && this.cell(path, index)) || this.cards.get(path) || null;
    place?.classList.add("wrong");
    this.bubble = make("p.bubble", { role: "alert" }, message);
    (place?.closest(".card") || this.root).append(this.bubble);
    place?.closest(".card")?.classList.add("wrong");
  }
}

// Arrows between columns: curves to the next column; what skips columns runs below the cards and then up.
class ColumnFlow extends Flow {
  static line(from, to, share) {
    const y = (from.top + from.bottom) / 2;
    if (from.right <= to.left) {
      const end = to.top + (0.25 + share / 2) * (to.bottom - to.top);
      if (to.left - from.right > 300 && (y > to.bottom || y < to.top)) {
        const x = (to.left + to.right) / 2;
        const [edge, tip] = y > to.bottom ? [to.bottom + 1, "m-4 5l4 -5l4 5"] : [to.top - 1, "m-4 -5l4 5l4 -5"];
        return `M${from.right} ${y}H${x - 12}Q${x} ${y} ${x} ${y > to.bottom ? y - 12 : y + 12}V${edge}${tip}`;
      }
      const bend = Math.min(40, (to.left - from.right) / 2);
      return `M${from.right} ${y}C${from.right + bend} ${y} ${to.left - bend} ${end} ${to.left - 1} ${end}m-5 -4l5 4l-5 4`;
    }
    // To a row below: down beside the cards of its column, along between the rows, and down into the card.
    if (to.top > from.bottom) {
      const [x, end, between] = [from.right + 8, to.left + (0.15 + 0.7 * share) * (to.right - to.left), to.top - 12];
      return `M${from.right} ${y}H${x - 6}Q${x} ${y} ${x} ${y + 6}V${between}H${end}V${to.top - 1}m-4 -5l4 5l4 -5`;
    }
    return super.line(from, to, share);
  }
}
