"""The one table of casts: what a column of any library means as ids, labels, splits, weights, features or ends of edges.

Every door (arrays, frames, networkx, PyG, DGL, and tables that are read from files) calls the same functions:

- `column.as_column(given, place)`: an Arrow array of what any library gives, in which what is missing is null.
- `words.Missing`: the words of text columns that stand for a missing value, counted so that a line can say them.
- `ids.node_ids`, `ids.positions`: ids as they are told apart, and the node numbers of ids that are looked up.
- `labels.as_labels`, `labels.class_names`: class numbers and the names of classes.
- `splits.as_splits`, `splits.from_words`, `splits.from_masks`: the nodes of each split.
- `numbers.from_columns`, `numbers.as_features`, `numbers.as_weights`: numbers of 32 bits, and a line for those that are rounded.
- `rows.as_matrix`, `rows.as_weights`: the same of some rows of a table that is read in pieces.
- `edges.as_ends`, `roles.edge_columns`: the ends of edges, by the names of columns where there are some.
- `reverses.missing_reverses`: the relations whose reverse is added.

A `place` is what an error begins with. All raise `hetjax.system.errors.InputError`, and say by the logger "hetjax" what they took by
name, by position or by kind.
"""
