"""`make chaos`: break a cluster under load, print and keep the verdict.

python -m tests.chaos --faults 200 --seed 7
python -m tests.chaos --faults 20 --only "kill -9 a leader" --keep /tmp/chaos
python -m tests.chaos --machines --faults 500   packets, power and disks are lost, too; needs root
python -m tests.chaos --calm --minutes 5        nothing breaks on a busy machine, and nobody must think so (false_alarms.py)
python -m tests.chaos --secure                  TLS, logins and rights, which change meanwhile (secured.py)
python -m tests.chaos --tiered                  segments move to an object store that goes away and lies (tiered.py)
python -m tests.chaos --transactions            transactional clients (transactions/)
python -m tests.chaos --spark --faults 100      the one through Spark (spark.py), which has options of its own
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.apache.maven import CannotFetchError
from tests.chaos.faults import KINDS, TRANSACTION_KINDS, Kind
from tests.chaos.java_workload import compiled
from tests.chaos.machines.commands import NoMachinesError, check_system
from tests.chaos.machines.faults import FLUSHED_KINDS, MACHINE_KINDS
from tests.chaos.report import page, write_page
from tests.chaos.run import Options, run
from tests.chaos.secured_faults import SECURE_KINDS
from tests.chaos.tiered import TIERED_KINDS
from tests.repository import ROOT

RESULTS = Path(__file__).with_name("RESULTS.md")
MACHINE_RESULTS = Path(__file__).with_name("RESULTS_MACHINES.md")
TIERED_RESULTS = Path(__file__).with_name("RESULTS_TIERED.md")
SECURE_RESULTS = Path(__file__).with_name("RESULTS_SECURE.md")
TRANSACTION_RESULTS = Path(__file__).with_name("RESULTS_TRANSACTIONS.md")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 16))
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--rate", type=float, default=150.0, help="records per second of each producer")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*{**FLUSHED_KINDS, **TRANSACTION_KINDS, **SECURE_KINDS, **TIERED_KINDS}],
        help="only this kind of fault; repeatable",
    )
    parser.add_argument(
        "--machines",
        action="store_true",
        help="each broker in a network namespace and on a file system of its own: packets, power and disks are lost, too (root)",
    )
    parser.add_argument(
        "--transactions", action="store_true", help="transactional writers, processors and readers"
    )
    parser.add_argument(
        "--secure", action="store_true", help="certificates, passwords and rights that change meanwhile"
    )
    parser.add_argument(
        "--tiered", action="store_true", help="an object store that goes away and changes bytes"
    )
    parser.add_argument("--no-java", action="store_true", help="only confluent-kafka")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of all brokers"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        help="where to keep logs, data and journals, which are otherwise kept only if a promise is broken",
    )
    parser.add_argument("--no-results", action="store_true", help="do not write RESULTS.md")
    return parser


def options_from(arguments: list[str] | None = None) -> tuple[Options, argparse.Namespace]:
    parser = _parser()
    given = parser.parse_args(arguments)
    settings = dict(each.split("=", 1) for each in given.set)
    if given.secure and (given.transactions or given.machines):
        parser.error("--secure goes neither with --transactions nor with --machines")
    if given.tiered and (given.transactions or given.machines or given.secure):
        parser.error("--tiered goes with none of --transactions, --machines and --secure")
    kinds = TRANSACTION_KINDS if given.transactions else _kinds(given.machines, settings)
    kinds = SECURE_KINDS if given.secure else TIERED_KINDS if given.tiered else kinds
    if unknown := set(given.only or ()) - set(kinds):
        parser.error(
            "not without --machines, --transactions, --secure, --tiered or --set ottla.flush.on.acks.all=true: "
            + ", ".join(unknown)
        )
    options = Options(
        faults=given.faults,
        seed=given.seed,
        brokers=given.brokers,
        partitions=given.partitions,
        rate=given.rate,
        with_java=not (given.no_java or given.secure) and _has_java(),
        kinds={name: kinds[name] for name in given.only or kinds},
        settings=settings,
        on_machines=given.machines,
        is_secure=given.secure,
        is_tiered=given.tiered,
    )
    return options, given


def _kinds(on_machines: bool, settings: Mapping[str, str]) -> Mapping[str, Kind]:
    if not on_machines:
        return KINDS
    return FLUSHED_KINDS if settings.get("ottla.flush.on.acks.all") == "true" else MACHINE_KINDS


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


def _with_transactions(directory: Path, options: Options, *, write: bool) -> bool:
    """Whether all promises to transactional clients were kept."""
    from tests.chaos.transactions import report, run

    done = run.run(directory, options, lambda line: print(line, flush=True))
    text = report.page(done, _commit())
    print(text)
    if write:
        TRANSACTION_RESULTS.write_text(text, encoding="utf-8")
    return done.is_clean


def _run_and_judge(directory: Path, options: Options, given: argparse.Namespace) -> bool:
    """Whether all promises were kept."""
    if given.transactions:
        return _with_transactions(directory, options, write=not given.no_results)
    report = run(directory, options, lambda line: print(line, flush=True))
    commit = _commit()
    print(page(report, commit))
    if not given.no_results:
        results = SECURE_RESULTS if options.is_secure else TIERED_RESULTS if options.is_tiered else RESULTS
        write_page(MACHINE_RESULTS if options.on_machines else results, report, commit)
    return report.is_clean


def main() -> int:
    if "--spark" in sys.argv:
        from tests.chaos.spark import main as through_spark

        return through_spark()
    if "--calm" in sys.argv:
        from tests.chaos.false_alarms import main as on_a_busy_machine

        return on_a_busy_machine()
    options, given = options_from()
    if options.on_machines:
        check_system()
    print(f"seed {options.seed}: {options.faults} faults", flush=True)
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    directory, is_clean = Path(tempfile.mkdtemp(dir=given.keep)), False
    try:
        is_clean = _run_and_judge(directory, options, given)
    finally:
        if is_clean and given.keep is None:
            shutil.rmtree(directory)
        else:
            # What broke may not break again: its logs and journals are all that there is to look at.
            print(f"logs, data and journals: {directory}", flush=True)
    return 0 if is_clean else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NoMachinesError as missing:
        sys.exit(f"Error: no machines here: {missing}")
