"""What docstrings say about parameters, in three styles and in none."""

import pytest

from dragoman.tools import signature

NAMES = ("path", "limit", "rest")

GOOGLE = """Read a file.

    Slowly.

    Args:
        path: Where it is: a path,
            and nothing else.

            Not a URL.
        limit (int, optional): How many lines.
        rest (Callable[[int], str]):
            What else.
        ctx: Not a parameter any more.

    Returns:
        path: not this one.
    """

NUMPY = """Read a file.

    Slowly.

    Parameters
    ----------
    path : str
        Where it is: a path,
        and nothing else.

        Not a URL.
    limit : int, default 3
        How many lines.
    *rest
        What else.

    Returns
    -------
    path : str
        Not this one.
    """

REST = """Read a file.

    Slowly.

    :param path: Where it is: a path,
        and nothing else.
        Not a URL.
    :type path: str
    :param int limit: How many lines.
    :param rest: What else.
    :returns: Not this one.

    Nor this.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_three_styles_give_the_same(text: str) -> None:
    assert signature.docstring_summary(text) == "Read a file.\n\nSlowly."
    assert signature.docstring_parameters(text, NAMES) == {
        "path": "Where it is: a path, and nothing else. Not a URL.",
        "limit": "How many lines.",
        "rest": "What else.",
    }


@pytest.mark.parametrize(
    ("text", "summary", "parameters"),
    [
        ("", "", {}),
        ("One line.", "One line.", {}),
        ("Args:\n    path: A path.", "", {"path": "A path."}),
        ("A.\n\nArguments:\n  path: A path.\nlimit: No entry.", "A.", {"path": "A path."}),
        ("A.\n\nArgs:\n    path:\n    limit: L.", "A.", {"limit": "L."}),
        ("A.\n\nArgs:\n", "A.", {}),
        ("A.\n\nArgs:\n    path: One\n    line too deep.\n    limit: L.", "A.",
         {"path": "One line too deep.", "limit": "L."}),
        ("A.\n\nArgs:\n    PATH: Not ours.", "A.", {}),
        ("Takes args: some.", "Takes args: some.", {}),
        ("A.\n\nParameters\n----------\npath, limit : int\n    Both.", "A.", {"path": "Both.", "limit": "Both."}),
        ("A.\n\nParameters\n\nare good.", "A.\n\nParameters\n\nare good.", {}),
        ("Uses :class:`Path`.\n:class:`Path` is good.", "Uses :class:`Path`.\n:class:`Path` is good.", {}),
        ("A.\n\n:param path: P.\n:param path: Twice.", "A.", {"path": "Twice."}),
        ("A.\n\n:param path: P.\n\nMore.", "A.", {"path": "P."}),
        ("A.\n\nNote:\n    Read this.", "A.\n\nNote:\n    Read this.", {}),
        ("A.\n\nArgs:\n\tpath: With a tab.", "A.", {"path": "With a tab."}),
        ("A.\n\nRaises:\n    OSError: path: no.", "A.", {}),
        ("A table:\n\n-----\nx", "A table:\n\n-----\nx", {}),
    ],
)  # fmt: skip
def test_odd_docstrings_are_read_as_far_as_possible(text: str, summary: str, parameters: dict[str, str]) -> None:
    """The summary keeps everything that is not a section, and no name is invented."""
    assert signature.docstring_summary(text) == summary
    assert signature.docstring_parameters(text, NAMES) == parameters
