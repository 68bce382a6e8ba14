// The screen where one tries things: controls, the canvas, and below it what is seen now.
const NUMBER_FORMATS = ["decimal", "exact", "both"];

class TryScreen {
  constructor(root, lab) {
    Object.assign(this, { root, lab, undo: [], redo: [], pinned: null, hovered: null, format: "decimal" });
    this.explainCalls = new LatestOnly(lab.backend);
    this.cellCalls = new LatestOnly(lab.backend);
    this.chartCalls = new LatestOnly(lab.backend);
    this.bar = make("div.controls");
    this.flowRoot = make("div", { id: "canvas" });
    this.panel = this.makePanel();
    this.warnings = make("ul.warnings", { hidden: true });
    root.append(this.bar, this.flowRoot, this.panel, this.warnings);
    this.canvas = new Canvas(this.flowRoot, this);
    this.player = new Player(this);
    this.makeBar();
  }

  close() { this.player.close(); }

  // --- opening: an example, or what the address names ----------------------------------------------------------
  async open({ rest, state, more = {} }, look = null) {
    const list = await this.lab.mechanisms();
    const example = list.find((one) => one.slug === (rest || this.lab.first)) || list[0];
    this.fillPicker(list, example.slug);
    this.pointOut = state ? "" : example.point;
    this.undo = [];
    this.redo = [];
    this.setFormat(NUMBER_FORMATS.includes(more.show) ? more.show : example.state.exact ? "both" : "decimal");
    const fresh = state || structuredClone(example.state);
    this.pinned = more.at ? more.at.split("|") : look || example.look;
    await this.change({ ...fresh, ...(this.format === "decimal" ? {} : { exact: true }) }, { keep: false, opening: true });
    if (!this.view) await this.change(structuredClone(example.state), { keep: false });
  }

  fillPicker(list, slug) {
    const groups = new Map();
    for (const one of list) groups.set(one.group, [...(groups.get(one.group) || []), one]);
    this.picker.replaceChildren(...[...groups].map(([label, ones]) => make("optgroup", { label }, ...ones.map((one) => make("option", { value: one.slug }, one.slug.replaceAll("-", " "))))));
    this.picker.value = slug;
  }

  // --- one change of the state --------------------------------------------------------------------------------
  // ``edited`` names what is being changed, so that a drag or a word typed letter by letter is one step to undo.
  async change(state, { keep = true, edited = "", call = "explain", request = null, opening = false, quiet = false } = {}) {
    const before = this.latestState();
    const step = keep && this.state && !(edited && edited === this.lastEdited);
    if (step) {
      this.undo.push(before); // at once: the next key may be undo
      this.redo = [];
    }
    if (keep) this.lastEdited = edited;
    this.nextState = state;
    const answer = await this.explainCalls.ask(call, request || { state: this.stateToAsk(state) });
    if (answer === null) return null; // overtaken by a newer change
    if (answer.error) {
      this.nextState = this.state;
      if (step) this.undo.splice(this.undo.indexOf(before), 1);
      const { path, index, message } = answer.error;
      this.canvas.showError(path, index ? index.join(",") : null, message);
      this.lab.announce(message);
      if (opening) this.lab.notice(message);
      return false;
    }
    if (!quiet) this.canvas.showError(null);
    if (call !== "explain") this.nextState = null;
    this.state = { ...state, ...answer.state, ...(this.format === "decimal" ? {} : { exact: true }) };
    for (const part of ["edits", "options", "inputs"]) this.state[part] = answer.state[part] || {};
    this.view = answer;
    this.canvas.show(answer);
    this.showOptions(answer);
    const drag = answer.options.some((option) => option.kind === "slider") ? " drag β," : "";
    this.tip.textContent = `Type in a blue frame,${drag} or point at any number.`;
    this.sentence.textContent = answer.sentence;
    this.lab.announce(answer.sentence);
    this.warnings.replaceChildren(...answer.warnings.map((text) => make("li", {}, text)));
    this.warnings.hidden = answer.warnings.length === 0;
    this.updateButtons();
    this.lab.address("try", this.state, { show: this.format === "decimal" ? "" : this.format, at: this.pinned?.join("|") });
    await this.explainCell();
    return true;
  }

  // While something is dragged, decimals are enough.
  stateToAsk(state) {
    if (!this.dragging) return state;
    const { exact, ...quick } = state;
    return quick;
  }

  // --- what the canvas asks of its host -----------------------------------------------------------------------
  canEdit() { return this.lab.canChange(); }
  typed(path, index, decimal) {
    const input = this.state.inputs?.[path];
    if (input === undefined) return this.state.edits?.[path]?.[index] ?? (this.editText?.[0] === `${path} ${index}` ? this.editText[1] : decimal.replace("∞", "oo"));
    return index.split(",").filter(Boolean).reduce((part, i) => part[i], input);
  }

