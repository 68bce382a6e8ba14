// The screen where one practises: a question with its numbers, cells to fill in, and a check that finds the first wrong
// step and says why. Python draws, reads and marks; here it is shown and saved.
const LEVELS = ["correct or not", "where", "why"]; // how much a check tells; the correct step is asked for by itself
const MORE_WORDS = ["Where?", "Why?", "Show the correct step"];

// One step to fill in: grids of cells, or a text where the shape is part of the question.
class StepCard {
  constructor(screen, field) {
    Object.assign(this, { screen, field, latest: new LatestOnly(screen.lab.backend), level: 0 });
    this.about = make("small");
    this.place = make("div.grids");
    this.status = make("p.check");
    this.feedback = make("div.feedback");
    this.mode = make("button.mode", { type: "button", hidden: field.size < 2, onclick: () => this.switchMode() });
    const symbol = make("span.symbol");
    symbol.innerHTML = field.symbol; // MathML that Python made of the card
    this.root = make("section.step", { "aria-label": field.name }, make("h3", {}, field.name, symbol, this.about, this.mode), make("div.body", {}, make("div", {}, this.place, this.status), this.feedback));
    this.entries = this.savedEntries();
    this.draw();
  }

  // What the progress holds for this step: entries of its size, or a text, which may have any shape.
  savedEntries() {
    const { name, size } = this.field;
    const saved = this.screen.answers[name];
    if (!size || typeof saved === "string") return typeof saved === "string" ? saved : "";
    return Array.isArray(saved) && saved.length === size ? [...saved] : Array(size).fill("");
  }

  get isText() { return typeof this.entries === "string"; }

  // Cells into text and back; a text of another shape stays one.
  async switchMode() {
    const answer = await this.latest.ask("filled", this.request(this.isText ? { text: this.entries } : { entries: this.entries }));
    if (!answer) return;
    if (answer.error) return this.say(answer.error.message, true);
    this.entries = this.isText ? answer.entries : answer.text;
    this.draw();
    this.changed();
    this.root.querySelector("textarea, .cells input").focus();
  }

  request(more) { return { ...this.screen.exercise, step: this.field.name, tokens_as: this.screen.tokens, ...more }; }

  say(words, bad = false) {
    this.status.textContent = words;
    this.status.classList.toggle("bad", bad);
    if (bad) this.screen.lab.announce(words);
  }

  // --- cells ------------------------------------------------------------------------------------------------------
  draw() {
    const { name, size, points, about, matrices } = this.field;
    const tokens = this.screen.tokens;
    this.about.textContent = `${about[tokens]}${points ? `, ${points} point${points === 1 ? "" : "s"}` : ""}`;
    this.cells = new Map();
    this.mode.textContent = this.isText ? "as cells" : "as text";
    if (this.isText) {
      this.text = make("textarea", { rows: 3, value: this.entries, spellcheck: false, maxLength: PROGRESS.text, "aria-label": name, oninput: () => { this.entries = this.text.value; this.changed(); } });
      return this.place.replaceChildren(this.text);
    }
    this.place.replaceChildren(...matrices[tokens].map(({ caption, cells }) => {
      const label = (i, j) => (size === 1 ? name : `${name}${caption ? `, ${caption},` : ""} row ${i}, column ${j}`);
      const at = (i, j) => cells[i][j];
      const grid = new Grid(cells.length, cells[0].length, {
        label, headers: size > 1,
        changed: (i, j) => { this.entries[at(i, j)] = grid.cells[i][j].value; this.changed(at(i, j)); },
        pasted: (event, i, j) => this.paste(event, at(i, j)),
      });
      cells.forEach((row, i) => row.forEach((number, j) => this.cells.set(number, grid.cells[i][j])));
      return make("div", {}, caption ? make("p.caption", {}, caption) : null, grid.table);
    }));
    this.fill();
  }

  fill() { for (const [number, cell] of this.cells) if (cell.value !== this.entries[number]) cell.value = this.entries[number]; }

