"""Test accuracy of decoupled models beside coupled ones: NeutronTP's Figure 16.

`HETJAX_DATA=... python experiments/tensor/tensor_accuracy.py` trains both on every graph, five runs each, with the recipe of the coupled model, and
says how far apart the means are, in standard deviations of the coupled one's runs. Runs, their splits and the choice of the epoch
are those of `homogeneous_accuracy.py`, on one device: `tests/test_tensor.py` shows that slices change nothing but rounding.
Writes `experiments/tensor/results/tensor_accuracy.csv`, every run a row; a run that is there already is not trained again.
"""

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import statistics
from pathlib import Path

from experiments.accuracy.homogeneous_accuracy import DECOUPLED, GCN, Key, Row, complete, percent, written

OUT = Path(__file__).parent / "results" / "tensor_accuracy.csv"
CASES = {
    ("cora", "public", "GCN"): Row("cora_gcn"),
    ("citeseer", "public", "GCN"): Row("citeseer_gcn"),
    ("hgb_dblp", "held out", "R-GCN"): Row("dblp"),
    ("coauthor_physics", "shchur", "GCN"): Row("coauthor_sage", GCN),
}


def apart(key: Key) -> Key:
    """Return the key of the decoupled model from that of the coupled one."""
    graph, split, model = key
    return graph, split, f"{model}, decoupled"


def rows() -> dict[Key, Row]:
    """Return the coupled and the decoupled row of every case."""
    found = {}
    for key, row in CASES.items():
        found[key] = row._replace(runs=5)
        found[apart(key)] = row._replace(options=row.options | DECOUPLED, runs=5)
    return found


def table(file: Path) -> str:
    """Return a Markdown table: mean and sample standard deviation of both, and their difference."""
    found = written(rows(), file)
    lines = ["| graph | model | coupled (%) | decoupled (%) | apart, in standard deviations |", "|---|---|---|---|---|"]
    for key in CASES:
        both = [percent(found.get(one, [])) for one in (key, apart(key))]
        if min(map(len, both)) > 1:
            told = " | ".join(f"{statistics.mean(test):.2f} ± {statistics.stdev(test):.2f}" for test in both)
            between = (statistics.mean(both[1]) - statistics.mean(both[0])) / statistics.stdev(both[0])
            lines.append(f"| {key[0]} | {key[2]} | {told} | {between:+.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(complete(rows(), OUT, __doc__)))
