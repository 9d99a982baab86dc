"""Graphs, ways and runs on emulated hosts that dependency_*.py and crossover.py share.

Every graph is a store. A run trains on the whole graph on emulated hosts (experiments/hosts.py), each a process of one device
(experiments/dependency/dependency_host.py). One start of the hosts measures all ways of a graph and a model, at every bandwidth, in many short
rounds that take turns. The time is the median of the rounds, and the spread is that of the rounds. Two ways are compared round by
round, as rounds that lie side by side are disturbed alike: `ratio` is the median with the interval that holds it 19 times in 20.
"""

import dataclasses
import json
import os
import subprocess
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.hosts import hosts, run
from experiments.partitioning.edge_cuts import web
from experiments.runs import ROOT, environment
from experiments.tensor.tensor_graphs import zipf
from hetjax.graph import store

RESULTS = Path(__file__).parent / "results"
CACHE, COMMUNICATE, HYBRID = (f"--dependency.mode={mode}" for mode in ("cache", "communicate", "hybrid"))
RING, OVERLAP = (f"--dependency.schedule={schedule}" for schedule in ("ring", "overlap"))
WAYS = {
    "cache": [CACHE],
    "communicate": [COMMUNICATE],
    "communicate, ring": [COMMUNICATE, RING],
    "communicate, overlap": [COMMUNICATE, OVERLAP],
    "hybrid": [HYBRID],
    "hybrid, ring": [HYBRID, RING],
    "hybrid, overlap": [HYBRID, OVERLAP],
}
SETTING = [
    "--train.recipe=none",
    "--mesh.strategy=dependency",
    "--sampling.mode=full",
    "--data.format=store",
    "--data.check=false",
]
WIDTH = 128  # of the web graph's features, which are random
TENTH, HUNDREDTH = 0.1, 0.01  # of web-Google and of Reddit, and of ogbn-mag
MOST = 0.05  # of what was counted, between it and the wire
HEADERS = 4096  # bytes of a step and an ordered pair of hosts that are sent beside


def converted(*about: str) -> Callable[[Path], None]:
    """Return a function that writes a graph by `hetjax.convert`."""

    def make(out: Path) -> None:
        command = [sys.executable, "-m", "hetjax.convert", *about, "--out", str(out)]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)

    return make


def _web(out: Path) -> None:
    graph = web(TENTH, False)
    rng, pages = np.random.default_rng(1), graph.schema.nodes["page"]
    features = {"page": rng.standard_normal((pages, WIDTH), np.float32)}
    store.save(dataclasses.replace(graph, features=features, labels=rng.integers(0, 2, pages, np.int32)), out)


def _reddit(out: Path) -> None:
    """Write a graph with as many nodes, edges, columns and classes as Reddit; the sources of edges follow Zipf's law."""
    store.save(zipf(int(TENTH * 232_965), int(TENTH * 114_615_892), 602, 41), out)


def _npz(name: str) -> Callable[[Path], None]:
    return converted("--data.format=npz", f"--data.path={name}", "--npz.split=random")


GRAPHS = {
    "cora": _npz("cora"),
    "citeseer": _npz("citeseer"),
    "tolokers": _npz("tolokers"),
    "physics": _npz("coauthor_physics"),
    "web": _web,
    "reddit": _reddit,
    "aifb": converted("--data.format=rdf", "--data.path=aifb"),
    "ogbn-mag": converted("--synthetic.schema=ogbn-mag", f"--synthetic.scale={HUNDREDTH}"),
}
USUAL = tuple(name for name in GRAPHS if name != "reddit")  # the graphs of all scripts
MODELS = {name: "gcn" for name in GRAPHS} | {"ogbn-mag": "rgcn", "aifb": "rgcn"}


def stored(name: str, folder: Path) -> Path:
    """Return a graph as a store, made once; from here on runs keep their compiled programs in `folder`."""
    os.environ.update(environment(folder))
    out = folder / name
    if not out.exists():
        GRAPHS[name](out)
    return out


def setting(graph: Path, model: str, hidden: int) -> list[str]:
    """Return the options of a run, except for the strategy's."""
    return [*SETTING, f"--data.path={graph}", f"--model.name={model}", f"--model.hidden={hidden}"]


