"""A typed program as a user writes it: checked by pyright and mypy (test_user_program.py), and run.

Every line that names a type is a claim about what an editor knows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import weft
import weft.nn.functional as F
from weft import Tensor, nn
from weft.data import DataLoader, TensorDataset
from weft.distributions import Categorical, Distribution, Independent, Normal, kl_divergence
from weft.optim.lr_scheduler import CosineAnnealingLR


def tensors() -> Tensor:
    """Tensors made in many ways, then seventy methods."""
    x = weft.randn(4, 6, requires_grad=True)
    y = weft.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=weft.float64)
    zeros: Tensor = weft.zeros(2, 3) + weft.zeros((2, 3)) + weft.ones([2, 3], dtype=weft.float32)
    steps: Tensor = weft.arange(0, 10, 2) + weft.linspace(0, 1, 5) + weft.full((5,), 3.0)
    from_array: Tensor = weft.from_numpy(np.ones((2, 2)))
    one = x.exp().log().sin().cos().tanh().sigmoid().relu().abs().sqrt().square()
    two = one.clamp(0, 1).pow(2).add(1).sub(2).mul(3).div(4).neg().round().floor().ceil()
    three = two.reshape(6, 4).t().transpose(0, 1).permute(1, 0).contiguous().view(24).unsqueeze(0).squeeze(0)
    four = three.expand(2, 24).repeat(2, 1).flatten().unfold(0, 4, 4).flip(0).roll(1)
    sums: Tensor = x.sum(dim=1, keepdim=True) + x.mean(0, keepdim=True) + x.std() + x.var(dim=0).prod()
    places: Tensor = x.argmax(dim=1) + x.argmin(1) + x.argsort(dim=1)[:, 0]
    values, indices = x.topk(2, dim=1)
    ordered: Tensor = x.sort(dim=1, descending=True).values + x.cumsum(1) + x.softmax(dim=1) + x.log_softmax(-1)
    chosen: Tensor = x.gather(1, indices).masked_fill(values > 0, 0.0)
    halves: tuple[Tensor, ...] = x.chunk(2, dim=1)
    rows: tuple[Tensor, ...] = x.unbind(0)
    joined: Tensor = weft.cat([*halves, rows[0][None].expand(4, 6)], dim=1)
    product: Tensor = x @ x.mT + x.matmul(x.T) + x.norm() + x.detach().double().float().trace()
    truth: bool = bool((x == x).all()) and x.isfinite().any().item() is not None and x.allclose(x)
    count: int = x.size(0) + x.stride(1) + x.numel() + x.ndim + x.dim() + x.shape[0] + len(x)
    kind: weft.dtype = y.dtype
    sizes: weft.Size = x.size()
    where: weft.device = x.device
    number: float = float(x.amax() - x.amin()) + x.logsumexp(0).max().item()
    list_of_numbers: list[float] = x.cpu().detach().numpy().ravel().tolist()
    with weft.no_grad():
        x.mul_(2).add_(1).clamp_(min=0.0).zero_().fill_(1.0).copy_(weft.ones(4, 6))
    x.requires_grad_().sum().backward()
    gradient: Tensor | None = x.grad
    assert gradient is not None and sizes and truth and count and kind and where and number and list_of_numbers
    assert places.numel() and chosen.numel() and joined.numel() and steps.numel() and zeros.numel()
    solved: Tensor = weft.linalg.solve(y, weft.eye(2, dtype=weft.float64)) + from_array
    powers: Tensor = weft.fft.fft(y).abs() + weft.special.erf(y) + weft.where(y > 2, y, -y)
    return (
        four.sum() + sums.sum() + ordered.sum() + product.sum() + solved.sum() + powers.sum() + weft.einsum("ij->", y)
    )


class Network(nn.Module):
    """Thirty layers, each with its own arguments."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.ZeroPad2d(1),
            nn.Conv2d(8, 8, 3, groups=2),
            nn.GroupNorm(2, 8),
            nn.GELU(),
            nn.AvgPool2d(2),
            nn.ConvTranspose2d(8, 8, 2, stride=2),
            nn.InstanceNorm2d(8),
            nn.SiLU(),
            nn.Upsample(scale_factor=2),
            nn.AdaptiveAvgPool2d(4),
            nn.Dropout2d(0.1),
            nn.Flatten(),
            nn.Unflatten(1, (16, 8)),
            nn.LayerNorm(8),
            nn.LeakyReLU(0.1),
            nn.Identity(),
        )
        self.embedding = nn.Embedding(16, 8, padding_idx=0)
        self.attention = nn.MultiheadAttention(8, num_heads=2, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.0, batch_first=True)
        self.lstm = nn.LSTM(8, 8, num_layers=1, batch_first=True)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.norm = nn.RMSNorm(8)
        self.drop = nn.Dropout(p=0.1)
        self.act = nn.Softplus()
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.scale = nn.Parameter(weft.ones(8))
        self.out = nn.Linear(8, classes)
        self.register_buffer("seen", weft.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.features(x) + self.embedding(weft.arange(16))
        h = self.encoder(self.attention(h, h, h)[0])
        h = self.norm(self.gru(self.lstm(h)[0])[0]) * self.scale
        for block in self.blocks:
            h = h + self.drop(self.act(block(h)))
        return self.out(h.mean(1))


def parameters(model: nn.Module) -> Iterator[nn.Parameter]:
    weights: dict[str, Tensor] = dict(model.state_dict())
    model.load_state_dict(weights)
    for name, parameter in model.named_parameters():
        assert name and parameter.requires_grad
        yield parameter


def train(model: Network) -> float:
    """A loop by hand: optimisers, a schedule, a compiled step."""
    images, labels = weft.rand(8, 1, 16, 16), weft.randint(0, 10, (8,))
    loader = DataLoader(TensorDataset(images, labels), batch_size=4, shuffle=True, drop_last=False)
    optimizer = weft.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), weight_decay=0.01)
    other: weft.optim.Optimizer = weft.optim.SGD(list(parameters(model)), lr=0.1, momentum=0.9, nesterov=True)
    schedule = CosineAnnealingLR(optimizer, T_max=2)
    criterion, last = nn.CrossEntropyLoss(label_smoothing=0.1), 0.0
    for batch, target in loader:
        loss: Tensor = criterion(model(batch), target) + F.mse_loss(F.relu(batch), F.gelu(batch))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        schedule.step()
        last = loss.item()
    other.zero_grad()
    return last


