"""Mutation tests: does a test fail if a line of this code is wrong? `python -m tests.upkeep.mutations [FILE...]`.

`operators` lists small changes of a file, `runner` runs the file's tests against each of them in a forked process, and
`mutations.toml` says which tests concern which file, and which surviving changes alter nothing. No file is ever
changed on disk.
"""
