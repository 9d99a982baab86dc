"""Small files of homogeneous graphs, in every layout that the reader takes."""

import numpy as np

FEATURES = np.array([[0, 2, 0], [1, 0, 0], [0, 0, 3], [0, 0, 0], [4, 0, 1]])
# The path 0 - 1 - 2 - 3 and the edge 1 - 4, both ways.
PATH = {"indptr": np.array([0, 1, 4, 6, 7, 8]), "indices": np.array([1, 0, 2, 4, 1, 3, 2, 1])}
CSR = {"indptr": np.array([0, 1, 2, 3, 3, 5]), "indices": np.array([1, 0, 2, 0, 2], np.uint16)}
LABELS = np.array([0, 1, 0, 1, -1], np.int8)
PLANETOID = PATH | {f"feat_{name}": array for name, array in CSR.items()} | {"labels": LABELS}
SHCHUR = {f"adj_{name}": array for name, array in PATH.items()} | {
    "labels": LABELS,
    "class_names": np.array(["a", "b"]),
}
PLATONOV = {"node_features": FEATURES.astype(np.float32), "node_labels": np.array([0, 1, 0, 1, 1])}
LAYOUTS = {"planetoid": PLANETOID, "shchur": SHCHUR, "platonov": PLATONOV}


def folder_of(folder, text="0 1\n2 1\n", **arrays):
    if text is not None:
        (folder / "edges.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    for name, array in ({"labels": LABELS, "train": np.array([0, 1])} | arrays).items():
        (folder / f"{name}.npy").unlink(missing_ok=True)
        if array is not None:
            np.save(folder / f"{name}.npy", array)
    return folder
