"""One lane whole, from reserving to the second crash: the rows of commit_model.py that take seconds.

Left to test_sim_commit_model_whole.py: the design in a SYNC lane looked at step by step, and the
three variants that hold with as many states.

ctest: model
"""

import commit_model
import commit_rows

LEFT_OUT = [
    dict(look="run"),
    dict(look="run", mode="ASYNC", handshake="none"),
    dict(look="run", mode="ASYNC", handshake="any"),
    dict(look="run", mode="ASYNC", close_normal=0),
]

if __name__ == "__main__":
    rows = [row for row in commit_model.TABLE if row[0] not in LEFT_OUT]
    assert len(rows) == len(commit_model.TABLE) - len(LEFT_OUT), "a row was renamed"
    commit_rows.main(rows)
