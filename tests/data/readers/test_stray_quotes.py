"""A stray quote anywhere in a csv file costs one row."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reading import check_every_line_is_accounted_for, csv_rows, line_of, read

# Every field begins with a letter. Otherwise a quote may merge two rows into one valid record, as in `"a,1` and
# `b,",c"`, and no reader could notice.
TEXT = st.builds(str.__add__, st.sampled_from("ab"), st.text(st.sampled_from('ab ,"\n'), max_size=6))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8),
    data=st.data(),
)
def test_a_stray_quote_anywhere_harms_only_its_own_row(tmp_path, rows, data):
    pieces = csv_rows(rows)
    touched = data.draw(st.integers(0, len(rows) - 1), label="touched")
    place = data.draw(st.integers(0, len(pieces[touched]) - 1), label="place")
    pieces[touched] = pieces[touched][:place] + '"' + pieces[touched][place:]
    content = "text,label\n" + "".join(pieces)
    starts = [2 + "".join(pieces[:row]).count("\n") for row in range(len(rows) + 1)]
    own = range(starts[touched], starts[touched + 1])  # the lines of the row that was touched
    found = read(tmp_path, "a.csv", content.encode())

    check_every_line_is_accounted_for(found, content.encode())

    begins = {line_of(where): row for row, where in enumerate(found.origins)}
    values = list(zip(found.columns["text"], found.columns["label"], strict=True))
    for row, expected in enumerate(rows):
        if row != touched:
            assert values[begins[starts[row]]] == expected, starts[row]
    for line, row in begins.items():  # anything else that was read is part of the row that was touched
        assert line in own or values[row] == rows[starts.index(line)], line
