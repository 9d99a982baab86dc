"""Time PyG's epoch on the whole graph: GCN and GAT of one relation, R-GCN, R-GAT and HGT of several; `single_device.py` calls it.

The layers are PyG's own. GCN and R-GCN take torch's sparse matrices, which is PyG's fast way; attention takes lists of edges, for
which PyG has no other.
"""

import torch
import torch_geometric
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, HeteroConv, HGTConv, SAGEConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_remaining_self_loops, to_torch_csr_tensor
from whole_graph import DEVICE, Graph, parser, read, report


def layer(model: str, widths: dict, hidden: int, heads: int, relations: list) -> nn.Module:
    if model == "hgt":
        return HGTConv(widths, hidden, (list(widths), relations), heads)
    if model == "rgat":
        made = {
            (s, r, t): GATConv((widths[s], widths[t]), hidden // heads, heads, add_self_loops=False)
            for s, r, t in relations
        }
    else:
        made = {
            (s, r, t): SAGEConv((widths[s], widths[t]), hidden, root_weight=False, bias=False) for s, r, t in relations
        }
    return HeteroConv(made, "sum")


def matrices(graph: Graph, model: str) -> dict:
    """Return the edges of every relation, as its layer takes them."""
    if model != "rgcn":
        return graph.edges
    size = {r: (graph.nodes[r[2]], graph.nodes[r[0]]) for r in graph.edges}
    return {r: to_torch_csr_tensor(ends.flip(0), size=size[r]) for r, ends in graph.edges.items()}


def of_types(graph: Graph, options) -> tuple:
    """Return the parameters and the logits of a graph of several relations."""
    edges, tables = matrices(graph, options.model), graph.tables()
    last = {r: edges[r] for r in graph.into_target}
    inner = dict.fromkeys(graph.nodes, options.hidden)
    model = nn.ModuleList([layer(options.model, graph.widths, options.hidden, options.heads, list(edges))])
    model.append(layer(options.model, inner, options.hidden, options.heads, graph.into_target))
    model.append(nn.Linear(options.hidden, graph.classes))
    model.to(DEVICE)

    def logits() -> torch.Tensor:
        x = {t: torch.relu(h) for t, h in model[0](graph.features | dict(tables.items()), edges).items()}
        return model[2](torch.relu(model[1](x, last)[graph.target]))

    return [*model.parameters(), *tables.parameters()], logits


def of_nodes(graph: Graph, options) -> tuple:
    """Return the parameters and the logits of a graph of one type and relation, as in the papers: the last layer makes the logits."""
    ((ends,), width), heads = (graph.edges.values(), graph.widths[graph.target]), options.heads
    nodes, x = graph.nodes[graph.target], graph.features[graph.target]
    if options.model == "gcn":
        ends, weights = gcn_norm(ends, None, nodes, add_self_loops=True)
        edges = to_torch_csr_tensor(ends.flip(0), weights, size=(nodes, nodes))
        model = nn.ModuleList([GCNConv(width, options.hidden, normalize=False)])
        model.append(GCNConv(options.hidden, graph.classes, normalize=False))
    else:
        edges = add_remaining_self_loops(ends, num_nodes=nodes)[0]
        model = nn.ModuleList([GATConv(width, options.hidden // heads, heads, add_self_loops=False)])
        model.append(GATConv(options.hidden, graph.classes, 1, add_self_loops=False))
    model.to(DEVICE)
    act = torch.relu if options.model == "gcn" else nn.functional.elu
    return list(model.parameters()), lambda: model[1](act(model[0](x, edges)), edges)


def main() -> None:
    options = parser(__doc__).parse_args()
    graph = read(options.graph)
    made = (of_nodes if options.model in ("gcn", "gat") else of_types)(graph, options)
    report(f"pyg {torch_geometric.__version__}", graph, options.steps, *made)


if __name__ == "__main__":
    main()
