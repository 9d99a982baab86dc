"""Models as aggregations: what one relation contributes to a node, and how contributions combine. They never know where they run."""

import importlib
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetjax.options import config, owners
from hetjax.options.config import Model, SharedModel
from hetjax.system.errors import InputError, reading, short

if TYPE_CHECKING:  # which import this module, or numba
    from hetjax.graph.hetgraph import HetGraph
    from hetjax.models.hgnn import HGNN, Layer


def check_name(name: str) -> None:
    """Raise an InputError if a name is neither that of a file in this folder nor a MODULE:NAME."""
    known = sorted(
        file.stem for file in Path(__file__).parent.glob("*.py") if "\nMODEL = " in file.read_text(encoding="utf-8")
    )
    if ":" not in name and name not in known:
        raise InputError(
            f"model.name is {short(name)!r}, and must be {', '.join(known)}, or MODULE:NAME of one of your own"
        )


def find(name: str) -> "type[Layer] | HGNN":
    """Return the layer or `HGNN` of a name: the `MODEL` of a file in this folder by its name, or one of your own as `MODULE:NAME`.

    Raises:
      InputError: there is none.
    """
    check_name(name)
    module, _, attribute = name.partition(":")
    with reading(f"model.name is {short(name)!r}"):
        model = getattr(importlib.import_module(module if attribute else f"{__name__}.{name}"), attribute or "MODEL")
        from hetjax.models.hgnn import HGNN, Layer

        if not (isinstance(model, HGNN) or (isinstance(model, type) and issubclass(model, Layer))):
            raise TypeError(f"a {type(model).__name__}, and there should be a `hetjax.HGNN` or a layer's class")
        return model


def takes(name: str) -> frozenset[str]:
    """Return the keys of the configuration that a model has."""
    from hetjax.models import hgnn

    chosen = find(name)
    makes_logits = isinstance(chosen, hgnn.HGNN) or "logits" in {own.name for own in fields(chosen)}
    lacks = {key for key, has in (("self_term", hgnn.has_self_term(chosen)), ("head", makes_logits)) if not has}
    return (hgnn.STACK_OPTIONS | hgnn.takes(chosen)) - lacks


def options(model: Model) -> dict[str, Any]:
    """Return the configuration's keys that a model has.

    Raises:
      InputError: a key is set that it does not have.
    """
    known = takes(model.name)
    sections = {"model": model, **model.own}
    for section, keys in sections.items():
        for key, value in config.changed(keys).items():
            if key not in known | {"name", "own"}:
                raise InputError(f"{section}.{key} is {value}, and model {model.name} has no such option")
    found = {key.name: getattr(model, key.name) for key in fields(SharedModel) if key.name in known}
    for keys in (owners.own(model, name) for name in {model.name: 0} | dict(model.own)):
        found |= {key: value for key, value in vars(keys).items() if key in known} if keys else {}
    return found


def folded(name: str, graph: "HetGraph") -> "HetGraph":
    """Return the graph with the relations that a model aggregates."""
    from hetjax.models.hgnn import HGNN

    model = find(name)
    chosen = model.relations if isinstance(model, HGNN) else None
    return graph if chosen is None else graph.only(chosen)


def changed(name: str, graph: "HetGraph") -> "HetGraph":
    """Return the graph with the edges that a model aggregates, for example with loops or weights; edges that do not change are not copied.

    Arrays that are there in shape alone are not changed: the code that opens them calls this again.

    Raises:
      InputError: edges have weights, and the model reads none; or pointers or ids are out of range.
    """
    from hetjax.graph.checks import check_csc
    from hetjax.graph.sizes import in_shape_alone
    from hetjax.models.hgnn import HGNN

    model = find(name)
    if isinstance(model, HGNN):
        return graph
    if not model.traits.reads_weights:
        for relation, csc in graph.relations.items():
            if csc.weights is not None:
                raise InputError(
                    f"relation {relation} has edge weights, and model {name} reads none: set edge_weights of its reader false"
                )
    if model.traits.changed_edges is None:
        return graph
    relations = dict(graph.relations)
    for relation, csc in graph.relations.items():
        if not in_shape_alone(csc):
            check_csc(csc, relation, graph.schema)
            relations[relation] = model.traits.changed_edges(relation, csc, graph.schema.nodes[relation.source])
    return replace(graph, relations=relations)
