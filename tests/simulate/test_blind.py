"""What a choice draws where no candidate leaves any bias, and the noise that is fitted to it."""

from __future__ import annotations

import numpy as np
import pytest

from tidegauge.mechanism.noise.selection import likelihoods
from tidegauge.simulate.blind import FAR, coarsest, far

COUNTS = [10.0 * k**0.45 for k in (1, 2, 2, 3, 3, 4, 4, 8, 8, 16, 16, 32, 32, 64, 64, 128, 128)]
SIGNED = [10.0 * k**0.9 for k in (1, 2, 2, 3, 3, 4, 4, 8, 8, 16, 16, 32, 32, 64, 64, 128, 128)]


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("noise", [COUNTS, SIGNED], ids=["counts", "signed"])
def test_few_draws_are_far_off_and_a_coarser_draw_would_have_more(noise: list[float], pure: bool) -> None:
    scale = float(coarsest(noise, weight=1.25, pure=pure))
    assert far(noise, scale, weight=1.25, pure=pure) <= 0.1
    assert far(noise, 1.01 * scale, weight=1.25, pure=pure) > 0.1
    chances = likelihoods(1.25 * np.array(noise) / min(noise) / scale, pure=pure)
    shares = [chance for chance, one in zip(chances, noise, strict=True) if one > FAR * noise[0]]
    assert sum(shares) == pytest.approx(far(noise, scale, weight=1.25, pure=pure))


def test_a_draw_may_be_coarser_where_noise_grows_faster_with_at_most() -> None:
    assert coarsest(SIGNED, weight=1.25, pure=False) > coarsest(COUNTS, weight=1.25, pure=False)


def test_the_noise_of_a_draw_is_at_most_half_the_noise_of_the_release() -> None:
    assert float(coarsest([10.0, 11.0, 12.0], weight=1.25, pure=False)) == pytest.approx(0.5)
    assert far([10.0, 11.0, 12.0], 100.0, weight=1.25, pure=False) == 0


def test_a_scale_that_is_not_in_proportion_to_the_noise_changes_nothing() -> None:
    larger = [1000 * one for one in COUNTS]
    assert coarsest(larger, weight=1.25, pure=False) == coarsest(COUNTS, weight=1.25, pure=False)
