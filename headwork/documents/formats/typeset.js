// A line of arithmetic such as S[0,1] = (1*2 + 0)/sqrt(2) as MathML; null where it is not understood.
const typeset = (() => {
  const TOKEN = /\s*(\.\.\.|…|\d+(?:\.\d+)?(?:e[-+]\d+)?|[^\W\d](?:\w|'|_\([^()]*\)|\^\(\w+\)(?=\[))*|[∞≈αβγδεθλμσφωΦΣ]|[-+*/^()[\],=<>])/uy;

  function tokens(line) {
    const found = [];
    TOKEN.lastIndex = 0;
    while (TOKEN.lastIndex < line.trimEnd().length) {
      const match = TOKEN.exec(line);
      if (!match) return null;
      found.push(match[1]);
    }
    return found;
  }

  const holder = document.createElement("template");
  holder.innerHTML = "<math></math>";
  const { namespaceURI } = holder.content.firstChild;
  const node = (name, ...children) => {
    const made = document.createElementNS(namespaceURI, name);
    made.append(...children);
    return made;
  };
  const sign = (text) => node("mo", { "*": "·", "-": "−", "...": "…" }[text] || text);

  class Reader {
    constructor(list) { Object.assign(this, { list, at: 0 }); }
    get next() { return this.list[this.at]; }
    take(wanted) {
      if (wanted && this.next !== wanted) throw new SyntaxError(wanted);
      return this.list[this.at++];
    }
    many(part, ...signs) {
      const row = [part()];
      while (signs.includes(this.next)) row.push(sign(this.take()), part());
      return row.length > 1 ? node("mrow", ...row) : row[0];
    }
    line() { return this.many(() => this.sum(), "=", "≈", "<", ">"); }
    sum() { return this.many(() => this.product(), "+", "-"); }
    product() {
      let left = this.power();
      while (this.next === "*" || this.next === "/") {
        if (this.take() === "/") left = node("mfrac", this.bare(left), this.bare(this.power()));
        else left = node("mrow", left, sign("*"), this.power());
      }
      return left;
    }
    // Brackets that a fraction or a root makes needless.
    bare(part) { return part.inner || part; }
    power() {
      if (this.next === "-" || this.next === "+") return node("mrow", sign(this.take()), this.power());
      const foot = this.atom();
      if (this.next !== "^") return foot;
      this.take();
      return node("msup", foot, this.bare(this.power()));
    }
    bracket() {
      this.take("(");
      const inner = this.many(() => this.line(), ",");
      this.take(")");
      const made = node("mrow", sign("("), inner, sign(")"));
      made.inner = inner.cloneNode(true);
      return made;
    }
    atom() {
      if (this.next === "(") return this.bracket();
      const text = this.take();
      if (text === undefined || /^[-+*/^)[\],=<>]$/.test(text)) throw new SyntaxError(text);
      if (/^\d/.test(text)) return node("mn", text);
      if (text === "..." || text === "…") return sign(text);
      const [name, above] = text.split(/\^(\(.*\))/); // Q^(0) is of block 0
      const [letter, ...below] = name.replace(/[()]/g, "").split("_");
      if (this.next === "(") {
        const argument = this.bracket();
        if (letter === "sqrt") return node("msqrt", argument.inner);
        return node("mrow", node("mi", letter), argument);
      }
      if (this.next === "[") {
        this.take();
        while (this.next !== "]" && this.next !== undefined) below.push(this.take());
        this.take("]");
      }
      if (above) return node("msubsup", node("mi", letter), node("mtext", below.join("")), node("mtext", above));
      return below.length ? node("msub", node("mi", letter), node("mtext", below.join(""))) : node("mi", letter);
    }
  }

  return (line) => {
    const list = tokens(line);
    if (!list || list.length > 400) return null;
    try {
      const reader = new Reader(list);
      const made = node("math", reader.line());
      return reader.at === list.length ? made : null;
    } catch (error) {
      if (error instanceof SyntaxError) return null;
      throw error;
    }
  };
})();

// The same as a paragraph: typeset for the eye, as it is written for those who listen or copy.
function arithmeticLine(line) {
  const p = document.createElement("p");
  p.textContent = line;
  const formula = typeset(line);
  if (formula) {
    const spoken = document.createElement("span");
    spoken.className = "spoken";
    spoken.textContent = line;
    formula.setAttribute("aria-hidden", "true");
    p.replaceChildren(spoken, formula);
  }
  return p;
}
