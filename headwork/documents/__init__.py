"""What is shown, and how: documents of a few kinds of block, and one renderer per format (``formats``)."""

from headwork.documents.blocks import (
    Arithmetic,
    Bar,
    Block,
    Card,
    Code,
    Details,
    Document,
    Figure,
    Formula,
    Heading,
    Item,
    Items,
    Link,
    Marked,
    Note,
    Passage,
    Prose,
    Renderable,
    Slider,
    Strip,
    Table,
    Value,
    Values,
    as_blocks,
)
from headwork.documents.plots import new_plot, save_plot, tint
from headwork.documents.views import Attention, TintMap, Tints, Tokens
