"""How strategies are found, and one of a user's own: equal to one device, trained and resumed by the command line."""

import json
import shutil

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from examples.replicated import ReplicatedEngine
from hetjax.graph import store
from hetjax.graph.sizes import sizes
from hetjax.models.exchange import Exchange
from hetjax.options.config import Cache, Config, Mesh, Sampling
from hetjax.partition import Partitioning, Workload, read
from hetjax.partition.partitioning import Report
from hetjax.partition.pictures import draw
from hetjax.partition.reports import report
from hetjax.sharding import mesh as meshes
from hetjax.sharding import registry
from hetjax.sharding.mesh import DATA
from hetjax.sharding.registry import make_engine
from hetjax.system.eager import eagerly
from hetjax.system.errors import InputError
from hetjax.training.prepare import keep_partitioning
from tests.support.commands import SMALL, train
from tests.support.equivalence import MODELS, compare, few, setting
from tests.support.graphs import random_graph

REPLICATED = "examples.replicated:Replicated"


@pytest.mark.parametrize(
    ("mode", "model", "more"),
    [
        ("minibatch", "R-GCN, dropout", {"l2": 0.01, "gradient_clip": 0.05}),
        ("full", "R-GCN, residual", {}),
    ],
)
def test_a_strategy_of_ones_own_equals_one_device(mode, model, more):
    errors = compare(few("cites", "writes"), (1, 2, REPLICATED), mode, MODELS[model], wide=True, **more)
    assert errors.loss < 1e-12 and errors.gradient < 1e-12 and errors.state < 1e-7


def test_a_strategy_of_ones_own_trains_and_resumes(tmp_path):
    store.save(few("cites", "writes"), tmp_path / "graph")
    options = ["--data.format", "store", "--data.path", tmp_path / "graph", *SMALL, "--mesh.data", "2"]
    options += ["--mesh.strategy", REPLICATED]
    done = train(tmp_path / "run", *options, "--verbose")
    assert done.returncode == 0 and "sent in a step" in done.stdout, done.stderr
    shutil.copytree(tmp_path / "run", tmp_path / "again")
    (tmp_path / "again" / "summary.json").unlink()
    shutil.rmtree(max((tmp_path / "again" / "checkpoints").iterdir()))
    done = train(tmp_path / "again", *options)
    assert done.returncode == 0 and "continuing from" in done.stdout, done.stderr
    one, other = (losses(tmp_path / name) for name in ("run", "again"))
    assert one == other
    shutil.rmtree(tmp_path / "again")
    done = train(tmp_path / "again", *options[:-4])  # on one device
    np.testing.assert_allclose(losses(tmp_path / "again"), one, rtol=1e-4)


def losses(run) -> list[float]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [value for record in records for name, value in record.items() if name.endswith("_loss")]


class Everything(Partitioning):
    """A kind of partitioning of one's own, in which every device has everything."""

    methods = ("everything",)
    method, store, workload = "everything", None, Workload()

    def __init__(self, of):
        self.sizes = of

    def json(self):
        return self.header()

    @classmethod
    def from_json(cls, given, sizes, folder):
        return cls(sizes)

    def write(self, folder, graph):
        (folder / "words").write_text("nothing is divided")


@report.register
def _(partitioning: Everything, graph=None):
    return Report([{"part": 0}], {})


@draw.register
def _(partitioning: Everything, report, file):
    pass


def test_a_partitioning_of_ones_own_is_kept_and_read_again(tmp_path):
    made = Everything(sizes(random_graph()))
    for _ in range(2):  # the second time it is there
        keep_partitioning(made, tmp_path / "kept", random_graph())
        assert read(tmp_path / "kept", Everything).digest == made.digest
    with pytest.raises(InputError, match="method is 'everything', and should be exact or lpt"):
        read(tmp_path / "kept")


class SumPartials(Exchange):
    """For models whose partial aggregates add."""

    def after(self, totals, own, targets):
        return jax.lax.psum(totals, DATA), own, targets


