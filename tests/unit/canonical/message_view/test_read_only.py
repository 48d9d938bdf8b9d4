"""Views are read-only: nothing reached through one can change the message or the extensions."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.message_view.view import MessageView
from tests.tables import each_row
from tests.unit.canonical.extensions.samples import full
from tests.unit.canonical.message_view.test_view import SQL, block

ACCESSORS = sorted(name for name in dir(MessageView) if isinstance(getattr(MessageView, name), property))


def call_view() -> MessageView:
    call = ToolUseBlock(id="tu_1", name="execute_sql", input={"query": "SELECT 1", "limits": [1, {"n": [2]}]})
    return MessageView(call, Role.ASSISTANT, hook="evaluate", extensions=full(), tool=SQL)


def args(view: MessageView) -> Any:
    return view.args


def everything(view: MessageView) -> dict[str, Any]:
    return {name: getattr(view, name) for name in ACCESSORS} | {"json": view.to_dict()}


@each_row("name", [*ACCESSORS, "_part", "_extensions", "_role", "new"])
def test_no_attribute_can_be_set_or_deleted(name: str) -> None:
    view = call_view()
    with pytest.raises(AttributeError):
        setattr(view, name, None)
    with pytest.raises(AttributeError):
        delattr(view, name)
    assert not hasattr(view, "__dict__")


REFUSED: list[Callable[[MessageView], Any]] = [
    lambda view: view.headers.update(a="b"), lambda view: view.headers.__setitem__("a", "b"),
    lambda view: view.headers.pop("X-Trace"), lambda view: view.headers.clear(),
    lambda view: args(view).clear(), lambda view: args(view).__setitem__("query", "DROP"),
    lambda view: args(view)["limits"].append(3), lambda view: args(view)["limits"][1].clear(),
    lambda view: args(view)["limits"][1]["n"].append(3), lambda view: view.get_arg("limits").append(3),
    lambda view: view.get_arg("limits")[1].clear(), lambda view: view.properties.clear(),
    lambda view: view.subject.claims.clear() if view.subject else None,
    lambda view: view.object.permissions.append("x") if view.object else None,
    lambda view: view.data_policy.denied_actions.clear() if view.data_policy else None,
]  # fmt: skip


@pytest.mark.parametrize("attack", REFUSED)
def test_containers_refuse_changes(attack: Callable[[MessageView], Any]) -> None:
    view = call_view()
    before = copy.deepcopy(everything(view))
    with pytest.raises(TypeError, match="read-only"):
        attack(view)
    assert everything(view) == before


def test_annotations_refuse_changes() -> None:
    resource = block("resource", annotations={"a": {"b": [1]}})
    view = MessageView(resource, Role.USER)
    attacks: list[Callable[[], Any]] = [
        lambda: view.properties["annotations"].clear(),
        lambda: view.get_property("annotations")["a"].clear(),
        lambda: view.get_property("annotations")["a"]["b"].append(2),
    ]
    for attack in attacks:
        with pytest.raises(TypeError, match="read-only"):
            attack()
    assert view.get_property("annotations") == {"a": {"b": [1]}}


FORCED: list[Callable[[MessageView], Any]] = [
    lambda view: dict.__setitem__(view.headers, "a", "b"), lambda view: dict.clear(view.headers),
    lambda view: dict.clear(args(view)), lambda view: list.append(args(view)["limits"], 3),
    lambda view: dict.clear(view.properties), lambda view: list.append(view.get_arg("limits"), 3),
    lambda view: object.__setattr__(view.raw, "name", "other"), lambda view: view.raw.__dict__.clear(),
    lambda view: view.raw.__dict__["input"].clear(), lambda view: view.raw.__dict__["input"]["limits"].append(3),
    lambda view: object.__setattr__(view.subject, "id", "root"),
    lambda view: dict.clear(view.subject.claims) if view.subject else None,
    lambda view: object.__setattr__(view.object, "permissions", []),
    lambda view: object.__setattr__(view.data_policy, "denied_actions", []),
    lambda view: view.to_dict().clear(),
]  # fmt: skip


@pytest.mark.parametrize("attack", FORCED)
def test_forced_changes_reach_copies_only(attack: Callable[[MessageView], Any]) -> None:
    """Going around the guards changes the returned value, and nothing behind it."""
    call = ToolUseBlock(id="tu_1", name="execute_sql", input={"query": "SELECT 1", "limits": [1, {"n": [2]}]})
    message = Message.assistant([call], session_id="s")
    message_before, extensions = copy.deepcopy(message), full()
    (view,) = message.iter_views(extensions=extensions, calls={"tu_1": SQL})
    before = copy.deepcopy(everything(view))
    attack(view)
    assert everything(view) == before
    assert message == message_before
    assert extensions == full()


def test_a_view_survives_pickling() -> None:
    """It reads the same in another process."""
    view = call_view()
    again = pickle.loads(pickle.dumps(view))
    assert everything(again) == everything(view)
    assert repr(again) == repr(view)
