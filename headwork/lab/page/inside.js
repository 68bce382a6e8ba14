// Look inside: a trained transformer on a picture that one draws, drops or chooses, or on a text.
const BUILT_HEADS = [["itself", "looks at its own token"], ["previous", "looks at the token before"], ["next", "looks at the token after"], ["first", "looks at the first token"], ["neighbours", "mean of three neighbours"]];
const FIRST_HEAD = [3, 2];

class InsideScreen {
  constructor(root, lab) {
    Object.assign(this, { root, lab, changes: new Map(), query: "0", block: FIRST_HEAD[0], head: FIRST_HEAD[1], openedModels: [] });
    this.lookCalls = new LatestOnly(lab.backend);
    this.headCalls = new LatestOnly(lab.backend);
    this.pad = new Pad({ onChange: (given) => this.setInput(given), notice: (words) => this.showError(words), canChange: () => lab.canChange() });
    this.grid = new HeadGrid((block, head) => this.choose(block, head));
    this.detail = new HeadDetail((token) => this.ask(token));
    this.descent = new Descent(this);
    this.relevance = new RelevanceView(this);
    root.classList.add("inside");
    root.append(make("h1.spoken", {}, "Look inside a trained transformer"), this.makeControls(), this.problem, this.makeStage(), this.descent.root, this.relevance.root);
    root.addEventListener("dragover", (event) => event.preventDefault());
    root.addEventListener("drop", (event) => { event.preventDefault(); this.drop(event.dataTransfer); });
    this.paste = (event) => { const file = [...event.clipboardData.files][0]; if (file) this.openPicture(file); };
    document.addEventListener("paste", this.paste);
  }

  // --- what there is on the page -----------------------------------------------------------------------------------
  makeControls() {
    this.models = make("select", { "aria-label": "Model", onchange: () => this.lab.go(`#/inside/${encodeURIComponent(this.models.value)}`) });
    this.about = make("span.about-model");
    this.folder = make("input", { type: "file", multiple: true, hidden: true, onchange: () => this.openModel([...this.folder.files]) });
    this.folder.webkitdirectory = true;
    const open = make("button", { type: "button", title: "The folder of a run, or of a saved model", onclick: () => this.folder.click() }, "Open a model of your own …");
    this.problem = make("p.bubble.problem-line", { role: "alert", hidden: true });
    return make("div.controls", {}, this.models, this.about, make("span.group", {}, open, this.folder));
  }

  makeStage() {
    const { pad } = this;
    this.file = make("input", { type: "file", accept: "image/*", hidden: true, onchange: () => { if (this.file.files[0]) this.openPicture(this.file.files[0]); this.file.value = ""; } });
    const button = (words, onclick, title = "") => make("button", { type: "button", onclick, title }, words);
    this.images = make("div.test-images", { role: "group", "aria-label": "Test images" });
    this.seen = make("canvas.seen", { role: "img", "aria-label": "The picture as the model sees it" });
    this.remarks = make("p.remarks");
    this.text = make("textarea", { rows: 4, "aria-label": "Text", placeholder: "Type a text.", oninput: () => this.setInput(this.text.value) });
    this.drawing = make("div.drawing", {}, pad.root,
      make("p.pad-buttons", {}, button("Clear", () => { pad.remember(); pad.clear(); }), button("Undo", () => pad.undo()), button("Open a picture …", () => this.file.click(), "or drop it anywhere, or paste it"), this.file),
      make("p.spoken", { id: "pad-help" }, "Draw with the mouse or a finger. By keyboard: arrow keys move the pen, space puts it down and lifts it, Delete clears."),
      make("div.seen-line", {}, this.seen, make("div", {}, make("b", {}, "What the model sees"), this.remarks)),
      make("b.small-title", {}, "Or choose a test image"), this.images);
    this.writing = make("div.writing", { hidden: true }, this.text);
    this.sentence = make("p.sentence");
    this.classes = make("ol.classes", { "aria-label": "Probabilities" });
    this.effect = make("p.effect", { role: "status" });
    this.tokens = make("div.text-place");
    this.queryLine = make("p.who");
    this.notes = make("p.hint");
    return make("div.stage", {},
      make("section.given", { "aria-label": "The input" }, this.drawing, this.writing),
      make("section.predicted", { "aria-label": "The prediction" }, make("h2", {}, "Prediction"), this.sentence, this.classes, this.effect),
      make("section.where", { "aria-label": "Where it looks" }, this.queryLine, this.grid.root, this.notes, this.tokens),
      make("div.chosen", {}, this.detail.root, this.makeHeadChanges()));
  }

