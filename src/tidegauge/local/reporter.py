"""The part that runs on a person's device: one file, standard library only, made to be read and vendored.

A Reporter turns the person's answer in each window into bytes for a collector, which need not be trusted.
The privacy loss of all reports of one person together is at most the survey's epsilon: numbers that serve
accuracy (nu, good, share, level) cannot weaken the bound, and the loss of a report is computed here.

Randomness: 256 bits from the system, drawn once.  Every choice is HMAC-SHA-256 of that secret and a label,
compared with exact integers.  Asking again for a window returns the same bytes: no choice is drawn twice.
e^-epsilon is rounded up (`acceptance`), which makes the loss smaller, never larger.

State: one JSON value per survey in a mapping that the host persists, written before the bytes are returned.
* Lost (empty after the person's first window): the reporter is idle for the rest of the survey.
* Restored from an older copy: the reporter sees missed windows, in which it may have spent budget.  A role
  that spends in its windows is idle for the rest of the survey after it has missed one.
A host that vouches for its state with state_is_current=True (backups leave it out, say) is believed: a change
in missed windows is reported in the next one.  Being idle depends on the windows that were asked for, never
on an answer, and the report says so.  One state must not run on two devices, and a host must not ask for
windows that are over.  A survey with window times is answered in the current window only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import struct
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypedDict

VERSION: Final = 1
ONE: Final = 1 << 64  # probabilities are whole multiples of 2^-64
FIRST: Final = 1  # flags of a report: the first of this person;
IDLE: Final = 2  # nothing to say in this window
HEADER: Final = struct.Struct(">BB8sHI8s")  # version, flags, survey, role, window, token
GroupJson = TypedDict("GroupJson", {"changes": int, "nu": str, "good": list[list[int]],  # noqa: UP013
    "kind": str, "share": int, "oracle": str, "branching": int, "layers": int, "level": int, "map": str,
}, total=False)  # fmt: skip
Kept = TypedDict("Kept", {"first": int,  # noqa: UP013  (the state of one survey)
    "window": int | None, "used": int, "retired": bool, "answers": list[int], "report": str, "secret": str,
}, total=False)  # fmt: skip


class ReporterError(ValueError):
    """The survey, state or request is not valid; nothing was drawn or changed."""


@lru_cache(maxsize=64)
def acceptance(epsilon: Fraction) -> int:
    """The weight of any other output against ONE for the true one: ONE / weight is at most e^epsilon."""
    if epsilon >= 45:  # e^-45 < 2^-64
        return 1
    scale, step = 1 << 192, 0
    term = total = scale  # every term is rounded down, so total / scale <= e^epsilon
    while term:
        step += 1
        term = term * epsilon.numerator // (epsilon.denominator * step)
        total += term
    return -(-ONE * scale // total)


def pattern_weights(
    *, changes: int, signals: int, nu: int, good: Sequence[Sequence[int]], accept: int
) -> dict[tuple[int, int], int]:
    """The weight of every (matches, mismatches) that a pattern can have: mu, tilted towards `good`.  [T11]"""
    favoured, silent = {tuple(pair) for pair in good}, ONE - signals * nu
    weights, choices = {}, 1
    for match in range(changes + 1):
        ways = choices
        for mismatch in range(changes - match + 1):
            rest = changes - match - mismatch
            law = ways * nu**match * ((signals - 1) * nu) ** mismatch * silent**rest
            weights[match, mismatch] = law * (ONE if (match, mismatch) in favoured else accept)
            ways = ways * rest // (mismatch + 1)
        choices = choices * (changes - match) // (match + 1)
    return weights


def map_rows(group: GroupJson, answers: int) -> int:
    """How many public variants of a group there are: tracked answers, sign vectors, or just one."""
    return {"coordinate": answers, "sign": (1 << answers.bit_length()) - 1}.get(group.get("map", ""), 1)


def map_signals(group: GroupJson, answers: int) -> int:
    """How many different changes a tilted report can express."""
    return answers * (answers + 1) if group["map"] == "pair" else 2


def responses_of_a_life(group: GroupJson, *, windows: int, changes: int, answers: int) -> int:
    """The number of randomized responses among which a group's epsilon is divided."""
    if group["kind"] == "response":  # two lives of K changes differ in at most 2K windows of a layer  [T7]
        width = group["branching"]
        return sum(min(2 * changes, windows // width**layer) for layer in range(group["layers"]))
    return min(changes, answers) + 1 if group["kind"] == "memoized" else 1  # one for each answer given


def below(key: bytes, label: str, total: int) -> int:
    """A uniform integer in [0, total), the same for the same key and label."""
    bits, attempt = (total - 1).bit_length(), 0
    while True:
        stream = hmac.digest(key, f"{label}:{attempt}".encode(), "sha256")
        while 8 * len(stream) < bits:
            stream += hmac.digest(key, stream, "sha256")
        value = int.from_bytes(stream, "big") >> (8 * len(stream) - bits)
        if value < total:
            return value
        attempt += 1


def choose(key: bytes, label: str, weights: Sequence[int]) -> int:
    """An index, with probability in proportion to its weight."""
    value, index = below(key, label, sum(weights)), 0
    while value >= weights[index]:
        value, index = value - weights[index], index + 1
    return index


class Spec:
    """A survey as a device reads it, from the survey's JSON text."""

    def __init__(self, text: str) -> None:
        self.hash = hashlib.sha256(text.encode()).digest()[:8]
        try:
            data = json.loads(text)
            version, reveals = data["version"], data["reveals_change_times"] is True
            self.answers: list[str] = data["answers"]
            self.absent = len(self.answers)  # the index of "not there"
            self.windows, self.changes = int(data["windows"]), int(data["changes"])
            self.epsilon = Fraction(data["epsilon"])
            self.seed = hashlib.sha256(data["seed"].encode()).digest()
            self.start = None if data["start"] is None else datetime.fromisoformat(data["start"]).timestamp()
            self.every = float(data["every"] or 0)
            self.groups: list[GroupJson] = data["groups"]
            rows = [map_rows(group, self.absent) for group in self.groups]
            self.roles = [(g, row) for g, count in enumerate(rows) for row in range(count)]
            self.payload = max(self.size(group) for group in self.groups)
            sound = all(self._sound(group) for group in self.groups) and 0 < self.absent < 255
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as problem:
            raise ReporterError(f"this is not a survey: {problem!r}") from None
        if version != VERSION:
            raise ReporterError(f"the survey is of version {version}, the reporter of {VERSION}")
        timed = self.start is None or self.every > 0
        if not (sound and timed and self.windows > 0 and self.changes > 0 and self.epsilon > 0):
            raise ReporterError("the survey has numbers that no protocol can have")
        if not reveals and any(group["kind"] == "memoized" for group in self.groups):
            raise ReporterError("memoized answers show when one changes or returns; the survey must say so")

    def _sound(self, group: GroupJson) -> bool:
        """Whether a group is what the proofs assume; everything else in it affects accuracy alone."""
        if int(group["share"]) <= 0:
            return False
        if group["kind"] == "tilted":
            k, known = len(range(group["changes"])), group["map"] in {"coordinate", "sign", "pair"}
            law = 0 < map_signals(group, self.absent) * int(group["nu"]) <= ONE and known and k > 0
            return law and group["level"] >= 0 and all(i + j <= k for i, j in group["good"])
        if group["kind"] == "response":
            return bool(group["branching"] >= 2 and group["layers"] >= 1)
        return group["kind"] in {"snapshot", "memoized"} and group["oracle"] in {"grr", "oue"}

    def size(self, group: GroupJson) -> int:
        """How many bytes a group's reports need after the header."""
        return -(-self.absent // 8) if group.get("oracle") == "oue" else 2 * int(group.get("layers", 1))

    def signal(self, group: GroupJson, row: int, before: int, after: int) -> int | None:
        """The signal of this change; None if this role does not see it."""
        if before == after:
            return None
        if group["map"] == "pair":
            return before * self.absent + after - (after > before)
        if group["map"] == "coordinate":
            return 0 if after == row else 1 if before == row else None
        was, now = ((row + 1 & symbol).bit_count() & 1 for symbol in (before, after))
        return None if was == now else now

    def due(self, group: GroupJson, when: int, window: int) -> bool:
        """Whether a group speaks in a window; `when` is the one window of a snapshot."""
        if group["kind"] == "snapshot":
            return window == when
        return group["kind"] != "tilted" or (window + 1) % (1 << int(group["level"])) == 0

    def loss(self, group: GroupJson) -> Fraction:
        """The loss of one randomized response; those of one person add up to epsilon."""
        life = {"windows": self.windows, "changes": self.changes, "answers": self.absent}
        return self.epsilon / responses_of_a_life(group, **life)


read_spec = lru_cache(maxsize=64)(Spec)


class Reporter:
    """Reports one person's answer, window by window.

    survey:           a Survey, or its JSON text.
    state:            a mapping that the host persists; FileState is one in a file.
    secret:           32 random bytes stored apart from the state (in a keychain); else drawn and put into it.
    first_window:     the window in which this person takes part for the first time.
    state_is_current: the host vouches that the state was never lost and never restored from an older copy.
    clock:            seconds since 1970, for a survey that says when its windows are.
    """

    def __init__(
        self, survey: Any, state: MutableMapping[str, Kept], *, secret: bytes | None = None,
        first_window: int = 0, state_is_current: bool = False, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._spec = spec = read_spec(survey if isinstance(survey, str) else survey.to_json())
        self._state, self._vouched, self._name, self._clock = state, state_is_current, spec.hash.hex(), clock
        if self._name not in state:
            drawn: Kept = {} if secret is not None else {"secret": secrets.token_bytes(32).hex()}
            blank: Kept = {"window": None, "used": 0, "retired": False, "answers": [], "report": ""}
            state[self._name] = blank | drawn | {"first": first_window}
        try:
            root = bytes.fromhex(state[self._name]["secret"]) if secret is None else secret
        except (KeyError, TypeError, ValueError):
            root = b""
        if len(root) != 32:
            raise ReporterError("the state or secret is damaged; without its state the reporter is idle")
        self._key = hmac.digest(root, b"survey:" + spec.hash, "sha256")
        self.role, self._when = self._assigned()
        group, self._row = spec.roles[self.role]
        self._group = spec.groups[group]
        self._accept = acceptance(spec.loss(self._group))
        self._pattern: list[int] = []

    def _assigned(self) -> tuple[int, int]:
        """Role and snapshot window: a public function of the survey's seed and a random number."""
        spec, member = self._spec, hmac.digest(self._key, b"member", "sha256").hex()[:16]
        group = choose(spec.seed, f"group:{member}", [int(g["share"]) for g in spec.groups])
        row = below(spec.seed, f"row:{member}", map_rows(spec.groups[group], spec.absent))
        return spec.roles.index((group, row)), below(spec.seed, f"when:{member}", spec.windows)

    def report(self, window: int, answer: str | None) -> bytes:
        """The report for a window (answer None: "not there"); asking again returns the same bytes.

        Raises ReporterError for a window that is past or not now, and for an unknown answer.
        """
        spec, role, kept = self._spec, self._group, self._state[self._name]
        if not 0 <= window < spec.windows:
            raise ReporterError(f"the survey has windows 0 to {spec.windows - 1}")
        if answer is not None and answer not in spec.answers:
            raise ReporterError("this is not one of the survey's answers")
        last, first = kept["window"], kept["window"] is None
        if last is not None and window <= last:
            if window == last:
                return bytes.fromhex(kept["report"])
            raise ReporterError(f"window {window} is past: window {last} was already reported")
        if spec.start is not None and window != (self._clock() - spec.start) // spec.every:
            raise ReporterError(f"window {window} is not now; missed windows are not reported later")
        kept = kept | {"window": window, "answers": list(kept["answers"])}
        missed = range(kept["first"] if last is None else last + 1, window)
        # something may have been spent in missed windows, and before the first report by any role
        often = role["kind"] != "snapshot"
        spends = [first or (often and spec.due(role, self._when, each)) for each in missed]
        kept["retired"] |= any(spends) and not self._vouched
        symbol = spec.absent if answer is None else spec.answers.index(answer)
        idle = kept["retired"] or not spec.due(role, self._when, window)
        body = b"" if idle else self._body(role["kind"], kept, window, symbol)
        flags = (FIRST if first and not kept["retired"] else 0) | (IDLE if idle else 0)
        token = hmac.digest(self._key, b"token:%d" % window, "sha256")[:8]
        head = HEADER.pack(VERSION, flags, spec.hash, self.role, window, token)
        report = head + body.ljust(spec.payload, b"\0")
        self._state[self._name] = kept | {"report": report.hex()}
        return report

    def _body(self, kind: str, kept: Kept, window: int, symbol: int) -> bytes:
        if kind == "snapshot":
            return self._state_of(f"snapshot:{window}", symbol)
        if kind == "memoized":
            held = self._allowed(kept, symbol)
            return self._state_of(f"memo:{held}", held)
        return (self._response if kind == "response" else self._tilted)(kept, window, symbol)

    def _choose(self, label: str, weights: Sequence[int]) -> int:
        return choose(self._key, label, weights)

    def _pick(self, label: str, total: int) -> int:
        return below(self._key, label, total)

    def _respond(self, label: str, true: int, size: int) -> int:
        """Randomized response over `size` symbols; the weight of a false one is acceptance / ONE."""
        if self._choose(label, [ONE, self._accept * (size - 1)]) == 0:
            return true
        other = self._pick(f"{label}:other", size - 1)
        return other + (other >= true)

    def _state_of(self, label: str, symbol: int) -> bytes:
        """The answer, or its absence, through the group's frequency oracle."""
        absent = self._spec.absent
        if self._group["oracle"] == "grr":
            return self._respond(label, symbol, absent + 1).to_bytes(2, "big")
        size, bits = self._spec.size(self._group), 0
        for each in range(absent):  # the true bit is a fair coin
            weights = [1, 1] if each == symbol else [ONE, self._accept]
            bits |= self._choose(f"{label}:{each}", weights) << (8 * size - 1 - each)
        return bits.to_bytes(size, "big")

    def _response(self, kept: Kept, window: int, symbol: int) -> bytes:
        """The net change in every layer's window that ends now, by randomized response over all changes."""
        absent, out = self._spec.absent, b""
        now, befores = self._allowed(kept, symbol), kept["answers"]
        for layer in range(self._group["layers"]):
            if (window + 1) % self._group["branching"] ** layer:
                out += b"\0\0"
                continue
            befores += [absent] * (layer + 2 - len(befores))
            before, befores[layer + 1] = befores[layer + 1], now
            true = absent * (absent + 2) if before == now else before * (absent + 1) + now
            out += self._respond(f"layer:{layer}:{window}", true, (absent + 1) ** 2).to_bytes(2, "big")
        return out

    def _allowed(self, kept: Kept, symbol: int) -> int:
        """The answer with every change after the last allowed one dropped."""
        held = kept["answers"][0] if kept["answers"] else self._spec.absent
        if symbol != held and kept["used"] < self._spec.changes:
            kept["used"] += 1
            held = symbol
        kept["answers"][:1] = [held]
        return held

    def _tilted(self, kept: Kept, window: int, symbol: int) -> bytes:
        """An allowed change follows the secret pattern; everything else follows the base law."""
        group, nu, signals = self._group, int(self._group["nu"]), map_signals(self._group, self._spec.absent)
        before = kept["answers"][0] if kept["answers"] else self._spec.absent
        kept["answers"], pattern = [symbol], self._entries()  # if it fails, then for any answer
        signal = self._spec.signal(group, self._row, before, symbol)
        if signal is None or kept["used"] >= group["changes"]:
            if self._choose(f"base:{window}", [signals * nu, ONE - signals * nu]) == 1:
                return b"\0\0"
            return (1 + self._pick(f"base:{window}:signal", signals)).to_bytes(2, "big")
        entry, kept["used"] = kept["used"], kept["used"] + 1
        if pattern[entry] == 1:
            other = self._pick(f"mismatch:{entry}", signals - 1)
            signal = other + (other >= signal)
        return b"\0\0" if pattern[entry] == 2 else (1 + signal).to_bytes(2, "big")

    def _entries(self) -> list[int]:
        """The secret pattern (0 match, 1 mismatch, 2 silent), which depends on the secret alone."""
        if not self._pattern:
            group, k = self._group, self._group["changes"]
            nu, d = int(group["nu"]), map_signals(group, self._spec.absent)
            weights = pattern_weights(changes=k, signals=d, nu=nu, good=group["good"], accept=self._accept)
            match, mismatch = list(weights)[self._choose("pattern", list(weights.values()))]
            left = [match, mismatch, k - match - mismatch]
            for entry in range(k):
                says = self._choose(f"pattern:{entry}", left)
                left[says] -= 1
                self._pattern.append(says)
        return self._pattern


class FileState(MutableMapping[str, Kept]):
    """A reporter's state in a small JSON file of mode 0600, replaced as a whole and flushed to the disk."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def _read(self) -> dict[str, Kept]:
        try:
            return dict(json.loads(self._path.read_text())) if self._path.exists() else {}
        except (TypeError, ValueError):
            raise ReporterError("the reporter's state file is damaged.  Repair it, or delete it") from None

    def _write(self, values: dict[str, Kept]) -> None:
        beside = self._path.with_name(self._path.name + ".new")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(values, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)  # the renaming, too, must be on the disk
        os.fsync(folder)
        os.close(folder)

    def __getitem__(self, name: str) -> Kept:
        return self._read()[name]

    def __setitem__(self, name: str, value: Kept) -> None:
        self._write({**self._read(), name: value})

    def __delitem__(self, name: str) -> None:
        self._write({key: value for key, value in self._read().items() if key != name})

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


def report_to_json(report: bytes) -> str:
    """A report as JSON, for hosts that cannot send bytes."""
    version, flags, survey, role, window, token = HEADER.unpack_from(report)
    said = {"first": bool(flags & FIRST), "idle": bool(flags & IDLE), "payload": report[HEADER.size :].hex()}
    about = {"version": version, "survey": survey.hex(), "window": window, "role": role, "token": token.hex()}
    return json.dumps(about | said)
