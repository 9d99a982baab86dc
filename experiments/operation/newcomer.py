"""Seconds from `pip install` to predictions by one's own ids, by part, as somebody sees it who never ran hetjax here.

`python experiments/operation/newcomer.py` writes tables of 20,000 customers, 2,000 products and 100,000 sales, ids being texts. Then, `--rounds` times:
a new environment and `pip install` of this checkout, `hetjax ingest`, `hetjax train` without any option but where things are, and
`hetjax predict`. Nothing that was compiled before is found (XDG_CACHE_HOME and NUMBA_CACHE_DIR are new folders); what pip downloaded is, but
in the first round, if pip's own cache is empty. `experiments/operation/results/newcomer.csv` gets a row a round; seconds of work are those of all cores.
`--prices` times nothing: it gives products a column of random numbers, trains in this environment without labels as inputs and as chosen, and prints both.
"""

import argparse
import csv
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from experiments.runs import ROOT, markdown, read_rows, replace_rows, train

OUT = Path(__file__).parent / "results" / "newcomer.csv"
CUSTOMERS, PRODUCTS, SALES = 20_000, 2_000, 100_000
KINDS = ("cook", "gardener", "reader")


def make_tables(folder: Path, prices: bool = False) -> None:
    """Write tables in which purchases reveal what customers like: four of five sales are of their own kind. A product's
    price reveals nothing."""
    random.seed(0)
    products = {f"p{n}": random.choice(KINDS) for n in range(PRODUCTS)}
    customers = {f"c{n}": random.choice(KINDS) for n in range(CUSTOMERS)}
    liked = {kind: [product for product, of in products.items() if of == kind] for kind in KINDS}
    buyers = random.choices(list(customers), k=SALES)
    sales = [
        (who, random.choice(liked[customers[who]] if random.random() < 0.8 else list(products)), random.randint(1, 500))
        for who in buyers
    ]
    write(folder, "customers", ("id", "age", "likes"), [(c, random.randint(18, 80), of) for c, of in customers.items()])
    priced = [(p, random.randint(1, 500)) if prices else (p,) for p in products]
    write(folder, "products", ("id", "price")[: 1 + prices], priced)
    write(folder, "sales", ("customer", "product", "paid"), sales)
    form = {"format": {"name": "csv"}}
    age = {"feature_col": "age", "transform": {"name": "standard"}}
    likes = {"label_col": "likes", "task_type": "classification", "split_pct": [0.5, 0.2, 0.3]}
    nodes = [
        {"node_type": "customer", "files": "customers.csv", "node_id_col": "id", "features": [age], "labels": [likes]},
        {"node_type": "product", "files": "products.csv", "node_id_col": "id"},
    ]
    if prices:
        nodes[1]["features"] = [{"feature_col": "price", "transform": {"name": "standard"}}]
    ends = {"source_id_col": "customer", "dest_id_col": "product"}
    edge = {"relation": ["customer", "bought", "product"], "files": "sales.csv"} | ends | form
    config = {"version": "gconstruct-v0.1", "nodes": [node | form for node in nodes], "edges": [edge]}
    (folder / "graph.json").write_text(json.dumps(config))


def write(folder: Path, name: str, head: tuple, rows: list) -> None:
    with open(folder / f"{name}.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([head, *rows])


def worked() -> float:
    """Return the seconds of work of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(command: list, given: dict[str, str]) -> float:
    started = time.perf_counter()
    done = subprocess.run([*map(str, command)], env=given, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    return round(time.perf_counter() - started, 1)


def one_round(tables: Path, folder: Path) -> dict:
    """Return a row of seconds; everything is written into `folder`."""
    caches = {"XDG_CACHE_HOME": str(folder / "caches"), "NUMBA_CACHE_DIR": str(folder / "kernels")}
    without = ("PYTHONPATH", "VIRTUAL_ENV", "JAX_COMPILATION_CACHE_DIR", "HETJAX_DATA", "PYTHONDONTWRITEBYTECODE")
    home = {name: value for name, value in os.environ.items() if name not in without}
    given, before = home | caches, worked()
    started = time.perf_counter()
    venv.create(folder / "venv", with_pip=True)
    row = {"venv": round(time.perf_counter() - started, 1)}
    tool = folder / "venv" / "bin" / "hetjax"
    row["install"] = timed([folder / "venv/bin/python", "-m", "pip", "install", "--quiet", ROOT], home)
    row["worked_install"] = round(worked() - before, 1)
    before, store, run = worked(), folder / "store", folder / "run"
    ingest = [tool, "ingest", "--config", tables / "graph.json", "--out", store, "--add_reverse_edges"]
    row["ingest"] = timed(ingest, given)
    row["train"] = timed([tool, "train", "--data.format", "store", "--data.path", store, "--workdir", run], given)
    row["predict"] = timed([tool, "predict", "--workdir", run, "--out", folder / "kinds.csv"], given)
    row["worked"] = round(worked() - before, 1)
    row["all"] = round(sum(row[part] for part in ("venv", "install", "ingest", "train", "predict")), 1)
    summary = json.loads((run / "summary.json").read_text())
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    epochs = [record["seconds"] for record in records if "seconds" in record]
    row |= {"first_epoch": round(epochs[0], 1) if epochs else "", "epochs": len(epochs)}
    with open(folder / "kinds.csv", newline="") as stream:
        said = {line["node"]: line["class"] for line in csv.DictReader(stream)}
    with open(tables / "customers.csv", newline="") as stream:
        truth = {line["id"]: line["likes"] for line in csv.DictReader(stream)}
    assert said.keys() == truth.keys()
    spread = summary["baselines"]["label propagation"]["accuracy"]
    return row | {"test": round(summary["test_accuracy"], 4), "label_propagation": round(spread, 4)}


def with_prices(folder: Path) -> list[dict]:
    """Return the results of training where a type has features without information, without and with the chosen options."""
    make_tables(folder, True)
    config, store = folder / "graph.json", folder / "store"
    ingest = [sys.executable, "-m", "hetjax.ingest", "--config", config, "--out", store, "--add_reverse_edges"]
    timed(ingest, dict(os.environ))
    rows, where = [], {"data.format": "store", "data.path": str(store)}
    for name, more in (("false", {"data.label_inputs": "false"}), ("as chosen", {})):
        summary = train(folder / name.replace(" ", "_"), "", where | more)
        rows.append({"label inputs": name, "test": round(summary["test_micro_f1"], 4)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, nargs="+", default=[0, 1, 2], help="their numbers; rows of others stay")
    parser.add_argument(
        "--prices", action="store_true", help="train on products with a price of no use, and nothing else"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if given.prices:
            print(markdown(with_prices(Path(name))))
            return
        make_tables(Path(name))
        for number in given.rounds:
            with tempfile.TemporaryDirectory() as folder:
                row = {"round": number} | one_round(Path(name), Path(folder))
            replace_rows(OUT, ("round",), [row])
    print(markdown(read_rows(OUT)))


if __name__ == "__main__":
    main()
