// Starts Python inside the page; the server's page never calls it.
function startPython() {}
