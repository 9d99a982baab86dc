"""The outputs and weights of a peer's attention layers: `python layers.py pyg|dgl IN.npz OUT.npz`, in the peer's environment.

The input holds `x_a`, `x_b` (features of two node types) and, per relation of `hetjax`'s script beside this folder, `edges_NAME`
`[2, edges]`. The output holds, per layer, `LAYER/out_TYPE` and every weight by the peer's own name, `LAYER/weight/NAME`.
"""

import sys

import numpy as np
import torch

HEADS, SIZE = 2, 4
RELATIONS = {"x": ("a", "b"), "y": ("b", "a"), "z": ("b", "b"), "none": ("a", "b")}


def pyg(x, edges) -> dict[str, torch.nn.Module]:
    from torch_geometric.nn import GATConv, HGTConv

    widths = {name: rows.shape[1] for name, rows in x.items()}
    relations = [(source, name, target) for name, (source, target) in RELATIONS.items()]
    gat = GATConv((widths["a"], widths["b"]), SIZE, HEADS, add_self_loops=False, bias=False)
    hgt = HGTConv(widths, HEADS * SIZE, (list(widths), relations), HEADS)
    for parameter in hgt.parameters():
        torch.nn.init.normal_(parameter)  # the priors and skips start as ones, which would hide their order
    with torch.no_grad():
        outputs = {"gat": {"b": gat((x["a"], x["b"]), edges["x"])}}
        outputs["hgt"] = hgt(x, {relation: edges[relation[1]] for relation in relations})
    return {"gat": (gat, outputs["gat"]), "hgt": (hgt, outputs["hgt"])}


def dgl(x, edges) -> dict[str, torch.nn.Module]:
    import dgl as library

    graph = library.heterograph({("a", "x", "b"): tuple(edges["x"])}, {name: len(rows) for name, rows in x.items()})
    widths = (x["a"].shape[1], x["b"].shape[1])
    gat = library.nn.GATConv(widths, SIZE, HEADS, bias=False, allow_zero_in_degree=True)
    with torch.no_grad():
        return {"gat": (gat, {"b": gat(graph, (x["a"], x["b"])).flatten(1)})}


def main() -> None:
    which, given, out = sys.argv[1:]
    torch.manual_seed(0)
    with np.load(given, allow_pickle=False) as arrays:
        x = {name: torch.from_numpy(arrays[f"x_{name}"]) for name in ("a", "b")}
        edges = {name: torch.from_numpy(arrays[f"edges_{name}"]) for name in RELATIONS}
    saved = {}
    for layer, (module, outputs) in {"pyg": pyg, "dgl": dgl}[which](x, edges).items():
        saved |= {f"{layer}/out_{name}": value.numpy() for name, value in outputs.items() if value is not None}
        saved |= {f"{layer}/weight/{name}": value.detach().numpy() for name, value in module.named_parameters()}
    np.savez(out, **saved)


if __name__ == "__main__":
    main()
