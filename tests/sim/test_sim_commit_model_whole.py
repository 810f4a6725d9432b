"""One lane whole, from reserving to the second crash: every row of commit_model.py. 1.2 GB a row.

ctest: model slow timeout=900
"""

import commit_model
import commit_rows

if __name__ == "__main__":
    commit_rows.main(commit_model.TABLE)
