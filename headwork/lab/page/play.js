// Stepping through, one cell of each card from left to right, and the keys of the screen.
const PLAY_SECONDS = 2.5;

class Player {
  constructor(screen) {
    Object.assign(this, { screen, timer: null, at: null });
    this.button = make("button.play", { type: "button", title: "Step through, card by card: space plays, Page Down and Page Up step", onclick: () => this.toggle() }, "▶ Play");
    this.keys = (event) => this.shortcut(event);
    document.addEventListener("keydown", this.keys);
  }

  close() {
    document.removeEventListener("keydown", this.keys);
    this.pause();
  }

  toggle() {
    if (this.timer) return this.pause();
    this.next(1);
    this.timer = setInterval(() => this.next(1), PLAY_SECONDS * 1000);
    this.button.textContent = "▮▮ Pause";
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = "▶ Play";
  }

  // Every card in view again.
  end() {
    this.pause();
    this.at = null;
    for (const card of this.screen.canvas.cards.values()) card.classList.remove("later");
  }

  next(by) {
    const { canvas, view, pinned } = this.screen;
    const steps = view.values.filter((value) => !value.input).sort((a, b) => a.column - b.column);
    this.at = (this.at ?? -1) + by;
    if (this.at >= steps.length || this.at < 0) return this.end();
    const rank = new Map(steps.map((value, i) => [value.path, i]));
    for (const [path, card] of canvas.cards) card.classList.toggle("later", (rank.get(path) ?? -1) > this.at);
    const cells = steps[this.at].matrices[0].index.flat().filter((index) => index !== null);
    const wanted = pinned?.[1].split(",").slice(-2).join(",");
    const index = cells.find((one) => one.split(",").slice(-2).join(",") === wanted) || cells[Math.min(1, cells.length - 1)];
    const td = canvas.cell(steps[this.at].path, index);
    this.screen.over = null;
    canvas.focus(td);
    td.closest(".card").scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  shortcut(event) {
    const { screen } = this;
    const typing = event.target.closest?.("input[type='text'], select, textarea");
    if ((event.ctrlKey || event.metaKey) && !typing && /^[zy]$/i.test(event.key)) {
      event.preventDefault();
      if (event.key.toLowerCase() === "y" || event.shiftKey) screen.step(screen.redo, screen.undo);
      else screen.step(screen.undo, screen.redo);
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("td")?.contains(screen.canvas.editor)) return;
    if (event.key === " " && !event.target.closest?.("button, summary, input, a")) { event.preventDefault(); this.toggle(); }
    else if (event.key === "PageDown" || event.key === "PageUp") { event.preventDefault(); this.next(event.key === "PageDown" ? 1 : -1); }
    else if (event.key === "Escape") { this.end(); screen.canvas.showError(null); }
  }
}
