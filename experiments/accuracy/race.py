"""Results of the model alone with and without the race of candidates, on generated graphs whose rules' choice is wrong.

`python experiments/accuracy/race.py` makes `pages` (unlike nodes link, 1703 words) and `items` (like nodes, dense rows of words, 20 labels a class), trains them
by `python -m hetjax.train --data.format store --data.path ...`, once with `--train.search_share 0`, and writes `experiments/accuracy/results/race.csv` after every run.
A seed draws another graph.
"""

import argparse
import itertools
import tempfile
from pathlib import Path

import numpy as np
from tqdm import tqdm

import hetjax
from experiments.runs import markdown, read_rows, replace_rows, train
from hetjax.graph import store
from hetjax.graph.hetgraph import HetGraph

OUT = Path(__file__).parent / "results" / "race.csv"
CHOSEN_BY = {"rules": {"train.search_share": "0"}, "race": {"train.search_share": "0.3"}}


def pages(seed: int) -> HetGraph:
    """Return 190 pages of five classes, whose words tell the class; links join unlike pages."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(5, 190, p=(0.45, 0.2, 0.15, 0.1, 0.1))
    often = rng.beta(0.3, 6, 1703)
    of_class = np.stack([often * np.exp(rng.normal(0, 0.9, 1703)) for _ in range(5)])
    length = np.exp(rng.normal(0, 0.3, (190, 1))) * np.exp(rng.normal(0, 0.35, 5))[labels][:, None]
    words = (rng.uniform(size=(190, 1703)) < np.minimum(of_class[labels] * length, 0.95)).astype(np.float32)
    sources, targets = rng.integers(0, 190, 300), []
    for source in sources:
        unlike = rng.uniform() < 0.8
        targets.append(rng.choice(np.flatnonzero(labels != labels[source])) if unlike else rng.integers(190))
    parts = np.split(rng.permutation(190), [91, 150])
    splits = {name: np.sort(part) for name, part in zip(("train", "validation", "test"), parts)}
    edges = {("page", "links", "page"): np.stack([sources, targets])}
    return hetjax.from_arrays(edges, {"page": words}, {"page": labels}, splits, {"page": 190})


def items(seed: int) -> HetGraph:
    """Return 4000 items of eight classes, each with a quarter of 745 words; edges join like items."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(8, 4000)
    of_class = np.clip(0.25 + rng.normal(0, 0.08, (8, 745)), 0.02, 0.9)
    often = (0.35 * of_class[labels] + 0.65 * 0.25) * np.exp(rng.normal(0, 0.5, (4000, 1)))
    words = (rng.uniform(size=(4000, 745)) < often).astype(np.float32)
    sources = np.repeat(np.arange(4000), 8)
    targets = rng.integers(0, 4000, len(sources))
    for number in range(8):
        alike = (labels[sources] == number) & (rng.uniform(size=len(sources)) < 0.6)
        targets[alike] = rng.choice(np.flatnonzero(labels == number), alike.sum())
    each = [rng.permutation(np.flatnonzero(labels == number))[:50] for number in range(8)]
    train, known = np.concatenate([ids[:20] for ids in each]), np.concatenate(each)
    rest = {"validation": np.setdiff1d(known, train), "test": np.setdiff1d(np.arange(4000), known)}
    edges = np.stack([np.concatenate([sources, targets]), np.concatenate([targets, sources])])
    splits = {"train": np.sort(train), **rest}
    return hetjax.from_arrays({("item", "with", "item"): edges}, {"item": words}, {"item": labels}, splits)


GRAPHS = {"pages": pages, "items": items}


def run(name: str, seed: int, chosen_by: str, folder: Path) -> dict:
    """Train once."""
    where = folder / f"{name}_{seed}"
    if not where.exists():
        store.save(GRAPHS[name](seed), where)
    options = {"data.format": "store", "data.path": str(where.absolute())} | CHOSEN_BY[chosen_by]
    summary = train(folder / f"{where.name}_{chosen_by}", "", options)
    baselines = [row["micro_f1"] for row in summary["baselines"].values() if row.get("micro_f1") is not None]
    alone = summary["stacking"].get("model_alone", {}).get("test_micro_f1", summary["test_micro_f1"])
    row = {"graph": name, "seed": seed, "chosen_by": chosen_by, "alone": round(100 * alone, 2)}
    return row | {"best_baseline": round(100 * max(baselines), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(3)))
    parser.add_argument("--chosen_by", nargs="+", default=list(CHOSEN_BY), choices=list(CHOSEN_BY))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for each in tqdm(list(itertools.product(options.seeds, options.graphs, options.chosen_by)), unit="run"):
            seed, name, chosen_by = each
            replace_rows(OUT, ("graph", "seed", "chosen_by"), [run(name, seed, chosen_by, Path(folder))])
    print(markdown(read_rows(OUT)))


if __name__ == "__main__":
    main()
