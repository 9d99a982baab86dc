"""Names that options have in other libraries, and what they are called here."""

import re
from collections.abc import Sequence

from hetjax.options import renamed
from hetjax.system.errors import InputError, nearest

EQUAL = {
    "train.learning_rate": ("lr", "learningrate", "eta", "step_size"),
    "train.epochs": ("n_epochs", "num_epochs", "max_epochs", "n_epoch", "iterations", "max_iter"),
    "train.patience": (
        "early_stopping",
        "early_stop",
        "earlystopping",
        "early_stopping_rounds",
        "early_stopping_patience",
    ),
    "train.weight_decay": ("wd", "decay", "weightdecay"),
    "train.l2": ("l2_reg", "l2_norm", "reg", "regularization", "wd_l2norm"),
    "node_classification.class_weights": ("class_weight", "balanced", "pos_weight"),
    "train.seed": ("random_state", "random_seed", "manual_seed"),
    "node_classification.metric": ("eval_metric", "monitor", "scoring"),
    "train.gradient_clip": ("clip", "grad_clip", "max_grad_norm", "clip_grad_norm", "gradient_clip_val"),
    "train.schedule": ("scheduler", "lr_scheduler"),
    "train.warmup_steps": ("warmup", "num_warmup_steps"),
    "node_classification.label_smoothing": ("smoothing",),
    "train.init_from": ("pretrained", "restore_model_path", "checkpoint", "init_checkpoint"),
    "train.evaluate_every": ("eval_every", "eval_frequency", "check_val_every_n_epoch"),
    "task.name": ("task",),
    "model.name": ("model", "model_name", "model_type", "model_encoder_type", "arch", "conv", "encoder"),
    "model.hidden": (
        *("hidden_dim", "hidden_dims", "hidden_size", "hidden_channels", "num_hidden", "n_hidden", "hidden_units"),
        *("hid_dim", "dim", "hidden_layer_sizes"),
    ),
    "model.layers": ("num_layers", "n_layers", "num_layer", "n_layer", "depth", "hops", "num_hops"),
    "model.heads": ("num_heads", "n_heads", "nheads", "nhead"),
    "rgcn.bases": ("num_bases", "n_bases"),
    "model.dropout": ("dropout_rate", "drop", "drop_rate", "p_dropout"),
    "model.feature_width": ("embedding_dim", "emb_dim", "embedding_size"),
    "model.norm": ("layer_norm", "layernorm", "normalization", "batch_norm"),
    "sampling.fanout": ("fan_out", "fanouts", "num_neighbors", "num_neighbours", "neighbors", "neighbours"),
    "sampling.batch_size": ("batchsize", "bs", "minibatch_size"),
    "sampling.threads": ("num_workers", "n_jobs", "num_threads", "workers"),
    "workdir": ("save_dir", "output_dir", "out_dir", "save_model_path", "log_dir", "out"),
}
HERE = {other: name for name, others in EQUAL.items() for other in others}
NONE = {
    "device": "hetjax takes the accelerators that jax finds; JAX_PLATFORMS=cpu in the environment keeps to the CPU",
    "optimizer": "it is Adam, of train.learning_rate, train.l2 and train.weight_decay",
    "loss": "of classes it is the cross-entropy, which node_classification.class_weights, focal and label_smoothing change; of numbers node_regression.loss",
    "activation": "each model has its own; a model of your own may have another",
    "verbose": "in Python, logging.getLogger('hetjax').setLevel('INFO') and a handler show it; a command takes --verbose",
}
NONE |= dict.fromkeys(("gpu", "gpus", "num_gpus", "use_gpu", "cuda", "accelerator", "devices"), NONE["device"])
NONE |= dict.fromkeys(("optim", "optimiser"), NONE["optimizer"])
NONE |= dict.fromkeys(("criterion", "loss_fn"), NONE["loss"])


def hint(name: str, known: Sequence[str], prefix: str = "") -> str:
    """Return the end of a line that says that there is no option of a name: what it is called here, or the nearest one.

    Args:
      name: perhaps with a section before it.
      known: the full names of options that there are.
      prefix: of an option, on a command line.
    """
    last = name.rpartition(".")[2].lower().replace("-", "_")
    if last in NONE and f"{last}s" not in known:  # `predict` has devices
        return f"; {NONE[last]}"
    ours = HERE.get(last)
    if ours in known:
        return f"; here it is {prefix}{ours}"
    same = [full for full in known if full.rpartition(".")[2] == last]
    if same:
        return f"; it is {' or '.join(prefix + full for full in same)}"
    moved = {old: new for old, names in renamed.old_names().items() for new in names.values() if new in known}
    words = nearest(name, [*known, *moved], prefix)
    for old, new in moved.items():
        words = re.sub(rf"(?<= ){re.escape(prefix + old)}$", prefix + new, words)
    return words if words.startswith("; the nearest") else nearest(name, known, prefix)


def python_name(name: str, short: dict[str, list[str]], full: Sequence[str]) -> InputError:
    """Return the error for a keyword argument that is no option.

    Args:
      short: full names by last names, which are keyword arguments where there is one.
      full: the full names of all options.
    """
    if ours := short.get(name):
        return InputError(f"option {name!r}: it may be {' or '.join(ours)}")
    words = hint(name, full).removeprefix("; ")
    key = HERE.get(name.lower()) or ""
    if key in full:
        last = "model" if key == "model.name" else key.rpartition(".")[2]
        words = f"here it is {last if short.get(last) == [key] else key}"
    elif words.startswith(("the nearest", "known are")):
        words = nearest(name, [*short, *full]).removeprefix("; ").replace("the nearest known one is", "the nearest is")
        words = "none is near" if words.startswith("known are") else words
    return InputError(f"option {name!r}: {words}")