  changed(number) {
    if (number !== undefined) this.cells.get(number).classList.remove("wrong");
    this.root.classList.add("stale");
    this.screen.changed();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read({}), 250);
  }

  // A whole matrix, a row or a block; a single entry goes into its cell as it is.
  async paste(event, at) {
    const text = event.clipboardData?.getData("text/plain").trim() || "";
    if (this.field.size === 1 || !/[\s;&,|[\]]|\\begin/.test(text)) return;
    event.preventDefault();
    clearTimeout(this.timer);
    await this.read({ text, at });
  }

  // How many entries there are, and which cannot be read: said beside the cells. What does not fit changes nothing, but
  // can be kept: the check knows why a shape is wrong.
  async read({ text = "", at = 0 }) {
    const answer = await this.latest.ask("filled", this.request(this.isText ? { entries: this.entries } : { entries: this.entries, text, at }));
    if (!answer) return;
    const odd = new Set(answer.odd);
    for (const [number, cell] of this.cells) cell.classList.toggle("odd", odd.has(number));
    this.say(answer.error?.message || answer.words, Boolean(answer.error || odd.size));
    if (answer.error && text && text.length <= PROGRESS.text) {
      const keep = () => { this.entries = text; this.draw(); this.changed(); this.text.focus(); };
      this.status.append(" ", make("button", { type: "button", onclick: keep }, "Keep it all the same, as text"));
    }
    if (answer.error || !text) return;
    this.entries = answer.entries;
    this.fill();
    for (const cell of this.cells.values()) cell.classList.remove("wrong");
    this.root.classList.add("stale");
    this.screen.changed();
  }

  // --- what the check said ----------------------------------------------------------------------------------------
  clear() {
    this.feedback.replaceChildren();
    delete this.root.dataset.good;
    this.root.classList.remove("stale", "first");
    for (const cell of this.cells.values()) cell.classList.remove("wrong");
  }

  show(step, level, first) {
    this.clear();
    this.root.dataset.good = step.good;
    this.root.classList.toggle("first", first);
    for (const number of step.cells) this.cells.get(number)?.classList.add("wrong");
    const points = step.points || step.good !== null ? `${step.points} of ${step.full}` : "";
    const kind = step.good === null ? "" : step.good ? ".good" : ".bad";
    this.feedback.append(make("p", {}, make(`b.verdict${kind}`, {}, step.verdict), " ", make("span.hint", {}, [points, step.remark].filter(Boolean).join(" · "))));
    const lines = make("dl");
    for (const [label, sentence] of step.lines) lines.append(make("dt", {}, label), make("dd", {}, sentence));
    if (step.lines.length) this.feedback.append(lines);
    if (step.good === false && level < this.screen.maxHints) this.feedback.append(make("button", { type: "button", onclick: () => this.screen.showMoreHints(this, level + 1) }, MORE_WORDS[level]));
  }

  // The first cell to look at again.
  focus() { (this.root.querySelector("input.wrong") || this.root.querySelector("input, textarea"))?.focus({ preventScroll: true }); }
}

class PractiseScreen {
  constructor(root, lab) {
    Object.assign(this, { root, lab, progress: new Progress(), list: [], at: 0, cards: [], level: 2, maxHints: 3, title: "", answers: {} });
    this.checking = new LatestOnly(lab.backend);
    this.bar = make("div.controls");
    this.sheet = make("nav.sheet", { "aria-label": "Exercises of the sheet", hidden: true });
    this.question = make("section.question", { "aria-label": "Question", tabIndex: -1 });
    this.steps = make("section.steps", { "aria-label": "Your answer" });
    this.makeBar();
    this.panels = new PracticePanels(this);
    root.classList.add("practise");
    root.append(this.bar, this.sheet, make("div.work", {}, this.question, make("div.answer", {}, this.steps, this.makeCheck(), this.panels.root)));
    this.keys = (event) => { if ((event.ctrlKey || event.metaKey) && event.key === "Enter") { event.preventDefault(); this.check(true); } };
    document.addEventListener("keydown", this.keys);
  }

