from shipper.line_formats import NONE
from shipper.line_times import detect_family


def test_a_line_with_deeply_nested_json_has_no_time():
    assert detect_family(['{"time": ' + "[" * 100_000]) == NONE
