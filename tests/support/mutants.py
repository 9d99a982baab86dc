"""Mutants for the fuzzer: valid inputs of every kind, and what is done to them, drawn by a seeded generator."""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import yaml

from hetjax.graph import store
from hetjax.ingest import __main__ as ingesting
from hetjax.options import owners
from hetjax.options.config import Processes, SharedData
from hetjax.partition import __main__ as partitioning
from hetjax.partition.stream import Options as Streaming
from hetjax.predict import Options as Predicting
from tests.support import messy
from tests.support.graphs import random_graph
from tests.support.homogeneous_files import LAYOUTS, folder_of
from tests.support.ogb_files import ARXIV, IGB, MAG, MAG240M, tree, written
from tests.support.reader_files import FILES, TEST, TRAINING, TRIPLES
from tests.support.shop_tables import BOUGHT, CONFIG, ITEMS, PEOPLE

Command = tuple[str, list[str]]  # the module that is run, and its arguments

NUMBERS = [
    "-1",
    "0",
    "1",
    "7",
    "2147483648",
    "9223372036854775808",
    "1" + 30 * "0",
    400 * "9",
    5000 * "9",
    "1e308",
    "1e400",
]
NUMBERS += ["-1e308", "nan", "inf", "0x" + 400 * "f", "1:2:3", "2001-99-99", "0_0", "٣", "²", "1.5", "-0"]
NESTED = [1000 * "[", 100_000 * "[", 2000 * "[" + 2000 * "]", 1000 * "{a: ", "(" * 400]
BOMB = "\n".join(f"a{n}: &a{n} [{', '.join(9 * [f'*a{n - 1}'])}]" if n else "a0: &a0 [x]" for n in range(10))
TEXTS = [
    "",
    " ",
    "null",
    "true",
    "[1, 2",
    "{a: 1, a: 2}",
    "&a [*a]",
    "*a",
    "!!python/object:os.system x",
    "!!binary x",
    "é",
    "$\\frac$",
]
TEXTS += [
    300 * "a",
    10_000 * "n",
    "..a:b",
    "os:path",
    "a:",
    ":",
    "%s{0}",
    "\ud800",
    "[25,20]",
    "[null]",
    "{}",
    "a\nb",
    "none/none",
    BOMB,
]
VALUES = NUMBERS + NESTED + TEXTS
PLAIN = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    10**30,
    10**400,
    1.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "$\\frac$",
    "\ud800",
]
PLAIN += [300 * "a", 10_000 * "n", [], {}, [[]], [1, 2], {"a": 1}, 5, "../../x", "\0"]
ARRAYS = [
    np.arange(5),
    np.arange(6),
    np.zeros((5, 3)),
    np.zeros((0, 2), int),
    np.array(3),
    np.zeros((5, 0)),
    np.zeros(0),
]
ARRAYS += [np.full(5, np.nan), np.array(["a"]), np.ones((2, 5), bool), np.zeros((2, 2, 2)), np.full(8, 2**62)]
EXTREME = np.array([-1, 0, 1, 5, 2**31, 2**40, -(2**63), 1e300, np.nan])
HEADERS = [b"((((", b"{'descr': '<i8', 'fortran_order': False, 'shape': (1125899906842624,), }"]
HEADERS += [b"{'descr': '<i8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", b"{" * 300]
HEADERS += [
    b"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': '<f4', 'fortran_order': True, 'shape': (-1,), }",
]
SMALL = [
    "--train.recipe=none",
    "--model.hidden=8",
    "--model.feature_width=8",
    "--train.epochs=2",
    "--sampling.fanout=[3,2]",
    "--sampling.batch_size=8",
]


def train_on(seeds: Path, *more: str) -> list[str]:
    return ["--data.format=store", f"--data.path={seeds / 'store'}", *SMALL, *more]


