"""A request that reaches only collectors without an answer must not delay a producer until its time limit."""

from collections.abc import Mapping
from typing import Any

from harness.natsd import NatsServer

from producer import receipts
from shipper.control import ReceiptsReply
from shipper.jetstream.connection import connect
from shipper.jetstream.publisher import JetStreamPublisher
from shipper.settings import NatsSettings
from shipper.subjects import control_up

HOST = "web1.example.net"


async def test_a_collector_that_starts_while_it_is_queried_answers_the_next_request(natsd: NatsServer):
    settings, questions = NatsSettings(url=natsd.url), []
    bystander, collector = [await connect(settings, name=name, inbox="_INBOX") for name in ("bystander", "collector")]

    async def answer(subject: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"archive": f"of {subject}", "through": question["partition"], "receipts": []}

    async def hear_only(subject: str, question: Mapping[str, Any]) -> None:
        questions.append(question)
        if len(questions) == 1:
            await collector.listen(control_up(">"), answer)

    await bystander.listen(control_up(">"), hear_only)
    publisher = await JetStreamPublisher.begin(settings, stream="LOGS_7", host=HOST, block_bytes=4096)
    try:
        told = await receipts.ask(publisher, HOST, 7, waits=receipts.STARTING_SECONDS)
        assert told == ReceiptsReply(f"of {control_up(HOST)}", 7, ())
        assert len(questions) == 2
    finally:
        for each in (publisher, bystander, collector):
            await each.close()


async def test_without_a_collector_no_request_waits_for_an_answer(natsd: NatsServer):
    settings, asked = NatsSettings(url=natsd.url), []
    publisher = await JetStreamPublisher.begin(settings, stream="LOGS_7", host=HOST, block_bytes=4096)
    ask = publisher.ask

    async def counted(*arguments: Any) -> Mapping[str, Any] | None:
        asked.append(arguments)
        return await ask(*arguments)

    publisher.ask = counted  # type: ignore[method-assign]
    try:
        assert await receipts.ask(publisher, HOST, 7, waits=receipts.STARTING_SECONDS) is None
        assert len(asked) == 1
    finally:
        await publisher.close()
