"""The configuration of a run: frozen dataclasses, a line of help per field, checked when made."""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from hetjax.options.check import require
from hetjax.system.errors import InputError

DATA_FOLDER = "HETJAX_DATA"
MOST_WIDTH, MOST_THREADS = 2**16, 64
MOST_HOPS = 16  # of a metapath
MOST_PROCESSES = 2**16
MOST_SECONDS = 7 * 24 * 3600  # that processes wait for each other


class Bytes(int):
    """A number of bytes, also said with a unit: `2GB` is 2 * 1000**3 and `2GiB` is 2 * 1024**3."""

    def __new__(cls, given: int | str) -> "Bytes":
        if re.fullmatch(r"-?[0-9]+", str(given)):
            return super().__new__(cls, given)
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT])(i?)B", str(given))
        if not match:
            raise ValueError(given)
        number, unit, binary = match.groups()
        return super().__new__(cls, float(number) * (1024 if binary else 1000) ** (1 + "KMGT".index(unit)))


Scaling = Literal["none", "row", "auto", "columns"]  # of features
Place = Literal["device", "host", "disk"]  # where features live
PLACES = get_args(Place)
Mode = Literal["minibatch", "full"]  # of sampling
Policy = Literal["none", "hotness", "miss_penalty", "optimal"]  # how node types share a cache
UNBOUNDED = Bytes(-1)
MOST_FLOAT = 3.4e38  # about the largest number in float32, in which a model is trained


@dataclass(frozen=True)
class SharedData:
    """Data: where the graph comes from."""

    format: Literal["rdf", "hgb", "npz", "edges", "ogb", "mag240m", "igb", "triples", "store", "synthetic"] = (
        "synthetic"
    )
    """the format that the graph is read from; store: hetjax's own; synthetic: a generated graph, nothing is read; of each other one, and its section of options, docs/data.md tells"""
    path: str = ""
    """the folder to read (hgb: or a zip file; npz: or the file); a relative path starts in the folder that the environment variable HETJAX_DATA names, and without it in the current one"""
    normalize_features: Scaling = "none"
    """row: npz, edges, ogb: divide features by their sum per node; auto: scale counts, and numbers of any size to mean 0 and standard deviation 1; zeros and ones stay; columns: scale every column so"""
    label_inputs: bool = False
    """training labels, propagated along relations, are inputs too; no node's own label reaches its logits, and no label of validation or test nodes is read"""
    metapath_hops: int = 0
    """for model sehgnn: the mean of the features along every metapath of at most this many relations into the target type is an input; 0: no metapaths"""
    metapath_label_hops: int = 0
    """with data.metapath_hops: training labels along metapaths of at most so many relations are inputs too, without a node's own; 0: none"""
    metapath_one_hot: bool = False
    """with data.metapath_hops: types without features have one-hot ones, as in the authors' code of SeHGNN; false: learnable features, which their metapaths share"""
    without_features: tuple[str, ...] = ()
    """node types whose features are ignored; learnable features take their place"""
    check: bool = True
    """read the whole graph before training, verify a store's checksums, and name what is wrong; false: trust the graph"""

    def __post_init__(self):
        for name in ("metapath_hops", "metapath_label_hops"):
            require(0 <= getattr(self, name) <= MOST_HOPS, f"data.{name}", getattr(self, name), f"in 0..{MOST_HOPS}")
        if self.metapath_label_hops and not self.metapath_hops:
            raise InputError(f"data.metapath_label_hops is {self.metapath_label_hops}, and data.metapath_hops is 0")
        if self.metapath_one_hot and not self.metapath_hops:
            raise InputError("data.metapath_one_hot is true, and data.metapath_hops is 0")
        if self.metapath_hops and self.label_inputs:
            raise InputError(
                f"data.label_inputs is true, and data.metapath_hops is {self.metapath_hops}: labels are inputs by data.metapath_label_hops then"
            )
        if self.path and self.format == "synthetic":
            raise InputError(
                f"data.path is {self.path}, and data.format synthetic reads nothing: give another data.format"
            )


