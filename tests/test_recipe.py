"""What is chosen for a graph of which nothing but the graph is given: by rules, the same on every mesh and after a resume."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from hetjax.datasets import synthetic
from hetjax.datasets.load import load, load_abstract, load_some, made, read_ahead
from hetjax.graph import inputs, store
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.graph.statistics import of_no_node
from hetjax.metapaths import along_metapaths
from hetjax.metapaths.paths import expected_sizes
from hetjax.options import owners, renamed
from hetjax.options.config import Config, Data, Mesh, Model, Sampling, Train
from hetjax.processes.group import ProcessGroup
from hetjax.recipe import choices, recipe
from hetjax.recipe.baseline_scores import BaselineScores
from hetjax.recipe.compatible import Choice, applied
from hetjax.sharding import registry
from hetjax.sharding.strategy import setup
from hetjax.sharding.trainer import schedule
from hetjax.system.errors import InputError
from hetjax.system.logs import shown
from hetjax.tasks import baselines
from hetjax.train import main
from hetjax.training import run_options
from tests.support.communities import communities, kinds, shop
from tests.support.equivalence import homogeneous, several_labels
from tests.support.graphs import random_graph
from tests.support.label_changes import relabelled


def chosen(graph, *given: str, **sections) -> dict:
    config = Config(data=Data(format="store", path="x"), **sections)
    return {choice.key: choice.value for choice in choices.choose(config, graph, set(given))}


def test_every_choice_is_an_option_that_a_resumed_run_keeps():
    """And each is said with a reason."""
    config = Config(data=Data(format="store", path="x"))
    for graph in (random_graph(), several_labels(random_graph()), homogeneous(), replace(random_graph(), features={})):
        for key, value, why in choices.choose(config, graph, set()):
            section, name = key.split(".")
            assert key in recipe.CHOSEN and why
            assert type(value) in (type(getattr(owners.all_sections()[section](), name)), float)


def test_reasons_are_true_of_the_graph():
    def reasons(graph, *given, **sections) -> dict:
        config = Config(data=Data(format="store", path="x"), **sections)
        return {choice.key: choice.why for choice in choices.choose(config, graph, set(given))}

    several, one, by_metapaths = (
        reasons(random_graph()),
        reasons(communities(True, "nothing")),
        reasons(random_graph(), "model.name", model=Model(name="sehgnn")),
    )
    assert several["model.name"].startswith("several relations") and several["model.dropout"].startswith(
        "several relations"
    )
    assert one["model.name"].startswith("labels as inputs, and features")
    assert reasons(replace(homogeneous(), features={}))["model.name"] == "nodes without features"
    for key in ("model.dropout", "train.learning_rate"):
        assert by_metapaths[key].startswith("several metapaths")
    assert not any("several relations" in why for why in by_metapaths.values())


def test_too_few_validation_nodes_tell_nothing_of_labels_as_inputs():
    """Few beside many training nodes do, in folds of both."""
    graph, (train, validation) = shop(), (shop().splits[name] for name in ("train", "validation"))
    few = replace(graph, splits=graph.splits | {"train": train[:30], "validation": validation[:30]})
    both = replace(graph, splits=graph.splits | {"validation": validation[:30]})
    assert chosen(graph)["data.label_inputs"] and chosen(both)["data.label_inputs"]
    assert chosen(few)["data.label_inputs"] is False
    assert "data.label_inputs" not in chosen(few, "data.label_inputs")


def two_classes(validation: list[int]):
    """Of 40 training nodes one in ten is of the second class; of the validation nodes those that are given."""
    labels = np.zeros(100, np.int64)
    labels[:4], labels[50 : 50 + len(validation)] = 1, validation
    ids = {"train": np.arange(40), "validation": np.arange(50, 50 + len(validation)), "test": np.arange(90, 100)}
    relation, edges = Relation("node", "to", "node"), np.random.default_rng(0).integers(0, 100, (2, 300))
    features = {"node": np.random.default_rng(1).random((100, 4), np.float32)}
    return build(Schema({"node": 100}, (relation,), "node", 2), {relation: tuple(edges)}, features, labels, ids)


@pytest.mark.parametrize(("validation", "ordered"), [([0, 1, 0, 0], True), ([0, 0, 0], False), ([], False)])
def test_an_area_is_chosen_where_validation_nodes_have_one(tmp_path, monkeypatch, validation, ordered):
    """And a run without an option trains all the same."""
    graph = two_classes(validation)
    assert ("node_classification.metric" in chosen(graph)) == ordered
    store.save(graph, tmp_path / "graph")
    monkeypatch.setattr(choices, "_epochs", lambda *_: iter([choices.Choice("train.epochs", 1, "a test")]))
    main([f"--data.path={tmp_path / 'graph'}", "--data.format=store", f"--workdir={tmp_path / 'run'}"])
    assert (tmp_path / "run" / "summary.json").exists()


def test_an_area_is_not_chosen_of_validation_nodes_that_are_given_back():
    bare = replace(two_classes([0, 1]), features={}, held_out=True)
    for given, ordered in ((set(), False), ({"rdf.validation_fraction"}, True)):
        config = Config(data=Data(format="rdf", path="x"))
        keys = {choice.key for choice in choices.choose(config, bare, given)}
        assert ("node_classification.metric" in keys) == ordered and ("rdf.validation_fraction" in keys) != ordered


def test_labels_are_no_inputs_of_a_model_that_folds_no_relation_to_them(tmp_path, monkeypatch):
    """One that folds all has them, and a run that asks for them is told."""
    module = "import hetjax\nfrom examples.gin import GIN\nfrom hetjax.graph.schema import Relation\n"
    for name, relations in (("all", "None"), ("some", "[Relation('product', 'bought_by', 'customer')]")):
        module += f"{name} = hetjax.HGNN({relations}, lambda _, width: GIN(width), 'mean', reads_target=False)\n"
    (tmp_path / "folds_some.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    for name, inputs_too in (("all", True), ("some", False)):
        model = Model(name=f"folds_some:{name}")
        assert chosen(shop(), "model.name", model=model).get("data.label_inputs", False) == inputs_too
    store.save(shop(), tmp_path / "graph")
    read = [f"--data.path={tmp_path / 'graph'}", "--data.format=store", "--data.label_inputs=true"]
    with pytest.raises(InputError, match="data.label_inputs is true, and folds_some:some folds none of the relations"):
        main([*read, "--model.name=folds_some:some", "--train.epochs=1", f"--workdir={tmp_path / 'run'}"])


def test_relations_that_all_lead_into_the_target_are_not_yet_metapaths():
    graph = shop()
    one_way = graph.only([relation for relation in graph.schema.relations if relation.target == "customer"])
    assert chosen(one_way, "model.name", model=Model(name="sehgnn"))["data.metapath_hops"] == 2
    made = along_metapaths(graph, 2)
    assert "data.metapath_hops" not in chosen(made, "model.name", model=Model(name="sehgnn"))


def test_what_a_larger_class_leaves_is_what_counts():
    """Label propagation that finds most of what is left says much, though that is under ten points."""
    assert (
        not BaselineScores(0.94, 0.94, 0.99).neighbours_say_nothing
        and BaselineScores(0.94, 0.94, 0.99).neighbours_say_more
    )
    assert (
        BaselineScores(0.94, 0.94, 0.95).neighbours_say_nothing
        and BaselineScores(0.3, 0.3, 0.39).neighbours_say_nothing
    )
    assert (
        BaselineScores(0.94, 0.94, None).features_say_nothing
        and not BaselineScores(0.94, 0.96, None).features_say_nothing
    )


def test_a_target_that_no_relation_leads_to_is_said(tmp_path, monkeypatch, caplog):
    graph = shop()
    one_way = graph.only([relation for relation in graph.schema.relations if relation.target == "product"])
    monkeypatch.setattr(choices, "_epochs", lambda *_: iter([choices.Choice("train.epochs", 1, "a test")]))
    for name, whole, said in (("one way", one_way, True), ("both ways", graph, False)):
        caplog.clear()
        store.save(whole, tmp_path / name)
        main([f"--data.path={tmp_path / name}", "--data.format=store", f"--workdir={tmp_path / 'run' / name}"])
        assert ("no relation leads to customer" in caplog.text) == said


def test_sizes_for_a_mode_are_those_of_metapaths():
    graph = shop()
    edges, values = expected_sizes(graph, 2, 2)
    made = along_metapaths(graph, 2, 2)
    assert (edges, values) == (made.edges, sum(matrix.size for matrix in made.features.values()))
    bare = replace(graph, features={})
    assert expected_sizes(bare, 2, 0)[0] >= along_metapaths(bare, 2).edges


def test_metapaths_are_trained_in_mini_batches_of_all_neighbours():
    found = chosen(shop(), "model.name", model=Model(name="sehgnn"))
    assert found["sampling.mode"] == "minibatch" and found["sampling.fanout"] == (-1,)


def test_what_is_given_is_not_chosen():
    graph = random_graph()
    assert "model.dropout" in chosen(graph) and "model.dropout" not in chosen(graph, "model.dropout")


@pytest.mark.parametrize(("name", "expected"), [("gcn", True), ("gat", True), ("rgat", False), ("hgt", False)])
def test_a_head_is_left_out_of_models_alone_that_can_do_without(name, expected):
    """R-GAT's logits would have to split into its heads."""
    found = chosen(homogeneous(), "model.name", model=Model(name=name))
    assert "model.dropout" in found and ("model.head" in found) == expected


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        ([], "binary"),
        ([1, 0], "binary"),
        ([2, 0], "counts"),
        ([0.5, 0], "counts"),
        ([-1, 0], "sparse"),
        ([-0.5, 0], "sparse"),
        ([np.nan, 0], "counts"),
        ([2] * 60, "counts"),
        ([0.5] * 60, "numbers"),
        ([-1, *[2] * 60], "numbers"),
    ],
)
def test_the_kind_of_numbers_is_of_all_rows(monkeypatch, last, kind):
    """Read some rows at a time; the last ones decide here."""
    monkeypatch.setattr(inputs, "CACHED", 40)
    whole = all(float(value).is_integer() for value in last)
    for dtype in (np.float32, np.float64, *([np.int8] if whole else [])):
        matrix = np.zeros((6, 20), dtype)
        matrix[0, :9] = 1
        matrix.ravel()[matrix.size - len(last) :] = last
        assert inputs.kind_of(matrix) == kind


