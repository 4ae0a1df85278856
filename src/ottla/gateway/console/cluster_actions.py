"""Changes of the cluster: end transactions; start and stop brokers of a local cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.client.requests.outcomes import succeeded
from ottla.client.requests.transactions import ActiveProducer, TransactionDescription
from ottla.errors import KafkaError
from ottla.gateway.console.actions import Plan, Planner, counted
from ottla.gateway.console.broker_control import BrokerControl
from ottla.gateway.console.door import Visit
from ottla.gateway.console.machine.questions import Body
from ottla.gateway.http.machine.http_error import HttpError
from ottla.model import TopicPartition

_VERBS: Final = {
    "start": "Starts broker {0}.",
    "stop": "Stops broker {0}: its leaders move to other brokers first.",
    "kill": "Kills broker {0} at once, as if its machine lost power. Partitions without another replica are gone until"
    " it is started again.",
    "restart": "Stops broker {0}, and starts it again.",
    "pause": "Lets broker {0} stand still, as if its machine hung.",
    "resume": "Lets broker {0} go on.",
}


def planners(control: BrokerControl | None) -> Mapping[str, Planner]:
    """The actions of this module by name."""

    async def broker(visit: Visit, body: Body) -> Plan:
        return await _broker(visit, body, control)

    return {
        "abort-transaction": _abort,
        "abort-hanging": _abort_hanging,
        "broker": broker,
    }


async def _abort(visit: Visit, body: Body) -> Plan:
    name = body.text("transactional_id")
    found = (await visit.admin.describe_transactions([name]))[name]
    if isinstance(found, KafkaError):
        raise found
    if not found.is_unfinished:
        raise HttpError(409, f"the transaction of {name!r} is not open: it is {found.state}")

    async def carry_out() -> str:
        succeeded(await visit.admin.fence_producers([name]))
        return f"The transaction of {name} is aborted."

    return Plan(
        _aborted(found),
        visit.commands.line("transactions", "abort", name),
        carry_out,
        is_destructive=True,
        name=name,
    )


def _aborted(found: TransactionDescription) -> str:
    what = (
        f"Aborts the open transaction of {found.transactional_id} in {counted(len(found.partitions), 'partition')}:"
        " readers of committed records never see what it wrote. Its producer gets an error at its next step."
    )
    if found.is_two_phase:
        what += " It is prepared by two-phase commit: its application may have decided to commit it."
    return what


async def _abort_hanging(visit: Visit, body: Body) -> Plan:
    place = TopicPartition(body.text("topic"), body.number("partition", 0, 2**31 - 1))
    producer_id = body.number("producer_id")
    await visit.caller.topics.check_partition(*place)
    producers = succeeded(await visit.admin.describe_producers([place]))[place]
    open_ones: list[ActiveProducer] = [
        each for each in producers if each.producer_id == producer_id and each.open_since_offset is not None
    ]
    if not open_ones:
        raise HttpError(409, f"producer {producer_id} has no open transaction in {place}")

    async def carry_out() -> str:
        await visit.admin.abort_transaction(place, open_ones[0])
        return f"An abort marker is written to {place}: its readers go on."

    what = (
        f"Writes an abort marker for producer {producer_id} to {place}: what it wrote there from offset"
        f" {open_ones[0].open_since_offset} on is not read. Only for a transaction that no coordinator knows."
    )
    command = visit.commands.line(
        "transactions", "abort", partition=f"{place.topic}:{place.partition}", producer_id=producer_id
    )
    return Plan(what, command, carry_out, is_destructive=True, name=str(place))


async def _broker(visit: Visit, body: Body, control: BrokerControl | None) -> Plan:
    if control is None:
        raise HttpError(
            409,
            "only the brokers of a local cluster can be started and stopped here: ottla cluster up --gateway",
        )
    verb, broker = body.choice("verb", _VERBS), body.number("broker", 0, 2**31 - 1)
    if broker not in await control.conditions():
        raise HttpError(404, f"there is no broker {broker} in this cluster")

    async def carry_out() -> str:
        try:
            if verb == "restart":
                await control.command("stop", broker)
            return await control.command("start" if verb == "restart" else verb, broker)
        except ValueError as error:
            raise HttpError(409, str(error)) from error

    words = ("stop", "start") if verb == "restart" else (verb,)
    command = " && ".join(f"ottla cluster {word} {broker} --data {control.data}" for word in words)
    is_destructive = verb in ("kill", "stop")
    return Plan(_VERBS[verb].format(broker), command, carry_out, is_destructive, f"broker {broker}")
