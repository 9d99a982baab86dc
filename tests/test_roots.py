"""Tasks of several root types, and of several seeds an example: every strategy equals one device, evaluates as it does, and resumes."""

import functools

import numpy as np
import pytest

from hetjax.graph import store
from hetjax.sharding.raf.site import partition_models
from hetjax.sharding.raf.strategy import Raf
from hetjax.sharding.registry import make_engine
from hetjax.sharding.strategy import setup
from tests.support import equivalence as eq
from tests.support.commands import SMALL, train
from tests.support.many import Case, compare_in
from tests.support.runs import continued, losses

PAIRS, UNREAD, WITHIN = (f"tests.support.pairs:{name}" for name in ("Pairs", "Unread", "Within"))
FEW, TWO = "few relations", "two relations"  # papers and authors are pairs; to authors of the latter no relation leads
COMMUNICATE = {"mode": "communicate"}
HALF_RING = {"mode": "hybrid", "cached": 0.5, "schedule": "ring"}
CHUNKS = 1, 1, "tests.test_tensor_chunks:Few", 2
STEPS = 3


@pytest.fixture(scope="class")
def damped():
    """One Adam for all comparisons, which compile it once; processes that other tests start have the usual one."""
    with eq.damped():
        yield


@functools.cache
def alone(task: str, graph: str, mode: str, model: str) -> eq.Reference:
    return eq.alone(eq.GRAPHS[graph](), mode, eq.MODELS[model], STEPS, True, task=task)


class TestEqualsOneDevice:
    @pytest.mark.parametrize(
        ("task", "graph", "mesh", "mode", "model", "options"),
        [
            (PAIRS, FEW, (3, 1), "minibatch", "R-GCN", {}),
            (PAIRS, FEW, (2, 1, "raf", 2), "minibatch", "R-GCN", {}),
            (PAIRS, FEW, (1, 2, "dependency"), "minibatch", "R-GCN", HALF_RING),
            (PAIRS, FEW, (1, 2, "tensor", 2), "minibatch", "R-GCN", {}),
            (PAIRS, FEW, (1, 2, "vanilla"), "minibatch", "HGT, dropout", {}),
            (PAIRS, FEW, (2, 2), "minibatch", "HGT, dropout", {}),
            (PAIRS, FEW, (2, 1), "full", "R-GCN, dropout", {}),
            (PAIRS, FEW, (1, 3, "dependency"), "full", "R-GCN, dropout", COMMUNICATE),
            (PAIRS, FEW, (1, 1, "tensor", 3), "full", "R-GCN, dropout", {}),
            (PAIRS, FEW, CHUNKS, "full", "R-GCN, dropout", {}),
            (PAIRS, TWO, (1, 1, "tensor", 2), "full", "R-GCN, decoupled", {}),  # of papers alone: no relation leads to authors
            (UNREAD, TWO, (2, 1), "minibatch", "R-GCN, no self term", {}),  # nothing makes embeddings of authors
            (UNREAD, TWO, (1, 2, "dependency"), "minibatch", "R-GCN, no self term", COMMUNICATE),
            (UNREAD, TWO, (2, 1), "full", "HGNN, max", {}),
            (UNREAD, TWO, CHUNKS, "full", "R-GCN", {}),
            (WITHIN, TWO, (2, 2), "minibatch", "R-GAT", {}),
            (WITHIN, "homogeneous", (1, 3, "dependency"), "minibatch", "SAGE", COMMUNICATE),
        ],
    )  # fmt: skip
    def test_in_double_precision(self, damped, task, graph, mesh, mode, model, options):
        """Loss, gradients and state; `experiments/equivalence/random_schemas.py` covers all models and ways, from case 3000 on."""
        with eq.floats(wide=True):
            reference = alone(task, graph, mode, model)
            errors = eq.on_mesh(
                reference, eq.GRAPHS[graph](), mesh, mode, eq.MODELS[model], True, task=task, options=options
            )
        assert max(errors) < 1e-9, errors


@pytest.mark.parametrize("model", ["R-GCN", "HGNN, max"])
def test_a_process_that_aggregates_nothing_into_a_root(tmp_path, model):
    """Into authors, whose self term alone is aggregated, in process 1; of a maximum the neutral element is not known."""
    graph, more = eq.GRAPHS[TWO](), {"task": UNREAD}
    given = setup(eq.setting(graph, "minibatch", (2, 1), eq.MODELS[model], more), graph)
    assert 0 not in partition_models(Raf().partition(given))[0].owners["author"]
    (errors,) = compare_in(tmp_path, 2, [Case(TWO, (2, 1), "minibatch", model, True, more)], steps=2)
    assert max(errors) < 1e-9, errors


