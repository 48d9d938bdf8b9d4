"""The process: the command, the server, its workers and its log."""
