"""SeHGNN on HGB's DBLP and IMDB, 5 seeds each, beside its published figures.

`HETJAX_DATA=... python experiments/accuracy/sehgnn.py` runs `python -m hetjax.train --config examples/GRAPH_sehgnn.yaml` for every graph and seed. A row goes to
`experiments/accuracy/results/sehgnn.csv` after each. A seed decides the weights and which fifth of the training nodes is held out. Test nodes are those of
`label.dat.test`, all of them labelled. `--set sehgnn.metapath_norm=together` trains as the authors' code normalises metapaths, in rows of its own.
`alone` is what the model has before its logits are stacked with those of the baselines, as IMDB's are.

`--precompute` trains nothing: it measures `python -m hetjax.convert --data.metapath_hops ...` of a store, by processor time and by the most memory that the process
had, mapped results among it, with what else the example makes of features; also on generated graphs of several sizes, without that. It writes `experiments/accuracy/results/sehgnn_precompute.csv`.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from tqdm import tqdm

from experiments.runs import ROOT, environment, markdown, read_rows, records, replace_rows, train

RESULTS = Path(__file__).parent / "results"
OUT = RESULTS / "sehgnn.csv"
MADE = {  # of a graph's features, and what it is where a recipe does not say
    "metapath_hops": 0,
    "metapath_label_hops": 0,
    "metapath_one_hot": False,
    "normalize_features": "none",
}
SCALES = (0.02, 0.05, 0.1)  # of generated graphs in the shape of ogbn-mag
PUBLISHED = {"dblp": ("95.42 / 95.06", "HGB DBLP"), "imdb": ("69.17 / 67.11", "HGB IMDB")}  # micro / macro-F1


def convert(out: Path, **options: object) -> tuple[float, float]:
    """Make a store; return the seconds of the processor, and the MiB that the process had at most."""
    command = [sys.executable, "-m", "hetjax.convert", "--out", str(out)]
    command += [f"--data.{key}={value}" for key, value in options.items()]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment(out.parent))
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: status {status}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def size(store: Path) -> int:
    """Return the MiB of all arrays of a store."""
    return round(sum(file.stat().st_size for file in store.glob("*.npy")) / 2**20)


def recipe(name: str) -> dict[str, object]:
    """Return the section `data` of an example: its graph, the metapaths, and the place of the graph."""
    return yaml.safe_load((ROOT / "examples" / f"{name}_sehgnn.yaml").read_text())["data"]


def precompute(folder: Path) -> None:
    """Measure the cost of the means along metapaths, of every graph once."""
    rows: dict[str, dict[str, object]] = {name: recipe(name) for name in PUBLISHED}
    for scale, hops in [*((scale, 2) for scale in SCALES), (SCALES[0], 4)]:
        made = {"metapath_hops": 2, "metapath_label_hops": hops}
        rows[f"ogbn-mag, scale {scale}, labels along {hops}"] = {"format": "synthetic", "scale": scale} | made
    for name, data in tqdm(rows.items(), unit="graph"):
        plain, along = folder / f"{name} plain", folder / f"{name} along"
        convert(plain, **{key: data[key] for key in ("format", "path", "scale") if key in data})
        keys = {key: data.get(key, usual) for key, usual in MADE.items()}
        seconds, peak = convert(along, format="store", path=plain.absolute(), **keys)
        row = {"graph": name, **keys, "graph_mib": size(plain), "metapaths_mib": size(along)}
        row |= {"processor_seconds": round(seconds, 1), "peak_mib": round(peak)}
        replace_rows(RESULTS / "sehgnn_precompute.csv", ("graph",), [row])


def best_loss(workdir: Path, epoch: int) -> float:
    """Return the loss on the validation nodes, of the epoch that was chosen."""
    return next(round(row["validation_loss"], 4) for row in records(workdir) if row.get("epoch") == epoch)


def run(name: str, seed: int, folder: Path, more: dict[str, str]) -> dict:
    """Train once."""
    given = {"hgb.split_seed": str(seed), "train.seed": str(seed), "train.baselines": "false"}
    summary = train(folder / f"{name}_{seed}_run", f"{name}_sehgnn", given | more)
    stacked = summary["stacking"]
    return {
        "graph": name,
        "metapath_norm": more.get("sehgnn.metapath_norm", "each"),
        "seed": seed,
        "validation_loss": best_loss(folder / f"{name}_{seed}_run", summary["epoch"]),
        "micro_f1": round(100 * stacked.get("test_micro_f1", summary["test_micro_f1"]), 2),
        "alone": round(100 * summary["test_micro_f1"], 2),
        "macro_f1": round(100 * stacked.get("test_macro_f1", summary["test_macro_f1"]), 2),
        "epoch": summary["epoch"],
        "seconds": round(summary["seconds"], 1),
        "weights": summary["weights"],
    }


def table(file: Path) -> str:
    """Return the mean and sample standard deviation of each graph."""
    lines = []
    written = read_rows(file)
    for name, norm in dict.fromkeys((row["graph"], row["metapath_norm"]) for row in written):
        rows = [row for row in written if (row["graph"], row["metapath_norm"]) == (name, norm)]
        published, title = PUBLISHED[name]
        cells = {"graph": title, "metapaths normalised": norm, "runs": len(rows)}
        for key in ("micro_f1", "alone", "macro_f1"):
            found = [float(row[key]) for row in rows if row[key]]
            if not found:
                continue
            spread = f" ± {statistics.stdev(found):.2f}" if len(found) > 1 else ""
            cells[f"{key.replace('_f1', '-F1')} (%)"] = f"{statistics.mean(found):.2f}{spread}"
        cells["published micro / macro"] = published
        cells["seconds to train"] = f"{statistics.median(float(row['seconds']) for row in rows):.0f}"
        lines.append(cells)
    return markdown(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option that all runs have")
    parser.add_argument("--runs", type=Path, help="where stores and runs are kept; default: nowhere")
    parser.add_argument("--out", type=Path, default=OUT, help="the file of all runs")
    parser.add_argument("--precompute", action="store_true", help="measure the means along metapaths alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.runs or Path(made_here)
        folder.mkdir(parents=True, exist_ok=True)
        if options.precompute:
            precompute(folder)
            return
        for seed in options.seeds:
            for name in tqdm(options.graphs, f"seed {seed}", unit="run"):
                more = dict(pair.split("=", 1) for pair in options.set)
                replace_rows(options.out, ("graph", "metapath_norm", "seed"), [run(name, seed, folder, more)])
    print(table(options.out))


if __name__ == "__main__":
    main()
