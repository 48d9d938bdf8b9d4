"""A proxy that reads nothing: what any gateway in Python costs at least. ``python bare_proxy.py PORT UPSTREAM``."""

import sys

import aiohttp
from aiohttp import web

_SESSION: web.AppKey[aiohttp.ClientSession] = web.AppKey("session", aiohttp.ClientSession)


async def _session(app: web.Application):  # type: ignore[no-untyped-def]  # aiohttp names no type for it
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        app[_SESSION] = session
        yield


async def _pass(request: web.Request) -> web.StreamResponse:
    url = sys.argv[2] + request.path_qs
    headers = {"content-type": "application/json", "authorization": "Bearer none"}
    async with request.app[_SESSION].post(url, data=await request.read(), headers=headers) as answer:
        if answer.content_type == "application/json":
            return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)
        response = web.StreamResponse(status=answer.status, headers={"content-type": answer.content_type})
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
        return response


def main() -> None:
    app = web.Application(client_max_size=1 << 26)
    app.cleanup_ctx.append(_session)
    app.router.add_post("/{path:.*}", _pass)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)


if __name__ == "__main__":
    main()
