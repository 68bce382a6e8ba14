// Two further parts of "Look inside": from a logit down to the pixels, line by line; and which patches the prediction
// rests on, with how far to trust that.
class Descent {
  constructor(screen) {
    Object.assign(this, { screen, chain: [] });
    this.body = make("div.descent-body");
    this.list = make("ol.chain");
    this.state = make("p.hint");
    const start = make("button", { type: "button", onclick: () => this.start(screen.view?.start) }, "Start at the predicted logit");
    this.follow = make("button", { type: "button", onclick: () => this.followToInput() });
    this.title = make("h2");
    this.hint = make("p.hint");
    this.first = start;
    this.buttons = make("p.pad-buttons", {}, start, this.follow);
    this.root = make("section.descent", { "aria-label": "Down to what was given" }, this.title, this.hint, this.buttons, this.state, this.list, this.body);
    this.follow.hidden = true;
  }

  use({ takes, no_descent: not }) {
    const texts = takes === "texts";
    this.hint.textContent = not || "Every number is made of others: start at a logit, click a number in its line, and so on, down to the input or a trained parameter.";
    this.buttons.hidden = Boolean(not);
    this.chain = [];
    this.show();
    this.state.textContent = "";
    this.title.textContent = texts ? "Down to the tokens" : "Down to the pixels";
    this.follow.textContent = `Follow the largest part to a ${texts ? "token" : "pixel"}`;
  }

  // The picture has changed: these numbers are of the one before.
  outdated() {
    this.first.textContent = this.screen.view.classes.length ? "Start at the predicted logit" : "Start at the first number of the output";
    if (!this.chain.length) return;
    if (JSON.stringify(this.asked) === JSON.stringify(this.screen.request())) return;
    this.chain = [];
    this.show();
    this.state.textContent = "The input or the model has changed. Start again.";
  }

  async start(index) {
    if (!index || !this.screen.lab.canChange()) return;
    this.chain = [];
    this.asked = this.screen.request();
    this.state.textContent = "";
    await this.down(this.screen.view.logits, index);
    this.root.scrollIntoView({ block: "nearest", behavior: "smooth" });
  }

  async down(path, index) {
    const line = await this.screen.lab.backend.call("descend", { ...this.asked, path, index });
    if (line.error) { this.state.textContent = line.error.message; return null; }
    this.chain.push({ ...line, path, index });
    this.show();
    this.screen.lab.announce(`${line.title} is ${line.value}`);
    return line;
  }

  async followToInput() {
    this.stopped = false;
    for (let line = this.chain.at(-1); line?.follow && !this.stopped && this.chain.length < 200; line = await this.down(...line.follow)) { /* one line after the other */ }
    this.body.scrollIntoView({ block: "nearest" });
  }

  show() {
    this.list.replaceChildren(...this.chain.slice(0, -1).map(({ title, value }, i) => make("li", {}, make("button", { type: "button", onclick: () => { this.stopped = true; this.chain.length = i + 1; this.show(); } }, title), ` ${value}`)));
    const line = this.chain.at(-1);
    this.follow.hidden = !line?.follow;
    this.body.replaceChildren(...(line ? this.line(line) : []));
  }

  line({ kind, title, value, lines, terms, check, more, row }) {
    const parts = [make("h3", {}, title, make("b.value", {}, ` = ${value}`))];
    for (const text of lines) {
      const element = kind === "step" ? arithmeticLine(text) : make("p", {}, text);
      element.classList.add("worked-line");
      element.tabIndex = 0; // it scrolls
      parts.push(element);
    }
    if (check) parts.push(make("p.hint", {}, `✓ ${check}`));
    if (kind === "parameter") parts.push(make("p.hint", {}, "A trained parameter: here this way ends."));
    if (row !== undefined) parts.push(make("p.hint", {}, "A pixel of the picture: here this way ends."));
    if (terms.length) parts.push(this.terms(terms, more));
    return parts;
  }

