"""Compare hetjax's attention with PyG's and DGL's own layers, with the same weights.

`python experiments/peers/peer_layers.py --pyg PYTHON --dgl PYTHON` runs `experiments/peers/layers.py` in each peer's environment
(one with torch and torch_geometric, one with torch and dgl), copies the weights over, and compares the outputs: PyG's
`GATConv` and `HGTConv`, DGL's `GATConv`. It writes `experiments/peers/results/peer_layers.csv` and exits with status 1 if a relative
error exceeds 1e-5.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np

from hetjax.graph.hetgraph import build
from hetjax.graph.schema import Relation, Schema
from hetjax.models.hgt import HGTLayer
from hetjax.models.rgat import RelationAttention
from hetjax.sampling.whole import whole_graph

HEADS, SIZE, LIMIT = 2, 4, 1e-5
NODES, WIDTHS = {"a": 12, "b": 15}, {"a": 8, "b": 5}  # the layers' output is 8 wide too, so type a has a gated skip
RELATIONS = {name: Relation(source, name, target) for source, name, target in ("axb", "bya", "bzb")}
RELATIONS["none"] = Relation("a", "none", "b")


def setting(seed: int):
    """Return random features and edges: parallel edges, self loops, nodes without neighbours, an empty relation."""
    rng = np.random.default_rng(seed)
    x = {name: rng.standard_normal((count, WIDTHS[name])).astype(np.float32) for name, count in NODES.items()}
    edges = {}
    for name, relation in RELATIONS.items():
        count = 0 if name == "none" else 40
        ends = [rng.integers(0, NODES[end] - 2, count) for end in (relation.source, relation.target)]
        edges[name] = np.array([np.concatenate([end, end[: count // 8]]) for end in ends])
    return x, edges


def outputs(folder: Path, peer: str, python: str) -> dict[str, np.ndarray]:
    """Return the outputs of a peer's environment."""
    script, out = Path(__file__).parent / "layers.py", folder / f"{peer}.npz"
    done = subprocess.run([python, script, peer, folder / "in.npz", out], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{peer}: {done.stderr}")
    with np.load(out, allow_pickle=False) as arrays:
        return dict(arrays)


def gat(x, block, found, names: dict[str, str]):
    """Return one relation's attention; `names` are those of the peer's weights, by ours."""
    weight = {ours: found[f"gat/weight/{theirs}"] for ours, theirs in names.items()}
    params = {name: weight[name].T.reshape(-1, HEADS, SIZE) for name in ("kernel_source", "kernel_target")}
    params |= {name: weight[name].reshape(HEADS, SIZE) for name in ("attention_source", "attention_target")}
    layer = RelationAttention(HEADS * SIZE, HEADS)
    return {"b": layer.apply({"params": params}, block.adjacency[RELATIONS["x"].key], x["a"], x["b"])}


PYG = dict(
    kernel_source="lin_src.weight",
    kernel_target="lin_dst.weight",
    attention_source="att_src",
    attention_target="att_dst",
)
DGL = dict(
    kernel_source="fc_src.weight", kernel_target="fc_dst.weight", attention_source="attn_l", attention_target="attn_r"
)


def hgt(x, block, found):
    weight = {name.removeprefix("hgt/weight/"): value for name, value in found.items() if name.startswith("hgt/weight")}
    params, features = {}, HEADS * SIZE
    for node_type in NODES:
        kernel, bias = (weight[f"kqv_lin.lins.{node_type}.{part}"] for part in ("weight", "bias"))
        for place, ours in enumerate(("key", "query", "value")):
            rows = slice(place * features, (place + 1) * features)
            params[f"{ours}_{node_type}"] = {
                "kernel": kernel[rows].T.reshape(-1, HEADS, SIZE),
                "bias": bias[rows].reshape(HEADS, SIZE),
            }
        out = {part: weight[f"out_lin.lins.{node_type}.{part}"] for part in ("weight", "bias")}
        params[f"output_{node_type}"] = {"kernel": out["weight"].T, "bias": out["bias"]}
        params[f"skip_{node_type}"] = weight[f"skip.{node_type}"].reshape(())
    for place, (name, relation) in enumerate(RELATIONS.items()):
        matrices = {ours: weight[f"{theirs}.weight"] for ours, theirs in (("attention", "k_rel"), ("message", "v_rel"))}
        params[f"attention_{relation.key}"] = {
            "prior": weight[f"p_rel.{relation.source}__{name}__{relation.target}"].reshape(HEADS)
        } | {ours: stack.reshape(HEADS, len(RELATIONS), SIZE, SIZE)[:, place] for ours, stack in matrices.items()}
    layer = HGTLayer(tuple(RELATIONS.values()), (), tuple(NODES), WIDTHS, features, heads=HEADS)
    return layer.apply({"params": params}, block, x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pyg", metavar="PYTHON", help="of an environment with torch_geometric")
    parser.add_argument("--dgl", metavar="PYTHON", help="of an environment with dgl")
    parser.add_argument("--seed", type=int, default=0, help="of features and edges")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "peer_layers.csv", help="the table to write"
    )
    options = parser.parse_args()
    x, edges = setting(options.seed)
    schema = Schema(NODES, tuple(RELATIONS.values()), "b", 2)
    graph = build(schema, {RELATIONS[name]: tuple(ends) for name, ends in edges.items()}, x, np.zeros(15, int), {})
    block, rows = whole_graph(graph, [graph.schema.target], 2)[0], []
    with tempfile.TemporaryDirectory() as folder, jax.default_matmul_precision("highest"):
        np.savez(
            Path(folder) / "in.npz",
            **{f"x_{t}": v for t, v in x.items()},
            **{f"edges_{n}": v for n, v in edges.items()},
        )
        for peer, python in (("pyg", options.pyg), ("dgl", options.dgl)):
            if not python:
                continue
            found = outputs(Path(folder), peer, python)
            ours = {"gat": gat(x, block, found, PYG if peer == "pyg" else DGL)}
            if peer == "pyg":
                ours["hgt"] = hgt(x, block, found)
            for layer, embeddings in ours.items():
                for node_type, h in embeddings.items():
                    theirs = found[f"{layer}/out_{node_type}"]
                    error = float(np.linalg.norm(h - theirs) / np.linalg.norm(theirs))
                    rows.append({"peer": peer, "layer": layer, "node_type": node_type, "relative_error": error})
                    print(f"{peer} {layer}, type {node_type}: relative error {error:.1e}")
    with open(options.out, "w", newline="") as stream:
        writer = csv.DictWriter(stream, ["peer", "layer", "node_type", "relative_error"])
        writer.writeheader()
        writer.writerows(rows)
    sys.exit(any(row["relative_error"] > LIMIT for row in rows))


if __name__ == "__main__":
    main()
