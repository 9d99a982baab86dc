"""What becomes of GraphStorm configurations that others wrote: read as they are, read with parts left out, or refused, with the first reason.

    python experiments/graphstorm_configurations.py --folder FOLDER

`FOLDER` holds configurations as `.json`, GraphStorm's own say (https://github.com/awslabs/graphstorm: examples/, tests/, and
graphstorm-processing/tests/); they are not part of hetjax. Those behind the results were typed anew from there, without their white space. Tables are not needed: a configuration is read before any of them.
"""

import argparse
import csv
from pathlib import Path

from hetjax.errors import InputError
from hetjax.ingest import configuration

RESULTS = Path(__file__).parent / "results" / "graphstorm_configurations.csv"


def outcome(file: Path) -> tuple[str, str]:
    """What becomes of a configuration, and why."""
    reasons = []
    for leave_out, words in ((False, "as it is"), (True, "with parts left out")):
        try:
            config = configuration.read(file, file.parent, leave_out)
        except InputError as error:
            reasons.append(str(error).removeprefix(f"{file}: "))
            continue
        labelled = [table.node_type for table in config.nodes if table.label]
        if not labelled:
            return "refused", "no labels of nodes to classify" + (f"; {reasons[0]}" if reasons else "")
        return words, "; ".join(config.left_out)
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
    for kind in ("as it is", "with parts left out", "refused"):
        print(f"{kind}: {sum(row[1] == kind for row in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()
