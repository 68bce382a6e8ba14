"""``headwork sizes``: shapes, parameters and work of patches, convolutions, attention and whole models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwork.cli.app import app
from headwork.cli.showing import Json, Out, form, show
from headwork.errors import InputError

if TYPE_CHECKING:
    from headwork.sizes import Ledger

sizes_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(
    sizes_app,
    name="sizes",
    help="Count shapes, parameters and FLOPs, exactly.",
    epilog="Try: headwork sizes patches --image 224 --patch 16   or   headwork sizes vit --help",
)

As = Annotated[str, typer.Option("--as", help="text, markdown, latex, html or json.")]
Fragment = Annotated[bool, typer.Option("--fragment", help="LaTeX to put into a document of your own.")]
Width = Annotated[int, typer.Option("--width", help="Numbers in a token.")]
Heads = Annotated[int, typer.Option("--heads", help="Attention heads; they divide the width.")]
Image = Annotated[
    str, typer.Option("--image", help="Side of a square image, or height x width: 224, 224x160.")
]
Patch = Annotated[int, typer.Option("--patch", help="Side of a patch.")]
Architecture = Annotated[str, typer.Option("--architecture", help="encoder-decoder, encoder or decoder.")]
ClassToken = Annotated[
    bool, typer.Option("--class-token/--no-class-token", help="One token more, read at the end.")
]


@sizes_app.command(epilog="Example: headwork sizes patches --image 224 --patch 16")
def patches(
    image: Image,
    patch: Patch,
    channels: Annotated[int, typer.Option("--channels", help="Channels of the image.")] = 3,
    class_token: ClassToken = True,
    as_: As = "text",
    json: Json = False,
    out: Out = None,
    fragment: Fragment = False,
) -> None:
    """An image cut into patches: how many, and how many tokens."""
    from headwork import sizes

    ledger = sizes.patches(_sizes("--image", image), patch, channels=channels, class_token=class_token)
    _show(ledger, as_, json, out, fragment)


CONVOLUTION = """Examples:

headwork sizes convolution --input 3x256x256 --filters 32 --kernel 5 --stride 2

headwork sizes convolution --input 9 --kernel 3 --padding 1 --stride 2

headwork sizes convolution --input 64x28x28 --filters 64 --kernel 3 --padding 1 --groups 64"""


@sizes_app.command(epilog=CONVOLUTION)
def convolution(
    input_: Annotated[
        str, typer.Option("--input", help="Length, height x width, or channels first: 9, 3x256x256.")
    ],
    kernel: Annotated[str, typer.Option("--kernel", help="Side of the kernel, or height x width: 5, 5x3.")],
    filters: Annotated[int, typer.Option("--filters", help="Output channels.")] = 1,
    channels: Annotated[int | None, typer.Option("--channels", help="Channels, if not in --input.")] = None,
    stride: Annotated[int, typer.Option("--stride", help="Step from place to place.")] = 1,
    padding: Annotated[int, typer.Option("--padding", help="Zeros put before and after.")] = 0,
    groups: Annotated[
        int, typer.Option("--groups", help="Groups of channels that do not see each other.")
    ] = 1,
    as_: As = "text",
    json: Json = False,
    out: Out = None,
    fragment: Fragment = False,
) -> None:
    """A convolution: its output and weights, and the same map locally connected and as a dense layer."""
    from headwork import sizes

    ledger = sizes.convolution(
        _sizes("--input", input_),
        kernel=_sizes("--kernel", kernel),
        filters=filters,
        channels=channels,
        stride=stride,
        padding=padding,
        groups=groups,
    )
    _show(ledger, as_, json, out, fragment)


ATTENTION = """Examples:

headwork sizes attention --batch 1 --tokens 5 --width 768 --heads 12

headwork sizes attention --tokens 6 --width 768 --tokens-as columns"""


@sizes_app.command(epilog=ATTENTION)
def attention(
    tokens: Annotated[int, typer.Option("--tokens", help="Tokens that ask.")],
    width: Width,
    heads: Annotated[
        int | None, typer.Option("--heads", help="Heads; none is plain attention, without W_o.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", help="Sequences at once: an axis before the others.")
    ] = None,
    memory: Annotated[int | None, typer.Option("--memory", help="Tokens looked at, if others.")] = None,
    biases: Annotated[bool, typer.Option("--biases", help="Projections with biases.")] = False,
    tokens_as: Annotated[str, typer.Option("--tokens-as", help="rows or columns.")] = "rows",
    as_: As = "text",
    json: Json = False,
    out: Out = None,
    fragment: Fragment = False,
) -> None:
    """The shape of every value on the way through attention, with its parameters and FLOPs."""
    from headwork import sizes

    ledger = sizes.attention_ledger(
        tokens=tokens,
        width=width,
        heads=heads,
        batch=batch,
        memory=memory,
        biases=biases,
        tokens_as=tokens_as,  # type: ignore[arg-type]
    )
    _show(ledger, as_, json, out, fragment)


TRANSFORMER = """Examples:

headwork sizes transformer

