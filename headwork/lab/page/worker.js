// Python inside the page: a worker that starts Pyodide from files it is given, or fetches from beside the page.
const LOCK = { info: { arch: "wasm32", platform: "emscripten_2026_0", version: "314.0.3", python: "3.14.0", abi_version: "2026_0" }, packages: {} };
const INDEX = "https://inside.invalid/"; // never asked: what Pyodide fetches is answered below

async function unpacked(text) {
  const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}

// A page that was opened as a file has no module workers, and Pyodide takes a worker with importScripts for one that
// cannot import modules; this one can.
self.importScripts = () => { throw new TypeError("modules are imported here"); };
let python = null;

function unpack(archive) {
  python.unpackArchive(archive.buffer, "zip", { extractDir: python.runPython("import site; site.getsitepackages()[0]") });
  python.runPython("import importlib; importlib.invalidate_caches()");
}

async function start({ files, base, empty }) {
  const report = (progress, words) => postMessage({ progress, words });
  const network = self.fetch.bind(self);
  const get = files ? (name) => unpacked(files[name]) : async (name) => new Uint8Array(await (await network(`${base}${name}`)).arrayBuffer());
  const asked = new Map();
  const bytes = (name) => asked.get(name) || asked.set(name, get(name)).get(name);
  for (const name of ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"]) bytes(name);
  const module = async (name) => {
    if (!files) return import(new URL(`${base}${name}`, self.location).href);
    const address = URL.createObjectURL(new Blob([await bytes(name)], { type: "text/javascript" }));
    try { return await import(address); } finally { URL.revokeObjectURL(address); }
  };
  self.fetch = async (address) => {
    const name = String(address).split("/").at(-1);
    const type = name.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
    return new Response(await bytes(name), { headers: { "Content-Type": type } });
  };
  const [{ loadPyodide }, { default: createPyodideModule }] = await Promise.all([module("pyodide.mjs"), module("pyodide.asm.mjs")]);
  python = await loadPyodide({ indexURL: INDEX, lockFileContents: LOCK, createPyodideModule });
  asked.clear();
  if (empty) return postMessage({ ready: true });
  report(0.6, "Python is here; numpy is next.");
  unpack(await get("site.zip"));
  getFile = get;
  answerText = python.runPython("from headwork.lab.calls import run_call_text; run_call_text");
  report(0.9, "Nearly there.");
  python.runPython("from headwork.lab.calls import run_call, example_state, FIRST_MECHANISM; run_call('explain', {'state': example_state(FIRST_MECHANISM).as_data()})");
  postMessage({ ready: true });
  python.FS.writeFile("/lib/sympy.zip", await get("sympy.zip"));
  python.runPython("import sys; sys.path.append('/lib/sympy.zip')");
  postMessage({ exact: true });
  return null;
}

self.addEventListener("message", async ({ data }) => {
  if (data.start) {
    started = start(data.start).catch((error) => postMessage({ failed: String(error).trim().split("\n").at(-1).slice(0, 300) || "unknown" }));
    return;
  }
  await started; // the exact numbers come last
  try {
    if (data.lazyFile) unpackingLazy = (data.packed ? unpacked(data.packed) : getFile(data.lazyFile)).then(unpack);
    await unpackingLazy;
    postMessage({ id: data.id, answer: answerText(data.name, data.request) });
  } catch (error) { // nobody waits for ever
    const message = `This failed inside the page: ${String(error).trim().split("\n").at(-1).slice(0, 300)}`;
    postMessage({ id: data.id, answer: JSON.stringify({ error: { message, kind: "fault" } }) });
  }
});
let started = null;
let unpackingLazy = null; // further modules, for calls that need them
let getFile = null;
let answerText = null; // one proxy of Python's function, not one per call