def plant(seeds: Path) -> None:
    """Write valid inputs of every kind but those that a command makes (`plan`, `cut`, `run`)."""
    texts = {"rdf/g.nt": TRIPLES, "rdf/trainingSet.tsv": TRAINING, "rdf/testSet.tsv": TEST}
    texts |= {f"hgb/{name}": text for name, text in FILES.items()}
    texts |= {"triples/train.txt": "a\tr\tb\nb\tq\tc\n", "triples/test.txt": "a\tq\tb\n"}
    config = {"model": {"hidden": 8, "layers": 2}, "sampling": {"fanout": [3, 2]}, "train": {"learning_rate": 1e-3}}
    texts["yaml/config.yaml"] = yaml.safe_dump(config)
    texts["yaml/paths.yaml"] = yaml.safe_dump([[["author", "writes", "paper"], ["author", "knows", "author"]]])
    texts["yaml/options.yaml"] = yaml.safe_dump({"parts": 2, "batch_size": 8, "fanout": [3, 2], "network": 1e1})
    texts |= {"tables/people.csv": PEOPLE, "tables/items.csv": ITEMS, "tables/bought.csv": BOUGHT}
    texts |= {"messy/graph.json": json.dumps(CONFIG)}  # which is written anew
    texts |= {"tables/graph.json": json.dumps(CONFIG), "tables/graph.yaml": yaml.safe_dump(_parquet(CONFIG))}
    for name, text in texts.items():
        (seeds / name).parent.mkdir(parents=True, exist_ok=True)
        (seeds / name).write_text(text, newline="")
    graph = random_graph()
    store.save(graph, seeds / "store")
    weighted = {
        relation: csc._replace(weights=np.ones(csc.edges, np.float32) if number % 2 else None)
        for number, (relation, csc) in enumerate(graph.relations.items())
    }
    store.save(replace(graph, relations=weighted), seeds / "weighted")
    for name, arrays in LAYOUTS.items():
        (seeds / "npz" / name).mkdir(parents=True)
        np.savez_compressed(seeds / "npz" / name / "graph.npz", **arrays)
    for name, files in (("mag", MAG), ("arxiv", ARXIV)):
        written(seeds / name, files)
    for name, arrays in (("mag240m", MAG240M), ("igb", IGB)):
        tree(seeds / name, arrays)
    (seeds / "edges").mkdir()
    for table in ("people", "items", "bought"):
        read = pyarrow.csv.read_csv(seeds / "tables" / f"{table}.csv")
        pyarrow.parquet.write_table(read, seeds / "tables" / f"{table}.parquet")
    (seeds / "stream").mkdir()
    pairs = np.array([[0, 1], [1, 2], [2, 0], [3, 4], [4, 4], [0, 3]])
    np.save(seeds / "stream" / "edges.npy", pairs)
    np.savetxt(seeds / "stream" / "edges.txt", pairs, fmt="%d")
    (seeds / "stream" / "edges.txt.gz").write_bytes(gzip.compress((seeds / "stream" / "edges.txt").read_bytes()))
    np.save(seeds / "stream" / "features.npy", np.ones((5, 2), np.float32))
    features, masks = np.array([[0.5, 1], [2, 0], [0, 3], [1, 1], [7, 0]]), np.eye(5, dtype=bool)[:2]
    folder_of(seeds / "edges", "# a b w\n0\t1\t0.5\n1 2 3e-1\n\n2,3,1\n", features=features, train=masks)


def _parquet(config: dict) -> dict:
    """A configuration of tables in csv as one of the same tables in parquet."""
    return yaml.safe_load(json.dumps(config).replace('"csv"', '"parquet"').replace(".csv", ".parquet"))


def pick(rng: np.random.Generator, among):
    return among[int(rng.integers(len(among)))]


def options(rng: np.random.Generator, seeds: Path) -> Command:
    """A command line with some options changed, left out or garbled."""
    all_keys = [f"{s}.{key.name}" for s, section in owners.all_sections().items() for key in fields(section)]
    all_keys += [key.name for key in fields(Processes)]
    module, keys, given = pick(
        rng,
        [
            ("train", all_keys, [*train_on(seeds), "--workdir=out"]),
            ("convert", [f"data.{k.name}" for k in fields(SharedData)], ["--synthetic.scale=0.0001", "--out=out"]),
            ("partition", [k.name for k in fields(partitioning.Options)], [f"--graph={seeds / 'store'}", "--out=out"]),
            ("predict", [k.name for k in fields(Predicting)], [f"--workdir={seeds / 'run'}", "--out=out.npy"]),
            ("ingest", [k.name for k in fields(ingesting.Options)], [*_tables(seeds / "tables"), "--out=out"]),
            ("partition", [k.name for k in fields(Streaming)], [*_edges(seeds / "stream"), "--parts=2", "--out=out"]),
        ],
    )
    given = list(given)
    for _ in range(int(rng.integers(1, 4))):
        match int(rng.integers(8)):
            case 0 if given:
                given.pop(int(rng.integers(len(given))))
            case 1 if given:
                one = int(rng.integers(len(given)))
                given[one] = given[one].split("=")[0] + pick(rng, ["", "=", "==", " ", "s=1", ".x=1", "=[1"])
            case 2:
                given.append(
                    pick(rng, ["-", "--", "---", "stray", "--=", "--config", "--config=", "--print_config", "--help"])
                )
            case _:
                given.append(f"--{pick(rng, keys)}={pick(rng, VALUES)}")
    return f"hetjax.{module}", [*given, *(["--start_seconds=1"] if module == "train" else [])]


