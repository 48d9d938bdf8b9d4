"""Files of a workspace: which files are read, which are not, and what a request contains."""

import base64
import contextlib
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    TextBlock,
    ToolResultBlock,
    VideoBlock,
)
from dragoman.canonical.message import Message
from dragoman.session import Session, media, tool
from dragoman.session.history import RequestHistory
from dragoman.session.media import MediaFiles, read_inside
from tests.packaging.systems import PROCESSES, READS_FILES, needs_proc
from tests.unit.session.drivers import ANTHROPIC, Driver, Wire, texts
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic

UNICODE = ("ünï.png",) if sys.getfilesystemencoding() == "utf-8" else ()
"""A name that a system of ASCII names cannot hold."""

SECRET = b"secret of the host"
PIXEL = b"\x89PNG pixel"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder of files, with every kind of trap, next to a file outside the workspace."""
    if not READS_FILES:
        pytest.skip("this system refuses every file of a workspace")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.png").write_bytes(SECRET)
    root = tmp_path / "work"
    (root / "docs" / "deep").mkdir(parents=True)
    for name in (
        "a.png",
        "docs/b.png",
        "docs/deep/c.png",
        "...",
        ".hidden.png",
        "~",
        "with space.png",
        "-rf",
        *UNICODE,
    ):
        (root / name).write_bytes(PIXEL)
    (root / "empty.png").write_bytes(b"")
    (root / "link.png").symlink_to(outside / "secret.png")
    (root / "inner_link.png").symlink_to("a.png")
    (root / "dangling.png").symlink_to("nowhere.png")
    (root / "loop.png").symlink_to("loop.png")
    (root / "folder_link").symlink_to(outside)
    (root / "docs_link").symlink_to("docs")
    (root / "up_link").symlink_to("..")
    (root / "docs" / "chain").symlink_to("../folder_link")
    os.mkfifo(root / "pipe.png")
    return root


@pytest.mark.parametrize(
    "path",
    [
        "a.png", "docs/b.png", "docs/deep/c.png", "./a.png", "docs/./b.png", "docs//b.png", "...", ".hidden.png", "~",
        "with space.png", "-rf", *UNICODE, "././docs/././deep/c.png",
    ],
)  # fmt: skip
def test_files_inside_the_workspace_are_read(workspace: Path, path: str) -> None:
    """Plain relative paths, however they are spelt."""
    assert read_inside(workspace, path) == PIXEL


@pytest.mark.parametrize(
    "path",
    [
        # Nothing, roots, folders.
        "", "/", ".", "./", "a.png/", "a.png/.", "docs", "docs/", "docs/.", "/etc/passwd", "//etc/passwd",
        "///etc/passwd", "/proc/self/environ", "/dev/zero",
        # Upwards, also where the way would lead back inside.
        "..", "../", "../outside/secret.png", "docs/../../outside/secret.png", "docs/../a.png", "docs/..",
        "docs/deep/../../../outside/secret.png", "./../outside/secret.png", "..//outside/secret.png", "docs/\n../b.png",
        # Links, also those that stay inside, and what is not a regular file.
        "link.png", "inner_link.png", "dangling.png", "loop.png", "folder_link/secret.png", "docs_link/b.png",
        "up_link/outside/secret.png", "docs/chain/secret.png", "docs/chain/../a.png", "pipe.png", "a.png/b.png",
        # Spellings of other systems, and of none.
        "\0", "a.png\0", "a.png\0.txt", "..\\outside\\secret.png", "docs\\b.png", "C:\\a.png", "\\\\host\\share\\a.png",
        "%2e%2e/outside/secret.png", "..%2foutside/secret.png", "~/a.png", "~root/a.png", "file:///etc/passwd",
        "file:a.png", "https://example.org/a.png", "\u2024\u2024/outside/secret.png", "\uff0e\uff0e/outside/secret.png",
        "..\u200b/outside/secret.png", "\ud800.png", "..\n/a.png", "a.png ", " a.png", "A.PNG/",
        # What is not there, or cannot be.
        "nowhere.png", "docs/nowhere/c.png", "x" * 300, "x/" * 3000 + "a.png", "docs/nowhere.png", ".png", "a", "a.",
        # Ways around that end where they began, or at another door.
        "/./a.png", "//a.png", "docs/./../a.png", "folder_link/../a.png", "folder_link", "docs_link/../a.png",
        "up_link/work/a.png", "/proc/self/cwd/a.png", "/dev/fd/0", "/dev/stdin",
    ],
)  # fmt: skip
def test_other_files_are_not_read(workspace: Path, path: str) -> None:
    """Not by dots, absolute paths, links, pipes or unusual spelling; the error is typed and shows no secret."""
    with pytest.raises(RequestError) as caught:
        read_inside(workspace, path)
    assert "the file" in str(caught.value)
    assert str(workspace) not in str(caught.value)
    assert len(str(caught.value)) < 400


@needs_proc
def test_devices_and_sockets_are_not_opened(workspace: Path) -> None:
    """Only regular files: opening anything else may wait, or do something."""
    short = os.open(workspace, os.O_RDONLY)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(f"/proc/self/fd/{short}/socket.png")
        with pytest.raises(RequestError, match="not a regular file"):
            read_inside(workspace, "socket.png")
    finally:
        listener.close()
        os.close(short)
    with pytest.raises(RequestError, match="not a regular file"):
        read_inside(Path("/dev"), "null")


def test_a_file_over_the_cap_is_refused(workspace: Path) -> None:
    """At the cap it is read, and not above."""
    (workspace / "big.png").write_bytes(b"x" * 100)
    assert len(read_inside(workspace, "big.png", 100)) == 100
    with pytest.raises(RequestError, match="over 99 bytes"):
        read_inside(workspace, "big.png", 99)
    assert media.MAX_FILE_BYTES == 20 * 1024 * 1024


@needs_proc
def test_a_wrong_file_size_is_noticed() -> None:
    """While reading: files under /proc say that they are empty."""
    with pytest.raises(RequestError, match="over 10 bytes"):
        read_inside(PROCESSES, "status", 10)


def test_an_unreadable_file_has_a_reason(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreadable file has a reason: the system's own reason, without the path of the workspace."""

    def deny(*_: Any, **__: Any) -> int:
        raise PermissionError(13, "Permission denied", str(workspace))

    monkeypatch.setattr(os, "open", deny)
    with pytest.raises(RequestError, match="cannot be read: Permission denied"):
        read_inside(workspace, "a.png")