def test_choices_are_of_the_kind_of_graph():
    bare = replace(random_graph(), features={})
    assert chosen(bare)["rgcn.one_hot"] and chosen(bare)["model.name"] == "rgcn"
    assert chosen(homogeneous())["model.name"] == "gcn" and not chosen(homogeneous())["model.head"]
    typed = chosen(random_graph())
    assert (
        "node_classification.threshold" not in typed
        and chosen(several_labels(random_graph()))["node_classification.threshold"] == "validation"
    )
    assert typed["model.norm"] == "layer" and typed["model.input_projection"] and typed["sampling.mode"] == "full"


@pytest.mark.parametrize(
    "mesh",
    [
        {"relation": 2},
        {"data": 2},
        {"data": 2, "strategy": "vanilla"},
        {"data": 3, "strategy": "dependency"},
        {"feature": 2, "strategy": "tensor"},
    ],
)
def test_choices_are_the_same_on_a_mesh(mesh):
    """Also those that read what baselines reach."""
    judged = shop(), communities(True, "nothing"), communities(False, "all")
    for graph in (random_graph(), homogeneous(), *judged):
        assert chosen(graph, mesh=Mesh(**mesh)) == chosen(graph)
    assert [chosen(g, mesh=Mesh(**mesh)).get("data.label_inputs", False) for g in judged] == [True, True, False]


