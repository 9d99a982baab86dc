"""The operations on a batch's edges beside the bandwidth of the memory, on whichever platform jax finds.

`python benchmarks/segments.py` measures in one process, with random numbers from a fixed seed:

1. The memory's bandwidth: a copy, and a triad a = b + s c, of `--numbers` float32 each. Bytes are those of what is read
   and what is written.
2. Operations on `--edges` edges into `--targets` targets, no target having more than `--fanout`, of an ogbn-mag batch's
   size. "In place" they point anywhere in a feature matrix of `--sources` rows, `--width` wide, which gets no gradient;
   attention's queries and offsets do. "Reached" they point at `--reached` rows, `--hidden` wide, numbered as they are
   first met, and a gradient flows to these.
   - Sums over neighbours: the product's `neighbour_sum`; a sparse matrix (BCSR) times the rows, on a GPU by cuSPARSE;
     segment sums of sorted edges; of edges in random order; and the sum of `[targets, fanout]` rows, padded. Back, the
     first three sum over the edges grouped by source, the fourth over those in random order, the last scatters.
   - Attention as R-GAT has it, `--heads` heads: in place one key for all heads, reached one for each. By the product's
     way, and by operations of XLA alone; these are one program on all platforms but a CPU, as are the next.
   - Rows of the matrix of `--sources` rows read and, the matrix donated, written: `--reached` of them, distinct, in
     random order.
3. `x.at[ids].add(rows)`, `--edges` rows into `--targets`, of float32 beside int32, with ids all equal, few and random; and of
   float32 with the same ids sorted, which XLA is not told, and is told.
   From jaxlib 0.10.2 to 0.11.0 GPUs add float32 by a loop that compares and swaps, and takes 450 to 2000 times as long
   as before where many ids are equal (openxla/xla issue 46225).

An operation's bytes are the same whichever way it is done, the least that have to move: 4 for every element of a row
that is read for an edge, once per edge; of every index, once; and of every result. With E edges, T targets, S sources,
W their width, H heads, and V the elements of all heads' sums of one target (H W in place, W reached), as many as queries
have:
{formulas}
Values that a way reads twice, keeps for the backward pass or pads are not counted; a row that many edges read is, though a cache may
have it: so a share can exceed 1.

Ways of one operation first have to agree, to 1e-4 of the largest number; if two do not, the command says which and
ends. Then they take turns, `--repeats` times. Before every call a program goes over `--numbers` numbers, so that no way
finds in a cache what the one before it read. On a CPU it is waited for, and then the call is timed. Elsewhere many such
pairs follow each other, so that starting programs takes no time of its own, and what is left without as many of that
program alone is the calls' time.

Prints tables: of every way the median milliseconds, GB/s, and the share of the best copy's bandwidth. Writes them to
`benchmarks/results/segments.md`, bars of GB/s to `segments.png`, and all to `segments.json`; names end in `_gpu` on a
GPU, say.
"""

import argparse
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

import jax
import jax.numpy as jnp
import jaxlib
import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot
from tqdm import tqdm

from hetjax.kernels import tables
from hetjax.kernels.attention import Attended, attend
from hetjax.kernels.native import platforms
from hetjax.kernels.segment import _sum_by_rows, _sum_by_segments, by_source, by_target, neighbour_sum
from hetjax.models.rgat import SLOPE
from hetjax.sampling.blocks import NO_NODE, Adjacency
from hetjax.sampling.sampler import group

