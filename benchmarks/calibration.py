"""The time of this machine's operations, beside that of the machine that the constants of orders are from
(`hetjax/kernels/calibration.py`).

`python benchmarks/calibration.py` measures some times over, as a run does once, writes `benchmarks/results/calibration.md`, and prints it:
of every operation the nanoseconds, least and most, and what a run here would count with.
"""

import argparse
from pathlib import Path

from hetjax.system import runtime

if __name__ == "__main__":
    runtime.prepare()

from hetjax.kernels import calibration
from hetjax.kernels.cost_model import Costs

OUT = Path(__file__).parent / "results" / "calibration.md"


def table(found: list[dict[str, float]]) -> str:
    lines = ["| operation | nanoseconds, least to most | on the machine of the constants | constant | counted with |"]
    lines.append("|---|---|---|---|---|")
    counted = [calibration.scaled(measured)._asdict() for measured in found]
    for name, reference in calibration.REFERENCE.items():
        every, used = ([one[name] for one in many] for many in (found, counted))
        words = " or ".join(f"{cost:.3g}" for cost in sorted(set(used)))
        usual = Costs()._asdict()[name]
        lines.append(f"| {name} | {min(every):.3g} to {max(every):.3g} | {reference:.3g} | {usual:.3g} | {words} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    found = table([calibration.measure() for _ in range(options.times)])
    cores = f"{runtime.cores()} core{'s' * (runtime.cores() > 1)}"
    options.out.write_text(f"# What orders are counted with, on {cores}, measured {options.times} times\n\n{found}\n")
    print(found)


if __name__ == "__main__":
    main()