  latestState() { return structuredClone(this.nextState || this.state || null); }

  startEditing() { this.beforeEditing = this.state; }

  // What is typed letter by letter: numbers move the rest at once, words when the typing pauses.
  type(path, index, text) {
    clearTimeout(this.typeTimer);
    const set = () => this.set(path, index, text, `${path} ${index}`);
    if (/^[-+]?[\d.]+(\/\d+)?$/.test(text)) set();
    else if (text.trim()) this.typeTimer = setTimeout(set, 800);
  }

  // The end of typing. What cannot be used is said beside its cell, and what stood there before comes back.
  async finish(path, index, text) {
    clearTimeout(this.typeTimer);
    const before = this.beforeEditing;
    if (text === null) return this.change(before, { keep: false });
    const good = await this.set(path, index, text, `${path} ${index}`);
    this.lastEdited = "";
    if (good === false) await this.change(before, { keep: false, quiet: true });
  }

  set(path, index, text, edited) {
    const state = this.latestState();
    if (state.inputs?.[path] === undefined) state.edits = { ...state.edits, [path]: { ...state.edits?.[path], [index]: text } };
    else {
      const at = index.split(",").filter(Boolean);
      if (!at.length) state.inputs[path] = text;
      else at.slice(0, -1).reduce((part, i) => part[i], state.inputs[path])[at.at(-1)] = text;
    }
    return this.change(state, { edited });
  }

  async undoEdit(path, index) {
    const edits = structuredClone(this.state.edits);
    delete edits[path][index];
    if (!Object.keys(edits[path]).length) delete edits[path];
    return this.change({ ...this.state, edits });
  }

  async resize(path, axis, by) {
    if (!this.canEdit()) return;
    await this.change(this.state, { call: "resized", request: { state: this.state, name: path, axis, by } });
  }

  async paste(path, text) {
    if (!this.canEdit()) return;
    await this.change(this.state, { call: "pasted", request: { state: this.state, name: path, text } });
  }

  // --- pointing: one cell with its arithmetic -------------------------------------------------------------------
  point(place, kind) {
    if (kind === "pin") {
      // While an input is changed, what was looked at before stays in view and follows.
      const isInput = place && this.state.inputs?.[place[0]] !== undefined;
      if (isInput) this.lastInput = place;
      if (!isInput || !this.pinned) this.pinned = place;
      this.hovered = null;
      this.lab.address("try", this.state, { show: this.format === "decimal" ? "" : this.format, at: this.pinned?.join("|") });
    } else this.hovered = place;
    this.explainCell(kind === "pin" && this.pinned === place); // of an input, what is said is what it changes
  }

  async explainCell(chosen = false) {
    const place = this.hovered || this.pinned;
    const [path, index] = place || [];
    if (!place || !this.canvas.cell(path, index)) {
      this.canvas.mark(null);
      this.lines.replaceChildren(make("p.words", {}, this.pointOut));
      this.cellButtons.hidden = true;
      return;
    }
    this.marked = [path, index];
    const answer = await this.cellCalls.ask("cell", { state: this.stateToAsk(this.state), path, index });
    if (!answer || answer.error || !this.canvas.cell(path, index)) return;
    this.canvas.mark(path, index, answer.sources);
    this.editText = [`${path} ${index}`, answer.edit];
    const words = make("p.words", {}, answer.words.charAt(0).toUpperCase() + answer.words.slice(1), this.cellButtons);
    this.lines.replaceChildren(...[answer.names, answer.numbers].filter(Boolean).map(arithmeticLine), words);
    this.cellButtons.hidden = false;
    if (chosen) this.lab.announce(`${answer.numbers}. ${answer.words}`);
    this.unsetButton.hidden = !this.canvas.cell(path, index).classList.contains("edited");
    if (!this.hovered) this.chart(path, index);
  }

  // --- the small chart ---------------------------------------------------------------------------------------
  chart(path, index) {
    clearTimeout(this.chartTimer);
    const slider = this.view.options.find((option) => option.kind === "slider");
    const input = this.lastInput && this.canvas.cell(...this.lastInput) ? this.lastInput : null;
    const isInput = this.state.inputs?.[path] !== undefined;
    const varied = slider ? [slider.name, ""] : input;
    if (!varied || isInput || !this.lab.isReady) { this.chartBox.hidden = true; return; }
    const wait = this.lab.served ? 150 : 500;
    this.chartTimer = setTimeout(async () => {
      const answer = await this.chartCalls.ask("sensitivity", { state: this.state, path, index, of: varied[0], of_index: varied[1] });
      if (!answer) return;
      this.chartBox.hidden = Boolean(answer.error) || answer.flat;
      if (!answer.error) this.drawChart(answer, varied);
    }, wait);
  }

