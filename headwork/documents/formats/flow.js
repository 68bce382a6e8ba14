// The cards of a trace as a flow: rows by what depends on what, and arrows between the cards.
class Flow {
  static MOST = 80; // cards; of more the arrows would say nothing
  static LANES = 4; // beside the cards, on the left

  // ``before`` has, for each card, the set of those that it reads.
  constructor(root, before) {
    Object.assign(this, { root, before });
    root.insertAdjacentHTML("afterbegin", '<svg class="arrows" aria-hidden="true"></svg>');
    this.picture = root.firstElementChild;
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(root);
  }

  // The flow of a page of cells: their sources say which card reads which.
  static ofCells(root, cells, sources) {
    const cards = [...root.querySelectorAll(".card")];
    if (cards.length < 2 || cards.length > Flow.MOST) return;
    const cardOf = (cell) => (cell.map?.canvas || cell.element).closest(".card");
    const before = new Map(cards.map((card) => [card, new Set()]));
    for (const cell of cells) {
      const card = cardOf(cell);
      for (const number of card ? sources(cell) : []) {
        const source = cardOf(cells[number]);
        if (source && source !== card) before.get(card).add(source);
      }
    }
    const flow = new Flow(root, before);
    root.querySelectorAll(".cards").forEach((group) => flow.breakRows([...group.children]));
    for (const kind of ["pointerover", "focusin"]) root.addEventListener(kind, (event) => flow.light(event.target.closest(".card")));
    root.addEventListener("pointerleave", () => flow.light(null));
  }

  stop() {
    this.observer.disconnect();
    this.picture.remove();
  }

  // What stands side by side, or follows from the card before it, shares a row.
  breakRows(cards) {
    let row = [];
    let chain = false;
    for (const card of cards) {
      const before = this.before.get(card);
      const follows = before.has(row.at(-1));
      const depends = row.some((other) => before.has(other));
      if (row.length && (row.length === 1 ? false : chain ? !follows : depends)) {
        const gap = document.createElement("div");
        gap.className = "row";
        card.before(gap);
        row = [];
      }
      if (row.length === 1) chain = follows;
      row.push(card);
    }
  }

  draw() {
    const frame = this.root.getBoundingClientRect();
    if (!frame.width) return;
    const box = (card) => {
      const { left, right, top, bottom } = card.getBoundingClientRect();
      return { left: left - frame.left, right: right - frame.left, top: top - frame.top, bottom: bottom - frame.top };
    };
    const boxes = new Map([...this.before.keys()].map((card) => [card, box(card)]));
    const all = [...boxes.values()];
    for (const one of all) one.foot = Math.max(...all.filter((other) => Math.abs(other.top - one.top) < 2).map((other) => other.bottom));
    this.paths = [];
    const lanes = new Map(); // one for each card from which an arrow runs past others
    for (const [card, sources] of this.before) {
      const to = boxes.get(card);
      [...sources].forEach((source, i) => {
        const from = boxes.get(source);
        const share = (i + 1) / (sources.size + 1);
        const past = all.some((other) => other.top >= from.foot && other.foot <= to.top);
        if (past && !lanes.has(source)) lanes.set(source, lanes.size % Flow.LANES);
        const path = document.createElementNS(this.picture.namespaceURI, "path");
        path.setAttribute("d", this.constructor.line(from, to, share, past ? lanes.get(source) : null));
        this.paths.push({ card, source, path });
      });
    }
    this.picture.replaceChildren(...this.paths.map(({ path }) => path));
  }

  // Past the rows between, on the left of all cards: behind them it could not be followed.
  static detour(from, to, share, lane) {
    const [x, end] = [from.left + 24 + 6 * lane, to.left + share * (to.right - to.left)];
    return `M${x} ${from.bottom}V${from.foot + 6 + 2 * lane}H${-6 - 4 * lane}V${to.top - 8 - lane}H${end}V${to.top - 1}m-4 -5l4 5l4 -5`;
  }

  // From the right edge to the left one within a row, or else from below to above, or by a lane; with its point.
  static line(from, to, share, lane) {
    if (lane != null) return Flow.detour(from, to, share, lane);
    if (from.right <= to.left && from.top < to.bottom && to.top < from.bottom) {
      const y = Math.max(from.top, to.top) + 28;
      return `M${from.right} ${y}H${to.left - 1}m-5 -4l5 4l-5 4`;
    }
    const [x, end] = [(from.left + from.right) / 2, to.left + share * (to.right - to.left)];
    const bend = Math.max(14, (to.top - from.foot) / 2);
    return `M${x} ${from.bottom}V${from.foot}C${x} ${from.foot + bend} ${end} ${to.top - bend} ${end} ${to.top - 1}m-4 -5l4 5l4 -5`;
  }

  light(card) {
    for (const { path, ...ends } of this.paths || []) path.classList.toggle("bright", card !== null && ends.card === card);
  }
}
