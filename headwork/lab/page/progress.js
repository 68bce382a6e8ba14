// What a student has done, kept by the browser where it keeps anything, and written to and read from a file. What comes
// from outside is checked entry by entry; texts of others are only ever shown as text.
const DIFFICULTIES = ["easy", "medium", "hard"];
const PROGRESS = { key: "headwork practise", most: 500, largest: 2_000_000, cell: 300, text: 20_000, cells: 4_000 };

class Progress {
  constructor() {
    this.exercises = new Map(); // by "kind/seed/difficulty": { answers, points, full, checks }
    Object.assign(this, { student: "", columns: false, last: "", canStore: true });
    try {
      const text = localStorage.getItem(PROGRESS.key);
      if (text) this.read(JSON.parse(text));
      localStorage.setItem(PROGRESS.key, text || JSON.stringify(this.data()));
    } catch (error) {
      if (!(error instanceof SyntaxError || error instanceof TypeError)) this.canStore = false;
    }
  }

  static key({ kind, seed, difficulty }) { return `${kind}/${seed}/${difficulty}`; }
  static words({ kind, seed, difficulty }) { return `${kind.replaceAll("-", " ")}, ${DIFFICULTIES[difficulty - 1]}, variant ${seed}`; }
  get(exercise) { return this.exercises.get(Progress.key(exercise)) || { answers: {}, points: null, full: null, checks: 0 }; }

  set(exercise, more) {
    const key = Progress.key(exercise);
    const now = { ...this.get(exercise), ...more };
    this.exercises.delete(key); // the latest stand last
    this.exercises.set(key, now);
    for (const old of [...this.exercises.keys()].slice(0, -PROGRESS.most)) this.exercises.delete(old);
    this.save();
    return now;
  }

  solved(kind) { return [...this.exercises].some(([key, one]) => key.startsWith(`${kind}/`) && one.full && one.points === one.full); }

  save() {
    if (!this.canStore) return;
    try { localStorage.setItem(PROGRESS.key, JSON.stringify(this.data())); } catch { this.canStore = false; }
  }

  forget() {
    this.exercises.clear();
    this.save();
  }

  data() {
    const { student, columns, last } = this;
    return { headwork: "progress", version: 1, student, columns, last, exercises: Object.fromEntries(this.exercises) };
  }

  // Adds what a file holds; of two records of one exercise the better stays. Gives how many were read, or throws.
  read(data) {
    if (data?.headwork !== "progress" || typeof data.exercises !== "object" || !data.exercises) throw new TypeError("no progress");
    let count = 0;
    for (const [key, one] of Object.entries(data.exercises).slice(-PROGRESS.most)) {
      const clean = /^[a-z0-9-]{1,60}\/\d{1,15}\/[123]$/.test(key) ? Progress.clean(one) : null;
      if (!clean) continue;
      count += 1;
      const own = this.exercises.get(key);
      if (!own || (clean.points ?? -1) > (own.points ?? -1)) this.exercises.set(key, clean);
    }
    if (typeof data.student === "string") this.student ||= data.student.slice(0, 100);
    if (typeof data.last === "string" && this.exercises.has(data.last)) this.last ||= data.last;
    this.columns = data.columns === true;
    return count;
  }

  static clean(one) {
    if (typeof one !== "object" || !one || typeof one.answers !== "object" || !one.answers) return null;
    const cells = (value) => Array.isArray(value) && value.length <= PROGRESS.cells && value.every((cell) => typeof cell === "string" && cell.length <= PROGRESS.cell);
    const steps = Object.entries(one.answers).slice(0, 100).filter(([, value]) => cells(value) || (typeof value === "string" && value.length <= PROGRESS.text));
    const number = (value) => (Number.isFinite(value) && value >= 0 ? value : null);
    return { answers: Object.fromEntries(steps), points: number(one.points), full: number(one.full), checks: number(one.checks) ?? 0 };
  }
}