SIZES = {
    "numbers": (2**26, "float32 of an array that is copied; several times a cache"),
    "targets": (18_000, "of the edges"),
    "edges": (150_000, "of the one relation"),
    "fanout": (25, "the most edges of a target"),
    "sources": (736_000, "rows that are read in place"),
    "width": (128, "of these"),
    "reached": (147_000, "rows that a gradient comes back to; also rows read and written"),
    "hidden": (64, "width of the rows that a gradient comes back to"),
    "heads": (4, "of attention"),
}
FORMULAS = {
    "sums, forward": "E W + E + T + 1 + T W",
    "sums, and back": "the same, and E W + E + S + 1 + S W",
    "attention, forward": "E W + E + T + 1, of queries and offsets V + T H, of results 3 T H + T V",
    "attention, and back": "the same, and E W + E + T + 1, of gradients 2 T H + T V and V + T H;"
    " reached E V + 2 E + S + 1 + S W too",
    "rows read, rows written": "2 n W + n, of n rows",
}
LINES = "\n".join(f"- {name}: {formula}" for name, formula in FORMULAS.items())
APART, FEW, ENOUGH = 1e-4, 8, 0.02  # of two ways; distinct ids; seconds of calls that are waited for together


class Operation(NamedTuple):
    """One operation that several ways compute, each by a call; at least `bytes` have to move."""

    name: str
    bytes: int
    ways: dict[str, Callable]


class Edges(NamedTuple):
    """A relation's edges, as every way takes them.

    Attributes:
      adjacency: grouped by target, and by source where a gradient flows to the sources.
      shuffled: targets and sources `[2, edges]`, in random order.
      padded: the sources of every target `[targets, fanout]`.
    """

    adjacency: Adjacency
    shuffled: np.ndarray
    padded: np.ndarray