  close() { document.removeEventListener("keydown", this.keys); }

  // --- the line of controls ---------------------------------------------------------------------------------------
  makeBar() {
    const go = (change) => this.lab.go(`#/practise/${Progress.key({ ...this.exercise, ...change })}`);
    const choices = (name, legend, values, chosen) => make("fieldset.switches", {}, make("legend.spoken", {}, legend), ...values.map(([value, words]) => make("label", {}, make("input", { type: "radio", name, value, onchange: () => chosen(value) }), make("span", {}, words))));
    this.picker = make("select", { "aria-label": "Kind of exercise", onchange: () => go({ kind: this.picker.value }) });
    this.difficulty = choices("difficulty", "Difficulty", DIFFICULTIES.map((words, i) => [String(i + 1), words]), (value) => go({ difficulty: Number(value) }));
    this.seed = make("input.seed", { type: "text", inputMode: "numeric", maxLength: 15, onchange: () => (/^\d{1,15}$/.test(this.seed.value) ? go({ seed: Number(this.seed.value) }) : this.showControls()) });
    const step = (by, sign, words) => make("button", { type: "button", "aria-label": words, title: words, onclick: () => go({ seed: Math.max(0, this.exercise.seed + by) }) }, sign);
    this.chosen = make("span.group.drawn", {}, this.picker, this.difficulty, make("span.group", {}, make("label", {}, "Variant ", this.seed), step(-1, "‹", "The variant before"), step(1, "›", "The next variant: other numbers")));
    this.tokensChoice = choices("tokens", "Tokens are", [["rows", "tokens as rows"], ["columns", "as columns"]], (value) => this.setTokens(value));
    this.levels = choices("level", "A check tells", LEVELS.map((words, i) => [String(i), words]), (value) => { this.level = this.chosenLevel = Number(value); if (this.checked) this.check(); });
    this.bar.append(this.chosen, this.tokensChoice, make("span.group.tells", {}, make("span.hint", {}, "Check tells"), this.levels));
  }

  makeCheck() {
    const button = (words, action, title = "") => make("button", { type: "button", title, onclick: action }, words);
    this.checkButton = button("Check", (event) => this.check(event.detail === 0), "Ctrl+Enter");
    this.checkButton.className = "primary";
    this.tryAgainButton = button("Try again", () => this.tryAgain(), "Empty all cells, with the same numbers");
    this.nextButton = button("Next variant", () => this.showNextExercise());
    this.summary = make("p.summary");
    this.liveLink = make("a", { hidden: true }, "See every number of it live");
    return make("div.check-bar", {}, make("div.line", {}, this.checkButton, make("div.said", {}, this.summary, this.liveLink), make("span.group", {}, this.tryAgainButton, this.nextButton)));
  }

  showControls() {
    const { kind, seed, difficulty } = this.exercise;
    this.picker.value = kind;
    this.seed.value = seed;
    const set = (group, value) => { for (const radio of group.querySelectorAll("input")) radio.checked = radio.value === String(value); };
    set(this.difficulty, difficulty);
    set(this.tokensChoice, this.tokens);
    set(this.levels, this.level);
    this.levels.querySelectorAll("input").forEach((radio, i) => { radio.disabled = i > this.maxHints; });
    const sheet = this.list.length > 1 || this.title;
    this.chosen.hidden = Boolean(sheet);
    this.sheet.hidden = !sheet;
    if (sheet) this.showSheet();
    for (const option of this.picker.options) option.textContent = option.value.replaceAll("-", " ") + (this.progress.solved(option.value) ? " ✓" : "");
    this.nextButton.textContent = this.at < this.list.length - 1 ? "Next exercise" : sheet ? "To the first" : "Next variant";
    this.nextButton.hidden = Boolean(sheet) && this.list.length === 1;
  }