def test_a_system_without_safe_opening_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that a link could replace is not read."""
    monkeypatch.setattr(media, "_SAFE_OPEN", False)
    (tmp_path / "a.png").write_bytes(PIXEL)
    with pytest.raises(RequestError, match="send base64 instead"):
        read_inside(tmp_path, "a.png")


def test_a_race_of_links_never_leads_outside(workspace: Path) -> None:
    """While a folder and a file turn into links and back again, every read is the inner file or an error."""
    outside = workspace.parent / "outside"
    real, folder, file = workspace / "real", workspace / "swapped", workspace / "swapped.png"
    real.mkdir()
    (real / "secret.png").write_bytes(PIXEL)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            real.rename(folder)
            file.write_bytes(PIXEL)
            folder.rename(real)
            file.unlink()
            folder.symlink_to(outside)
            file.symlink_to(outside / "secret.png")
            folder.unlink()
            file.unlink()

    racer = threading.Thread(target=swap)
    racer.start()
    outcomes: set[bytes] = set()
    try:
        for number in range(10_000):
            try:
                outcomes.add(read_inside(workspace, ("swapped/secret.png", "swapped.png")[number % 2]))
            except RequestError:
                outcomes.add(b"refused")
    finally:
        over.set()
        racer.join()
    assert SECRET not in outcomes
    assert b"refused" in outcomes
    assert outcomes <= {b"refused", PIXEL, b""}


@pytest.mark.parametrize("trap", ["link", "pipe"])
def test_a_file_that_changes_before_opening_is_refused(
    workspace: Path, trap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The narrowest race, made certain: a regular file at the check, a trap at the open."""
    file, real_stat = workspace / "a.png", os.stat

    def look_then_swap(*args: Any, **kwargs: Any) -> os.stat_result:
        seen = real_stat(*args, **kwargs)
        file.unlink()
        if trap == "link":
            file.symlink_to(workspace.parent / "outside" / "secret.png")
        else:
            os.mkfifo(file)
        return seen

    monkeypatch.setattr(os, "stat", look_then_swap)
    with pytest.raises(RequestError):
        read_inside(workspace, "a.png")


def open_descriptors() -> int:
    """Of this process: a folder of them is under /proc on Linux, and under /dev on every other POSIX system."""
    return len(list((PROCESSES / "fd" if PROCESSES.exists() else Path("/dev/fd")).iterdir()))


