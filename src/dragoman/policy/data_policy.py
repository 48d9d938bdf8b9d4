"""Data policies: what an entity's answer is labelled with, and what may be done with it afterwards (CMF A4.3)."""

from collections.abc import Iterable, Mapping

from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.security import DataPolicy
from dragoman.canonical.message import Message
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.canonical.message_view.view import iter_views
from dragoman.policy.labels import with_labels
from dragoman.policy.plugin import Violation


def data_policies(
    message: Message, extensions: Extensions | None, calls: Mapping[str, CalledTool] | None = None
) -> tuple[DataPolicy, ...]:
    """Of what answers something in this message: results of tools, resources and prompts, by their name, else URI."""
    if extensions is None or extensions.security is None or not extensions.security.data:
        return ()
    views = iter_views(message, extensions=extensions, calls=calls)
    answers = (view for view in views if view.is_tool or view.is_resource or view.is_prompt)
    return tuple(policy for view in answers if view.is_post and (policy := view.data_policy))


def apply_data_labels(
    message: Message, extensions: Extensions | None, calls: Mapping[str, CalledTool] | None = None
) -> Extensions | None:
    """The extensions with the labels that the policies of this message's data apply."""
    policies = data_policies(message, extensions, calls)
    labels = {label for policy in policies for label in policy.apply_labels}
    return with_labels(extensions, labels) if labels else extensions


def check_data_use(actions: Iterable[str], policies: Iterable[DataPolicy]) -> Violation | None:
    """What stands against doing any of these with data under these policies; None where nothing does."""
    listed = tuple(policies)
    for action in actions:
        if not all(policy.permits(action) for policy in listed):
            reason = f"data in this conversation may not be used for {action!r}"
            return Violation(reason, code="data_policy", plugin="data policy")
    return None
