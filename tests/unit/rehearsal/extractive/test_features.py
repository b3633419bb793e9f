import subprocess
import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from precis.rehearsal.extractive.features import NAMES, Features, featurize

ARTICLE = (
    "Bridge closed\n\n"
    "The old bridge in Norwick closed on 3 May 2024 because rust was found. "
    "It will stay shut for six weeks, said Mayor Ada Lindqvist. "
    "Many people like bridges.\n"
    "Repairs cost $40,000 and start at 7:30 a.m. on Monday."
)


def column(features: Features, name: str) -> list[float]:
    values: list[float] = features.matrix[:, NAMES.index(name)].tolist()
    return values


def test_columns_have_mean_zero_and_say_where_the_facts_are() -> None:
    features = featurize(ARTICLE)
    assert features.matrix.shape == (5, len(NAMES))
    assert np.abs(features.matrix.mean(axis=0)).max() < 1e-9
    assert np.argmax(column(features, "causes")) == 1
    assert np.argmax(column(features, "numbers")) in (1, 4)
    assert column(features, "hedges")[3] > 0


def test_text_without_sentence_ends_is_cut_into_pieces() -> None:
    features = featurize("word " * 200)
    assert features.words.tolist() == [80, 80, 40]


def test_another_process_sees_the_same_bits() -> None:
    program = (
        "import sys, hashlib; from precis.rehearsal.extractive.features import featurize;"
        "print(hashlib.sha256(featurize(sys.argv[1]).matrix.tobytes()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program, ARTICLE],
            env={"OMP_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    ]
    assert runs[0] == runs[1]


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=300))
def test_any_text_has_finite_features(text: str) -> None:
    features = featurize(text)
    assert features.matrix.shape == (len(features.sentences), len(NAMES))
    assert np.isfinite(features.matrix).all()
