"""Settings are refused alike, whether a study file or a program makes them."""

import pickle

import pytest

from covad.errors import SettingsError
from covad.settings import Clip, Count, NuEntry, Positive, Settings


class Inner(Settings):
    events: Count = 5


class Outer(Settings):
    inner: Inner = Inner()
    sigma: Positive = 0.1
    nu: NuEntry = (0.0,)
    clip: Clip = "tune"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sigma": 0}, "Outer: sigma: it should be greater than 0"),
        ({"sigma": "x"}, "Outer: sigma: a number was expected, not 'x'"),
        ({"sigma": True}, "Outer: sigma: a number was expected, not true or false"),
        ({"clip": "tun"}, "Outer: clip: 'tune' or a positive number was expected, not 'tun'"),
        ({"sigm": 1.0}, "Outer: sigm: there is no such key (is 'sigma' meant?)"),
        ({"inner": {"events": 1.5}}, "Outer: inner.events: it should be a valid integer"),
        ({"nu": ()}, "Outer: nu: "),
    ],
)
def test_what_cannot_be_is_named_with_its_key(values, message):
    with pytest.raises(SettingsError) as failure:
        Outer(**values)
    assert str(failure.value).startswith(message)


def test_numbers_may_be_written_as_text_and_a_single_nuisance_without_brackets():
    found = Outer(sigma="1e-3", nu=1, inner={"events": "2e3"}, clip="1.5")
    assert (found.sigma, found.nu, found.inner.events, found.clip) == (1e-3, (1.0,), 2000, 1.5)


def test_a_changed_copy_is_checked_too():
    first = Outer()
    assert first.changed(sigma=0.2) == Outer(sigma=0.2)
    assert first == Outer()
    with pytest.raises(SettingsError, match="sigma"):
        first.changed(sigma=-1.0)


def test_settings_can_be_sent_to_workers_and_looked_up():
    some = Outer(sigma=0.3)
    assert pickle.loads(pickle.dumps(some)) == some
    assert len({some, Outer(sigma=0.3), Outer()}) == 2
