"""Partial aggregations: elements of a commutative monoid.

What a relation contributes to a node is a carrier. Carriers combine in any order, over relations, partitions, devices and
hosts, and only their total is finished into an embedding; so where a relation is folded is free to choose.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple


class Monoid(NamedTuple):
    """How the carriers of one node combine.

    Attributes:
      combine: a commutative and associative function of two carriers, each a pytree of arrays `[nodes, ...]`.
    """

    combine: Callable[[Any, Any], Any]


SUM = Monoid(operator.add)  # the carrier is `h [nodes, features]`
