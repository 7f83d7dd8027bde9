# A synthesiser fitted in the frequency domain: windows, STFT losses at several scales, linalg and special
import math

import torch
import torch.nn as nn
from torch.signal import windows

from portable import normal

torch.set_default_dtype(torch.float64)


class MultiScaleSTFTLoss(nn.Module):
    def __init__(self, sizes=(32, 64), make=windows.hann):
        super().__init__()
        self.sizes = sizes
        for n in sizes:
            self.register_buffer(f"window_{n}", make(n, sym=False), persistent=False)

    def forward(self, x, y):
        loss = 0.0
        for n in self.sizes:
            args = dict(n_fft=n, hop_length=n // 4, window=getattr(self, f"window_{n}"), return_complex=True)
            X, Y = torch.stft(x, **args).abs(), torch.stft(y, **args).abs()
            loss = loss + torch.linalg.norm(X - Y) / torch.linalg.norm(Y) + (X + 1e-5).log().sub((Y + 1e-5).log()).abs().mean()
        return loss


class Harmonics(nn.Module):
    def __init__(self, count=6):
        super().__init__()
        self.amplitude = nn.Parameter(torch.full((count,), 0.3))
        self.decay = nn.Parameter(torch.zeros(count))

    def forward(self, t):
        n = torch.arange(1, len(self.amplitude) + 1)
        waves = torch.sin(2 * math.pi * 8 * n[:, None] * t)
        return (self.amplitude[:, None] * torch.exp(-nn.functional.softplus(self.decay)[:, None] * t) * waves).sum(0)


t = torch.linspace(0, 1, 256)
target = sum(a * torch.sin(2 * math.pi * 8 * (n + 1) * t) for n, a in enumerate((0.9, 0.1, 0.5, 0.05, 0.2, 0.02))) * torch.exp(-t)
model, criterion = Harmonics(), MultiScaleSTFTLoss()
optimizer = torch.optim.RAdam(model.parameters(), lr=0.05)
history = []
for _ in range(10):
    loss = criterion(model(t), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())

for make in (windows.blackman, windows.hamming, windows.bartlett, windows.nuttall, windows.cosine):
    history.append(make(15).square().sum().item())
history.append(windows.kaiser(16, beta=8.0).sum().item())
history.append(windows.gaussian(16, std=3.0).sum().item())
spectrum = torch.fft.rfft(target * windows.general_hamming(256, alpha=0.6))
freqs = torch.fft.rfftfreq(256, d=1 / 256)
history.append((freqs * spectrum.abs()).sum().div(spectrum.abs().sum()).item() / 100)
A = normal(5, 5, dtype=torch.float64)
S = A @ A.mT + torch.eye(5)
Q, R = torch.linalg.qr(A)
history += [torch.linalg.slogdet(S).logabsdet.item(), torch.linalg.cond(S).log().item(), torch.linalg.matrix_exp(A / 10).trace().item()]
history += [torch.linalg.solve(S, A).norm().item(), torch.linalg.eigvalsh(S)[-1].log().item(), torch.linalg.multi_dot([A, S, A]).norm().log().item()]
history += [torch.special.erfinv(torch.tensor(0.3)).item(), torch.special.i0e(torch.tensor(2.0)).item(), torch.special.logit(torch.tensor(0.7)).item()]
history += [torch.special.gammaln(torch.tensor(4.5)).item(), torch.special.zeta(torch.tensor(2.0), torch.tensor(1.0)).item(), torch.special.xlog1py(torch.tensor(2.0), torch.tensor(0.5)).item()]
