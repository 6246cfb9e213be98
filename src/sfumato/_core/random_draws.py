"""Draws random numbers exactly, for each row, from a secret key. This module is the only source of randomness.

Every draw is a function of (key, table, column, purpose, row, attempt). So a release does not depend on batch size,
threads or engine, and a run can be repeated from its key alone. The stream is AES-256 in counter mode. Each purpose of
each column has its own subkey by HKDF-SHA256, so that no random number is used twice. A kept key is bound to the table
that it protects (`bind_to_table`), so that it never draws the same numbers for two tables. A fresh key that is
discarded protects one table only.

Bounded integers are drawn by rejection from 64-bit numbers. If these are uniform, the integers are exactly uniform. So
the sampler follows exactly the rationals that a release publishes.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sfumato._core.array_types import BLOCK_ROWS, Bits64, Counts, UInts, UIntType
from sfumato._core.radix_sort import LARGEST_WORD, find_sorted_positions
from sfumato.errors import InternalError, SpecError

Halves = tuple[UInts, UInts]

VERSION = 4
"""The version of the draws. The same key gives the same draws in all software versions that have this number."""

BOUND_SINCE = 4
"""The first version in which a kept key is bound to one table."""

STREAM_VERSION = 1
"""The stream version, which is part of each subkey. The version changes if the streams change."""

KEY_BYTES = 32
WORD_BYTES = 8
BLOCK_BYTES = 16
WORDS_PER_BLOCK = BLOCK_BYTES // WORD_BYTES
LARGEST_BOUND = 2**63
"""The largest bound of drawn integers. Up to this bound, at least half of all 64-bit numbers are accepted, and 64 bits
suffice for arithmetic."""

LARGEST_TABLE = 65_536
"""Permutations up to this size are stored as a table, sorted by keyed random numbers. A Feistel network computes larger
ones."""

FEISTEL_ROUNDS = 10

ZEROS = memoryview(bytes(BLOCK_ROWS * WORD_BYTES))
"""The plaintext zeros, whose encryption is the keystream itself."""


@dataclass(frozen=True, slots=True)
class Draws:
    """A secret key, and the streams derived from it."""

    key: bytes = field(repr=False)
    is_test: bool = False
    column: str = ""
    _streams: dict[str, Stream] = field(default_factory=dict, repr=False, compare=False)
    """The streams in use. Streams are kept, because deriving a subkey takes as long as drawing thousands of numbers."""

    def __post_init__(self) -> None:
        if len(bytes(self.key)) != KEY_BYTES:  # a string could have this length, but is not a key
            raise SpecError(
                f"a key has {KEY_BYTES} bytes ({2 * KEY_BYTES} hexadecimal digits), not {len(self.key)}.",
                code="wrong-key-length",
                fields={"bytes": len(self.key), "expected": KEY_BYTES},
            )

    @classmethod
    def from_fresh_key(cls) -> Draws:
        """Draws a fresh key from the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def unsafe_test_key(cls, digits: str) -> Draws:
        """Uses a known key. Anyone who knows it can undo the protection, so such a release is unfit to publish."""
        try:
            key = bytes.fromhex(digits)
        except ValueError as error:
            raise SpecError("a test key must consist of hexadecimal digits.", code="key-not-hexadecimal") from error
        return cls(key, is_test=True)

    @classmethod
    def for_planning(cls) -> Draws:
        """Makes the key for planning only, always the same one, so that plans of one table agree with each other.

        Everybody knows this key, so it protects nothing. The key is harmless, because nothing drawn with this key is
        published. It counts as a test key, so a release drawn with this key by mistake would be marked unfit to
        publish.
        """
        return cls(_derive(bytes(KEY_BYTES), ["sfumato", "planning only"]), is_test=True)

    def separate(self, use: str) -> Draws:
        """Derives a key for another use than the release.

        The same key always gives the same derived key. None of its draws equals a draw of the release, although both
        draw for purposes of the same names.
        """
        return Draws(_derive(self.key, ["sfumato", "use", use]), self.is_test, self.column)

    def bind_to_table(self, content: str) -> Draws:
        """Binds the key to one table, by a digest of its content that is never published.

        The result shares no draw with the same key bound to another table.
        """
        return Draws(_derive(self.key, ["sfumato", "table", content]), self.is_test, self.column)

    def narrow_to_column(self, column: str) -> Draws:
        """Narrows the key to one column, so that no two columns share a random number."""
        return Draws(self.key, self.is_test, column)

    def get_stream(self, purpose: str) -> Stream:
        """The stream of one purpose."""
        if (stream := self._streams.get(purpose)) is None:
            stream = self._streams[purpose] = Stream(self._derive_subkey(purpose))
        return stream

    def make_permutations(self, purpose: str, sizes: Sequence[int]) -> list[Permutation]:
        """A keyed pseudo-random permutation of `range(size)` for each domain value of these sizes."""
        tables = self.get_stream(f"{purpose}/table")
        return [
            TablePermutation.from_stream(tables, size, item * LARGEST_TABLE)
            if size <= LARGEST_TABLE
            else FeistelPermutation.of(self._derive_subkey(f"{purpose}/feistel/{item}"), size)
            for item, size in enumerate(sizes)
        ]

    def _derive_subkey(self, purpose: str) -> bytes:
        return _derive(self.key, ["sfumato", STREAM_VERSION, self.column, purpose])


