"""The memory that processes hold, and the nodes of others that partitions keep, under `dependency.memory`.

`python experiments/dependency/dependency_memory.py` trains GCN on a graph, on the whole of it, in `--count` processes of one device: communicate, cache, and
hybrid with everything computed that fits (`dependency.cached 1`), and as costs say, at several limits, shares of what cache keeps. Of every way it prints what
the fullest partition keeps of others' nodes, counted (features, embeddings with gradients, edges), and the most memory that any of the
processes held; and what cache says where its limit is too low. Ends with status 1 if a limit is exceeded, or cache does not refuse one. Writes
`experiments/dependency/results/dependency_memory.csv`.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tqdm import tqdm

from experiments.dependency.dependency_counts import config_of, counted, setup_of
from experiments.dependency.dependency_runs import CACHE, COMMUNICATE, HYBRID, MODELS, parser_of, setting, stored
from experiments.raf.one_machine import port
from experiments.runs import ROOT, markdown, replace_rows
from hetjax.partition import edge_cut
from hetjax.sharding.dependency.declared import Options
from hetjax.sharding.dependency.prices import kept_bytes, priced

SHARES = (0.75, 0.5, 0.25, 0.1)  # of what cache keeps
REFUSED = "cache, 50% of cache's"
KEYS = ("graph", "model", "hidden", "processes", "way", "limit_bytes")


def trained(options: list[str], count: int, folder: Path) -> dict:
    """Return the largest peak of the processes of a run, or the line with which it was refused."""
    made = []
    with tempfile.TemporaryDirectory(dir=folder) as workdir:
        meeting = [f"--coordinator=localhost:{port()}", f"--num_processes={count}", f"--workdir={workdir}/run"]
        command = [sys.executable, "-m", "hetjax.train", *options, *meeting, "--train.epochs=3"]
        for number in range(count):
            peak = Path(workdir, f"peak_{number}")
            made.append((_started([*command, f"--process_id={number}"], peak), peak))
        ended = [(process.communicate()[1], process.returncode) for process, _ in made]
        if any(status == 2 for _, status in ended):
            return {"refused": next(errors for errors, status in ended if status == 2).strip().splitlines()[-1]}
        if any(status for _, status in ended):
            sys.exit(f"{' '.join(command)}\n{ended[0][0][-3000:]}")
        details = json.loads(Path(workdir, "run", "summary.json").read_text())["details"]
        kept = {"kept_bytes": details["kept_bytes"]} if "kept_bytes" in details else {}
        return {"peak_mib": max(int(peak.read_text()) for _, peak in made)} | kept


def _started(command: list[str], peak: Path) -> subprocess.Popen:
    """Return a process whose parent writes the most memory that it held."""
    watch = "import resource, subprocess, sys; code = subprocess.call(sys.argv[2:]); open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)); sys.exit(code)"
    return subprocess.Popen(
        [sys.executable, "-c", watch, str(peak), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"GLIBC_TUNABLES": ""},  # where memory is counted, no buffer is kept
    )


def main() -> None:
    options = parser_of(__doc__, ("web",)).parse_args()
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as made_here:
        folder = options.folder or Path(made_here)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.graphs:
            model = options.model or MODELS[name]
            common = setting(stored(name, folder), model, options.hidden)
            given = setup_of(config_of(common))
            cut, prices = edge_cut(given.graph, options.count, "contiguous"), priced(given, None)

            def kept(how: Options) -> int:
                done = counted(given, cut, dataclasses.replace(how, partitioning="contiguous")).done
                return int(kept_bytes(done, prices, list(given.graph.schema.nodes)).max())

            everything = kept(Options(mode="cache"))
            ways = [
                ("communicate", [COMMUNICATE], Options(mode="communicate")),
                ("cache", [CACHE], Options(mode="cache")),
            ]
            for share in SHARES:
                limit = int(share * everything)
                bound = f"--dependency.memory={limit}"
                fits = [HYBRID, "--dependency.cached=1", bound]
                ways.append((f"hybrid, {share:.0%} of cache's", fits, Options("hybrid", memory=limit, cached=1.0)))
                ways.append((f"hybrid as costs say, {share:.0%} of cache's", [HYBRID, bound], None))
            ways.append((REFUSED, [CACHE, f"--dependency.memory={everything // 2}"], None))
            for way, how, counts in tqdm(ways, desc=name, unit="run"):
                found = trained([*common, f"--mesh.data={options.count}", *how], options.count, folder)
                about = {
                    "graph": name,
                    "model": model,
                    "hidden": options.hidden,
                    "processes": options.count,
                    "way": way,
                }
                limit = next((int(word.rpartition("=")[2]) for word in how if "memory" in word), "")
                about |= {"limit_bytes": limit, "kept_bytes": kept(counts) if counts else ""}
                rows.append(about | {"peak_mib": "", "refused": ""} | found)
                replace_rows(options.out / "dependency_memory.csv", KEYS, rows[-1:])
    print(markdown(rows))
    over = [row for row in rows if row["limit_bytes"] and row["kept_bytes"] and row["kept_bytes"] > row["limit_bytes"]]
    refused = [row["way"] for row in rows if row["refused"]]
    if over or set(refused) != {REFUSED}:
        sys.exit(f"over their limits: {json.dumps(over)}; refused, where {REFUSED!r} should be: {refused}")


if __name__ == "__main__":
    main()
