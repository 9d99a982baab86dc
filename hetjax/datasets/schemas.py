"""The five graphs of Heta's Table 1 (Zhong et al., PVLDB 18(9), 2025) as data: nodes, edges and features by type.

Reverses are Heta's, which are those of DGL's `AddReverse`: a relation between two types gets a second relation with the
same edges turned round, and a relation from a type to itself holds both directions, so twice its edges. Heta's data
call the reverses of Donor `reverse_...`; here they are `rev_...`, as everywhere in this package.

The counts were not copied from that table. Each is either published with the data set or an estimate of ours; an
estimate serves for the shape of a graph and the speed of a program, and is not to be quoted.

- ogbn-mag: everything is published (Hu et al., NeurIPS 2020).
- freebase: published are the totals (12,164,758 nodes, 62,982,566 edges one way), the 8 types and 36 relations, the 8
  classes and the 47,190 labelled nodes (Yang et al., TKDE 2020). How nodes divide among the types and edges among the
  relations is estimated, and so is the split.
- donor: published are 664,098 projects, 619,326 of them labelled, and 3,097,989 donations (KDD Cup 2014), and that
  Heta's graph has 7 types, 14 relations with reverses, and widths from 7 to 789. Estimated is all else: that Heta's
  Donor is that cup's, which tables become types, the count of every other type, every relation and its count, which
  type has which width, and the split.
- igb-het: everything is published (Khatua et al., KDD 2023); the size is medium.
- mag240m: everything is published (Hu et al., NeurIPS 2021); the test nodes are those of `test-dev`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hetjax.graph.schema import Relation, Schema

LEAST_NODES = 16  # of any type, however small the scale


@dataclass(frozen=True)
class Shape:
    """The schema of a data set, with its sizes in full.

    Attributes:
      nodes: number of nodes per node type.
      edges: number of edges per relation, one way; a relation's reverse is not listed.
      features: `(width, dtype)` per node type; a type that is absent has no features, and a model learns them.
      target: the node type that carries the labels.
      classes: number of classes.
      splits: number of target nodes in each of `train`, `validation` and `test`; together they may be fewer than all.
    """

    nodes: Mapping[str, int]
    edges: Mapping[tuple[str, str, str], int]
    features: Mapping[str, tuple[int, str]]
    target: str
    classes: int
    splits: Mapping[str, int]

    def __post_init__(self):
        for name in ("nodes", "edges", "features", "splits"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def relations(self, scale: float = 1.0) -> dict[Relation, int]:
        """The number of edges per relation, reverses included; each relation is followed by its reverse, if it has one."""
        counts = {}
        for names, full in self.edges.items():
            relation, count = Relation(*names), round(full * scale)
            if relation.source == relation.target:
                counts[relation] = 2 * count
            else:
                counts[relation] = counts[relation.reverse] = count
        return counts

    def schema(self, scale: float = 1.0, classes: int | None = None) -> Schema:
        """Return the schema at a fraction (or a multiple) of the size; no type has fewer than `LEAST_NODES` nodes."""
        nodes = {name: max(LEAST_NODES, round(count * scale)) for name, count in self.nodes.items()}
        return Schema(nodes, tuple(self.relations()), self.target, self.classes if classes is None else classes)


OGBN_MAG = Shape(
    nodes={"paper": 736_389, "author": 1_134_649, "institution": 8_740, "field_of_study": 59_965},
    edges={
        ("author", "affiliated_with", "institution"): 1_043_998,
        ("author", "writes", "paper"): 7_145_660,
        ("paper", "cites", "paper"): 5_416_271,
        ("paper", "has_topic", "field_of_study"): 7_505_078,
    },
    features={"paper": (128, "float32")},
    target="paper",
    classes=349,
    splits={"train": 629_571, "validation": 64_879, "test": 41_939},
)

# Types in proportion to the sample of this graph in the Heterogeneous Graph Benchmark, and so are BOOK-and-BOOK and
# MUSIC-and-MUSIC; the other relations share what is left as the square root of (sources x targets).
_FREEBASE_EDGES = {
    "BOOK-and-BOOK": 12_068_709, "BOOK-to-FILM": 1_931_663, "BOOK-on-SPORTS": 443_702, "BOOK-on-LOCATION": 1_341_381,
    "BOOK-about-ORGANIZATION": 724_251, "FILM-and-FILM": 1_339_470, "MUSIC-in-BOOK": 3_977_067,
    "MUSIC-in-FILM": 2_757_810, "MUSIC-and-MUSIC": 16_891_810, "MUSIC-for-SPORTS": 633_467,
    "MUSIC-on-LOCATION": 1_915_072, "SPORTS-in-FILM": 307_675, "SPORTS-and-SPORTS": 70_673,
    "SPORTS-on-LOCATION": 213_655, "PEOPLE-to-BOOK": 1_840_730, "PEOPLE-to-FILM": 1_276_414,
    "PEOPLE-to-MUSIC": 2_627_987, "PEOPLE-to-SPORTS": 293_191, "PEOPLE-and-PEOPLE": 1_216_327,
    "PEOPLE-on-LOCATION": 886_364, "PEOPLE-in-ORGANIZATION": 478_574, "PEOPLE-in-BUSINESS": 774_520,
    "LOCATION-in-FILM": 930_151, "LOCATION-and-LOCATION": 645_913, "ORGANIZATION-in-FILM": 502_216,
    "ORGANIZATION-to-MUSIC": 1_034_004, "ORGANIZATION-to-SPORTS": 115_359, "ORGANIZATION-on-LOCATION": 348_748,
    "ORGANIZATION-and-ORGANIZATION": 188_299, "ORGANIZATION-for-BUSINESS": 304_742, "BUSINESS-about-BOOK": 1_172_122,
    "BUSINESS-about-FILM": 812_782, "BUSINESS-about-MUSIC": 1_673_422, "BUSINESS-about-SPORTS": 186_695,
    "BUSINESS-on-LOCATION": 564_410, "BUSINESS-and-BUSINESS": 493_191,
}  # fmt: skip

FREEBASE = Shape(
    nodes={
        "BOOK": 2_728_962,
        "FILM": 1_312_201,
        "MUSIC": 5_562_415,
        "SPORTS": 69_234,
        "PEOPLE": 1_191_565,
        "LOCATION": 632_764,
        "ORGANIZATION": 184_466,
        "BUSINESS": 483_151,
    },
    edges={(name.split("-")[0], name, name.split("-")[2]): count for name, count in _FREEBASE_EDGES.items()},
    features={},
    target="BOOK",
    classes=8,
    # A quarter as many test as training nodes, as published, and a fifth of the training nodes held out.
    splits={"train": 30_202, "validation": 7_550, "test": 9_438},
)

# One edge per row of the table that refers to another: `Donation-projectid` joins a donation to its project.
DONOR = Shape(
    nodes={
        "Project": 664_098,
        "Essay": 664_098,
        "Resource": 3_667_217,
        "Donation": 3_097_989,
        "Donor": 1_282_092,
        "Teacher": 249_555,
        "School": 57_004,
    },
    edges={
        ("Essay", "Essay-projectid", "Project"): 664_098,
        ("Essay", "Essay-teacher_acctid", "Teacher"): 664_098,
        ("Resource", "Resource-projectid", "Project"): 3_667_217,
        ("Donation", "Donation-projectid", "Project"): 3_097_989,
        ("Donation", "Donation-donor_acctid", "Donor"): 3_097_989,
        ("Project", "Project-teacher_acctid", "Teacher"): 664_098,
        ("Project", "Project-schoolid", "School"): 664_098,
    },
    features={
        "Project": (95, "float32"),
        "Essay": (789, "float32"),
        "Resource": (775, "float32"),
        "Donation": (40, "float32"),
        "Donor": (7, "float32"),
        "Teacher": (8, "float32"),
        "School": (30, "float32"),
    },
    target="Project",
    classes=2,
    # Eight, one and one tenth of the labelled projects.
    splits={"train": 495_460, "validation": 61_933, "test": 61_933},
)

# Three of the relations point as the benchmark's loader turns them, so that papers and authors have in-edges.
IGB_HET = Shape(
    nodes={"paper": 10_000_000, "author": 15_544_654, "institute": 23_256, "fos": 415_054},
    edges={
        ("paper", "cites", "paper"): 120_077_694,
        ("author", "written_by", "paper"): 39_854_592,
        ("institute", "affiliated_to", "author"): 11_049_412,
        ("fos", "topic", "paper"): 68_510_495,
    },
    features={name: (1024, "float32") for name in ("paper", "author", "institute", "fos")},
    target="paper",
    classes=2983,
    splits={"train": 6_000_000, "validation": 2_000_000, "test": 2_000_000},
)

MAG240M = Shape(
    nodes={"paper": 121_751_666, "author": 122_383_112, "institution": 25_721},
    edges={
        ("author", "affiliated_with", "institution"): 44_592_586,
        ("author", "writes", "paper"): 386_022_720,
        ("paper", "cites", "paper"): 1_297_748_926,
    },
    features={"paper": (768, "float16")},
    target="paper",
    classes=153,
    splits={"train": 1_112_392, "validation": 138_949, "test": 88_092},
)

SHAPES = MappingProxyType(
    {"ogbn-mag": OGBN_MAG, "freebase": FREEBASE, "donor": DONOR, "igb-het": IGB_HET, "mag240m": MAG240M}
)