def test_an_exchange_combines_what_devices_fold_of_different_relations():
    """Loss and gradients, at every depth; with targets' own embeddings after it, in a residual."""
    graph = few("cites", "writes", "of")
    config = setting(graph, "full", (1, 1), {"self_term": False, "residual": True, "input_projection": True}, {})
    engine = make_engine(config, graph)
    state, (drawn,) = eagerly(engine.trainer.init, np.int32(0)), engine.batches.epoch(0)
    learned = {t: table.rows for t, table in state.tables.items()}

    def loss(params, blocks, exchanges=()):
        batch = drawn.batch._replace(blocks=blocks)
        return engine.trainer.summed(params, learned, engine.static, batch, None, exchanges)

    def divided(params, device):
        """Every second relation is this device's; of the others it folds no edge."""
        blocks = tuple(
            block._replace(
                adjacency={
                    key: edges._replace(
                        indptr=jnp.where(number % 2 == device[0], edges.indptr, 0),
                        reverse_indptr=jnp.where(number % 2 == device[0], edges.reverse_indptr, 0),
                    )
                    for number, (key, edges) in enumerate(sorted(block.adjacency.items()))
                }
            )
            for block in drawn.batch.blocks
        )
        # every device finishes all seeds: each takes half of the loss
        value, gradient = jax.value_and_grad(lambda p: loss(p, blocks, (SumPartials(),) * 2) / 2)(params)
        return jax.lax.psum((value, gradient), DATA)

    mesh = meshes.row(meshes.make(1, 2), 0)
    program = jax.shard_map(divided, mesh=mesh, in_specs=(P(), P(DATA)), out_specs=P(), check_vma=False)
    found = jax.jit(program)(state.params, jnp.arange(2))
    expected = jax.jit(jax.value_and_grad(lambda p: loss(p, drawn.batch.blocks)))(state.params)
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (
            "nothing",
            "mesh.strategy is 'nothing', and must be single, raf, vanilla, dependency, tensor, averaging, or MODULE:NAME",
        ),
        ("no_such_module:Name", "mesh.strategy is 'no_such_module:Name': ModuleNotFoundError: No module named"),
        ("examples.replicated:Nothing", "has no attribute 'Nothing'"),
        ("os:path", "should be a class that inherits from hetjax.sharding.strategy.Strategy"),
        ("..a:b", "mesh.strategy is '..a:b'"),
    ],
)
def test_what_is_no_strategy_is_refused(strategy, words):
    with pytest.raises(InputError, match=words):
        registry.check(Config(mesh=Mesh(data=2, strategy=strategy)))


def test_a_key_of_another_strategy_is_refused():
    sections = {name: section() for name, section in registry.sections(None).items()}
    shared = {"mesh": Mesh(data=2, strategy="vanilla"), "cache": Cache()}
    config = registry.config_of(shared | sections)
    assert set(config.strategies) == {"vanilla"}
    plan = type(sections["raf"])(plan="here")
    with pytest.raises(InputError, match="raf.plan is here, and is for mesh.strategy raf; it is vanilla"):
        registry.config_of(shared | sections | {"raf": plan})


def test_on_one_device_every_strategy_is_the_plain_path_unless_it_does_more():
    for name in (*registry.BUILT_IN, REPLICATED):
        expected = "averaging" if name == "averaging" else "single"
        assert registry.find(Config(mesh=Mesh(strategy=name))).name == expected


@pytest.mark.parametrize("wrong", ["rows", "width", "ids"])
def test_gradients_of_another_shape_or_dtype_are_refused(wrong):
    class Wrong(ReplicatedEngine):
        def give_back(self, state, gradients, batch, kept):
            rows, ids = super().give_back(state, gradients, batch, kept)
            t = next(iter(ids))
            if wrong == "rows":
                rows[t] = rows[t][1:]
            elif wrong == "width":
                rows[t] = rows[t][:, :1]
            else:
                ids[t] = ids[t].astype("uint32")
            return rows, ids

    config = Config(mesh=Mesh(data=2, strategy=REPLICATED), sampling=Sampling(batch_size=4, fanout=(2, 2)))
    engine = registry.make_engine(config, few("cites", "writes"))
    engine.__class__ = Wrong
    state, drawn = jax.eval_shape(engine.trainer.init, engine.seed), next(iter(engine.batches.epoch(0)))
    with pytest.raises(AssertionError, match="type" if wrong == "ids" else "shape"):
        engine.gradients(state, drawn.batch)
