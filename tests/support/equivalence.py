"""Training on a mesh held against training on one device: for tests/test_raf.py and experiments/equivalence/equivalence.py."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, NamedTuple
from unittest import mock

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.traverse_util import flatten_dict
from jax.flatten_util import ravel_pytree

import hetjax
from hetjax.datasets import synthetic
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.kernels import adamw
from hetjax.kernels.segment import neighbour_sum
from hetjax.kernels.tables import RowAdam
from hetjax.models.dropout import dropped
from hetjax.options import owners
from hetjax.options.config import Cache, Config, Mesh, Sampling, Task, Train
from hetjax.processes.group import ProcessGroup
from hetjax.sharding import registry
from hetjax.sharding.raf.engine import RafEngine
from hetjax.sharding.raf.features import SharedTable
from hetjax.sharding.registry import make_engine
from hetjax.sharding.strategy import setup
from hetjax.system.eager import eagerly
from tests.support.graphs import random_graph


class Bounded(nn.Module):
    """A relation-specific aggregation of a user's own, with weights and a nonlinearity."""

    features: int

    @nn.compact
    def __call__(self, adjacency, sources, targets):
        sources = sources.astype(jnp.promote_types(sources.dtype, jnp.float32))
        return nn.tanh(nn.Dense(self.features)(neighbour_sum(adjacency, sources)))


class Dropping(Bounded):
    """The same, with dropout of what it gives."""

    @nn.compact
    def __call__(self, adjacency, sources, targets, masks):
        return dropped(super().__call__(adjacency, sources, targets), 0.3, masks, self.path)


def across(aggregation: str, **more) -> hetjax.HGNN:
    return hetjax.HGNN(None, lambda relation, features: Bounded(features), aggregation, **more)


own_mean, own_blind, own_max = across("mean"), across("mean", reads_target=False), across("max")
own_drops = hetjax.HGNN(None, lambda relation, features: Dropping(features), "mean", drops=True)
own_alone = across("sum", reads_target=False, self_term=False)
MODELS = {
    "R-GCN": {},
    "R-GCN, bases": {"bases": 2, "head": False},
    "R-GCN, residual": {"residual": True, "input_projection": True, "norm": "layer"},
    "R-GCN, one-hot": {"one_hot": True, "bases": 2},
    "R-GCN, no self term": {"self_term": False},
    "R-GAT": {"name": "rgat", "heads": 2},
    "HGT, joint": {"name": "hgt", "heads": 2, "input_projection": True},
    "HGT, relation": {"name": "hgt", "heads": 2, "softmax": "relation", "norm": "layer"},
    "R-GCN, dropout": {"dropout": 0.3, "input_dropout": 0.2},
    "R-GAT, dropout": {"name": "rgat", "heads": 2, "dropout": 0.3, "input_dropout": 0.2, "attention_dropout": 0.4},
    "HGT, dropout": {"name": "hgt", "heads": 2, "dropout": 0.3, "input_dropout": 0.2, "attention_dropout": 0.4},
    "HGT, relation, dropout": {
        "name": "hgt",
        "heads": 2,
        "softmax": "relation",
        "dropout": 0.3,
        "attention_dropout": 0.4,
    },
    "HGNN, dropout": {"name": "tests.support.equivalence:own_drops"},
    "HGNN, mean": {"name": "tests.support.equivalence:own_mean"},
    "HGNN, mean, no target": {"name": "tests.support.equivalence:own_blind"},
    "HGNN, max": {"name": "tests.support.equivalence:own_max"},
    "HGNN, no self term": {"name": "tests.support.equivalence:own_alone"},
    "GCN": {"name": "gcn", "dropout": 0.3, "input_dropout": 0.2},
    "GCN, residual": {"name": "gcn", "residual": True, "input_projection": True, "head": False},
    "SAGE": {"name": "sage", "dropout": 0.3},
    "GIN": {"name": "gin", "learn_epsilon": True, "epsilon": 0.3, "norm": "layer", "dropout": 0.3},
    "GIN, no head": {"name": "gin", "head": False},
    "GAT": {"name": "gat", "heads": 2, "dropout": 0.3, "attention_dropout": 0.4},
    "GAT, no head": {"name": "gat", "heads": 2, "output_heads": 3, "head": False},
    "GATv2": {"name": "gatv2", "heads": 2, "dropout": 0.3, "attention_dropout": 0.4},
    "R-GCN, decoupled": {"decoupled": True, "layers": 3, "dropout": 0.3, "norm": "layer"},
    "GCN, decoupled": {"name": "gcn", "decoupled": True, "head": False, "input_dropout": 0.2},
    "SAGE, decoupled": {"name": "sage", "decoupled": True, "residual": True},
    "GAT, decoupled": {"name": "gat", "decoupled": True, "heads": 4, "output_heads": 3, "head": False, "dropout": 0.3},
    "R-GAT, decoupled": {"name": "rgat", "decoupled": True, "heads": 4},
    "GIN, decoupled": {"name": "gin", "decoupled": True, "learn_epsilon": True, "epsilon": 0.3},
    "GATv2, no head": {"name": "gatv2", "heads": 2, "output_heads": 3, "head": False},
}
GRAPHS = {
    "random": lambda: random_graph(3),
    "few relations": lambda: few("cites", "writes", "written_by", "of"),  # which compile sooner
    "four relations": lambda: few(
        "writes", "written_by", "publishes", "haunts"
    ),  # of a type of six nodes, and one of none
    "two relations": lambda: few("cites", "writes"),
    "homogeneous": lambda: homogeneous(),
    "homogeneous, weights": lambda: weighted(homogeneous()),
    "labels": lambda: several_labels(few("cites", "writes", "written_by")),
    "ogbn-mag": lambda: synthetic.generate("ogbn-mag", 0.0003, 4),
    "freebase": lambda: synthetic.generate("freebase", 0.0003, 4),
    "donor": lambda: synthetic.generate("donor", 0.00005, 2),
}


