"""Sets that are drawn instead of downloaded: points in the plane, mixtures, curves, spins, graphs, sequences.

Every function takes `seed` (the same numbers each time) or `generator` (the next numbers of a stream), by default the
next numbers of Weft's own generator. Real numbers come in the default floating dtype, labels and tokens as int64.

    points      moons circles spirals checkerboard blobs two_gaussians xor swiss_roll
    mixtures    gaussian_ring ring_centres gaussian_grid grid_centres stacked_digits
    curves      polynomial sine sines
    spins       ising ising_energy
    graphs      sbm stochastic_block_model
    scenes      captioned_shapes
    sequences   copy_task reverse_task adding_task digit_sums

Example:
    >>> from weft.data import synthetic
    >>> points, labels = synthetic.moons(100, noise=0.1, seed=0)
    >>> tuple(points.shape), labels.bincount().tolist()
    ((100, 2), [50, 50])
"""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "points": ("blobs", "checkerboard", "circles", "moons", "spirals", "swiss_roll", "two_gaussians", "xor"),
    "mixtures": ("gaussian_grid", "gaussian_ring", "grid_centres", "ring_centres", "stacked_digits"),
    "curves": ("polynomial", "sine", "sines"),
    "spins": ("ising", "ising_energy"),
    "graphs": ("Graph", "sbm", "stochastic_block_model"),
    "scenes": ("CAPTION_WORDS", "CaptionedShapes", "captioned_shapes"),
    "sequences": ("adding_task", "copy_task", "digit_sums", "reverse_task"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