  makeHeadChanges() {
    const button = (words, kind) => make("button", { type: "button", "data-kind": kind, onclick: () => this.change(kind) }, words);
    this.builtChoice = make("select", { "aria-label": "Replace this head by a built one", onchange: () => { if (this.builtChoice.value) this.change(this.builtChoice.value); } },
      make("option", { value: "" }, "Replace it by a head that …"), ...BUILT_HEADS.map(([value, words]) => make("option", { value }, words)));
    this.restoreButton = make("button", { type: "button", onclick: () => this.change("") }, "Put it back");
    this.undoAllButton = make("button", { type: "button", onclick: () => { this.changes.clear(); this.refresh(); } }, "Undo all changes");
    return make("p.changing", {}, button("Switch it off", "off"), button("Make it uniform", "uniform"), this.builtChoice, this.restoreButton, this.undoAllButton);
  }

  // --- which model, which picture ----------------------------------------------------------------------------------
  async open({ rest, more }) {
    const opening = this.opening = {}; // of two, the one that was asked for last counts
    const { models = [], runs = [], foreign = [] } = await this.lab.once("models");
    let openingError = "";
    if (rest && ![...models, ...this.openedModels].some(({ name }) => name === rest)) {
      this.about.textContent = "Opening the model …";
      const answer = await this.lab.backend.call("model", { name: rest });
      if (answer.error) [openingError, more] = [answer.error.message, {}];
      else this.openedModels.push(answer);
    }
    if (this.opening !== opening) return null;
    const all = [...models, ...this.openedModels];
    const model = all.find((one) => one.name === rest) || (openingError && this.model) || all[0];
    if (!model) return this.showError("No model is here.");
    this.openingError = openingError;
    this.list(all, runs, foreign);
    this.models.value = model.name;
    if (model !== this.model) this.use(model);
    this.about.textContent = model.about;
    [this.block, this.head] = more.at ? more.at.split(".").map((part) => (part === "mean" ? part : Number(part))) : FIRST_HEAD;
    if (!(this.block < model.blocks)) this.block = 0;
    if (this.head !== "mean" && !(this.head < model.heads)) this.head = 0;
    this.query = more.query || model.query;
    this.changes = new Map((more.changes || "").split(";").map((part) => part.trim().split(" ")).filter((part) => part.length === 2));
    if (model.takes === "texts") {
      this.text.value = more.given || this.text.value || model.example;
      return this.setInput(this.text.value);
    }
    if (more.given) this.pad.showSeen(more.given);
    else if (model.images) await this.example(model.images[0]);
    else this.pad.clear();
    return null;
  }

  // The models by where they come from; what cannot be used says why.
  list(all, runs, foreign) {
    const titles = new Map(all.map(({ name, title }) => [name, title]));
    const option = (value, title, missing = "") => make("option", { value, disabled: Boolean(missing) }, missing ? `${title} (${missing})` : titles.get(value) || title);
    const elsewhere = [...runs, ...foreign.map(({ name }) => name)];
    const groups = {
      "Models": all.filter(({ name }) => !elsewhere.includes(name)).map(({ name, title }) => option(name, title)),
      "Runs of this machine": runs.map((name) => option(name, name)),
      "Models of other libraries": foreign.map(({ name, title, missing }) => option(name, title, missing)),
    };
    this.models.replaceChildren(...Object.entries(groups).filter(([, options]) => options.length).map(([label, options]) => make("optgroup", { label }, ...options)));
  }

