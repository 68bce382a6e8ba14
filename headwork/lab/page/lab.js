// The page: which screen is open, the address, notices, and how Python is reached.
const SCREENS = {
  try: ["Try it", TryScreen], inside: ["Look inside", InsideScreen], practise: ["Practise", PractiseScreen],
  problems: ["Problems", ProblemsScreen], start: ["", StartScreen],
};

class Lab {
  constructor() {
    const data = JSON.parse(document.getElementById("lab-data").textContent);
    this.served = data.served;
    this.first = data.first;
    this.firstState = data.state;
    this.main = document.getElementById("screen");
    this.progressLine = document.getElementById("ready");
    const nav = document.getElementById("screens");
    for (const [name, [title]] of Object.entries(SCREENS)) if (title) nav.append(make("a", { href: `#/${name}`, "data-screen": name }, title));
    if (this.served) this.backend = new ServerBackend(new URLSearchParams(location.search).get("token") || "", data.limits);
    else {
      this.backend = new PageBackend(data.precomputed, (share, words) => this.progress(share, words));
      this.backend.ready.then(() => { this.isReady = true; });
      startPython(this.backend);
    }
    this.isReady ||= this.served;
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      document.querySelector("td[tabindex='0']")?.focus();
    });
    window.addEventListener("hashchange", () => { if (location.hash !== this.ownAddress) this.open(); });
    this.open();
  }

  // --- screens and the address -------------------------------------------------------------------------------------
  async open() {
    const place = address.read(location.hash);
    const name = place.screen in SCREENS ? place.screen : "try";
    this.ownAddress = location.hash;
    if (name !== this.name) {
      this.screen?.close();
      this.main.className = name;
      delete this.main.dataset.format;
      this.main.replaceChildren();
      this.name = name;
      this.screen = new SCREENS[name][1](this.main, this);
      for (const link of document.querySelectorAll("[data-screen]")) link.ariaCurrent = link.dataset.screen === name ? "page" : null;
    }
    await this.screen.open(place);
    document.body.dataset.open = name; // for whoever waits until something is shown
  }

  go(hash, again = false) {
    if (location.hash === hash || again) {
      history.replaceState(null, "", hash);
      this.open();
    } else location.hash = hash;
  }

  address(screen, state, more) {
    if (!state) return;
    this.ownAddress = address.write(screen, state, more);
    history.replaceState(null, "", this.ownAddress);
    this.ownAddress = location.hash;
  }

  // What a canvas inside another screen may use: everything but the address; ``reset`` brings back what it began with.
  forInnerCanvas(reset) {
    return Object.assign(Object.create(this), { address: () => {}, go: reset });
  }

  // --- what is asked once --------------------------------------------------------------------------------------
  once(name) { return (this[`known ${name}`] ||= this.backend.call(name, {})); }
  async mechanisms() { return (await this.once("mechanisms")).mechanisms || []; }
  problems() { return this.once("problems"); }
  capabilities() { return this.once("capabilities"); }

  // --- words for people ----------------------------------------------------------------------------------------
  // Live changes are announced when they have come to rest.
  announce(text) {
    clearTimeout(this.announceTimer);
    this.announceTimer = setTimeout(() => { document.getElementById("announcer").textContent = text; }, 700);
  }

  notice(text) {
    document.querySelector(".notice")?.remove();
    const box = make("p.notice", { role: "status" }, text);
    document.body.append(box);
    setTimeout(() => box.remove(), 6000);
  }

  canChange() {
    if (!this.isReady) this.notice("Python is still starting inside this page. In a moment every number can be changed.");
    return this.isReady;
  }

  progress(share, words) {
    const line = this.progressLine;
    line.hidden = share === 1;
    line.classList.toggle("bad", share < 0);
    line.style.setProperty("--share", share);
    line.textContent = share < 0 ? `Python did not start: ${words}` : words;
  }

  async copy(text) { return copyText(text); }
}

globalThis.lab = new Lab(); // at hand in the console: await lab.backend.call("capabilities", {})
