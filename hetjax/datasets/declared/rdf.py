"""Options of the reader rdf."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from hetjax.datasets.declared.held_out import HeldOut


@dataclass(frozen=True)
class Options(HeldOut):
    """RDF: N-Triples with split files."""

    section: ClassVar[str] = "rdf"
    reverse: bool = True
    """add the reverse of every relation"""
    literals: Literal["nodes", "drop"] = "nodes"
    """make literals nodes, or drop their triples"""
    exclude: tuple[str, ...] = ()
    """predicates to leave out, by IRI or local name; for example, a predicate that gives the label away"""
    node_types: Literal["one", "class"] = "one"
    """one node type for all resources, or one per rdf:type"""