  use(model) {
    this.model = model;
    this.view = null;
    const texts = model.takes === "texts";
    this.drawing.hidden = texts;
    this.writing.hidden = !texts;
    this.root.classList.toggle("of-text", texts);
    this.textView = texts ? new TextView((token) => this.ask(token)) : null;
    this.tokens.replaceChildren(...(texts ? [this.textView.root] : []));
    this.notes.textContent = "";
    if (!texts) this.pad.use(model);
    this.descent.use(model);
    this.relevance.outdated(true);
    this.grid.use(model);
    this.detail.use(model);
    this.images.replaceChildren(...(model.images || []).map((image) => make("button", { type: "button", title: `test image: ${image.label}`, "aria-label": `test image: ${image.label}`, onclick: () => { if (this.lab.canChange()) this.example(image); } },
      make("img", { src: `data:image/png;base64,${image.png}`, alt: "", width: model.size, height: model.size }))));
    this.drawing.querySelector(".small-title").hidden = !model.images;
    this.classes.replaceChildren();
  }

  async example(image) {
    const picture = new Image();
    picture.src = `data:image/png;base64,${image.png}`;
    await picture.decode();
    this.pad.show(picture, picture.naturalWidth, picture.naturalHeight);
  }

  drop({ files }) {
    const list = [...files];
    if (!list.length) return;
    if (list.some((file) => /\.(safetensors|json|bin|pt|pth|pkl|ckpt)$/.test(file.name))) this.openModel(list);
    else this.openPicture(list[0]);
  }

  openPicture(file) {
    if (this.model.takes === "texts") return this.showError("This model takes texts. Choose another model to look at a picture.");
    return this.lab.canChange() && this.pad.open(file);
  }

  // The files of a folder, by their names below it; only those that a model can have are read.
  async openModel(list) {
    if (!list.length || !this.lab.canChange()) return;
    const files = {};
    const others = [];
    let total = 0;
    for (const file of list) {
      const parts = (file.webkitRelativePath || file.name).split("/");
      const name = parts.slice(parts.length > 1 ? 1 : 0).join("/");
      const wanted = /^(model\/)?(config|manifest|tokenizer|data|result|preprocessor_config)\.json$|^(model\/)?model\.safetensors$|^metrics\.jsonl$/.test(name);
      if (wanted) total += file.size;
      if (total > 24_000_000) return this.showError("The files have more than 24 MB together, which is the most that is opened here. Use: headwork inspect FOLDER");
      if (wanted) files[name] = bytesToText(new Uint8Array(await file.arrayBuffer()));
      else others.push(name);
    }
    this.folder.value = "";
    this.lab.notice("Checking the model …");
    const model = await this.lab.backend.call("open_model", { files, others });
    if (model.error) return this.showError(model.error.message);
    this.openedModels = [...this.openedModels.filter(({ name }) => name !== model.name), model];
    model.title = this.openedModels.length > 1 ? `${model.title} ${this.openedModels.length}` : model.title;
    this.lab.notice(`Opened: ${model.about}.`);
    return this.lab.go(`#/inside/${encodeURIComponent(model.name)}`, true);
  }

  showError(words) {
    this.problem.textContent = words || "";
    this.problem.hidden = !words;
  }

  // --- asking and showing --------------------------------------------------------------------------------------------
  request(more = {}) {
    const changes = [...this.changes].map(([at, kind]) => `${at} ${kind}`).join("; ");
    return { model: this.model.name, given: this.given, changes, ...more };
  }

  setInput(given) {
    this.given = given;
    this.refresh();
  }

