"""``headwork inspect``, ``sizes``, ``sensitivity`` and ``compare``: seen, counted, perturbed, measured."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from headwork.cli.app import command
from headwork.cli.options import COMMANDS
from headwork.cli.output import Output, assignment, check_out_path, comma_separated
from headwork.errors import InputError
from headwork.files import toml_text


def _add_sizes_command(name: str) -> None:
    """Add a command that passes its options on to a function of ``headwork.sizes``."""
    function = COMMANDS[f"sizes {name}"].get("function", name)

    def count(output: Output, **arguments: Any) -> None:
        from headwork import sizes
        from headwork.readings.notebook_cells import call_text

        for size in ("image", "inputs", "kernel", "stride", "padding"):
            if size in arguments:
                arguments[size] = _parse_sizes(f"--{size.removesuffix('s')}", arguments[size])
        code = call_text(f"sizes.{function}", arguments)
        ledger = getattr(sizes, function)(**arguments)
        output.show(ledger.with_code(f"from headwork import sizes\n\n{code}"))

    command(name, group_name="sizes")(count)


for ledger in ("patches", "convolution", "attention", "transformer", "vit", "growth"):
    _add_sizes_command(ledger)


@command(group_name="sizes")
def model(
    output: Output, name: str, set_: list[str] | None = None, tokens: int = 128, batch: int = 1
) -> None:
    """Count a real model, layer by layer.

    With shapes, parameters and FLOPs. --set changes a field of its config.
    """
    from headwork.sizes.architectures import input_shapes, model_config, model_ledger
    from headwork.training.run_folders import find_run, load

    settings = dict(assignment(text, "--set", "width=64") for text in set_ or [])
    saved = find_run(name).exists()
    if saved and settings:
        raise InputError(
            f"{name} is a checkpoint, whose config is settled. Leave out --set, or name a model."
        )
    if saved:
        model = load(name)
        definition, config = model.definition, model.config
    else:
        definition, config = model_config(name, settings)
    shapes = input_shapes(definition, config, tokens=tokens, batch=batch)
    output.show(model_ledger(definition, config, shapes))


def _parse_sizes(option: str, text: str) -> int | str | tuple[int, ...]:
    """``224`` is one size, ``3x256x256`` are several; for a convolution ``W`` is any size."""
    of_convolution = option in ("--input", "--kernel", "--stride", "--padding")
    if of_convolution and re.fullmatch(r"[A-Za-z](?:_?\d+|_\w{1,9})?", text):
        return text
    parts = re.split(r"\s*[x×X*,]\s*", text.strip())
    if not all(re.fullmatch(r"-?\d{1,18}", part) for part in parts):
        short = text if len(text) < 40 else f"{text[:30]}..."
        raise InputError(f"{option} {short!r}: expected whole numbers, with x between: 224, 224x160.")
    numbers = tuple(map(int, parts))
    if len(numbers) > 1 and option in ("--stride", "--padding"):
        raise InputError(f"{option} {text}: one number (or letter), the same along every axis.")
    return numbers[0] if len(numbers) == 1 else numbers


@command()
def sensitivity(
    output: Output,
    query: str,
    key: str,
    value: str,
    moved_key: int,
    delta: str,
    betas: str = "0.1 0.5 1 2 5 10 50",
    plot: Path | None = None,
    digits: int = 4,
) -> None:
    """Perturb one key and see how the output changes.

    Shows weights and output for several beta, the worst case over all inputs, and where the winner flips.
    """
    from headwork.documents import save_figure
    from headwork.readings.sensitivity import sensitivity as measure

    result = measure(query, key, value, moved_key=moved_key, delta=delta, betas=betas)
    output.show(result.document(digits))
    if plot is not None:
        save_figure(result.figure(), plot)


@command()
def inspect_(
    output: Output,
    model: str,
    image: Path | None = None,
    index: int | None = None,
    text: str | None = None,
    target: str | None = None,
    resize: bool = False,
) -> None:
    """Show where a model looks, and how far to trust it.

    The prediction, what it rests on by each method beside how far that method is above random on this
    input, attention of every head, and the roles of the heads.
    """
    from headwork.inspection.inspecting import inspect as inspect_model
    from headwork.readings.notebook_cells import call_text

    given = {"image": image, "index": index, "text": text, "target": target, "resize": resize or None}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    shown = inspect_model(model, **options)
    texts = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    call = call_text("headwork.inspect", texts).replace("(", f"({toml_text(model)}, ", 1)
    output.show(shown.with_code(f"import headwork\n\n{call}"))


@command()
def compare(
    output: Output,
    full: bool = False,
    only: list[str] | None = None,
    families: str = "",
    seeds: str = "",
    steps: int | None = None,
    out: Path | None = None,
) -> None:
    """Measure CNN, RNN, transformer and linear attention.

    The models have equally many parameters. The remaining time is estimated from the measurements
    finished so far.
    """
    check_out_path(out, folder=True)
    try:
        seed_numbers = [int(part) for part in comma_separated(seeds)]
    except ValueError:
        raise InputError(f"--seeds {seeds!r}: expected whole numbers, such as 0 or 0,1,2.") from None
    if find_spec("torch") is None:
        raise InputError('compare needs torch, which is not installed: pip install ".[train]"')
    from headwork import comparison

    settings = comparison.Settings.from_options(
        full=full,
        families=comma_separated(families.lower()),
        sections=only or [],
        seeds=seed_numbers,
        steps=steps,
    )
    folder = out or Path("comparison-full" if full else "comparison-quick")
    try:
        result = comparison.compare(settings, folder)
    except comparison.StoppedError as stopped:
        print(f"headwork: {stopped}", file=sys.stderr)
        raise typer.Exit(130) from None
    output.show(result)
    print(f"The report with its pictures is {(folder / 'comparison.html').resolve()}", file=sys.stderr)