headwork sizes transformer --vocabulary 32000 --tokens 128 --architecture encoder"""


@sizes_app.command(epilog=TRANSFORMER)
def transformer(
    width: Width = 512,
    depth: Annotated[int, typer.Option("--depth", help="Layers of each stack.")] = 6,
    heads: Heads = 8,
    hidden: Annotated[int, typer.Option("--hidden", help="Hidden width of the feed-forward layers.")] = 2048,
    vocabulary: Annotated[
        int, typer.Option("--vocabulary", help="Words; 0 counts the stacks alone.")
    ] = 37000,
    tokens: Annotated[int, typer.Option("--tokens", help="Source tokens, for the FLOPs.")] = 512,
    target_tokens: Annotated[
        int | None, typer.Option("--target-tokens", help="Target tokens, if others.")
    ] = None,
    architecture: Architecture = "encoder-decoder",
    shared: Annotated[
        bool, typer.Option("--shared/--separate", help="One vocabulary matrix, or one each.")
    ] = True,
    as_: As = "text",
    json: Json = False,
    out: Out = None,
    fragment: Fragment = False,
) -> None:
    """Parameters and FLOPs of a transformer, by default the base one of the paper."""
    from headwork import sizes

    ledger = sizes.transformer(
        width=width,
        depth=depth,
        heads=heads,
        hidden=hidden,
        vocabulary=vocabulary,
        tokens=tokens,
        target_tokens=target_tokens,
        shared=shared,
        architecture=architecture,  # type: ignore[arg-type]
    )
    _show(ledger, as_, json, out, fragment)


VIT = """Examples:

headwork sizes vit

headwork sizes vit --image 28 --patch 4 --channels 1 --width 64 --depth 6 --heads 4 --hidden 128 --classes 10"""


@sizes_app.command(epilog=VIT)
def vit(
    image: Image = "224",
    patch: Patch = 16,
    width: Width = 768,
    depth: Annotated[int, typer.Option("--depth", help="Layers.")] = 12,
    heads: Heads = 12,
    hidden: Annotated[
        int | None, typer.Option("--hidden", help="Hidden width; 4 times the width if left out.")
    ] = None,
    classes: Annotated[int, typer.Option("--classes", help="Classes of the head.")] = 1000,
    channels: Annotated[int, typer.Option("--channels", help="Channels of the image.")] = 3,
    class_token: ClassToken = True,
    as_: As = "text",
    json: Json = False,
    out: Out = None,
    fragment: Fragment = False,
) -> None:
    """Parameters and FLOPs of a vision transformer, by default ViT-B/16."""
    from headwork import sizes

    ledger = sizes.vit(
        image=_sizes("--image", image),
        patch=patch,
        width=width,
        depth=depth,
        heads=heads,
        hidden=hidden,
        classes=classes,
        channels=channels,
        class_token=class_token,
    )
    _show(ledger, as_, json, out, fragment)


GROWTH = """Examples:

headwork sizes growth self-attention

headwork sizes growth convolution-2d --depthwise"""


@sizes_app.command(epilog=GROWTH)
def growth(
    mechanism: Annotated[str, typer.Argument(help="Whose work: see headwork explain --list.")],
    heads: Heads = 1,
    hidden: Annotated[
        int, typer.Option("--hidden", help="Hidden width of a feed-forward layer, in widths.")
    ] = 4,
    depthwise: Annotated[
        bool, typer.Option("--depthwise", help="A convolution with a group a channel.")
    ] = False,
    as_: As = "text",
    json: Json = False,
    out: Out = None,
    fragment: Fragment = False,
) -> None:
    """How the work of a mechanism grows with tokens and width: exact polynomials, counted."""
    from headwork import sizes

    _show(sizes.growth(mechanism, heads=heads, hidden=hidden, depthwise=depthwise), as_, json, out, fragment)


MODEL = """Examples:

headwork sizes model vision

headwork sizes model encoder-decoder --set vocabulary=32000 --tokens 64

headwork sizes model language --set max_length=4096 --set kernel=fused --set attention=linear --tokens 4096"""


@sizes_app.command(epilog=MODEL)
def model(
    name: Annotated[
        str, typer.Argument(help="vision, encoder-decoder, language, text ..., or a checkpoint's folder.")
    ],
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A field of its config, name=value; repeatable.")
    ] = None,
    tokens: Annotated[
        int, typer.Option("--tokens", min=1, help="Length of a sequence, for the FLOPs.")
    ] = 128,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Inputs at once.")] = 1,
    as_: As = "text",
    json: Json = False,
    out: Out = None,
    fragment: Fragment = False,
) -> None:
    """The ledger of a real model, layer by layer: shapes, parameters, FLOPs."""
    from headwork.inspection.ledger import example, ledger, named_model
    from headwork.models import from_pretrained

    settings = dict(_setting(typed) for typed in set_ or [])
    if Path(name).exists() and settings:
        raise InputError(
            f"{name} is a checkpoint, whose config is settled. Leave out --set, or give a model's name."
        )
    counted = from_pretrained(name) if Path(name).exists() else named_model(name, settings)
    _show(ledger(counted, **example(counted, tokens=tokens, batch=batch)), as_, json, out, fragment)


def _setting(typed: str) -> tuple[str, str]:
    name, equals, value = typed.partition("=")
    if not equals:
        raise InputError(f"--set {typed!r}: expected name=value, such as width=64.")
    return name.strip(), value.strip()


def _sizes(option: str, typed: str) -> int | tuple[int, ...]:
    """``224`` is one size, ``3x256x256`` are several."""
    parts = re.split(r"\s*[x×X*,]\s*", typed.strip())
    if not all(re.fullmatch(r"-?\d{1,18}", part) for part in parts):
        shown = typed if len(typed) < 40 else f"{typed[:30]}..."
        raise InputError(
            f"{option} {shown!r}: expected whole numbers, one or several with x between: 224, 224x160."
        )
    numbers = tuple(map(int, parts))
    return numbers[0] if len(numbers) == 1 else numbers


def _show(ledger: Ledger, as_: str, json: bool, out: Path | None, fragment: bool) -> None:
    wanted = form(as_, json, ("text", "markdown", "latex", "html", "json"))
    forms = {
        "text": ledger.to_text,
        "markdown": ledger.to_markdown,
        "latex": lambda: ledger.to_latex(fragment),
        "html": ledger.to_html,
        "json": ledger.to_json,
    }
    show(forms[wanted](), out)
