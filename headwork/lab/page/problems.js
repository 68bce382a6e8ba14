// The problems: hand-outs by question, search, the answer first, and the steps live on a canvas below.
class ProblemsScreen {
  constructor(root, lab) {
    Object.assign(this, { root, lab });
    this.search = make("input", { type: "search", placeholder: "Search questions", "aria-label": "Search questions", oninput: () => this.filter() });
    this.list = make("nav.questions", { "aria-label": "Questions" });
    this.page = make("article.problem", { tabIndex: -1 });
    this.below = make("div.problem.wide"); // the flow needs the whole width
    root.classList.add("problems");
    root.append(make("aside", {}, this.search, this.list), this.page, this.below);
  }

  async open({ rest }) {
    const { handouts, titles } = await this.lab.problems();
    if (!this.list.childElementCount) this.fill(handouts, titles);
    const slug = rest.split("/").at(-1);
    const question = handouts.flatMap((handout) => handout.questions).find((one) => one.id === rest || (!rest && one.id === "task2/b"));
    const wanted = question ? question.problems : titles[slug.toUpperCase()] ? [slug.toUpperCase()] : [];
    for (const link of this.list.querySelectorAll("a")) link.ariaCurrent = link.dataset.id === (question?.id || slug) ? "page" : null;
    if (!wanted.length) return this.page.replaceChildren(make("p", {}, `There is no question ${rest}. Choose one from the list.`));
    const parts = [];
    if (question) parts.push(make("p.asked", {}, make("b", {}, question.id), ` ${question.asks}`));
    if (question?.exercise) parts.push(make("p", {}, make("a", { href: `#/practise/${question.exercise}` }, "Practise it with other numbers")));
    this.page.replaceChildren(...parts, make("p.hint", {}, "Working it out …"));
    this.below.replaceChildren();
    const answers = [];
    for (const one of wanted) answers.push(await this.lab.backend.call("problem", { slug: one }));
    this.closeCanvas();
    const live = answers.find((answer) => answer.states?.length);
    const shown = answers.map((answer) => this.answer(answer));
    this.page.replaceChildren(...parts, ...shown.flatMap(([first]) => first));
    this.below.replaceChildren(...(live ? [this.live(live.states)] : []));
    (live ? this.below : this.page).append(...shown.flatMap(([, rest]) => rest));
  }

  fill(handouts, titles) {
    for (const { name, about, questions } of handouts) {
      const items = questions.map((question) => make("li", {}, make("a", { href: `#/problems/${question.id}`, "data-id": question.id }, make("b", {}, question.id.split("/")[1]), ` ${question.asks}`)));
      for (const [i, question] of questions.entries()) items[i].words = [question.id, question.asks, ...question.problems, ...question.problems.map((slug) => titles[slug])].join(" ").toLowerCase();
      this.list.append(make("section", {}, make("h2", {}, name, make("small", {}, ` ${about}`)), make("ul", {}, ...items)));
    }
  }

  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const section of this.list.children) {
      for (const item of section.querySelectorAll("li")) item.hidden = !words.every((word) => item.words.includes(word));
      section.hidden = !section.querySelector("li:not([hidden])");
    }
    this.lab.announce(`${this.list.querySelectorAll("li:not([hidden])").length} questions`);
  }

  answer({ error, slug, title, question, answer, why, verdict, errors, html, checks }) {
    if (error) return [[make("p.note", {}, error.message)], []];
    const parts = [make("h2", {}, `${slug}. ${title}`), make("p.answer", {}, make("b", {}, "Answer: "), answer)];
    if (why) parts.push(make("p", {}, make("b", {}, "Why: "), why));
    if (errors.length) {
      const rows = errors.map((one) => make("tr", {}, make("td", {}, one.what), make("td", {}, one.ours), make("td", {}, make("s", {}, one.published)), make("td", {}, one.why)));
      const heads = ["value", "correct", "hand-out's answer", "why it is an error"].map((text) => make("th", { scope: "col" }, text));
      parts.push(make("h3", {}, "Errors in the hand-out's answer"), make("div.scroll", {}, make("table.plain", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows))));
    }
    const work = make("div.work");
    work.innerHTML = html; // blocks that Python wrote, everything but markup escaped
    return [parts, [
      make("details", { open: !errors.length && html.length < 3000 }, make("summary", {}, `${slug}: the question, and the work in words`), make("p", {}, question), work),
      make("details", {}, make("summary", {}, `${slug}: ${checks.length} values ${verdict}`), make("ul.items", {}, ...checks.map((text) => make("li", {}, text)))),
    ]];
  }

  // The steps of the problem on the same canvas as everywhere, with its numbers to begin with.
  live(states) {
    const place = make("section.live", { "aria-label": "The steps, live" }, make("h3", {}, "The steps, with your own numbers"));
    const choices = make("p.choices");
    const root = make("div.try");
    let current = states[0];
    const show = (state) => {
      current = state;
      for (const [i, button] of [...choices.children].entries()) button.ariaPressed = String(states[i] === state);
      return this.screen.open({ rest: state.mechanism, state, more: { show: state.exact ? "both" : "" } });
    };
    states.forEach((state, i) => choices.append(make("button", { type: "button", onclick: () => show(state) }, `${i + 1}. ${state.mechanism.replaceAll("-", " ")}`)));
    if (states.length > 1) place.append(choices);
    place.append(root);
    this.screen = new TryScreen(root, this.lab.forInnerCanvas(() => show(current)));
    show(states[0]);
    return place;
  }

  closeCanvas() { this.screen?.close(); this.screen = null; }
  close() { this.closeCanvas(); }
}
