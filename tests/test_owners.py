"""Sections of options that readers and models own: their old names are read everywhere, and the shared ones stay few."""

from dataclasses import fields, replace

import pytest
import yaml

from hetjax import train_graph
from hetjax.options import owners, reference, renamed
from hetjax.options.command_line import config_of, given_options, parse
from hetjax.options.config import SECTIONS, as_dict, flat
from hetjax.options.names import hint
from hetjax.sharding import registry
from hetjax.system.errors import InputError
from hetjax.training import run_options

VALUES = {
    "validation_fraction": 0.125, "split_seed": 3, "split": "random", "split_number": 1, "split_shares": [0.5, 0.25, 0.25],
    "split_per_class": [3, 4], "undirected": False, "edge_weights": False, "reverse": False, "literals": "drop",
    "exclude": ["label"], "node_types": "class", "igb_labels": "2K", "schema": "donor", "scale": 0.5, "classes": 7, "seed": 5,
    "bases": 3, "share_self": True, "one_hot": True, "output_heads": 2, "epsilon": 0.5, "learn_epsilon": True,
    "softmax": "relation", "output_layers": 4, "embedding_init": "uniform", "metapath_norm": "together",
    "metric": "loss", "threshold": "validation", "class_weights": "balanced", "label_smoothing": 0.5,
}  # fmt: skip
MOVED = [(old, owner, new) for old, names in renamed.old_names().items() for owner, new in names.items()]


def chooser_of(old):
    return renamed.BEFORE[old.split(".")[0]].chooser


def written(value):
    return (
        f"[{','.join(map(str, value))}]"
        if isinstance(value, list)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


def found(sections, key):
    value = flat(as_dict(registry.config_of(sections)))[key]
    return list(value) if isinstance(value, tuple) else value


def test_every_old_name_has_a_value_here():
    assert {old.split(".")[1] for old, _, _ in MOVED} == VALUES.keys()


@pytest.mark.parametrize(("old", "owner", "new"), MOVED)
def test_an_old_name_is_read_as_the_new_one(tmp_path, monkeypatch, old, owner, new):
    lines: list[str] = []
    monkeypatch.setattr(renamed.log, "info", lines.append)
    section, key = old.split(".")
    chooser, value = chooser_of(old), VALUES[key]
    sections = SECTIONS | registry.sections(None)
    for mine, words in ((old, [f"{old} is now {new}"]), (new, [])):
        name, last = mine.split(".")
        content: dict = {chooser.split(".")[0]: {chooser.split(".")[1]: owner}}
        content.setdefault(name, {})[last] = value
        file = tmp_path / f"{mine}.yaml"
        file.write_text(yaml.safe_dump(content), "utf-8")
        for given in ([f"--config={file}"], [f"--{chooser}={owner}", f"--{mine}={written(value)}"],
                      [f"--{chooser}={owner}", f"--{mine}", written(value)]):  # fmt: skip
            lines.clear()
            renamed._told.clear()
            assert found(parse(sections, given, "x", "", {})[0], new) == value
            assert new in given_options(given) and old not in given_options(given)
            assert lines == words
        assert flat(as_dict(config_of(file)))[new] in (value, tuple(value) if isinstance(value, list) else value)
    if section != "data":
        member = chooser.split(".")[0]
        for name in (old, new):
            arguments = train_graph._arguments({member: owner, name: value})
            assert found(parse(sections, arguments, "x", "", {})[0], new) == value
        assert train_graph._arguments({member: owner, key: value})[1].startswith(f"--{new}=")


def test_a_whole_configuration_of_before_is_read(tmp_path):
    before: dict = {name: dict(keys) for name, keys in as_dict(config()).items() if name in SECTIONS}
    for old, names in renamed.old_names().items():
        section, key = old.split(".")
        owner, last = next(iter(names.values())).split(".")
        value = getattr(owners.all_sections()[owner](), last)
        before[section][key] = list(value) if isinstance(value, tuple) else value
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(before), "utf-8")
    assert config_of(file) == replace(config(), strategies={})
    assert not renamed.has_old(renamed.content(before))


def config():
    return registry.config_of({name: section() for name, section in owners.all_sections().items()})


def test_an_old_name_of_another_reader_is_left_out_and_of_another_model_refused(tmp_path):
    read = ["--workdir", str(tmp_path / "run")]
    assert run_options.read([*read, "--data.exclude=[label]"]).config.data.own.keys() == {"synthetic"}
    with pytest.raises(InputError, match="^rgcn.bases is 3, and is for model.name rgcn; it is hgt$"):
        run_options.read([*read, "--model.name=hgt", "--model.bases=3"])
    with pytest.raises(InputError, match="^rdf.literals is drop, and is for data.format rdf; it is synthetic$"):
        run_options.read([*read, "--rdf.literals=drop"])


def test_an_option_of_a_model_chooses_it(tmp_path):
    read = ["--workdir", str(tmp_path / "run")]
    assert run_options.read([*read, "--hgt.softmax=relation"]).config.model.name == "hgt"
    assert run_options.read([*read, "--model.output_heads=2"]).config.model.name == "gat"


def test_shared_options_are_few():
    shared = {name: len(fields(SECTIONS[name])) for name in SECTIONS}
    assert shared["data"] <= 9 and shared["model"] <= 17, shared


@pytest.mark.parametrize("name", owners.all_sections())
def test_help_is_short(name):
    for option in reference.options(name, owners.all_sections()[name]):
        assert option.words and len(option.words) <= 200, (option.name, len(option.words))


def test_help_lists_the_sections_that_are_chosen():
    def listed(**chosen):
        sections, lines = reference.shown(owners.all_sections(), {k.replace("_", "."): v for k, v in chosen.items()})
        return sections.keys() - SECTIONS.keys(), lines

    sections, lines = listed()
    assert sections == {"synthetic", "rgcn", "raf", "node_classification"} and len(lines) == 4
    assert lines[1] == "--model.name NAME --help lists the options of a model: hgt, sehgnn, gin, gat, gatv2."
    assert (
        lines[3]
        == "--task.name NAME --help lists the options of a task: node_regression, edge_classification, edge_regression, several."
    )
    assert listed(data_format="igb", model_name="gcn", mesh_strategy="tensor")[0] == {
        "igb",
        "tensor",
        "node_classification",
    }


def test_mistyped_old_names_lead_to_the_new_ones():
    known = [f"{name}.{key.name}" for name, section in owners.all_sections().items() for key in fields(section)]
    for mistyped, new in (("model.base", "rgcn.bases"), ("data.litterals", "rdf.literals"), ("data.scal", "synthetic.scale"),
                          ("model.metapath_nrom", "sehgnn.metapath_norm")):  # fmt: skip
        assert hint(mistyped, known, "--") == f"; the nearest known one is --{new}"


def test_a_file_s_section_of_another_reader_is_not_read(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("data: {format: rdf, path: x}\nrdf: {literals: drop}", "utf-8")
    read = ["--workdir", str(tmp_path / "run"), "--config", str(file)]
    with pytest.raises(InputError, match="no such file or folder"):
        run_options.read(read)
    (tmp_path / "x").mkdir()
    config = run_options.read([*read, "--data.format=store", f"--data.path={tmp_path / 'x'}"]).config
    assert "rdf" not in config.data.own
