"""The bytes that the devices send in a step, read from the compiled programs: the operations that XLA runs, not those that the source suggests.

A collective is counted as a ring (all-reduce, all-gather, reduce-scatter) or a direct exchange does it; XLA may do it
otherwise. In a group of `n` devices, with a result of `b` bytes on each, every device sends

| all-reduce | all-gather | reduce-scatter | all-to-all | collective-permute |
|---|---|---|---|---|
| 2 b (n - 1) / n | b (n - 1) / n | b (n - 1) | b (n - 1) / n | b if it is a source |

Padding is counted, because it is sent. Bytes between devices of one host count like all others; headers do not count.
"""

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
MESSAGE, PROCESSES = "message", "processes"  # what processes tell each other, in the place of a collective and an axis
GRADIENTS = "gradients"  # of weights, and what is summed with them
MARK = "sent."  # before the kind, in the name of a scope

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) .*\{$")
_COLLECTIVE = re.compile(rf" = (?P<shape>.*?) (?P<name>{'|'.join(COLLECTIVES)})(?P<start>-start)?\(")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_ARRAY = re.compile(r"\b([a-z]+)(\d*)\w*\[([\d,]*)\]")
_LISTED = re.compile(r"(?:replica_groups|source_target_pairs)=\{((?:\{[\d,]*\},?)*)\}")
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
# Named by axes of a mesh, as XLA writes them from jax 0.11 on: mesh['x'=2,'y'=2] {'x'}.
_MESH = re.compile(r"replica_groups=mesh\[((?:'[^']+'=\d+,?)+)\] \{((?:'[^']+',?)+)\}")


class Sent(NamedTuple):
    """The bytes that all devices of a mesh together send.

    Attributes:
      kind: the purpose, such as `gradients`.
      collective: one of `COLLECTIVES`, or a `MESSAGE` between processes.
      axis: the axis of the mesh, or several joined by `+`; `PROCESSES` for a message.
      bytes: the bytes in one call of the program, or in a step.
    """

    kind: str
    collective: str
    axis: str
    bytes: float


class Program:
    """A function compiled once per combination of shapes, as by `jax.jit`, that says what it sends.

    Where CPUs of several processes run it together, a call waits for its results. A process has few threads for collectives, and
    begins whichever has its input first: some that wait for other processes would leave none for the one that these wait for.

    Args:
      kind: the kind of the traffic outside of any `scope`.
      function, **options: as of `jax.jit`.
      mesh: the mesh of the devices that it runs on.
      static: the number of static arguments, which come first.
    """

    def __init__(self, kind: str, function: Callable, mesh: Mesh, static: int = 0, **options: Any):
        self.kind, self.mesh, self.static = kind, mesh, static
        self.jitted = jax.jit(function, static_argnums=tuple(range(static)), **options)
        self.compiled: dict[tuple, jax.stages.Compiled] = {}
        self.calls: Counter = Counter()
        self.waits = mesh.devices.flat[0].platform == "cpu" and len(mesh.local_devices) < mesh.size

    def __call__(self, *arguments: Any) -> Any:
        shapes = self._shapes(arguments)
        compiled = self.compiled.get(shapes) or self.compile(*arguments)
        self.calls[shapes] += 1
        results = compiled(*arguments[self.static :])
        return jax.block_until_ready(results) if self.waits else results

    def compile(self, *arguments: Any) -> jax.stages.Compiled:
        """Return the compiled program of a call; arrays may be given by their shapes alone."""
        shapes = self._shapes(arguments)
        if shapes not in self.compiled:
            self.compiled[shapes] = self.jitted.lower(*arguments).compile()
        return self.compiled[shapes]

    def _shapes(self, arguments: Sequence[Any]) -> tuple:
        leaves, form = jax.tree.flatten(arguments[self.static :])
        return arguments[: self.static], form, tuple((leaf.shape, leaf.dtype) for leaf in leaves)

    def sent(self) -> list[Sent]:
        """Return the traffic of all calls so far together; on a mesh that includes other processes' devices, this process's share."""
        sent, here = [], len(self.mesh.local_devices) / self.mesh.size
        for shapes, compiled in self.compiled.items():
            text = compiled.as_text()
            if text is None:
                raise ValueError(f"the backend of {self.mesh.devices.flat[0].platform} does not show its programs")
            one_call = read(text, self.mesh, self.kind)
            sent += [each._replace(bytes=here * each.bytes * self.calls[shapes]) for each in one_call]
        return sent


def scope(kind: str) -> AbstractContextManager[Any]:
    """Return a context whose collectives are of a kind, in words; XLA may join collectives of two kinds, and then keeps one name."""
    return jax.named_scope(MARK + re.sub(r"\W+", "_", kind))


def per_step(programs: Sequence[Program], steps: int) -> list[Sent]:
    """Return the traffic of a step, on average, by kind, collective and axis."""
    total: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    for sent in itertools.chain.from_iterable(program.sent() for program in programs):
        total[sent.kind, sent.collective, sent.axis] += sent.bytes
    return [Sent(*key, count / steps) for key, count in sorted(total.items())]


def read(text: str, mesh: Mesh, kind: str) -> list[Sent]:
    """Return the traffic of one call of a program.

    Args:
      text: the text of the compiled program, `compiled.as_text()`.
      mesh: the mesh of its devices, in the order in which the program numbers them.
      kind: the kind of collectives that stand in no `scope`.

    Raises:
      ValueError: a loop around a collective that does not say how often it runs, or groups in a form not known here.
    """
    computations, entry = _computations(text)
    every = []
    for line, times in _reached(computations, entry):
        collective = _COLLECTIVE.search(line)
        if not collective:
            continue
        groups = _groups(line, mesh.size)
        name = re.search(rf'op_name="[^"]*\b{re.escape(MARK)}(\w+)', line)
        alone = (
            not collective["start"] or collective["name"] == "all-reduce"
        )  # whose start gives nothing but its results
        size = _size(collective["shape"] if alone else _result(collective["shape"]))
        sent = times * _bytes(collective["name"], size, groups)
        if sent:
            every.append(Sent(name[1] if name else kind, collective["name"], _axes(groups, mesh), sent))
    return every


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
    """Return the lines of every computation, and the name of the one that runs."""
    computations: dict[str, list[str]] = {}
    lines: list[str] = []
    entry = ""
    for line in text.splitlines():
        head = _COMPUTATION.match(line)
        if head:
            lines = computations.setdefault(head["name"], [])
            entry = head["name"] if head["entry"] else entry
        else:
            lines.append(line)
    return computations, entry


def _reached(computations: dict[str, list[str]], name: str, times: int = 1) -> Iterator[tuple[str, int]]:
    """Yield every line that runs, and how often; all branches are counted, though one is taken."""
    for line in computations[name]:
        yield line, times
        if " async-update(" in line or " async-done(" in line:
            continue
        called = _CALLED.findall(line)
        for branches in _BRANCHES.findall(line):
            called += re.findall(r"[\w.\-]+", branches)
        for inner in called:
            below = list(_reached(computations, inner, times))
            if " while(" in line and any(_COLLECTIVE.search(run) for run, _ in below):
                trips = _TRIPS.search(line)
                if not trips:
                    raise ValueError(f"a loop that sends does not say how often it runs: {line.strip()[:200]}")
                below = [(run, count * int(trips[1])) for run, count in below]
            yield from below


def _result(shape: str) -> str:
    """Return the results of a `-start`, whose shape is `(operands, results, contexts...)`."""
    depth, ends = 0, []
    for place, letter in enumerate(shape):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 1:
            ends.append(place)
    return shape[ends[0] + 1 : [*ends, len(shape)][1]] if ends else shape


def _size(shape: str) -> int:
    """Return the bytes of all arrays of a shape."""
    total = 0
    for letters, bits, extent in _ARRAY.findall(shape):
        if letters != "token":
            each = 8 if letters == "pred" else int(bits)
            total += math.prod(int(size) for size in extent.split(",") if size) * each // 8
    return total


def _bytes(name: str, size: int, groups: list[list[int]]) -> float:
    """Return the bytes sent by all devices, from the bytes of the result on one."""
    if name == "collective-permute":
        return size * sum(source != target for source, target in groups)
    n = len(groups[0])
    each = {"all-reduce": 2 * size * (n - 1) / n, "reduce-scatter": size * (n - 1)}.get(name, size * (n - 1) / n)
    return each * n * len(groups)


def _groups(line: str, devices: int) -> list[list[int]]:
    """Return the groups of devices that talk to each other; for a collective-permute the pairs of source and target."""
    if "replica_groups={}" in line:
        return [list(range(devices))]
    iota, listed, named = _IOTA.search(line), _LISTED.search(line), _MESH.search(line)
    if iota:
        shape, extent, order = ([int(x) for x in part.split(",")] if part else None for part in iota.groups())
        return np.arange(devices).reshape(extent).transpose(order).reshape(shape).tolist()
    if named:
        return _along(named[1], named[2], devices)
    if not listed:
        raise ValueError(f"a collective whose groups are in a form not known here: {line.strip()[:200]}")
    return [[int(x) for x in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", listed[1])]


def _along(mesh: str, axes: str, devices: int) -> list[list[int]]:
    """Return the groups of devices that differ along some axes alone, in a mesh that numbers them one after the other."""
    sizes = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", mesh)}
    if math.prod(sizes.values()) != devices:
        raise ValueError(f"a collective's groups are of a mesh of other devices than {devices}: {mesh}")
    along, names = re.findall(r"'([^']+)'", axes), list(sizes)
    order = [name for name in names if name not in along] + along
    numbers = np.arange(devices).reshape(list(sizes.values()))
    groups = numbers.transpose([names.index(name) for name in order])
    return groups.reshape(-1, math.prod(sizes[name] for name in along)).tolist()


def _axes(groups: list[list[int]], mesh: Mesh) -> str:
    """Return the axes along which the devices of a group differ."""
    places = [np.unravel_index(group, mesh.devices.shape) for group in groups]
    along = [name for axis, name in enumerate(mesh.axis_names) if any(len(set(place[axis])) > 1 for place in places)]
    return "+".join(along)
