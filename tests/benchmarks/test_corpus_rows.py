"""benchmarks/corpus.py notices rows that differ."""

import pyarrow
import pyarrow.parquet
from corpus import same_rows


def test_rows_are_compared_whatever_their_row_groups(tmp_path):
    table = pyarrow.table({"id": range(3000), "embedding": [[0.5, float(row)] for row in range(3000)]})
    others = {
        "swapped": table.take([1, 0, *range(2, 3000)]),
        "missing": table.slice(1),
        "renamed": table.rename_columns(["x", "embedding"]),
        "changed": table.set_column(0, "id", [pyarrow.array([*range(2999), 0])]),
    }
    for name, rows in {"whole": table, **others}.items():
        pyarrow.parquet.write_table(rows, tmp_path / name)
    pyarrow.parquet.write_table(table, tmp_path / "groups", row_group_size=700)
    assert same_rows(tmp_path / "whole", tmp_path / "groups")
    assert not any(same_rows(tmp_path / "whole", tmp_path / name) for name in others)
