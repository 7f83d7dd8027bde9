import argparse

import torch
import torch.nn as nn
from torch.amp import GradScaler, autocast

from portable import images, reset

parser = argparse.ArgumentParser()
parser.add_argument('--amp', action=argparse.BooleanOptionalAction, default=True)
parser.add_argument('--amp-dtype', default='bfloat16')
args = parser.parse_args()
device = 'cuda' if torch.cuda.is_available() else 'cpu'
net = reset(nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 32), nn.ReLU(), nn.Linear(32, 4)))
x, y = images(16, size=8)
opt = torch.optim.SGD(net.parameters(), lr=0.02)
scaler = GradScaler(device, init_scale=128., enabled=args.amp)
history = []
for epoch in range(8):
    with autocast(device_type=device, dtype=getattr(torch, args.amp_dtype), enabled=args.amp):
        output = net(x)
        assert output.dtype is torch.bfloat16
        loss = nn.functional.cross_entropy(output, y)
        assert loss.dtype is torch.float32
        with torch.autocast(device, enabled=False):
            penalty = sum((p.float() ** 2).sum() for p in net.parameters())
    scaler.scale(loss + 1e-4 * penalty).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
    history.append(loss.item())
checkpoint = {"model": net.state_dict(), "optimizer": opt.state_dict(), "scaler": scaler.state_dict()}
torch.save(checkpoint, "amp.pt")
dev = torch.load("amp.pt", map_location=torch.device(device))
scaler.load_state_dict(dev["scaler"])
history.append(scaler.get_scale() / 128.)
