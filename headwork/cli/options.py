"""What each command takes: types and defaults from its function, words from ``commands.toml``."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, get_type_hints

from typer import Argument, Option

from headwork.files import load_package_toml

COMMANDS = load_package_toml(__file__, "commands.toml")
TYPES: dict[str, Any] = {"int": int | None, "str": str | None}
REQUIRED = inspect.Parameter.empty
Function = Callable[..., None]
Parameters = dict[str, tuple[Any, Any]]  # the type of each, as typer reads it, and its default


def parameters_of(function: Function, about: Mapping[str, Any]) -> Parameters:
    """What a function takes; with ``**options`` also what only the table ``about`` the command lists."""
    declared = inspect.signature(function).parameters
    arguments, options = about.get("arguments", {}), about.get("options", {})
    named = {name: p.default for name, p in declared.items() if p.kind is not p.VAR_KEYWORD}
    hints = get_type_hints(function)
    result: Parameters = {}
    for name in dict.fromkeys((*named, *arguments, *options)):
        if name == "output":  # which brings its own (``cli/output.py``)
            continue
        words = _words(name, arguments.get(name, options.get(name, {})))
        kind, default = _type_and_default(words)
        kind, default = hints.get(name, kind), named.get(name, default)
        result[name] = annotated(name, kind, default, words, argument=name in arguments), default
    return result


def _words(name: str, texts: Any) -> dict[str, Any]:
    """What is said of an option: a text of its own, or what several commands share with what it adds."""
    if isinstance(texts, str):
        return {"help": texts}
    shared = COMMANDS["options"].get(name, {})
    return {**({"help": shared} if isinstance(shared, str) else shared), **texts}


def _type_and_default(words: Mapping[str, Any]) -> tuple[Any, Any]:
    """Of an option that no function declares; without a default it may be left out."""
    default = words.get("default")
    kind = TYPES[words.get("type", "str")] if default is None else type(default)
    return kind, REQUIRED if words.get("required") else default


def annotated(name: str, kind: Any, default: Any, words: Mapping[str, Any], *, argument: bool = False) -> Any:
    """The type with what typer is told; what is on by default can be switched off by --no-name."""
    if argument:
        return Annotated[kind, Argument(help=words["help"], metavar=words.get("metavar"))]
    bounds = {bound: words[bound] for bound in ("min", "max") if bound in words}
    flag = words.get("flag", f"--{name.strip('_').replace('_', '-')}")
    flags = () if default is True else (flag,)
    return Annotated[kind, Option(*flags, help=words["help"], **bounds)]


def with_parameters(function: Function, parameters: Parameters) -> Function:
    """The function with these parameters, as typer reads them."""

    @wraps(function)
    def command(**arguments: Any) -> None:
        function(**arguments)

    command.__annotations__ = {name: kind for name, (kind, _) in parameters.items()}
    keyword = inspect.Parameter.KEYWORD_ONLY
    signature = [inspect.Parameter(n, keyword, default=d, annotation=k) for n, (k, d) in parameters.items()]
    command.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    return command
