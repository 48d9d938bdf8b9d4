"""A web service: answers stream to the browser, chats are kept, and each user has a budget.

It shows one `AsyncClient` for a program: `pip install fastapi uvicorn; uvicorn --app-dir examples app_fastapi:app`
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from dragoman import AsyncClient, AsyncSession, Budget, BudgetExceededError, DragomanError, Store

MODEL = os.environ.get("MODEL", "anthropic:claude-haiku-4-5")


class Question(BaseModel):
    prompt: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    budget = Budget(usd="0.50", per="user")
    with Store(os.environ.get("STORE", "sqlite:///chats.db")) as store:
        async with AsyncClient(store=store, budgets=[budget]) as client:
            app.state.client, app.state.store, app.state.budget = client, store, budget
            yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(BudgetExceededError)
async def refuse(request: Request, error: BudgetExceededError) -> JSONResponse:
    return JSONResponse({"error": "your budget is spent"}, status_code=402)


User = Annotated[str, Header(alias="x-user")]  # for trying it out: your own authentication says who asks


@app.post("/chats")
async def start(question: Question, request: Request, user: User) -> dict[str, str]:
    session = request.app.state.client.session(MODEL, user_id=user)
    reply = await session.ask(question.prompt, max_output_tokens=500)
    return {"id": session.session_id, "text": reply.text}


@app.post("/chats/{session_id}")
async def go_on(session_id: str, question: Question, request: Request, user: User) -> StreamingResponse:
    if request.app.state.store.record(session_id).user_id != user:
        raise HTTPException(404)  # somebody else's chat
    session = await request.app.state.client.resume(session_id, user_id=user)
    return StreamingResponse(events(session, question.prompt), media_type="text/event-stream")


async def events(session: AsyncSession, prompt: str) -> AsyncIterator[str]:
    try:
        async with session.stream(prompt, max_output_tokens=500) as stream:
            async for text in stream.text_deltas():
                yield f"data: {json.dumps({'text': text})}\n\n"
        yield f"data: {json.dumps({'cost': str(stream.reply.cost)})}\n\n"
    except DragomanError as error:  # the status was sent already
        yield f"event: error\ndata: {json.dumps({'error': type(error).__name__})}\n\n"