@weft.compile
def quick(x: Tensor) -> Tensor:
    return (x * x).sum()


def chances() -> Tensor:
    """Distributions, transforms of functions."""
    normal = Normal(weft.zeros(3), weft.ones(3))
    wide: Distribution = Independent(Normal(0.0, 2.0).expand([3]), 1)
    draws: Tensor = normal.rsample((5,))
    density: Tensor = (
        normal.log_prob(draws).sum() + wide.log_prob(draws).sum() + Categorical(logits=draws).entropy().sum()
    )
    slope: Tensor = weft.func.grad(quick)(draws)
    rows: Tensor = weft.vmap(weft.sum)(draws)
    return density + kl_divergence(normal, Normal(1.0, 1.0)).sum() + slope.sum() + rows.sum()


def trainer() -> weft.train.History:
    """The trainer, with a task and callbacks."""
    images, labels = weft.rand(8, 1, 16, 16), weft.randint(0, 10, (8,))
    loader = DataLoader(TensorDataset(images, labels), batch_size=4)
    task = weft.train.Classification(Network(), lr=1e-3)
    stop = weft.train.EarlyStopping("val_loss", patience=2)
    return weft.train.Trainer(2, callbacks=[stop], run_folder=False, compile=False, progress=False).fit(
        task, loader, loader
    )


if __name__ == "__main__":
    print(tensors(), train(Network()), chances(), trainer())
