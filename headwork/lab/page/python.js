// Starts Python inside the page: from its own script elements, or for a site from the files beside it.
function startPython(backend) {
  const code = document.getElementById("worker-code");
  if (code) {
    const files = {};
    for (const element of document.querySelectorAll("script[data-file]")) {
      files[element.dataset.file] = element.textContent;
      element.remove();
    }
    const address = URL.createObjectURL(new Blob([code.textContent], { type: "text/javascript" }));
    backend.start(new Worker(address));
    backend.worker.postMessage({ start: { files } });
  } else {
    backend.start(new Worker("worker.js"));
    backend.worker.postMessage({ start: { base: "python/" } });
  }
}