  showSheet() {
    const item = (one, i) => {
      const { points, full } = this.progress.get(one);
      const state = full && points === full ? " ✓" : points === null ? "" : ` ${points}/${full}`;
      return make("button", { type: "button", "aria-pressed": String(i === this.at), onclick: () => this.choose(i) }, `${i + 1}. ${one.kind.replaceAll("-", " ")}${state}`);
    };
    this.sheet.replaceChildren(make("b", {}, this.title || "Sheet"), ...this.list.map(item));
  }

  fillPicker(kinds) {
    if (this.picker.options.length) return;
    const groups = new Map();
    for (const one of kinds) groups.set(one.group, [...(groups.get(one.group) || []), one]);
    this.picker.append(...[...groups].map(([label, ones]) => make("optgroup", { label }, ...ones.map((one) => make("option", { value: one.kind, title: one.asks.join(", ") }, one.kind.replaceAll("-", " "))))));
  }

  // --- opening ----------------------------------------------------------------------------------------------------
  // #/practise/KIND/VARIANT/DIFFICULTY, several joined by +, with ~title and ~hints.
  async open({ rest, more = {} }) {
    const { kinds = [], first, error } = await this.lab.once("kinds");
    if (error) return this.showError(error.message);
    this.fillPicker(kinds);
    const whole = (text, otherwise) => (/^\d{1,15}$/.test(text || "") ? Number(text) : otherwise);
    const read = (part) => {
      const [kind, seed, difficulty] = part.split("/");
      return { kind: kind || first.kind, seed: whole(seed, first.seed), difficulty: whole(difficulty, first.difficulty) };
    };
    this.list = (rest || this.progress.last || Progress.key(first)).split("+").slice(0, 100).map(read);
    this.title = (more.title || "").slice(0, 100);
    this.maxHints = Math.min(3, whole(more.hints, 3));
    this.level = Math.min(this.chosenLevel ?? 2, this.maxHints);
    await this.choose(0);
  }

  async choose(at) {
    this.at = at;
    this.undo = null;
    this.tryAgainButton.textContent = "Try again";
    window.scrollTo(0, 0);
    await this.show();
  }

  async show() {
    const exercise = { ...this.list[this.at] };
    Object.assign(this, { exercise, checked: false, loading: true, tokens: this.progress.columns ? "columns" : "rows" });
    this.showControls();
    this.steps.inert = true; // what is typed now would belong to the exercise before
    this.say("Drawing the numbers …", false, true);
    const data = await this.lab.backend.call("exercise", exercise);
    if (exercise !== this.exercise) return; // another was chosen meanwhile
    this.loading = this.steps.inert = false;
    if (data.error) return this.showError(data.error.message);
    this.full = data.points;
    const given = make("div.given");
    given.innerHTML = data.given; // made by Python, of a drawn exercise
    this.question.replaceChildren(make("h1", {}, data.title), make("p.asked", {}, data.asked), given, ...data.notes.map((words) => make("p.hint", {}, words)));
    this.answers = structuredClone(this.progress.get(exercise).answers);
    this.tokensChoice.hidden = !data.fields.some((field) => field.turns);
    this.cards = data.fields.map((field) => new StepCard(this, field));
    this.steps.replaceChildren(...this.cards.map((card) => card.root));
    this.liveLink.hidden = true;
    this.say("Fill in what you have, one step or all. Check finds the first wrong step and says why.", false, true);
    if (this.list.length === 1) this.progress.last = Progress.key(exercise);
    this.panels.show();
    this.lab.backend.ready.then(() => this.lab.backend.call("check", { ...exercise, answers: {}, hint: 0 })); // so that the first check is quick
  }

  showError(message) {
    this.cards = [];
    this.question.replaceChildren(make("h1", {}, "Practise"), make("p", { role: "alert" }, message), make("p", {}, make("a", { href: "#/practise/self-attention/1/1" }, "Begin with self-attention")));
    this.steps.replaceChildren();
    this.say("");
  }

  // ``quiet``: not in bold, for what is not a result.
  say(words, bad = false, quiet = false) {
    this.summary.textContent = words;
    this.summary.classList.toggle("bad", bad);
    this.summary.classList.toggle("quiet", quiet);
  }

