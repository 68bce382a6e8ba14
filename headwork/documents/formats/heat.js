// A heat map: a matrix that is too large for a table, one square for each cell, that can be zoomed.
class HeatMap {
  static SIDE = 260; // pixels of the longer side at first: four side by side
  static NUMBERS = 44; // pixels of a square that has room for its number

  constructor(canvas, first, record) {
    Object.assign(this, { canvas, record, marks: new Map(), position: null, stale: true });
    const { rows, columns, index } = canvas.dataset;
    this.pattern = JSON.parse(index);
    this.rows = Array.from({ length: rows }, (_, row) =>
      Array.from({ length: columns }, (_, column) => new MapCell(this, row, column, first + row * columns + column)));
    this.cells = this.rows.flat();
    this.position = this.cells[0];
    this.size = Math.max(3, Math.min(24, Math.floor(HeatMap.SIDE / Math.max(rows, columns))));
    const [out, into] = canvas.closest(".matrix").querySelectorAll(".zoom button");
    out.addEventListener("click", () => this.zoom(1 / 2));
    into.addEventListener("click", () => this.zoom(2));
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey) return;
      if (event.key === "+" || event.key === "=") this.zoom(2);
      if (event.key === "-") this.zoom(1 / 2);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
    this.resize();
    const see = () => {
      this.seen = true;
      this.paint();
    };
    // Painted when it is first seen: a page may have a hundred. On paper all of them are.
    new IntersectionObserver((seen, observer) => {
      if (!seen.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      see();
    }, { rootMargin: "300px" }).observe(canvas);
    window.addEventListener("beforeprint", see);
  }

  resize() {
    const [height, width] = [this.rows.length, this.rows[0].length].map((count) => count * this.size);
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.ratio = Math.min(devicePixelRatio || 1, 8192 / Math.max(width, height));
    Object.assign(this.canvas, { width: Math.round(width * this.ratio), height: Math.round(height * this.ratio) });
  }

  zoom(factor) {
    const most = Math.max(3, Math.min(64, 8192 / Math.max(this.rows.length, this.rows[0].length)));
    this.size = Math.max(2, Math.min(most, this.size * factor));
    this.resize();
    this.paint();
    this.reveal(this.position);
  }

  // The squares on a small canvas, one pixel for each; it is stretched when it is drawn.
  paint() {
    if (!this.seen) return;
    const style = getComputedStyle(this.canvas);
    const [cool, warm] = ["--cool", "--warm"].map((name) => style.getPropertyValue(name).trim().split(/\s+/).map(Number));
    this.ink = style.color;
    this.lit = style.getPropertyValue("--lit");
    const picture = new ImageData(this.rows[0].length, this.rows.length);
    const strongest = this.size >= HeatMap.NUMBERS ? 0.5 : 0.9;
    this.cells.forEach((cell, i) => {
      const heat = this.record(cell)[2];
      const colour = heat === "odd" ? [128, 128, 128, 90] : [...(heat < 0 ? warm : cool), 255 * (Math.abs(heat) * strongest + 0.025)];
      picture.data.set(colour, 4 * i);
    });
    this.small = new OffscreenCanvas(picture.width, picture.height);
    this.small.getContext("2d").putImageData(picture, 0, 0);
    this.stale = true;
    this.refresh();
  }

  refresh() {
    if (!this.stale || !this.small) return;
    this.stale = false;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const [width, height] = [this.rows[0].length * this.size, this.rows.length * this.size];
    pen.clearRect(0, 0, width, height);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.small, 0, 0, width, height);
    if (this.size >= HeatMap.NUMBERS) {
      Object.assign(pen, { fillStyle: this.ink, font: "12px system-ui, sans-serif", textAlign: "center", textBaseline: "middle" });
      for (const cell of this.cells) {
        pen.fillText(this.record(cell)[0], (cell.column + 0.5) * this.size, (cell.row + 0.5) * this.size, this.size - 4);
      }
    }
    for (const [cell, name] of this.marks) {
      pen.strokeStyle = name === "here" ? this.ink : this.lit;
      pen.lineWidth = name === "here" ? 3 : Math.min(2, this.size / 3);
      pen.strokeRect(cell.column * this.size + 0.5, cell.row * this.size + 0.5, this.size - 1, this.size - 1);
    }
  }

  // The cell under the pointer; for the keyboard, the one where it was left.
  cellAt(event) {
    if (!event.type.startsWith("pointer") && !(event.type === "click" && event.detail)) return this.position;
    const box = this.canvas.getBoundingClientRect();
    const [row, column] = [event.clientY - box.top, event.clientX - box.left].map((at) => Math.floor(at / this.size));
    return this.rows[row]?.[column] || null;
  }

  reveal(cell) {
    const frame = this.canvas.parentElement;
    const [x, y] = [cell.column * this.size, cell.row * this.size];
    frame.scrollLeft = Math.max(Math.min(frame.scrollLeft, x), x + this.size - frame.clientWidth);
    frame.scrollTop = Math.max(Math.min(frame.scrollTop, y), y + this.size - frame.clientHeight);
  }
}

class MapCell {
  constructor(map, row, column, number) { Object.assign(this, { map, row, column, number }); }
  mark(name, on) {
    if (on) this.map.marks.set(this, name);
    else this.map.marks.delete(this);
    this.map.stale = true;
  }
  focus(still) {
    this.map.position = this;
    this.map.canvas.focus({ preventScroll: still });
    if (!still) this.map.reveal(this);
  }
  // As the tables write numbers.
  static text(number, digits) {
    if (!Number.isFinite(number)) return Number.isNaN(number) ? "undefined" : number > 0 ? "∞" : "-∞";
    const size = Math.abs(number);
    if (Number.isInteger(number) && size < 1e15) return String(number);
    if (size >= 10 ** -digits && size < 1e15) return number.toFixed(digits);
    const short = Number(number.toPrecision(Math.max(digits - 3, 1)));
    return Math.abs(short) >= 1e-4 && size < 1 ? String(short) : short.toExponential().replace(/([+-])(\d)$/, "$10$2");
  }
  // A record for a cell whose arithmetic is not kept: its name and its number.
  plain(number) {
    const { symbol, scale, digits } = this.map.canvas.dataset;
    const within = [this.row, this.column].slice(-this.map.pattern.filter((at) => at === null).length);
    const index = this.map.pattern.map((at) => (at === null ? within.shift() : at));
    const decimal = MapCell.text(number, Number(digits));
    const heat = Number.isFinite(number) ? Math.max(-1, Math.min(1, number / (Number(scale) || 1))) : "odd";
    return [decimal, "", heat, `${symbol}[${index}] = ${decimal}`, "", []];
  }
}