  async refresh() {
    if (this.model.takes === "texts" && !this.given.trim()) return;
    const model = this.model;
    const request = this.request({ query: this.query });
    const slow = setTimeout(() => this.lab.canChange(), 400); // says so where Python is still starting
    const view = await this.lookCalls.ask("look", request);
    clearTimeout(slow);
    if (!view || model !== this.model) return;
    if (view.error) return this.showError(view.error.message);
    this.showError(this.openingError);
    this.openingError = "";
    this.view = view;
    this.shownRequest = request;
    this.seenPicture = view.seen ? seenCanvas(view.seen, model.size, model.channels) : null;
    this.showPrediction(view);
    this.grid.show(view, this.seenPicture);
    const backButton = this.query === model.query ? null : make("button", { type: "button", onclick: () => this.ask(model.query) }, { all: "Back to all tokens", last: "Back to the last token" }[model.query] || "Back to the first token");
    this.queryLine.replaceChildren(make("b", {}, `Where ${view.query} looks`), ": amber, strongest where it looks most. Each head has its own scale; the number is its largest weight. ", ...(backButton ? [backButton] : []));
    if (this.textView) this.textView.build(view.tokens);
    this.descent.outdated();
    this.relevance.outdated();
    this.updateAddress();
    await this.showHead();
  }

  classRow({ name, index }) {
    return make("li", { name }, make("button", { type: "button", disabled: Boolean(this.model.no_descent), title: `How the logit of ${name} comes about`, onclick: () => this.descent.start(index) },
      make("span.class-name", {}, name), make("span.share-bar", { "aria-hidden": "true" }, make("i"), make("u")), make("span.percent")));
  }

  showPrediction({ classes, sentence, effect, remarks }) {
    this.sentence.textContent = sentence;
    this.effect.textContent = effect;
    const { size, takes } = this.model;
    (takes === "texts" ? this.notes : this.remarks).textContent = remarks.join(" ");
    if (this.seenPicture) {
      Object.assign(this.seen, { width: size, height: size });
      this.seen.getContext("2d").drawImage(this.seenPicture, 0, 0);
    }
    if (classes.some(({ name }, i) => this.classes.children[i]?.name !== name)) this.classes.replaceChildren(...classes.map((one) => this.classRow(one)));
    classes.forEach(({ name, share, percent, before, best }, i) => {
      const item = this.classes.children[i];
      item.style.setProperty("--share", share);
      item.style.setProperty("--before", before);
      item.classList.toggle("best", best);
      item.classList.toggle("moved", Boolean(effect));
      item.querySelector(".percent").textContent = percent;
    });
    this.lab.announce(effect || sentence);
  }

  async showHead() {
    this.grid.mark(this.block, this.head);
    const slow = setTimeout(() => this.lab.canChange(), 400);
    const answer = await this.headCalls.ask("head", this.request({ query: this.query, block: String(this.block), head: String(this.head) }));
    clearTimeout(slow);
    if (!answer || answer.error || !this.view) return;
    this.detail.show(this.view, this.seenPicture, answer, this.query);
    this.textView?.show(answer, this.query);
    const now = this.changes.get(`${this.block}.${this.head}`) || "";
    const whole = this.head === "mean";
    for (const button of this.builtChoice.parentNode.querySelectorAll("[data-kind]")) { button.disabled = whole; button.ariaPressed = String(button.dataset.kind === now); }
    this.builtChoice.disabled = whole;
    this.builtChoice.value = BUILT_HEADS.some(([kind]) => kind === now) ? now : "";
    this.restoreButton.hidden = !now;
    this.undoAllButton.hidden = this.changes.size < 2;
  }

  updateAddress() {
    const { changes } = this.request();
    const given = this.model.takes === "texts" ? this.given : this.view.seen;
    this.lab.address("inside", { mechanism: encodeURIComponent(this.model.name) }, { given: given.length < 4000 ? given : "", changes, at: `${this.block}.${this.head}`, query: this.query === this.model.query ? "" : this.query });
  }

  // --- what one can do ---------------------------------------------------------------------------------------------------
  choose(block, head) {
    Object.assign(this, { block, head });
    this.showHead().then(() => this.updateAddress());
  }

  ask(token) {
    if (!this.lab.canChange()) return;
    this.query = String(token);
    this.refresh();
  }

  change(kind) {
    if (!this.lab.canChange()) return;
    const at = `${this.block}.${this.head}`;
    if (kind && this.changes.get(at) !== kind) this.changes.set(at, kind);
    else this.changes.delete(at);
    this.refresh();
  }

  close() {
    document.removeEventListener("paste", this.paste);
    this.relevance.close();
  }
}
