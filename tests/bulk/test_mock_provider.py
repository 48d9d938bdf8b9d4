"""The mock provider of the bulk tests leaves nothing behind."""

import asyncio

from tests.bulk.mock_provider import RequestCounts

BODY = b"row 1"
REQUEST = b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(BODY), BODY)


def test_connections_of_the_mock_provider_end_before_its_loop() -> None:
    """A connection that waits for its reply ends too, and so does one that has sent nothing."""

    async def main() -> None:
        counts = RequestCounts(seconds=3600.0)
        async with counts.listen() as port:
            _, asking = await asyncio.open_connection("127.0.0.1", port)
            _, silent = await asyncio.open_connection("127.0.0.1", port)
            asking.write(REQUEST)
            while not counts.in_flight:
                await asyncio.sleep(0.001)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        for client in (asking, silent):
            client.close()

    asyncio.run(main())
