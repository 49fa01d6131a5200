"""Signals that are held back come afterwards, each of them, and handlers are left as they were."""

import signal
from collections.abc import Iterator

import pytest

from covad.storage.interrupts import held_interrupts

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in BOTH}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_every_signal_is_handled_once_after_the_block() -> None:
    seen: list[int] = []
    for number in BOTH:
        signal.signal(number, lambda number, _: seen.append(number))
    with held_interrupts():
        for number in (*BOTH, *BOTH):
            signal.raise_signal(number)
        assert seen == []
    assert seen == list(BOTH)


def test_an_ignored_signal_stays_ignored_and_hides_no_other() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def block() -> None:
        with held_interrupts():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        block()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_signal_while_handlers_are_restored_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that raises as soon as it is back must not keep the other from coming back."""
    for number in BOTH:
        signal.signal(number, signal.default_int_handler)
    install = signal.signal

    def interrupted(number: int, handler: object) -> object:
        before = install(number, handler)
        if number == signal.SIGTERM and handler is signal.default_int_handler:
            signal.raise_signal(signal.SIGTERM)
        return before

    def block() -> None:
        with held_interrupts():
            monkeypatch.setattr(signal, "signal", interrupted)

    with pytest.raises(KeyboardInterrupt):
        block()
    monkeypatch.undo()
    assert [signal.getsignal(number) for number in BOTH] == [signal.default_int_handler] * 2
