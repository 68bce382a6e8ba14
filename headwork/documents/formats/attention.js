// Attention between tokens, words or patches of a picture: a layer, a head and a token are chosen by pointer or
// keyboard. The section may stand in a page or in the output of a notebook, so it is set up wherever it appears.
(() => {
  "use strict";
  const SVG = document.querySelector(".attention-view svg")?.namespaceURI;
  const element = (name, attributes = {}, text = "") => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)}%`;

  class View {
    constructor(root) {
      this.root = root;
      this.data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
      const { layers, labels, grid, start } = this.data;
      this.count = labels.length;
      this.before = grid ? this.count - grid[0] * grid[1] : 0;
      this.weights = layers.map(({ bytes }) => new Uint16Array(Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0)).buffer));
      [this.layer, this.head, this.token] = start;
      this.side = "query";
      this.pin = this.token;
      this.thumbnails = [];
      this.detail = root.querySelector(".detail svg");
      this.drawHeads();
      this.drawDetail();
      this.listen();
      this.show();
    }

    weight(layer, head, query, key) {
      return (this.weights[layer][(head * this.count + query) * this.count + key] / 65535) * this.data.most;
    }

    // What a head gives each token: from or to the chosen one, or on average where none is chosen.
    row(layer, head, side = this.side) {
      return Array.from({ length: this.count }, (_, other) => {
        if (this.token !== null) {
          return side === "query" ? this.weight(layer, head, this.token, other) : this.weight(layer, head, other, this.token);
        }
        let sum = 0;
        for (let query = 0; query < this.count; query += 1) sum += this.weight(layer, head, query, other);
        return sum / this.count;
      });
    }

    // --- drawn once -----------------------------------------------------------------------------------
    squares(svg, title) {
      const { grid, picture, labels } = this.data;
      if (grid) {
        const [rows, columns] = grid;
        if (picture) svg.append(element("image", { href: picture, width: columns, height: rows, preserveAspectRatio: "none" }));
        return labels.map((label, i) => {
          const at = i - this.before;
          const box = at < 0 ? { x: i * (columns / this.before), y: -1, width: columns / this.before, height: 0.8 }
            : { x: at % columns, y: Math.floor(at / columns), width: 1, height: 1 };
          const square = element("rect", { ...box, class: "tint" });
          if (title) square.append(element("title", {}, at < 0 ? label : `patch ${label}`));
          svg.append(square);
          return square;
        });
      }
      return labels.map((label, i) => {
        const square = element("rect", { x: i, y: 0, width: 1, height: 6, class: "tint" });
        svg.append(square);
        return square;
      });
    }

    drawHeads() {
      const { layers, grid, heads } = this.data;
      const place = this.root.querySelector(".heads");
      layers.forEach(({ path, count }, layer) => {
        const row = document.createElement("div");
        row.className = "row";
        const name = document.createElement("span");
        name.textContent = path;
        row.append(name);
        for (let head = 0; head < count; head += 1) {
          const button = document.createElement("button");
          button.type = "button";
          button.setAttribute("aria-label", `${path}, head ${head}`);
          button.title = `${path}, head ${head}${heads[layer][head] ? `: ${heads[layer][head]}` : ""}`;
          const svg = element("svg", {
            viewBox: grid ? `0 ${this.before ? -1 : 0} ${grid[1]} ${grid[0] + (this.before ? 1 : 0)}` : `0 0 ${this.count} 6`,
            "aria-hidden": "true", ...(grid ? {} : { preserveAspectRatio: "none" }),
          });
          this.thumbnails.push({ layer, head, button, squares: this.squares(svg, false) });
          button.append(svg);
          button.addEventListener("click", () => this.choose({ layer, head }));
          row.append(button);
        }
        place.append(row);
      });
    }

    drawDetail() {
      const { grid, labels } = this.data;
      const svg = this.detail;
      svg.replaceChildren();
      this.lines = element("g", { class: "lines" });
      if (grid) {
        svg.setAttribute("viewBox", `-0.1 ${this.before ? -1.2 : -0.1} ${grid[1] + 0.2} ${grid[0] + (this.before ? 1.3 : 0.2)}`);
        this.squaresOfDetail = this.squares(svg, true);
        this.squaresOfDetail.forEach((square, i) => {
          square.dataset.token = i;
          if (i < this.before) svg.append(element("text", { x: Number(square.getAttribute("x")) + 0.2, y: -0.42, class: "small" }, labels[i]));
        });
        this.mark = element("rect", { class: "mark", width: 1, height: 1 });
        svg.append(this.lines, this.mark);
        return;
      }
      const height = 22;
      svg.setAttribute("viewBox", `0 0 440 ${height * this.count + 8}`);
      svg.append(this.lines);
      this.words = ["query", "key"].map((side, column) => labels.map((label, i) => {
        const group = element("g", { "data-token": i, "data-side": side, class: "word" });
        const short = label.length > 18 ? `${label.slice(0, 17)}…` : label;
        group.append(element("rect", { x: column ? 286 : 4, y: height * i + 4, width: 150, height: height - 2, rx: 3, class: "tint" }));
        group.append(element("text", { x: column ? 292 : 148, y: height * i + height * 0.85, "text-anchor": column ? "start" : "end" }, short));
        svg.append(group);
        return group;
      }));
    }

    // --- drawn whenever something else is chosen -------------------------------------------------------
    show() {
      const { layers, labels, grid, heads } = this.data;
      const rows = this.thumbnails.map(({ layer, head }) => this.row(layer, head));
      const most = Math.max(1e-9, ...rows.map((row) => Math.max(...row)));
      this.thumbnails.forEach(({ layer, head, button, squares }, i) => {
        squares.forEach((square, key) => { square.style.fillOpacity = rows[i][key] / most; });
        button.setAttribute("aria-pressed", layer === this.layer && head === this.head);
      });
      const row = this.row(this.layer, this.head);
      const largest = grid || this.token !== null ? most : this.data.most;
      for (const output of this.root.querySelectorAll(".scale output")) output.textContent = most.toPrecision(2);
      if (this.root.querySelector(".detail .scale")) this.root.querySelector(".detail .scale output").textContent = largest.toPrecision(2);
      const [layers_, heads_] = this.root.querySelectorAll("select");
      layers_.value = this.layer;
      if (heads_.length !== layers[this.layer].count) {
        heads_.replaceChildren(...Array.from({ length: layers[this.layer].count }, (_, head) => new Option(head, head)));
      }
      heads_.value = this.head;
      if (grid) this.showPatches(row, largest);
      else this.showWords(row, largest);
      const best = row.map((share, i) => [share, i]).sort((a, b) => b[0] - a[0]).slice(0, 3);
      const word = (i) => (grid && i >= this.before ? `patch ${labels[i]}` : grid ? labels[i] : `“${labels[i]}”`);
      const list = best.map(([share, i]) => `${word(i)} ${percent(share)}`).join(", ");
      const where = this.token === null ? "on average to" : this.side === "query" ? `from ${word(this.token)} to` : `to ${word(this.token)} from`;
      const more = heads[this.layer][this.head];
      this.root.querySelector(".said").textContent = `${layers[this.layer].path}, head ${this.head}: ${where} ${list}.${more ? ` ${more}.` : ""}`;
    }

    centre(i) {
      const box = this.squaresOfDetail[i];
      return ["x", "y"].map((axis, k) => Number(box.getAttribute(axis)) + Number(box.getAttribute(k ? "height" : "width")) / 2);
    }

    showPatches(row, most) {
      this.squaresOfDetail.forEach((square, i) => { square.style.fillOpacity = (0.9 * row[i]) / most; });
      this.mark.style.display = this.token === null ? "none" : "";
      this.lines.replaceChildren();
      if (this.token === null) return;
      for (const name of ["x", "y", "width", "height"]) this.mark.setAttribute(name, this.squaresOfDetail[this.token].getAttribute(name));
      const [x1, y1] = this.centre(this.token);
      row.forEach((share, i) => {
        if (i === this.token || share < 0.08 * most) return;
        const [x2, y2] = this.centre(i);
        this.lines.append(element("line", { x1, y1, x2, y2, style: `stroke-width:${0.02 + (0.1 * share) / most};stroke-opacity:${0.3 + (0.7 * share) / most}` }));
      });
    }

    showWords(row, most) {
      const pieces = [];
      for (let query = 0; query < this.count; query += 1) {
        for (let key = 0; key < this.count; key += 1) {
          if (this.token !== null && (this.side === "query" ? query : key) !== this.token) continue;
          const share = this.weight(this.layer, this.head, query, key);
          if (share < 0.02 * most) continue;
          const [y1, y2] = [query, key].map((i) => 22 * i + 15);
          pieces.push(element("line", { x1: 156, y1, x2: 284, y2, "stroke-opacity": (share / most).toFixed(3) }));
        }
      }
      this.lines.replaceChildren(...pieces);
      this.words.forEach((column, side) => column.forEach((word, i) => {
        const chosen = this.token === i && (side === 0) === (this.side === "query");
        const tinted = this.token !== null && (side === 1) === (this.side === "query");
        word.classList.toggle("chosen", chosen);
        word.firstChild.style.fillOpacity = tinted ? (0.6 * row[i]) / most : 0;
      }));
    }

    // --- chosen -----------------------------------------------------------------------------------------
    choose(change) {
      Object.assign(this, change);
      this.head = Math.min(this.head, this.data.layers[this.layer].count - 1);
      this.show();
    }

    listen() {
      const [layers, heads] = this.root.querySelectorAll("select");
      layers.addEventListener("change", () => this.choose({ layer: Number(layers.value) }));
      heads.addEventListener("change", () => this.choose({ head: Number(heads.value) }));
      const at = (event) => event.target.closest?.("[data-token]");
      this.detail.addEventListener("pointerover", (event) => {
        const place = at(event);
        if (!place || event.pointerType === "touch") return;
        this.choose({ token: Number(place.dataset.token), side: place.dataset.side || "query" });
      });
      this.detail.addEventListener("pointerleave", () => this.choose({ token: this.pin, side: this.pinned || "query" }));
      this.detail.addEventListener("click", (event) => {
        const place = at(event);
        if (!place) return;
        const token = Number(place.dataset.token);
        const side = place.dataset.side || "query";
        const again = this.pin === token && (this.pinned || "query") === side && !this.data.grid;
        this.pinned = side;
        this.pin = again ? null : token;
        this.choose({ token: this.pin, side });
      });
      this.detail.addEventListener("keydown", (event) => {
        if (event.altKey || event.ctrlKey || event.metaKey) return;
        const columns = this.data.grid ? this.data.grid[1] : 1;
        const steps = { ArrowUp: -columns, ArrowDown: columns, ...(this.data.grid ? { ArrowLeft: -1, ArrowRight: 1 } : {}) };
        const side = { ArrowLeft: "query", ArrowRight: "key" }[event.key];
        if (event.key in steps) {
          const here = this.pin ?? (steps[event.key] > 0 ? -steps[event.key] : this.count);
          this.pin = Math.max(0, Math.min(this.count - 1, here + steps[event.key]));
        } else if (event.key === "Escape") this.pin = null;
        else if (side && !this.data.grid) this.pinned = side;
        else if (event.key === "+" || event.key === "-") {
          const all = this.thumbnails.findIndex(({ layer, head }) => layer === this.layer && head === this.head);
          const { layer, head } = this.thumbnails[(all + (event.key === "+" ? 1 : -1) + this.thumbnails.length) % this.thumbnails.length];
          this.choose({ layer, head });
        } else return;
        event.preventDefault();
        this.choose({ token: this.pin, side: this.pinned || "query" });
        this.words?.[0][this.pin ?? 0].scrollIntoView({ block: "nearest" });
      });
    }
  }

  for (const root of document.querySelectorAll(".attention-view:not([data-ready])")) {
    root.dataset.ready = "";
    new View(root);
  }
})();