@pytest.mark.parametrize("told", ["nothing", "all"])
def test_labels_of_test_nodes_choose_nothing(told):
    for graph in (shop(told), communities(True, told)):
        assert chosen(relabelled(graph, graph.splits["test"])) == chosen(graph)


def test_learnable_features_are_narrower_where_there_are_many(monkeypatch):
    def found(graph):
        options = chosen(graph)
        return options.get("model.feature_width"), options.get("train.feature_learning_rate")

    assert found(kinds()) == (None, None)  # every type has features
    graph = random_graph()
    assert found(graph) == (64, 0.001) and found(replace(graph, features={})) == (None, None)
    featureless = sum(count for name, count in graph.schema.nodes.items() if name not in graph.features)
    for most, width in ((64 * featureless, 64), (64 * featureless - 1, 32), (1, 8)):
        monkeypatch.setattr(choices, "MOST_LEARNED", most)
        assert found(graph) == (width, 0.001)


def test_large_graphs_are_sampled(monkeypatch):
    monkeypatch.setattr(choices, "WHOLE_EDGES", 10)
    found = chosen(random_graph())
    assert found["sampling.mode"] == "minibatch" and "model.layers" not in found


@pytest.mark.parametrize(("layers", "fanout"), [(1, (25,)), (2, None), (4, (25, 20, 20, 20))])
def test_every_layer_has_a_fanout(layers, fanout, monkeypatch):
    monkeypatch.setattr(choices, "WHOLE_EDGES", 10)
    sections = {"model": Model(layers=layers), "train": Train(recipe="graph")}
    assert chosen(random_graph(), "model.layers", **sections).get("sampling.fanout") == fanout
    assert "sampling.fanout" not in chosen(
        random_graph(), "model.layers", "sampling.mode", **sections | {"sampling": Sampling("full")}
    )


