"""`python -m bench`: every workload beside the floor program and Apache Kafka, in turns, with ratios and
verdicts.

python -m bench                          everything, five rounds, writes bench/RESULTS.md
python -m bench --quick                  a tenth of everything, one round: is it still alive?
python -m bench --only "small produce"   workloads whose name contains this (repeatable)
python -m bench --targets floor,ottla    without Apache Kafka
"""

from __future__ import annotations

import argparse
import compileall
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import report
from bench.apache.maven import CannotFetchError
from bench.memory import WarmPages
from bench.targets import BROKERS, MOCK, Target, started
from bench.workloads import WORKLOADS, Run, Workload

QUICK_SCALE = 0.1
WARM_UP_SCALE = 0.25
WARM_BYTES = 1_000_000_000  # more than any one measurement takes
SOURCE = Path(__file__).resolve().parents[1] / "src"
NEEDED_BYTES_PER_ROUND = 8_000_000_000

Values = dict[str, dict[str, dict[str, list[float]]]]


def measure(
    workloads: Sequence[Workload],
    targets: Sequence[Target],
    run: Run,
    pages: WarmPages,
    values: Values | None,
) -> None:
    """One round: each workload on each target in turn, another one first each time; a warm-up keeps no
    values.
    """
    first = run.number % len(targets)
    for workload in workloads:
        for target in [*targets[first:], *targets[:first]]:
            if target.name not in workload.targets:
                continue
            if workload.moves_much:
                pages.keep()
                pages.release()
            figures = workload.measure(target, run)
            if values is None:
                continue
            print(f"  {run.number}  {workload.name:34} {target.name:8} {_line(figures)}", flush=True)
            kept = values.setdefault(workload.name, {}).setdefault(target.name, {})
            for name, value in figures.items():
                kept.setdefault(name, []).append(value)


def _line(figures: dict[str, float]) -> str:
    return "  ".join(
        f"{name} {value:.3g}" if value < 100 else f"{name} {value:.0f}" for name, value in figures.items()
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Ottla beside its peers.")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of everything in one round; writes no results"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="workloads that contain NAME"
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="rounds (default: 5)")
    parser.add_argument(
        "--targets", default=",".join((*BROKERS, MOCK)), help="comma-separated (default: all)"
    )
    parser.add_argument(
        "--directory", type=Path, help="where the data goes (default: a new temporary directory)"
    )
    chosen = parser.parse_args()
    unknown = set(chosen.targets.split(",")) - {*BROKERS, MOCK}
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    return chosen


def choose(only: Sequence[str]) -> list[Workload]:
    return [workload for workload in WORKLOADS if not only or any(part in workload.name for part in only)]


def run_all(chosen: argparse.Namespace, directory: Path) -> Values:
    """Start everything, warm it up, measure round after round."""
    workloads, values = choose(chosen.only), Values()
    written: set[tuple[str, str]] = set()
    scale, rounds = (QUICK_SCALE, 1) if chosen.quick else (1.0, chosen.runs)
    pages = WarmPages(directory, int(WARM_BYTES * scale))
    with started(chosen.targets.split(","), directory) as targets:
        if not chosen.quick:
            print("warming up", flush=True)
            warm_up = [workload for workload in workloads if workload.name != "start and idle"]
            measure(warm_up, targets, Run(0, WARM_UP_SCALE, directory), pages, None)
        for number in range(1, rounds + 1):
            measure(workloads, targets, Run(number, scale, directory, written), pages, values)
    return values


def main() -> int:
    chosen = options()
    directory = chosen.directory or Path(tempfile.mkdtemp(prefix="ottla-bench-"))
    directory.mkdir(parents=True, exist_ok=True)
    needed = 1 << 30 if chosen.quick else NEEDED_BYTES_PER_ROUND * (chosen.runs + 1)
    if shutil.disk_usage(directory).free < needed:
        print(f"{directory} has less than the {needed / 1e9:.0f} GB that this needs", file=sys.stderr)
        return 2
    # As pip leaves an installed package; a checkout may lack it (PYTHONDONTWRITEBYTECODE), and compiles at
    # each start.
    compileall.compile_dir(str(SOURCE), quiet=1)
    facts = report.machine()
    try:
        values = run_all(chosen, directory)
    except CannotFetchError as reason:
        print(f"{reason}\nWithout it: --targets floor,ottla,mock", file=sys.stderr)
        return 2
    finally:
        if chosen.directory is None:
            shutil.rmtree(directory, ignore_errors=True)
    verdicts = report.verdicts_table(values, everything=not chosen.only)
    print("\n".join(["", *verdicts, "", *report.figures_table(values)]))
    if not chosen.quick and not chosen.only:
        report.write(values, shlex.join(["python", "-m", "bench", *sys.argv[1:]]), chosen.runs, facts)
        print(f"\nwritten to {report.RESULTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
