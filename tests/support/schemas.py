"""Random schemas, graphs and models, each trained on every mesh: for tests/test_schemas.py and experiments/equivalence/random_schemas.py."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetjax.graph.checks import FEATURE_TYPES
from hetjax.graph.csc import edges_of
from hetjax.graph.hetgraph import HetGraph, build
from hetjax.graph.schema import Relation, Schema
from hetjax.sampling.sampler import ALL
from hetjax.sharding import registry
from hetjax.sharding.strategy import setup
from hetjax.system.errors import InputError
from tests.support.equivalence import Errors, alone, apart, faint, floats, on_mesh, rounding, setting, weighted

MODELS = ("rgcn", "rgat", "hgt, joint", "hgt, relation", "own")
OTHERS = ("gcn", "sage", "gin", "gat", "gatv2", "gcn, decoupled", "rgcn, decoupled", "rgat, decoupled")
FIRST_OTHER = 1000  # the first case of these, some of whose graphs have weights of edges
FIRST_ODD = 2000  # the first case whose names, dtypes, types and learning rates are odd; of all models
FIRST_SEVERAL = 3000  # the first case of a task of one to three root types; of all models
NAMES = ("itself", "labels", "rev_r0", "r0", "r0 (1 of 2)", "r0 (2 of 2)", "a--b", "a-%2D", "0", "rev_rev_r0")
TYPES = ("t0 with labels", "t0<-t1", "labels t0<-t0", "t0 itself", "rev_t0")
NARROW = (np.int8, np.uint8, np.bool_)
WEIGHTED = ("gcn", "sage", "gin", "rgcn")  # which read weights of edges
OWN = ("own_mean", "own_blind", "own_drops", "own_alone")  # where several attain a maximum, it has several gradients
IN_CHUNKS = 1, 1, "tests.test_tensor_chunks:Few", 2
WHOLE = "all neighbours"  # one device, mini-batches of all neighbours, against the whole graph
MESHES: dict[str, tuple[tuple, dict]] = {  # and options of the strategy
    "raf 2x1": ((2, 1), {}),
    "raf 1x2": ((1, 2), {}),
    "raf 2x2": ((2, 2), {}),
    "vanilla 2": ((1, 2, "vanilla"), {}),
    "vanilla 4": ((1, 4, "vanilla"), {}),
    "communicate 3": ((1, 3, "dependency"), {"mode": "communicate"}),
    "hybrid, ring 4": ((1, 4, "dependency"), {"mode": "hybrid", "cached": 0.5, "schedule": "ring"}),
    "overlap 3": ((1, 3, "dependency"), {"mode": "communicate", "schedule": "overlap"}),
    "hybrid, overlap 2": ((1, 2, "dependency"), {"mode": "hybrid", "cached": 0.4, "schedule": "overlap"}),
    "hybrid, chosen 2": ((1, 2, "dependency"), {"mode": "hybrid"}),
    "tensor 2": ((1, 1, "tensor", 2), {}),
    "tensor 2, replicas": ((1, 2, "tensor", 2), {}),
    "tensor 3": ((1, 1, "tensor", 3), {}),
    "raf 2, slices": ((2, 1, "raf", 2), {}),
}
WAYS = (WHOLE, *MESHES)
CHUNKS = "chunks 2"  # of the whole graph, where there are several root types
STEPS, BOUND = 4, 1e-9  # of every error
REFUSED = (
    "to divide",
    "is not divided",
    "more slices than",
    "must be 1 with mesh.strategy",
)  # meshes too large for a case


class Case(NamedTuple):
    """What is trained.

    Attributes:
      graph: of a random schema.
      mode: of the sampling, on a mesh and on the one device that is its measure.
      model: options.
      train: options, of sampling too.
    """

    graph: HetGraph
    mode: str
    model: dict[str, Any]
    train: dict[str, Any]


def random_case(number: int) -> Case:
    """Case `number`: five in a row have the five models, from `FIRST_OTHER` on eight the others, from `FIRST_ODD` on all 13, from `FIRST_SEVERAL` on of `Several`."""
    rng = np.random.default_rng(number)
    layers = int(rng.integers(1, 4))
    graph, model = random_graph(rng), random_model(model_of(number), layers, rng)
    if number >= FIRST_OTHER and model["name"] in WEIGHTED and rng.random() < 0.5:
        graph = weighted(graph)
    train = {
        "seed": number,
        "fanout": tuple(int(rng.choice([1, 2, 3, ALL])) for _ in range(layers)),
        "batch_size": int(rng.integers(1, len(graph.splits["train"]) + 3)),
        "l2": _some(rng, 0.01),
        "weight_decay": _some(rng, 0.1),
        "gradient_clip": _some(rng, 0.5),
        "label_smoothing": _some(rng, 0.1),
    }
    mode = "full" if rng.random() < 0.2 else "minibatch"
    if number < FIRST_ODD:
        return Case(graph, mode, model, train)
    mode = "full" if rng.random() < 0.4 else "minibatch"  # an empty type that is learned failed there
    train |= {"warmup_steps": int(rng.integers(0, 4)), "schedule": str(rng.choice(["constant", "cosine", "step"]))}
    train |= {"epochs": 3, "schedule_epochs": 1}
    if number < FIRST_SEVERAL:
        return Case(odd(graph, rng), mode, model, train)
    del train["label_smoothing"]  # which is of classes
    train |= {"task": "tests.support.several:Several", "batch_size": int(rng.integers(1, 13))}
    graph = odd(graph, rng) if rng.random() < 0.3 else graph
    return Case(graph, mode, model | {"head": True}, train)


def ways_of(number: int) -> tuple[str, ...]:
    """The ways to train case `number`."""
    return (*WAYS, CHUNKS) if number >= FIRST_SEVERAL else WAYS


def model_of(number: int) -> str:
    """The model of case `number`."""
    if number >= FIRST_ODD:
        return (*MODELS, *OTHERS)[number % (len(MODELS) + len(OTHERS))]
    return MODELS[number % len(MODELS)] if number < FIRST_OTHER else OTHERS[number % len(OTHERS)]


def random_graph(rng: np.random.Generator) -> HetGraph:
    """A graph of 1 to 5 types and 1 to 9 relations, with every oddity that is legal.

    Parallel, empty and self relations, edges given twice, types that are only sources or that nothing leads to the target from,
    types without nodes, features of any width and dtype or none, nodes with one label or several, few training nodes.
    """
    types = [f"t{number}" for number in range(rng.integers(1, 6))]
    nodes = {t: 0 if rng.random() < 0.2 else int(rng.integers(1, 8)) for t in types} | {"t0": int(rng.integers(4, 13))}
    ends = [tuple(rng.choice(types, 2)) for _ in range(rng.integers(1, 10))]
    if rng.random() < 0.9:  # else there may be no relation into the target
        ends[0] = str(rng.choice(types)), "t0"
    relations = tuple(Relation(str(source), f"r{number}", str(target)) for number, (source, target) in enumerate(ends))
    features = {t: _features(rng, nodes[t]) for t in types if rng.random() < 0.6}
    classes, order = int(rng.integers(2, 5)), rng.permutation(nodes["t0"])
    several = rng.random() < 0.3
    labels = rng.integers(0, 2 if several else classes, (len(order), classes) if several else len(order))
    labels[order[-1:]] = -1
    first = int(rng.integers(1, len(order)))
    splits = {"train": order[:first], "validation": order[first:-1]}
    schema = Schema(nodes, relations, "t0", classes)
    edges = {r: _edges(rng, nodes[r.source], nodes[r.target]) for r in relations}
    return build(schema, edges, features, labels, splits)


def odd(graph: HetGraph, rng: np.random.Generator) -> HetGraph:
    """The same graph under names that hetjax makes too, with features of 8 bits, and maybe with a learned type of no nodes."""
    schema, types, names = graph.schema, rng.permutation(TYPES), rng.permutation(NAMES)
    called = {t: str(types[n - 1]) if n and n <= len(types) else t for n, t in enumerate(schema.nodes)}
    edges = {}
    for number, (relation, csc) in enumerate(graph.relations.items()):
        name = str(names[number]) if number < len(names) else relation.name
        edges[Relation(called[relation.source], name, called[relation.target])] = (*edges_of(csc), *_weights(csc))
    nodes = {called[t]: count for t, count in schema.nodes.items()}
    if rng.random() < 0.5:
        nodes["void"] = 0
        edges[Relation("void", "r0", called["t0"])] = (np.empty(0, np.int64),) * (3 if _any_weights(graph) else 2)
    features = {called[t]: _narrow(rng, matrix.shape) for t, matrix in graph.features.items()}
    schema = Schema(nodes, tuple(edges), called["t0"], schema.classes)
    return build(schema, edges, features, graph.labels, dict(graph.splits))


def _weights(csc) -> tuple:
    return () if csc.weights is None else (csc.weights,)


def _any_weights(graph: HetGraph) -> bool:
    return any(csc.weights is not None for csc in graph.relations.values())


def _narrow(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Features of 8 bits, of which a sum of a few neighbours' would wrap around."""
    dtype = NARROW[rng.integers(len(NARROW))]
    return rng.integers(0, 2, shape).astype(dtype) if dtype is np.bool_ else rng.integers(60, 125, shape).astype(dtype)