  symbol(path) { return this.view.values.find((value) => value.path === path)?.symbol || path; }

  drawChart({ points, at, x, y, words }, varied) {
    const [width, height] = [180, 70];
    const place = ([a, b]) => `${(a * width).toFixed(1)} ${((1 - b) * height).toFixed(1)}`;
    const picture = `<svg viewBox="-4 -4 ${width + 8} ${height + 8}" role="img"><path d="M${points.map(place).join("L")}"></path>${
      at === null ? "" : `<circle r="4" cx="${(points[at][0] * width).toFixed(1)}" cy="${((1 - points[at][1]) * height).toFixed(1)}"></circle>`}</svg>`;
    this.chartBox.innerHTML = picture;
    this.chartBox.firstChild.setAttribute("aria-label", words);
    const name = varied[0] === "beta" ? "β" : `${this.symbol(varied[0])}[${varied[1]}]`;
    this.chartBox.append(make("p", {}, make("span", {}, x[0]), make("b", {}, name), make("span", {}, x[1])));
    this.chartBox.append(make("i.top", {}, y[1]), make("i.bottom", {}, y[0]), make("i.of", {}, this.marked ? `${this.symbol(this.marked[0])}[${this.marked[1]}]` : ""));
    this.chartBox.title = words;
  }

  // --- the panel below -----------------------------------------------------------------------------------------
  makePanel() {
    this.sentence = make("p.sentence");
    this.lines = make("div.lines");
    this.chartBox = make("div.chart", { hidden: true });
    this.changeButton = make("button", { type: "button", onclick: () => this.canvas.edit(this.canvas.cell(...this.marked)) }, "Change this number");
    this.unsetButton = make("button", { type: "button", hidden: true, onclick: () => this.undoEdit(...this.marked) }, "Undo this change");
    this.cellButtons = make("span.cell-buttons", { hidden: true }, this.changeButton, this.unsetButton);
    this.tip = make("p.tip", {}, "Type in a blue frame, drag β, or point at any number.");
    return make("section.panel", { "aria-label": "What is seen now" }, make("div.heading", {}, this.sentence, this.tip), make("div.below", {}, this.lines, this.chartBox));
  }

  // --- the controls above ----------------------------------------------------------------------------------------
  makeBar() {
    this.picker = make("select", { "aria-label": "Mechanism", onchange: () => this.lab.go(`#/try/${this.picker.value}`) });
    const button = (label, words, action) => make("button", { type: "button", title: words, ...(/\w/.test(label) ? {} : { "aria-label": words }), onclick: action }, label);
    this.undoButton = button("↶", "Undo (Ctrl+Z)", () => this.step(this.undo, this.redo));
    this.redoButton = button("↷", "Redo (Ctrl+Y)", () => this.step(this.redo, this.undo));
    this.sliderBox = make("div.slider-place");
    this.switch = make("fieldset.switches", {}, make("legend.spoken", {}, "Numbers as"), ...NUMBER_FORMATS.map((name) => make("label", {}, make("input", { type: "radio", name: "format", value: name, onchange: () => this.chooseFormat(name) }), make("span", {}, name))));
    this.options = make("div.options-menu");
    this.more = make("details.menu", {}, make("summary", {}, "More"), this.options);
    this.files = make("details.menu", {}, make("summary", {}, "Export"), make("div.options-menu"));
    const link = button("Link", "Copy a link to exactly this", async () => {
      await this.lab.copy(location.href);
      this.lab.notice(this.lab.served ? "Copied. The link works while this server runs; headwork lab --save makes a page for others." : "Copied: a link to exactly these numbers.");
    });
    link.className = "link";
    const reset = button("Reset", "Back to the example", () => this.lab.go(`#/try/${this.picker.value}`, true));
    this.bar.append(this.picker, this.sliderBox, this.switch, this.player.button, make("span.group", {}, this.undoButton, this.redoButton, reset), make("span.group", {}, link, this.files, this.more));
    for (const menu of [this.more, this.files]) menu.addEventListener("focusout", (event) => { if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false; });
    document.addEventListener("click", (event) => { for (const menu of [this.more, this.files]) if (!menu.contains(event.target)) menu.open = false; });
    this.lab.capabilities().then(({ formats }) => {
      this.files.lastChild.append(...formats.map((name) => make("button", { type: "button", onclick: () => this.export(name) }, { text: "Text", html: "Page (HTML)", json: "JSON", latex: "LaTeX", markdown: "Markdown", notebook: "Notebook", pdf: "PDF" }[name] || name)));
    });
  }

  updateButtons() {
    this.undoButton.disabled = !this.undo.length;
    this.redoButton.disabled = !this.redo.length;
  }