@dataclass(frozen=True)
class SharedTask:
    """Task: what is predicted, and of which nodes or pairs of nodes."""

    name: str = "node_classification"
    """what is predicted: node_classification; node_regression, numbers; edge_classification, edge_regression: of a relation's pairs; several: of several columns; or MODULE:NAME of a task of one's own"""
    target: str = ""
    """the column of labels that is predicted, such as paper.year or user-rates-item.stars, or the type or relation of the only one; unset: the graph's own"""
    hide_targets: Literal["auto", "all", "evaluated", "none"] = "auto"
    """edges of labelled pairs that no message follows; all: of every split; evaluated: of validation and test; auto: all where edges have weights, which may tell labels"""


@dataclass(frozen=True)
class Task(SharedTask):
    """The options of `task`, with those of the task that is chosen.

    Attributes:
      own: the sections of options that tasks own, by name; a section that is absent has its defaults.
    """

    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Data(SharedData):
    """The options of `data`, with those of the reader.

    Attributes:
      own: the sections of options that readers own, by name; a section that is absent has its defaults.
    """

    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SharedModel:
    """Model: which model, and how large."""

    name: str = "rgcn"
    """rgcn, rgat, hgt; sehgnn, for metapaths (data.metapath_hops); gcn, sage, gin, gat, gatv2, for graphs of one relation; or MODULE:NAME: a `hetjax.HGNN` or a layer class of your own"""
    hidden: int = 64
    """width of the embeddings of every layer"""
    layers: int = 2
    """number of layers, which is the number of hops"""
    feature_width: int = 64
    """width of the learnable features, which node types without features get"""
    feature_init: Literal["unit", "glorot"] = "unit"
    """how learnable features start; unit: every row has norm 1; glorot: as a Glorot matrix per node type, so small types have longer rows"""
    head: bool = True
    """a linear head makes the logits; false: the last layer makes the logits, as in the R-GCN paper"""
    self_term: bool = True
    """rgcn, rgat, sage, gin: add a self term, one matrix per node type; false: none, as in Heta's metatrees"""
    bias: bool = True
    """rgcn, rgat, gcn, sage, gat, gatv2: add a bias to every embedding; false: none, as in the R-GCN paper"""
    heads: int = 4
    """rgat, hgt, gat, gatv2, sehgnn: number of attention heads, which divide model.hidden among them"""
    norm: Literal["none", "layer"] = "none"
    """layer: layer normalisation of every layer's embeddings, with a scale and a bias per node type; gin: between the two layers of its MLP"""
    residual: bool = False
    """rgcn, rgat, gcn, sage, gat, gatv2: add the embedding of the layer below, where it has the same width; sehgnn: add a linear map of the target's own features"""
    dropout: float = 0.0
    """dropout rate of every layer's embeddings"""
    input_dropout: float = 0.0
    """dropout rate of the features, or of their projections; sehgnn: of the features' embeddings"""
    input_projection: bool = False
    """map the features of every node type linearly to width model.hidden before the first layer; residuals and skips then reach all layers"""
    attention_dropout: float = 0.0
    """rgat, hgt, gat, gatv2: dropout rate of the attention weights"""
    logit_norm: bool = False
    """bring every node's logits to mean 0 and variance 1 over the classes, so that with few classes no probability comes near 1; for one label a node of 3 classes or more"""
    decoupled: bool = False
    """rgcn, rgat, gcn, sage, gin, gat: multiply by all matrices first, in model.layers dense layers, and then fold as many times without any, as NeutronTP does"""

    def __post_init__(self):
        for name, most in (
            ("hidden", MOST_WIDTH),
            ("layers", 64),
            ("feature_width", MOST_WIDTH),
        ):
            require(1 <= getattr(self, name) <= most, f"model.{name}", getattr(self, name), f"in 1..{most}")
        require(1 <= self.heads <= MOST_WIDTH, "model.heads", self.heads, f"in 1..{MOST_WIDTH}")
        if self.name in ("rgat", "hgt", "gat", "gatv2", "sehgnn"):
            divides = f"a multiple of model.heads, {self.heads}"
            require(self.hidden % self.heads == 0, "model.hidden", self.hidden, divides)
        for name in ("dropout", "input_dropout", "attention_dropout"):
            require(0 <= getattr(self, name) < 1, f"model.{name}", getattr(self, name), "in [0, 1)")