def _features(rng: np.random.Generator, nodes: int) -> np.ndarray:
    dtype, shape = rng.choice(FEATURE_TYPES), (nodes, int(rng.integers(1, 10)))
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0 if dtype.kind in "ub" else -3, 4, shape).astype(dtype)


def _edges(rng: np.random.Generator, sources: int, targets: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to three edges a target, some twice; often into few targets alone, sometimes none."""
    count = 0 if not sources * targets or rng.random() < 0.15 else int(rng.integers(1, 1 + 3 * targets))
    ends = rng.integers(0, max(sources, 1), count), rng.integers(0, max(1, rng.integers(0, targets + 1)), count)
    return tuple(np.concatenate([end, end[: count // 4]]) for end in ends)


def random_model(name: str, layers: int, rng: np.random.Generator) -> dict[str, Any]:
    """Options of a model."""

    def coin(share: float = 0.5) -> bool:
        return bool(rng.random() < share)

    heads = int(rng.integers(1, 4))
    options = {"layers": layers, "feature_width": int(rng.integers(1, 8)), "hidden": heads * int(rng.integers(1, 5))}
    options |= {"head": coin(0.8), "input_projection": coin(0.3), "input_dropout": _some(rng, 0.2)}
    if name == "own":
        return options | {"name": f"tests.support.equivalence:{rng.choice(OWN)}"}
    options |= {"norm": "layer" if coin(0.3) else "none", "dropout": _some(rng, 0.3)}
    if name in OTHERS:
        return options | _other(name, heads, coin)
    if name == "rgcn":
        one_hot, bases = coin(0.3) and not options["input_projection"], int(rng.integers(0, 3))
        options |= {"one_hot": one_hot, "bases": bases, "share_self": coin() and bases > 0, "bias": coin(0.8)}
    else:
        options |= {"head": True, "heads": heads, "attention_dropout": _some(rng, 0.4)}
    if name.startswith("hgt"):
        return options | {"name": "hgt", "softmax": name.removeprefix("hgt, ")}
    return options | {"name": name, "residual": coin(0.3), "self_term": coin(0.8)}


def _other(name: str, heads: int, coin: Callable[..., bool]) -> dict[str, Any]:
    """Options of a model of `OTHERS`."""
    name, _, decoupled = name.partition(", ")
    options: dict[str, Any] = {"name": name, "decoupled": bool(decoupled)}
    if name == "gin":
        return options | {"epsilon": 0.3, "learn_epsilon": coin(), "self_term": coin(0.8)}
    options |= {"residual": coin(0.3), "bias": coin(0.8)}
    if name in ("rgat", "gat", "gatv2"):
        options |= {"heads": heads, "output_heads": 1 + coin(0.3)}
    if name == "rgat":
        del options["output_heads"]  # which it does not have
    return options


def _some(rng: np.random.Generator, value: float) -> float:
    """Zero or `value`, which more often than not is zero."""
    return value if rng.random() < 0.3 else 0.0


def found(case: Case, ways: Sequence[str] = WAYS) -> Iterator[tuple[str, Errors | None]]:
    """Of some ways to train a case its errors, in float64.

    None where a mesh has more partitions or replicas than there is work, and where every gradient is zero but for rounding.
    """
    with floats(wide=True):  # in the threads of samplers too
        alike = _alike(case)
        whole = alone(case.graph, "full", case.model, STEPS, True, **alike)
        reference = alone(case.graph, case.mode, case.model, STEPS, True, **case.train)
        if any(
            rounding(one) >= {name for name, leaf in one.gradients.items() if leaf.any()} for one in (whole, reference)
        ):
            yield from ((name, None) for name in ways)
            return
        if WHOLE in ways:
            yield WHOLE, apart(alone(case.graph, "minibatch", case.model, STEPS, True, **alike), whole)
        for name, (mesh, options) in (MESHES | {CHUNKS: (IN_CHUNKS, {})}).items():
            if name == CHUNKS in ways and case.mode != "full":
                yield name, None
            elif name in ways:
                yield name, _on(reference, case, mesh, options)


def undecided(case: Case, way: str) -> tuple[int, int]:
    """Of how many arrays rounding decides where a number goes, by `faint`, in what a way is compared with; and of how many in all."""
    mode, train = ("full", _alike(case)) if way == WHOLE else (case.mode, case.train)
    return faint(case.graph, mode, case.model, STEPS, **train)


def _alike(case: Case) -> dict[str, Any]:
    """Options with which mini-batches are the whole graph: neither penalty is of the rows that a batch does not read."""
    return case.train | {"l2": 0.0, "weight_decay": 0.0, "fanout": (ALL,) * case.model["layers"], "batch_size": 99}


def _on(reference, case: Case, mesh: tuple, options: dict) -> Errors | None:
    graph, mode, model, train = case
    train = train | {"options": options}
    try:
        config = setting(graph, mode, mesh, model, train)
        strategy = registry.by_name(config.mesh.strategy)
        strategy.check(config)
        plan = strategy.partition(setup(config, graph))
        return on_mesh(reference, graph, mesh, mode, model, True, plan=plan, **train)
    except InputError as error:
        if any(words in str(error) for words in REFUSED):
            return None
        raise