  async step(from, to) {
    if (!from.length || !this.canEdit()) return;
    to.push(this.latestState()); // at once, so that undo pressed twice goes back twice
    this.lastEdited = "";
    await this.change(from.pop(), { keep: false });
    this.updateButtons();
  }

  setFormat(name) {
    this.format = name;
    this.root.dataset.format = name;
    for (const radio of this.switch.querySelectorAll("input")) radio.checked = radio.value === name;
  }

  async chooseFormat(name) {
    const [before, { exact, ...plain }] = [this.format, this.state];
    this.setFormat(name);
    if (name === "decimal" ? !exact : exact) return this.change(this.state, { keep: false });
    if (await this.change(name === "decimal" ? plain : { ...plain, exact: true }, { keep: false }) === false) this.setFormat(before);
  }

  // Options as controls: beta as a slider in the bar, the others under More.
  showOptions({ options }) {
    const names = options.map((option) => option.name + option.kind).join();
    if (names !== this.optionNames) {
      this.optionNames = names;
      this.controls = new Map();
      this.sliderBox.replaceChildren();
      this.options.replaceChildren();
      for (const option of options) (option.kind === "slider" ? this.sliderBox : this.options).append(this.control(option));
      const digits = { name: "digits", kind: "number", value: String(this.state.digits ?? 4) };
      this.options.append(this.control(digits));
    }
    for (const option of options) this.controls.get(option.name)(option);
  }

  control(option) {
    const words = { beta: "β", convention: "matrices as", tokens_as: "tokens as", digits: "digits" }[option.name] || option.name.replaceAll("_", " ");
    const set = (value, edited = "") => {
      const state = this.latestState();
      if (option.name === "tokens_as") return this.change(state, { call: "turned", request: { state, tokens_as: value } });
      if (value === "matrix") return this.change(state, { call: "mask_cells", request: { state, name: option.name } });
      if (option.name === "digits") state.digits = Number(value);
      else if (value === "") delete state.options[option.name];
      else state.options[option.name] = value;
      if (["convention", "mask", "memory_mask", "heads"].includes(option.name)) state.edits = {};
      if (option.choices?.includes("matrix")) delete state.inputs[option.name]; // the cells that were typed
      return this.change(state, { edited });
    };
    if (option.kind === "slider") return this.slider(option, words, set);
    if (option.kind === "choice") {
      const select = make("select", { onchange: () => set(select.value) }, ...option.choices.map((name) => make("option", { value: name }, name)));
      this.controls.set(option.name, ({ value }) => { select.value = value || option.choices[0]; });
      return make("label", {}, `${words} `, select);
    }
    const box = make("input", { type: "text", size: 6, autocomplete: "off", onchange: async () => { if (await set(box.value.trim()) === false) box.value = box.good; } });
    this.controls.set(option.name, ({ value, text }) => { box.good = value; if (document.activeElement !== box) box.value = value || ""; box.placeholder = text || ""; });
    if (option.name === "digits") box.value = option.value;
    return make("label", {}, `${words} `, box);
  }

  slider(option, words, set) {
    const range = make("input", { type: "range", min: 0, step: 1, autocomplete: "off", "aria-label": `${words}, from 0 to infinity` });
    const box = make("input.typed", { type: "text", size: 5, autocomplete: "off", "aria-label": `${words}, typed` });
    let stops = option.stops;
    const release = () => {
      if (!this.dragging) return;
      this.dragging = false;
      this.change(this.latestState(), { edited: "slider" }).then(() => { this.lastEdited = ""; });
    };
    range.addEventListener("input", () => {
      if (!this.canEdit()) return;
      this.dragging = true;
      box.value = option.labels[range.value];
      const state = this.latestState();
      state.options[option.name] = stops[range.value];
      this.change(state, { edited: "slider" });
    });
    range.addEventListener("change", release);
    box.addEventListener("change", async () => { if (await set(box.value.trim().replace("∞", "oo")) === false) box.value = option.labels[option.at]; });
    this.controls.set(option.name, (now) => {
      if (this.dragging) return;
      option = now;
      stops = now.stops;
      range.max = stops.length - 1;
      range.value = now.at;
      range.setAttribute("aria-valuetext", now.labels[now.at]);
      if (document.activeElement !== box) box.value = now.labels[now.at];
    });
    return make("label.beta", {}, make("span", {}, `${words} =`), box, make("span.end", {}, "0"), range, make("span.end", {}, "∞"));
  }

  async export(format) {
    this.files.open = false;
    const answer = await this.lab.backend.call("export", { state: this.state, format });
    if (answer.error) return this.lab.notice(answer.error.message);
    saveFile(answer.name, answer.base64 ? textToBytes(answer.base64) : answer.text, "");
    this.lab.notice(`Saved ${answer.name}.`);
  }
}
