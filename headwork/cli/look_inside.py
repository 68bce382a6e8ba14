"""``headwork inspect``, ``sizes``, ``sensitivity`` and ``compare``: seen, counted, perturbed, measured."""

import inspect
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from headwork.cli.app import command, group
from headwork.cli.output import Digits, Output, Settings, assignment, comma_separated, keyword_options
from headwork.errors import InputError
from headwork.files import toml_text

sizes_app = group(
    "sizes",
    "Look inside",
    "Count shapes, parameters and FLOPs, exactly.",
    "headwork sizes patches --image 224 --patch 16",
    "headwork sizes vit --help",
)

SIZE = "Side of a square, or height x width: 224, 224x160."
OPTIONS: dict[str, Any] = {
    "mechanism": Annotated[str, Argument(help="Which mechanism: see headwork explain --list.")],
    "image": Annotated[str, Option(help=SIZE)],
    "patch": Annotated[int, Option(help="Side of a patch.")],
    "inputs": Annotated[str, Option("--input", help="Length, or with channels first: 9, 3x256x256; or W.")],
    "kernel": Annotated[str, Option(help=SIZE)],
    "filters": Annotated[int, Option(help="Output channels.")],
    "channels": Annotated[int | None, Option(help="Input channels.")],
    "stride": Annotated[str, Option(help="Step between positions.")],
    "padding": Annotated[str, Option(help="Zeros added before and after.")],
    "groups": Annotated[int, Option(help="Groups of channels, each convolved alone.")],
    "depthwise": Annotated[bool, Option("--depthwise", help="A convolution with one group per channel.")],
    "tokens": Annotated[int, Option(help="Number of tokens; of the source where there is a target.")],
    "target_tokens": Annotated[int | None, Option(help="Tokens of the target, if different.")],
    "memory": Annotated[int | None, Option(help="Tokens that make keys and values, if different.")],
    "tokens_as": Annotated[str, Option(help="rows or columns.")],
    "batch": Annotated[int | None, Option(help="Sequences at once: an axis before the others.")],
    "width": Annotated[int, Option(help="Width of a token's vector.")],
    "heads": Annotated[int | None, Option(help="Attention heads; they divide the width.")],
    "biases": Annotated[bool, Option("--biases", help="Projections with biases.")],
    "depth": Annotated[int, Option(help="Layers (of each stack).")],
    "hidden": Annotated[int | None, Option(help="Hidden width of the feed-forward layers.")],
    "vocabulary": Annotated[int, Option(help="Words; 0 counts the stacks alone.")],
    "classes": Annotated[int, Option(help="Classes of the head.")],
    "class_token": Annotated[bool, Option(help="One token more, read at the end.")],
}
REQUIRED = inspect.Parameter.empty


def _add_sizes_command(
    name: str, summary: str, defaults: dict[str, Any], *examples: str, function: str = ""
) -> None:
    """Add a command whose options are the arguments of a function of ``headwork.sizes``."""

    def count(output: Output, **arguments: Any) -> None:
        from headwork import sizes
        from headwork.readings.notebook_cells import call_text

        for size in ("image", "inputs", "kernel", "stride", "padding"):
            if size in arguments:
                arguments[size] = _parse_sizes(f"--{size.removesuffix('s')}", arguments[size])
        code = call_text(f"sizes.{function or name}", arguments)
        ledger = getattr(sizes, function or name)(**arguments)
        output.show(ledger.with_code(f"from headwork import sizes\n\n{code}"))

    count.__doc__ = summary
    options = {option: (OPTIONS[option], default) for option, default in defaults.items()}
    keyword_options(count, {"output": (Output, REQUIRED)} | options)
    command(*examples, to=sizes_app, name=name)(count)