def _derive(key: bytes, context: list[str | int]) -> bytes:
    """Derives a subkey for one context."""
    # JSON keeps the parts unambiguous: ("a", "b/c") and ("a/b", "c") must differ.
    info = json.dumps(context).encode()
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(key)


@dataclass(frozen=True, slots=True)
class Stream:
    """An endless stream of 64-bit numbers, addressed by row and attempt."""

    subkey: bytes = field(repr=False)

    def draw_bits(self, first_row: int, rows: int, attempt: int = 0) -> Bits64:
        """One uniform 64-bit number for each row, starting at `first_row`.

        The counter block is (attempt, block) with 64 bits each, so attempts never overlap. The keystream is read as
        little-endian numbers on every machine.
        """
        first_block, skipped = divmod(first_row, WORDS_PER_BLOCK)
        nonce = attempt.to_bytes(8, "big") + first_block.to_bytes(8, "big")
        encryptor = Cipher(algorithms.AES(self.subkey), modes.CTR(nonce)).encryptor()
        bits = np.empty(rows + skipped + WORDS_PER_BLOCK, dtype="<u8")  # the cipher needs space for one more block
        keystream = bits.data.cast("B")
        for start in range(0, (rows + skipped) * WORD_BYTES, len(ZEROS)):
            encryptor.update_into(ZEROS[: (rows + skipped) * WORD_BYTES - start], keystream[start:])
        return bits[skipped : skipped + rows]

    def draw_integers(self, first_row: int, rows: int, bound: int | Bits64) -> Bits64:
        """One exactly uniform integer of `range(bound)` for each row; a rejected number is drawn again.

        Each integer stands for `share` consecutive 64-bit numbers. A 64-bit number above all of these is rejected.
        """
        lowest = highest = bound
        if isinstance(bound, np.ndarray):
            lowest, highest = (int(find_extreme(bound)) if len(bound) else 1 for find_extreme in (np.min, np.max))
        if lowest < 1 or highest > LARGEST_BOUND:
            raise InternalError("an integer can be drawn only below a bound from 1 to 2^63.", code="bound-out-of-range")
        # Dividing by one number is much faster than dividing by an array of equal numbers.
        bounds = np.asarray(bound if lowest < highest else lowest, dtype=np.uint64)
        shares = LARGEST_WORD // bounds
        integers = self.draw_bits(first_row, rows) // shares
        rejected_rows, attempt = np.flatnonzero(integers >= bounds), 0
        while len(rejected_rows):
            attempt += 1
            fresh_bits = self._draw_at_rows(np.uint64(first_row) + rejected_rows.astype(np.uint64), attempt)
            integers[rejected_rows] = fresh_bits // np.broadcast_to(shares, rows)[rejected_rows]
            rejected_rows = rejected_rows[integers[rejected_rows] >= np.broadcast_to(bounds, rows)[rejected_rows]]
        return integers

    def _draw_at_rows(self, row_numbers: Bits64, attempt: int) -> Bits64:
        """The random number of each given row. The numbers are read from the same keystream, block by block."""
        blocks = np.empty((len(row_numbers), WORDS_PER_BLOCK), dtype=">u8")
        blocks[:, 0] = attempt
        blocks[:, 1] = row_numbers // WORDS_PER_BLOCK
        keystream = _encrypt_blocks(self.subkey, blocks)
        return keystream[np.arange(len(row_numbers)), row_numbers % WORDS_PER_BLOCK]