def test_no_descriptor_is_left_open(workspace: Path) -> None:
    """No descriptor is left open, neither after a read nor after a refusal."""
    before = open_descriptors()
    for path in ("a.png", "docs/deep/c.png", "docs/nowhere/c.png", "link.png", "pipe.png", "folder_link/x", ".."):
        for _ in range(20):
            with contextlib.suppress(RequestError):
                read_inside(workspace, path, 5)
    assert open_descriptors() == before


@pytest.mark.parametrize("root", ["nowhere", "a.png", "pipe.png"])
def test_a_workspace_is_a_folder(workspace: Path, root: str) -> None:
    """Anything else is refused when the session is made; a link to a folder is the caller's own choice."""
    with pytest.raises(ConfigurationError, match="is not a folder"):
        Session(ANTHROPIC, workspace=workspace / root)
    assert Session(ANTHROPIC, workspace=str(workspace / "docs_link")).messages == ()


def ref(path: str) -> MediaSource:
    return MediaSource(kind="file_ref", data=path)


@pytest.mark.parametrize(
    ("block", "media_type", "kind"),
    [
        (ImageBlock(source=ref("a.png")), "image/png", "base64"),
        (ImageBlock(source=ref("a.JPG")), "image/jpeg", "base64"),
        (ImageBlock(source=ref("a.odd"), media_type="image/x-odd"), "image/x-odd", "base64"),
        (AudioBlock(source=ref("a.mp3")), "audio/mpeg", "base64"),
        (VideoBlock(source=ref("a.mp4")), "video/mp4", "base64"),
        (DocumentBlock(source=ref("a.pdf")), "application/pdf", "base64"),
        (DocumentBlock(source=ref("a.md")), "text/plain", "text"),
        (DocumentBlock(source=ref("a.odd"), media_type="text/odd"), "text/odd", "text"),
        (DocumentBlock(source=ref("a.txt"), media_type="application/x-odd"), "application/x-odd", "base64"),
    ],
)
def test_the_media_type_is_the_blocks_or_the_extensions(
    tmp_path: Path, block: ContentBlock, media_type: str, kind: str
) -> None:
    """A text document becomes text, everything else base64."""
    (tmp_path / block.source.data).write_text("hi")  # type: ignore[union-attr]
    (filled,) = MediaFiles(tmp_path).inline_blocks([block])
    expected = "hi" if kind == "text" else base64.b64encode(b"hi").decode()
    assert filled.media_type == media_type  # type: ignore[union-attr]
    assert filled.source == MediaSource(kind=kind, data=expected)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (ImageBlock(source=ref("a.odd")), "has an extension without a known media type: give the block its media_type"),
        (ImageBlock(source=ref("a")), "without a known media type"),
        (ImageBlock(source=ref("a.pdf")), "is application/pdf, no image"),
        (AudioBlock(source=ref("a.png")), "is image/png, no audio"),
        (VideoBlock(source=ref("a.mp3")), "is audio/mpeg, no video"),
        (DocumentBlock(source=ref("a.png")), "is image/png, no document"),
        (DocumentBlock(source=ref("a.txt")), "is not UTF-8 text"),
    ],
)
def test_a_file_of_the_wrong_kind_is_refused(tmp_path: Path, block: ContentBlock, message: str) -> None:
    """The error says what to do."""
    (tmp_path / block.source.data).write_bytes(b"\xff")  # type: ignore[union-attr]
    with pytest.raises(RequestError, match=message):
        MediaFiles(tmp_path).inline_blocks([block])


def test_other_sources_are_left_alone(tmp_path: Path) -> None:
    """Messages without files are returned as the same objects."""
    messages = [
        Message.user(
            [ImageBlock(source=MediaSource(kind="url", data="https://example.org/a.png")), TextBlock(text="x")]
        )
    ]
    assert RequestHistory(None).read(messages)[0] is messages[0]
    (filled,) = RequestHistory(tmp_path).read([Message.user([TextBlock(text="x"), *messages[0].content])])
    assert filled.content == (TextBlock(text="x"), *messages[0].content)


def test_texts_open_no_files() -> None:
    history = RequestHistory(None)
    history.read([Message.user("Hi"), Message.assistant("Hello")])
    assert "files" not in vars(history)


def test_a_file_of_an_earlier_message_is_read_once(tmp_path: Path) -> None:
    """Each request repeats the bytes of the one before it, also after another history was read."""
    (tmp_path / "a.png").write_bytes(b"first")
    history, messages = RequestHistory(tmp_path), [Message.user([ImageBlock(source=ref("a.png"))])]
    filled = history.read(messages)[0]
    (tmp_path / "a.png").write_bytes(b"second")
    assert history.read([*messages, Message.assistant("A picture.")])[0] is filled
    other = [Message.user("Hi")]
    assert history.read(other) == other
    assert history.read(messages)[0] is filled


