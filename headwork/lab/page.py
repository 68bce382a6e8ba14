"""The page as it is put together: served in parts, or whole as one file with Python inside.

A screen is one script in ``page/`` with a class, listed in ``SCRIPTS`` and in ``SCREENS`` of lab.js.
"""

import base64
import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from headwork.documents.page_templates import read_asset, render_template, script_data
from headwork.lab.calls import EXAMPLES, FIRST_MECHANISM, capabilities_where, example_state, run_call
from headwork.lab.practising import FIRST_EXERCISE

HERE = Path(__file__).parent / "page"
STYLES = ("page.css", "trace.css", "grid.css", "lab.css", "inside.css", "practise.css")
MAX_BODY = {"": 256_000, "open_model": 33_000_000}  # bytes of a request, by call: a model of 24 MB, in base64
LAZY_FILES = ("inside.zip",)  # files that are unpacked when they are first needed
SCRIPTS = (
    *("flow.js", "typeset.js", "copy.js", "grid.js"),  # of the pages that other commands write
    *("inside_pad.js", "inside_heads.js", "inside_more.js", "inside.js"),
    *("backend.js", "address.js", "canvas.js", "play.js", "try.js", "problems.js"),
    *("progress.js", "practise.js"),
    *("start.js", "python.js", "lab.js"),
)
LINKED_STYLE = Markup('<link rel="stylesheet" href="lab.css">')
LINKED_SCRIPT = Markup('<script src="lab.js"></script>')
# Scripts only from the page itself; style attributes are how figures and tints are drawn.
SERVED_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)


def read_page_file(name: str) -> str:
    """A style or script: of the lab, or of the pages that every command writes."""
    lab_file = HERE / name
    return lab_file.read_text("utf-8") if lab_file.exists() else str(read_asset(name))


def style() -> str:
    return "\n".join(map(read_page_file, STYLES))


def script() -> str:
    body = "\n".join(map(read_page_file, SCRIPTS))
    return f'"use strict";\n{{\n{body}}}\n'


def lab_data_element(**more: Any) -> Markup:
    """What the scripts need to begin with."""
    state = run_call("explain", {"state": example_state(FIRST_MECHANISM).as_data()})["state"]
    data = {"first": FIRST_MECHANISM, "state": state, **more}
    return Markup(str(script_data(data)).replace("<script ", '<script id="lab-data" ', 1))


def page_address(name: str) -> str:
    """The end of an address that opens a mechanism, a question of a hand-out or a problem of the book.

    >>> page_address("softmax"), page_address("hw3/1.1e"), page_address("A2"), page_address("")
    ('#/try/softmax', '#/problems/hw3/1.1e', '#/problems/task2/b', '')
    """
    from headwork.problems.handouts import look_up, questions

    if not name or name in EXAMPLES:
        return name and f"#/try/{name}"
    question = next((q.name for q in questions().values() if name.upper() in q.problems), "")
    return f"#/problems/{question or look_up(name)[0].name}"


def _page(policy: str, *, styles: Markup = LINKED_STYLE, scripts: Markup = LINKED_SCRIPT, **data: Any) -> str:
    """The page, whose style and script are files beside it unless they are given."""
    parts = {"policy": policy, "styles": styles, "data": lab_data_element(**data), "scripts": scripts}
    return str(render_template("lab.html", HERE, **parts))


def served_page() -> str:
    """The page of the local server."""
    return _page("", served=True, limits=MAX_BODY)


def csp_source(text: str) -> str:
    """The source of an inline script or style, for a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# --- with Python inside -------------------------------------------------------------------------------------
@cache
def precomputed_answers() -> dict[str, Any]:
    """Answers that the page has before Python is ready: the first screen, every cell of it, the problems."""
    state = run_call("explain", {"state": example_state(FIRST_MECHANISM).as_data()})["state"]
    first = run_call("explain", {"state": state})
    answers: dict[str, Any] = {"explain first": first}
    for value in first["values"]:
        for index in (i for matrix in value["matrices"] for row in matrix["index"] for i in row):
            request = {"state": state, "path": value["path"], "index": index}
            answers[f"cell first {value['path']} {index}"] = run_call("cell", request)
    answers |= {name: run_call(name, {}) for name in ("mechanisms", "problems", "models", "kinds")}
    # What this machine has, the page has not.
    answers["models"] |= {"runs": [], "foreign": []}
    answers["capabilities"] = capabilities_where(lambda package: False)
    answers |= {key: run_call(*question) for key, question in first_inside_requests().items()}
    answers[f"exercise {' '.join(map(str, FIRST_EXERCISE.values()))}"] = run_call("exercise", FIRST_EXERCISE)
    for slug in answers["problems"]["titles"]:
        answers[f"problem {slug}"] = run_call("problem", {"slug": slug})
    return answers


def first_inside_requests() -> dict[str, tuple[str, dict[str, str]]]:
    """The first screen of "Look inside", by the keys of the page: each a call and its request."""
    from headwork.training.run_folders import example_images

    name = run_call("models", {})["models"][0]["name"]
    picture = base64.b64encode(example_images(name).images[0].tobytes()).decode()
    picture_request = {"model": name, "given": picture, "changes": "", "query": "0"}
    head_request = {**picture_request, "block": "3", "head": "2"}
    return {
        " ".join((call, *request.values())): (call, request)
        for call, request in (("look", picture_request), ("head", head_request))
    }


def _policy(scripts: str, styles: str, connect: str) -> str:
    return (
        f"default-src 'none'; script-src {scripts} 'wasm-unsafe-eval'; worker-src {scripts}; "
        f"style-src {styles}; style-src-attr 'unsafe-inline'; img-src data:; connect-src {connect}; "
        "form-action 'none'; base-uri 'none'"
    )


def _text_script(identity: str, text: str) -> Markup:
    return Markup('<script type="text/plain" {}>{}</script>\n').format(Markup(identity), Markup(text))


def one_file() -> bytes:
    """The whole lab as one page that asks the network for nothing."""
    from headwork.lab.packing import python_files

    css, js, worker = style(), script(), read_page_file("worker.js")
    assert "</script" not in worker
    files = [
        _text_script(
            f'data-{"later" if name in LAZY_FILES else "file"}="{name}"',
            base64.b64encode(gzip.compress(data, 9, mtime=0)).decode(),
        )
        for name, data in python_files().items()
    ]
    # The numbers are read while the rest of the file still loads.
    scripts = Markup("").join(
        [_text_script('id="worker-code"', worker), *files, Markup("<script>{}</script>").format(Markup(js))]
    )
    return _page(
        _policy(f"{csp_source(js)} blob:", csp_source(css), "'none'"),
        styles=Markup("<style>{}</style>").format(Markup(css)),
        scripts=scripts,
        served=False,
        precomputed=precomputed_answers(),
    ).encode()


def site() -> dict[str, bytes]:
    """The lab as files for any static web host."""
    from headwork.lab.packing import python_files

    policy = _policy("'self'", "'self'", "'self'")
    page = _page(policy, served=False, precomputed=precomputed_answers())
    texts = {
        "index.html": page,
        "lab.css": style(),
        "lab.js": script(),
        "worker.js": read_page_file("worker.js"),
    }
    python = {f"python/{name}": data for name, data in python_files().items()}
    return {**{name: text.encode() for name, text in texts.items()}, **python}
