// Puts text on the clipboard.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // a page that was opened as a file may lack the clipboard
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// Buttons that copy a card's numbers as LaTeX or NumPy.
const copyButtons = (() => {
  const LATEX = { "∞": "\\infty", "-∞": "-\\infty", undefined: "\\text{undefined}" };
  const SIGNS = { "−": "-", "·": "\\cdot ", "∞": "\\infty ", "π": "\\pi ", "⋅": "\\cdot " };

  // The exact form of a cell is MathML: back to LaTeX, for the few elements that numbers have.
  function latex(node) {
    if (node.nodeType === Node.TEXT_NODE) return [...node.data].map((sign) => SIGNS[sign] || sign).join("");
    const parts = [...node.childNodes].map(latex);
    if (node.localName === "mfrac") return `\\frac{${parts[0]}}{${parts[1]}}`;
    const foot = parts[0]?.length > 1 ? `{${parts[0]}}` : parts[0];
    if (node.localName === "msup") return `${foot}^{${parts[1]}}`;
    if (node.localName === "msub") return `${foot}_{${parts[1]}}`;
    if (node.localName === "msqrt") return `\\sqrt{${parts.join("")}}`;
    if (node.localName === "mroot") return `\\sqrt[${parts[1]}]{${parts[0]}}`;
    return /^[a-z]{2,}$/.test(node.textContent) ? `\\${parts.join("")} ` : parts.join("");
  }
  const asLatex = ([decimal, exact]) => {
    if (!exact) return LATEX[decimal] || decimal;
    const holder = document.createElement("div");
    holder.innerHTML = exact;
    return latex(holder);
  };
  // The last entry of a record is its number in full precision.
  const asNumpy = (record) => String(record.at(-1)).replace("Infinity", "np.inf").replace("NaN", "np.nan");

  const forms = {
    LaTeX: (matrices) => matrices
      .map((rows) => `\\begin{bmatrix}\n${rows.map((row) => row.map(asLatex).join(" & ")).join(" \\\\\n")}\n\\end{bmatrix}`)
      .join("\n"),
    NumPy: (matrices, name) => {
      const nested = matrices.map((rows) => `[${rows.map((row) => `[${row.map(asNumpy).join(", ")}]`).join(", ")}]`);
      return `${name.replace(/\W+/g, "_")} = np.array(${nested.length > 1 ? `[${nested.join(", ")}]` : nested[0]})`;
    },
  };

  // ``rowsOf`` gives the records of a matrix, row by row, each with its number at the end; what is shown in part is not copied.
  return (card, rowsOf) => {
    const places = [...card.querySelectorAll(".matrix")].filter((place) => place.closest(".parameter, .card") === card);
    if (!places.length || places.some((place) => place.querySelector(".gap"))) return;
    const name = card.querySelector(".name b").textContent;
    const line = document.createElement("p");
    line.className = "copy";
    for (const [form, write] of Object.entries(forms)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `copy ${form}`;
      button.setAttribute("aria-label", `copy ${form} of ${name}`);
      button.addEventListener("click", async () => {
        await copyText(write(places.map(rowsOf), name));
        button.textContent = "copied";
        setTimeout(() => { button.textContent = `copy ${form}`; }, 1500);
      });
      line.append(button);
    }
    card.append(line);
  };
})();
