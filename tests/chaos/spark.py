"""`make chaos ARGS="--spark"`: kill what stands between a topic and its table, print and keep the verdict.

python -m tests.chaos.spark --faults 100 --seed 7
python -m tests.chaos.spark --sink --faults 100 --seed 7   from topic to topic, exactly once
python -m tests.chaos.spark --faults 10 --only "the driver" --keep /tmp/chaos
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.chaos.spark_kills import KINDS
from tests.chaos.spark_report import page, write_page
from tests.chaos.spark_run import Options, Report, run
from tests.repository import ROOT

RESULTS = Path(__file__).with_name("RESULTS_SPARK.md")
SINK_RESULTS = Path(__file__).with_name("RESULTS_SPARK_SINK.md")


def options_from(arguments: list[str] | None = None) -> tuple[Options, argparse.Namespace]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    defaults = Options(0, 0)
    parser.add_argument("--spark", action="store_true", help="what this is; for `make chaos`")
    parser.add_argument("--sink", action="store_true", help="a query that writes exactly once to a topic")
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 16))
    parser.add_argument("--partitions", type=int, default=defaults.partitions)
    parser.add_argument(
        "--rate", type=float, default=defaults.rate, help="records per second of each producer"
    )
    parser.add_argument("--master", default=defaults.master, help="a local-cluster of Spark")
    parser.add_argument("--only", action="append", choices=list(KINDS), help="only this kind; repeatable")
    parser.add_argument("--keep", type=Path, help="where to keep logs, data, table and journals")
    parser.add_argument("--no-results", action="store_true", help="do not write the page of results")
    given = parser.parse_args(arguments)
    options = Options(
        kills=given.faults,
        seed=given.seed,
        partitions=given.partitions,
        rate=given.rate,
        master=given.master,
        kinds=tuple(given.only or KINDS),
        to_topic=given.sink,
    )
    return options, given


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _run_in(directory: Path, options: Options) -> Report:
    return run(directory, options, lambda line: print(line, flush=True))


def main(arguments: list[str] | None = None) -> int:
    options, given = options_from(arguments)
    commit = _commit()
    print(f"seed {options.seed}: {options.kills} kills", flush=True)
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        report = _run_in(Path(tempfile.mkdtemp(dir=given.keep)), options)
    else:
        with tempfile.TemporaryDirectory() as directory:
            report = _run_in(Path(directory), options)
    print(page(report, commit))
    if not given.no_results:
        write_page(SINK_RESULTS if options.to_topic else RESULTS, report, commit)
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
