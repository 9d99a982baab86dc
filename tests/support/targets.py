"""A graph with classes of nodes, numbers of nodes and classes of pairs."""

import numpy as np

import hetjax

USERS, ITEMS, PAIRS = 30, 20, 160
KIND, PRICE, LIKES = TARGETS = ("user.kind", "item.price", "user--rates--item.likes")


def shop(train: bool = True):
    """Users who rate items: a class of each user, a number of each item, and a class of each pair.

    Args:
      train: whether some items are training nodes.
    """
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((USERS, 3)), rng.standard_normal((ITEMS, 3))
    source, target = rng.integers(0, USERS, PAIRS), rng.integers(0, ITEMS, PAIRS)
    likes = np.where((left[source] * right[target]).sum(1) > 0, "yes", "no")
    edges = source[:120], target[:120]

    def splits(count: int) -> dict:
        return dict(
            zip(("train", "validation", "test"), np.split(rng.permutation(count), (count // 2, 3 * count // 4)))
        )

    parts = {KIND: splits(USERS), PRICE: splits(ITEMS), LIKES: splits(PAIRS)}
    if not train:
        del parts[PRICE]["train"]
    return hetjax.from_arrays(
        {("user", "rates", "item"): edges, ("item", "rev_rates", "user"): edges[::-1]},
        features={"user": left.astype(np.float32), "item": right.astype(np.float32)},
        labels={
            KIND: np.where(left[:, 0] > 0, "new", "old"),
            PRICE: right[:, 0].astype(np.float32),
            LIKES: {"source": source, "target": target, "labels": likes},
        },
        splits=parts,
        numbers=[PRICE],
    )