MESHES = [
    ((3, 1), "minibatch", {}),
    ((2, 1, "raf", 2), "minibatch", {}),
    ((1, 2, "vanilla"), "minibatch", {}),
    ((1, 3, "dependency"), "minibatch", COMMUNICATE),
    ((1, 1, "tensor", 2), "full", {}),
    ((1, 1, "tensor", 2), "minibatch", {}),
    (CHUNKS, "full", {}),
    ((1, 2, "averaging"), "full", {}),
]


def engine_of(mesh: tuple, mode: str, options: dict, task: str = PAIRS):
    graph = eq.GRAPHS[FEW]()
    return make_engine(eq.setting(graph, mode, mesh, {}, {"task": task, "options": options}), graph)


@pytest.fixture(scope="module")
def evaluated():
    with eq.floats(wide=True):
        engine = engine_of((1, 1), "minibatch", {})
        task, state = engine.setup.task, engine.shard(eq.initial(engine.trainer, True))
        examples = np.concatenate([task.examples("test"), task.examples("validation")])[::-1]
        return examples, engine.outputs(state, examples)


@pytest.mark.parametrize(("mesh", "mode", "options"), MESHES)
def test_evaluation_equals_one_device(evaluated, mesh, mode, options):
    """Of examples in any order, several of which share nodes."""
    examples, expected = evaluated
    with eq.floats(wide=True):
        engine = engine_of(mesh, mode, options)
        found = engine.outputs(engine.shard(eq.initial(engine.trainer, True)), examples)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_chunks_take_some_examples_at_a_time():
    """So the case of chunks above adds the losses of several blocks; devices send seeds that others own to each other."""
    seeds = engine_of(CHUNKS, "full", {}).by_rows.training_seeds()
    assert len(seeds.blocks) == 3 and seeds.shared


def of_seeds(name: str) -> bool:
    """Whether this is the capacity of the seeds of one type."""
    return name.split("/")[-2] == "seeds"


@pytest.mark.parametrize("mesh", [(1, 1), (2, 1), (1, 2, "dependency")])
def test_capacities_of_seeds_grow_with_them_and_change_nothing(mesh):
    """A batch has more authors than examples, and never more papers; a resumed run begins with these capacities."""
    found, options = [], COMMUNICATE if mesh[2:] == ("dependency",) else {}
    first = engine_of(mesh, "minibatch", options)
    first.batches.prepare()
    known = {name: room for name, room in first.batches.capacities.by_name.items() if not of_seeds(name)}
    for given in (first.batches.capacities.by_name, known):
        engine = engine_of(mesh, "minibatch", options)
        engine.batches.prepare(given)
        drawn = list(engine.batches.epoch(0))
        state, made = engine.init(0), []
        for batch in (one.batch for one in drawn):
            state, loss = engine.step(state, batch)
            made.append(float(loss))
        found.append(made)
        again = engine_of(mesh, "minibatch", options)
        again.batches.prepare(drawn[1].capacities)
        (resumed, *_) = again.batches.epoch(0, 2)
        assert resumed.capacities == drawn[2].capacities
    rooms = {name.rsplit("/", 1)[1]: room for name, room in drawn[-1].capacities.items() if of_seeds(name)}
    assert rooms.keys() == {"author"} and rooms["author"] > 9 // mesh[1]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of pairs on two partitions, and its options."""
    folder = tmp_path_factory.mktemp("roots")
    store.save(eq.GRAPHS[FEW](), folder / "graph")
    options = ["--data.format", "store", "--data.path", folder / "graph", *SMALL, "--task.name", PAIRS]
    done = train(folder / "run", *options, "--mesh.relation", "2")
    assert done.returncode == 0, done.stderr
    return folder / "run", list(map(str, options))


def test_a_resumed_run_equals_an_undisturbed_one(finished, tmp_path):
    """To the bit, through the command line, of a task of a user's own."""
    assert continued(finished, tmp_path / "run", "--mesh.relation", "2") == losses(finished[0])