@dataclass(frozen=True)
class Model(SharedModel):
    """The options of `model`, with those of the model that is chosen.

    Attributes:
      own: the sections of options that models own, by name; a section that is absent has its defaults.
    """

    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sampling:
    """Sampling: what one step sees."""

    mode: Mode = "minibatch"
    """minibatch: seed nodes with sampled neighbours; full: one step an epoch, of all training nodes and all that they depend on"""
    fanout: tuple[int, ...] = (25, 20)
    """minibatch: neighbours to draw per node and relation, without replacement; one number per layer, the hop next to the seeds first; -1: all neighbours; loops that a model adds come on top"""
    batch_size: int = 1024
    """minibatch: seed nodes per step"""
    threads: int = 0
    """minibatch: threads that draw batches ahead of the step; the batches are the same for any number; 0: half of the cores, at most 8, with averaging one for each device"""
    evaluation_edges: int = 500_000
    """number of edges that evaluation holds in memory at a time; with sampling.mode full on one device at most twice as many as a step, if that is more"""

    def __post_init__(self):
        for fanout in self.fanout:
            require(
                fanout >= 1 or fanout == -1,
                "sampling.fanout",
                list(self.fanout),
                "made of numbers from 1 up, or -1 for all",
            )
        require(self.batch_size >= 1, "sampling.batch_size", self.batch_size, "at least 1")
        require(0 <= self.threads <= MOST_THREADS, "sampling.threads", self.threads, f"in 0..{MOST_THREADS}")
        require(self.evaluation_edges >= 1, "sampling.evaluation_edges", self.evaluation_edges, "at least 1")