def few(*names: str):
    """The random graph with some relations."""
    graph = random_graph(3)
    return graph.only([relation for relation in graph.relations if relation.name in names])


def homogeneous(nodes: int = 40):
    """One relation from a type to itself: directed, with loops, some of them twice, edges twice, and nodes without edges."""
    rng, relation = np.random.default_rng(7), Relation("node", "to", "node")
    source, target = rng.integers(0, nodes - 4, (2, 3 * nodes))
    loops = np.array([0, 3, 3, 8])
    ends = [np.concatenate([end, end[:10], loops]) for end in (source, target)]
    features, labels = rng.standard_normal((nodes, 7), np.float32), rng.integers(0, 3, nodes)
    third = nodes // 3
    order = rng.permutation(nodes)
    splits = {"train": order[:third], "validation": order[third : 2 * third], "test": order[2 * third :]}
    schema = Schema({"node": nodes}, (relation,), "node", 3)
    return build(schema, {relation: tuple(ends)}, {"node": features}, labels, splits)


def weighted(graph):
    """The same graph, its edges with positive weights."""
    rng = np.random.default_rng(8)
    relations = {
        r: csc._replace(weights=rng.uniform(0.5, 2, csc.edges).astype(np.float32)) for r, csc in graph.relations.items()
    }
    return dataclasses.replace(graph, relations=relations)


def several_labels(graph):
    """The same graph, its nodes with any number of labels each."""
    labels = np.random.default_rng(0).integers(0, 2, (graph.schema.nodes["paper"], 3)).astype(np.int8)
    return dataclasses.replace(graph, labels=labels)


ROUNDING = 1e-10  # of the loss: gradients below that are zero but for rounding
FAINT = 1e-12  # of the norm of all moments: numbers below that are zero but for rounding
DAMPED = 1e-2  # an epsilon of Adam: a gradient of 1e-13 moves a weight by 1e-11 learning rates


class Errors(NamedTuple):
    """Relative differences to one device: of the loss, the largest of any gradient, and of any weight or table after.

    The last leaves out weights whose gradient is zero but for rounding, as that of a key's bias which a softmax does not see.
    """

    loss: float
    gradient: float
    state: float


class Reference(NamedTuple):
    """What training on one device gives, as host arrays by name.

    Attributes:
      losses: of every step.
      gradients: that the first step followed; of learnable features those of the whole table.
      counts: how often each row was updated.
      state: weights and learnable features after the last step.
    """

    losses: np.ndarray
    gradients: dict
    counts: dict
    state: dict


def write_reference(reference: Reference, file) -> None:
    named = {
        f"{field} {name}": array
        for field, arrays in reference._asdict().items()
        for name, array in (arrays.items() if isinstance(arrays, dict) else [("", arrays)])
    }
    np.savez(file, **{name.replace("/", "|"): array for name, array in named.items()})


def read_reference(file) -> Reference:
    found = {field: {} for field in Reference._fields}
    with np.load(file) as arrays:
        for given in arrays.files:
            field, name = given.replace("|", "/").split(" ", 1)
            found[field][name] = arrays[given]
    return Reference(found["losses"][""], *(found[field] for field in Reference._fields[1:]))


