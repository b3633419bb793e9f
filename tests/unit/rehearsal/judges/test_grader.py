"""Which answers the lexical judge takes for the golden one."""

import pytest

from precis.rehearsal.judges.grader import grade

DIFFERENT = [
    ("$1.2 million", "$1.3 million"),
    ("14 March 2023", "14 March 2022"),
    ("Ada Brightwater", "Ada Merriman"),
    ("450 members", "45 members"),
    ("because the roof beams had rotted", "because the lease had run out"),
    ("behind the brewery", "UNANSWERABLE"),
    ("7:30 a.m.", "8:30 a.m."),
    ("Grey Heron", ""),
    ("The fee was not raised by the board.", "The fee was raised by the board."),
    (
        "The ferry is run by Ada Quill and a son.",
        "The ferry is run by Tom Fry and a son.",
    ),
    ("Yes, the rule covers guests.", "No, the rule covers guests."),
    ("It fell from 61 members to 17.", "It fell from 61 members to 19."),
    ("The hall reopens on 1 September.", "The hall reopens on 1 October."),
    ("It lost by six votes to five.", "It lost by five votes to five."),
    ("It is shut until mid-April.", "It is shut until mid-May."),
    ("Brightwater had asked for a new lock.", "Merriman had asked for a new lock."),
    ("The key went to Óscar Quill.", "The key went to Émile Fry."),
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


@pytest.mark.parametrize(("golden", "given"), DIFFERENT)
def test_another_date_time_unit_or_name_or_the_opposite_is_wrong(golden: str, given: str) -> None:
    assert grade("What do we know of it?", golden, golden)
    assert not grade("What do we know of it?", golden, given)
