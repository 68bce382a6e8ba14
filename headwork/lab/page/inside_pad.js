// The picture of "Look inside": drawn with mouse, finger or keys, dropped, pasted, or one of the test images. The
// browser decodes and resamples; what the numbers mean, Python decides.
const PAD = 280; // dots of the drawing, on each side
const MAX_BYTES = 20_000_000;
const MAX_PIXELS = 16_000_000;
const KEY_STEP = 10;

const bytesToText = (bytes) => {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
};
const textToBytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// Width and height by the header alone, so that nothing enormous is ever decoded; null where it is not a picture.
function pictureSize(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const word = (at, length) => String.fromCharCode(...bytes.subarray(at, at + length));
  try {
    if (word(1, 3) === "PNG") return [view.getUint32(16), view.getUint32(20)];
    if (word(0, 3) === "GIF") return [view.getUint16(6, true), view.getUint16(8, true)];
    if (word(0, 2) === "BM") return [view.getInt32(18, true), Math.abs(view.getInt32(22, true))];
    if (word(0, 4) === "RIFF" && word(8, 4) === "WEBP") {
      const kind = word(12, 4);
      if (kind === "VP8 ") return [view.getUint16(26, true) & 0x3fff, view.getUint16(28, true) & 0x3fff];
      if (kind === "VP8L") return [(view.getUint32(21, true) & 0x3fff) + 1, ((view.getUint32(21, true) >> 14) & 0x3fff) + 1];
      return [(view.getUint32(24, true) & 0xffffff) + 1, (view.getUint32(26, true) >> 8) + 1];
    }
    if (view.getUint16(0) !== 0xffd8) return null;
    for (let at = 2; at < bytes.length; at += 2 + view.getUint16(at + 2)) {
      const marker = view.getUint16(at);
      if (marker >= 0xffc0 && marker <= 0xffcf && ![0xffc4, 0xffc8, 0xffcc].includes(marker)) return [view.getUint16(at + 7), view.getUint16(at + 5)];
      if (marker < 0xff00) return null;
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return null;
}

class Pad {
  // ``onChange(given)`` gets the picture as base64 whenever it changed; ``notice`` says what is wrong, in words.
  constructor({ onChange, notice, canChange }) {
    Object.assign(this, { onChange, notice, canChange, undone: [], cursor: [PAD / 2, PAD / 2], down: false });
    this.canvas = make("canvas.pad", { width: PAD, height: PAD, tabIndex: 0, role: "img" });
    this.canvas.setAttribute("aria-describedby", "pad-help");
    this.mark = make("i.pen", { "aria-hidden": "true", hidden: true });
    this.hint = make("p.pad-hint", { "aria-hidden": "true" });
    this.root = make("div.pad-place", {}, this.canvas, this.hint, this.mark);
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
    this.scaled = make("canvas");
    this.listen();
    this.clear(false);
  }

  use(model) {
    this.model = model;
    this.pen = model.name === "digits" ? 30 : 22;
    this.hint.textContent = model.hint;
    this.canvas.setAttribute("aria-label", `Picture: ${model.hint}`);
  }

  // --- reading what is there ------------------------------------------------------------------------------------
  given() {
    if (this.exact) return this.exact;
    const side = this.model.drawn;
    Object.assign(this.scaled, { width: side, height: side });
    const context = this.scaled.getContext("2d", { willReadFrequently: true });
    context.imageSmoothingQuality = "high";
    context.drawImage(this.canvas, 0, 0, side, side);
    return bytesToText(this.planes(context.getImageData(0, 0, side, side).data));
  }

  // Red, green and blue one after the other; one channel is enough for grey.
  planes(dots) {
    const { channels } = this.model;
    const count = dots.length / 4;
    const planes = new Uint8Array(channels * count);
    for (let channel = 0; channel < channels; channel += 1) for (let i = 0; i < count; i += 1) planes[channel * count + i] = dots[4 * i + channel];
    return planes;
  }

  reportChange() { this.onChange(this.given()); }

  // A stroke begins; on a picture that was chosen it begins a drawing of its own.
  beginStroke(at) {
    this.remember();
    if (!this.drawn) this.clear(false);
    this.drawn = true;
    this.hint.hidden = true;
    this.stroke(at, at);
  }

  // --- changing it ----------------------------------------------------------------------------------------------
  clear(tell = true) {
    this.exact = null;
    this.drawn = false;
    this.context.fillStyle = "#000";
    this.context.fillRect(0, 0, PAD, PAD);
    this.hint.hidden = false;
    if (tell) this.onChange(this.given());
  }

  remember() {
    this.undone.push([this.context.getImageData(0, 0, PAD, PAD), this.exact, this.hint.hidden, this.drawn]);
    if (this.undone.length > 20) this.undone.shift();
  }

  undo() {
    const before = this.undone.pop();
    if (!before) return;
    this.context.putImageData(before[0], 0, 0);
    [, this.exact, this.hint.hidden, this.drawn] = before;
    this.onChange(this.given());
  }

  // A picture of the model's own size is taken dot by dot.
  show(picture, width, height) {
    this.remember();
    const { size } = this.model;
    this.exact = null;
    this.drawn = false;
    this.hint.hidden = false;
    if (width === size && height === size) {
      Object.assign(this.scaled, { width: size, height: size });
      const context = this.scaled.getContext("2d", { willReadFrequently: true });
      context.drawImage(picture, 0, 0);
      this.exact = bytesToText(this.planes(context.getImageData(0, 0, size, size).data));
    }
    const side = Math.min(width, height);
    this.context.imageSmoothingEnabled = !this.exact;
    this.context.imageSmoothingQuality = "high";
    this.context.fillStyle = "#fff"; // what is transparent shows paper
    this.context.fillRect(0, 0, PAD, PAD);
    this.context.drawImage(picture, (width - side) / 2, (height - side) / 2, side, side, 0, 0, PAD, PAD);
    this.reportChange();
  }

  // What the model saw, from a link.
  showSeen(seen) {
    const { size, channels } = this.model;
    const canvas = seenCanvas(seen, size, channels);
    if (canvas) this.show(canvas, size, size);
  }

  async open(file) {
    const refuse = (words) => this.notice(`${file.name}: ${words}`);
    if (file.size > MAX_BYTES) return refuse("more than 20 MB. Make it smaller.");
    const size = pictureSize(new Uint8Array(await file.arrayBuffer()));
    if (!size) return refuse("not a picture that can be opened here. PNG, JPEG, GIF, WebP or BMP can.");
    if (!(size[0] > 0 && size[1] > 0) || size[0] * size[1] > MAX_PIXELS) return refuse(`${size[0]} × ${size[1]} dots; at most 16 million are decoded. Make it smaller.`);
    try {
      const picture = await createImageBitmap(file);
      this.show(picture, picture.width, picture.height);
      picture.close();
    } catch {
      refuse("damaged: it cannot be decoded.");
    }
    return null;
  }

  // --- pen --------------------------------------------------------------------------------------------------------
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * PAD, ((event.clientY - box.top) / box.height) * PAD];
  }

  stroke(from, to) {
    this.exact = null;
    const { context } = this;
    Object.assign(context, { strokeStyle: "#fff", lineWidth: this.pen, lineCap: "round", lineJoin: "round" });
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(to[0] + 0.01, to[1]);
    context.stroke();
    this.reportChange();
  }

  listen() {
    const { canvas } = this;
    let last = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button || !this.canChange()) return;
      canvas.setPointerCapture(event.pointerId);
      last = this.at(event);
      this.beginStroke(last);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      for (const one of event.getCoalescedEvents?.() || [event]) {
        const next = this.at(one);
        this.stroke(last, next);
        last = next;
      }
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { last = null; });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.moveMark(canvas.matches(":focus-visible")));
    canvas.addEventListener("blur", () => { this.down = false; this.moveMark(false); });
  }

  moveMark(visible = true) {
    this.mark.hidden = !visible;
    this.mark.classList.toggle("down", this.down);
    this.mark.style.setProperty("--x", this.cursor[0] / PAD);
    this.mark.style.setProperty("--y", this.cursor[1] / PAD);
  }

  key(event) {
    const steps = { ArrowLeft: [-KEY_STEP, 0], ArrowRight: [KEY_STEP, 0], ArrowUp: [0, -KEY_STEP], ArrowDown: [0, KEY_STEP] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) {
      const next = this.cursor.map((place, axis) => Math.max(0, Math.min(PAD, place + steps[event.key][axis])));
      if (this.down) this.stroke(this.cursor, next);
      this.cursor = next;
    } else if (event.key === " ") {
      if (!this.canChange()) return;
      this.down = !this.down;
      if (this.down) this.beginStroke(this.cursor);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.remember();
      this.clear();
    } else return;
    event.preventDefault();
    this.moveMark();
  }
}

// Bytes (channel, height, width) as a canvas of that many dots.
function seenCanvas(seen, size, channels) {
  const bytes = textToBytes(seen);
  if (bytes.length !== channels * size * size) return null;
  const canvas = make("canvas", { width: size, height: size });
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  const count = size * size;
  for (let i = 0; i < count; i += 1) {
    for (let channel = 0; channel < 3; channel += 1) image.data[4 * i + channel] = bytes[(channels > channel ? channel : 0) * count + i];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
