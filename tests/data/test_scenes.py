"""Pictures with captions: what is drawn is what is said."""

from __future__ import annotations

import numpy as np
import pytest

from weft.data.synthetic import CAPTION_WORDS, captioned_shapes
from weft.data.synthetic.scenes import COLOURS, SHAPES
from weft.errors import OptionError, ShapeError


def test_captions_name_what_is_drawn_from_left_to_right():
    found = captioned_shapes(60, objects=2, noise=0.0, seed=0)
    palette = np.array(list(COLOURS.values()))
    for image, caption, kinds in zip(found.images.numpy(), found.captions, found.kinds.numpy(), strict=True):
        said = [part.split() for part in caption.split(" then ")]
        assert said == [[list(COLOURS)[c], SHAPES[s]] for c, s in kinds]
        for half, (colour, _) in zip((image[:, :, :16], image[:, :, 16:]), kinds, strict=True):
            lit = half.reshape(3, -1).T[half.reshape(3, -1).max(0) > 0.1001]
            assert len(lit) and np.allclose(lit, palette[colour])


def test_areas_are_those_of_the_shapes():
    """Shares of the square around: π/4, 0.8², the triangle, and the arms of the cross less their middle."""
    kinds = np.stack([np.zeros((400, 1)), np.repeat(np.arange(4), 100)[:, None]], -1).astype(np.int64)
    images = captioned_shapes(400, 64, 1, kinds=kinds, noise=0.0, seed=1).images.numpy()
    lit = images[:, 0] > 0.5
    side = np.array([np.ptp(np.flatnonzero(x.any(0))) + 1 for x in lit])
    share = (lit.sum((1, 2)) / side**2).reshape(4, 100).mean(1)
    cross = (4 * 0.3 * 0.95 * 2 - 4 * 0.3**2) / (4 * 0.95**2)
    np.testing.assert_allclose(share[[0, 1, 3]], [np.pi / 4, 1.0, cross], rtol=0.05)
    assert 0.4 < share[2] < 0.55


def test_tokens_are_the_words_between_start_and_end():
    found = captioned_shapes(5, 48, objects=3, seed=2)
    assert found.images.shape == (5, 3, 48, 48) and found.tokens.shape == (5, 10)
    assert {CAPTION_WORDS[row[0]] + CAPTION_WORDS[row[-1]] for row in found.tokens.tolist()} == {"<start><end>"}
    assert all(caption.count("then") == 2 for caption in found.captions)
    again = captioned_shapes(5, 48, objects=3, seed=2)
    assert (again.images == found.images).all() and captioned_shapes(0).images.shape == (0, 3, 32, 32)
    assert found.images.min() >= 0 and found.images.max() <= 1


@pytest.mark.parametrize(
    "options, error",
    [
        ({"n": -1}, OptionError),
        ({"objects": 0}, OptionError),
        ({"size": 15}, OptionError),
        ({"noise": -0.1}, OptionError),
        ({"kinds": np.zeros((3, 2, 2), int)}, ShapeError),
        ({"kinds": np.zeros((4, 2, 2))}, ShapeError),
        ({"kinds": np.full((4, 2, 2), 5)}, OptionError),
    ],
)
def test_what_cannot_be_drawn_is_refused(options, error):
    with pytest.raises(error, match="captioned_shapes"):
        captioned_shapes(**{"n": 4, **options})
