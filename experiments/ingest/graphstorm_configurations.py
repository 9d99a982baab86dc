"""The results of GraphStorm configurations that others wrote: read completely, read with parts left out, or refused, with the first reason.

What is left out may be all labels of nodes, or there were none: such a graph can be predicted, and not trained on.

    python experiments/ingest/graphstorm_configurations.py --folder FOLDER

`FOLDER` holds configurations as `.json`, GraphStorm's own say (https://github.com/awslabs/graphstorm: examples/, tests/, and
graphstorm-processing/tests/); they are not part of hetjax. Those behind the results were typed anew from there, without their white space. Tables are not needed: a configuration is read before any of them.
"""

import argparse
import csv
from collections import Counter
from pathlib import Path

from hetjax.ingest import configuration
from hetjax.system.errors import InputError

RESULTS = Path(__file__).parent / "results" / "graphstorm_configurations.csv"


def outcome(file: Path) -> tuple[str, str]:
    """Return the result of a configuration, and the reason."""
    reasons = []
    for leave_out, words in ((False, "as it is"), (True, "with parts left out")):
        try:
            config = configuration.read(file, file.parent, leave_out, look=False)
        except InputError as error:
            reasons.append(str(error).removeprefix(f"{file}: "))
            continue
        labelled = any(table.labels for table in (*config.nodes, *config.edges))
        return words + (", to predict alone" if not labelled else ""), "; ".join(config.left_out)
    return "refused", reasons[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="of configurations, .json")
    files = sorted(parser.parse_args().folder.glob("*.json"))
    rows = [(file.stem, *outcome(file)) for file in files]
    with open(RESULTS, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows([("configuration", "read", "left out, or why not"), *rows])
    for _, *row in rows:
        print(*row, sep=": ")
    for kind, count in Counter(row[1] for row in rows).items():
        print(f"{kind}: {count} of {len(rows)}")


if __name__ == "__main__":
    main()
