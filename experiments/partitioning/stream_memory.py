"""Memory and speed of partitioning a stream, and of METIS, which has the graph in memory: CATGNN's Figure 8.

`python experiments/partitioning/stream_memory.py` generates R-MAT graphs (`stream_graphs.generate`) of 10 edges a node, up to 100 million edges over
10 million nodes, in `.npy` files, and divides each in 16, every method in a process of its own, which compiles everything on a small
stream first. `experiments/partitioning/results/stream_memory.csv` gets, per graph and method,

- `peak_mib`: the most memory that the process held, Python and numba included (`start_mib`: before the stream was opened), edges
  written to disk;
- `million_edges_per_second`: edges by seconds of all passes, with what lies between, and `per_core`: by the seconds that its thread was
  at work, which is what a core of its own would take; other work ran on the two cores;
- `rf` and `balance_edges` of what was found.

METIS has its own process with the whole graph, by pymetis, as `python -m hetjax.partition --method metis` starts it; its peak is that
of the larger of both processes. It is not tried on more edges than `--metis_edges`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tqdm import tqdm

from experiments.partitioning.stream_graphs import generate
from experiments.runs import ROOT, markdown, replace_rows
from hetjax.partition.stream.registry import BUILT_IN

STREAM = """
import json, resource, sys, tempfile, time
from pathlib import Path
import numpy as np
from hetjax.partition.stream import Held, Options, open_stream, partition_stream
from hetjax.partition.stream.registry import find
from hetjax.partition.stream.state import sizes
from hetjax.system.runtime import peak_memory
file, nodes, method, parts = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
small = np.random.default_rng(0).integers(0, 3000, (20000, 2)).astype(np.int32)
sizes(partition_stream(Held(small, 3000), find(method), Options(parts)).method.replicas, parts)
start, began = peak_memory(), time.thread_time()
with tempfile.TemporaryDirectory(dir=Path(file).parent) as folder:
    made = partition_stream(open_stream(file), find(method), Options(parts), nodes, Path(folder, "parts.npy"))
worked, peak, loads = time.thread_time() - began, peak_memory(), made.method.loads
connected = int(made.method.replicas.any(axis=1).sum())
print(json.dumps({"start_mib": start >> 20, "peak_mib": peak >> 20, "passes": made.passes, "seconds": round(made.seconds, 1),
    "million_edges_per_second": round(made.edges / made.seconds / 1e6, 2), "per_core": round(made.edges / worked / 1e6, 2),
    "rf": round(int(sizes(made.method.replicas, parts).sum()) / connected, 3), "balance_edges": round(float(loads.max() / loads.mean()), 3)}))
"""
METIS = """
import json, resource, sys, time
import numpy as np
from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.partition import edge_cut
from hetjax.system.runtime import peak_memory
file, nodes, parts = sys.argv[1], int(sys.argv[2]), int(sys.argv[4])
start, pairs, edge = peak_memory(), np.load(file), Relation("node", "edge", "node")
graph = build(Schema({"node": nodes}, (edge,), "node", 2), {edge: (pairs[:, 0], pairs[:, 1])}, {}, np.zeros(nodes, np.int32), {})
count = len(pairs)
del pairs
began = time.perf_counter()
edge_cut(graph, parts, "metis")
seconds = time.perf_counter() - began
peak = max(peak_memory(), 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
print(json.dumps({"start_mib": start >> 20, "peak_mib": peak >> 20, "passes": "", "seconds": round(seconds, 1),
    "million_edges_per_second": round(count / seconds / 1e6, 2), "per_core": "", "rf": "", "balance_edges": ""}))
"""


def row(file: Path, nodes: int, edges: int, method: str, parts: int) -> dict:
    code = METIS if method == "metis" else STREAM
    command = [sys.executable, "-c", code, str(file), str(nodes), method, str(parts)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    head = {"graph": "rmat", "nodes": nodes, "edges": edges, "parts": parts, "method": method}
    if done.returncode:
        sys.exit(f"{method}: {done.stderr}")
    return head | json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000_000, 10_000_000], help="nodes of the graphs")
    parser.add_argument("--methods", nargs="+", default=[*BUILT_IN, "metis"], help="methods")
    parser.add_argument("--parts", type=int, default=16, help="partitions")
    parser.add_argument("--metis_edges", type=int, default=10_000_000, help="the most edges that METIS gets")
    parser.add_argument("--folder", type=Path, help="where the graphs are kept; unset: nowhere")
    out = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=out, help="where the table is written")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for nodes in options.nodes:
            edges, file = 10 * nodes, folder / f"rmat_{nodes}.npy"
            if not file.exists():
                generate("rmat", nodes, edges, file)
            methods = [method for method in options.methods if method != "metis" or edges <= options.metis_edges]
            for method in tqdm(methods, desc=f"{edges:,} edges"):
                rows.append(row(file, nodes, edges, method, options.parts))
                replace_rows(options.out / "stream_memory.csv", ("edges", "parts", "method"), rows[-1:])
    print(markdown(rows))


if __name__ == "__main__":
    main()