def test_a_message_that_becomes_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size cap of messages holds for their files as well, with a typed error."""
    monkeypatch.setattr("dragoman.canonical.guard.MAX_BODY_BYTES", 1000)
    (tmp_path / "a.png").write_bytes(b"x" * 900)
    with pytest.raises(RequestError, match="cannot be sent with its files"):
        RequestHistory(tmp_path).read([Message.user([ImageBlock(source=ref("a.png"))])])


def image_sent(request: dict[str, Any]) -> list[str]:
    parts = [part for message in request["messages"] for part in message["content"] if isinstance(part, dict)]
    inner = [
        each for part in parts if part["type"] == "tool_result" for each in part["content"] if isinstance(each, dict)
    ]
    return [base64.b64decode(part["source"]["data"]).decode() for part in parts + inner if part["type"] == "image"]


OK = handwritten_anthropic("Seen.")


def test_the_history_keeps_the_path_and_the_request_the_bytes(driver: Driver, tmp_path: Path) -> None:
    """The same bytes in every request of the session, although the file changes; a new session reads it again."""
    (tmp_path / "a.png").write_text("first")
    wire = Wire([OK, OK, OK])
    session = driver.session({"anthropic": wire}, workspace=tmp_path)
    image = ImageBlock(source=ref("a.png"))
    driver.ask(session, [TextBlock(text="What is this?"), image])
    (tmp_path / "a.png").write_text("second")
    driver.ask(session, [TextBlock(text="And this?"), image])
    assert [image_sent(request) for request in wire.requests] == [["first"], ["first", "first"]]
    assert session.messages[0].content[1] == image
    assert b"file_ref" in session.dump()
    back = type(session).load(session.dump(), workspace=tmp_path, providers=session.providers)
    driver.ask(back, "Still?")
    assert image_sent(wire.requests[2]) == ["second", "second"]


@pytest.mark.parametrize(
    ("workspace", "path", "message"),
    [
        (None, "a.png", "the session has no workspace"),
        (".", "../a.png", "does not lie inside"),
        (".", "b.png", "not there"),
    ],
)
def test_an_unreadable_file_stops_the_request(
    driver: Driver, tmp_path: Path, workspace: str | None, path: str, message: str
) -> None:
    """Before anything is sent, and with nothing kept."""
    root = None if workspace is None else tmp_path
    wire = Wire([OK])
    session = driver.session({"anthropic": wire}, workspace=root)
    for ask in (driver.ask, driver.stream):
        with pytest.raises(RequestError, match=message):
            ask(session, ImageBlock(source=ref(path)))
    assert not wire.requests
    assert session.messages == ()


def test_a_tool_answer_may_name_a_file(driver: Driver, tmp_path: Path) -> None:
    """It is read like any other. An unreadable one becomes an error for the model, and later requests still work."""

    @tool(side_effects="read")
    def shoot(path: str) -> ImageBlock:
        """Take a picture."""
        return ImageBlock(source=ref(path))

    (tmp_path / "a.png").write_text("shot")
    two = handwritten_anthropic(Call("t1", "shoot", {"path": "a.png"}), Call("t2", "shoot", {"path": "../b.png"}))
    wire = Wire([two, OK, OK])
    session = driver.session({"anthropic": wire}, tools=[shoot], workspace=tmp_path)
    driver.ask(session, "Shoot.")
    assert image_sent(wire.requests[1]) == ["shot"]
    results = [result for message in session.messages for result in message.tool_results]
    assert [result.is_error for result in results] == [False, True]
    assert "'../b.png' does not lie inside" in texts(session)[3][1]
    driver.ask(session, "And?")
    assert len(wire.requests) == 3


def test_nested_results_are_filled(tmp_path: Path) -> None:
    """Wherever a block may lie."""
    (tmp_path / "a.png").write_bytes(PIXEL)
    image = ImageBlock(source=ref("a.png"))
    nested = ToolResultBlock(tool_use_id="tu_1", content=(ToolResultBlock(tool_use_id="tu_2", content=(image,)),))
    (filled,) = MediaFiles(tmp_path).inline_blocks([nested])
    assert "file_ref" not in filled.model_dump_json()
    assert "base64" in filled.model_dump_json()
