"""Epochs of the whole graph on one device, beside DGL and PyG (NeutronStar, Tables 4 and 5), in turns, in one run.

`python experiments/peers/single_device.py --dgl PYTHON --pyg PYTHON` times GCN and GAT on Cora, Citeseer and Pubmed (of `HETJAX_DATA`) and on a graph of
Google's shape (875,713 nodes, 5,105,039 edges, 512 features, 16 classes; Zipf degrees, random features), and R-GCN, R-GAT and HGT on
a tenth of ogbn-mag's shape. `PYTHON` is that of an environment that has the peer; whoever is not given is left out. Peers run `peers/whole_graph_*.py`, hetjax
`benchmarks/whole_graph.py`, in processes of their own, `--rounds` times in turns.

Writes `experiments/peers/results/single_device.csv`: per graph, model and system the median milliseconds of an epoch over the rounds, how many times
hetjax's that is (median, least and most of the rounds), and the most memory. `out of memory` stands for a process that was ended at `--memory`
GiB, or that the machine ended.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tqdm import tqdm

from experiments.runs import ROOT, markdown, read_rows, write_rows

GOOGLE = {"nodes": 875_713, "edges": 5_105_039, "width": 512, "classes": 16}
SMALL = {"cora": 128, "citeseer": 128, "pubmed": 128}  # hidden widths, of the paper's Table 2
MODELS = {"ogbn-mag x 0.1": ("rgcn", "rgat", "hgt")}
OUT = Path(__file__).parent / "results" / "single_device.csv"


def google(file: Path) -> None:
    """Write a directed graph of so many nodes and edges; sources follow a Zipf law of exponent 1, targets are uniform."""
    rng, nodes = np.random.default_rng(0), GOOGLE["nodes"]
    share = np.cumsum(1 / np.arange(1, nodes + 1))
    popular = rng.permutation(nodes)
    sources = popular[np.searchsorted(share, rng.random(GOOGLE["edges"]) * share[-1])]
    targets = rng.integers(0, nodes, GOOGLE["edges"])
    arrays = {
        "nodes|page": np.array(nodes),
        "edges|page|links|page": np.stack([sources, targets]).astype(np.int32),
        "features|page": rng.standard_normal((nodes, GOOGLE["width"]), np.float32),
        "labels|page": rng.integers(0, GOOGLE["classes"], nodes).astype(np.int32),
        "train|page": rng.permutation(nodes)[: nodes // 2].astype(np.int32),
    }
    np.savez(file, **arrays)


def written(name: str, folder: Path) -> Path:
    """Return the graph's file."""
    file = folder / f"{name.replace(' ', '_')}.npz"
    if file.exists():
        return file
    if name == "Google's shape":
        google(file)
        return file
    options = ["--synthetic.scale", "0.1"]
    if name in SMALL:
        data = os.environ.get("HETJAX_DATA")
        if not data:
            sys.exit("HETJAX_DATA, the folder of real graphs, is not set")
        options = ["--data.format", "npz", "--data.path", str(next((Path(data) / name).glob("*.npz")))]
    command = [sys.executable, str(ROOT / "benchmarks" / "graph_file.py"), *options, "--out", str(file)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return file


def timed(command: list, memory: int) -> dict:
    """Return the output of a script, or the word for a process that needed more memory than it was given."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory << 30, memory << 30))

    threads = {"OMP_NUM_THREADS": str(os.cpu_count()), "DGLBACKEND": "pytorch"}
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, env=os.environ | threads, preexec_fn=limit
    )
    if done.returncode:
        words = ("MemoryError", "allocate memory", "Unable to allocate", "bad_alloc", "Out of memory")
        if done.returncode < 0 or any(word in done.stderr for word in words):
            return {"ms_per_step": None, "system": "", "peak_mib": memory << 10}
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def summed(rows: list[dict]) -> list[dict]:
    """Return the medians of the rounds, of every graph, model and system."""
    made = []
    for key in dict.fromkeys((row["graph"], row["model"], row["who"]) for row in rows):
        graph, model, who = key
        found = [row for row in rows if (row["graph"], row["model"], row["who"]) == key]
        own = [
            row["ms_per_step"] for row in rows if (row["graph"], row["model"], row["who"]) == (graph, model, "hetjax")
        ]
        cells = {"graph": graph, "model": model, "hidden": found[0]["hidden"], "who": who}
        cells["system"] = max(row["system"] for row in found)
        if any(row["ms_per_step"] is None for row in found):
            cells |= {"ms": "out of memory", "times_hetjax": "", "least": "", "most": ""}
        else:
            ratios = [row["ms_per_step"] / mine for row, mine in zip(found, own)]
            cells |= {"ms": round(statistics.median(row["ms_per_step"] for row in found), 1)}
            cells |= {"times_hetjax": round(statistics.median(ratios), 2)}
            cells |= {"least": round(min(ratios), 2), "most": round(max(ratios), 2)}
        made.append(cells | {"peak_mib": max(row["peak_mib"] for row in found)})
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*SMALL, "Google's shape", "ogbn-mag x 0.1"]
    parser.add_argument("--graphs", nargs="+", choices=names, default=names)
    parser.add_argument("--dgl", type=Path, help="the Python of an environment that has DGL")
    parser.add_argument("--pyg", type=Path, help="the Python of an environment that has PyG")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="epochs that are timed in a round")
    parser.add_argument("--memory", type=int, default=20, help="GiB that a process may allocate")
    parser.add_argument("--folder", type=Path, help="where graphs are kept; default: a temporary folder")
    options = parser.parse_args()
    peers = ROOT / "experiments" / "peers"
    scripts = {"hetjax": [sys.executable, ROOT / "benchmarks" / "whole_graph.py"]}
    scripts |= {
        who: [python, peers / f"whole_graph_{who}.py"]
        for who in ("dgl", "pyg")
        if (python := getattr(options, who)) is not None
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for name in options.graphs:
            file, hidden, rows = written(name, folder), SMALL.get(name, 256 if "Google" in name else 64), []
            tries = [
                (model, who)
                for _ in range(options.rounds)
                for model in MODELS.get(name, ("gcn", "gat"))
                for who in scripts
            ]
            for model, who in (bar := tqdm(tries)):
                bar.set_postfix_str(f"{name}, {model}, {who}")
                about = ["--model", model, "--hidden", hidden, "--steps", options.steps]
                found = timed([*scripts[who], file, *about], options.memory)
                rows.append({"graph": name, "model": model, "hidden": hidden, "who": who} | found)
            others = [row for row in read_rows(OUT) if row["graph"] != name]
            write_rows(OUT, [*others, *summed(rows)])
    print(markdown(read_rows(OUT)))


if __name__ == "__main__":
    main()