def measured(
    options: Sequence[str],
    ways: Mapping[str, Sequence[str]],
    rates: Sequence[str],
    count: int,
    length: tuple[int, int],
    folder: Path,
) -> list[dict]:
    """Return a row per bandwidth and way.

    Args:
      options: of all ways.
      count: hosts.
      length: rounds, and steps of a round.
    """
    job, out = folder / "job.json", folder / "out.json"
    about = {"setting": options, "ways": ways, "rates": rates, "rounds": length[0], "steps": length[1], "out": str(out)}
    job.write_text(json.dumps(about))
    script = str(Path(__file__).parent / "dependency_host.py")
    join = ["--coordinator={coordinator}", "--count={count}", "--number={host}"]
    with hosts(count, rates[0]) as made:
        ended = run(made, [sys.executable, script, str(job), *join], folder, 1800)
    for number, one in enumerate(ended):
        if one.status != 0:
            sys.exit(f"{' '.join(options)}: host {number} ended with {one.status}\n{one.output[-3000:]}")
    return json.loads(out.read_text())


def ratio(row: dict, other: dict) -> dict[str, float]:
    """Return how many times as long rounds took as those of another way beside them: the median, and a 95 % interval by the bootstrap."""
    pairs = np.array([float(x) / float(y) for x, y in zip(row["rounds"].split(), other["rounds"].split())])
    drawn = np.median(np.random.default_rng(0).choice(pairs, (2000, len(pairs))), axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {"ratio": round(float(np.median(pairs)), 3), "low": round(float(low), 3), "high": round(float(high), 3)}


def bits(rate: str) -> float:
    """Return the bits a second of a rate in the form of `tc`."""
    units = {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3}
    return float(rate[:-4]) * units[rate[-4:]]


def parser_of(words: str | None, graphs: Sequence[str] = USUAL) -> ArgumentParser:
    """Return a parser of the options that all of these scripts have."""
    parser = ArgumentParser(description=words, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(graphs), help="graphs")
    parser.add_argument("--model", help="model; unset: gcn, and rgcn on graphs with several relations")
    parser.add_argument("--hidden", type=int, default=64, help="width of embeddings")
    parser.add_argument("--rates", nargs="+", default=["1gbit", "100mbit"], help="bandwidths, as tc writes them")
    parser.add_argument("--count", type=int, default=2, help="number of hosts")
    parser.add_argument("--rounds", type=int, default=20, help="of all ways in turn")
    parser.add_argument("--steps", type=int, default=2, help="of a round")
    parser.add_argument("--folder", type=Path, help="where graphs are kept for another time; unset: nowhere")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the table is written")
    return parser


def off_the_wire(rows: Sequence[dict], few: int) -> float:
    """Return the largest share by which the wire carried more or less than was counted; differences of `few` bytes are left out."""
    pairs = [(row["bytes_counted"], row["bytes_on_wire"]) for row in rows]
    return max((abs(wire / counted - 1) for counted, wire in pairs if abs(wire - counted) > few), default=0.0)


def noise(rows: Sequence[dict]) -> str:
    """Return the spread of the rounds of one cell, as a line."""
    spread = sorted(row["slowest_round"] / row["fastest_round"] - 1 for row in rows)
    return f"noise: the slowest round takes {spread[len(spread) // 2]:.0%} longer than the fastest (median), at most {spread[-1]:.0%}"


def best_and_worst(rows: Sequence[dict], key: str, words: str) -> str:
    """Return the cells with the largest and the smallest value of a column."""
    place = ("graph", "model", "hidden", "hosts", "rate", "partitioning", "way")

    def cell(row: dict) -> str:
        return f"{row[key]} ({', '.join(str(row[name]) for name in place if name in row)})"

    order = sorted(rows, key=lambda row: row[key])
    return f"{words}: best {cell(order[-1])}, worst {cell(order[0])}"


def check(rows: Sequence[dict], count: int) -> None:
    """End with status 1 where bytes counted are not those on the wire.

    Args:
      count: hosts.
    """
    few = HEADERS * count * (count - 1)
    off = off_the_wire(rows, few)
    print(f"bytes on the wire differ from those counted by {off:.1%} at most, but for {few:,} bytes of headers a step")
    if off > MOST:
        sys.exit(f"{MOST:.0%} is what headers may take")
