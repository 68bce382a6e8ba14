// node compile.mjs PYODIDE FOLDER OPTIMISE: FOLDER/sources.zip as bytecode of Pyodide's Python, FOLDER/compiled.zip.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [pyodideFolder, folder, optimise] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${pyodideFolder}/pyodide.mjs`).href);
const info = { arch: "wasm32", platform: "emscripten_2026_0", version: "314.0.3", python: "3.14.0", abi_version: "2026_0" };
const python = await loadPyodide({ indexURL: `${pyodideFolder}/`, lockFileContents: { info, packages: {} } });
python.FS.writeFile("/sources.zip", readFileSync(`${folder}/sources.zip`));
python.globals.set("optimise", Number(optimise));
python.runPython(`
import importlib._bootstrap_external as loader, warnings, zipfile
warnings.simplefilter("ignore")
with zipfile.ZipFile("/sources.zip") as sources, zipfile.ZipFile("/compiled.zip", "w") as made:
    for name in sources.namelist():
        code = compile(sources.read(name), name, "exec", dont_inherit=True, optimize=optimise)
        made.writestr(zipfile.ZipInfo(name + "c", (2026, 1, 1, 0, 0, 0)), bytes(loader._code_to_timestamp_pyc(code)))
`);
writeFileSync(`${folder}/compiled.zip`, python.FS.readFile("/compiled.zip"));
