"""`make chaos`: break a cluster under load, print and keep the verdict.

python -m tests.chaos --faults 200 --seed 7
python -m tests.chaos --faults 20 --only "kill -9 a leader" --keep /tmp/chaos
python -m tests.chaos --spark --faults 100      the one through Spark (spark.py), which has options of its own
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.apache.maven import CannotFetchError
from tests.chaos.faults import KINDS
from tests.chaos.java_workload import compiled
from tests.chaos.report import page, write_page
from tests.chaos.run import Options, Report, run
from tests.repository import ROOT

RESULTS = Path(__file__).with_name("RESULTS.md")


def options_from(arguments: list[str] | None = None) -> tuple[Options, argparse.Namespace]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 16))
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--rate", type=float, default=150.0, help="records per second of each producer")
    parser.add_argument(
        "--only", action="append", choices=list(KINDS), help="only this kind of fault; repeatable"
    )
    parser.add_argument("--no-java", action="store_true", help="only confluent-kafka")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of all brokers"
    )
    parser.add_argument("--keep", type=Path, help="where to keep logs, data and journals")
    parser.add_argument("--no-results", action="store_true", help="do not write RESULTS.md")
    given = parser.parse_args(arguments)
    options = Options(
        faults=given.faults,
        seed=given.seed,
        brokers=given.brokers,
        partitions=given.partitions,
        rate=given.rate,
        with_java=not given.no_java and _has_java(),
        kinds=tuple(given.only or KINDS),
        settings=dict(each.split("=", 1) for each in given.set),
    )
    return options, given


def _has_java() -> bool:
    try:
        compiled()
    except CannotFetchError as reason:
        print(f"WITHOUT THE JAVA CLIENT: {reason}", flush=True)
        return False
    return True


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _run_in(directory: Path, options: Options) -> Report:
    return run(directory, options, lambda line: print(line, flush=True))


def main() -> int:
    if "--spark" in sys.argv:
        from tests.chaos.spark import main as through_spark

        return through_spark()
    options, given = options_from()
    print(f"seed {options.seed}: {options.faults} faults", flush=True)
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        report = _run_in(Path(tempfile.mkdtemp(dir=given.keep)), options)
    else:
        with tempfile.TemporaryDirectory() as directory:
            report = _run_in(Path(directory), options)
    commit = _commit()
    print(page(report, commit))
    if not given.no_results:
        write_page(RESULTS, report, commit)
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
