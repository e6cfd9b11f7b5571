"""Tests that the error for an unknown flag suggests the most similar known flag."""

import pytest

from loch.runner import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run x.yaml --jbs 2", "--jbs 2; did you mean --jobs?"),
        ("run x.yaml --frseh", "--frseh; did you mean --fresh?"),
        ("run --st=a=b x.yaml", "--st=a=b; did you mean --set?"),
        ("score --jason x", "--jason; did you mean --json?"),
        ("plot results --quite-another-thing", "--quite-another-thing\n"),
    ],
)
def test_a_flag_that_is_not_known(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.parser().parse_args(words.split())
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1
