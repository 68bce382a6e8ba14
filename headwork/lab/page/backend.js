// The two ways to the calls: a local server, or Python inside this page. Both answer JSON with JSON.
const elements = {
  // make("td.edited", { tabIndex: 0 }, child, ...): an element with its classes, properties and children.
  make(kind, properties = {}, ...children) {
    const [name, ...classes] = kind.split(".");
    const element = document.createElement(name);
    if (classes.length) element.className = classes.join(" ");
    for (const [key, value] of Object.entries(properties)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (/^(aria-|data-|role$|for$)/.test(key)) element.setAttribute(key, value);
      else element[key] = value;
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  },
};
const { make } = elements;

const LAZY_FILES = Object.fromEntries(["models", "model", "look", "head", "descend", "relevance", "open_model"].map((name) => [name, "inside.zip"]));

class ServerBackend {
  constructor(token, limits) { Object.assign(this, { token, limits }); } // bytes of one request, by call
  ready = Promise.resolve();
  async call(name, request) {
    let response;
    const body = JSON.stringify(request);
    const bytes = new Blob([body]).size;
    const limit = this.limits[name] ?? this.limits[""];
    if (bytes > limit) return { error: { message: `That is ${bytes.toLocaleString("en")} bytes; at most ${limit.toLocaleString("en")} are read at once.`, kind: "too large" } };
    try {
      response = await fetch(`call/${name}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Headwork-Token": this.token },
        body,
      });
    } catch {
      return { error: { message: "The server does not answer. Start it again with: headwork lab", kind: "gone" } };
    }
    if (response.headers.get("Content-Type") !== "application/json") {
      return { error: { message: `The server refused (${response.status}). Open the address that headwork lab printed.`, kind: "gone" } };
    }
    return response.json();
  }
}

// Python inside the page, in a worker. What was worked out when the page was written is answered at once, also before Python is ready.
class PageBackend {
  constructor(precomputed, progress) {
    this.precomputed = precomputed;
    this.waiting = new Map();
    this.count = 0;
    this.ready = new Promise((resolve) => { this.resolve = resolve; });
    progress(0.05, "Python is starting inside this page. The numbers can be read already.");
    this.progress = progress;
  }

  start(worker) {
    this.worker = worker;
    worker.addEventListener("message", ({ data }) => {
      if (data.progress !== undefined) this.progress(data.progress, data.words);
      else if (data.ready) { this.progress(1, ""); this.resolve(); }
      else if (data.failed) this.progress(-1, data.failed);
      else if (data.exact) this.exact = true;
      else {
        this.waiting.get(data.id)(JSON.parse(data.answer));
        this.waiting.delete(data.id);
      }
    });
    worker.addEventListener("error", (event) => this.progress(-1, event.message || "the worker did not start"));
  }

  async call(name, request) {
    const known = this.precomputed[this.key(name, request)];
    if (known) return structuredClone(known);
    await this.ready;
    const id = ++this.count;
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.worker.postMessage({ id, name, request: JSON.stringify(request), ...this.lazyFileOf(name) });
    });
  }

  // What a call needs besides: a file that is lazyFile when it is first used.
  lazyFileOf(name) {
    const file = LAZY_FILES[name];
    if (!file || this.lazyFile === file) return {};
    this.lazyFile = file;
    const element = document.querySelector(`script[data-later="${file}"]`);
    element?.remove();
    return { lazyFile: file, packed: element?.textContent };
  }

  key(name, { state, ...rest }) {
    const same = state && PageBackend.plain(state) === PageBackend.plain(this.precomputed["explain first"].state);
    return `${name}${state ? (same ? " first" : " other") : ""}${Object.values(rest).map((part) => ` ${part}`).join("")}`;
  }

  static plain({ mechanism, inputs, options, edits = {}, exact = false, tokens_as = "rows", digits = 4, random = null }) {
    return JSON.stringify([mechanism, inputs, options, edits, exact, tokens_as, digits, random]);
  }
}

// At most one question under way, and only the newest of those that wait is asked: answers come in the order of the
// questions, so an older one never follows a newer one. A question that was overtaken is answered by null.
class LatestOnly {
  constructor(backend) { Object.assign(this, { backend, busy: false, next: null }); }
  ask(name, request) {
    this.next?.resolve(null);
    return new Promise((resolve) => {
      this.next = { name, request, resolve };
      this.run();
    });
  }
  async run() {
    if (this.busy || !this.next) return;
    const { name, request, resolve } = this.next;
    this.next = null;
    this.busy = true;
    const answer = await this.backend.call(name, request);
    this.busy = false;
    resolve(answer);
    this.run();
  }
}