def make_edges(rng: np.random.Generator, sizes: argparse.Namespace, sources: int, read_by_id: bool) -> Edges:
    slots = np.sort(rng.choice(sizes.targets * sizes.fanout, sizes.edges, replace=False))
    target = (slots // sizes.fanout).astype(np.int32)
    indptr = np.searchsorted(target, np.arange(sizes.targets + 1)).astype(np.int32)
    ids = rng.integers(0, sources, sizes.edges, dtype=np.int32)
    if not read_by_id:  # numbered as the sampler does
        _, first, position = np.unique(ids, return_index=True, return_inverse=True)
        ids = np.argsort(np.argsort(first))[position].astype(np.int32)
    padded = np.full((sizes.targets, sizes.fanout), NO_NODE, np.int32)
    padded[target, np.arange(sizes.edges) - indptr[target]] = ids
    shuffled = np.stack([target, ids])[:, rng.permutation(sizes.edges)]
    return jax.device_put(Edges(group(indptr, ids, None if read_by_id else sources), shuffled, padded))


def program(function: Callable, *given, plainly: bool = False, donate: tuple[int, ...] = ()) -> Callable:
    """Return a compiled program; `plainly` without kernels of our own."""
    jax.clear_caches()
    with patch.object(platforms, "ffi_version", return_value=None) if plainly else nullcontext():
        compiled = jax.jit(function, donate_argnums=donate).lower(*given).compile()
    jax.clear_caches()
    return compiled if donate else functools.partial(compiled, *given)


def normal(rng: np.random.Generator, *shape: int) -> jax.Array:
    return jax.device_put(rng.standard_normal(shape, np.float32))


def copies(rng: np.random.Generator, sizes: argparse.Namespace) -> Iterator[Operation]:
    b, c, size = normal(rng, sizes.numbers), normal(rng, sizes.numbers), 4 * sizes.numbers
    yield Operation("copy", 2 * size, {"": program(jnp.copy, b)})
    yield Operation("triad", 3 * size, {"": program(lambda b, c, s: b + s * c, b, c, jnp.float32(3))})


def sums_product(edges, x):
    return neighbour_sum(edges.adjacency, x)


def sums_bcsr(edges, x):
    return _sum_by_rows(by_target(edges.adjacency), None, x)


def sums_sorted(edges, x):
    return _sum_by_segments(by_target(edges.adjacency), None, x)


def sums_shuffled(edges, x):
    target, source = edges.shuffled
    return jax.ops.segment_sum(tables.read(x, source), target, len(edges.padded))


def sums_padded(edges, x):
    return jnp.sum(tables.read(x, edges.padded), axis=1)


def back_product(edges, like, gradient):
    return jax.vjp(functools.partial(sums_product, edges), like)[1](gradient)[0]


def back_bcsr(edges, like, gradient):
    return _sum_by_rows(by_source(edges.adjacency, len(like))[0], None, gradient)


def back_sorted(edges, like, gradient):
    return _sum_by_segments(by_source(edges.adjacency, len(like))[0], None, gradient)


def back_shuffled(edges, like, gradient):
    target, source = edges.shuffled
    return jax.ops.segment_sum(tables.read(gradient, target), source, len(like))


def back_padded(edges, like, gradient):
    rows = jnp.broadcast_to(gradient[:, None], (*edges.padded.shape, gradient.shape[1]))
    return jnp.zeros_like(like).at[edges.padded].add(rows, mode="drop")


SUMS = {
    "product": (sums_product, back_product),
    "BCSR": (sums_bcsr, back_bcsr),
    "sorted segments": (sums_sorted, back_sorted),
    "unsorted segments": (sums_shuffled, back_shuffled),
    "padded fanout": (sums_padded, back_padded),
}


def sums(rng, sizes, place: str, edges: Edges, x: jax.Array) -> Iterator[Operation]:
    (sources, width), count, targets = x.shape, sizes.edges, sizes.targets
    forward = 4 * (count * width + count + targets + 1 + targets * width)
    ways = {name: program(there, edges, x) for name, (there, _) in SUMS.items()}
    yield Operation(f"sums, {place}", forward, ways)
    if edges.adjacency.reverse_indptr is not None:
        gradient = normal(rng, targets, width)
        ways = {
            name: program(lambda edges, x, gradient: (there(edges, x), back(edges, x, gradient)), edges, x, gradient)
            for name, (there, back) in SUMS.items()
        }
        backward = 4 * (count * width + count + sources + 1 + sources * width)
        yield Operation(f"sums, {place}, and back", forward + backward, ways)


def attention(rng, sizes, place: str, edges: Edges, x: jax.Array) -> Iterator[Operation]:
    (sources, width), count, targets, heads = x.shape, sizes.edges, sizes.targets, sizes.heads
    to_sources = edges.adjacency.reverse_indptr is not None
    keys = x.reshape(sources, heads, -1) if to_sources else x[:, None]
    size, width_of_sums = keys.shape[2], heads * keys.shape[2]
    queries, offsets = normal(rng, 1, heads, size) / size**0.5, normal(rng, targets, heads)
    gradient = Attended(*(normal(rng, targets, heads) for _ in range(3)), normal(rng, targets, heads, size))

    def there(adjacency, queries, offsets, keys):
        return attend(adjacency, queries, offsets, keys, slope=SLOPE)

    def both(adjacency, queries, offsets, keys, gradient):
        given = (queries, offsets, keys) if to_sources else (queries, offsets)
        out, back = jax.vjp(lambda *some: there(adjacency, *some, *(queries, offsets, keys)[len(some) :]), *given)
        return out, back(gradient)

    ways = {"product": False, "XLA alone": True}
    given, parameters = (edges.adjacency, queries, offsets, keys), queries.size + offsets.size
    rows, results = count * width + count + targets + 1, targets * (3 * heads + width_of_sums)
    forward = 4 * (rows + parameters + results)
    backward = 4 * (rows + targets * (2 * heads + width_of_sums) + parameters)
    if to_sources:
        backward += 4 * (count * width_of_sums + 2 * count + sources + 1 + sources * width)
    calls = {name: program(there, *given, plainly=plainly) for name, plainly in ways.items()}
    yield Operation(f"attention, {place}", forward, calls)
    calls = {name: program(both, *given, gradient, plainly=plainly) for name, plainly in ways.items()}
    yield Operation(f"attention, {place}, and back", forward + backward, calls)


def rows_moved(rng, sizes, matrix: jax.Array) -> Iterator[Operation]:
    count, width = sizes.reached, matrix.shape[1]
    ids = jax.device_put(rng.permutation(len(matrix))[:count].astype(np.int32))
    rows, least = normal(rng, count, width), 4 * (2 * count * width + count)

    def writer(plainly: bool) -> Callable:
        compiled = program(tables.write, matrix, ids, rows, plainly=plainly, donate=(0,))
        held = [jnp.copy(matrix)]

        def write():
            held[0] = compiled(held[0], ids, rows)
            return held[0]

        return write

    ways = {"product": False, "XLA alone": True}
    calls = {name: program(tables.rows_at, matrix, ids, plainly=plainly) for name, plainly in ways.items()}
    yield Operation("rows read", least, calls)
    yield Operation("rows written", least, {name: writer(plainly) for name, plainly in ways.items()})


def scatters(rng, sizes) -> Iterator[Operation]:
    """Yield scatters of whole numbers, whose sums are the same in float32 as in int32."""
    rows = rng.integers(-8, 9, (sizes.edges, sizes.hidden), dtype=np.int32)
    for name, distinct in (("all equal", 1), (f"{FEW} distinct", FEW), ("random", sizes.targets)):
        ids = rng.integers(0, min(distinct, sizes.targets), sizes.edges, dtype=np.int32)
        order = np.argsort(ids, kind="stable")
        x, floats = jnp.zeros((sizes.targets, sizes.hidden)), rows.astype(np.float32)
        given = {
            "float32": (x, ids, floats, False),
            "int32": (x.astype(jnp.int32), ids, rows, False),
            "sorted": (x, ids[order], floats[order], False),
            "told": (x, ids[order], floats[order], True),
        }
        ways = {way: added(*jax.device_put(arrays), told) for way, (*arrays, told) in given.items()}
        yield Operation(f"ids {name}", 4 * (2 * rows.size + len(rows) + x.size), ways)


def added(x, ids, rows, told: bool) -> Callable:
    return program(lambda x, ids, rows: x.at[ids].add(rows, indices_are_sorted=told), x, ids, rows)


@jax.jit
def distance(found, expected) -> jax.Array:
    """Return the distance of two results, relative to the largest value of the second; NaN if one of them is NaN."""

    def one(a, b):
        largest = jnp.max(jnp.where(jnp.isfinite(b), jnp.abs(b), 0), initial=0)
        return jnp.max(jnp.where(a == b, 0, jnp.abs(a - b)), initial=0) / jnp.maximum(largest, 1e-30)

    return jnp.max(jnp.stack(jax.tree.leaves(jax.tree.map(one, found, expected))))


def check(operation: Operation) -> None:
    """End the command if two ways differ; every way is called once."""
    (first, call), *others = operation.ways.items()
    expected = call()
    for name, other in others:
        if not (apart := float(distance(other(), expected))) <= APART:
            sys.exit(f"{operation.name}: {name!r} and {first!r} differ by {apart:.2g} of the largest number")


def seconds(calls: list[Callable], times: int = 1) -> float:
    """Return the seconds of calls in turn, `times` over; results are released, so that their memory can be taken."""
    start = time.perf_counter()
    for _ in range(times):
        for call in calls:
            made = None
            made = call()
    jax.block_until_ready(made)
    return time.perf_counter() - start


def measure(operations: list[Operation], sweep: Callable, repeats: int, bar: tqdm) -> list[dict]:
    """Return the measurements of all ways of some operations, in turns."""
    for operation in operations:
        check(operation)
    ways = [(operation, name, call) for operation in operations for name, call in operation.ways.items()]
    counts = [min(1000, max(1, int(ENOUGH / seconds([sweep, call])))) for *_, call in ways]
    times = [[] for _ in ways]
    for _ in range(repeats):
        for (*_, call), count, found in zip(ways, counts, times):
            if jax.default_backend() == "cpu":
                seconds([sweep])
                found.append(seconds([call]))
            else:
                alone = seconds([sweep], count)
                found.append(max(1e-9, (seconds([sweep, call], count) - alone) / count))
        bar.update()
    return [
        {
            "operation": operation.name,
            "way": name,
            "ms": 1000 * statistics.median(found),
            "ms_best": 1000 * min(found),
            "bytes": operation.bytes,
            "gb_per_s": operation.bytes / statistics.median(found) / 1e9,
            "gb_per_s_best": operation.bytes / min(found) / 1e9,
        }
        for (operation, name, _), found in zip(ways, times)
    ]


def shown(rows: list[dict]) -> list[dict]:
    """Return the rows with floats rounded to four figures."""
    return [{key: float(f"{x:.4g}") if isinstance(x, float) else x for key, x in row.items()} for row in rows]


def scatters_of(rows: list[dict]) -> dict[str, dict[str, float]]:
    """Return the milliseconds of every way, by operation."""
    made: dict[str, dict[str, float]] = {}
    for row in rows:
        made.setdefault(row["operation"], {})[row["way"]] = row["ms"]
    return made


def words(made: dict) -> str:
    about = made["about"]
    sizes = ", ".join(f"{name} {value:,}" for name, value in made["sizes"].items())
    lines = [
        f"jax {about['jax']}, jaxlib {about['jaxlib']}, {about['platform']}: {about['device']}. {sizes}.",
        "",
        "| program | median ms | median GB/s | best GB/s |",
        "|---|---|---|---|",
        *(
            f"| {row['operation']} | {row['ms']:.4g} | {row['gb_per_s']:.4g} | {row['gb_per_s_best']:.4g} |"
            for row in made["bandwidth"]
        ),
        "",
        "| operation | way | median ms | MB at least | GB/s | of the best copy's |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['operation']} | {row['way']} | {row['ms']:.4g} | {row['bytes'] / 1e6:.4g} | {row['gb_per_s']:.4g} "
            f"| {row['share']:.1%} |"
            for row in made["operations"]
        ),
        "",
        "| scatter-add, median ms | float32 | int32 | times int32's | float32, sorted ids | of which XLA is told |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['operation']} | {row['float32_ms']:.4g} | {row['int32_ms']:.4g} | {row['ratio']:.4g} "
            f"| {row['sorted_ms']:.4g} | {row['told_ms']:.4g} |"
            for row in made["scatter"]
        ),
    ]
    return "\n".join(lines)