@dataclass(frozen=True)
class Train:
    """Train: how long, and how fast."""

    recipe: Literal["auto", "graph", "none"] = "auto"
    """the graphs whose statistics choose the options that are not given; auto: all but synthetic ones; graph: all; none: no graph's, and options that are not given are as by default"""
    search_share: float = 0.0
    """share of the work of a run, counted at its most epochs, in which candidates for options that are not given race each other on validation nodes; 0: none, rules alone choose"""
    epochs: int = 5
    """passes over the training nodes"""
    learning_rate: float = 0.01
    """learning rate of Adam, for the weights"""
    feature_learning_rate: float | None = None
    """learning rate of row-wise Adam, for learnable features; unset: train.learning_rate"""
    seed: int = 0
    """the seed of the weights, the order of the nodes, the neighbours drawn and dropout"""
    l2: float = 0.0
    """factor of an L2 penalty, on weights and on the learnable features that a batch reads; it multiplies the sum of squares, so it is half of what PyTorch calls the weight decay of Adam"""
    l2_layers: Literal["first", "all"] = "first"
    """which weights the L2 penalty is on; first: the first layer's, as in the papers of GCN and R-GCN; all: every layer's, the projection's and the head's, as in the paper of GAT"""
    weight_decay: float = 0.0
    """weight decay, decoupled as in AdamW, of all weights and of the learnable features that a batch reads"""
    gradient_clip: float = 0.0
    """largest global norm of the gradients; larger ones are scaled down to it; 0: no bound"""
    schedule: Literal["constant", "cosine", "step"] = "constant"
    """schedule of both learning rates; cosine: to zero over all epochs; step: lowered every train.schedule_epochs"""
    schedule_epochs: int = 10
    """step: epochs between two reductions of the learning rates"""
    schedule_factor: float = 0.5
    """step: factor of each reduction"""
    warmup_steps: int = 0
    """steps over which both learning rates rise to what they are; 0: none"""
    on_divergence: Literal["stop", "back"] = "stop"
    """stop: a loss that is not finite ends the run with an error; back: after it, or a steep rise, the run goes back to its best epoch, with a tenth of both learning rates, up to four times"""
    accuracy_nodes: int = 10_000
    """most training nodes, evenly spread, that train_accuracy is measured on, with the validation nodes and from full neighbourhoods; 0: none, and no train_accuracy"""
    init_from: str = ""
    """the folder of another run: start from its weights and its learned features, which are found by the ids of the nodes; on the command line also --init_from"""
    init_new: Literal["neighbours", "fresh"] = "neighbours"
    """with train.init_from, learned features of nodes that are new; neighbours: the mean of their neighbours, as of hetjax.predict; fresh: as train.seed draws them"""
    patience: int = 0
    """early stopping: end after so many epochs without a better validation result; 0: never"""
    steps_per_epoch: int = 0
    """minibatch: largest number of steps in an epoch; 0: as many as it takes to see every training node"""
    baselines: bool = True
    """compute what the model is to be better than, in seconds: the larger class, logistic regression on the target's own features, and label propagation; false, or train.test false: none"""
    stacking: bool = False
    """at the end, weigh the model's logits with those of the baselines, and shift those of each class, by the validation nodes; kept where folds of them say that it helps by more than noise"""
    order_costs: Literal["measured", "usual"] = "measured"
    """the costs that decide whether sources are multiplied before or after they are folded; measured: timed once on this CPU, and kept; usual: constants, so the last bits are those of every machine"""
    evaluate_every: int = 1
    """evaluate after every so many epochs, and after the last"""
    checkpoint_seconds: float = 10.0
    """write a checkpoint after an evaluation if the last one is this many seconds old, and at the end; 0, or a state of over 256 MiB or with tables on disk: after every evaluation"""
    checkpoint_steps: int = 0
    """write a checkpoint every so many steps within an epoch, for long epochs; 0: no"""
    test: bool = True
    """read the test nodes at the end; false: never, as in a search over options"""
    loggers: tuple[str, ...] = ()
    """where the records of metrics.jsonl also go: tensorboard, mlflow, wandb (each needs its package), or MODULE:NAME, a class of your own"""

    def __post_init__(self):
        for name in ("epochs", "evaluate_every"):
            require(getattr(self, name) >= 1, f"train.{name}", getattr(self, name), "at least 1")
        require(self.schedule_epochs >= 1, "train.schedule_epochs", self.schedule_epochs, "at least 1")
        require(0 <= self.search_share < 1, "train.search_share", self.search_share, "in [0, 1)")
        require(0 < self.schedule_factor <= 1, "train.schedule_factor", self.schedule_factor, "in (0, 1]")
        counts = "steps_per_epoch", "checkpoint_steps", "patience", "accuracy_nodes", "warmup_steps"
        for name in (*counts, "checkpoint_seconds", "weight_decay", "gradient_clip", "l2"):
            require(getattr(self, name) >= 0, f"train.{name}", getattr(self, name), "at least 0")
        for name in ("learning_rate", "feature_learning_rate", "weight_decay", "gradient_clip", "l2"):
            value = getattr(self, name)
            fits = value is None or value != value or value <= MOST_FLOAT  # of NaN there is a line of its own
            require(fits, f"train.{name}", value, f"at most {MOST_FLOAT:g}, as float32 holds no more")
        require(0 <= self.seed < 2**31, "train.seed", self.seed, "in 0..2147483647")
        require(self.learning_rate > 0, "train.learning_rate", self.learning_rate, "over 0")
        rate = self.feature_learning_rate
        require(rate is None or rate >= 0, "train.feature_learning_rate", rate, "at least 0")


