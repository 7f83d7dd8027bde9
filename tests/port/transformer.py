"""A Transformer encoder that classifies padded sequences: sinusoidal positions, masks, AdamW, warm-up by LambdaLR."""

import math

import numpy as np

VOCABULARY, LENGTH, WIDTH = 16, 10, 16


def data(torch):
    """The class is whether the first symbol comes again."""
    rng = np.random.default_rng(4)
    tokens = rng.integers(1, VOCABULARY, (16, LENGTH))
    for i, n in enumerate(rng.integers(5, LENGTH + 1, 16)):
        tokens[i, n:] = 0
    label = (tokens[:, 1:] == tokens[:, :1]).any(1).astype(np.int64)
    return torch.from_numpy(tokens), torch.from_numpy(label)


def build(torch):
    nn = torch.nn

    class PositionalEncoding(nn.Module):
        def __init__(self):
            super().__init__()
            position = torch.arange(LENGTH).unsqueeze(1)
            frequency = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH))
            table = torch.zeros(1, LENGTH, WIDTH)
            table[0, :, 0::2] = torch.sin(position * frequency)
            table[0, :, 1::2] = torch.cos(position * frequency)
            self.register_buffer("table", table, persistent=False)

        def forward(self, x):
            return x + self.table[:, : x.size(1)]

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, WIDTH)
            self.position = PositionalEncoding()
            layer = nn.TransformerEncoderLayer(
                WIDTH, nhead=4, dim_feedforward=32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(
                layer, num_layers=2, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False
            )
            self.head = nn.Linear(WIDTH, 2)

        def forward(self, tokens):
            padding = tokens == 0
            x = self.position(self.embedding(tokens) * math.sqrt(WIDTH))
            x = self.encoder(x, src_key_padding_mask=padding)
            keep = (~padding).unsqueeze(-1).float()
            return self.head((x * keep).sum(dim=1) / keep.sum(dim=1))

    return Classifier()


def run(torch, steps, start=None):
    model = build(torch)
    if start is not None:
        model.load_state_dict({name: torch.from_numpy(value) for name, value in start.items()})
    tokens, label = data(torch)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}], lr=2e-3
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(tokens), label)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        scheduler.step()
        losses.append(float(loss.detach()))
    return losses
