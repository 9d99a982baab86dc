"""SeHGNN on HGB's DBLP and IMDB, 5 seeds each, beside its published figures; and what the means along metapaths cost, computed once.

`HETJAX_DATA=... python experiments/sehgnn.py` does for every graph and seed what a user does: `python -m hetjax.convert` makes a store of the
graph, `python -m hetjax.convert --data.metapath_hops ...` makes one of its metapaths (timed, with the most memory that the process had), and `python -m
hetjax.train --config examples/GRAPH_sehgnn.yaml` trains on that. A row goes to `experiments/results/sehgnn.csv` after each.
A seed decides the weights and which fifth of the training nodes is held out. Test nodes are those of `label.dat.test`, all of them labelled.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from runs import ROOT, environment, markdown, read_rows, replace_rows, train
from tqdm import tqdm

OUT = Path(__file__).parent / "results" / "sehgnn.csv"
PUBLISHED = {"dblp": ("95.42 / 95.06", "HGB DBLP"), "imdb": ("69.17 / 67.11", "HGB IMDB")}  # micro / macro-F1


def convert(out: Path, **options: object) -> tuple[float, float]:
    """Make a store; seconds, and MiB that the process had at most."""
    command = [sys.executable, "-m", "hetjax.convert", "--out", str(out)]
    command += [f"--data.{key}={value}" for key, value in options.items()]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment(out.parent))
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: status {status}")
    return time.perf_counter() - started, used.ru_maxrss / 1024


def run(name: str, seed: int, folder: Path, more: dict[str, str]) -> dict:
    """Precompute and train once."""
    data = yaml.safe_load((ROOT / "examples" / f"{name}_sehgnn.yaml").read_text())["data"]
    plain, along = folder / f"{name}_{seed}", folder / f"{name}_{seed}_metapaths"
    if not plain.exists():
        convert(plain, format="hgb", path=data["path"], split_seed=seed)
    seconds, peak = 0.0, 0.0
    if not along.exists():
        hops = {key: data[key] for key in ("metapath_hops", "metapath_label_hops")}
        seconds, peak = convert(along, format="store", path=plain.absolute(), **hops)
    given = {"data.format": "store", "data.path": str(along.absolute()), "train.seed": str(seed)}
    given |= {"data.metapath_hops": "0", "data.metapath_label_hops": "0", "train.baselines": "false"}
    summary = train(folder / f"{name}_{seed}_run", f"{name}_sehgnn", given | more)
    return {
        "graph": name,
        "seed": seed,
        "micro_f1": round(100 * summary["test_micro_f1"], 2),
        "macro_f1": round(100 * summary["test_macro_f1"], 2),
        "epoch": summary["epoch"],
        "seconds": round(summary["seconds"], 1),
        "weights": summary["weights"],
        "precompute_seconds": round(seconds, 1),
        "precompute_peak_mib": round(peak),
        "metapaths_mib": round(sum(file.stat().st_size for file in along.glob("*.npy")) / 2**20),
    }


def table(file: Path) -> str:
    """Mean and sample standard deviation of each graph."""
    lines = []
    for name, (published, title) in PUBLISHED.items():
        rows = [row for row in read_rows(file) if row["graph"] == name]
        if not rows:
            continue
        cells = {"graph": title, "runs": len(rows)}
        for key in ("micro_f1", "macro_f1"):
            found = [float(row[key]) for row in rows]
            spread = f" ± {statistics.stdev(found):.2f}" if len(found) > 1 else ""
            cells[f"{key.replace('_f1', '-F1')} (%)"] = f"{statistics.mean(found):.2f}{spread}"
        cells["published micro / macro"] = published
        for key, head in (
            ("seconds", "seconds to train"),
            ("precompute_seconds", "seconds to precompute"),
            ("precompute_peak_mib", "peak MiB of that"),
            ("metapaths_mib", "MiB written"),
        ):
            cells[head] = f"{statistics.median(float(row[key]) for row in rows):.0f}"
        lines.append(cells)
    return markdown(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option that all runs have")
    parser.add_argument("--runs", type=Path, help="where stores and runs are kept; default: nowhere")
    parser.add_argument("--out", type=Path, default=OUT, help="the file of all runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.runs or Path(made_here)
        folder.mkdir(parents=True, exist_ok=True)
        for seed in options.seeds:
            for name in tqdm(options.graphs, f"seed {seed}", unit="run"):
                more = dict(pair.split("=", 1) for pair in options.set)
                replace_rows(options.out, ("graph", "seed"), [run(name, seed, folder, more)])
    print(table(options.out))


if __name__ == "__main__":
    main()
