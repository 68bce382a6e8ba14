// The start page: one sentence, one picture, a few doors.
class StartScreen {
  constructor(root, lab) {
    const door = (href, title, words) => make("a.door", { href }, make("b", {}, title), make("span", {}, words));
    const picture = make("div.picture", { "aria-hidden": "true", onclick: () => lab.go("#/try") });
    root.classList.add("start");
    root.append(
      make("h1", {}, "Attention, with every number in view."),
      make("p.lead", {}, "Change any number and see at once what follows from it, and why."),
      make("nav.doors", { "aria-label": "Where to begin" },
        door("#/try", "Try it", "Four tokens attend to each other. Drag β, type, point."),
        door("#/inside", "Look inside", "Draw a digit and watch a trained transformer look at it, head by head."),
        door("#/problems", "Look up a question", "Five hand-outs, question by question, the answer first."),
        door("#/practise", "Practise", "Work an exercise by hand: the page finds the first wrong step and says why."),
        door("#/try/multi-head-attention", "Go further", "Heads, masks, positions, convolution, recurrence, whole models.")),
      picture,
    );
    // The picture is the canvas itself, to look at.
    lab.backend.call("explain", { state: lab.firstState }).then((view) => {
      const canvas = make("div", { inert: true });
      picture.append(canvas);
      if (!view.error) new Canvas(canvas, {}).show(view);
    });
  }
  open() {}
  close() {}
}