class Permutation(Protocol):
    """A bijection of `range(size)`, applied to many numbers at once."""

    def __call__(self, ranks: UInts, /) -> UInts:
        """The slot of each rank, in the narrowest type."""
        ...

    def invert(self, slots: UInts, /) -> UInts:
        """The rank of each slot."""
        ...


@dataclass(frozen=True, slots=True)
class TablePermutation:
    """A permutation stored as a table."""

    table: UInts

    @classmethod
    def from_stream(cls, stream: Stream, size: int, first: int = 0) -> TablePermutation:
        """Sorts by the random numbers of a stream from `first`. Every order is exactly equally likely.

        Equal numbers are ordered by the numbers of the next attempt, so no position is preferred.
        """
        bits = [stream.draw_bits(first, size)]
        order = find_sorted_positions(bits[0])
        is_tied = np.diff(bits[0].take(order)) == 0
        while is_tied.any():
            bits.append(stream.draw_bits(first, size, len(bits)))
            order = np.lexsort(bits[::-1])
            is_tied = np.logical_and.reduce([np.diff(attempt_bits[order]) == 0 for attempt_bits in bits])
        return cls(order.astype(np.min_scalar_type(size)))

    def __call__(self, ranks: UInts, /) -> UInts:
        """The slot of each rank."""
        return self.table.take(ranks)

    def invert(self, slots: UInts, /) -> UInts:
        """The rank of each slot."""
        ranks = np.empty_like(self.table)
        ranks[self.table] = np.arange(len(self.table))
        return ranks.take(slots)


