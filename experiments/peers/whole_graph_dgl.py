"""Time DGL's epoch on the whole graph: GCN and GAT of one relation, R-GCN, R-GAT and HGT of several; `single_device.py` calls it.

R-GCN's and R-GAT's layers are DGL's own (`HeteroGraphConv` of `GraphConv` and `GATConv`). HGT is by its message passing functions, with
a softmax per relation, as DGL's example has it: its `HGTConv` wants all types in one graph, of one width.
"""

import dgl
import dgl.function as fn
import torch
from dgl.nn.functional import edge_softmax
from dgl.nn.pytorch import GATConv, GraphConv, HeteroGraphConv
from torch import nn
from whole_graph import Graph, parser, read, report


class HGT(nn.Module):
    """One layer of some relations of a graph, or of a sampled block; like `HeteroGraphConv` it is given sources and targets."""

    def __init__(self, widths: dict, hidden: int, heads: int, relations: list):
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        targets = {target for _, _, target in relations}
        self.maps = nn.ModuleDict({f"{k}_{t}": nn.Linear(w, hidden) for t, w in widths.items() for k in "kqv"})
        self.output = nn.ModuleDict({t: nn.Linear(hidden, hidden) for t in targets})
        self.matrices = nn.ParameterDict(
            {
                f"{k}_{name}": torch.randn(heads, self.size, self.size) / self.size**0.5
                for _, name, _ in relations
                for k in "kv"
            }
        )

    def forward(self, graph: dgl.DGLGraph, ends: tuple[dict, dict]) -> dict:
        x, own = ends
        queries = {t: self._heads(f"q_{t}", rows) for t, rows in own.items()}
        keys, values = ({t: self._heads(f"{k}_{t}", rows) for t, rows in x.items()} for k in "kv")
        folds = {}
        with graph.local_scope():
            for source, name, target in graph.canonical_etypes:
                edges = graph[source, name, target]
                if target not in own or not edges.num_edges():
                    continue
                for kind, rows in (("k", keys), ("v", values)):
                    matrix = self.matrices[f"{kind}_{name}"]
                    edges.srcdata[f"{kind}_{name}"] = torch.einsum("nhi,hij->nhj", rows[source], matrix)
                edges.dstdata["q"] = queries[target]
                edges.apply_edges(fn.v_dot_u("q", f"k_{name}", "logit"))
                edges.edata["weight"] = edge_softmax(edges, edges.edata["logit"] / self.size**0.5)
                folds[source, name, target] = fn.u_mul_e(f"v_{name}", "weight", "m"), fn.sum("m", "h")
            graph.multi_update_all(folds, "sum")
            return {t: self.output[t](self._sums(graph, t)) for t in own}

    def _sums(self, graph: dgl.DGLGraph, node_type: str) -> torch.Tensor:
        found = graph.dstnodes[node_type].data
        nothing = torch.zeros(graph.num_dst_nodes(node_type), self.heads * self.size)
        return found["h"].flatten(1) if "h" in found else nothing

    def _heads(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return self.maps[name](x).view(len(x), self.heads, self.size)


def layer(model: str, widths: dict, hidden: int, heads: int, relations: list) -> nn.Module:
    if model == "hgt":
        return HGT(widths, hidden, heads, relations)
    if model == "rgat":
        made = {
            r: GATConv((widths[s], widths[t]), hidden // heads, heads, allow_zero_in_degree=True)
            for s, r, t in relations
        }
    else:
        made = {r: GraphConv(widths[s], hidden, norm="right", allow_zero_in_degree=True) for s, r, _ in relations}
    return HeteroGraphConv(made, "sum")


def of_types(graph: Graph, options) -> tuple:
    """Return the parameters and the logits of a graph of several relations."""
    whole = dgl.heterograph({r: tuple(ends) for r, ends in graph.edges.items()}, num_nodes_dict=graph.nodes)
    last, tables = whole.edge_type_subgraph(graph.into_target), graph.tables()
    first = layer(options.model, graph.widths, options.hidden, options.heads, whole.canonical_etypes)
    inner = dict.fromkeys(graph.nodes, options.hidden)
    model = nn.ModuleList([first, layer(options.model, inner, options.hidden, options.heads, graph.into_target)])
    model.append(nn.Linear(options.hidden, graph.classes))

    def logits() -> torch.Tensor:
        x = graph.features | dict(tables.items())
        x = {t: torch.relu(h.flatten(1)) for t, h in model[0](whole, (x, x)).items()}
        return model[2](torch.relu(model[1](last, (x, {graph.target: x[graph.target]}))[graph.target].flatten(1)))

    return [*model.parameters(), *tables.parameters()], logits


def of_nodes(graph: Graph, options) -> tuple:
    """Return the parameters and the logits of a graph of one type and relation, as in the papers: the last layer makes the logits."""
    ((ends,), width), heads = (graph.edges.values(), graph.widths[graph.target]), options.heads
    edges = dgl.add_self_loop(dgl.remove_self_loop(dgl.graph(tuple(ends), num_nodes=graph.nodes[graph.target])))
    if options.model == "gcn":
        model = nn.ModuleList([GraphConv(width, options.hidden), GraphConv(options.hidden, graph.classes)])
    else:
        model = nn.ModuleList(
            [GATConv(width, options.hidden // heads, heads), GATConv(options.hidden, graph.classes, 1)]
        )
    act = torch.relu if options.model == "gcn" else nn.functional.elu
    x = graph.features[graph.target]
    return list(model.parameters()), lambda: model[1](edges, act(model[0](edges, x).flatten(1))).flatten(1)


def main() -> None:
    options = parser(__doc__).parse_args()
    graph = read(options.graph)
    made = (of_nodes if options.model in ("gcn", "gat") else of_types)(graph, options)
    report(f"dgl {dgl.__version__}", graph, options.steps, *made)


if __name__ == "__main__":
    main()