// A file to save, from text.
function saveFile(name, text, type = "application/json") {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Below an exercise: handing it in, what was done so far, and a teacher's link. ``screen`` is the PractiseScreen.
class PracticePanels {
  constructor(screen) {
    Object.assign(this, { screen, lab: screen.lab, progress: screen.progress, sheet: [] });
    const panel = (title, ...children) => make("details.drawer", {}, make("summary", {}, title), ...children);
    this.root = make("div.drawers", {}, panel("Hand it in", ...this.handIn()), panel("Your progress", ...this.done()), panel("For teachers: a link to exercises", ...this.teach()));
    this.root.addEventListener("toggle", () => this.show(), true);
  }

  show() {
    this.showDone();
    this.showSheet();
  }

  say(place, words, bad = false) {
    place.textContent = words;
    place.classList.toggle("bad", bad);
  }

  // --- the answer file --------------------------------------------------------------------------------------------
  handIn() {
    this.name = make("input", { type: "text", maxLength: 100, autocomplete: "username", value: this.progress.student, oninput: () => { this.progress.student = this.name.value; this.progress.save(); } });
    this.savedLine = make("p.hint", { role: "status" });
    return [
      make("p", {}, "The answer file holds what you filled in, for whoever marks it. It can be opened here again."),
      make("p", {}, make("label", {}, "Your name or ID ", this.name), " ", make("button.primary", { type: "button", onclick: () => this.saveAnswer() }, "Save the answer file")),
      this.savedLine,
    ];
  }

  async saveAnswer() {
    const { list, tokens, title } = this.screen;
    const exercises = list.map((one) => ({ ...one, answers: this.progress.get(one).answers }));
    const file = await this.lab.backend.call("answer_file", { exercises, student: this.name.value, sheet: title, tokens_as: tokens });
    if (file.error) return this.say(this.savedLine, file.error.message, true);
    saveFile(file.name, file.text, "application/toml");
    this.say(this.savedLine, `Saved as ${file.name} where your browser puts downloads. ${file.next}`);
  }

  // --- progress ---------------------------------------------------------------------------------------------------
  done() {
    this.list = make("ul.done");
    this.progressLine = make("p.hint", { role: "status" });
    this.file = make("input.spoken", { type: "file", accept: ".json,.toml", id: "practice-file", onchange: () => this.open(this.file.files[0]) });
    return [
      this.list,
      make("p", {},
        make("button", { type: "button", onclick: () => saveFile("headwork-progress.json", JSON.stringify(this.progress.data(), null, 1)) }, "Export"), " ",
        this.file, make("label.button", { for: "practice-file" }, "Import progress or an answer file"), " ",
        make("button", { type: "button", onclick: () => this.forget() }, "Forget all")),
      this.progressLine,
    ];
  }

  showDone() {
    const { progress } = this;
    const items = [...progress.exercises].reverse().slice(0, 30).map(([key, { points, full, checks }]) => {
      const [kind, seed, difficulty] = key.split("/");
      const words = points === null ? "begun" : `${points} of ${full} points, ${checks === 1 ? "1 check" : `${checks} checks`}`;
      return make("li", {}, make("a", { href: `#/practise/${key}` }, Progress.words({ kind, seed, difficulty })), ` ${words}${full && points === full ? " ✓" : ""}`);
    });
    this.list.replaceChildren(...(items.length ? items : [make("li", {}, "Nothing yet: fill in a step and check it.")]));
    if (!this.progressLine.textContent || !progress.canStore) this.say(this.progressLine, progress.canStore ? "Kept by this browser, on this computer only." : "This browser keeps nothing for this page (a page opened as a file, or private browsing): export your progress before you close it.", !progress.canStore);
  }

  forget() {
    this.progress.forget();
    this.say(this.progressLine, "Forgotten.");
    this.showDone();
    this.screen.show();
  }

  async open(file) {
    this.file.value = "";
    if (!file) return;
    if (file.size > PROGRESS.largest) return this.say(this.progressLine, `${file.name}: ${file.size.toLocaleString("en")} bytes; at most ${PROGRESS.largest.toLocaleString("en")} are read.`, true);
    const text = await file.text();
    try {
      if (/\.toml$/i.test(file.name)) await this.openAnswer(text);
      else {
        const count = this.progress.read(JSON.parse(text));
        this.progress.save();
        this.say(this.progressLine, `${file.name}: ${count === 1 ? "1 exercise" : `${count} exercises`} read.`);
        this.name.value = this.progress.student;
        await this.screen.show();
      }
    } catch (error) {
      this.say(this.progressLine, `${file.name}: ${error.words || "this is not progress that Headwork exported"}; nothing was changed.`, true);
    }
    this.showDone();
  }

  async openAnswer(text) {
    const answer = await this.lab.backend.call("read_answer_file", { text });
    if (answer.error) throw Object.assign(new Error(), { words: answer.error.message });
    for (const { answers, ...exercise } of answer.exercises) this.progress.set(exercise, { answers });
    Object.assign(this.progress, { student: answer.student || this.progress.student, columns: answer.tokens_as === "columns" });
    this.name.value = this.progress.student;
    this.progress.save();
    this.say(this.progressLine, "The answer file is open again.");
    this.lab.go(`#/practise/${answer.exercises.map(Progress.key).join("+")}`, true);
  }

  // --- a teacher's link -------------------------------------------------------------------------------------------
  teach() {
    this.chosen = make("ol.chosen");
    this.title = make("input", { type: "text", maxLength: 100, placeholder: "Sheet 3", oninput: () => this.showSheet() });
    this.hintLimit = make("select", { onchange: () => this.showSheet() }, ...[["", "the correct step"], ["2", "why it is wrong"], ["1", "where it is wrong"], ["0", "correct or not"]].map(([value, words]) => make("option", { value }, words)));
    this.link = make("input.link", { type: "text", readOnly: true, "aria-label": "Link for students", onfocus: () => this.link.select() });
    this.linkStatus = make("p.hint", { role: "status" });
    const add = () => { this.sheet.push({ ...this.screen.exercise }); this.showSheet(); };
    return [
      make("p", {}, "A link opens this exercise in this variant. For a sheet of several, add one, choose the next above, add it too."),
      make("p", {}, make("button", { type: "button", onclick: add }, "Add this exercise to a sheet")),
      this.chosen,
      make("p", {}, make("label", {}, "Title ", this.title), " ", make("label", {}, "Hints go up to ", this.hintLimit)),
      make("p.copy-link", {}, this.link, " ", make("button.primary", { type: "button", onclick: () => this.copyLink() }, "Copy the link"), " ", make("button", { type: "button", onclick: () => this.saveKey() }, "Save the key")),
      this.linkStatus,
      make("p.hint", {}, "Marks of this page are for practice: whoever opens a page that marks can find the key in it. For grades, collect the answer files and mark them with headwork grade."),
    ];
  }

  get linked() { return this.sheet.length ? this.sheet : [this.screen.exercise]; }

  showSheet() {
    if (!this.screen.exercise) return;
    this.chosen.replaceChildren(...this.sheet.map((one, i) => make("li", {}, `${Progress.words(one)} `, make("button", { type: "button", "aria-label": `Remove ${i + 1}`, onclick: () => { this.sheet.splice(i, 1); this.showSheet(); } }, "−"))));
    const more = new URLSearchParams(Object.entries({ "~title": this.title.value.trim(), "~hints": this.hintLimit.value }).filter(([, value]) => value));
    const hash = `#/practise/${this.linked.map(Progress.key).join("+")}${[...more].length ? `?${more}` : ""}`;
    this.link.value = this.lab.served ? `course.html${hash}` : location.href.split("#")[0] + hash;
  }

  async copyLink() {
    await this.lab.copy(this.link.value);
    const here = location.protocol === "file:" ? "Copied. It opens this file on this computer; on your course page, the part from # on goes behind the page's address." : "Copied.";
    this.say(this.linkStatus, this.lab.served ? "Copied. This server is for this computer only: write the page with headwork lab --save course.html, put it on your course page, and give this link to it." : here);
  }

  async saveKey() {
    const file = await this.lab.backend.call("key_file", { exercises: this.linked, title: this.title.value.trim() });
    if (file.error) return this.say(this.linkStatus, file.error.message, true);
    saveFile(file.name, file.text, "application/toml");
    this.say(this.linkStatus, `Saved as ${file.name}. ${file.next}`);
  }
}