def in_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """Bytes flipped, cut, repeated or put in; a number, a word or a header replaced by an extreme one."""
    where = int(rng.integers(len(data) + 1))
    match int(rng.integers(7)):
        case 0:
            changed = bytearray(data)
            for _ in range(int(rng.integers(1, 9)) if data else 0):
                changed[int(rng.integers(len(data)))] = int(rng.integers(256))
            return bytes(changed)
        case 1:
            return data[:where]
        case 2:
            return data[:where] + pick(rng, VALUES).encode(errors="surrogatepass") + data[where:]
        case 3:
            lines = data.split(b"\n")
            at = int(rng.integers(len(lines)))
            lines[at : at + 1] = lines[at : at + 1] * pick(rng, [0, 2, 3000])
            return b"\n".join(lines)
        case 4 if data.startswith(b"\x93NUMPY"):
            header = pick(rng, HEADERS)
            return data[:8] + len(header).to_bytes(2, "little") + header + data[128:]
        case _:
            words = list(re.finditer(rb"-?[0-9][0-9.e+-]*|\w+", data))
            if not words:
                return data + b"\0"
            found = pick(rng, words)
            return data[: found.start()] + pick(rng, VALUES).encode(errors="surrogatepass") + data[found.end() :]


def in_values(rng: np.random.Generator, value):
    """A value anywhere in nested plain values replaced, left out, given twice or nested."""
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = pick(rng, keys)
        changed = value.copy()
        if rng.random() < 0.15:
            del changed[key]
        elif rng.random() < 0.15 and isinstance(value, list):
            changed.insert(key, value[key])
        elif rng.random() < 0.1 and isinstance(value, dict):
            changed[str(pick(rng, PLAIN))] = changed.pop(key)
        else:
            changed[key] = in_values(rng, value[key])
        return changed
    return [value] if rng.random() < 0.1 else pick(rng, PLAIN)


def in_tree(rng: np.random.Generator, folder: Path, file: Path) -> None:
    """A file left out, or replaced by something else; or one more."""
    match int(rng.integers(6)):
        case 0:
            file.unlink()
        case 1:
            file.unlink()
            file.mkdir()
        case 2:
            file.unlink()
            file.symlink_to(file.name)
        case 3:
            file.write_bytes(b"")
        case 4:
            (
                file.parent
                / pick(rng, ["tables_9x", "tables", "999999999999", ".x", "part_0", "x.nt", "partition_raf_2x1"])
            ).write_bytes(b"x")
        case _:
            other = pick(rng, sorted(one for one in folder.rglob("*") if one.is_file()))
            shutil.copyfile(other, f"{file}.new")
            os.replace(f"{file}.new", file)


def mutate(rng: np.random.Generator, folder: Path) -> None:
    """Change one to three files of a folder, and make some of the checksums fit again."""
    for _ in range(int(rng.integers(1, 4))):
        files = sorted(one for one in folder.rglob("*") if one.is_file())
        if not files:
            return
        file = pick(rng, files)
        data = file.read_bytes()
        if rng.random() < 0.1:
            in_tree(rng, folder, file)
        elif file.suffix == ".gz" and rng.random() < 0.8:
            file.write_bytes(gzip.compress(in_bytes(rng, _unpacked(data))))
        elif file.suffix == ".npz" and rng.random() < 0.8:
            in_archive(rng, file)
        elif file.suffix == ".npy" and rng.random() < 0.3:
            file.write_bytes(_as_npy(in_array(rng, data)))
        elif rng.random() < 0.6 and (value := _values(file, data)):
            file.write_text((_as_yaml if file.suffix == ".yaml" else json.dumps)(in_values(rng, value)))
        else:
            file.write_bytes(in_bytes(rng, data))
    if rng.random() < 0.5:
        refit(folder)


def _unpacked(data: bytes) -> bytes:
    """What a packed file holds; nothing if it was changed beyond reading."""
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return b""