_add_sizes_command(
    "patches",
    "Count the patches and tokens of an image.",
    {"image": REQUIRED, "patch": REQUIRED, "channels": 3, "class_token": True},
    "headwork sizes patches --image 224 --patch 16",
)
_add_sizes_command(
    "convolution",
    "Count the output and weights of a convolution.\n\n"
    "Beside it, the same map locally connected and as a dense layer.",
    {"inputs": REQUIRED, "kernel": REQUIRED, "filters": 1, "channels": None}
    | {"stride": "1", "padding": "0", "groups": 1},
    "headwork sizes convolution --input 3x256x256 --filters 32 --kernel 5 --stride 2",
    "headwork sizes convolution --input 9 --kernel 3 --padding 1 --stride 2",
    "headwork sizes convolution --input W --kernel K --stride s --padding p",
    "headwork sizes convolution --input 64x28x28 --filters 64 --kernel 3 --padding 1 --groups 64",
)
_add_sizes_command(
    "attention",
    "Count every shape on the way through attention.\n\nWith --heads, W_o too; without, plain attention.",
    {"tokens": REQUIRED, "width": REQUIRED, "heads": None, "batch": None, "memory": None}
    | {"biases": False, "tokens_as": "rows"},
    "headwork sizes attention --batch 1 --tokens 5 --width 768 --heads 12",
    "headwork sizes attention --tokens 6 --width 768 --tokens-as columns",
    function="attention_ledger",
)
_add_sizes_command(
    "transformer",
    "Count the parameters and FLOPs of a transformer.\n\nBy default the base model of the paper.",
    {"width": 512, "depth": 6, "heads": 8, "hidden": 2048, "vocabulary": 37000}
    | {"tokens": 512, "target_tokens": None},
    "headwork sizes transformer",
    "headwork sizes transformer --vocabulary 32000 --tokens 128",
)
_add_sizes_command(
    "vit",
    "Count the parameters of a vision transformer.\n\nWith its FLOPs; by default ViT-B/16.",
    {"image": "224", "patch": 16, "width": 768, "depth": 12, "heads": 12, "hidden": None}
    | {"classes": 1000, "channels": 3, "class_token": True},
    "headwork sizes vit",
    "headwork sizes vit --image 28 --patch 4 --channels 1 --width 64 --depth 6 --heads 4 --hidden 128 "
    "--classes 10",
)
_add_sizes_command(
    "growth",
    "Count how work grows with tokens and width.\n\nThe counts are exact polynomials; --hidden is in widths.",
    {"mechanism": REQUIRED, "heads": 1, "hidden": 4, "depthwise": False},
    "headwork sizes growth self-attention",
    "headwork sizes growth convolution-2d --depthwise",
)