def test_a_fanout_that_is_given_fits_the_layers(monkeypatch, tmp_path):
    """Also where it is the default, which could be chosen."""
    monkeypatch.setattr(choices, "WHOLE_EDGES", 10)
    store.save(random_graph(), tmp_path / "store")
    given = ["--data.format=store", f"--data.path={tmp_path / 'store'}", "--train.recipe=graph", "--model.layers=1"]
    for more in ("[25,20]", "[5,5]"):
        with pytest.raises(InputError, match="has 2 numbers != 1 of model.layers"):
            main([*given, f"--sampling.fanout={more}", f"--workdir={tmp_path / 'run'}"])


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (Data(format="store", path="x"), {}, True),
        (Data(), {}, False),
        (Data(), {"recipe": "graph"}, True),
        (Data(format="store", path="x"), {"recipe": "none"}, False),
    ],
)
def test_options_are_chosen_unless_the_recipe_says_no(data, options, expected):
    assert Config(data=data, train=Train(**options)).by_graph is expected


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_features_are_normalised_by_their_kind_and_whatever_their_scale(scale, monkeypatch):
    monkeypatch.setattr(inputs, "AT_ONCE", 7)  # a few rows at a time
    graph = kinds(scale)
    of_kind = inputs.kinds_of(graph)
    assert inputs.needed(graph, of_kind)[0] == "auto"
    assert of_kind == {"counts": "counts", "numbers": "numbers", "sparse": "sparse", "flags": "binary"}
    found = inputs.normalised(graph).features
    sums = found["counts"].sum(axis=1)
    assert set(np.round(sums, 5)) <= {0, 1}
    np.testing.assert_allclose(found["numbers"].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(found["numbers"].std(axis=0), 1, rtol=1e-5)
    np.testing.assert_allclose(np.abs(found["sparse"])[found["sparse"] != 0].mean(), 1, rtol=1e-5)
    assert found["flags"] is graph.features["flags"]
    statistics = graph.features["numbers"].mean(axis=0), graph.features["numbers"].std(axis=0)
    other = inputs.normalised(kinds(2 * scale), like=graph).features["numbers"]
    np.testing.assert_allclose(other, (2 * graph.features["numbers"] - statistics[0]) / statistics[1], rtol=1e-3)


def test_the_largest_of_large_features_are_named():
    graph = kinds(1.0)
    name = min(graph.features)
    large = {name: np.full(graph.features[name].shape, -2000.0, np.float32)}
    assert inputs.unscaled(replace(graph, features={**graph.features, **large})).startswith(
        f"features of {name} are 2,000 in "
    )
    assert not inputs.unscaled(replace(graph, features={name: large[name] / 1000}))


def test_what_is_made_of_a_store_is_the_same_in_parts(tmp_path):
    graph = kinds()
    store.save(graph, tmp_path / "graph")
    data = Data(format="store", path=str(tmp_path / "graph"), normalize_features="auto", label_inputs=True)
    whole, about = load(data), load_abstract(data)
    assert whole.schema == about.schema
    some = load_some(data, whole.schema.relations[-2:], {"numbers", whole.schema.target})
    assert tuple(some.relations) == whole.schema.relations[-2:]
    for name, matrix in some.features.items():
        np.testing.assert_array_equal(matrix, whole.features[name])
    assert read_ahead(data)[0].schema == graph.schema and read_ahead(data)[1].graph is None


def test_a_run_says_what_it_chose_records_it_and_keeps_it(tmp_path, capsys, monkeypatch):
    store.save(kinds(1000.0), tmp_path / "graph")
    monkeypatch.setattr(choices, "_epochs", lambda *_: iter([choices.Choice("train.epochs", 2, "a test")]))
    options = ["--data.format", "store", "--data.path", str(tmp_path / "graph"), "--workdir", str(tmp_path / "run")]
    with shown():
        main(options)
    said = "".join(capsys.readouterr())
    assert "model.norm layer: " in said and "data.normalize_features auto: " in said
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["train"]["epochs"] == 2 and config["model"]["norm"] == "layer"
    losses = [
        json.loads(line)["train_loss"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[:-1]
    ]
    assert max(losses) < 2  # of two classes, and features of thousands
    (tmp_path / "run" / "summary.json").unlink()
    monkeypatch.setattr(recipe, "search", lambda *_: pytest.fail("chosen again"))
    with shown():
        main(options)
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text()) == config
    assert "model.norm" not in "".join(capsys.readouterr())
    with shown():  # all else stays as it was
        main([*options, "--train.epochs", "3"])
    longer = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert longer["train"].pop("epochs") == 3 and config["train"].pop("epochs") == 2 and longer == config
    with pytest.raises(InputError, match="model.hidden is 64 there != 8"):
        main([*options, "--train.recipe", "graph", "--model.hidden", "8"])


def test_the_rate_rises_over_the_first_steps():
    rate = schedule(0.1, Train(warmup_steps=4), 3)
    np.testing.assert_allclose([rate(step) for step in range(6)], [0.025, 0.05, 0.075, 0.1, 0.1, 0.1], rtol=1e-6)
    assert schedule(0.1, Train(), 3) == 0.1


def test_one_process_chooses_and_tells_the_others():
    class Second(ProcessGroup):
        first = False

        def broadcast_object(self, name, value):
            assert value is None
            return [["model.hidden", 8, "why"], ["train.epochs", 3, ""]]

    config = Config(data=Data(format="store", path="nowhere"))
    found, _ = recipe.resolve(config, ["--data.format=store", "--data.path=nowhere"], None, Second())
    assert (found.model.hidden, found.train.epochs) == (8, 3)


def test_a_graph_that_was_read_is_handed_on_once(monkeypatch):
    data, read, times = owners.made_data(scale=0.001), synthetic.generate, []
    monkeypatch.setattr(synthetic, "generate", lambda *given: (times.append(1), read(*given))[1])
    graph, ahead = read_ahead(data)
    assert load(data, ahead).relations is graph.relations and len(times) == 1
    load(data, ahead)  # it was taken
    assert len(times) == 2
    _, ahead = read_ahead(data)
    load(owners.made_data(scale=0.001, seed=1), ahead)  # another graph
    assert len(times) == 4


@pytest.mark.parametrize(("told", "by_labels"), [("nothing", True), ("no features", True), ("all", False)])
def test_labels_become_inputs_where_features_say_little_and_neighbours_much(told, by_labels):
    graph = shop(told)
    found = chosen(graph)
    assert ("data.label_inputs" in found) == by_labels and "rgcn.one_hot" not in found
    for given in ("data.label_inputs", "raf.plan", "raf.cut", "averaging.folder", "data.metapath_hops"):
        more = {"data": Data(metapath_hops=2)} if given == "data.metapath_hops" else {}
        assert "data.label_inputs" not in {c.key for c in choices.choose(Config(**more), graph, {given})}
    batches = chosen(graph, "sampling.mode", sampling=Sampling(mode="minibatch"))
    assert ("data.label_inputs" in batches) == by_labels
    assert batches["train.epochs"] == found["train.epochs"]  # of one step each
    smaller = chosen(graph, "sampling.mode", sampling=Sampling(mode="minibatch", batch_size=100))
    assert smaller["train.epochs"] < found["train.epochs"]
    few = replace(graph, splits=graph.splits | {"validation": graph.splits["validation"][:50]})
    assert chosen(few).get("data.label_inputs", False) == by_labels  # by folds of training and validation nodes


def test_of_one_relation_the_choice_is_by_what_says_anything():
    for told in ("nothing", "no features"):
        found = chosen(communities(True, told))
        assert found["data.label_inputs"] and found["model.name"] == "rgcn" and "rgcn.one_hot" not in found
        assert "data.label_inputs" not in chosen(communities(False, told))  # nothing says anything
    told = [chosen(communities(follow, "all")) for follow in (True, False)]
    assert [found["model.name"] for found in told] == ["gcn", "sage"]
    unseen = chosen(communities(False, "nothing"))  # features may say what logistic regression does not see
    assert unseen["model.name"] == "sage"
    assert not any("data.label_inputs" in found for found in told)


def test_baselines_that_were_looked_at_are_not_computed_again(tmp_path, monkeypatch):
    times, compute = [], baselines.baselines
    monkeypatch.setattr(baselines, "baselines", lambda *given: (times.append(given), compute(*given))[1])
    store.save(shop(), tmp_path / "store")
    read = ["--data.format=store", f"--data.path={tmp_path / 'store'}", "--train.recipe=graph", "--train.epochs=1"]
    main([*read, "--model.hidden=4", f"--workdir={tmp_path / 'run'}"])
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert len(times) == 1 and summary["baselines"].keys() == set(baselines.NAMES)
    made = load(Data(format="store", path=str(tmp_path / "store"), normalize_features="auto"))
    again = baselines.measured(compute(made, "micro_f1"), made, "micro_f1")
    for name, row in summary["baselines"].items():
        assert row | {"seconds": 0} == again[name] | {"seconds": 0}


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("graph", [random_graph, homogeneous])
def test_sehgnn_alone_gets_its_metapaths(tmp_path, monkeypatch, graph, features):
    """Of one node type too, whose few labels ask for no option that it has not; and of types without features, whose metapaths to themselves are relations."""
    store.save(graph() if features else replace(graph(), features={}), tmp_path / "graph")
    monkeypatch.setattr(choices, "_epochs", lambda *_: iter([choices.Choice("train.epochs", 2, "a test")]))
    given = [f"--data.path={tmp_path / 'graph'}", "--data.format=store", "--model.name=sehgnn"]
    main([*given, f"--workdir={tmp_path / 'run'}"])
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert (config["data"]["metapath_hops"], config["data"]["metapath_label_hops"]) == (2, 2)
    assert config["model"]["layers"] == 1 and config["model"]["head"]


def test_metapaths_that_sehgnn_alone_gets_are_not_too_many(monkeypatch):
    monkeypatch.setattr("hetjax.metapaths.paths.MOST_PATHS", 2)
    assert chosen(homogeneous(), "model.name", model=Model(name="sehgnn"))["data.metapath_hops"] == 1


def test_no_metapath_that_sehgnn_alone_gets_has_too_many_edges(monkeypatch):
    """Those whose first type has features have none of their own."""
    monkeypatch.setattr("hetjax.metapaths.paths.MOST_EDGES", 3000)  # of the 3,000 edges and the walks along two of them
    for features, hops in (({}, 1), (shop().features, 2)):
        graph = replace(shop(), features=features)
        assert chosen(graph, "model.name", model=Model(name="sehgnn"))["data.metapath_hops"] == hops


def test_metapaths_that_are_given_are_not_chosen():
    assert (
        chosen(random_graph(), "data.metapath_hops", "model.name", model=Model(name="sehgnn"))
        .keys()
        .isdisjoint({"data.metapath_hops", "data.metapath_label_hops"})
    )


def test_an_option_of_the_whole_graph_goes_with_a_mode_that_is_chosen(tmp_path):
    """Of a small graph it will be the whole."""
    given = ["--data.format=store", "--data.path=/", "--mesh.data=2", "--mesh.strategy=dependency"]
    memory = ["--dependency.memory=1MB", f"--workdir={tmp_path}"]
    assert read_config([*given, *memory]).strategies["dependency"].memory == 10**6
    assert read_config([*given, *memory, "--train.epochs=9", "--model.hidden=8"]).train.epochs == 9
    for more in ("--sampling.mode=minibatch", "--train.recipe=none"):
        with pytest.raises(InputError, match="dependency.memory is 1000000, and is for sampling.mode full"):
            read_config([*given, *memory, more])


def read_config(arguments: list[str]) -> Config:
    return run_options.read(arguments).config


def test_classes_that_no_node_has_are_said():
    graph = random_graph()
    assert of_no_node(graph) == ""
    more = replace(graph, schema=replace(graph.schema, classes=graph.schema.classes + 7))
    first = graph.schema.classes
    some = ", ".join(str(first + n) for n in range(5))
    assert (
        of_no_node(more)
        == f"7 of {first + 7} classes are no node's label: {some} ...; the model learns them all the same"
    )
    several = several_labels(graph)
    labels = np.where(several.labels == 1, 0, several.labels)
    labels[:, 1:] = several.labels[:, 1:]
    assert of_no_node(replace(several, labels=labels)).startswith(
        f"1 of {several.schema.classes} classes are no node's label: 0;"
    )


ALONE = {
    **{"model.hidden": 30, "model.layers": 3, "model.head": False, "rgcn.bases": 2, "rgcn.share_self": False},
    **{"rgcn.one_hot": True, "model.heads": 8, "model.norm": "none", "model.residual": False, "model.decoupled": True},
    **{"model.input_projection": True, "model.feature_init": "glorot", "gin.epsilon": 0.5, "model.name": "sehgnn"},
    **{"sampling.fanout": (5, 5, 5), "sampling.batch_size": 16, "sampling.mode": "minibatch"},
    **{
        "train.epochs": 3,
        "train.patience": 20,
        "node_classification.class_weights": "balanced",
        "train.learning_rate": 0.1,
    },
    **{
        "train.weight_decay": 0.1,
        "train.steps_per_epoch": 2,
        "node_classification.metric": "macro_f1",
        "cache.policy": "hotness",
    },
    **{"data.label_inputs": True, "data.metapath_hops": 1},
}


@pytest.mark.parametrize("key", ALONE)
@pytest.mark.parametrize("graph", [random_graph, homogeneous, shop])
def test_an_option_that_is_given_is_kept_and_the_others_go_with_it(graph, key):
    graph, name = graph(), key.split(".")[1]
    if name == "label_inputs" and not isinstance(graph, str) and len(graph.splits["train"]) < 10:
        pytest.skip("too few training nodes")
    config = Config(data=Data(format="store", path="x"))
    implied = renamed.implied_model({key})
    config = applied(config, [Choice(key, ALONE[key], ""), Choice("model.name", implied or config.model.name, "")])
    found = list(choices.choose(config, graph, {key, "model.name"} if implied else {key}))
    assert key not in {choice.key for choice in found}
    assert {"train.epochs", "train.stacking", "train.on_divergence"} - {key} <= {choice.key for choice in found}
    final = applied(config, found)
    final.check_fanout()
    registry.check(final)
    setup(final, made(graph, final.data))


def test_choices_follow_what_is_given():
    def found(graph, key, value):
        section, name = key.split(".")
        config = Config(data=Data(format="store", path="x"))
        config = replace(config, **{section: replace(getattr(config, section), **{name: value})})
        return {choice.key: choice.value for choice in choices.choose(config, graph, {key})}

    for key, value in (("sampling.fanout", (5, 5, 5)), ("sampling.batch_size", 9), ("cache.policy", "none")):
        assert found(random_graph(), key, value)["sampling.mode"] == "minibatch"
    assert found(random_graph(), "sampling.fanout", (5, 5, 5))["model.layers"] == 3
    assert found(random_graph(), "model.heads", 8)["model.name"] == "rgat"
    assert found(homogeneous(), "model.heads", 8)["model.name"] == "gat"
    assert "train.l2" in found(homogeneous(), "train.seed", 1)
    assert "train.l2" not in found(homogeneous(), "train.weight_decay", 0.1)
    few = found(shop(), "train.epochs", 20)
    assert few["train.evaluate_every"] <= 2 and few["train.warmup_steps"] == 2 and few["train.learning_rate"] == 0.01
    assert found(shop(), "train.patience", 2)["train.evaluate_every"] == 1


def test_options_of_a_file_are_given_too_and_the_same_command_goes_on(tmp_path, monkeypatch):
    store.save(shop(), tmp_path / "graph")
    (tmp_path / "c.yaml").write_text("model: {hidden: 8}\ntrain: {class_weights: balanced, epochs: 2}\n")
    read = [f"--data.path={tmp_path / 'graph'}", "--data.format=store", f"--workdir={tmp_path / 'run'}"]
    command = [*read, "--config", str(tmp_path / "c.yaml"), "--train.patience=5"]
    main(command)
    first = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    kept = {"epochs": 2, "patience": 5, "stacking": True}
    assert first["node_classification"]["class_weights"] == "balanced"
    assert first["train"] | kept == first["train"] and first["model"]["hidden"] == 8
    assert first["model"]["norm"] == "layer" and first["sampling"]["mode"] == "full"
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    (tmp_path / "run" / "summary.json").unlink()
    monkeypatch.setattr(recipe, "search", lambda *_: pytest.fail("chosen again"))
    main(command)
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text()) == first
    again = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert again["test_accuracy"] == summary["test_accuracy"] and summary["stacking"]["class_weights"]
    with pytest.raises(InputError, match="train.learning_rate is 0.01 there != 0.5; give another --workdir"):
        main([*command, "--train.learning_rate=0.5"])  # which alone is named