  terms(terms, more) {
    const rows = terms.map((term) => this.term(term));
    const first = make("ol.terms", { "aria-label": terms.length > 1 ? "Terms, the largest first" : "What it comes from" }, ...rows.slice(0, 8));
    if (rows.length <= 8) return first;
    const rest = make("details", {}, make("summary", {}, `${rows.length - 8} smaller terms`), make("ol.terms", { start: 9 }, ...rows.slice(8)));
    return make("div", {}, first, rest, more ? make("p.hint", {}, `and ${more} more`) : null);
  }

  term({ text, value, share, cells }) {
    const button = (cell) => make("button", { type: "button", title: cell.title, "aria-label": `${cell.symbol} = ${cell.value}: ${cell.title}`, "data-kind": cell.kind, onclick: () => { this.stopped = true; this.down(cell.path, cell.index); } }, `${cell.symbol} = ${cell.value}`);
    const row = make("li", {}, make("span.term-value", {}, value), make("span.share-bar", { "aria-hidden": "true" }, make("i")), make("span.term-cells", {}, ...cells.slice(0, 60).map(button)));
    if (cells.length > 60) row.append(make("small", {}, ` and ${cells.length - 60} more`));
    row.style.setProperty("--share", share);
    row.title = text;
    row.classList.toggle("below", value.startsWith("-"));
    return row;
  }
}

class RelevanceView {
  constructor(screen) {
    this.screen = screen;
    this.button = make("button", { type: "button", onclick: () => this.work() }, "Work it out");
    this.state = make("p.hint", { role: "status" });
    this.maps = make("div.maps");
    this.root = make("section.relevance", { "aria-label": "What the prediction rests on" }, make("h2", {}, "What the prediction rests on"),
      make("p.hint", {}, "Pictures of relevance look convincing whether or not they are right. So each one is tested on this very picture against random ones, and the verdict stands beside it."),
      make("p.pad-buttons", {}, this.button), this.state, this.maps);
  }

  outdated(always = false) {
    if (!this.asked || (!always && JSON.stringify(this.asked) === JSON.stringify(this.screen.request()))) return;
    this.asked = null;
    this.maps.replaceChildren();
    this.state.textContent = "";
    this.button.disabled = false;
  }

  async work() {
    const { screen } = this;
    if (!screen.view || !screen.lab.canChange()) return;
    const asked = this.asked = screen.request();
    this.button.disabled = true;
    this.maps.replaceChildren();
    for (;;) {
      const answer = await screen.lab.backend.call("relevance", asked);
      if (this.asked !== asked) return;
      if (answer.error) { this.state.textContent = answer.error.message; break; }
      if (answer.done === 1) { this.show(answer); break; }
      this.state.textContent = `Hiding patches and asking the model again: ${answer.percent}`;
    }
    this.button.disabled = false;
  }

  show({ maps, words, notes }) {
    this.state.textContent = words;
    const { model, view, seenPicture } = this.screen;
    const figures = maps.map((map) => {
      const figure = make("figure.map", {}, make("h3", {}, map.title));
      if (seenPicture) {
        const canvas = make("canvas", { width: 168, height: 168, role: "img", "aria-label": `${map.title}: ${map.top}` });
        drawTints(canvas, seenPicture, textToBytes(map.positive), model.grid, 0);
        tintPatches(canvas, textToBytes(map.negative), model.grid, 0, "#3f8cff");
        figure.append(canvas);
      } else figure.append(this.words(map, view));
      figure.append(make("p", {}, make("b.verdict", { className: `verdict ${map.good}` }, map.verdict), `: ${map.evidence}.`), make("p.hint", {}, `${map.how}. Most: ${map.top}.`));
      return figure;
    });
    this.maps.replaceChildren(...figures, ...notes.map((text) => make("p.hint", {}, text)));
    this.screen.lab.announce(maps.map((map) => `${map.title}: ${map.verdict}`).join("; "));
  }

  words({ positive, parts }, { tokens }) {
    const bytes = textToBytes(positive);
    const line = make("p.tokens");
    tokens.forEach((word, token) => {
      const span = make("span", {}, word);
      const at = parts.indexOf(token);
      if (at >= 0) tint(span, bytes[at]);
      line.append(span, " ");
    });
    return line;
  }

  close() { this.asked = null; }
}
