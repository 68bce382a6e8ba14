"""What is shown, and how: documents of a few kinds of block, and one renderer per format (``formats``)."""

from headwork.documents.blocks import (
    Arithmetic,
    Badge,
    BadgeRow,
    Bar,
    Block,
    Caution,
    Code,
    Details,
    Document,
    FigureBlock,
    Formula,
    Heading,
    Item,
    Items,
    Link,
    PandocText,
    Prose,
    Renderable,
    Slider,
    Table,
    Value,
    Values,
    VerdictCard,
    as_blocks,
)
from headwork.documents.plots import heat_colormap, save_figure, subplots
from headwork.documents.token_views import AttentionView, Heatmap, TokenHeatmaps, Tokens
