"""Models of one's own on HGB's DBLP and IMDB: Simple-HGN and HAN of `examples/`, beside their published figures.

`HETJAX_DATA=... python experiments/accuracy/example_models.py` trains each that has a recipe (Simple-HGN has none for IMDB) by `examples/GRAPH_MODEL.yaml`, 5 seeds, and writes
`experiments/accuracy/results/example_models.csv` after every run. HAN reads a graph of metapaths, which `examples/han.py` makes first. A seed decides the weights and
which fifth of the training nodes is held out. Test nodes are those of `label.dat.test`, all of them labelled.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tqdm import tqdm

from experiments.runs import ROOT, environment, markdown, read_rows, replace_rows, train

OUT = Path(__file__).parent / "results" / "example_models.csv"
GRAPHS = ("dblp", "imdb")
PUBLISHED = {
    ("Simple-HGN", "dblp"): 94.46,
    ("Simple-HGN", "imdb"): 67.36,
    ("HAN", "dblp"): 92.05,
    ("HAN", "imdb"): 64.63,
}
HOPS = {"dblp": 4, "imdb": 2}  # of HAN's metapaths


def example(model: str, graph: str) -> str:
    """Return the name of a recipe in `examples/`."""
    return f"{graph}_{model.lower().replace('-', '_')}"


def options(model: str, graph: str, seed: int, folder: Path) -> dict[str, str]:
    """Return the options of a run, besides the example's."""
    seeded = {"hgb.split_seed": str(seed)}
    if model == "Simple-HGN":
        return seeded
    out = folder / f"{graph}_{seed}_metapaths"
    if not out.exists():
        files = {"data.format": "hgb", "data.path": f"hgb_{graph}"} | seeded
        command = [sys.executable, "-m", "examples.han", "--hops", str(HOPS[graph]), "--out", str(out)]
        given = [f"--{key}={value}" for key, value in files.items()]
        done = subprocess.run([*command, *given], cwd=ROOT, env=environment(folder), capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
    return {"data.path": str(out.absolute())}


def run(model: str, graph: str, seed: int, folder: Path, more: dict[str, str]) -> dict:
    """Train once."""
    given = options(model, graph, seed, folder) | {"train.seed": str(seed), "train.baselines": "false"} | more
    summary = train(folder / f"{model}_{graph}_{seed}", example(model, graph), given)
    f1 = {key: round(100 * summary[f"test_{key}"], 2) for key in ("micro_f1", "macro_f1")}
    validation = round(100 * summary["validation_micro_f1"], 2)
    return {"model": model, "graph": graph, "seed": seed, "validation": validation, **f1, "epoch": summary["epoch"]}


def table(file: Path) -> str:
    """Return the mean and sample standard deviation of each model on each graph."""
    lines = []
    for (model, graph), published in PUBLISHED.items():
        rows = read_rows(file)
        found = [float(row["micro_f1"]) for row in rows if (row["model"], row["graph"]) == (model, graph)]
        if found:
            spread = f" ± {statistics.stdev(found):.2f}" if len(found) > 1 else ""
            cells = {"model": model, "graph": f"HGB {graph.upper()}", "runs": len(found)}
            lines.append(cells | {"micro-F1 (%)": f"{statistics.mean(found):.2f}{spread}", "published": published})
    return markdown(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = sorted({model for model, _ in PUBLISHED})
    parser.add_argument("--models", nargs="+", default=models, choices=models)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=GRAPHS)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option that all runs have")
    parser.add_argument("--out", type=Path, default=OUT, help="the file of all runs")
    given = parser.parse_args()
    more = dict(pair.split("=", 1) for pair in given.set)
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(model, graph) for model in given.models for graph in given.graphs]
        pairs = [pair for pair in pairs if (ROOT / "examples" / f"{example(*pair)}.yaml").exists()]
        for seed in given.seeds:
            for model, graph in tqdm(pairs, f"seed {seed}", unit="run"):
                row = run(model, graph, seed, Path(folder), more)
                replace_rows(given.out, ("model", "graph", "seed"), [row])
    print(table(given.out))


if __name__ == "__main__":
    main()
