"""Sizes: shapes, parameters and work, exact, from the definitions of the mechanisms.

>>> from headwork import sizes
>>> sizes.convolution(9, kernel=3)["output"]
(1, 7)
"""

from headwork.sizes.architectures import transformer, vit
from headwork.sizes.counting import count_rows, countable_mechanisms, growth
from headwork.sizes.layers import attention_ledger, convolution, output_size, patches
from headwork.sizes.ledger import Ledger, Row, sum_rows
from headwork.sizes.polynomial import Polynomial