def draw(made: dict, file: Path) -> None:
    """Draw the GB/s of every way of every operation, and the bandwidth."""
    rows = made["operations"]
    names = list(dict.fromkeys(row["operation"] for row in rows))
    ways = list(dict.fromkeys(row["way"] for row in rows))
    places = [number + names.index(row["operation"]) for number, row in enumerate(rows)]
    figure, axis = pyplot.subplots(figsize=(8, 1.2 + 0.22 * (len(rows) + len(names))), layout="constrained")
    bars = axis.barh(
        places, [row["gb_per_s"] for row in rows], 0.85, color=[f"C{ways.index(row['way'])}" for row in rows]
    )
    axis.bar_label(bars, [f"{row['way']}: {row['gb_per_s']:.3g}" for row in rows], fontsize=7, padding=3)
    copy = made["bandwidth"][0]["gb_per_s_best"]
    axis.axvline(copy, color="black", linestyle=":", label=f"best copy: {copy:.4g}")
    found = [[place for place, row in zip(places, rows) if row["operation"] == name] for name in names]
    axis.set_yticks([statistics.mean(some) for some in found], names)
    axis.invert_yaxis()
    axis.set(xlabel=f"GB/s, {made['about']['platform']} ({made['about']['device']})")
    axis.margins(x=0.2)
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def groups(sizes: argparse.Namespace) -> dict[str, Callable[[], Iterator[Operation]]]:
    """Return functions that yield the operations that take turns together, by their names."""
    rng = np.random.default_rng(0)

    @functools.cache
    def matrix() -> jax.Array:
        return normal(rng, sizes.sources, sizes.width)

    @functools.cache
    def read_by_id() -> tuple:
        return "in place", make_edges(rng, sizes, sizes.sources, read_by_id=True), matrix()

    @functools.cache
    def reached() -> tuple:
        return (
            "reached",
            make_edges(rng, sizes, sizes.reached, read_by_id=False),
            normal(rng, sizes.reached, sizes.hidden),
        )

    return {
        "bandwidth": lambda: copies(rng, sizes),
        "sums in place": lambda: sums(rng, sizes, *read_by_id()),
        "sums reached": lambda: sums(rng, sizes, *reached()),
        "attention in place": lambda: attention(rng, sizes, *read_by_id()),
        "attention reached": lambda: attention(rng, sizes, *reached()),
        "rows": lambda: rows_moved(rng, sizes, matrix()),
        "scatter": lambda: scatters(rng, sizes),
    }


