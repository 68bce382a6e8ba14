// Blocks x heads as small pictures, and one of them large: where a token looks. Tints come from Python as bytes.
const AMBER = "#ffab00";
const STRIP = 6; // dots of the class token's strip
const hex = (byte) => byte.toString(16).padStart(2, "0");

// A word on a tint; on a strong one its letters are dark.
function tint(element, byte) {
  element.style.setProperty("--tint", AMBER + hex(byte));
  element.classList.toggle("strong", byte > 96);
}

// The picture with each patch tinted; above it, where there is one, the class token as a strip.
function drawTints(canvas, picture, tints, grid, before) {
  const strip = before ? STRIP : 0;
  canvas.height = canvas.width + strip;
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.fillStyle = "#000";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.globalAlpha = 0.75;
  context.drawImage(picture, 0, strip, canvas.width, canvas.width);
  context.globalAlpha = 1;
  tintPatches(canvas, tints, grid, before, AMBER);
}

function tintPatches(canvas, tints, grid, before, colour) {
  const context = canvas.getContext("2d");
  const cell = canvas.width / grid;
  const strip = before ? STRIP : 0;
  tints.forEach((byte, i) => {
    context.fillStyle = colour + hex(byte);
    const at = i - before;
    if (at < 0) context.fillRect((i * canvas.width) / before, 0, canvas.width / before, strip - 1);
    else context.fillRect((at % grid) * cell, strip + Math.floor(at / grid) * cell, cell, cell);
  });
}

class HeadGrid {
  // ``choose(block, head)``: a head, or "mean" for a whole block.
  constructor(choose) {
    this.choose = choose;
    this.root = make("div.heads", { role: "group", "aria-label": "Heads: one row per block" });
    this.root.addEventListener("keydown", (event) => this.key(event));
  }

  use(model) {
    this.model = model;
    this.buttons = [];
    const many = model.heads > 5;
    const rows = [make("div.head-row.titles", { "aria-hidden": "true" }, make("span", {}, many ? "head" : ""), ...Array.from({ length: model.heads }, (_, head) => make("span", {}, many ? String(head) : `head ${head}`)))];
    for (let block = 0; block < model.blocks; block += 1) {
      const title = make("button.block", { type: "button", onclick: () => this.choose(block, "mean"), "aria-label": `block ${block}, mean of its heads` }, `block ${block}`);
      const row = make("div.head-row", {}, title);
      for (let head = 0; head < model.heads; head += 1) {
        const picture = make("canvas", { width: 56, height: 62, "aria-hidden": "true" });
        const button = make("button.head", { type: "button", onclick: () => this.choose(block, head) }, picture, make("small", {}, ""));
        row.append(button);
        this.buttons.push(button);
      }
      rows.push(row);
    }
    this.root.replaceChildren(...rows);
    this.root.style.setProperty("--heads", model.heads);
    this.root.classList.toggle("many", many);
  }

  show(view, picture) {
    const { heads, grid } = this.model;
    view.heads.forEach((one, i) => {
      const button = this.buttons[i];
      const tints = textToBytes(one.tints);
      if (picture) drawTints(button.firstChild, picture, tints, grid, view.before);
      else drawStrip(button.firstChild, tints);
      button.lastChild.textContent = one.changed || one.most;
      button.classList.toggle("changed", Boolean(one.changed));
      const [block, head] = [Math.floor(i / heads), i % heads];
      button.setAttribute("aria-label", `head ${head} of block ${block}: ${one.words}${one.changed ? `, changed: ${one.changed}` : ""}`);
      button.title = `head ${head} of block ${block}: ${one.words}`;
    });
  }

  mark(block, head) {
    this.root.querySelectorAll("button").forEach((button) => { button.ariaPressed = "false"; });
    const row = this.root.querySelectorAll(".head-row:not(.titles)")[block];
    if (row) (head === "mean" ? row.firstChild : row.children[head + 1]).ariaPressed = "true";
  }

  key(event) {
    const all = [...this.root.querySelectorAll("button")];
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1 - this.model.heads, ArrowDown: 1 + this.model.heads };
    const next = all[all.indexOf(document.activeElement) + steps[event.key]];
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.click();
  }
}

// A text: its tokens side by side.
function drawStrip(canvas, tints) {
  Object.assign(canvas, { width: tints.length, height: 1 });
  const context = canvas.getContext("2d");
  tints.forEach((byte, i) => {
    context.fillStyle = AMBER + hex(byte);
    context.fillRect(i, 0, 1, 1);
  });
}

// One head, large: each patch can be pointed at, and chosen to see where it looks itself.
class HeadDetail {
  constructor(ask) {
    this.ask = ask; // ask(token): see where this token looks
    this.title = make("h2.head-title");
    this.patches = make("div.patches", { role: "group", "aria-label": "Patches of the picture" });
    this.words = make("p.head-words");
    this.tokenLine = make("p.head-one");
    this.root = make("section.head-detail", { "aria-label": "The chosen head" }, this.title, this.patches, this.tokenLine, this.words);
    this.patches.addEventListener("keydown", (event) => this.key(event));
    const say = (event) => { if (event.target.dataset?.token) this.say(Number(event.target.dataset.token)); };
    this.patches.addEventListener("pointerover", say);
    this.patches.addEventListener("focusin", say);
    this.patches.addEventListener("pointerleave", () => this.say(null));
  }