def in_archive(rng: np.random.Generator, file: Path) -> None:
    """Arrays of an archive garbled, left out, renamed, given twice, or replaced by others."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
    except Exception:  # what was changed beyond reading stays as it is
        return
    for _ in range(int(rng.integers(1, 4)) if members else 0):
        at, other = int(rng.integers(len(members))), pick(rng, members)
        name, data = members[at]
        match int(rng.integers(8)):
            case 0 if len(members) > 1:
                del members[at]
            case 1:
                members[at] = other[0], data
            case 2:
                members[at] = name, other[1]
            case 3:
                members[at] = name, _as_npy(pick(rng, ARRAYS))
            case 4:
                members[at] = name, _as_npy(in_array(rng, data))
            case 5 if (larger := _larger(rng, data)) is not None:
                members[at] = name, larger
            case _:
                members[at] = name, in_bytes(rng, data)
    with zipfile.ZipFile(file, "w", pick(rng, [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        written = set()
        for name, data in members:
            if name not in written or rng.random() < 0.2:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # of a name that is there
                    archive.writestr(name, data)
            written.add(name)


def in_array(rng: np.random.Generator, data: bytes) -> np.ndarray:
    """An array with a value replaced by an extreme one, in another dtype, turned or cut; of what is none, another."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            array = np.load(io.BytesIO(data), allow_pickle=False).copy()
            match int(rng.integers(4)):
                case 0:
                    array.reshape(-1)[int(rng.integers(array.size))] = pick(rng, EXTREME).astype(array.dtype)
                case 1:
                    array = array.astype(pick(rng, [">i4", "<f8", ">f2", "bool", "uint64", "int8", "complex64", "<U4"]))
                case 2:
                    array = array.T if array.ndim > 1 else array[None]
                case _:
                    array = array[: int(rng.integers(len(array) + 1))]
            return array
        except Exception:  # what was changed beyond reading, is empty, or has no such value
            return pick(rng, ARRAYS)


def _larger(rng: np.random.Generator, data: bytes) -> bytes | None:
    """Zeros, of which little is packed."""
    return _as_npy(np.zeros(pick(rng, [10**6, 10**8]), pick(rng, ["int8", "bool"]))) if rng.random() < 0.1 else None


def _as_npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _values(file: Path, data: bytes):
    """What a file of JSON or YAML holds; None of any other."""
    try:
        return yaml.safe_load(data) if file.suffix == ".yaml" else json.loads(data)
    except (ValueError, yaml.YAMLError, RecursionError):
        return None


def _as_yaml(value) -> str:
    try:
        return yaml.safe_dump(value)
    except ValueError:  # digits
        return json.dumps(str(type(value)))


def refit(folder: Path) -> None:
    """Write the digests of checkpoints and the checksums of stores anew, where that can be done."""
    for digests in folder.rglob("digests.json"):
        files = [one for one in digests.parent.rglob("*") if one.is_file() and one != digests]
        found = {one: hashlib.blake2b(one.read_bytes(), digest_size=16).hexdigest() for one in files}
        about = {str(one.relative_to(digests.parent)): (one.stat().st_size, found[one]) for one in files}
        digests.write_text(json.dumps(about))
    schema = folder / "schema.json"
    try:
        about = json.loads(schema.read_text())
        for name in about["contents"]:
            about["contents"][name] = zlib.crc32(np.ascontiguousarray(np.load(folder / f"{name}.npy")))
        schema.write_text(json.dumps(about))
    except Exception:  # what was changed beyond reading stays as it is
        return


def _convert(form: str) -> Callable:
    def command(rng, seeds, folder) -> Command:
        more = pick(rng, [[], ["--rdf.node_types=class"], ["--rdf.literals=drop"]]) if form == "rdf" else []
        return "hetjax.convert", [f"--data.format={form}", f"--data.path={folder}", "--out=out", *more]

    return command


def _homogeneous(form: str) -> Callable:
    def command(rng, seeds, folder) -> Command:
        path = folder / pick(rng, list(LAYOUTS)) if form == "npz" else folder
        given = [f"--data.format={form}", f"--data.path={path}"]
        given += pick(rng, [[], [], ["--npz.split=random"], ["--npz.split=shchur", "--npz.split_per_class=[1,1]"]])
        given += pick(
            rng, [[], ["--npz.undirected=false"], ["--data.normalize_features=row"], ["--npz.split_number=1"]]
        )
        if rng.random() < 0.2:
            return "hetjax.train", [*given, *SMALL, "--workdir=out"]
        return "hetjax.convert", [*given, "--out=out"]

    return command