def compare(graph, mesh, mode: str, model: dict, steps: int = 10, wide: bool = False, plan=None, **train) -> Errors:
    """Train some steps on one device and on a mesh.

    Args:
      mesh: partitions and replicas; then the strategy, if it is not RAF.
      mode: of the sampling.
      model: options.
      steps: of Adam, from which the state is compared; the loss and the gradients are those of the first.
      wide: in float64. In float32 a gradient that is zero but for rounding (of a key's bias, which a softmax within one
        relation does not see) makes Adam step as far as any other, in a direction that rounding decides.
      plan: who has what, if not as the strategy says.
      **train: options.
    """
    with floats(wide):
        reference = alone(graph, mode, model, steps, wide, **train)
        return on_mesh(reference, graph, mesh, mode, model, wide, plan=plan, **train)


@contextlib.contextmanager
def floats(wide: bool) -> Iterator[None]:
    """Of 64 bits or of 32, in every thread: samplers send batches from one of their own, which `jax.enable_x64` does not reach."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", wide)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


@contextlib.contextmanager
def damped() -> Iterator[None]:
    """Of Adam that hardly enlarges what is zero but for rounding: its epsilon is `DAMPED`, and `drifted` leaves nothing out."""
    usual = RowAdam(0.0, epsilon=DAMPED)
    with (
        mock.patch.object(adamw, "USUAL", usual),
        mock.patch.object(RowAdam.__new__, "__defaults__", usual[1:]),
        mock.patch.dict(globals(), ROUNDING=0.0),
    ):
        jax.clear_caches()  # of programs that have the usual one as a constant
        try:
            yield
        finally:
            jax.clear_caches()


def alone(
    graph,
    mode: str,
    model: dict,
    steps: int = 10,
    wide: bool = False,
    watch: Callable[[Any], None] | None = None,
    **train,
) -> Reference:
    """Train some steps on one device; `watch` is given the state after each."""
    config = setting(graph, mode, (1, 1), model, train)
    engine = make_engine(config, graph)
    state, gradients, losses = engine.shard(initial(engine.trainer, wide)), {}, []
    for batch in first(engine.batches, steps):
        state, loss = engine.step(state, batch)
        losses.append(float(loss))
        gradients = gradients or first_gradients(engine.gather(state))
        if watch:
            watch(engine.gather(state))
    state = engine.gather(state)
    counts = {t: np.asarray(table.count) for t, table in state.tables.items()}
    return Reference(np.array(losses), gradients, counts, named(state))


def rounding(reference: Reference) -> set[str]:
    """The arrays whose first gradient is zero but for rounding: Adam steps along it as far as along any other."""
    small = ROUNDING * reference.losses[0]
    return {name for name, gradient in reference.gradients.items() if 0 < norm([gradient]) < small}


def faint(graph, mode: str, model: dict, steps: int, **train) -> tuple[int, int]:
    """Of how many arrays rounding decides where a number goes, and how many there are: on one device, in float64.

    There Adam's first moment is, after some step, not zero but under `FAINT`; unless the gradient was larger before, what it
    is divided by is as small.
    """
    found: set[str] = set()

    def watch(state) -> None:
        moments = first_gradients(state)
        least = FAINT * norm(moments.values())
        found.update(name for name, leaf in moments.items() if np.any((leaf != 0) & (np.abs(leaf) < least)))

    with floats(wide=True):
        every = alone(graph, mode, model, steps, True, watch, **train).state
    return len(found), len(every)


def drifted(state: dict, reference: Reference) -> float:
    """The largest error of an array of the state whose steps are not decided by rounding."""
    undecided = rounding(reference)
    decided = {name: leaf for name, leaf in reference.state.items() if name not in undecided}
    return max(differ(state, decided, norm(reference.state.values())).values(), default=0.0)


def apart(found: Reference, reference: Reference) -> Errors:
    """How far one way of training on one device is from another."""
    size = norm(reference.gradients.values())
    gradient = max(differ(found.gradients, reference.gradients, size).values())
    return Errors(abs(found.losses[0] / reference.losses[0] - 1), gradient, drifted(found.state, reference))


def on_mesh(reference, graph, mesh, mode: str, model: dict, wide: bool = False, group=None, plan=None, **train):
    """The errors of training on a mesh, of the devices of all processes; none but in process 0.

    Raises:
      AssertionError: a replica has not exactly what the others have, or rows were updated another number of times.
    """
    config, group = setting(graph, mode, mesh, model, train), group or ProcessGroup()
    strategy, given = registry.by_name(config.mesh.strategy), setup(config, graph, group)
    engine = strategy.engine(given, plan or strategy.partition(given))
    states, gradients, losses = engine.shard(initial(engine.trainer, wide)), None, []
    for batch in first(engine.batches, len(reference.losses)):
        states, loss = engine.step(states, batch)
        losses.append(float(loss))
        if len(losses) == 1 and (state := engine.gather(states)) is not None:
            gradients = first_gradients(state)
    if isinstance(engine, RafEngine):
        equal_replicas(states, group)
    state, error, drift = engine.gather(states), 0.0, 0.0
    if state is not None:
        size = norm(reference.gradients.values())
        assert gradients.keys() == reference.gradients.keys()
        error = max(differ(gradients, reference.gradients, size).values())
        drift = drifted(named(state), reference)
        for name, count in reference.counts.items():
            np.testing.assert_array_equal(state.tables[name].count, count)
    assert np.all(np.abs(np.array(losses) / reference.losses - 1) < 1e-3), (losses, reference.losses)
    return Errors(abs(losses[0] / reference.losses[0] - 1), error, drift)


def equal_replicas(states, group) -> None:
    """Every copy of a weight or a table, on any device of any process, is the same to the last bit."""
    found: dict[str, str] = {}
    for state in states.values():
        held = {t: one.table() if isinstance(one, SharedTable) else one for t, one in state.tables.items()}
        tables = {(name, key): leaf for name, table in held.items() for key, leaf in table._asdict().items()}
        for path, leaf in (flatten_dict(state.params) | tables).items():
            on_devices = [] if isinstance(leaf, np.ndarray) else leaf.addressable_shards
            copies = [(str(shard.index), shard.data) for shard in on_devices] or [("", leaf)]  # of slices each its own
            for place, copy in copies:
                made = hashlib.sha256(np.asarray(copy).tobytes()).hexdigest()
                assert found.setdefault(json.dumps([path, place]), made) == made, f"{path} differs between devices"
    for other in group.all_gather("replicas", found):
        for path in found.keys() & other.keys():
            assert found[path] == other[path], f"{path} differs between processes"


def initial(trainer, wide: bool):
    """The state of before the first step, drawn on the CPU: other platforms' normal numbers differ in their last bits."""
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        state = eagerly(trainer.init, np.int32(0))
    return jax.tree.map(lambda leaf: leaf.astype(float) if wide and leaf.dtype == jnp.float32 else leaf, state)