  use(model) {
    this.model = model;
    this.cells = [];
    this.patches.replaceChildren();
    if (!model.grid) return;
    this.picture = make("canvas.under", { "aria-hidden": "true" });
    this.patches.style.setProperty("--side", model.grid);
  }

  build(view) {
    const button = (token, kind) => {
      const element = make(`button.${kind}`, { type: "button", tabIndex: token ? -1 : 0, "data-token": token, onclick: () => this.ask(token) });
      this.cells[token] = element;
      return element;
    };
    this.cells = [];
    const first = Array.from({ length: view.before }, (_, token) => button(token, "class-token"));
    const squares = [];
    const put = (element, row, column) => { element.style.gridArea = `${row} / ${column}`; squares.push(element); };
    for (let row = 0; row < this.model.grid; row += 1) {
      put(make("span", { "aria-hidden": "true" }, String(row)), 2, row + 2);
      put(make("span", { "aria-hidden": "true" }, String(row)), row + 3, 1);
      for (let column = 0; column < this.model.grid; column += 1) put(button(this.cells.length, "patch"), row + 3, column + 2);
    }
    this.patches.replaceChildren(make("div.class-tokens", {}, ...first), this.picture, ...squares);
    if (!view.before) this.cells[0].tabIndex = 0;
  }

  show(view, picture, answer, query) {
    this.title.textContent = answer.name;
    this.words.textContent = answer.words;
    this.shares = answer.shares;
    this.query = query;
    this.say(null);
    if (!picture) return;
    if (this.cells.length !== view.tokens.length) this.build(view);
    Object.assign(this.picture, { width: picture.width, height: picture.height });
    this.picture.getContext("2d").drawImage(picture, 0, 0);
    const tints = textToBytes(answer.tints);
    this.cells.forEach((cell, token) => {
      tint(cell, tints[token]);
      if (token < view.before) cell.textContent = answer.shares[token];
      else cell.setAttribute("aria-label", answer.shares[token]);
      cell.title = answer.shares[token];
      cell.ariaPressed = String(String(token) === query);
    });
  }

  say(token) {
    const hint = this.model?.grid ? "Rows and columns count from 0. Click a patch to see where it looks." : "";
    this.tokenLine.textContent = token === null || !this.shares ? hint : this.shares[token];
  }

  key(event) {
    const { grid } = this.model;
    const here = Number(event.target.dataset?.token);
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid, ArrowDown: grid };
    if (!(event.key in steps)) return;
    const next = this.cells[here + steps[event.key]] || (event.key === "ArrowUp" ? this.cells[0] : null);
    event.preventDefault();
    if (!next) return;
    for (const cell of this.cells) cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

// A text: its tokens twice, and lines from those that look to those that are looked at.
class TextView {
  constructor(ask) {
    this.ask = ask;
    this.lines = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.lines.setAttribute("aria-hidden", "true");
    this.from = make("div.column", { role: "group", "aria-label": "Tokens that look" });
    this.to = make("div.column", { role: "group", "aria-label": "Tokens that are looked at" });
    this.root = make("div.text-view", {}, this.from, this.to);
    this.root.append(this.lines);
  }

  build(tokens) {
    if (tokens.join("\n") === this.tokens) return;
    this.tokens = tokens.join("\n");
    this.from.replaceChildren(...tokens.map((word, token) => make("button", { type: "button", onclick: () => this.ask(token) }, word)));
    this.to.replaceChildren(...tokens.map((word) => make("span", {}, word)));
  }

  show({ tints, shares }, query) {
    const bytes = textToBytes(tints);
    const box = this.root.getBoundingClientRect();
    const edge = (element, side) => { const own = element.getBoundingClientRect(); return [own[side] - box.left, (own.top + own.bottom) / 2 - box.top]; };
    const lines = [];
    const looking = query === "last" ? this.from.children.length - 1 : query;
    [...this.from.children].forEach((button, token) => { button.ariaPressed = String(String(token) === String(looking)); });
    [...this.to.children].forEach((word, token) => {
      tint(word, bytes[token]);
      word.title = shares[token];
      for (const from of query === "all" ? [] : [this.from.children[looking]]) {
        const [[x1, y1], [x2, y2]] = [edge(from, "right"), edge(word, "left")];
        const line = document.createElementNS(this.lines.namespaceURI, "line");
        for (const [name, value] of Object.entries({ x1, y1, x2, y2, stroke: AMBER + hex(bytes[token]) })) line.setAttribute(name, value);
        lines.push(line);
      }
    });
    this.lines.replaceChildren(...lines);
  }
}
