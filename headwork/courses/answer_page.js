// Saves the answer file. JSON's strings are strings of TOML too, except for the delete character.
(() => {
  const quoted = text => JSON.stringify(text).replace(/\u007f/g, "");
  const form = document.getElementById("sheet");
  const key = "headwork " + form.dataset.file + " " + document.title;
  const blanks = [...form.querySelectorAll("[data-name]")];
  try {
    const saved = JSON.parse(localStorage.getItem(key) || "{}");
    blanks.forEach(b => { if (saved[b.id]) b.value = saved[b.id]; });
  } catch (error) { /* a browser may forbid storage to a file */ }
  form.addEventListener("input", () => {
    try { localStorage.setItem(key, JSON.stringify(Object.fromEntries(blanks.map(b => [b.id, b.value])))); }
    catch (error) { /* as above */ }
  });
  form.addEventListener("submit", event => {
    event.preventDefault();
    const lines = ["student = " + quoted(document.getElementById("student").value.trim())];
    if (form.dataset.sheet) lines.push("sheet = " + quoted(form.dataset.sheet));
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
    document.getElementById("saved").textContent = "Saved as " + form.dataset.file + ".";
  });
})();
