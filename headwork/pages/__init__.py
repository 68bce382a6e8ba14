"""What every report and page shares: one HTML file that opens offline, nothing fetched from elsewhere.

A page is a title and blocks::

    page("Problem book", "Plain text is a paragraph.", heading("A2", name="a2"), table,
         figure(plot_svg(plot), "Weights for several beta"), trace_block([trace]))

A block is a plain string (a paragraph, escaped), a ``Table``, or ``Markup``, which goes in as it is: the
result of ``heading``, ``figure``, ``mathml``, ``plot_svg``, ``matrix_table`` or ``trace_block`` (of
``headwork.readings.html``: a trace with the arithmetic of its cells).
"""

from headwork.pages.formulas import mathml
from headwork.pages.matrices import Entry, Grid, matrix_table, visible_indices
from headwork.pages.page import figure, heading, page, render, script_data
from headwork.pages.plots import plot_svg, save_plot
from headwork.pages.tables import Table