  // --- filling in -------------------------------------------------------------------------------------------------
  changed() {
    this.answers = Object.fromEntries(this.cards.map((card) => [card.field.name, card.entries]));
    this.undo = null;
    this.tryAgainButton.textContent = "Try again";
    this.progress.set(this.exercise, { answers: structuredClone(this.answers) });
  }

  setTokens(value) {
    this.tokens = value;
    this.progress.columns = value === "columns";
    this.progress.save();
    for (const card of this.cards) { card.draw(); card.clear(); }
    if (this.checked) this.check();
  }

  // Empties all cells; once more brings back what stood there.
  tryAgain() {
    const before = this.undo;
    const now = Object.fromEntries(this.cards.map((card) => [card.field.name, card.entries]));
    this.answers = before || {};
    for (const card of this.cards) { card.entries = card.savedEntries(); card.draw(); card.clear(); card.status.textContent = ""; }
    this.changed();
    this.checked = false;
    this.liveLink.hidden = true;
    this.undo = before ? null : now;
    this.tryAgainButton.textContent = before ? "Try again" : "Bring back";
    this.say(before ? "" : "Empty again: the same question, from the beginning.");
    this.lab.announce(this.summary.textContent);
  }

  showNextExercise() {
    if (this.list.length > 1) return this.choose((this.at + 1) % this.list.length).then(() => this.question.focus());
    this.lab.go(`#/practise/${Progress.key({ ...this.exercise, seed: this.exercise.seed + 1 })}`);
  }

  // --- the check --------------------------------------------------------------------------------------------------
  ask(hint) { return this.checking.ask("check", { ...this.exercise, answers: this.answers, tokens_as: this.tokens, hint }); }

  async check(byKeyboard = false) {
    if (!this.cards.length || this.loading) return;
    this.answers = Object.fromEntries(this.cards.map((card) => [card.field.name, card.entries]));
    this.say(this.lab.isReady ? "Checking …" : "Python is still starting inside this page; your answer is checked in a moment.");
    const { exercise, level } = this;
    const answer = await this.ask(level);
    if (!answer || exercise !== this.exercise) return;
    if (answer.error) { this.say(answer.error.message, true); this.lab.announce(answer.error.message); return; }
    this.checked = true;
    const saved = this.progress.get(exercise);
    this.progress.set(exercise, { points: Math.max(answer.points, saved.points ?? 0), full: answer.full, checks: saved.checks + 1 });
    const first = this.showSteps(answer, level);
    const words = answer.all_correct ? `All correct: ${answer.points} of ${answer.full} points.` : `${answer.points} of ${answer.full} points. ${answer.next}`;
    this.say(words);
    const why = answer.steps.find((step) => step.step === answer.first_wrong)?.lines.map((line) => line.join(": ")).join(". ");
    this.lab.announce(`${words} ${why || ""}`);
    this.liveLink.hidden = !answer.state;
    if (answer.state) this.liveLink.href = address.write("try", answer.state);
    this.showControls();
    this.panels.show();
    if (!first) return;
    first.root.scrollIntoView({ block: "nearest" });
    if (byKeyboard) first.focus();
  }

  // Each step beside its cells; of a challenge all fields are one answer, told below the last. Gives the card to look at.
  showSteps(answer, level) {
    let first = null;
    for (const card of this.cards) card.clear();
    for (const step of answer.steps) {
      const card = this.cards.find((one) => one.field.name === step.step) || this.cards.at(-1);
      const here = step.step === answer.first_wrong;
      card.show(step, level, here && step.good === false);
      if (here) first = card;
    }
    return first;
  }

  // More about one step, and only about that one.
  async showMoreHints(card, level) {
    const answer = await this.ask(level);
    if (!answer || answer.error || !this.cards.includes(card)) return;
    const step = answer.steps.find((one) => one.step === card.field.name) || answer.steps[0];
    card.show(step, level, card.root.classList.contains("first"));
    this.lab.announce(step.lines.map((line) => line.join(": ")).join(". "));
  }
}