@dataclass(frozen=True)
class Mesh:
    """Mesh: the devices that share a run, relation x data x feature of them."""

    relation: int = 1
    """size of the mesh axis relation: partitions of the relations"""
    data: int = 1
    """size of the mesh axis data; raf: replicas of each partition; vanilla, dependency: partitions of the nodes; tensor, minibatch: groups of replicas; averaging: devices that train partitions"""
    strategy: str = "raf"
    """how devices share the work; raf: divide the relations; vanilla: the nodes; dependency: and exchange embeddings; tensor: the columns; averaging: average models of subgraphs; or MODULE:NAME"""
    feature: int = 1
    """size of the mesh axis feature; tensor: slices of the columns of features and embeddings; minibatch, tensor and raf: slices of the columns of features alone"""

    def __post_init__(self):
        for name in ("relation", "data", "feature"):
            require(getattr(self, name) >= 1, f"mesh.{name}", getattr(self, name), "at least 1")

    @property
    def axes(self) -> dict[str, int]:
        """Return sizes by name; `feature` if there is more than one slice, `relation` and `data` if there is not."""
        names = ("relation", "data", "feature") if self.feature > 1 else ("relation", "data")
        return {name: getattr(self, name) for name in names}

    @property
    def devices(self) -> int:
        return math.prod(self.axes.values())


@dataclass(frozen=True)
class Cache:
    """Cache: where features live, and which rows a device caches."""

    bytes_per_device: Bytes = UNBOUNDED
    """bytes of each device for features, such as 2GB; the rows that are read most often come first; -1: no bound, all features live on the device"""
    host_bytes: Bytes = UNBOUNDED
    """bytes of host memory for learnable features that left the device; the largest tables beyond that live on disk; -1: no bound"""
    placement: tuple[str, ...] = ()
    """where the features of single node types live: TYPE=device, TYPE=host or TYPE=disk; these types count towards no bound"""
    policy: Policy = "optimal"
    """how node types share the cache; none: no cache; hotness: by how often they are read; miss_penalty: by reads times the cost of a miss; optimal: row by row"""
    presample_epochs: int = 1
    """minibatch: epochs to sample before training, to count how often each row is read"""
    prefetch: bool = True
    """read the rows of the next batch during the step of this one"""

    def __post_init__(self):
        for name in ("bytes_per_device", "host_bytes"):
            object.__setattr__(self, name, int(Bytes(getattr(self, name))))
            require(getattr(self, name) >= -1, f"cache.{name}", getattr(self, name), "at least -1")
        if self.host_bytes >= 0 and self.bytes_per_device < 0:
            raise InputError(
                f"cache.host_bytes is {self.host_bytes}, and is for what leaves the device: give cache.bytes_per_device too"
            )
        require(self.presample_epochs >= 1, "cache.presample_epochs", self.presample_epochs, "at least 1")
        for place in self.placement:
            require(
                place.rpartition("=")[2] in PLACES,
                "cache.placement",
                list(self.placement),
                f"made of TYPE={'|'.join(PLACES)}",
            )
        if len(self.given) < len(self.placement):
            raise InputError(f"cache.placement is {list(self.placement)}, and names a type twice")

    @property
    def given(self) -> dict[str, Place]:
        """Return `placement` by node type."""
        pairs = (place.rsplit("=", 1) for place in self.placement)
        return {name: cast(Place, where) for name, where in pairs}


@dataclass(frozen=True)
class Processes:
    """Processes: which processes train together; a run may continue in other processes."""

    coordinator: str = ""
    """HOST:PORT: the host of process 0 and a free port there; unset: one process, or as --cluster says"""
    num_processes: int = 0
    """number of processes"""
    process_id: int | None = None
    """the number of this process, from 0"""
    cluster: Literal["none", "auto", "slurm", "ompi", "mpi4py"] = "none"
    """find coordinator, number of processes and process id as jax does on SLURM, Open MPI or mpi4py; auto: whichever jax finds, Kubernetes too"""
    start_seconds: int = 120
    """seconds that processes wait for each other at the start"""
    secret_file: str = ""
    """a file with a secret of 16 bytes or more, which a process must have to join; unset: whoever reaches the coordinator may join"""

    def __post_init__(self):
        if self.cluster == "none":
            given = self.coordinator, self.num_processes, self.process_id is not None
            if any(given) and not all(given):
                raise InputError("--coordinator, --num_processes and --process_id are given together or not at all")
        for name, least, most in (("num_processes", 0, MOST_PROCESSES), ("start_seconds", 1, MOST_SECONDS)):
            value = getattr(self, name)
            require(least <= value <= most, name, value, f"in 1..{most}")
        if self.secret_file and not self.several:
            raise InputError(
                f"secret_file is {self.secret_file}, and is for several processes: give --coordinator or --cluster"
            )
        if self.process_id is not None and self.num_processes:
            most = self.num_processes - 1
            require(0 <= self.process_id <= most, "process_id", self.process_id, f"in 0..{most}")

    @property
    def several(self) -> bool:
        """Return whether there may be more than this one."""
        return bool(self.coordinator) or self.cluster != "none"