OF_TASK = {key.name for options in owners.sections(owners.TASK).values() for key in fields(options)}


def setting(graph, mode, mesh, model, train) -> Config:
    """A configuration; of `train` the key `placement` is of the cache, `task` and its options are of the task, `fanout`, `batch_size` and `threads` of the sampling, `options` of the strategy."""
    train = dict(train)
    options, of_task = train.pop("options", {}), {name: train.pop(name) for name in OF_TASK & train.keys()}
    task = owners.made_task(train.pop("task", Task.name), **of_task)
    sizes = {"fanout": (3, 2), "batch_size": 9, "threads": 0}
    return Config(
        cache=Cache(placement=tuple(train.pop("placement", ()))),
        model=owners.made_model(**{"hidden": 8, "feature_width": 6} | model),
        sampling=Sampling(mode=mode, **{name: train.pop(name, size) for name, size in sizes.items()}),
        train=Train(learning_rate=0.02, **train),
        mesh=Mesh(*mesh),
        task=task,
        strategies={mesh[2]: registry.by_name(mesh[2]).Options(**options)} if options and len(mesh) > 2 else {},
    )


def first(source, count: int) -> Iterator:
    """So many batches, over as many epochs as that takes; of the largest one's shapes, so that a program is compiled once."""

    def drawn() -> Iterator:
        return itertools.islice(itertools.chain.from_iterable(map(source.epoch, itertools.count())), count)

    *_, last = drawn()
    if last.capacities:
        source.prepare(last.capacities)
    return (each.batch for each in drawn())


def flat(tree) -> dict:
    """Weights by name, in host memory."""
    return {"/".join(path): np.asarray(leaf) for path, leaf in flatten_dict(tree).items()}


def named(state) -> dict:
    """Weights and learnable features by name."""
    return flat(state.params) | {name: np.asarray(table.rows) for name, table in state.tables.items()}


def first_gradients(state) -> dict:
    """The gradients that the first step followed, of weights and of whole tables: Adam's first moments are a tenth of them."""
    weights = ravel_pytree(state.params)[1](optax.tree.get(state.optimizer, "mu"))
    moments = flat(weights) | {name: np.asarray(table.mu) for name, table in state.tables.items()}
    return {name: 10 * leaf for name, leaf in moments.items()}


def differ(found: dict, expected: dict, size: float) -> dict:
    """The relative error of each array; a norm under a hundredth of `size`, that of all together, counts as so much.

    Attention has gradients that are zero but for the rounding of larger ones.
    """
    return {
        name: norm([np.asarray(found[name]) - np.asarray(leaf)]) / max(norm([leaf]), size / 100, 1e-300)
        for name, leaf in expected.items()
    }


def norm(leaves) -> float:
    return float(np.sqrt(sum(np.sum(np.square(np.asarray(leaf, np.float64))) for leaf in leaves)))