@command(
    "headwork sizes model vision",
    "headwork sizes model encoder-decoder --set vocabulary=32000 --tokens 64",
    "headwork sizes model language --set max_length=4096 --set backend=fused --set attention=linear "
    "--tokens 4096",
    to=sizes_app,
)
def model(
    output: Output,
    name: Annotated[str, Argument(help="vision, encoder-decoder, language ..., or a model's folder.")],
    set_: Settings = None,
    tokens: Annotated[int, Option(min=1, help="Length of a sequence, for the FLOPs.")] = 128,
    batch: Annotated[int, Option(min=1, help="Inputs at once.")] = 1,
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
    if re.fullmatch(r"[A-Za-z](?:_?\d+|_\w{1,9})?", text) and option in (
        "--input",
        "--kernel",
        "--stride",
        "--padding",
    ):
        return text
    parts = re.split(r"\s*[x×X*,]\s*", text.strip())
    if not all(re.fullmatch(r"-?\d{1,18}", part) for part in parts):
        short = text if len(text) < 40 else f"{text[:30]}..."
        raise InputError(f"{option} {short!r}: expected whole numbers, with x between: 224, 224x160.")
    numbers = tuple(map(int, parts))
    if len(numbers) > 1 and option in ("--stride", "--padding"):
        raise InputError(f"{option} {text}: one number (or letter), the same along every axis.")
    return numbers[0] if len(numbers) == 1 else numbers


@command(
    'headwork sensitivity --query "1 0" --key "1 0; 0.9 0; 0 1" --value "1 0; 0 1; 0 0" '
    '--change 1 --delta "0.2 0"',
    'headwork sensitivity --query "1 0; 0 1" --key "1 0; 0 1" --value "1 0; 0 1" '
    '--change 0 --delta "5 5" --plot moved.png',
)
def sensitivity(
    output: Output,
    query: Annotated[str, Option(help="One row per query.")],
    key: Annotated[str, Option(help="One row per key.")],
    value: Annotated[str, Option(help="One row per value.")],
    change: Annotated[int, Option(help="Which key moves, counted from 0.")],
    delta: Annotated[str, Option(help="By how much: one number per column.")],
    betas: Annotated[str, Option(help="Values of beta, oo allowed.")] = "0.1 0.5 1 2 5 10 50",
    plot: Annotated[Path | None, Option(help="Also draw it: a .png or .svg file.")] = None,
    digits: Digits = 4,
) -> None:
    """Perturb one key and see how the output changes.

    Shows weights and output for several beta, the worst case over all inputs, and where the winner flips.
    """
    from headwork.documents import save_plot
    from headwork.readings.sensitivity import sensitivity as measure

    result = measure(query, key, value, change=change, delta=delta, betas=betas)
    output.show(result.document(digits))
    if plot is not None:
        save_plot(result.figure(), plot)


@command(
    "headwork inspect digits --index 0",
    "headwork inspect runs/v10 --image boot.png --as html --out boot.html",
    'headwork inspect runs/imdb --text "A fine film."',
    'headwork inspect bert/ --text "The cat sat." --as html --out cat.html',
    name="inspect",
)
def inspect_(
    output: Output,
    model: Annotated[str, Argument(help="A run, the folder of a model, digits or fashion-mnist.")],
    image: Annotated[Path | None, Option(help="An image, of the size that the model takes.")] = None,
    index: Annotated[int | None, Option(help="The number of a test example of the run.")] = None,
    text: Annotated[str | None, Option(help="A text.")] = None,
    target: Annotated[str | None, Option(help="The class to explain; by default the predicted one.")] = None,
    resize: Annotated[bool, Option("--resize", help="Scale and crop an image of another size.")] = False,
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


@command(
    "headwork compare",
    "headwork compare --only complexity --only parallelism",
    "headwork compare --families cnn,rnn,transformer --only long-range",
    "headwork compare --full --seeds 0,1,2 --out comparison-full",
)
def compare(
    output: Output,
    full: Annotated[bool, Option("--full", help="Longer gaps, Fashion-MNIST, reviews, three seeds.")] = False,
    only: Annotated[list[str] | None, Option(help="complexity, parallelism, long-range, bias, uses.")] = None,
    families: Annotated[
        str, Option(help="Of cnn, rnn, lstm, gru, transformer, linear; by default without rnn.")
    ] = "",
    seeds: Annotated[str, Option(help="0, or several: 0,1,2.")] = "",
    steps: Annotated[int | None, Option(help="Training steps of every model; 250, with --full 1000.")] = None,
    out: Annotated[Path | None, Option(help="The folder, new or of an interrupted comparison.")] = None,
) -> None:
    """Measure CNN, RNN, transformer and linear attention.

    The models have equally many parameters. The remaining time is estimated from the measurements
    finished so far.
    """
    try:
        seed_numbers = [int(part) for part in comma_separated(seeds)]
    except ValueError:
        raise InputError(f"--seeds {seeds!r}: expected whole numbers, such as 0 or 0,1,2.") from None
    if find_spec("torch") is None:
        raise InputError('compare needs torch, which is not installed: pip install ".[train]"')
    from headwork import comparison

    settings = comparison.Settings.of(
        full=full,
        families=comma_separated(families.lower()),
        rows=only or [],
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
