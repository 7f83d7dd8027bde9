"""Masked autoencoders (He et al. 2022): most patches of an image are hidden, a small decoder fills them in (N2 §8.5.3)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...nn.beyond.position_grid import sinusoidal_positions_2d
from ...tensor import Tensor
from ..vision.vit import EncoderBlock
from .base import SelfSupervised
from .hiding import hidden_count, hidden_places

__all__ = ["MaskedAutoencoder", "PatchEncoder", "Reconstruction", "patchify", "unpatchify"]

NORM = partial(nn.LayerNorm, eps=1e-6)


def patchify(images: Tensor, size: int) -> Tensor:
    """Patches from left to right and down, each a row of its pixels: (B, C, H, W) → (B, H/p · W/p, C p²).

    >>> patchify(weft.arange(16).reshape(1, 1, 4, 4), 2)[0, 1].tolist()
    [2, 3, 6, 7]
    """
    b, c, h, w = images.shape
    if h % size or w % size:
        raise ShapeError(f"patchify: images of {h}×{w} pixels are not made of patches of {size}×{size}")
    cut = images.reshape(b, c, h // size, size, w // size, size)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(
        b, -1, c * size**2
    )  # (B, C, h, p, w, p) → (B, h, w, C, p, p) → (B, P, C p²)


def unpatchify(patches: Tensor, size: int, channels: int) -> Tensor:
    """The images of `patchify`, which must be square: (B, P, C p²) → (B, C, H, W)"""
    b, count, _ = patches.shape
    side = round(count**0.5)
    cut = patches.reshape(b, side, side, channels, size, size)
    return cut.permute(0, 3, 1, 4, 2, 5).reshape(b, channels, side * size, side * size)  # → (B, C, h, p, w, p)


class PatchEncoder(nn.Module):
    """Blocks of a vision transformer over patches of which some may be missing; there is no class token, positions are fixed.

    image_size, patch_size: pixels along a side; in_channels: colours
    num_layers, num_heads, hidden_dim, mlp_dim: of the blocks
    Shape: images (B, C, H, W) → the mean over patches (B, hidden_dim)
    """

    positions: Tensor

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        in_channels: int,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise OptionError(f"PatchEncoder: image_size {image_size} is no multiple of patch_size {patch_size}")
        self.patch_size, self.seq_length = patch_size, (image_size // patch_size) ** 2
        self.embedding = nn.Linear(in_channels * patch_size**2, hidden_dim)
        self.register_buffer("positions", grid(self.seq_length, hidden_dim), persistent=False)
        blocks = (EncoderBlock(num_heads, hidden_dim, mlp_dim, 0.0, 0.0, NORM) for _ in range(num_layers))
        self.layers, self.norm = nn.Sequential(*blocks), NORM(hidden_dim)

    def forward(self, images: Tensor) -> Tensor:
        return self.encoded(patchify(images, self.patch_size)).mean(1)

    def encoded(self, patches: Tensor, kept: Tensor | None = None) -> Tensor:
        """Patches (B, P, C p²), of which those at `kept` (B, K) are seen, or all of them → (B, K or P, hidden_dim)"""
        x = self.embedding(patches) + self.positions  # (B, P, D)
        return self.norm(self.layers(x if kept is None else taken(x, kept)))


class Reconstruction(NamedTuple):
    """What a masked autoencoder makes of images: its pixels, the patches that it saw and its own beside them, the mask (B, P)."""

    said: Tensor
    filled: Tensor
    mask: Tensor


class MaskedAutoencoder(SelfSupervised):
    """An encoder that sees a quarter of the patches, a decoder that sees its codes and a token where patches were hidden.

    The loss is the mean squared error over the pixels of hidden patches, and of these alone.
    image_size, patch_size: pixels along a side; in_channels: colours
    num_layers, num_heads, hidden_dim, mlp_dim: of the encoder; decoder_layers, decoder_dim: of the decoder, with as many heads
    mask_ratio: share of the patches that is hidden, the same number in every image
    norm_pix_loss: the decoder is asked for patches less their mean, divided by their deviation
    `embed`: images → the mean of the codes of all patches (B, hidden_dim); shape of `loss`: images (B, C, H, W) → ()

    >>> model = MaskedAutoencoder(8, 2, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=16, decoder_dim=8)
    >>> x = weft.rand(3, 1, 8, 8)
    >>> model.embed(x).shape, model.loss(x).shape, model.reconstruct(x).mask.sum(1).tolist()
    (weft.Size([3, 8]), weft.Size([]), [12.0, 12.0, 12.0])
    """

    encoder: PatchEncoder
    positions: Tensor

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        *,
        num_layers: int = 4,
        num_heads: int = 4,
        hidden_dim: int = 64,
        mlp_dim: int = 256,
        decoder_layers: int = 1,
        decoder_dim: int = 32,
        mask_ratio: float = 0.75,
        norm_pix_loss: bool = False,
        in_channels: int = 1,
    ) -> None:
        super().__init__(PatchEncoder(image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, in_channels))
        self.in_channels, self.norm_pix_loss = in_channels, norm_pix_loss
        self.hidden = hidden_count(self.encoder.seq_length, mask_ratio)
        self.between = nn.Linear(hidden_dim, decoder_dim)
        self.token = nn.Parameter(nn.init.normal_(weft.empty(1, 1, decoder_dim), std=0.02))
        self.register_buffer("positions", grid(self.encoder.seq_length, decoder_dim), persistent=False)
        block = lambda: EncoderBlock(num_heads, decoder_dim, 4 * decoder_dim, 0.0, 0.0, NORM)
        self.decoder = nn.Sequential(*(block() for _ in range(decoder_layers)), NORM(decoder_dim))
        self.pixels = nn.Linear(decoder_dim, in_channels * patch_size**2)

    def decoded(self, patches: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Patches (B, P, F) → what is said of all of them (B, P, F), the mask (B, P), codes of the seen ones (B, K, D).

        noise: see `hidden_places`
        """
        b, count, _ = patches.shape
        order, places, mask = hidden_places(b, count, self.hidden, noise)
        codes = self.encoder.encoded(patches, order[:, : count - self.hidden])
        tokens = weft.cat([self.between(codes), self.token.expand(b, self.hidden, -1)], 1)  # in the order of `order`
        return self.pixels(self.decoder(taken(tokens, places) + self.positions)), mask, codes

    def outputs(self, *views: Tensor) -> tuple[Tensor, Tensor]:
        """The loss, (), and mean codes of what was seen, (B, D); one view, drawn places."""
        loss, codes = self.losses(views[0])
        return loss, codes

    def losses(self, images: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """As `outputs`, for places that may be given as `noise`."""
        patches = patchify(images, self.encoder.patch_size)
        said, mask, codes = self.decoded(patches, noise)
        error = ((said - self._wanted(patches)) ** 2).mean(-1)  # (B, P)
        return (error * mask).sum() / (len(images) * self.hidden), codes.mean(1)

    def _wanted(self, patches: Tensor) -> Tensor:
        if not self.norm_pix_loss:
            return patches
        mean, variance = patches.mean(-1, keepdim=True), patches.var(-1, keepdim=True)
        return (patches - mean) / (variance + 1e-6).sqrt()

    def reconstruct(self, images: Tensor, noise: Tensor | None = None) -> Reconstruction:
        """Images (B, C, H, W) with hidden patches filled in, in the units of the pixels; also under norm_pix_loss, which has
        to be told each patch's mean and deviation for it."""
        size = self.encoder.patch_size
        patches = patchify(images, size)
        said, mask, _ = self.decoded(patches, noise)
        if self.norm_pix_loss:
            said = said * (patches.var(-1, keepdim=True) + 1e-6).sqrt() + patches.mean(-1, keepdim=True)
        filled = weft.where(mask.unsqueeze(-1) > 0, said, patches)
        whole = [unpatchify(x, size, self.in_channels) for x in (said, filled)]
        return Reconstruction(whole[0], whole[1], mask)


def grid(count: int, features: int) -> Tensor:
    """Sines and cosines of the places of a square of patches, as large as what patches say: (1, P, D)"""
    side = round(count**0.5)
    return sinusoidal_positions_2d(side, side, features).reshape(1, count, features)  # (h, w, D) → (1, P, D)


def taken(x: Tensor, places: Tensor) -> Tensor:
    """x at these places of each example: (B, P, D), (B, K) → (B, K, D)"""
    return x.gather(1, places.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
