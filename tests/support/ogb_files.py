"""Small trees of files in the layouts of OGB, MAG240M and IGB."""

import gzip
from pathlib import Path

import numpy as np

MAG = {  # as ogbn-mag is unpacked
    "raw/num-node-dict.csv.gz": "author,paper\n3,4\n",
    "raw/triplet-type-list.csv.gz": "author,writes,paper\npaper,cites,paper\n",
    "raw/nodetype-has-label.csv.gz": "author,paper\nFalse,True\n",
    "raw/nodetype-has-feat.csv.gz": "author,paper\nFalse,True\n",
    "raw/relations/author___writes___paper/edge.csv.gz": "0,0\n1,0\n2,3\n",
    "raw/relations/author___writes___paper/num-edge-list.csv.gz": "3\n",
    "raw/relations/author___writes___paper/edge_reltype.csv.gz": "0\n0\n0\n",
    "raw/relations/paper___cites___paper/edge.csv.gz": "0,1\n3,2\n",
    "raw/relations/paper___cites___paper/num-edge-list.csv.gz": "2\n",
    "raw/node-feat/paper/node-feat.csv.gz": "0.5,1\n-2,3e-2\n0,0\n1,1\n",
    "raw/node-feat/paper/node_year.csv.gz": "2010\n2011\n2012\n2013\n",
    "raw/node-label/paper/node-label.csv.gz": "1\n0\n2\n1\n",
    "split/time/nodetype-has-split.csv.gz": "author,paper\nFalse,True\n",
    "split/time/paper/train.csv.gz": "0\n1\n",
    "split/time/paper/valid.csv.gz": "3\n",
    "split/time/paper/test.csv.gz": "2\n",
    "mapping/paper_entidx2name.csv.gz": "ent idx,ent name\n1,29\n0,2908\n2,7\n3,11\n",
    "mapping/author_entidx2name.csv.gz": 'ent idx,ent name\n0,"Ann, B."\n1,Bob\n2,Bob\n',
    "mapping/labelidx2venuename.csv.gz": "label idx,venue name\n0,KDD\n1,\n2,VLDB\n",
    "mapping/relidx2relname.csv.gz": "rel idx,rel name\n0,cites\n1,writes\n",
}
ARXIV = {  # as ogbn-arxiv is
    "raw/num-node-list.csv.gz": "4\n",
    "raw/num-edge-list.csv.gz": "3\n",
    "raw/edge.csv.gz": "0,1\n1,2\n3,0\n",
    "raw/node-feat.csv.gz": "0.5,1\n0.25,2\n0,0\n1,1\n",
    "raw/node_year.csv.gz": "1\n2\n3\n4\n",
    "raw/node-label.csv.gz": "0\n1\n1\n0\n",
    "split/time/train.csv.gz": "0\n3\n",
    "split/time/valid.csv.gz": "1\n",
    "split/time/test.csv.gz": "2\n",
    "mapping/nodeidx2paperid.csv.gz": "node idx,paper id\n0,9\n1,8\n2,7\n3,6\n",
    "mapping/labelidx2arxivcategeory.csv.gz": "label idx,arxiv category\n0,arxiv cs na\n1,arxiv cs mm\n",
}
NAN = float("nan")
MAG240M = {
    "paper/node_feat.npy": np.arange(12, dtype=np.float16).reshape(6, 2),
    "paper/node_label.npy": np.array([0, 2, NAN, 1, 0, NAN], np.float32),
    "paper/node_year.npy": np.array([2015, 2018, 2018, 2019, 2016, 2020], np.int64),
    "author___writes___paper/edge_index.npy": np.array([[0, 1, 4], [0, 0, 5]]),
    "author___affiliated_with___institution/edge_index.npy": np.array([[0, 3], [1, 0]]),
    "paper___cites___paper/edge_index.npy": np.array([[0, 1], [1, 2]]),
}
IGB = {
    "paper/node_feat.npy": np.eye(5, 3, dtype=np.float32),
    "paper/node_label_19.npy": np.array([0, 1, 2, 1, 0], np.float32),
    "paper/node_label_2K.npy": np.array([5, 1, 2, 1, 7], np.float32),
    "author/node_feat.npy": np.eye(4, 3, dtype=np.float32),
    "institute/node_feat.npy": np.eye(2, 3, dtype=np.float32),
    "paper__cites__paper/edge_index.npy": np.array([[0, 1], [1, 2], [4, 0]]),
    "paper__written_by__author/edge_index.npy": np.array([[0, 3], [4, 0]]),
    "author__affiliated_to__institute/edge_index.npy": np.array([[3, 1]]),
}


def written(folder: Path, files: dict[str, str], **changes: str | None) -> Path:
    """A tree of packed files, with changed or missing ones: by the ends of their names, `__` for a dot or a slash."""
    for name, text in files.items():
        key = next((key for key in changes if name.replace("/", "__").startswith(key)), None)
        found = text if key is None else changes[key]
        if found is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(gzip.compress(found.encode()))
    return folder


def tree(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    for name, array in arrays.items():
        (folder / "processed" / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / "processed" / name, array)
    return folder
