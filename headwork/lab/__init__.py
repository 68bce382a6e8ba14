"""The lab: a page that computes. One set of calls, reached over a local server or inside the page."""