def test_a_run_that_begins_with_other_weights_has_their_model(tmp_path):
    store.save(shop(), tmp_path / "graph")
    read = [f"--data.path={tmp_path / 'graph'}", "--data.format=store", "--train.epochs=1"]
    main([*read, "--train.recipe=none", "--sampling.mode=full", "--model.hidden=12", f"--workdir={tmp_path / 'one'}"])
    command = [*read, "--init_from", str(tmp_path / "one"), f"--workdir={tmp_path / 'two'}"]
    main([one.replace("--init_from", "--train.init_from") for one in command])
    models = [yaml.safe_load((tmp_path / name / "config.yaml").read_text())["model"] for name in ("one", "two")]
    assert models[0] == models[1]


def test_what_cannot_be_is_refused_before_anything_is_chosen(tmp_path, monkeypatch):
    graph = shop()
    none = replace(graph, splits=graph.splits | {"validation": graph.splits["validation"][:0]})
    store.save(none, tmp_path / "graph")
    monkeypatch.setattr(recipe, "search", lambda *_: pytest.fail("chosen"))
    read = [f"--data.path={tmp_path / 'graph'}", "--data.format=store", f"--workdir={tmp_path / 'run'}"]
    read += ["--store.validation_fraction=0"]
    for more, words in (
        (["--train.patience=3"], "train.patience is 3, and there are no validation nodes"),
        (["--node_classification.class_weights=[1,2]"], "node_classification.class_weights has 2 numbers != 3 classes"),
        (["--sampling.fanout=[2,2]", "--model.layers=3"], "has 2 numbers != 3 of model.layers"),
        (["--node_classification.metric=roc_auc"], "of the 0 validation nodes there is no class"),
    ):
        with pytest.raises(InputError, match=words):
            main([*read, *more])
    assert not (tmp_path / "run").exists()