def _store(rng, seeds, folder) -> Command:
    if rng.random() < 0.4:
        return _convert("store")(rng, seeds, folder)
    if rng.random() < 0.3:
        return "hetjax.train", ["--data.format=store", f"--data.path={folder}", *SMALL, "--workdir=out"]
    method = pick(rng, ["meta", "random", "meta", "contiguous", "fennel", "meta"])
    return "hetjax.partition", [f"--graph={folder}", "--parts=2", f"--method={method}", "--out=out"]


def _yaml(rng, seeds, folder) -> Command:
    match int(rng.integers(3)):
        case 0:
            return "hetjax.train", [f"--config={folder}/config.yaml", *train_on(seeds), "--workdir=out"][
                : pick(rng, [1, 99])
            ]
        case 1:
            return "hetjax.partition", [f"--graph={seeds / 'store'}", f"--config={folder}/options.yaml", "--out=out"]
    return "hetjax.partition", [f"--graph={seeds / 'store'}", f"--metapaths={folder}/paths.yaml", "--out=out"]


def _plan(rng, seeds, folder) -> Command:
    if rng.random() < 0.3:
        return "hetjax.train", train_on(seeds, "--mesh.relation=2", f"--raf.plan={folder}", "--workdir=out")
    return "read", [str(folder)]


def _run(rng, seeds, folder) -> Command:
    if rng.random() < 0.5:
        return "hetjax.predict", [f"--workdir={folder}", "--out=out.npy"]
    more = pick(rng, [[], ["--train.epochs=3"]])
    return "hetjax.train", [*train_on(seeds, "--sampling.mode=full", *more), f"--workdir={folder}"]


def _tables(folder: Path, form: str = "json") -> list[str]:
    return [f"--config={folder}/graph.{form}"]


def _edges(folder: Path, form: str = "txt") -> list[str]:
    return [f"--stream={folder}/edges.{form}"]


def _ingest(rng, seeds, folder) -> Command:
    more = pick(rng, [[], [], ["--leave_out=true"], ["--skip_nonexist_edges=true"], ["--add_reverse_edges=true"]])
    return "hetjax.ingest", [*_tables(folder, pick(rng, ["json", "yaml"])), *more, "--out=out"]


def _messy(rng, seeds, folder) -> Command:
    folder /= "messy"
    folder.mkdir()
    messy.write(rng, folder)
    if rng.random() < 0.3:
        mutate(rng, folder)
    more = pick(rng, [[], [], ["--leave_out=true"], ["--skip_nonexist_edges=true"], ["--add_reverse_edges=true"]])
    return "hetjax.ingest", [*_tables(folder), *more, "--out=out"]


def _stream(rng, seeds, folder) -> Command:
    method = pick(rng, ["dbh", "greedy", "hdrf", "hollocou", "2ps-l", "spring", "slim"])
    features = pick(rng, [[], [f"--features={folder}/features.npy"]])
    given = _edges(folder, pick(rng, ["txt", "txt.gz", "npy"]))
    return "hetjax.partition", [*given, *features, f"--method={method}", "--parts=2", "--out=out"]


KINDS = {
    "rdf": _convert("rdf"),
    "hgb": _convert("hgb"),
    "npz": _homogeneous("npz"),
    "edges": _homogeneous("edges"),
    "mag": _convert("ogb"),
    "arxiv": _homogeneous("ogb"),
    "mag240m": _convert("mag240m"),
    "igb": _convert("igb"),
    "tables": _ingest,
    "messy": _messy,
    "stream": _stream,
    "store": _store,
    "weighted": _store,
    "yaml": _yaml,
    "plan": _plan,
    "cut": _plan,
    "run": _run,
    "triples": _convert("triples"),
}


def mutant(seed: int, number: int, seeds: Path, folder: Path, kinds: Sequence[str] = ()) -> tuple[str, Command]:
    """Make mutant `number` in `folder`, which is new; its kind, of all or some, and the command that meets it."""
    rng = np.random.Generator(np.random.Philox([seed, number]))
    folder.mkdir(parents=True)
    kind = pick(rng, [*(kinds or ("options", "options", *KINDS))])
    if kind == "options":
        return kind, options(rng, seeds)
    shutil.copytree(seeds / kind, folder / "in")
    mutate(rng, folder / "in")
    return kind, KINDS[kind](rng, seeds, folder / "in")
