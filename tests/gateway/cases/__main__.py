"""`python -m tests.gateway.cases` counts the cases that tests reproduce."""

from tests.gateway.cases.table import report

if __name__ == "__main__":
    print(report())
