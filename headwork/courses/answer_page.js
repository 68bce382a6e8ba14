// The cells to fill in, and the answer file. The text of each blank is the truth; its cells mirror it.
// JSON's strings are strings of TOML too, except for the delete character.
(() => {
  const quoted = text => JSON.stringify(text).replace(/\u007f/g, "");
  const form = document.getElementById("sheet"), student = document.getElementById("student");
  const saved = document.getElementById("saved"), columns = document.getElementById("columns");
  const key = "headwork answers " + form.dataset.key;
  const blanks = [...form.querySelectorAll("[data-name]")];
  const stored = name => { try { return localStorage.getItem(name); } catch (error) { return null; } };
  const store = (name, text) => { try { localStorage.setItem(name, text); } catch (error) { /* forbidden to files */ } };

  // A pasted matrix as rows of entries: from a spreadsheet, from text, from Python or from LaTeX.
  const rowsOf = text => {
    text = text.replace(/\\(begin|end)\{[a-z]*matrix\}/g, " ").replace(/\\\\/g, ";").replace(/&/g, " ")
      .replace(/\]\s*,?\s*\[/g, ";").replace(/[[\]]/g, " ");
    const apart = /\t/.test(text) ? /\t/ : /,/.test(text) ? /\s*,\s*|\s+/ : /\s+/;
    return text.split(/[;\n\r]+/).map(row => row.trim()).filter(Boolean).map(row => row.split(apart).filter(Boolean));
  };
  const sizeOf = rows => rows.length + " x " + (rows.every(row => row.length === rows[0].length) ? rows[0].length : "?");
  // An entry is one word, so that spaces separate entries; a mixed number becomes a sum.
  const word = entry => entry.trim().replace(/^([-+]?)(\d+)\s+(\d+\/\d+)$/, "$1($2+$3)").replace(/\s+/g, "") || "?";

  class Blank {
    constructor(text) {
      this.text = text;
      this.status = text.closest(".blank").querySelector(".check");
      const shape = (text.dataset.shape || "").split(" ").filter(Boolean).map(Number);
      this.shape = shape.length ? [shape.slice(0, -1).reduce((a, b) => a * b, 1), shape[shape.length - 1]] : null;
      this.cells = null;
      text.addEventListener("input", () => this.read());
    }
    get size() { return columns && columns.checked && this.text.dataset.turns ? [...this.shape].reverse() : this.shape; }
    // The table of cells, made anew when rows and columns change places.
    draw() {
      if (!this.shape) return;
      const label = (i, j) => this.text.dataset.name + " row " + i + ", column " + j;
      const {table, cells} = new Grid(...this.size, {label, changed: () => this.write(), pasted: event => this.paste(event)});
      this.cells = cells;
      this.text.parentNode.parentNode.querySelector("table")?.remove();
      this.text.closest("label").after(table);
      this.read();
    }
    // Rows and columns change places, and with them what is filled in.
    turn() {
      const rows = rowsOf(this.text.value);
      if (this.text.dataset.turns && rows.length && rows.every(row => row.length === rows[0].length))
        this.text.value = rows[0].map((_, j) => rows.map(row => row[j]).join(" ")).join("\n");
      this.draw();
    }
    // Cells from the text, where it has the shape; says what shape it has where it is another.
    read() {
      if (!this.cells) return;
      const rows = rowsOf(this.text.value), fits = rows.length === this.size[0] && rows.every(row => row.length === this.size[1]);
      const vector = this.size[0] === 1 || this.size[1] === 1, flat = rows.flat();
      const list = !fits && vector && flat.length === this.size[0] * this.size[1] ? flat : null;
      this.cells.forEach((row, i) => row.forEach((cell, j) => {
        const entry = fits ? rows[i][j] : list ? list[i * this.size[1] + j] : "";
        cell.value = entry === "?" ? "" : entry;
      }));
      const expected = this.size.join(" x ");
      this.check(rows.length && !fits && !list ? "yours is " + sizeOf(rows) + "; expected " + expected : "");
    }
    write() {
      this.text.value = this.cells.map(row => row.map(cell => word(cell.value)).join(" ")).join("\n");
      this.check("");
    }
    check(problem) {
      const cells = this.cells.flat(), filled = cells.filter(cell => cell.value.trim());
      filled.forEach(cell => cell.classList.toggle("odd", /[^-+\d\sA-Za-z.^*/()√²³%½⅓⅔¼¾∞\\{}]/.test(cell.value)));
      const odd = filled.filter(cell => cell.classList.contains("odd"));
      const comma = odd.some(cell => cell.value.includes(",")) ? " Write a decimal point, not a comma." : "";
      this.status.textContent = problem || (odd.length ? "not a number: " + odd[0].value + "." + comma
        : filled.length ? filled.length + " of " + cells.length + " entries" : "");
      this.status.classList.toggle("bad", Boolean(problem || odd.length));
    }
    // A whole matrix pasted into any cell fills the table.
    paste(event) {
      const text = event.clipboardData.getData("text"), rows = rowsOf(text);
      if (rows.flat().length < 2) return;
      event.preventDefault();
      this.text.value = rows.map(row => row.map(word).join(" ")).join("\n");
      this.read();
      form.dispatchEvent(new Event("input"));
    }
  }
  const fields = blanks.map(text => new Blank(text));
  const fill = (answers, name) => {
    blanks.forEach(blank => { if (answers[blank.id] !== undefined) blank.value = answers[blank.id]; });
    if (name) student.value = name;
    fields.forEach(field => field.draw());
  };
  const state = () => Object.fromEntries([...blanks.map(b => [b.id, b.value]), ["tokens as columns", columns?.checked ? "yes" : ""]]);

  let kept = {};
  try { kept = JSON.parse(stored(key) || "{}"); } catch (error) { /* not ours */ }
  if (columns) columns.checked = kept["tokens as columns"] === "yes";
  fill(kept, student.value || stored("headwork student"));
  form.classList.add("live");
  form.addEventListener("input", () => {
    store(key, JSON.stringify(state()));
    store("headwork student", student.value);
  });
  columns?.addEventListener("change", () => fields.forEach(field => field.turn()));
  document.getElementById("as-text").addEventListener("change", event => form.classList.toggle("as-text", event.target.checked));

  // A saved file, or the sheet: tables, strings on one line or between three quotation marks.
  const parse = text => {
    const found = {student: "", columns: false, answers: {}, exercise: {}};
    let table = "", line;
    const lines = text.replace(/\r\n?/g, "\n").split("\n");
    const unquote = word => { try { return word.startsWith("'") ? word.slice(1, -1) : JSON.parse(word); } catch (error) { return word; } };
    while ((line = lines.shift()) !== undefined) {
      const head = line.match(/^\s*\[(\w+)(?:\.(.+?))?\]\s*$/), entry = line.match(/^\s*("(?:[^"\\]|\\.)*"|[\w-]+)\s*=\s*(.*)$/);
      if (head) table = head[1] + (head[2] ? "." + unquote(head[2]) : "");
      if (head || !entry) continue;
      let value = entry[2].trim();
      const quotes = value.slice(0, 3);
      if (quotes === '"""' || quotes === "'''") {
        value = value.slice(3);
        while (!value.includes(quotes) && lines.length) value += "\n" + lines.shift();
        value = value.split(quotes)[0].replace(/^\n/, "").replace(/\n$/, "");
      } else value = unquote(value.replace(/\s+#[^"']*$/, ""));
      const name = unquote(entry[1]);
      if (!table && name === "student") found.student = value;
      if (table === "conventions" && name === "tokens_as") found.columns = value === "columns";
      if (table.startsWith("answers.")) found.answers[table.slice(8) + "/" + name] = String(value);
      if (table.startsWith("exercise.")) found.exercise[table.slice(9) + "/" + name] = String(value);
    }
    return found;
  };
  document.getElementById("open").addEventListener("change", async event => {
    const file = event.target.files[0], found = file ? parse(await file.text()) : null;
    if (!found) return;
    const other = [...form.querySelectorAll("section[data-exercise]")].some(part => ["kind", "seed", "difficulty"].some(name => {
      const value = found.exercise[part.dataset.exercise + "/" + name];
      return part.dataset.kind && value !== undefined && value !== part.dataset[name];
    }));
    const fitting = blanks.some(blank => found.answers[blank.id] !== undefined);
    if (other || !fitting) saved.textContent = file.name + " answers another exercise; nothing was changed.";
    else {
      if (columns) columns.checked = found.columns;
      fill(found.answers, found.student);
      saved.textContent = file.name + " is open again.";
      form.dispatchEvent(new Event("input"));
    }
    event.target.value = "";
  });

  form.addEventListener("submit", event => {
    event.preventDefault();
    const lines = ["student = " + quoted(student.value.trim())];
    if (form.dataset.sheet) lines.push("sheet = " + quoted(form.dataset.sheet));
    if (columns?.checked) lines.push("", "[conventions]", 'tokens_as = "columns"');
    for (const part of form.querySelectorAll("section[data-exercise]")) {
      const name = quoted(part.dataset.exercise);
      if (part.dataset.kind) lines.push("", "[exercise." + name + "]", "kind = " + quoted(part.dataset.kind),
        "seed = " + part.dataset.seed, "difficulty = " + part.dataset.difficulty);
      lines.push("", "[answers." + name + "]");
      for (const blank of part.querySelectorAll("[data-name]"))
        lines.push(quoted(blank.dataset.name) + " = " + quoted(blank.value));
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], {type: "application/toml"}));
    link.download = form.dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    saved.textContent = "Saved as " + form.dataset.file + " where your browser puts downloads. " + form.dataset.next;
  });
})();