@dataclass(frozen=True)
class Config:
    """All of a run's choices."""

    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    sampling: Sampling = field(default_factory=Sampling)
    train: Train = field(default_factory=Train)
    mesh: Mesh = field(default_factory=Mesh)
    cache: Cache = field(default_factory=Cache)
    task: Task = field(default_factory=Task)
    strategies: Mapping[str, Any] = field(default_factory=dict)
    """sections that strategies own, by their names"""

    def __post_init__(self):
        for key, value in changed(self.cache).items() if self.sampling.mode == "full" else ():
            raise InputError(
                f"cache.{key} is {value}, and is for mini-batches; with sampling.mode full a step reads every row"
            )
        if not self.by_graph:  # else layers or fanout may be chosen yet
            self.check_fanout()

    @property
    def by_graph(self) -> bool:
        """Return whether options that are not given are chosen by the graph."""
        return self.train.recipe == "graph" or (self.train.recipe == "auto" and self.data.format != "synthetic")

    def check_fanout(self) -> None:
        """Raise an InputError unless mini-batches have a fanout for every layer."""
        fanout, layers = self.sampling.fanout, self.model.layers
        if self.sampling.mode == "minibatch" and len(fanout) != layers:
            raise InputError(f"sampling.fanout {list(fanout)} has {len(fanout)} numbers != {layers} of model.layers")


SECTIONS: dict[str, type] = {
    "data": SharedData,
    "model": SharedModel,
    "sampling": Sampling,
    "train": Train,
    "mesh": Mesh,
    "cache": Cache,
    "task": SharedTask,
}  # those that every run has


def check_numbers(name: str, section: Any) -> None:
    """Raise an InputError for a number of a section that no array could hold: a whole one beyond 64 bits, or no finite one."""
    for key in fields(section):
        value = getattr(section, key.name)
        for number in value if isinstance(value, tuple) else (value,):
            fits = (
                -(2**63) <= number < 2**63
                if isinstance(number, int)
                else not isinstance(number, float) or math.isfinite(number)
            )
            require(fits, f"{name}.{key.name}".lstrip("."), number, "a number of at most 64 bits")


def changed(section: Any) -> dict[str, Any]:
    """Return the keys of a section that are not at their default, with their values."""
    return {key: value for key, value in vars(section).items() if value != getattr(type(section)(), key)}


def as_dict(config: Any) -> dict:
    """Return nested plain dictionaries and lists, as YAML holds them; for a `Config` a dictionary per section."""
    values = asdict(config) if is_dataclass(config) and not isinstance(config, type) else dict(config)
    values |= values.pop("strategies", {})
    for chooser in ("data", "model", "task"):
        if isinstance(values.get(chooser), dict):
            values |= values[chooser].pop("own", {})
    values |= values.pop("own", {})
    return {
        key: list(value) if isinstance(value, tuple) else as_dict(value) if isinstance(value, dict) else value
        for key, value in values.items()
    }


def flat(config: Any) -> dict:
    """Return `{section.key: value}` for the content of a file."""
    sections = config.items() if isinstance(config, dict) else [("config", config)]
    return {
        f"{name}.{key}": value
        for name, keys in sections
        for key, value in (keys.items() if isinstance(keys, dict) else [("", keys)])
    }


def data_path(path: str) -> Path:
    """Return the place of `data.path`: itself if it is absolute, else in the folder `HETJAX_DATA`, or here if that is not set."""
    folder = os.environ.get(DATA_FOLDER)
    if Path(path).is_absolute() or not folder:
        return Path(path)
    return Path(folder) / path
