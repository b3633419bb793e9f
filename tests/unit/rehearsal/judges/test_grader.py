"""Which answers the lexical judge takes for the golden one."""

import pytest

from precis.rehearsal.judges.grader import grade

SAME = [
    ("The shop opens at 7 pm.", "It opens at 19:00."),
    ("The shop opens at 7 pm.", "It opens at seven o'clock."),
    ("It was founded on 5 November 2023.", "It was founded on 05/11/2023."),
    ("It was founded on 5 November 2023.", "It was founded on 11/05/2023."),
    ("It cost £2,500.", "It cost 2,500 pounds."),
    ("It cost £2,500.", "It cost 2,500."),
    ("It cost $1.5 million.", "It cost $1.5M."),
    ("The trail is 3 km long.", "The trail is 3 kilometers long."),
    ("It lasted two years.", "It lasted two school years, and was told of in two weeks."),
    ("Maria Lopez led the works.", "Lopez led the works."),
    ("Maria Lopez led the works.", "Mayor Lopez led the works."),
    ("Maria Lopez led the works.", "Yesterday Lopez led the works."),
    ("Maria Lopez led the works.", "Maria López led the works."),
    ("Bjo\u0308rn A\u030akesson led the works.", "Björn Åkesson led the works."),
    ("Søren Łęcki led the works.", "Soren Lecki led the works."),
]

DIFFERENT = [
    ("The shop opens at 7 pm.", "The shop opens at 7 am."),
    ("The shop opens at 14:30.", "The shop opens at 2:30 am."),
    ("The shop opens at midnight.", "The shop opens at noon."),
    ("It was founded on November 1.", "It was founded on the second of November."),
    ("It was founded on 6 November 2023.", "It was founded on 05/11/2023."),
    ("It cost £2,500.", "It cost €2,500."),
    ("It cost 2,500 dollars.", "It cost 2,500 euros."),
    ("The trail is 3 km long.", "The trail is 3 miles long."),
    ("It lasted three days.", "It lasted three hours."),
    ("There were 12 percent more.", "There were 12 kg more."),
    ("Maria Lopez led the works.", "Juan Lopez led the works."),
]


@pytest.mark.parametrize(("golden", "given"), SAME)
def test_the_same_in_another_form_is_right(golden: str, given: str) -> None:
    assert grade("What do we know of it?", golden, given)


@pytest.mark.parametrize(("golden", "given"), DIFFERENT)
def test_another_date_time_unit_or_name_is_wrong(golden: str, given: str) -> None:
    assert not grade("What do we know of it?", golden, given)
