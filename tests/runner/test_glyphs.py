"""The labels of the bars of Figure 10 of "Design Guidelines for High Performance RDMA Systems" (2016) are in the text
layer of the paper as private codes, one for each digit. They are decoded here from what section 4.3.2 says of the
figure, and compared with plots/published."""

from __future__ import annotations

from itertools import permutations
from typing import Iterator

from loch.runner import published

# The eight bar labels of the figure, written in private codes U+E001 to U+E00A, here as the hexadecimal digits 1 to a;
# U+E003 is the decimal point. Their order in the paper's text: ConnectX-3 and Connect-IB by turns, with 0, 10, 50 and
# 100 % PUTs.
LABELS = ("1234", "55631", "434", "7839", "537", "1732", "38", "5a32")
POINT = "3"
# LOST: share of the rate without PUTs that 10 % PUTs cost; LEFT: share that 100 % PUTs leave; each on ConnectX-3 and on
# Connect-IB
LOST, LEFT = (0.72, 0.31), (0.04, 0.12)


def decoded(digits: dict[str, int]) -> tuple[float, ...]:
    """The numbers on the figure's bar labels if their private codes stand for the digits in `digits`."""
    return tuple(float("".join("." if code == POINT else str(digits[code]) for code in label)) for label in LABELS)


def fits(obtained: float, printed: float) -> bool:
    """Whether `printed`, a share rounded to whole percents, agrees with `obtained`."""
    return abs(obtained - printed) < 0.005 + 1e-9


def readings() -> Iterator[tuple[float, ...]]:
    """The labels' numbers for every assignment of digits to codes that agrees with the shares which section 4.3.2
    prints."""
    for first in permutations(range(10), 3):
        some = dict(zip("124", first))
        most, tenth = 10 * some["1"] + some["2"] + some["4"] / 10, 1.1 * some["4"]
        if some["1"] == 0 or not fits(1 - tenth / most, LOST[0]):
            continue
        for others in permutations(set(range(10)) - set(first), 6):
            digits = some | dict(zip("56789a", others))
            if digits["5"] == 0 or digits["7"] == 0 or not fits(digits["8"] / 10 / most, LEFT[0]):
                continue
            numbers = decoded(digits)
            if fits(1 - numbers[3] / numbers[1], LOST[1]) and fits(numbers[7] / numbers[1], LEFT[1]):
                yield numbers


def test_labels_have_two_readings_that_differ_in_one_digit() -> None:
    found = sorted(set(readings()))
    assert len(found) == 2
    assert [a == b for a, b in zip(*found)] == [True, True, True, False, True, True, True, True]


def test_published_rates_are_a_reading() -> None:
    item = published.find("guidelines-2016", "Figure 10")
    assert item is not None
    rates = [item.value("throughput_ops_s", series, get) for get in (1, 0.9, 0.5, 0) for series in ("CX3", "CIB")]
    assert tuple(round(rate / 1e6, 1) for rate in rates if rate is not None) in set(readings())


def test_a_share_that_the_text_does_not_print_has_no_reading() -> None:
    assert not fits(0.7204, 0.71)
    assert fits(0.7204, 0.72)