@dataclass(frozen=True, slots=True)
class FeistelPermutation:
    """A permutation computed by alternating keyed additions to the two halves of a number.

    A number below `left_size * right_size` is a pair of halves. Each round adds a keyed hash of one half to the other.
    The product exceeds `size` by less than `left_size`, so few results are outside the range and need further rounds. A
    half has few values, so a table holds the hashes of a round, and no number needs a cipher call of its own. Source:
    the generalised Feistel network of Black and Rogaway 2002, with AES as the round function.
    """

    size: int
    left_size: int
    right_size: int
    rounds: tuple[UInts, ...] = field(repr=False)

    @classmethod
    def of(cls, subkey: bytes, size: int) -> FeistelPermutation:
        """Splits the range into a nearly square grid."""
        left_size = math.isqrt(size - 1) + 1
        sizes = (left_size, -(-size // left_size))
        rounds = []
        for number in range(FEISTEL_ROUNDS):  # one hash for each value of the other half
            own, other = sizes[number % 2], sizes[1 - number % 2]
            blocks = np.empty((other, WORDS_PER_BLOCK), dtype="<u8")
            blocks[:, 0] = number
            blocks[:, 1] = np.arange(other)
            rounds.append((_encrypt_blocks(subkey, blocks)[:, 0] % np.uint64(own)).astype(_choose_half_type(left_size)))
        return cls(size, *sizes, tuple(rounds))

    def __call__(self, ranks: UInts, /) -> UInts:
        """The slot of each rank."""
        sizes = self.left_size, self.right_size
        return self._walk_cycle(ranks, lambda halves: _apply_rounds(halves, self.rounds, sizes))

    def invert(self, slots: UInts, /) -> UInts:
        """The rank of each slot."""

        def undo_rounds(halves: Halves) -> Halves:
            left, right = halves
            for number in reversed(range(0, len(self.rounds), 2)):
                right = _wrap_around(right + (self.right_size - self.rounds[number + 1].take(left)), self.right_size)
                left = _wrap_around(left + (self.left_size - self.rounds[number].take(right)), self.left_size)
            return left, right

        return self._walk_cycle(slots, undo_rounds)

    def _walk_cycle(self, numbers: UInts, apply_rounds: Callable[[Halves], Halves]) -> UInts:
        """Repeats the rounds until the number is within the range."""
        slots = np.empty(len(numbers), dtype=np.min_scalar_type(self.left_size * self.right_size))
        for start in range(0, len(numbers), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            slots[part] = self._apply_once(numbers[part].astype(slots.dtype), apply_rounds)
        outside = np.flatnonzero(slots >= self.size)
        while len(outside):
            slots[outside] = self._apply_once(slots[outside], apply_rounds)
            outside = outside[slots[outside] >= self.size]
        return slots

    def _apply_once(self, numbers: UInts, apply_rounds: Callable[[Halves], Halves]) -> UInts:
        half = _choose_half_type(self.left_size)
        whole = numbers // self.right_size
        left, right = apply_rounds((whole.astype(half), (numbers - whole * self.right_size).astype(half)))
        joined: UInts = left.astype(numbers.dtype) * self.right_size + right
        return joined


@dataclass(frozen=True, slots=True)
class FeistelPermutations:
    """Several networks. The numbers of all of them go through each round together.

    A single network may have only a few thousand numbers, and threads would then often wait for each other.
    """

    sizes: UInts
    left_sizes: UInts
    right_sizes: UInts
    rounds: tuple[UInts, ...] = field(repr=False)
    """The hashes of each round, one network after the other."""

    @classmethod
    def from_networks(cls, networks: Sequence[FeistelPermutation]) -> FeistelPermutations:
        """Combines several networks."""
        lefts, rights = ([getattr(network, side) for network in networks] for side in ("left_size", "right_size"))
        kind = np.min_scalar_type(max(map(math.prod, zip(lefts, rights, strict=True)), default=0))
        # This type must hold the sum of two halves, and of a half and the start of its network's hashes.
        half = np.min_scalar_type(max(2 * max(lefts, default=0), sum(lefts)))
        return cls(
            np.array([network.size for network in networks], dtype=kind),
            np.array(lefts, dtype=half),
            np.array(rights, dtype=half),
            tuple(
                np.concatenate(hashes).astype(half)
                for hashes in zip(*(network.rounds for network in networks), strict=True)
            ),
        )

    def __call__(self, network_numbers: UInts, rank_counts: Counts, ranks: UInts) -> UInts:
        """The slots of ranks in some networks, in order; `rank_counts` gives the number of ranks of each."""
        slots = self._apply_once(network_numbers, rank_counts, ranks.astype(self.sizes.dtype, copy=False))
        outside = np.flatnonzero(slots >= np.repeat(self.sizes.take(network_numbers), rank_counts))
        while len(outside):
            networks = np.repeat(network_numbers, rank_counts)[outside]
            slots[outside] = self._apply_once(networks, 1, slots[outside])
            outside = outside[slots[outside] >= self.sizes.take(networks)]
        return slots

    def _apply_once(self, network_numbers: UInts, rank_counts: Counts | int, numbers: UInts) -> UInts:
        def repeat_for_ranks(network_values: UInts) -> UInts:
            return np.repeat(network_values.take(network_numbers), rank_counts)

        sizes = repeat_for_ranks(self.left_sizes), repeat_for_ranks(self.right_sizes)
        firsts = repeat_for_ranks(_compute_starts(self.left_sizes)), repeat_for_ranks(_compute_starts(self.right_sizes))
        half, widths = sizes[1].dtype, sizes[1].astype(numbers.dtype)
        whole = numbers // widths
        left, right = _apply_rounds(
            (whole.astype(half), (numbers - whole * widths).astype(half)), self.rounds, sizes, firsts
        )
        joined: UInts = left.astype(numbers.dtype) * widths + right
        return joined


def _compute_starts(sizes: UInts) -> UInts:
    """The start of each part in a concatenation of parts of these sizes."""
    starts: UInts = np.cumsum(sizes, dtype=sizes.dtype) - sizes
    return starts


def _apply_rounds(
    halves: Halves,
    rounds: Sequence[UInts],
    sizes: tuple[UInts | int, UInts | int],
    firsts: tuple[UInts | int, UInts | int] = (0, 0),
) -> Halves:
    """Applies all rounds of networks of these sizes; `firsts` gives the start of their hashes."""
    left, right = halves
    for number in range(0, len(rounds), 2):
        left = _wrap_around(left + rounds[number].take(firsts[1] + right), sizes[0])
        right = _wrap_around(right + rounds[number + 1].take(firsts[0] + left), sizes[1])
    return left, right


def _choose_half_type(left_size: int) -> UIntType:
    """The narrowest type for the sum of two numbers below the size of the larger half."""
    return np.min_scalar_type(2 * left_size)


def _wrap_around(numbers: UInts, size: UInts | int) -> UInts:
    """Reduces numbers below `2 * size` modulo the size; the unsigned difference is huge where a number is smaller."""
    wrapped: UInts = np.minimum(numbers, numbers - size)
    return wrapped


def _encrypt_blocks(subkey: bytes, blocks: UInts) -> Bits64:
    """Encrypts each block with the plain block cipher, as a pseudo-random function. It never encrypts a message."""
    encryptor = Cipher(algorithms.AES(subkey), modes.ECB()).encryptor()
    return np.frombuffer(encryptor.update(blocks.tobytes()), dtype="<u8").reshape(-1, WORDS_PER_BLOCK)