def parse() -> argparse.Namespace:
    description = __doc__.format(formulas=LINES)
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, (size, about) in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size, help=f"{about} (default: {size:,})")
    parser.add_argument("--repeats", type=int, default=20, help="rounds that are timed (default: 20)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).parent / "results" / "segments",
        help="without its suffix; the platform is appended, unless it is cpu",
    )
    options = parser.parse_args()
    if min(*(getattr(options, name) for name in SIZES), options.repeats) < 1:
        parser.error("sizes and repeats are at least 1")
    if options.edges > options.targets * options.fanout:
        parser.error("there are more --edges than --targets times --fanout")
    if options.hidden % options.heads:
        parser.error("--hidden does not split into --heads")
    if options.reached > options.sources:
        parser.error("--reached rows are among --sources")
    return options


def main() -> None:
    options = parse()
    sizes = {name: getattr(options, name) for name in SIZES}
    jax.config.update("jax_bcoo_cusparse_lowering", True)
    every, rows = groups(options), {}
    sweep = program(jnp.negative, jnp.zeros(options.numbers))
    with tqdm(total=len(every) * options.repeats, unit="round") as bar:
        for name, build in every.items():
            bar.set_postfix_str(name)
            rows[name] = measure(list(build()), sweep, options.repeats, bar)
    bandwidth, scatter = rows.pop("bandwidth"), rows.pop("scatter")
    copy = bandwidth[0]["gb_per_s_best"]
    made = {
        "about": {
            "jax": jax.__version__,
            "jaxlib": jaxlib.__version__,
            "platform": jax.default_backend(),
            "device": jax.devices()[0].device_kind,
            "kernels_of_our_own": platforms.taken(),
            "repeats": options.repeats,
        },
        "sizes": sizes,
        "bandwidth": shown([{key: x for key, x in row.items() if key != "way"} for row in bandwidth]),
        "operations": shown([row | {"share": row["gb_per_s"] / copy} for some in rows.values() for row in some]),
        "scatter": shown(
            [
                {"operation": name, "ratio": ways["float32"] / ways["int32"]}
                | {f"{way}_ms": ms for way, ms in ways.items()}
                for name, ways in scatters_of(scatter).items()
            ]
        ),
    }
    text = words(made)
    print(text)
    suffix = "" if jax.default_backend() == "cpu" else f"_{jax.default_backend()}"
    out = options.out.with_name(options.out.name + suffix)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(made, indent=1) + "\n")
    note = f"Bytes are the least that have to move, 4 of every number:\n{LINES}"
    out.with_suffix(".md").write_text(f"# Operations on edges beside the memory's bandwidth\n\n{text}\n\n{note}\n")
    draw(made, out.with_suffix(".png"))


if __name__ == "__main__":
    main()
