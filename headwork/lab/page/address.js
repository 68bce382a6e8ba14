// A state as the address of the page, so that a link reproduces it: #/try/self-attention?tokens=1 2; 2 0&beta=1
const address = (() => {
  const simple = (text) => /^[^\s,;[\]()]+$/.test(text);
  function text(nested) {
    if (!Array.isArray(nested)) return nested;
    const flat = (row) => row.every((cell) => !Array.isArray(cell) && simple(cell));
    if (nested.length > 1 && !Array.isArray(nested[0]) && flat(nested)) return nested.join(" ");
    if (nested.length > 1 && nested.every((row) => Array.isArray(row) && flat(row))) return nested.map((row) => row.join(" ")).join("; ");
    return `[${nested.map(text).join(", ")}]`;
  }

  function write(screen, state, more = {}) {
    const query = new URLSearchParams();
    for (const [name, nested] of Object.entries(state.inputs || {})) query.set(name, text(nested));
    for (const [name, value] of Object.entries(state.options || {})) query.set(`.${name}`, value);
    for (const [path, cells] of Object.entries(state.edits || {})) query.set(`!${path}`, JSON.stringify(cells));
    for (const name of ["tokens_as", "digits", "random"]) if (name in state) query.set(`~${name}`, state[name]);
    for (const [name, value] of Object.entries(more)) if (value) query.set(`~${name}`, value);
    return `#/${screen}/${state.mechanism}?${query}`;
  }

  // { screen, rest, state, more }: what an address names; a state only where it has numbers.
  function read(hash) {
    const [path, query] = hash.replace(/^#\/?/, "").split("?");
    const [screen, ...rest] = path.split("/").map(decodeURIComponent);
    const result = { screen, rest: rest.join("/"), state: null, more: {} };
    if (!query) return result;
    const state = { mechanism: result.rest, inputs: {}, options: {}, edits: {} };
    for (const [name, value] of new URLSearchParams(query)) {
      const bare = name.slice(1);
      if (name.startsWith(".")) state.options[bare] = value;
      else if (name.startsWith("!")) {
        try { state.edits[bare] = JSON.parse(value); } catch { /* an edit that cannot be read is left out */ }
      } else if (!name.startsWith("~")) state.inputs[name] = value;
      else if (bare === "digits" || bare === "random") state[bare] = Number(value);
      else if (bare === "tokens_as") state.tokens_as = value;
      else result.more[bare] = value;
    }
    if (Object.keys(state.inputs).length) result.state = state;
    return result;
  }
  return { write, read };
})();
